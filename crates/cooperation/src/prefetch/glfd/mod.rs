//! GLFD, the global longest forward distance: replacement over three levels with the future known.
//!
//! Voelker 2000, section 4.2.3. Memory has three levels: local memory, the memory of other nodes,
//! and disk. Page p comes to node A when A requests it, and
//!
//! - **from global memory**: A gives a page in exchange: one that it holds for others if there is
//!   any, otherwise the local page that it needs last;
//! - **from disk**: A's page goes to the node that holds the page needed last of all pages in the
//!   cluster, and takes its place.
//!
//! A page that is sent back to its user's node, in exchange or to a free frame, is local there.
//!
//! So the cluster holds the pages that are needed soonest, and each node the pages that *it* needs
//! soonest. GLFD is not always the best, but near: for any references C_GLFD ≤ C_OPT·(1 + 3 F_G /
//! F_D), with costs as [`Counts::cost_seconds`] adds them up. The tests compare it with the least
//! cost of all possible choices.
//!
//! GLFD is a bound for policies that do not know the future, and the measure of those that
//! approximate it ([`super::epoch`]). Free frames are used first, and a page exists once. O(log
//! pages + nodes) a reference, 40 bytes a reference.

mod future;

#[cfg(test)]
mod tests;

use super::{AccessTimes, PrefetchError};
use future::{Uses, uses};
use std::collections::BTreeSet;

/// Reference of a node to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Node, from 0.
    pub node: usize,
    /// Page.
    pub page: u32,
}

/// Numbers of references by the level that served them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// References served from the node's own memory.
    pub local: u64,
    /// References served from the memory of another node.
    pub global: u64,
    /// References served from disk.
    pub disk: u64,
}

impl Counts {
    /// Returns C, the cost of all references: F_L for each, and F_G or F_D for those from another
    /// level.
    pub fn cost_seconds(&self, times: &AccessTimes) -> f64 {
        let all = self.local + self.global + self.disk;
        all as f64 * times.local_seconds()
            + self.global as f64 * times.global_seconds()
            + self.disk as f64 * times.disk_seconds()
    }
}

/// Replays references over nodes with `frames` frames each.
///
/// # Errors
/// When a reference names a node that does not exist or has no frame.
///
/// ```
/// use shoal_cooperation::prefetch::glfd::{Counts, Reference, replay};
///
/// // one node with two frames, and an idle one with one: the third page pushes the first out to it
/// let asks = [1, 2, 3, 1].map(|page| Reference { node: 0, page });
/// assert_eq!(replay(&[2, 1], &asks).unwrap(), Counts { local: 1, global: 0, disk: 3 });
/// ```
pub fn replay(frames: &[usize], references: &[Reference]) -> Result<Counts, PrefetchError> {
    let has_frames = |reference: &&Reference| frames.get(reference.node).is_none_or(|frames| *frames == 0);
    if let Some(reference) = references.iter().find(has_frames) {
        return Err(PrefetchError::Node { node: reference.node });
    }
    let pages = references.iter().map(|reference| reference.page as usize + 1).max().unwrap_or(0);
    let mut cluster = Cluster {
        nodes: frames.iter().map(|frames| Node { frames: *frames, ..Node::default() }).collect(),
        at: vec![None; pages],
        counts: Counts::default(),
    };
    for (reference, uses) in references.iter().zip(uses(references, frames.len())) {
        cluster.reference(*reference, uses);
    }
    Ok(cluster.counts)
}

/// Places of all pages.
struct Cluster {
    nodes: Vec<Node>,
    at: Vec<Option<Resident>>,
    counts: Counts,
}

/// Page in some memory.
#[derive(Clone, Copy)]
struct Resident {
    node: usize,
    /// Node that used the page last; on any other node the page is global.
    user: usize,
    uses: Uses,
}

/// Pages of one node.
#[derive(Default)]
struct Node {
    frames: usize,
    /// Pages for its own use, by its next use.
    local: BTreeSet<(u64, u32)>,
    /// Pages that it holds for others, by their next use by any node.
    global: BTreeSet<(u64, u32)>,
    /// All pages, by their next use by any node.
    all: BTreeSet<(u64, u32)>,
}

impl Cluster {
    fn reference(&mut self, reference: Reference, uses: Uses) {
        let Reference { node, page } = reference;
        let from = self.at[page as usize];
        if from.is_some() {
            self.remove(page);
        }
        match from {
            Some(resident) if resident.node == node => self.counts.local += 1,
            Some(resident) => {
                self.counts.global += 1;
                if self.is_full(node) {
                    self.send(node, resident.node);
                }
            }
            None => {
                self.counts.disk += 1;
                if self.is_full(node) {
                    self.make_room(node);
                }
            }
        }
        self.insert(page, Resident { node, user: node, uses });
    }

    /// Frees a frame of a node that takes a page from disk: somewhere in the cluster a page is
    /// dropped.
    fn make_room(&mut self, node: usize) {
        if let Some(free) = (0..self.nodes.len()).find(|node| !self.is_full(*node)) {
            return self.send(node, free);
        }
        let last = |holder: &usize| self.nodes[*holder].all.last().map(|(next, _)| *next);
        let Some(holder) = (0..self.nodes.len()).max_by_key(last) else { return };
        if let Some((_, victim)) = self.nodes[holder].all.last().copied() {
            self.remove(victim);
        }
        if holder != node {
            self.send(node, holder);
        }
    }

    /// Moves a page of one node to another with a free frame.
    fn send(&mut self, from: usize, to: usize) {
        let node = &self.nodes[from];
        let Some((_, page)) = node.global.last().or(node.local.last()).copied() else { return };
        if let Some(resident) = self.remove(page) {
            self.insert(page, Resident { node: to, ..resident });
        }
    }

    fn is_full(&self, node: usize) -> bool {
        self.nodes[node].all.len() >= self.nodes[node].frames
    }

    fn insert(&mut self, page: u32, resident: Resident) {
        let (node, Uses { by_anyone, by_this }) = (&mut self.nodes[resident.node], resident.uses);
        let (kind, next) = if resident.user == resident.node {
            (&mut node.local, by_this)
        } else {
            (&mut node.global, by_anyone)
        };
        kind.insert((next, page));
        node.all.insert((by_anyone, page));
        self.at[page as usize] = Some(resident);
    }

    fn remove(&mut self, page: u32) -> Option<Resident> {
        let resident = self.at[page as usize].take()?;
        let (node, Uses { by_anyone, by_this }) = (&mut self.nodes[resident.node], resident.uses);
        let (kind, next) = if resident.user == resident.node {
            (&mut node.local, by_this)
        } else {
            (&mut node.global, by_anyone)
        };
        kind.remove(&(next, page));
        node.all.remove(&(by_anyone, page));
        Some(resident)
    }
}
