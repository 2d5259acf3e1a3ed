//! The global-cache directory of pages with numbers from 0: a table instead of a hash.
//!
//! [`GlobalCachePart`](super::GlobalCachePart) has pages with names that clients choose, so that it
//! needs a hash with a secret. Blocks of a file server and pages of a simulation have dense
//! numbers. A table takes 8 bytes a page, in memory or not, and a step is one look at one place.
//!
//! Each page is in the part of one manager, so that one table has the parts of all nodes. The
//! [page-ownership directory](super::PageOwners) says the part. Both directories give the same
//! answers to the same messages.

use super::HOLDERS_MAX;

/// All nodes' parts of the global-cache directory. Nodes have numbers below [`HOLDERS_MAX`].
#[derive(Clone, Debug, Default)]
pub struct HolderTable {
    /// The nodes that hold each page, a bit each.
    holders: Vec<u64>,
}

impl HolderTable {
    /// Creates the table of `pages` pages, none of which has a holder.
    pub fn new(pages: usize) -> Self {
        Self { holders: vec![0; pages] }
    }

    /// Records that a node has taken a page in. Returns `false` if the page or the node has no
    /// number.
    #[inline]
    pub fn came(&mut self, page: u32, node: usize) -> bool {
        match self.holders.get_mut(page as usize) {
            Some(holders) if node < HOLDERS_MAX => {
                *holders |= 1 << node;
                true
            }
            _ => false,
        }
    }

    /// Records that a node has given a page up. Returns `true` if another node holds it.
    #[inline]
    pub fn gone(&mut self, page: u32, node: usize) -> bool {
        let Some(holders) = self.holders.get_mut(page as usize) else { return false };
        *holders &= !bit(node);
        debug_assert!(*holders & bit(node) == 0, "node {node} has given page {page} up");
        *holders != 0
    }

    /// Returns a node other than the asking one that holds a page, the first by number.
    #[inline]
    pub fn holder(&self, page: u32, asker: usize) -> Option<usize> {
        let others = self.holders.get(page as usize).copied().unwrap_or_default() & !bit(asker);
        (others != 0).then(|| others.trailing_zeros() as usize)
    }

    /// Forgets a lost node. O(pages).
    pub fn forget(&mut self, node: usize) {
        self.holders.iter_mut().for_each(|holders| *holders &= !bit(node));
    }

    /// Forgets the holders of pages: the part of a manager that is lost. O(pages).
    pub fn forget_pages(&mut self, is_lost: impl Fn(u32) -> bool) {
        for (holders, _) in self.holders.iter_mut().zip(0..).filter(|(_, page)| is_lost(*page)) {
            *holders = 0;
        }
    }

    /// Returns the number of pages with a holder. O(pages).
    pub fn len(&self) -> usize {
        self.holders.iter().filter(|holders| **holders != 0).count()
    }

    /// Returns `true` if no page has a holder. O(pages).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the bit of a node; none for a node without a number.
#[inline]
fn bit(node: usize) -> u64 {
    if node < HOLDERS_MAX { 1 << node } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global_memory::{GlobalCachePart, PageOwners};
    use proptest::prelude::*;

    #[test]
    fn unknown_pages_and_nodes_have_no_entry() {
        let mut table = HolderTable::new(2);
        assert!(table.is_empty() && table.came(1, 63) && table.came(1, 2));
        assert!(!table.came(2, 0) && !table.came(1, HOLDERS_MAX) && !table.gone(2, 0));
        assert_eq!((table.holder(1, 2), table.holder(1, HOLDERS_MAX)), (Some(63), Some(2)));
        assert_eq!((table.holder(0, 1), table.holder(2, 1), table.len()), (None, None, 1));
        assert!(table.gone(1, HOLDERS_MAX), "two nodes hold it");
        table.forget(63);
        assert!(!table.gone(1, 2) && table.is_empty());
    }

    proptest! {
        /// Against a hashed part for each manager, with the loss of managers.
        #[test]
        fn table_answers_as_all_parts_do(
            steps in proptest::collection::vec((0..30u32, 0..5usize, 0..9u8), 0..200),
        ) {
            let owners = PageOwners::new(5);
            let mut table = HolderTable::new(30);
            let mut parts: Vec<GlobalCachePart> = (0..5).map(|part| GlobalCachePart::new(part, 30)).collect();
            for (page, node, step) in steps {
                let manager = owners.manager(u64::from(page));
                match step {
                    0..4 => prop_assert_eq!(table.came(page, node), parts[manager].came(u64::from(page), node)),
                    4..7 => prop_assert_eq!(table.gone(page, node), parts[manager].gone(u64::from(page), node)),
                    7 => {
                        table.forget(node);
                        parts.iter_mut().for_each(|part| part.forget(node));
                    }
                    _ => {
                        table.forget_pages(|page| owners.manager(u64::from(page)) == node);
                        parts[node] = GlobalCachePart::new(9, 30);
                    }
                }
                for page in 0..30 {
                    let part = &parts[owners.manager(u64::from(page))];
                    prop_assert_eq!(table.holder(page, node), part.holder(u64::from(page), node));
                }
                prop_assert_eq!(table.len(), parts.iter().map(GlobalCachePart::len).sum::<usize>());
            }
        }
    }
}
