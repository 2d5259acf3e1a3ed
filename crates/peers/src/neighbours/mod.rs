//! Neighbours by Squid's protocols: caches beside and above this node, asked and answered.
//!
//! ```text
//!  worker: a miss ─► choice ─► digest says yes ────────────────► sibling, only-if-cached ─┐
//!                       │                                                                 │ 504
//!                       ├─► question ─► driver ─► ICP, HTCP ─► a hit ─► sibling ──────────┤
//!                       └─► parents: CARP, in turn, first up, default ──────────────────┴► origin
//!  driver: ICP, HTCP of listed caches ─► a look into the cache ─► an answer, never a longer one
//! ```
//!
//! The driver is a thread of its own, so that floods of datagrams take nothing from the workers.
//! Decisions are pure: `choice`, `standing` and the crate `shoal_neighbours`.

mod answering;
mod asking;
mod choice;
mod driver;
mod fetched_digest;
mod local_objects;
mod own_digest;
mod standing;
mod table;

pub use choice::NeighbourOrder;
pub use driver::NeighbourThread;
pub use local_objects::{ClearOutcome, LocalObjects, Look};
pub use own_digest::{OwnDigest, PacedBody, SeenObject};
pub use table::{NeighbourEntry, SetupMistake};

use crate::access::contains;
use arc_swap::ArcSwapOption;
use asking::{Findings, PurgeNotice, Question};
use http::Uri;
use shoal_neighbours::digest::{DIGEST_PATH, digest_key};
use shoal_neighbours::htcp::HtcpKey;
use shoal_settings::{NeighbourKind, Settings};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Neighbours of this node, shared by the workers and the driver.
pub struct NeighbourCaches {
    settings: shoal_settings::Neighbours,
    entries: Vec<Arc<NeighbourEntry>>,
    order: NeighbourOrder,
    /// Turns of parents that are asked one after the other.
    turns: AtomicU64,
    key: Option<HtcpKey>,
    own_digest: ArcSwapOption<OwnDigest>,
    to_driver: mpsc::Sender<DriverOrder>,
    started: Instant,
}

/// Order to the driver.
enum DriverOrder {
    /// Ask neighbours for a URL.
    Ask(Question),
    /// Tell neighbours that a URL was purged.
    Clear(PurgeNotice),
}

/// Way of a request to the origin, over neighbours.
#[derive(Clone)]
pub struct NeighbourWay {
    /// The neighbour.
    pub entry: Arc<NeighbourEntry>,
    /// `true` if the neighbour must not fetch the URL.
    pub only_if_cached: bool,
}

impl NeighbourCaches {
    /// Prepares the neighbours of these settings. Returns `None` without any, and the orders for
    /// the driver.
    ///
    /// # Errors
    /// If a file cannot be read or a neighbour cannot be used.
    pub fn new(settings: &Settings) -> Result<Option<(Arc<Self>, DriverOrders)>, SetupMistake> {
        let own = &settings.neighbours;
        let is_asked = own.icp_listen.is_some() || own.htcp_listen.is_some() || !own.allow.is_empty();
        if settings.neighbour.is_empty() && !is_asked {
            return Ok(None);
        }
        let key = own.htcp_key_file.as_deref().map(table::read_key).transpose()?;
        let entries = table::entries(settings)?;
        let (to_driver, orders) = mpsc::channel(ORDERS_MAX);
        let neighbours = Self {
            order: NeighbourOrder::new(&settings.neighbour, own.carp_rule),
            settings: own.clone(),
            entries,
            turns: AtomicU64::new(0),
            key,
            own_digest: ArcSwapOption::empty(),
            to_driver,
            started: Instant::now(),
        };
        Ok(Some((Arc::new(neighbours), DriverOrders(orders))))
    }

    /// Returns the general settings.
    pub fn settings(&self) -> &shoal_settings::Neighbours {
        &self.settings
    }

