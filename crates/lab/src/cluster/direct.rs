//! Direct client cooperation: the memory of idle nodes is private backing store of active ones.
//!
//! Dahlin et al. 1994, section 2.1; also Comer and Griffioen 1990, Felten and Zahorjan 1991 and the
//! Remote Memory Pager. A client's victims go to its part of the idle nodes' memory, where no other
//! client can get them. The server does not know of them.

use super::{Cluster, ClusterScheme, LocatedBy, NodeMemory, ServedFrom};

/// Direct client cooperation.
pub struct Direct {
    /// Private backing store of each node on the idle nodes; none for the idle nodes themselves.
    backing: Vec<Option<NodeMemory>>,
    /// The idle nodes.
    idle: Vec<usize>,
}

impl Direct {
    /// Shares the memory of idle nodes equally among the others. A node beyond the list is active.
    pub fn new(size: &super::ClusterSize, is_idle: &[bool]) -> Self {
        let idle = |node: usize| is_idle.get(node).copied().unwrap_or(false);
        let nodes = size.nodes.len();
        let frames: usize = (0..nodes).filter(|node| idle(*node)).map(|node| size.nodes[node]).sum();
        let active = (0..nodes).filter(|node| !idle(*node)).count().max(1);
        let backing = |node: usize| (!idle(node)).then(|| NodeMemory::new(frames / active, size.objects));
        let idle = (0..nodes).filter(|node| idle(*node)).collect();
        Self { backing: (0..nodes).map(backing).collect(), idle }
    }
}

impl ClusterScheme for Direct {
    fn name(&self) -> &'static str {
        "direct client cooperation"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        let backing = &mut self.backing[node];
        let frame = backing.as_ref().and_then(|memory| memory.frame(object));
        let served = match frame.and_then(|frame| lender(&self.idle, frame)) {
            Some(from) => ServedFrom::Remote { from, hops: 2, asked: LocatedBy::Nobody },
            None => cluster.ask_server(object, 2).0,
        };
        if let Some(memory) = backing {
            memory.remove(object);
        }
        if cluster.nodes[node].is_full()
            && let Some(evicted) = cluster.nodes[node].oldest()
        {
            cluster.remove(node, evicted);
            if let Some(memory) = backing {
                memory.take_in(evicted, cluster.now);
                let to = memory.frame(evicted).and_then(|frame| lender(&self.idle, frame));
                if let Some(to) = to {
                    cluster.forward(node, to);
                }
            }
        }
        cluster.insert(node, object, cluster.now);
        served
    }

    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        for memory in self.backing.iter_mut().flatten() {
            memory.remove(object);
        }
        cluster.written(node, object);
    }

    fn lost(&mut self, cluster: &mut Cluster, node: usize) {
        let lenders = self.idle.len();
        if !self.idle.contains(&node) {
            self.backing[node] = None;
            return;
        }
        for memory in self.backing.iter_mut().flatten() {
            let mut left = NodeMemory::new(memory.capacity() * (lenders - 1) / lenders, cluster.objects());
            for (object, last_used) in memory.from_oldest() {
                let stands_on = memory.frame(object).and_then(|frame| lender(&self.idle, frame));
                if stands_on != Some(node) {
                    left.take_in(object, last_used);
                }
            }
            *memory = left;
        }
        self.idle.retain(|idle| *idle != node);
    }
}

/// Returns the idle node that holds a frame of a backing store: frames are dealt out in turn.
fn lender(idle: &[usize], frame: usize) -> Option<usize> {
    idle.get(frame % idle.len().max(1)).copied()
}
