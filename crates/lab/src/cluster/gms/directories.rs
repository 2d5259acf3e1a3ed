//! The three directories of GMS in a simulated cluster, filled by the messages of its nodes.
//!
//! | directory | code | here |
//! |---|---|---|
//! | page-frame (PFD) | [`FrameKind`] | each node's [`NodeMemory`] |
//! | page-ownership (POD) | [`PageOwners`] | one for all, since all nodes' are equal |
//! | global-cache (GCD) | [`HolderTable`] | the parts of all nodes, since pages have numbers |
//!
//! Nodes find each other's pages by these alone. The cluster's own list of holders is the truth
//! that they are checked against: messages take no time here, so that both agree.
//!
//! Every page is treated as shared, and its hash selects its manager. GMS keeps a page that it
//! knows to be private under its user's management, but traces do not tell private pages. A step
//! is O(1): a page's hash is computed once for all steps of a request.

use super::super::{Cluster, NodeMemory};
use shoal_cooperation::global_memory::{FrameKind, HolderTable, PageOwners};

/// Directories of all nodes.
#[derive(Debug, Default)]
pub(super) struct Directories {
    owners: PageOwners,
    holders: HolderTable,
    is_known: bool,
    /// Changes that managers were told.
    pub told: u64,
}

/// Page with its manager. The manager's part of the global-cache directory has the page's holders.
#[derive(Clone, Copy, Debug)]
pub(super) struct ManagedPage {
    pub page: u32,
    pub manager: usize,
}

impl Directories {
    /// Makes the directories of a cluster, before its first page.
    pub fn know(&mut self, cluster: &Cluster) {
        if !self.is_known {
            self.owners = PageOwners::new(cluster.nodes.len());
            self.holders = HolderTable::new(cluster.objects());
            self.is_known = true;
        }
    }

    /// Finds the manager of a page in the page-ownership directory.
    pub fn managed(&self, page: u32) -> ManagedPage {
        ManagedPage { page, manager: self.owners.manager(u64::from(page)) }
    }

    /// Returns the holder that the page's manager names to a node.
    pub fn holder(&self, cluster: &Cluster, page: u32, asker: usize) -> Option<usize> {
        let named = self.holders.holder(page, asker);
        debug_assert_eq!(named, cluster.other_holder(asker, page), "page {page} asked by node {asker}");
        named
    }

    /// Puts a page into a node's frame, and tells the manager.
    pub fn insert(
        &mut self,
        cluster: &mut Cluster,
        node: usize,
        managed: ManagedPage,
        (last_used, kind): (u32, FrameKind),
    ) {
        cluster.insert(node, managed.page, last_used);
        // A frame begins without a mark, as a local one.
        if kind == FrameKind::Global {
            cluster.nodes[node].set_mark(managed.page, mark(kind));
        }
        self.came(managed, node);
    }

    /// Takes a page out of a node's frame, and tells the manager. Returns `true` if the manager
    /// knows another holder.
    pub fn remove(&mut self, cluster: &mut Cluster, node: usize, managed: ManagedPage) -> bool {
        cluster.remove(node, managed.page);
        let is_held = self.gone(managed, node);
        debug_assert_eq!(is_held, cluster.copies(managed.page) > 0, "{managed:?} leaves node {node}");
        is_held
    }

    /// Tells the manager that other nodes' copies are old and gone.
    pub fn written(&mut self, cluster: &mut Cluster, node: usize, page: u32) {
        let managed = self.managed(page);
        while let Some(other) = self.holder(cluster, page, node) {
            cluster.take(other, page);
            self.gone(managed, other);
        }
        cluster.written(node, page);
    }

    /// Handles the loss of a node. The nodes left take over its pages' management, and all
    /// page-frame directories together rebuild its part of the global-cache directory.
    pub fn lose(&mut self, cluster: &Cluster, gone: usize) {
        self.know(cluster);
        let before = self.owners.clone();
        let was_managed = |page: u32| before.manager(u64::from(page)) == gone;
        let left = (0..cluster.nodes.len()).filter(|node| cluster.serves(*node));
        self.owners.lose(gone, left.clone());
        self.holders.forget_pages(was_managed);
        self.holders.forget(gone);
        for node in left {
            for (page, _) in cluster.nodes[node].from_oldest().filter(|(page, _)| was_managed(*page)) {
                self.came(self.managed(page), node);
            }
        }
    }

    fn came(&mut self, managed: ManagedPage, node: usize) {
        let has_room = self.holders.came(managed.page, node);
        debug_assert!(has_room, "the table has all pages");
        self.told += u64::from(managed.manager != node);
    }

    fn gone(&mut self, managed: ManagedPage, node: usize) -> bool {
        self.told += u64::from(managed.manager != node);
        self.holders.gone(managed.page, node)
    }
}

/// Returns the kind of a page's frame in a node's memory.
pub(super) fn kind(memory: &NodeMemory, page: u32) -> FrameKind {
    if memory.mark(page) == mark(FrameKind::Global) { FrameKind::Global } else { FrameKind::Local }
}

/// Returns the mark of a frame. A use clears it: the page is then its holder's own.
fn mark(kind: FrameKind) -> u8 {
    u8::from(kind == FrameKind::Global)
}

#[cfg(test)]
mod tests {
    use super::super::super::{Access, ClusterSize};
    use super::super::{DiskPlacement, Gms};
    use super::*;
    use shoal_trace::Random;

    /// Checks that each manager knows the true holders of all its pages, and of no other.
    fn check(directories: &Directories, cluster: &Cluster) {
        let objects = 0..cluster.objects() as u32;
        for (page, node) in
            objects.clone().flat_map(|page| (0..cluster.nodes.len()).map(move |node| (page, node)))
        {
            let named = directories.holders.holder(page, node);
            assert_eq!(named, cluster.other_holder(node, page), "{page}, {node}");
        }
        assert_eq!(directories.holders.len(), objects.filter(|page| cluster.copies(*page) > 0).count());
    }

    #[test]
    fn managers_know_holders_after_writes_and_loss() {
        let size = ClusterSize { nodes: vec![30, 1, 40, 77, 12], server: 20, objects: 400 };
        let (mut cluster, mut gms) = (Cluster::new(&size), Gms::new(0.0, 1, DiskPlacement::Server));
        let mut random = Random::new(5);
        for at in 0..6000 {
            let object = (random.unit().powi(3) * 400.0) as u32;
            let access = Access { node: random.below(5) as usize, object, is_write: at % 5 == 0 };
            cluster.perform(&mut gms, access);
            let lost = cluster.serves(2);
            cluster.fail(&mut gms, Some((3000, 2)));
            if at % 500 == 499 || lost != cluster.serves(2) {
                check(&gms.directories, &cluster);
            }
        }
        assert!(!cluster.serves(2) && (0..400).all(|page| gms.directories.managed(page).manager != 2));
        assert!(gms.told() > 6000, "{}", gms.told());
    }
}
