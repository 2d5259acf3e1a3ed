//! Objects with most requests and most bytes, from a sample, in a bounded table.
//!
//! A thread that finds the table in use by another loses its sample: nobody waits. Counts are since
//! the start, as those of [`HeavyHitters`].

use crate::by_site::HeavyHitters;
use crate::metrics::Counter;
use parking_lot::Mutex;
use shoal_core::Key;
use std::sync::Arc;

/// Table of sampled objects.
#[derive(Debug)]
pub struct ObjectSamples {
    lists: Mutex<ObjectLists>,
    lost: Counter,
}

#[derive(Debug)]
struct ObjectLists {
    by_requests: HeavyHitters<SampledObject>,
    by_bytes: HeavyHitters<SampledObject>,
}

/// One object of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledObject {
    /// Keyed hash of the URL, as the cache finds it.
    pub key: Key,
    /// URL, cut at 512 bytes.
    pub url: Arc<[u8]>,
    /// `true` if the URL was cut.
    pub is_cut: bool,
    /// Name of the site.
    pub site: Arc<str>,
    /// Requests since the object came onto the list.
    pub requests: u64,
    /// Bytes of bodies sent since then.
    pub bytes: u64,
    /// Largest body sent.
    pub size: u64,
}

impl ObjectSamples {
    /// Adds a request that stands for `weight` requests, for a URL of a site.
    pub fn add(&self, key: Key, (url, site): (&[u8], &str), bytes: u64, weight: u64) {
        let Some(mut lists) = self.lists.try_lock() else { return self.lost.add(weight) };
        let make = || SampledObject::new(key, url, site);
        let ObjectLists { by_requests, by_bytes } = &mut *lists;
        for (list, measure) in [(by_requests, weight), (by_bytes, weight.saturating_mul(bytes))] {
            if let Some(object) = list.add(key, measure, make) {
                object.add(bytes, weight);
            }
        }
    }

    /// Returns the objects with most requests.
    pub fn by_requests(&self) -> Vec<SampledObject> {
        self.lists.lock().by_requests.entries().iter().map(|entry| entry.value.clone()).collect()
    }

    /// Returns the objects with most bytes.
    pub fn by_bytes(&self) -> Vec<SampledObject> {
        self.lists.lock().by_bytes.entries().iter().map(|entry| entry.value.clone()).collect()
    }

    /// Returns the requests that were not counted since the table was in use.
    pub fn lost(&self) -> u64 {
        self.lost.value()
    }
}

impl Default for ObjectSamples {
    fn default() -> Self {
        let [by_requests, by_bytes] = [(); 2].map(|()| HeavyHitters::new(LISTED));
        Self { lists: Mutex::new(ObjectLists { by_requests, by_bytes }), lost: Counter::default() }
    }
}

impl SampledObject {
    fn new(key: Key, url: &[u8], site: &str) -> Self {
        let cut = &url[..url.len().min(URL_BYTES_MAX)];
        let is_cut = cut.len() < url.len();
        Self { key, url: cut.into(), is_cut, site: site.into(), requests: 0, bytes: 0, size: 0 }
    }

    fn add(&mut self, bytes: u64, weight: u64) {
        debug_assert!(weight > 0, "a sample stands for a request");
        debug_assert!(self.url.len() <= URL_BYTES_MAX, "URLs are cut");
        self.requests = self.requests.saturating_add(weight);
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(weight));
        self.size = self.size.max(bytes);
    }
}

/// Objects listed by each measure.
const LISTED: usize = 400;

/// Bytes kept of a URL.
const URL_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_listed_by_both_measures() {
        let samples = ObjectSamples::default();
        let add = |url: &str, bytes, weight| {
            samples.add(Key::of(url.as_bytes()), (url.as_bytes(), "a.test/"), bytes, weight);
        };
        (0..3).for_each(|_| add("http://a.test/often", 10, 64));
        add("http://a.test/large", 1_000_000, 1);
        let find = |list: Vec<SampledObject>, url: &str| {
            list.into_iter().find(|object| &*object.url == url.as_bytes()).expect("listed")
        };
        let often = find(samples.by_requests(), "http://a.test/often");
        assert_eq!((often.requests, often.bytes, often.size), (192, 1920, 10));
        let large = find(samples.by_bytes(), "http://a.test/large");
        assert_eq!((large.requests, large.bytes, &*large.site), (1, 1_000_000, "a.test/"));
    }

    #[test]
    fn tables_and_urls_are_bounded() {
        let samples = ObjectSamples::default();
        for number in 0..3000 {
            let url = format!("http://a.test/{number}/{}", "x".repeat(8000));
            samples.add(Key::of(url.as_bytes()), (url.as_bytes(), "a.test/"), 5, 1);
        }
        let listed = samples.by_requests();
        assert_eq!(listed.len(), LISTED);
        assert!(listed.iter().all(|object| object.url.len() == URL_BYTES_MAX && object.is_cut));
    }
}
