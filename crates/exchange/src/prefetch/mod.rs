//! Prefetching: answers are fetched before clients ask for them.
//!
//! ```text
//!   lists, links, ranges … ─► hints ─► state: next? ─► fetching ─► the cache
//!                                        ▲  ▲                        │
//!              accounts, budgets, pace ──┘  └── used, or wasted ◄────┘ a client asks, or none
//! ```
//!
//! Decisions are those of `shoal_cooperation::prefetch`. A prefetch is an ordinary request of the
//! exchange, so that rules, keys and storing are the same, with three differences. It carries no
//! credentials. It gives way to clients at the origin ([`Background`]). And its answer is kept only
//! if it may be shared. A client that asks for the same joins its flight, and makes the prefetch an
//! ordinary request by that.
//!
//! A hint waits in `origins` while its origin has as many prefetches as it takes at once.
//!
//! One task drives everything, on the worker that had the first hint. It ends when nothing is left
//! to fetch or to judge.

mod early;
mod fetching;
mod hint;
mod list;
mod observe;
mod origins;
mod place;
mod remote;
mod report;
mod state;
mod watched;

pub(super) use early::{RequestHints, tee};
pub use hint::{HintPlace, HintRefusal};
pub use list::{HintLine, HintLines, LIST_MAX, parse};
pub(super) use observe::learn;
pub use remote::PrefetchService;
pub use report::{
    HintedFile, HintsReport, PrefetchStatus, SourceStatus, note_cpu, status, take_files, take_list,
};
pub use shoal_cooperation::prefetch::HintSource;

use crate::CacheEngine;
use crate::clock;
use crate::upstream::Background;
use early::RememberedHints;
use http::Version;
use parking_lot::Mutex;
use remote::RemoteMemory;
use shoal_core::{Key, Timestamp};
use shoal_settings::Prefetch;
use state::{NextStep, PrefetchState};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use watched::WatchedKeys;

/// Prefetching of one node.
#[derive(Default)]
pub struct Prefetcher {
    state: Mutex<PrefetchState>,
    /// Keys of answers that were fetched or are being fetched, for a quick look by hits.
    watched: WatchedKeys,
    early: RememberedHints,
    /// Fetches on their way that a client may join, by the hash of their key.
    running: Mutex<HashMap<u64, Arc<Background>>>,
    /// Memory of the cluster's other nodes.
    remote: RemoteMemory,
    wake: Notify,
    is_driven: AtomicBool,
    /// Share of the processors in use, in percent.
    cpu: AtomicU32,
}

impl Prefetcher {
    /// Notes the share of the processors that this process uses, in percent.
    pub fn note_cpu(&self, percent: u32) {
        debug_assert!(percent <= 100, "a share of all processors");
        self.cpu.store(percent, Ordering::Relaxed);
    }

    /// Notes a client's request for this key on the fast path.
    #[inline]
    pub(super) fn note_hit(&self, key: Key) {
        if !self.watched.is_empty() && self.watched.take(key.low()) {
            self.wake.notify_one();
        }
    }

    /// Returns `true` if a hit in RAM takes the ordinary path, so that prefetching sees its
    /// request: one with early hints to send, and those of one second in eight if successors are
    /// learnt.
    #[inline]
    pub(super) fn wants_hit(
        &self,
        settings: &Prefetch,
        (version, key): (Version, Key),
        now: Timestamp,
    ) -> bool {
        settings.learn && (now.millis() / SECOND_MS).is_multiple_of(SAMPLED_SECONDS)
            || early::takes(settings.early_hints, version) && self.early.has(key.low())
    }

    /// Gives hints to the state, and sees that they are worked on. Must run within a runtime.
    fn begin(engine: &Arc<CacheEngine>) {
        let prefetcher = &engine.prefetcher;
        match prefetcher.is_driven.swap(true, Ordering::AcqRel) {
            true => prefetcher.wake.notify_one(),
            false => drop(tokio::spawn(drive(Arc::clone(engine)))),
        }
    }
}

/// Fetches due hints until nothing is left.
async fn drive(engine: Arc<CacheEngine>) {
    let prefetcher = Arc::clone(&engine.prefetcher);
    loop {
        let live = engine.live();
        let demand_bytes = engine.metrics.upstream_body_bytes.value();
        let step = {
            let mut state = prefetcher.state.lock();
            for (key, source) in state.settle_seen(&prefetcher.watched, now_seconds()) {
                tracing::debug!(key, source = source.name(), "a prefetched answer was used");
            }
            let cpu = prefetcher.cpu.load(Ordering::Relaxed);
            state.next(&live.prefetch, (now_seconds(), demand_bytes, cpu), &prefetcher.watched)
        };
        match step {
            NextStep::Fetch(hint, allowance) => {
                let (engine, live) = (Arc::clone(&engine), Arc::clone(&live));
                tokio::spawn(async move { fetching::fetch(&engine, &live, *hint, allowance).await });
            }
            NextStep::Wait(seconds) => {
                let pause = Duration::from_secs_f64(seconds.clamp(LEAST_PAUSE, LONGEST_PAUSE));
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = prefetcher.wake.notified() => {}
                }
            }
            NextStep::Idle => {
                prefetcher.is_driven.store(false, Ordering::Release);
                // A hint may have come since.
                let is_left = !prefetcher.state.lock().is_idle();
                if !is_left || prefetcher.is_driven.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        }
    }
}

/// Returns the cache's time in seconds, from any start.
fn now_seconds() -> f64 {
    clock::now().millis() as f64 / 1000.0
}

/// Seconds of which one teaches successors from hits in RAM. Whole seconds keep the order of a
/// client's requests.
const SAMPLED_SECONDS: u64 = 8;
const SECOND_MS: u64 = 1000;
const LEAST_PAUSE: f64 = 0.002;
const LONGEST_PAUSE: f64 = 1.0;
