//! Locality-based distribution with a global cache (LB/GC): to whoever holds the target, or else
//! gives up least for it.
//!
//! Pai et al. 1998, section 2.3: the front end knows every cache, so that all of them are one,
//! replaced by LRU over all. An ideal to compare with: no front end is told of each eviction in
//! time. Load goes where it will. O(1) when the target is held, else O(back-ends).

use super::{Backends, Distribution, OUT_OF_SERVICE, Turn};

/// See the file's head.
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
        // a cache with room gives up nothing, which sorts before every time; of several the next in
        // turn
        self.turn.least_by(loads, |backend, _| backends.next_victim_used(backend))
    }
}
