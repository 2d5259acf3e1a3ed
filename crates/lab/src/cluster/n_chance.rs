//! N-chance forwarding: a client passes the last copy of a block on, up to n times, before the copy
//! is evicted.
//!
//! Dahlin et al. 1994, section 2.4; xFS has it. A client that evicts a singlet sends it to another
//! client at random, with a recirculation count of n. The receiver treats the block as just used,
//! and lowers the count when it evicts the block in turn. A request for the block clears the count.
//! A receiver that makes room evicts its oldest duplicate, or else the oldest block with the fewest
//! chances left. The receiver passes nothing on, so that one eviction does not start a chain
//! without end.
//!
//! A receiver therefore evicts duplicates in use before any singlet. [`NChance::searching`] bounds
//! the search to the receiver's oldest blocks, which is not the paper's: duplicates in use stay.
//! O(log frames) an eviction, or O(blocks searched).

use super::ages::{AgeQueue, AgedCopy, CopyKind};
use super::{Cluster, ClusterScheme, NodeMemory, ServedFrom, greedy};
use shoal_trace::Random;

/// N-chance forwarding.
pub struct NChance {
    /// n; Dahlin et al. use 2.
    chances: u8,
    /// Number of oldest blocks that a receiver searches for a victim; `None` for all.
    searched: Option<usize>,
    /// Passed-on blocks of each node by their mark, then by age.
    passed_on: Vec<Vec<AgeQueue>>,
    random: Random,
}

impl NChance {
    /// Creates the scheme with `chances` chances, and the seed that selects receivers.
    pub fn new(chances: u8, seed: u64) -> Self {
        Self { chances, searched: None, passed_on: Vec::new(), random: Random::new(seed) }
    }

    /// Lets a receiver look at its `oldest` oldest blocks only.
    #[must_use]
    pub fn searching(self, oldest: usize) -> Self {
        Self { searched: Some(oldest.max(1)), ..self }
    }

    fn evict(&mut self, cluster: &mut Cluster, node: usize) {
        let Some(object) = cluster.nodes[node].oldest() else { return };
        let mark = cluster.nodes[node].mark(object);
        // A mark of one more than the chances left distinguishes a block never passed on from a
        // block without chances.
        let left = if mark == 0 { self.chances } else { mark - 1 };
        cluster.remove(node, object);
        if cluster.copies(object) > 0 {
            return;
        }
        if left > 0 {
            self.pass_on(cluster, node, object, left - 1);
        }
    }

    fn pass_on(&mut self, cluster: &mut Cluster, from: usize, object: u32, left: u8) {
        let others = cluster.nodes.len().saturating_sub(1) as u64;
        let to = self.random.below(others) as usize;
        let to = if to >= from { to + 1 } else { to };
        if others == 0 || !cluster.serves(to) {
            return;
        }
        if cluster.nodes[to].is_full()
            && let Some(victim) = self.victim(cluster, to)
        {
            cluster.remove(to, victim);
        }
        cluster.insert(to, object, cluster.now);
        cluster.nodes[to].set_mark(object, left + 1);
        if self.searched.is_none() {
            self.note_mark(cluster, to, object, left + 1);
        }
        cluster.forward(from, to);
    }

    /// Returns the block that a node evicts for a block that is passed on to it.
    fn victim(&mut self, cluster: &mut Cluster, node: usize) -> Option<u32> {
        if let Some(searched) = self.searched {
            return victim_among(cluster, node, searched);
        }
        if let Some(duplicate) = cluster.oldest_of(CopyKind::Duplicate, node) {
            return Some(duplicate.object());
        }
        let memory = &cluster.nodes[node];
        let by_mark = self.passed_on.get_mut(node).into_iter().flatten().zip(1..=u8::MAX);
        let oldest =
            |(queue, mark): (&mut AgeQueue, u8)| queue.oldest(|object| last_used_with(memory, object, mark));
        by_mark.filter_map(oldest).next().map(|copy| copy.object()).or_else(|| memory.oldest())
    }

    /// Puts a passed-on block among those of its mark.
    fn note_mark(&mut self, cluster: &Cluster, node: usize, object: u32, mark: u8) {
        debug_assert!((1..=self.chances).contains(&mark), "{mark} of {} chances", self.chances);
        if self.passed_on.is_empty() {
            self.passed_on = vec![vec![AgeQueue::default(); usize::from(self.chances)]; cluster.nodes.len()];
        }
        let memory = &cluster.nodes[node];
        let copy = AgedCopy::new(object, memory.last_used(object));
        self.passed_on[node][usize::from(mark) - 1]
            .push(copy, memory.capacity(), |object| last_used_with(memory, object, mark));
    }
}

fn last_used_with(memory: &NodeMemory, object: u32, mark: u8) -> Option<u32> {
    (memory.mark(object) == mark).then(|| memory.last_used(object))
}

/// Returns the victim among the `searched` oldest blocks of a node.
fn victim_among(cluster: &Cluster, node: usize, searched: usize) -> Option<u32> {
    let memory: &NodeMemory = &cluster.nodes[node];
    let chances = |object: u32| match (cluster.copies(object), memory.mark(object)) {
        (2.., _) => 0,
        (_, 0) => u8::MAX,
        (_, mark) => mark,
    };
    memory.from_oldest().take(searched).map(|(object, _)| object).min_by_key(|object| chances(*object))
}

impl ClusterScheme for NChance {
    fn name(&self) -> &'static str {
        if self.searched.is_some() { "n-chance forwarding, searching few" } else { "n-chance forwarding" }
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if self.searched.is_none() {
            cluster.keep_duplicates_by_age();
        }
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