    /// Returns `true` if some neighbour may be asked.
    pub fn has_any(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Returns `true` if the address may ask this node by neighbours' protocols.
    pub fn is_listed(&self, address: IpAddr) -> bool {
        contains(&self.settings.allow, address)
    }

    /// Returns the digest of this node; `None` before the first one is built.
    pub fn own_digest(&self) -> Option<Arc<OwnDigest>> {
        self.own_digest.load_full()
    }

    /// Returns `true` if the request asks for this node's own digest: the path, at an address of
    /// this node or a name with its port.
    pub fn is_own_digest(uri: &Uri, local: SocketAddr) -> bool {
        if uri.path() != DIGEST_PATH {
            return false;
        }
        let Some(authority) = uri.authority() else { return true };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_here = host.parse::<IpAddr>().map_or(true, |ip| ip == local.ip().to_canonical());
        is_here && authority.port_u16().unwrap_or(80) == local.port()
    }

    /// Returns a sibling or parent that says that it holds `url`, by its digest or in answer to one
    /// round of questions. `from` is the client, which is not asked itself.
    pub async fn holder(&self, url: &str, from: IpAddr) -> Findings {
        let now = self.now();
        let may_be_asked = |entry: &Arc<NeighbourEntry>| entry.may_be_used(now) && !entry.is_at(from);
        let digest_key = digest_key(url);
        let by_digest = self.entries.iter().enumerate().filter(|(_, entry)| may_be_asked(entry));
        let by_digest = by_digest.filter(|(_, entry)| entry.digest_has(&digest_key, now) == Some(true));
        if let Some((index, _)) = by_digest.max_by_key(|(_, entry)| entry.settings.weight) {
            return Findings { hit: Some(index), first_miss: None };
        }
        let asked = self.entries.iter().enumerate().filter(|(_, entry)| may_be_asked(entry));
        let asked = asked.filter(|(_, entry)| entry.answers_questions());
        // A digest that says no is believed.
        let asked = asked.filter(|(_, entry)| entry.digest_has(&digest_key, now) != Some(false));
        let targets: Vec<usize> = asked.map(|(index, _)| index).take(TARGETS_MAX).collect();
        if targets.is_empty() {
            return Findings::default();
        }
        debug_assert!(targets.len() <= TARGETS_MAX, "a bounded round");
        let (answer, answered) = oneshot::channel();
        let question = Question { url: url.into(), targets, answer };
        if self.to_driver.try_send(DriverOrder::Ask(question)).is_err() {
            return Findings::default();
        }
        answered.await.unwrap_or_default()
    }

    /// Returns the way to a neighbour that says that it holds the URL.
    pub fn way_to_holder(&self, index: usize) -> NeighbourWay {
        let entry = Arc::clone(&self.entries[index]);
        let only_if_cached = entry.settings.kind == NeighbourKind::Sibling && !entry.settings.allow_miss;
        NeighbourWay { entry, only_if_cached }
    }

    /// Returns the parents to ask for `url`, the best first. `first_miss` is the parent that
    /// answered first.
    pub fn parents(&self, url: &str, from: IpAddr, first_miss: Option<usize>) -> Vec<NeighbourWay> {
        let now = self.now();
        let is_up: Vec<bool> =
            self.entries.iter().map(|entry| entry.may_be_used(now) && !entry.is_at(from)).collect();
        let turn = if self.order.has_turns() { self.turns.fetch_add(1, Relaxed) } else { 0 };
        let parents = self.order.parents(url, &is_up, first_miss, turn);
        let parents = parents.into_iter().take(PARENTS_MAX);
        parents
            .map(|at| NeighbourWay { entry: Arc::clone(&self.entries[at]), only_if_cached: false })
            .collect()
    }

    /// Tells neighbours with `htcp_clear` that a URL was purged.
    pub fn tell_purged(&self, url: &str) {
        let has_clear = self.entries.iter().any(|entry| entry.settings.htcp_clear);
        if has_clear && url.len() < URL_MAX {
            // A full queue loses it: CLR has no promise, since Squid has none.
            let _ = self.to_driver.try_send(DriverOrder::Clear(PurgeNotice { url: url.into() }));
        }
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Orders of the workers to the driver.
pub struct DriverOrders(mpsc::Receiver<DriverOrder>);

/// Most orders that wait for the driver; with more, no neighbour is asked.
const ORDERS_MAX: usize = 1024;
/// Most neighbours asked for one URL.
const TARGETS_MAX: usize = 32;
/// Most parents tried for one request, before the origin.
const PARENTS_MAX: usize = 2;
/// Longest URL that is told.
const URL_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_digest_is_known_by_path_and_address() {
        let local: SocketAddr = ([10, 0, 0, 1], 3128).into();
        for (uri, is_own) in [
            ("http://10.0.0.1:3128/squid-internal-periodic/store_digest", true),
            ("/squid-internal-periodic/store_digest", true),
            ("http://shoal.test:3128/squid-internal-periodic/store_digest", true),
            ("http://10.0.0.2:3128/squid-internal-periodic/store_digest", false),
            ("http://10.0.0.1/squid-internal-periodic/store_digest", false),
            ("http://10.0.0.1:3128/squid-internal-periodic/other", false),
        ] {
            assert_eq!(NeighbourCaches::is_own_digest(&uri.parse().expect("a URI"), local), is_own, "{uri}");
        }
    }
}
