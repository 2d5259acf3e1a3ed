//! The global-cache directory (GCD): the nodes that hold a page.
//!
//! Feeley et al., SOSP 1995, section 4.1. The directory is parted over all nodes; the
//! [page-ownership directory](super::PageOwners) says which part has a page. A getpage goes to the
//! page's manager. The manager's part names a holder, and the manager passes the request on. A node
//! tells the manager of each page that it takes in and gives up.
//!
//! A part knows only pages that nodes told it of. After a lost message it may name a node without
//! the page, which then answers that it has none. A page without an entry is read from disk. So an
//! error costs time and never a wrong page. A lost part is made again from the page-frame
//! directories.
//!
//! The number of entries is bounded, and the hash of a page has a secret, since clients choose
//! names of pages. O(1) a step, O(pages) to forget a node.

use shoal_core::mixed;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher};

/// One node's part of the global-cache directory. Nodes have numbers below [`HOLDERS_MAX`].
#[derive(Clone, Debug)]
pub struct GlobalCachePart {
    /// The nodes that hold each page, a bit each; never none.
    holders: HashMap<u64, u64, PageHash>,
    most: usize,
}

impl GlobalCachePart {
    /// Creates an empty part of at most `most` pages.
    pub fn new(secret: u64, most: usize) -> Self {
        Self { holders: HashMap::with_hasher(PageHash { secret, bits: 0 }), most }
    }

    /// Records that a node has taken a page in. Returns `false` if the part is full, or the node
    /// has no number.
    pub fn came(&mut self, page: u64, node: usize) -> bool {
        if node >= HOLDERS_MAX {
            return false;
        }
        let is_full = self.holders.len() >= self.most;
        match self.holders.entry(page) {
            Entry::Occupied(mut holders) => *holders.get_mut() |= 1 << node,
            Entry::Vacant(_) if is_full => return false,
            Entry::Vacant(place) => _ = place.insert(1 << node),
        }
        debug_assert!(self.holders.len() <= self.most, "more pages than the part may have");
        true
    }

    /// Records that a node has given a page up. Returns `true` if another node holds it.
    pub fn gone(&mut self, page: u64, node: usize) -> bool {
        let Entry::Occupied(mut holders) = self.holders.entry(page) else { return false };
        if node < HOLDERS_MAX {
            *holders.get_mut() &= !(1 << node);
        }
        let is_held = *holders.get() != 0;
        if !is_held {
            holders.remove();
        }
        is_held
    }

    /// Returns a node other than the asking one that holds a page, the first by number.
    pub fn holder(&self, page: u64, asker: usize) -> Option<usize> {
        let own = if asker < HOLDERS_MAX { 1u64 << asker } else { 0 };
        let others = self.holders.get(&page).copied().unwrap_or_default() & !own;
        (others != 0).then(|| others.trailing_zeros() as usize)
    }

    /// Forgets a lost node, and the pages that it alone held.
    pub fn forget(&mut self, node: usize) {
        let kept = if node < HOLDERS_MAX { !(1u64 << node) } else { u64::MAX };
        self.holders.retain(|_, holders| {
            *holders &= kept;
            *holders != 0
        });
    }

    /// Returns the number of pages.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Returns `true` if the part has no page.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }
}

/// Nodes that share a global-cache directory at most.
pub const HOLDERS_MAX: usize = u64::BITS as usize;

/// Hash of a page's number with a secret.
#[derive(Clone, Debug)]
struct PageHash {
    secret: u64,
    bits: u64,
}

impl BuildHasher for PageHash {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Hasher for PageHash {
    fn finish(&self) -> u64 {
        self.bits
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.bits = mixed(self.bits.rotate_left(1) ^ number ^ self.secret);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn part_is_bounded() {
        let mut part = GlobalCachePart::new(7, 2);
        assert!(part.came(1, 0) && part.came(2, 63) && part.came(1, 5));
        assert!(!part.came(3, 0), "the part is full");
        assert!(!part.came(1, HOLDERS_MAX), "the node has no number");
        part.gone(1, HOLDERS_MAX);
        assert_eq!((part.holder(1, 0), part.holder(1, 99), part.holder(3, 1)), (Some(5), Some(0), None));
        part.gone(2, 63);
        assert!(part.came(3, 0) && part.len() == 2, "an entry without a holder takes no room");
    }

    proptest! {
        /// Against the obvious: a set of holders for each page.
        #[test]
        fn part_names_the_holders_it_was_told(
            steps in proptest::collection::vec((0..6u64, 0..5usize, 0..8u8), 0..200),
            secret in any::<u64>(),
        ) {
            let mut part = GlobalCachePart::new(secret, 100);
            let mut all: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
            for (page, node, step) in steps {
                match step {
                    0..4 => {
                        prop_assert!(part.came(page, node));
                        all.entry(page).or_default().insert(node);
                    }
                    4..7 => {
                        let is_held = part.gone(page, node);
                        let holders = all.entry(page).or_default();
                        holders.remove(&node);
                        prop_assert_eq!(is_held, !holders.is_empty());
                    }
                    _ => {
                        part.forget(node);
                        all.values_mut().for_each(|holders| _ = holders.remove(&node));
                    }
                }
                for (page, holders) in &all {
                    let first = holders.iter().copied().find(|holder| *holder != node);
                    prop_assert_eq!(part.holder(*page, node), first);
                }
                prop_assert_eq!(part.len(), all.values().filter(|holders| !holders.is_empty()).count());
            }
        }
    }
}
