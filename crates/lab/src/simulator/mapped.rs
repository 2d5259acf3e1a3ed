//! Memory-mapped stores of small objects without their disk: hits under LRU, FBC and the known
//! future.
//!
//! Maltzahn, Richardson, Grunwald: "Reducing the Disk I/O of Web Proxy Server Caches", USENIX 1999,
//! section 3. A [`MappedCache`] is a file of segments over the code that stores run. A placement
//! lays segments down until the file is full; from then on an object takes the slot of another of
//! its class. [`foreseen`] counts the hits of the placement table of 3.4.
//!
//! An object keeps the segment that it came in with. An object of more than a page is declined and
//! left to files. When the file is full, so is an object of a class without a slot: in the paper an
//! object replaces only another of its class. A hit is O(1). A victim is O(1) with LRU, and costs
//! the time of [`Fbc`] with FBC.

use super::{Counts, Request};
use shoal_policy::{
    Fbc, FutureOutcome, Handle, Lru, Packer, PlacementTable, Replacement, SegmentClass, SegmentLayout,
};
use std::collections::HashMap;

/// A finite memory-mapped file.
pub struct MappedCache {
    placement: Box<dyn SegmentLayout>,
    file_bytes: u64,
    policy: Slots,
    /// Object of each slot, by class, in the order in which the slots were laid down.
    objects: [Vec<u64>; CLASSES],
    places: HashMap<u64, (SegmentClass, u32)>,
    counts: Counts,
}

/// Policy that selects the slot to reuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MappedPolicy {
    /// Least recently used of the class (3.5).
    Lru,
    /// Frequency-based cyclic replacement (3.6).
    Fbc {
        /// References from which on an object is passed over.
        c_max: u32,
        /// The mean count above which all are halved.
        a_max: u32,
    },
    /// FBC with one pointer for all classes.
    FbcOnePointer {
        /// References from which on an object is passed over.
        c_max: u32,
        /// The mean count above which all are halved.
        a_max: u32,
    },
}

enum Slots {
    /// One list for each class; the handle of a slot is its number, since slots are never removed.
    Lru([Lru<u64>; CLASSES]),
    Fbc(Fbc),
}

impl MappedCache {
    /// Creates an empty file of `file_bytes` bytes with segments that do not cross pages.
    pub fn new(policy: MappedPolicy, file_bytes: u64) -> Self {
        Self::placed_by(Box::new(Packer::default()), policy, file_bytes)
    }

    /// Creates an empty file with another placement, which must be empty.
    pub fn placed_by(placement: Box<dyn SegmentLayout>, policy: MappedPolicy, file_bytes: u64) -> Self {
        let policy = match policy {
            MappedPolicy::Lru => Slots::Lru(Default::default()),
            MappedPolicy::Fbc { c_max, a_max } => Slots::Fbc(Fbc::new(c_max, a_max)),
            MappedPolicy::FbcOnePointer { c_max, a_max } => Slots::Fbc(Fbc::with_one_pointer(c_max, a_max)),
        };
        let (objects, places) = (Default::default(), HashMap::new());
        Self { placement, file_bytes, policy, objects, places, counts: Counts::default() }
    }

    /// Handles one request. Returns `true` when it hits.
    pub fn request(&mut self, request: Request) -> bool {
        self.counts.requests += 1;
        self.counts.bytes += request.bytes;
        let Some((class, slot)) = self.places.get(&request.object).copied() else {
            self.take_in(request);
            return false;
        };
        self.policy.hit(class, slot);
        self.counts.hits += 1;
        self.counts.hit_bytes += request.bytes;
        true
    }

    /// Handles all requests, in order. Returns the counts, these requests included.
    pub fn run(&mut self, requests: impl IntoIterator<Item = Request>) -> Counts {
        requests.into_iter().for_each(|request| {
            self.request(request);
        });
        self.counts
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns FBC's halvings so far, and the mean count of the objects now; `None` under LRU.
    pub fn aging(&self) -> Option<(u64, f64)> {
        let Slots::Fbc(fbc) = &self.policy else { return None };
        let (objects, sum) = fbc.totals();
        Some((fbc.halvings(), sum as f64 / objects.max(1) as f64))
    }

    /// Returns `true` if the file holds the object.
    pub fn holds(&self, object: u64) -> bool {
        self.places.contains_key(&object)
    }

    fn take_in(&mut self, request: Request) {
        let room = SegmentClass::for_bytes(request.bytes).and_then(|class| Some((class, self.room(class)?)));
        let Some((class, slot)) = room else {
            self.counts.declined += 1;
            return;
        };
        self.objects[class.index()][slot as usize] = request.object;
        self.places.insert(request.object, (class, slot));
    }

    /// Returns a slot, newly laid down or taken from another object.
    fn room(&mut self, class: SegmentClass) -> Option<u32> {
        let objects = &mut self.objects[class.index()];
        if objects.len() < u32::MAX as usize
            && let Some(offset) = self.placement.place_within(class, self.file_bytes)
        {
            let slot = objects.len() as u32;
            objects.push(0);
            self.policy.laid_down(class, slot, offset);
            return Some(slot);
        }
        let slot = self.policy.victim(class)?;
        self.places.remove(&objects[slot as usize]);
        self.counts.evictions += 1;
        Some(slot)
    }
}

impl Slots {
    fn laid_down(&mut self, class: SegmentClass, slot: u32, offset: u64) {
        match self {
            Self::Lru(classes) => {
                let handle = classes[class.index()].insert(u64::from(slot), 1);
                debug_assert_eq!(handle, Handle::from_number(slot));
            }
            Self::Fbc(fbc) => {
                fbc.cut(class, slot, offset);
                fbc.filled(class, slot);
            }
        }
    }

