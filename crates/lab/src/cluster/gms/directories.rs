//! The three directories of GMS in a simulated cluster, filled by the messages of its nodes.
//!
//! | directory | code | here |
//! |---|---|---|
//! | page-frame (PFD) | [`FrameKind`] | each node's [`NodeMemory`] |
//! | page-ownership (POD) | [`PageOwners`] | one for all, since all nodes' are equal |
//! | global-cache (GCD) | [`GlobalCachePart`] | a part for each node |
//!
//! Nodes find each other's pages by these alone. The cluster's own list of holders is the truth
//! that they are checked against: messages take no time here, so that both agree.
//!
//! Every page is treated as shared, and its hash selects its manager. GMS keeps a page that it
//! knows to be private under its user's management, but traces do not tell private pages.

use super::super::{Cluster, NodeMemory};
use shoal_cooperation::global_memory::{FrameKind, GlobalCachePart, PageOwners};

/// Directories of all nodes.
#[derive(Debug, Default)]
pub(super) struct Directories {
    owners: PageOwners,
    parts: Vec<GlobalCachePart>,
    /// Changes that managers were told.
    pub told: u64,
}

impl Directories {
    /// Makes the directories of a cluster, before its first page.
    pub fn know(&mut self, cluster: &Cluster) {
        if self.parts.is_empty() {
            let nodes = cluster.nodes.len();
            self.owners = PageOwners::new(nodes);
            self.parts = (0..nodes).map(|node| part(node, cluster)).collect();
        }
    }

    /// Returns the node that manages a page: its part of the global-cache directory knows the
    /// holders.
    pub fn manager(&self, page: u32) -> usize {
        self.owners.manager(u64::from(page))
    }

    /// Returns the holder that the page's manager names to a node.
    pub fn holder(&self, cluster: &Cluster, page: u32, asker: usize) -> Option<usize> {
        let named = self.parts[self.manager(page)].holder(u64::from(page), asker);
        debug_assert_eq!(named, cluster.other_holder(asker, page), "page {page} asked by node {asker}");
        named
    }

    /// Puts a page into a node's frame, and tells the manager.
    pub fn insert(
        &mut self,
        cluster: &mut Cluster,
        node: usize,
        page: u32,
        (last_used, kind): (u32, FrameKind),
    ) {
        cluster.insert(node, page, last_used);
        cluster.nodes[node].set_mark(page, mark(kind));
        self.came(page, node);
    }

    /// Takes a page out of a node's frame, and tells the manager. Returns `true` if the manager
    /// knows another holder.
    pub fn remove(&mut self, cluster: &mut Cluster, node: usize, page: u32) -> bool {
        cluster.remove(node, page);
        let is_held = self.gone(page, node);
        debug_assert_eq!(is_held, cluster.copies(page) > 0, "page {page} leaves node {node}");
        is_held
    }

    /// Tells the manager that other nodes' copies are old and gone.
    pub fn written(&mut self, cluster: &mut Cluster, node: usize, page: u32) {
        while let Some(other) = self.holder(cluster, page, node) {
            cluster.take(other, page);
            self.gone(page, other);
        }
        cluster.written(node, page);
    }

    /// Handles the loss of a node. The nodes left take over its pages' management, and all
    /// page-frame directories together rebuild its part of the global-cache directory.
    pub fn lose(&mut self, cluster: &Cluster, gone: usize) {
        self.know(cluster);
        let before = self.owners.clone();
        let left = (0..cluster.nodes.len()).filter(|node| cluster.serves(*node));
        self.owners.lose(gone, left.clone());
        self.parts[gone] = part(gone, cluster);
        self.parts.iter_mut().for_each(|part| part.forget(gone));
        for node in left {
            for (page, _) in cluster.nodes[node].from_oldest() {
                if before.manager(u64::from(page)) == gone {
                    self.came(page, node);
                }
            }
        }
    }

    fn came(&mut self, page: u32, node: usize) {
        let manager = self.manager(page);
        let has_room = self.parts[manager].came(u64::from(page), node);
        debug_assert!(has_room, "a part has room for all pages");
        self.told += u64::from(manager != node);
    }

    fn gone(&mut self, page: u32, node: usize) -> bool {
        let manager = self.manager(page);
        self.told += u64::from(manager != node);
        self.parts[manager].gone(u64::from(page), node)
    }
}

/// Returns a node's empty part, with room for all pages.
fn part(node: usize, cluster: &Cluster) -> GlobalCachePart {
    GlobalCachePart::new(SECRET + node as u64, cluster.objects())
}

/// Returns the kind of a page's frame in a node's memory.
pub(super) fn kind(memory: &NodeMemory, page: u32) -> FrameKind {
    if memory.mark(page) == mark(FrameKind::Global) { FrameKind::Global } else { FrameKind::Local }
}

/// Returns the mark of a frame. A use clears it: the page is then its holder's own.
fn mark(kind: FrameKind) -> u8 {
    u8::from(kind == FrameKind::Global)
}

/// Secret of the first part; a simulation has nobody to hide it from.
const SECRET: u64 = 0x6d_6e;

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
            let part = &directories.parts[directories.manager(page)];
            assert_eq!(
                part.holder(u64::from(page), node),
                cluster.other_holder(node, page),
                "{page}, {node}"
            );
        }
        let known: usize = directories.parts.iter().map(GlobalCachePart::len).sum();
        assert_eq!(known, objects.filter(|page| cluster.copies(*page) > 0).count());
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
        assert!(!cluster.serves(2) && (0..400).all(|page| gms.directories.manager(page) != 2));
        assert!(gms.directories.parts[2].is_empty() && gms.told() > 6000, "{}", gms.told());
    }
}
