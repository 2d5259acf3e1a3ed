//! Direct client cooperation: the memory of idle nodes is private backing store of active ones.
//!
//! Dahlin et al. 1994, section 2.1; as Comer and Griffioen 1990, Felten and Zahorjan 1991 and the Remote Memory Pager have it. What a client evicts goes to its part of
//! the idle nodes' memory; nobody else can get it there. The server knows nothing of it.

use super::{Cluster, Memory, Served, System};

/// See the file's head.
pub struct Direct {
    /// Each node's private backing store on idle nodes; none for the idle nodes themselves.
    backing: Vec<Option<Memory>>,
}

impl Direct {
    /// The memory of nodes that are idle is shared out equally among the others. A node beyond the list is active.
    pub fn new(size: &super::Size, is_idle: &[bool]) -> Self {
        let idle = |node: usize| is_idle.get(node).copied().unwrap_or(false);
        let nodes = size.nodes.len();
        let frames: usize = (0..nodes).filter(|node| idle(*node)).map(|node| size.nodes[node]).sum();
        let active = (0..nodes).filter(|node| !idle(*node)).count().max(1);
        let backing = |node: usize| (!idle(node)).then(|| Memory::new(frames / active, size.objects));
        Self { backing: (0..nodes).map(backing).collect() }
    }
}

impl System for Direct {
    fn name(&self) -> &'static str {
        "direct client cooperation"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> Served {
        if cluster.touch(node, object) {
            return Served::Local;
        }
        let backing = &mut self.backing[node];
        let is_backed = backing.as_mut().is_some_and(|memory| memory.remove(object));
        let served = if is_backed { Served::Remote(2) } else { cluster.ask_server(object, 2).0 };
        if cluster.nodes[node].is_full()
            && let Some(evicted) = cluster.nodes[node].oldest()
        {
            cluster.remove(node, evicted);
            if let Some(memory) = backing {
                memory.take_in(evicted, cluster.now);
                cluster.counts.forwarded += 1;
            }
        }
        cluster.insert(node, object, cluster.now);
        served
    }
}
