//! The directories of GMS: how a node finds a page that may be anywhere.
//!
//! Feeley et al. 1995, section 4.1. Three data structures:
//!
//! | directory | says | where |
//! |---|---|---|
//! | page-frame (PFD) | frame of a page, local or global | each node: [`NodeMemory`] |
//! | page-ownership (POD) | node with the page's GCD part | all nodes: [`Directories::manager`] |
//! | global-cache (GCD) | nodes that hold a page | parted by the POD: the cluster's holders |
//!
//! The page-ownership directory is a table of buckets. A lost node gives its buckets away, and no
//! other page's manager changes. Every page is treated as shared, and its hash selects its manager.
//! GMS keeps a page that it knows to be private under its user's management, but traces do not tell
//! private pages. O(1) a look-up.
//!
//! [`NodeMemory`]: super::NodeMemory

use shoal_core::mixed;

/// The page-ownership directory.
#[derive(Clone, Debug, Default)]
pub struct Directories {
    /// The node that manages each bucket; empty until nodes are known.
    buckets: Vec<u8>,
}

impl Directories {
    /// Returns the node that manages a page: its part of the global-cache directory knows the
    /// holders.
    pub fn manager(&mut self, object: u32, nodes: usize) -> usize {
        if self.buckets.is_empty() {
            self.buckets = (0..BUCKETS).map(|bucket| (bucket % nodes.max(1)) as u8).collect();
        }
        usize::from(self.buckets[mixed(u64::from(object)) as usize % BUCKETS])
    }

    /// Removes a node: the nodes in service take its buckets in turn. All page-frame directories
    /// together rebuild its part of the global-cache directory.
    pub fn lose(&mut self, gone: usize, nodes: usize, serves: impl Fn(usize) -> bool) {
        let mut left = (0..nodes).filter(|node| *node != gone && serves(*node)).cycle();
        for bucket in self.buckets.iter_mut().filter(|bucket| usize::from(**bucket) == gone) {
            if let Some(node) = left.next() {
                *bucket = node as u8;
            }
        }
    }
}

/// Number of buckets: many more than nodes, so that each node manages about the same share.
const BUCKETS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_node_gives_only_its_own_pages_away() {
        let mut directories = Directories::default();
        let before: Vec<usize> = (0..40_000).map(|page| directories.manager(page, 8)).collect();
        directories.lose(3, 8, |node| node != 5);
        let mut managed = [0u32; 8];
        for (page, manager) in (0u32..).zip(&before) {
            let after = directories.manager(page, 8);
            assert!(if *manager == 3 { after != 3 && after != 5 } else { after == *manager });
            managed[after] += 1;
        }
        assert_eq!(managed[3], 0);
        assert!(
            (4_700..5_300).contains(&managed[5]),
            "node 5 was lost before and keeps what it had: {managed:?}"
        );
        assert!(
            managed
                .iter()
                .enumerate()
                .all(|(node, count)| matches!(node, 3 | 5) || (5_400..6_300).contains(count))
        );
    }
}