    fn hit(&mut self, class: SegmentClass, slot: u32) {
        match self {
            Self::Lru(classes) => classes[class.index()].hit(Handle::from_number(slot)),
            Self::Fbc(fbc) => fbc.hit(class, slot),
        }
    }

    /// Returns the slot that a new object takes. The slot counts as used by the new object from now
    /// on.
    fn victim(&mut self, class: SegmentClass) -> Option<u32> {
        match self {
            Self::Lru(classes) => {
                let lru = &mut classes[class.index()];
                let (handle, slot) = lru.oldest_first().next()?;
                lru.hit(handle);
                u32::try_from(slot).ok()
            }
            Self::Fbc(fbc) => {
                let slot = fbc.victim(class, |_| true)?;
                fbc.filled(class, slot);
                Some(slot)
            }
        }
    }
}

/// Returns the counts of the placement table of 3.4 on a trace, for the requests from number
/// `measured_from` on.
///
/// Objects are renumbered in order of appearance; a trace has fewer than 2^32 of them. O(n log n).
pub fn foreseen(requests: &[Request], file_bytes: u64, measured_from: usize) -> Counts {
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let numbered: Vec<(u32, u64)> = requests
        .iter()
        .take(u32::MAX as usize - 1)
        .map(|request| {
            let next = numbers.len() as u32;
            (*numbers.entry(request.object).or_insert(next), request.bytes)
        })
        .collect();
    let table = PlacementTable::of(numbered.iter().copied(), file_bytes);
    let mut counts = Counts::default();
    for (number, (object, bytes)) in (0..).zip(&numbered).skip(measured_from) {
        counts.requests += 1;
        counts.bytes += bytes;
        match table.look_up(number, *object) {
            FutureOutcome::Hit(_) => {
                counts.hits += 1;
                counts.hit_bytes += bytes;
            }
            FutureOutcome::Admitted(place) => counts.evictions += u64::from(place.replaces.is_some()),
            FutureOutcome::Declined => counts.declined += 1,
        }
    }
    counts
}

const CLASSES: usize = SegmentClass::ALL.len();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::ZipfTrace;

    /// Returns 100,000 requests, Zipf 0.8 over 10,000 objects of 1 to 8192 bytes, small ones more
    /// often.
    fn sized() -> Vec<Request> {
        let bytes = |object: u64| 1 + (object * object * 7919) % 8192 / (1 + object % 5);
        ZipfTrace::new(10_000, 0.8, 1, 1)
            .take(100_000)
            .map(|of| Request { bytes: bytes(of.object), ..of })
            .collect()
    }

    fn hits(policy: MappedPolicy, requests: &[Request], file_bytes: u64) -> u64 {
        MappedCache::new(policy, file_bytes).run(requests.iter().copied()).hits
    }

    /// The expected numbers were counted once. `shoal_policy` tests the algorithms against slow
    /// versions; this test covers their combination.
    #[test]
    fn hits_of_a_made_trace_stay_the_same() {
        let requests = sized();
        let fbc = |c_max, a_max| MappedPolicy::Fbc { c_max, a_max };
        let sizes = [1, 4, 16].map(|megabytes: u64| megabytes << 20);
        let of = |policy| sizes.map(|bytes| hits(policy, &requests, bytes));
        let future = sizes.map(|bytes| foreseen(&requests, bytes, 0).hits);
        let found = [of(MappedPolicy::Lru), of(fbc(3, 100)), of(fbc(10, 5)), future];
        let expected = [
            [31_040, 52_459, 83_107],
            [38_130, 56_949, 83_604],
            [28_757, 49_484, 81_366],
            [45_053, 64_431, 88_571],
        ];
        assert_eq!(found, expected, "lru, fbc 3 100, fbc 10 5, future");
    }

    #[test]
    fn with_room_for_all_every_repeated_reference_hits() {
        let requests = sized();
        let objects = requests.iter().map(|request| request.object).collect::<std::collections::HashSet<_>>();
        let repeated = (requests.len() - objects.len()) as u64;
        for policy in [MappedPolicy::Lru, MappedPolicy::Fbc { c_max: 3, a_max: 100 }] {
            assert_eq!(hits(policy, &requests, 1 << 30), repeated, "{policy:?}");
        }
        let counts = foreseen(&requests, 1 << 30, 0);
        assert_eq!((counts.hits, counts.evictions), (repeated, 0));
    }

    #[test]
    fn an_object_replaces_another_of_its_class_alone() {
        let request = |object, bytes| Request { object, bytes };
        let of = |policy| {
            let mut cache = MappedCache::new(policy, 8192);
            // Two slots of 4 KB fill the file; object 1 is requested again.
            let counts = cache.run([request(1, 4096), request(2, 3000), request(1, 4096), request(3, 4000)]);
            assert_eq!((counts.hits, counts.evictions), (1, 1), "{policy:?}");
            let counts = cache.run([request(4, 100), request(5, 8192), request(6, 9000)]);
            assert_eq!((counts.declined, counts.evictions), (3, 1), "{policy:?}");
            (1..=6).filter(|object| cache.holds(*object)).collect::<Vec<u64>>()
        };
        assert_eq!(of(MappedPolicy::Lru), [1, 3]);
        assert_eq!(of(MappedPolicy::Fbc { c_max: 2, a_max: 100 }), [1, 3]);
        assert_eq!(of(MappedPolicy::Fbc { c_max: 3, a_max: 100 }), [2, 3]);
    }

    #[test]
    fn only_measured_requests_count() {
        let requests = sized();
        let (all, half) = (foreseen(&requests, 1 << 20, 0), foreseen(&requests, 1 << 20, 50_000));
        assert_eq!(half.requests, 50_000);
        assert!(half.hits > all.hits / 2, "the cache is warm");
    }
}
