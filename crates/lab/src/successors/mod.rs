//! Cooperative caching since the papers: five later systems on the same requests, each a file with
//! its paper's headline as a test.
//!
//! | file | system | headline |
//! |---|---|---|
//! | [`bounded_hashing`] | bounded loads (SODA 2018) | no node above 1 + ε of the mean |
//! | [`block_placement`] | Bandana (SysML 2019) | 2 to 3 times as much use of each block read |
//! | [`tiers`] | tiers of a CDN with request coalescing | one fetch for each change and crowd |
//! | [`experts`] | Darwin (SIGCOMM 2023) | ahead of every fixed admission where traffic shifts |
//! | [`episodes`] | Baleen (FAST 2024) | 12% less peak disk-head time for the same flash writes |
//!
//! Each takes requests of a trace and keeps its paper's decision. Tables, which a reader can check,
//! learn here in place of a neural network or a forest. Tests run made traffic of the shape that
//! the paper has; the report runs traces, where a headline need not hold.

pub mod block_placement;
pub mod bounded_hashing;
pub mod episodes;
pub mod experts;
pub mod tiers;

use std::collections::{BTreeMap, HashMap};

/// Objects in the order of their last use, within a number of bytes. O(log objects) an operation.
#[derive(Clone, Debug, Default)]
struct ByteLru {
    capacity: u64,
    bytes: u64,
    uses: u64,
    /// Turn of the last use and size of each object.
    held: HashMap<u32, (u64, u64)>,
    by_turn: BTreeMap<u64, u32>,
}

impl ByteLru {
    fn new(capacity: u64) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Marks an object as used. Returns `false` if it is not held.
    fn touch(&mut self, object: u32) -> bool {
        self.uses += 1;
        let Some((turn, _)) = self.held.get_mut(&object) else { return false };
        self.by_turn.remove(turn);
        *turn = self.uses;
        self.by_turn.insert(self.uses, object);
        true
    }

    /// Takes an absent object in, for the oldest ones. An object larger than all is refused.
    fn insert(&mut self, object: u32, bytes: u64) {
        if bytes > self.capacity || self.held.contains_key(&object) {
            return;
        }
        while self.bytes + bytes > self.capacity
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.bytes -= self.held.remove(&oldest).map_or(0, |(_, bytes)| bytes);
        }
        self.uses += 1;
        self.held.insert(object, (self.uses, bytes));
        self.by_turn.insert(self.uses, object);
        self.bytes += bytes;
        debug_assert!(self.bytes <= self.capacity && self.held.len() == self.by_turn.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_object_leaves_for_new_one() {
        let mut held = ByteLru::new(10);
        held.insert(1, 4);
        held.insert(2, 4);
        assert!(held.touch(1) && !held.touch(3));
        held.insert(3, 4);
        assert!(held.touch(1) && held.touch(3) && !held.touch(2));
        held.insert(4, 11);
        assert!(!held.touch(4) && held.bytes == 8);
    }
}
