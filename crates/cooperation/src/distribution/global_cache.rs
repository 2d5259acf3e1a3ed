//! Locality-based distribution with a global cache (LB/GC): a request goes to the holder of its
//! target, or else to the cache that loses least by it.
//!
//! Pai et al. 1998, section 2.3: the front end knows every cache, so that all caches act as one,
//! replaced by LRU over all. An ideal for comparison: no real front end learns of each eviction in
//! time. Loads are ignored. O(1) when the target is held, else O(back-ends).

use super::{Backends, Distribution, OUT_OF_SERVICE, Turn};

/// Policy LB/GC. See the file's head.
#[derive(Clone, Debug, Default)]
pub struct GlobalCache {
    turn: Turn,
}

impl Distribution for GlobalCache {
    fn choose(&mut self, target: u64, backends: &dyn Backends) -> Option<usize> {
        let loads = backends.loads();
        let holder =
            backends.holder(target).filter(|at| loads.get(*at).is_some_and(|load| *load != OUT_OF_SERVICE));
        if holder.is_some() {
            return holder;
        }
        // A cache with room evicts nothing, which sorts before every time. Among several the next
        // in turn is chosen.
        self.turn.least_by(loads, |backend, _| backends.next_victim_used(backend))
    }
}
