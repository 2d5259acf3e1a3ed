//! Recently invalidated URLs, so that a response requested before an invalidation is not kept after
//! it.
//!
//! Invalidation removes stored responses; this table catches responses on their way into the store.
//! A thread that stores a response first makes it visible and then checks this table. A thread that
//! invalidates first marks the URL here and then removes the object. One of the two therefore
//! always sees the other. Times are numbers of a counter, not of a clock.
//!
//! The table does not grow. Each bucket remembers the URLs marked last, and one number for all
//! forgotten URLs: the last of their marks. A fetch begun before this number counts as invalid,
//! which costs one response that is not kept. This happens only if one fetch lasts through more
//! marks in a bucket than the bucket remembers.

use parking_lot::Mutex;
use shoal_core::{Key, ObjectKey};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Table of recent invalidations.
pub struct Invalidations {
    /// Made with the first mark: many nodes never see one.
    buckets: OnceLock<Box<[Mutex<Bucket>]>>,
    latest: AtomicU64,
}

/// Marks of the URLs that hash to this bucket.
struct Bucket {
    /// URLs with the number of their mark; 0 is a free place.
    marks: [(Key, u64); MARKS],
    /// Highest number that was forgotten.
    forgotten: u64,
}

/// Start of an operation, for a check that its URL is still valid.
#[derive(Clone)]
pub struct ValiditySnapshot {
    table: Arc<Invalidations>,
    primary: Key,
    begun: u64,
}

impl Invalidations {
    /// Creates an empty table.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { buckets: OnceLock::new(), latest: AtomicU64::new(0) })
    }

    /// Marks a URL. The caller must then remove its stored objects, mark the URL again, and remove
    /// objects that lookups have moved to RAM meanwhile.
    pub fn mark(&self, primary: &ObjectKey) {
        let number = self.latest.fetch_add(1, Ordering::SeqCst) + 1;
        let buckets = self.buckets.get_or_init(|| (0..BUCKETS).map(|_| Mutex::default()).collect());
        buckets[bucket(primary.hash())].lock().mark(primary.hash(), number);
    }

    /// Returns `true` if no URL was ever marked.
    pub fn is_empty(&self) -> bool {
        self.latest.load(Ordering::SeqCst) == 0
    }

    /// Takes a snapshot for this URL.
    #[inline]
    pub fn snapshot(self: &Arc<Self>, primary: &ObjectKey) -> ValiditySnapshot {
        let begun = self.latest.load(Ordering::SeqCst);
        ValiditySnapshot { table: Arc::clone(self), primary: primary.hash(), begun }
    }
}

/// Returns the number of a URL's bucket.
fn bucket(primary: Key) -> usize {
    primary.low() as usize % BUCKETS
}

impl Default for Bucket {
    fn default() -> Self {
        Self { marks: [(Key::of(b""), 0); MARKS], forgotten: 0 }
    }
}

impl Bucket {
    /// Replaces the URL's earlier mark, or the oldest mark.
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

    /// Returns the number of the URL's last mark, or the highest possible one.
    fn marked(&self, primary: Key) -> u64 {
        let known = self.marks.iter().find(|(key, _)| *key == primary);
        known.map_or(0, |(_, at)| *at).max(self.forgotten)
    }
}

impl ValiditySnapshot {
    /// Returns `true` if the URL was not invalidated since the snapshot.
    pub fn is_unchanged(&self) -> bool {
        // A thread that marks a URL makes the buckets first, and then looks for copies to remove.
        let Some(buckets) = self.table.buckets.get() else { return true };
        buckets[bucket(self.primary)].lock().marked(self.primary) <= self.begun
    }
}

/// About 300 KB together with [`MARKS`], once a URL was marked.
const BUCKETS: usize = 2048;

const MARKS: usize = 4;

const _: () = assert!(BUCKETS.is_power_of_two() && MARKS > 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_before_invalidation_becomes_invalid() {
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
    fn forgotten_mark_counts_for_whole_bucket() {
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
