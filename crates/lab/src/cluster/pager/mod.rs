//! The Remote Memory Pager: pages that clients write are kept in idle nodes' memory and survive the
//! loss of one idle node.
//!
//! Markatos, Dramitinos, *Implementation of a reliable remote memory pager*, USENIX 1996; Voelker
//! 2000, section 2.1.4. A client pages out to servers (idle nodes), round robin, and in from them.
//! Memory that was given to a page stays its own; when all is given, the client pages to its own
//! disk. A [`Redundancy`] makes pages safe:
//!
//! | redundancy | transfers a page-out | memory | when a server is lost |
//! |---|--:|--:|---|
//! | [`NoRedundancy`] | 1 | 1 | its pages are lost |
//! | [`Mirrors`] | 2 | 2 | the other copy is copied |
//! | [`Parity`] | 2 (one between servers) | 1 + 1/(N − 1) | pages come from other servers' frames |
//! | [`ParityLog`] | 1 + 1/(N − 1) | as parity, and a tenth | pages come from their groups |
//!
//! N is the number of servers, and one of them keeps parity. A page's contents are a number that
//! every write changes, and parity is computed from the numbers. A page that comes back with
//! another number counts as lost. A page that was never changed is paged out too when no server has
//! it, as backing store. O(N) a page-out, and with parity logging O(groups) where its cleaner runs;
//! the loss of a server takes O(pages · N).

mod mirroring;
mod parity;
mod parity_logging;
mod servers;
mod unprotected;

#[cfg(test)]
mod tests;

pub use mirroring::Mirrors;
pub use parity::Parity;
pub use parity_logging::ParityLog;
pub use servers::{FrameLocation, Servers};
pub use unprotected::NoRedundancy;

use super::{Cluster, ClusterScheme, ClusterSize, LocatedBy, ServedFrom};
use shoal_core::mixed;

/// Keeps pages on servers and restores them after a loss.
pub trait Redundancy {
    /// Returns the redundancy's name.
    fn name(&self) -> &'static str;

    /// Returns the place where a page can be read, when it is kept.
    fn place(&self, page: u32) -> Option<FrameLocation>;

    /// Stores a page's contents in place of its older version. Returns the transfers that this
    /// took. No transfers mean that there was no room, and that the page is kept no longer.
    fn put(&mut self, servers: &mut Servers, page: u32, contents: u64) -> Vec<Transfer>;

    /// Handles the loss of a server with its frames. Rebuilds the server's pages elsewhere as far
    /// as there is room. Returns the blocks that this took, and the pages that are kept no longer.
    fn lose(&mut self, servers: &mut Servers, lost: usize) -> Rebuilt;
}

/// A block sent to a server that keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The server that sends the block; `None` for the client.
    pub from: Option<usize>,
    /// The server that keeps the block.
    pub to: usize,
}

/// Work and result of rebuilding lost pages.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rebuilt {
    /// Blocks sent.
    pub transfers: u64,
    /// Pages that are kept no longer, with their contents when those could be rebuilt. The client's
    /// disk gets them.
    pub homeless: Vec<(u32, Option<u64>)>,
}

/// The Remote Memory Pager.
pub struct Pager {
    redundancy: Box<dyn Redundancy>,
    servers: Servers,
    /// Current contents of each page.
    contents: Vec<u64>,
    /// Contents of each page on the client's disk.
    on_disk: Vec<u64>,
}

impl Pager {
    /// Creates the pager with the idle nodes as servers. A node beyond the list is a client.
    pub fn new(size: &ClusterSize, is_idle: &[bool], redundancy: impl Redundancy + 'static) -> Self {
        let nodes = (0..size.nodes.len()).filter(|node| is_idle.get(*node).copied().unwrap_or(false));
        let contents: Vec<u64> = (0..size.objects as u64).map(mixed).collect();
        Self {
            redundancy: Box::new(redundancy),
            servers: Servers::new(nodes.map(|node| (node, size.nodes[node]))),
            on_disk: contents.clone(),
            contents,
        }
    }

    /// Pages in, and compares the contents with those last written.
    fn page_in(&mut self, cluster: &mut Cluster, page: u32) -> ServedFrom {
        let (found, served) = match self.redundancy.place(page) {
            Some(place) => {
                let from = self.servers.node(place.server);
                let served = ServedFrom::Remote { from, hops: 2, asked: LocatedBy::Nobody };
                (self.servers.read(place), served)
            }
            None => (self.on_disk[page as usize], ServedFrom::OwnDisk),
        };
        if found != self.contents[page as usize] {
            // The program goes on with the contents found, so that one loss counts once.
            cluster.counts.lost += 1;
            self.contents[page as usize] = found;
        }
        served
    }

    fn page_out(&mut self, cluster: &mut Cluster, client: usize, page: u32, was_changed: bool) {
        if !was_changed && self.redundancy.place(page).is_some() {
            return;
        }
        let contents = self.contents[page as usize];
        for Transfer { from, to } in self.redundancy.put(&mut self.servers, page, contents) {
            cluster.forward(from.map_or(client, |server| self.servers.node(server)), self.servers.node(to));
        }
        if self.redundancy.place(page).is_none() && self.on_disk[page as usize] != contents {
            self.on_disk[page as usize] = contents;
            cluster.write(client);
        }
    }
}

impl ClusterScheme for Pager {
    fn name(&self) -> &'static str {
        self.redundancy.name()
    }

    fn request(&mut self, cluster: &mut Cluster, node: usize, object: u32) -> ServedFrom {
        if cluster.touch(node, object) {
            return ServedFrom::Local;
        }
        let served = self.page_in(cluster, object);
        if cluster.nodes[node].is_full()
            && let Some(evicted) = cluster.nodes[node].oldest()
        {
            let was_changed = cluster.take(node, evicted);
            self.page_out(cluster, node, evicted, was_changed);
        }
        cluster.insert(node, object, cluster.now);
        served
    }

    fn written(&mut self, cluster: &mut Cluster, node: usize, object: u32) {
        let contents = &mut self.contents[object as usize];
        *contents = mixed(*contents ^ u64::from(cluster.now));
        cluster.written(node, object);
    }

    fn lost(&mut self, cluster: &mut Cluster, node: usize) {
        let Some(server) = self.servers.of_node(node) else { return };
        self.servers.lose(server);
        let rebuilt = self.redundancy.lose(&mut self.servers, server);
        cluster.counts.rebuilt += rebuilt.transfers;
        for (page, contents) in rebuilt.homeless {
            if let Some(contents) = contents.filter(|contents| *contents != self.on_disk[page as usize]) {
                self.on_disk[page as usize] = contents;
                cluster.counts.disk_writes += 1;
            }
        }
        self.servers.forget(server);
    }
}
