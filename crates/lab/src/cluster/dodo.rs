//! Dodo: idle memory keeps whole regions of pages, each on one node.
//!
//! Koussih, Acharya, Setia, *Dodo: a user-level system for exploiting idle memory in workstation
//! clusters*, HPDC 1999; Voelker 2000, section 2.1.5.
//!
//! A program opens regions, here of `pages` consecutive pages each. The first read of a page opens
//! its region and reads it from disk. A region is allocated only when one idle node has room
//! for the whole of it, and stays there. The node that uses the region caches regions as a whole,
//! replaced by LRU or never ([`RegionReplacement`]). A missed region comes over as a whole, from
//! the idle node or, when it could not be allocated, from disk. When the region is not kept, the
//! node reads the page alone. A write goes to the idle node and to disk at once and brings nothing
//! in (no write allocate). Idle nodes therefore need no safe copies.
//!
//! Fits one program with large sequential reads. A random read pays for the rest of the region.
//! O(pages of a region) a miss.

use super::{BackgroundOp, Cluster, ClusterScheme, ClusterSize, LocatedBy, ServedFrom, TRANSFER_US};

/// Replacement of the regions that a node caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionReplacement {
    /// Evicts the region used longest ago.
    Lru,
    /// First-in: cached regions stay; other regions are read and not kept.
    FirstIn,
}

/// Dodo: idle memory keeps regions.
pub struct Dodo {
    /// Pages of a region.
    pages: usize,
    keep: RegionReplacement,
    /// Free frames of each idle node.
    idle: Vec<(usize, usize)>,
    /// Idle node of each region that was opened; none when none had room.
    homes: Vec<Home>,
    objects: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    NotOpened,
    Nowhere,
    On(usize),
}

impl Dodo {
    /// Creates regions of `pages` pages, at least one, kept on the idle nodes. A node beyond the
    /// list is active.
    pub fn new(size: &ClusterSize, is_idle: &[bool], pages: usize, keep: RegionReplacement) -> Self {
        let pages = pages.max(1);
        let idle = (0..size.nodes.len())
            .filter(|node| is_idle.get(*node).copied().unwrap_or(false))
            .map(|node| (node, size.nodes[node]));
        Self {
            pages,
            keep,
            idle: idle.collect(),
            homes: vec![Home::NotOpened; size.objects.div_ceil(pages)],
            objects: size.objects,
        }
    }

    /// Returns the number of regions that have an idle node.
    pub fn allocated(&self) -> usize {
        self.homes.iter().filter(|home| matches!(home, Home::On(_))).count()
    }

    fn region(&self, object: u32) -> std::ops::Range<u32> {
        let first = object as usize / self.pages * self.pages;
        first as u32..(first + self.pages).min(self.objects) as u32
    }

    /// Opens a region, which is read from disk. The first idle node with room for all of it gets a
    /// copy.
    fn open(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        let wanted = self.region(object).len();
        let found = self.idle.iter_mut().find(|(_, free)| *free >= wanted);
        self.homes[object as usize / self.pages] = found.map_or(Home::Nowhere, |(home, free)| {
            *free -= wanted;
            for _ in 0..wanted {
                cluster.forward(node, *home);
            }
            Home::On(*home)
        });
    }

    /// Brings a region in from its place. When the region is not kept, brings in only the requested
    /// page.
    fn fetch(&mut self, cluster: &mut Cluster, node: usize, object: u32, is_kept: bool) -> ServedFrom {
        let home = self.homes[object as usize / self.pages];
        // The disk seeks once; each further page costs its time on the wire.
        let more = if is_kept || home == Home::NotOpened { self.region(object).len() as u64 - 1 } else { 0 };
        cluster.counts.microseconds += more * TRANSFER_US;
        match home {
            Home::On(home) => {
                for _ in 0..more {
                    cluster.chore(BackgroundOp::Block { from: home, to: node });
                }
                ServedFrom::Remote { from: home, hops: 2, asked: LocatedBy::Nobody }
            }
            Home::NotOpened => {
                self.open(cluster, node, object);
                ServedFrom::OwnDisk
            }
            Home::Nowhere => ServedFrom::OwnDisk,
        }
    }

    /// Makes room for a region. Returns `false` when the region may not be kept.
    fn make_room(&self, cluster: &mut Cluster, node: usize, wanted: usize) -> bool {
        while cluster.nodes[node].capacity() - cluster.nodes[node].len() < wanted {
            let Some(oldest) = cluster.nodes[node].oldest() else { return false };
            if self.keep == RegionReplacement::FirstIn {
                return false;
            }
            for page in self.region(oldest) {
                cluster.take(node, page);
            }
        }
        true
    }
}

impl ClusterScheme for Dodo {
    fn name(&self) -> &'static str {
        match self.keep {
            RegionReplacement::Lru => "dodo, lru",
            RegionReplacement::FirstIn => "dodo, first-in",
        }
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.nodes[node].has(object) {
            // a region is used as a whole
            for page in self.region(object) {
                cluster.touch(node, page);
            }
            return ServedFrom::Local;
        }
        let region = self.region(object);
        let is_kept = self.make_room(cluster, node, region.len());
        let served = self.fetch(cluster, node, object, is_kept);
        if is_kept {
            region.for_each(|page| cluster.insert(node, page, cluster.now));
        }
        served
    }

    fn write(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        let is_here = cluster.nodes[node].has(object);
        let served = if is_here { self.request(cluster, node, object) } else { ServedFrom::WrittenThrough };
        self.written(cluster, node, object);
        served
    }

    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        if let Home::On(home) = self.homes[object as usize / self.pages] {
            cluster.forward(node, home);
        }
        cluster.write(node);
    }

    fn lost(&mut self, _cluster: &mut Cluster, node: usize) {
        self.idle.retain(|idle| idle.0 != node);
        // The regions of the lost node are on disk, and are not allocated again.
        for home in self.homes.iter_mut().filter(|home| **home == Home::On(node)) {
            *home = Home::Nowhere;
        }
    }
}
