//! Samples of the requests for the dashboard, taken so that a hit in RAM pays next to nothing.
//!
//! ```text
//!   hit in RAM ──┬─ keyed hash below a threshold ─► ring of its core: hash, bytes   (live curve)
//!                └─ one in 64 ────────────────────► table of objects                (top objects)
//!   other request ─► both, each
//!   line of the log ─► viewers of its tail, if there are any
//! ```
//!
//! A ring is full when its core has more requests below the threshold than are taken out in time.
//! Further ones are lost and counted, and the node then watches fewer objects.

mod key_ring;
mod object_samples;
mod tail;

pub use key_ring::{KeySample, RING_BYTES};
pub use object_samples::{ObjectSamples, SampledObject};
pub use tail::{LogTail, TailSubscription};

use crate::by_site::SAMPLED;
use crate::metrics::Counter;
use crate::per_core::{CacheLine, PLACES};
use crate::record::{AccessRecord, CacheResult};
use http::{Method, StatusCode};
use key_ring::KeyRing;
use shoal_core::Key;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Samples of a node's requests.
#[derive(Debug)]
pub struct Samples {
    /// Objects with a hash of at most this are watched.
    threshold: AtomicU64,
    rings: Box<[CacheLine<KeyRing>]>,
    /// Requests for no object that a cache could have: by other methods, refused, abandoned.
    /// Tunnels are left out.
    pub others: Counter,
    /// Bytes of the bodies of these.
    pub others_bytes: Counter,
    /// Objects with most requests and bytes.
    pub objects: ObjectSamples,
    /// Viewers of the access log.
    pub tail: LogTail,
}

impl Samples {
    /// Notes a hit in RAM at `place`, the calling thread's.
    #[inline]
    pub fn hit(&self, place: usize, key: Key, bytes: usize) {
        if key.low() <= self.threshold.load(Relaxed) {
            self.rings[place].0.push(place, key.low(), KeySample::bytes(bytes as u64));
        }
    }

    /// Notes the object of a hit in RAM that stands for [`SAMPLED`] hits.
    #[cold]
    #[inline(never)]
    pub fn hit_object(&self, key: Key, url: &[u8], site: &str, bytes: usize) {
        self.objects.add(key, (url, site), bytes as u64, SAMPLED);
    }

    /// Notes a finished request that was no hit on the fast path.
    pub fn request(&self, place: usize, record: &AccessRecord) {
        let Some(key) = record.key.filter(|_| has_object(record)) else {
            if record.outcome != CacheResult::Tunnel {
                self.others.increment();
                self.others_bytes.add(record.body_bytes);
            }
            return;
        };
        debug_assert!(!record.is_for_peer, "a peer counts the request of its client");
        debug_assert!(place < PLACES, "a thread has a place");
        if key.low() <= self.threshold.load(Relaxed) {
            let sample = match is_storable(record) {
                true => KeySample::bytes(record.body_bytes),
                false => KeySample::UNSTORABLE,
            };
            self.rings[place].0.push(place, key.low(), sample);
        }
        let site = record.site.as_ref().map_or("", |site| site.label());
        self.objects.add(key, (record.url.as_bytes(), site), record.body_bytes, 1);
    }

    /// Sets the threshold of watched objects.
    pub fn set_threshold(&self, threshold: u64) {
        self.threshold.store(threshold, Relaxed);
    }

    /// Takes the watched requests of all cores. Returns the number of those that were lost since
    /// the last call.
    pub fn take(&self, mut taker: impl FnMut(KeySample)) -> u64 {
        self.rings.iter().map(|ring| ring.0.take(&mut taker)).sum()
    }
}

impl Default for Samples {
    /// No object is watched before a threshold is set.
    fn default() -> Self {
        Self {
            threshold: AtomicU64::new(0),
            rings: (0..PLACES).map(|_| CacheLine::default()).collect(),
            others: Counter::default(),
            others_bytes: Counter::default(),
            objects: ObjectSamples::default(),
            tail: LogTail::default(),
        }
    }
}

/// Returns `true` if the request was for one object, by a method that a cache may answer.
fn has_object(record: &AccessRecord) -> bool {
    let is_read = matches!(record.method, Some(Method::GET | Method::HEAD));
    let is_answer = !matches!(
        record.outcome,
        CacheResult::Tunnel | CacheResult::Denied | CacheResult::Abandoned | CacheResult::None
    );
    is_read && is_answer
}

/// Returns `true` if a cache of another size could have had the response: it was stored, or is
/// being stored. A part or a 304 says nothing about the size of the object and counts as no bytes.
fn is_storable(record: &AccessRecord) -> bool {
    let is_stored = match record.outcome {
        CacheResult::Pass => false,
        CacheResult::Miss | CacheResult::RefreshModified => record.is_stored,
        _ => true,
    };
    is_stored && record.status != StatusCode::BAD_GATEWAY.as_u16() && !record.failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_core::place;

    fn record(outcome: CacheResult, method: Method) -> AccessRecord {
        let key = Some(Key::of(b"http://a.test/"));
        AccessRecord { outcome, method: Some(method), key, body_bytes: 7, ..AccessRecord::default() }
    }

    fn taken(samples: &Samples) -> Vec<Option<u64>> {
        let mut taken = Vec::new();
        samples.take(|sample| taken.push(sample.bytes));
        taken
    }

    #[test]
    fn requests_are_watched_below_the_threshold() {
        let samples = Samples::default();
        samples.hit(place(), Key::of(b"a"), 5);
        assert_eq!(taken(&samples), [], "nothing before a threshold is set");
        samples.set_threshold(u64::MAX);
        samples.hit(place(), Key::of(b"a"), 5);
        samples.request(place(), &record(CacheResult::Hit, Method::GET));
        samples.request(place(), &record(CacheResult::Miss, Method::GET));
        samples.request(place(), &record(CacheResult::Pass, Method::GET));
        let stored = AccessRecord { is_stored: true, ..record(CacheResult::Miss, Method::GET) };
        samples.request(place(), &stored);
        assert_eq!(taken(&samples), [Some(5), Some(7), None, None, Some(7)]);
    }

    #[test]
    fn requests_without_an_object_are_counted_apart() {
        let samples = Samples::default();
        samples.set_threshold(u64::MAX);
        samples.request(place(), &record(CacheResult::Pass, Method::POST));
        samples.request(place(), &record(CacheResult::Denied, Method::GET));
        samples.request(place(), &record(CacheResult::Tunnel, Method::CONNECT));
        assert_eq!((taken(&samples).len(), samples.others.value(), samples.others_bytes.value()), (0, 2, 14));
        assert_eq!(samples.objects.by_requests(), []);
    }
}
