//! Future of a trace: the next request for each request's object.
//!
//! Offline policies know it, others do not. Computed backwards in O(n) with a hash table of all
//! objects; four bytes a request.

use crate::replacement::Fingerprint;
use std::collections::HashMap;

/// Number of the next request for the same object, for each request of a trace in order. See the
/// file's head.
#[derive(Clone, Debug, Default)]
pub struct NextUses {
    next: Vec<u32>,
}

impl NextUses {
    /// Computes the future of these requests. Requests after the first 2^32 − 2 count as absent.
    pub fn of<K: Fingerprint>(requests: impl IntoIterator<Item = K>) -> Self {
        let mut next = Vec::new();
        let mut last: HashMap<u64, u32> = HashMap::new();
        for (at, key) in (0..NEVER).zip(requests) {
            next.push(NEVER);
            if let Some(before) = last.insert(key.fingerprint(), at) {
                next[before as usize] = at;
            }
        }
        Self { next }
    }

    /// Returns the next request for the object of request `at`: a number of a request, or
    /// [`NEVER`].
    pub(crate) fn after(&self, at: u32) -> u32 {
        self.next.get(at as usize).copied().unwrap_or(NEVER)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.next.capacity() * size_of::<u32>()
    }
}

/// Later than every request.
pub(crate) const NEVER: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_knows_the_next_one_for_its_object() {
        let uses = NextUses::of([7_u64, 8, 7, 9, 8, 7]);
        let next: Vec<u32> = (0..7).map(|at| uses.after(at)).collect();
        assert_eq!(next, [2, 4, 5, NEVER, NEVER, NEVER, NEVER]);
    }
}
