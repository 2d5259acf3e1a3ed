//! Getpage: brings a page back from the node that holds it, if that costs less than the disk.

use super::ClusterMemory;
use super::get_lanes::{self, WantedPage};
use crate::cluster::PeerNode;
use bytes::Bytes;
use shoal_cache::io_pool::Urgency;
use shoal_cache::shared_memory::PlacedPage;
use shoal_cluster::MemoryAnswer;
use shoal_cooperation::NodeId;
use shoal_cooperation::global_memory::{CostMeter, PageCosts, ServerReport, SwitchChange};
use shoal_core::{Key, ObjectKey};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Page on its way back. Dropping it ends the count of those.
struct GetInFlight(Arc<ClusterMemory>);

/// End of a get.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GetEnd {
    /// The page.
    Page(Bytes),
    /// The node has the page no more.
    Gone,
    /// The node has given all pages back.
    Off,
    /// Other bytes than this node has put.
    Wrong,
    /// The node did not answer, or does not answer now.
    Failed,
}

impl ClusterMemory {
    /// Returns the way to a page, if asking for it costs less than the disk.
    pub(super) fn find_page(&self, key: &ObjectKey, on_disk: bool, urgency: Urgency) -> Option<PlacedPage> {
        let key = key.hash();
        let place = self.placed.lock().find(key)?;
        let (handle, memory) = (self.handle.upgrade()?, self.me.upgrade()?);
        let peer = Arc::clone(handle.members().peer(place.node)?);
        if on_disk && !self.pays(&peer, place.node) {
            return None;
        }
        if self.gets.load(Relaxed) >= gets_max(urgency, on_disk) {
            return None;
        }
        // Of several requests for it one takes the page.
        let place = self.placed.lock().take(key)?;
        self.gets.fetch_add(1, Relaxed);
        let flight = GetInFlight(memory);
        let bring = Box::pin(async move { flight.0.get(&peer, WantedPage { key, place }).await });
        Some(PlacedPage { bytes: u64::from(place.bytes), bring })
    }

    /// Returns `true` if the peer is asked before the disk.
    fn pays(&self, peer: &PeerNode, node: NodeId) -> bool {
        let now = self.now();
        let Some(report) = self.reports.lock().of(node, now) else { return false };
        let disk = self.disk.lock().seconds();
        let mut peers = self.peers.lock();
        let known = peers.entry(node).or_default();
        if self.is_always.load(Relaxed) {
            return true;
        }
        if !known.switch.is_on(now) {
            return false;
        }
        let costs = self.costs(disk, known.latency.seconds(), &report);
        let is_cheaper = costs.peer_is_cheaper();
        if let SwitchChange::Off(pause) = known.switch.judged(is_cheaper, now) {
            self.metrics.memory_switched_off.increment();
            known.row.switched_off += 1;
            tracing::warn!(
                peer = %peer.name,
                disk_us = disk.map(|seconds| seconds * 1e6),
                peer_us = known.latency.seconds().map(|seconds| seconds * 1e6),
                "the disk is faster than the memory of this peer, which is not asked for {pause:?}"
            );
            // After the pause the peer is measured anew.
            known.latency = CostMeter::default();
        }
        is_cheaper
    }

    fn costs(&self, disk: Option<f64>, peer: Option<f64>, report: &ServerReport) -> PageCosts {
        let service = f64::from(report.service_us) / 1e6;
        PageCosts {
            disk,
            peer,
            // The asker writes and reads about as much as the server does.
            own_cpu: service,
            own_utilization: self.load.used(),
            server_cpu: service,
            server_utilization: 1.0 - f64::from(report.unused_permille) / 1e3,
        }
    }

    /// Asks the holder for a page. The page has left the directory.
    async fn get(self: &Arc<Self>, peer: &Arc<PeerNode>, wanted: WantedPage) -> Option<Bytes> {
        let (began, place) = (Instant::now(), wanted.place);
        let end = get_lanes::bring(self, peer, wanted).await;
        let took = began.elapsed();
        self.epochs.lock().requested(1);
        let mut peers = self.peers.lock();
        let known = peers.entry(place.node).or_default();
        match end {
            GetEnd::Page(page) => {
                known.latency.took(took);
                known.trust.note(true, self.now());
                known.row.gets += 1;
                known.row.gets_us += u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.epochs.lock().faulted(1, took.as_secs_f64());
                self.metrics.memory_gets_hit.increment();
                self.metrics.memory_got_bytes.add(page.len() as u64);
                Some(page)
            }
            GetEnd::Gone => {
                known.row.gone += 1;
                self.metrics.memory_gets_gone.increment();
                if known.trust.note(false, self.now()) {
                    tracing::warn!(peer = %peer.name, "the peer forgets most pages, and gets none for a minute");
                }
                None
            }
            GetEnd::Off => {
                known.version = None;
                drop(peers);
                self.metrics.memory_gets_gone.increment();
                self.placed.lock().keep(|other| other != place.node);
                None
            }
            GetEnd::Wrong => {
                known.row.wrong += 1;
                self.metrics.memory_gets_wrong.increment();
                None
            }
            GetEnd::Failed => {
                known.row.failed += 1;
                self.metrics.memory_gets_failed.increment();
                self.reports.lock().forget(place.node);
                None
            }
        }
    }

    /// Records the report of an answer, and the pages that were given up.
    pub(super) fn heard_answer(&self, node: NodeId, answer: &MemoryAnswer<'_>) {
        self.heard(node, answer.report());
        let mut placed = self.placed.lock();
        for page in &answer.gone {
            placed.gone(Key::from_bytes(page.to_le_bytes()), node);
        }
    }

    /// Records the report of a node.
    pub(super) fn heard(&self, node: NodeId, report: ServerReport) {
        let now = self.now();
        self.reports.lock().heard(node, report, now);
        self.peers.lock().entry(node).or_default().heard = Some(now);
    }

    /// Returns the hash by which this node knows its page again.
    pub(super) fn sum(&self, page: &[u8]) -> u64 {
        xxh3_64_with_seed(page, self.seed)
    }

    /// Returns `true` if the node gets pages: it keeps most of those that it takes.
    pub(super) fn is_trusted(&self, node: NodeId, now: Duration) -> bool {
        self.peers.lock().get(&node).is_none_or(|known| known.trust.is_trusted(now))
    }
}

impl Drop for GetInFlight {
    fn drop(&mut self) {
        let before = self.0.gets.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "each get is counted once");
    }
}

/// Returns the most pages on their way back; further misses read the disk. A prefetch leaves the
/// other nodes to clients' requests: it asks if no page is on its way, or for an object that the
/// disk does not have if few are.
fn gets_max(urgency: Urgency, on_disk: bool) -> u32 {
    match urgency {
        Urgency::Demand => GETS_MAX,
        Urgency::Ahead if on_disk => 1,
        Urgency::Ahead => GETS_MAX / 8,
    }
}

/// Most pages on their way back.
const GETS_MAX: u32 = 64;

const _: () = assert!(GETS_MAX / 8 > 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefetch_leaves_peers_to_clients() {
        for under_way in 0..=GETS_MAX {
            let asks = |urgency, on_disk| under_way < gets_max(urgency, on_disk);
            assert!(asks(Urgency::Demand, true) || under_way == GETS_MAX);
            assert_eq!(asks(Urgency::Ahead, true), under_way == 0, "{under_way}");
            assert!(!asks(Urgency::Ahead, false) || under_way < GETS_MAX / 4, "{under_way}");
        }
    }
}
