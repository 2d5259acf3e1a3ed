//! Locality-based distribution (LB): every target has one back-end, by hash.
//!
//! Pai et al. 1998, section 2.3. All caches act as one that is divided by hash. Load depends on the
//! back-ends of the popular targets. Rendezvous hashing (Thaler and Ravishankar 1998) moves the
//! targets of a back-end out of service to the other back-ends, and no other targets. O(back-ends)
//! a choice, no state.

use super::{Backends, Distribution, OUT_OF_SERVICE};
use shoal_core::mixed;

/// Policy LB. See the file's head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Locality;

impl Distribution for Locality {
    fn choose(&mut self, target: u64, backends: &dyn Backends) -> Option<usize> {
        let loads = backends.loads();
        let in_service = (0..loads.len()).filter(|backend| loads[*backend] != OUT_OF_SERVICE);
        in_service.max_by_key(|backend| mixed(target ^ mixed(*backend as u64 + 1)))
    }
}
