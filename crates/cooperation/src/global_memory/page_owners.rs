//! The page-ownership directory (POD): the node that manages a page.
//!
//! Feeley, Morgan, Pighin, Karlin, Levy, Thekkath, *Implementing global memory management in a
//! workstation cluster*, SOSP 1995, section 4.1. All nodes hold the same table of buckets; a hash
//! of the page selects the bucket. The bucket's node keeps the page's entry of the global-cache
//! directory ([`GlobalCachePart`](super::GlobalCachePart)). A page that only one node uses needs no
//! look-up: its user manages it ([`PrivatePages`](super::PrivatePages)).
//!
//! A lost node gives its buckets away, a new one takes its share from those with most. No other
//! bucket moves. O(1) a look-up, O(buckets) a change. The hash has no secret: nodes that run would
//! have to choose pages by one.

use shoal_core::mixed;

/// The page-ownership directory.
#[derive(Clone, Debug, Default)]
pub struct PageOwners {
    /// The node that manages each bucket; empty until nodes are known.
    buckets: Vec<u16>,
}

impl PageOwners {
    /// Deals the buckets to `nodes` nodes in turn.
    pub fn new(nodes: usize) -> Self {
        let nodes = nodes.clamp(1, PAGE_BUCKETS);
        Self { buckets: (0..PAGE_BUCKETS).map(|bucket| (bucket % nodes) as u16).collect() }
    }

    /// Returns the node that manages a page; node 0 as long as no node is known.
    pub fn manager(&self, page: u64) -> usize {
        let bucket = mixed(page) as usize % PAGE_BUCKETS;
        self.buckets.get(bucket).map_or(0, |node| usize::from(*node))
    }

    /// Removes a node: the nodes left take its buckets in turn. Their new managers learn the
    /// holders of these pages from the page-frame directories of all nodes.
    pub fn lose(&mut self, gone: usize, left: impl Iterator<Item = usize> + Clone) {
        let mut left = left.filter(|node| *node != gone).cycle();
        for bucket in self.buckets.iter_mut().filter(|bucket| usize::from(**bucket) == gone) {
            if let Some(node) = left.next() {
                *bucket = node as u16;
            }
        }
    }

    /// Adds a node, which takes a fair share of the buckets of those with most.
    pub fn join(&mut self, newcomer: usize) {
        let mut managed = std::collections::BTreeMap::<u16, usize>::new();
        for bucket in &self.buckets {
            *managed.entry(*bucket).or_default() += 1;
        }
        managed.entry(newcomer as u16).or_default();
        let fair = self.buckets.len() / managed.len().max(1);
        for bucket in &mut self.buckets {
            if managed.get(&(newcomer as u16)).is_some_and(|has| *has >= fair) {
                break;
            }
            let Some(has) = managed.get_mut(bucket).filter(|has| **has > fair) else { continue };
            *has -= 1;
            *bucket = newcomer as u16;
            *managed.entry(newcomer as u16).or_default() += 1;
        }
        debug_assert_eq!(self.buckets.len(), managed.values().sum::<usize>(), "every bucket is managed");
    }
}

/// Number of buckets: many more than nodes, so that each node manages about the same share.
pub const PAGE_BUCKETS: usize = 4096;

const _: () = assert!(PAGE_BUCKETS <= 1 << 16, "a node's number fits a bucket");

#[cfg(test)]
mod tests {
    use super::*;

    fn managed(owners: &PageOwners, nodes: usize) -> Vec<u32> {
        let mut managed = vec![0u32; nodes];
        (0..PAGES).for_each(|page| managed[owners.manager(page)] += 1);
        managed
    }

    #[test]
    fn lost_node_gives_only_its_own_pages_away() {
        let mut owners = PageOwners::new(8);
        let before = owners.clone();
        owners.lose(3, (0..8).filter(|node| *node != 5));
        for page in 0..PAGES {
            let (manager, after) = (before.manager(page), owners.manager(page));
            assert!(if manager == 3 { after != 3 && after != 5 } else { after == manager });
        }
        let managed = managed(&owners, 8);
        assert_eq!(managed[3], 0);
        assert!((4_700..5_300).contains(&managed[5]), "node 5 keeps its own: {managed:?}");
        let others = managed.iter().enumerate().filter(|(node, _)| !matches!(node, 3 | 5));
        assert!(others.clone().all(|(_, count)| (5_400..6_300).contains(count)), "{managed:?}");
    }

    #[test]
    fn new_node_takes_its_share_and_moves_no_other() {
        let mut owners = PageOwners::new(7);
        let before = owners.clone();
        owners.join(7);
        let moved = (0..PAGES).filter(|page| owners.manager(*page) != before.manager(*page));
        assert!(moved.clone().all(|page| owners.manager(page) == 7));
        let managed = managed(&owners, 8);
        assert!(managed.iter().all(|count| (4_500..5_500).contains(count)), "{managed:?}");
        assert_eq!(moved.count(), managed[7] as usize);
    }

    #[test]
    fn last_node_keeps_its_buckets() {
        let mut owners = PageOwners::new(2);
        owners.lose(0, 1..2);
        owners.lose(1, 1..2);
        assert!((0..PAGES).all(|page| owners.manager(page) == 1), "nobody could take them");
        assert_eq!(PageOwners::default().manager(7), 0, "no node is known");
    }

    const PAGES: u64 = 40_000;
}
