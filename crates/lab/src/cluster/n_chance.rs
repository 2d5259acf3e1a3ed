//! N-chance forwarding: a client passes the last copy of a block on, up to n times, before the copy
//! is evicted.
//!
//! Dahlin et al. 1994, section 2.4; xFS has it. A client that evicts a singlet sends it to another
//! client at random, with a recirculation count of n. The receiver treats the block as just used,
//! and lowers the count when it evicts the block in turn. A request for the block clears the count.
//! A receiver that makes room evicts a duplicate among its oldest, or else the block with the
//! fewest chances left. The receiver passes nothing on, so that one eviction does not start a chain
//! without end.

use super::{Cluster, ClusterScheme, NodeMemory, ServedFrom, greedy};
use shoal_trace::Random;

/// N-chance forwarding.
pub struct NChance {
    /// n; Dahlin et al. use 2.
    chances: u8,
    random: Random,
}

impl NChance {
    /// Creates the scheme with `chances` chances, and the seed that selects receivers.
    pub fn new(chances: u8, seed: u64) -> Self {
        Self { chances, random: Random::new(seed) }
    }

    fn evict(&mut self, cluster: &mut Cluster, node: usize) {
        let Some(object) = cluster.nodes[node].oldest() else { return };
        let (last_used, mark) = (cluster.nodes[node].last_used(object), cluster.nodes[node].mark(object));
        // A mark of one more than the chances left distinguishes a block never passed on from a
        // block without chances.
        let left = if mark == 0 { self.chances } else { mark - 1 };
        cluster.remove(node, object);
        if cluster.copies(object) > 0 {
            return;
        }
        if left > 0 {
            self.pass_on(cluster, node, object, last_used, left - 1);
        }
    }

    fn pass_on(&mut self, cluster: &mut Cluster, from: usize, object: u32, last_used: u32, left: u8) {
        let others = cluster.nodes.len().saturating_sub(1) as u64;
        let to = self.random.below(others) as usize;
        let to = if to >= from { to + 1 } else { to };
        if others == 0 || !cluster.serves(to) {
            return;
        }
        if cluster.nodes[to].is_full()
            && let Some(victim) = victim(cluster, to)
        {
            cluster.remove(to, victim);
        }
        cluster.insert(to, object, last_used);
        cluster.nodes[to].set_mark(object, left + 1);
        cluster.forward(from, to);
    }
}

/// Returns the block that a node evicts for a block that is passed on to it.
fn victim(cluster: &Cluster, node: usize) -> Option<u32> {
    let memory: &NodeMemory = &cluster.nodes[node];
    let chances = |object: u32| match (cluster.copies(object), memory.mark(object)) {
        (2.., _) => 0,
        (_, 0) => u8::MAX,
        (_, mark) => mark,
    };
    memory.from_oldest().take(LOOKED_AT).map(|(object, _)| object).min_by_key(|object| chances(*object))
}

impl ClusterScheme for NChance {
    fn name(&self) -> &'static str {
        "n-chance forwarding"
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        let served = greedy::ask(cluster, node, object);
        // A block that was passed on and not used since moves to the node that requests it.
        if let ServedFrom::Remote { .. } = served
            && let Some(other) = cluster.other_holder(node, object)
            && cluster.nodes[other].mark(object) != 0
        {
            cluster.remove(other, object);
        }
        if cluster.nodes[node].is_full() {
            self.evict(cluster, node);
        }
        cluster.insert(node, object, cluster.now);
        served
    }
}

/// Number of oldest blocks searched for a victim.
const LOOKED_AT: usize = 8;
