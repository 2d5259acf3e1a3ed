//! Which URLs were invalidated lately, so that a response asked for before is not kept after.
//!
//! Invalidation removes what is stored; this table catches what is on its way into the store
//! meanwhile. Whoever keeps a response first makes it visible and then asks here; whoever
//! invalidates first marks here and then removes. So one of the two always sees the other. Times
//! are numbers of a counter, not of a clock.
//!
//! The table does not grow. Each of its buckets remembers the URLs that were marked in it latest,
//! and for all those it has forgotten when the last of them was marked: what began before that
//! counts as invalid, which costs a response that is not kept. It takes more marks in one bucket
//! during one fetch than the bucket remembers.

use parking_lot::Mutex;
use shoal_core::{Key, ObjectKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table.
pub struct Invalidations {
    buckets: Box<[Mutex<Bucket>]>,
    latest: AtomicU64,
}

/// The marks of the URLs that hash to it.
struct Bucket {
    /// URLs with the number of their mark; 0 is a free place.
    marks: [(Key, u64); MARKS],
    /// The highest number that was forgotten.
    forgotten: u64,
}

/// Whether something begun at some point is still valid for one URL.
#[derive(Clone)]
pub struct ValiditySnapshot {
    table: Arc<Invalidations>,
    primary: Key,
    begun: u64,
}

impl Invalidations {
    /// Nothing was invalidated.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            buckets: (0..BUCKETS).map(|_| Mutex::default()).collect(),
            latest: AtomicU64::new(0),
        })
    }

    /// Marks a URL. What is stored for it must be removed after this; then it is marked again, and
    /// what lookups have moved to RAM meanwhile removed again.
    pub fn mark(&self, primary: &ObjectKey) {
        let number = self.latest.fetch_add(1, Ordering::SeqCst) + 1;
        self.bucket(primary.hash()).lock().mark(primary.hash(), number);
    }

    /// From now on, for this URL.
    pub fn snapshot(self: &Arc<Self>, primary: &ObjectKey) -> ValiditySnapshot {
        let begun = self.latest.load(Ordering::SeqCst);
        ValiditySnapshot { table: Arc::clone(self), primary: primary.hash(), begun }
    }

    fn bucket(&self, primary: Key) -> &Mutex<Bucket> {
        &self.buckets[primary.low() as usize % BUCKETS]
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self { marks: [(Key::of(b""), 0); MARKS], forgotten: 0 }
    }
}

impl Bucket {
    /// In the place of the URL's earlier mark, or of the oldest.
    fn mark(&mut self, primary: Key, number: u64) {
        let known = self.marks.iter_mut().find(|(key, _)| *key == primary);
        if let Some((_, at)) = known {
            *at = number.max(*at);
            return;
        }
        let oldest = self.marks.iter_mut().min_by_key(|(_, at)| *at).expect("a bucket has places");
        self.forgotten = self.forgotten.max(oldest.1);
        *oldest = (primary, number);
    }

    /// When the URL was marked last, or might have been.
    fn marked(&self, primary: Key) -> u64 {
        let known = self.marks.iter().find(|(key, _)| *key == primary);
        known.map_or(0, |(_, at)| *at).max(self.forgotten)
    }
}

impl ValiditySnapshot {
    /// Whether the URL was not invalidated since.
    pub fn is_unchanged(&self) -> bool {
        self.table.bucket(self.primary).lock().marked(self.primary) <= self.begun
    }
}

/// About 300 KB together with [`MARKS`].
const BUCKETS: usize = 2048;

const MARKS: usize = 4;

const _: () = assert!(BUCKETS.is_power_of_two() && MARKS > 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_before_an_invalidation_is_not_valid_after_it() {
        let table = Invalidations::new();
        let (url, other) = (ObjectKey::new(*b"a"), ObjectKey::new(*b"b"));
        let before = table.snapshot(&url);
        let elsewhere = table.snapshot(&other);
        assert!(before.is_unchanged());
        table.mark(&url);
        assert!(!before.is_unchanged() && elsewhere.is_unchanged());
        assert!(table.snapshot(&url).is_unchanged(), "what begins afterwards is valid, at once");
    }

    #[test]
    fn an_invalidation_is_not_another_urls() {
        let table = Invalidations::new();
        let urls: Vec<_> = (0..BUCKETS as u32).map(|i| ObjectKey::new(i.to_le_bytes())).collect();
        let begun: Vec<_> = urls.iter().map(|url| table.snapshot(url)).collect();
        for other in 0..(BUCKETS / 4) as u32 {
            table.mark(&ObjectKey::new([&other.to_le_bytes()[..], b"other"].concat()));
        }
        assert!(
            begun.iter().all(ValiditySnapshot::is_unchanged),
            "a quarter of a mark a bucket: none is forgotten"
        );
    }

    #[test]
    fn a_mark_that_was_forgotten_counts_for_every_url_of_its_bucket() {
        let mut bucket = Bucket::default();
        let keys: Vec<_> = (0..=MARKS as u8).map(|i| Key::of(&[i])).collect();
        for (key, number) in keys.iter().zip(1..) {
            bucket.mark(*key, number);
        }
        assert_eq!(bucket.marked(keys[0]), 1, "the first had to go");
        assert_eq!(bucket.marked(keys[1]), 2);
        assert_eq!(bucket.marked(Key::of(b"never marked")), 1);
        bucket.mark(keys[1], 9);
        assert_eq!((bucket.marked(keys[1]), bucket.forgotten), (9, 1), "a URL has one place");
    }
}
