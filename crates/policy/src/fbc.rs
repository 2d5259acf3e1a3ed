//! FBC, frequency-based cyclic replacement: a pointer circles the file and skips popular objects.
//!
//! Carlos Maltzahn, Kathy J. Richardson, Dirk Grunwald: "Reducing the Disk I/O of Web Proxy Server
//! Caches", USENIX 1999, section 3.6. Each object has a count of references, at least one; a hit
//! adds one. For each class of segments a pointer passes over the slots in the order of their
//! numbers. A count below C_max names the victim; any other slot is skipped, and after the last
//! slot the pointer starts again. When the mean of all counts, of all classes together, exceeds
//! A_max, every count c becomes ⌈c/2⌉. The sum then stays between N·A_max/2 and N·A_max (N
//! objects).
//!
//! Fits stores in which the *place* of a victim costs I/O: victims follow each other in the file,
//! and so do the written pages. Does not fit where places are free to choose, and at best comes
//! near LRU's hit ratio.
//!
//! The text leaves four points open; our reading is:
//!
//! - "A target pointer" may be one for the whole file, or one for each size. We have one for each
//!   size, and this decides: with one pointer ([`Fbc::with_one_pointer`]) every victim of one size
//!   moves it past slots of the others, which thus go before their lap is over.
//! - When a whole lap finds every count at C_max or above, the smallest of that lap is evicted, the
//!   first of several.
//! - Slots that may not go now (pinned by a reader) are skipped, regardless of their count.
//! - The mean of the counts is checked after a reference (a hit or a new object). It is not checked
//!   between an eviction and the insertion that follows.
//!
//! **Costs.** A hit, a new object, a removal: O(1), at most [`counts::COUNT_BITS`] additions. A
//! victim: one step for each skipped slot, few while most objects are requested once. The search
//! takes a whole lap of a class with all counts at C_max or above. Halving all counts: O(1) (see
//! [`counts`]). Memory: 8 bytes a slot, 16 with one pointer, which costs a victim four binary
//! searches more.

mod counts;
#[cfg(test)]
mod tests;

use crate::{SegmentClass, resident_first};
use counts::Counts;

/// Frequency-based cyclic replacement over slots of five classes. Slots are numbered from 0 in each
/// class, by their order in the file.
#[derive(Clone, Debug)]
pub struct Fbc {
    counts: Counts,
    /// Next slot that the pointer reaches, by class.
    pointers: [u32; SegmentClass::ALL.len()],
    /// Offsets of all slots, by class, where one pointer serves all classes.
    offsets: Option<Box<[Vec<u64>; SegmentClass::ALL.len()]>>,
    c_max: u32,
    a_max: u32,
}

impl Fbc {
    /// Makes a policy without objects. An object with `c_max` references or more is skipped; counts
    /// are halved when their mean exceeds `a_max`.
    ///
    /// Both parameters are at least one. With `c_max` 1 every object is skipped, and the smallest
    /// count of a lap is evicted.
    pub fn new(c_max: u32, a_max: u32) -> Self {
        Self {
            counts: Counts::default(),
            pointers: [0; SegmentClass::ALL.len()],
            offsets: None,
            c_max: c_max.max(1),
            a_max: a_max.max(1),
        }
    }

    /// Makes a policy like [`Self::new`] with one pointer for all classes, which passes over the
    /// file by offset. Each slot has to be [cut](Self::cut) before it is filled.
    pub fn with_one_pointer(c_max: u32, a_max: u32) -> Self {
        Self { offsets: Some(Default::default()), ..Self::new(c_max, a_max) }
    }

    /// Records the offset of the next slot of a class. Offsets of a class rise with the numbers of
    /// its slots. Only one pointer for all classes needs them.
    pub fn cut(&mut self, class: SegmentClass, slot: u32, offset: u64) {
        if let Some(offsets) = &mut self.offsets {
            let offsets = &mut offsets[class.index()];
            debug_assert_eq!(offsets.len(), slot as usize, "slots are cut in the order of their numbers");
            debug_assert!(offsets.last().is_none_or(|last| *last < offset));
            offsets.push(offset);
        }
    }

    /// Records a new object in the slot, in place of the one before it, if any. Slots may be filled
    /// in any order; memory is taken up to the highest number.
    pub fn filled(&mut self, class: SegmentClass, slot: u32) {
        self.counts.set(class, slot, 1);
        self.age();
    }

    /// Counts a request for the object in the slot. An empty slot is ignored.
    pub fn hit(&mut self, class: SegmentClass, slot: u32) {
        self.counts.add_one(class, slot);
        self.age();
    }

    /// Records that the object in the slot is gone. The slot is not a victim until it is filled.
    pub fn emptied(&mut self, class: SegmentClass, slot: u32) {
        self.counts.set(class, slot, 0);
    }

    /// Restores a slot with the count that a store kept for its object. Counts are not aged until
    /// the next reference, so that all can be restored first.
    pub fn restored(&mut self, class: SegmentClass, slot: u32, count: u32) {
        self.counts.set(class, slot, count);
    }

    /// Returns the victim of a class among the slots that `may_go`, and moves the pointer behind
    /// it. `None` when no slot may go.
    ///
    /// The object stays counted until its slot is [filled](Self::filled) or
    /// [emptied](Self::emptied).
    pub fn victim(&mut self, class: SegmentClass, mut may_go: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut least = None;
        for slot in self.lap(class) {
            let count = self.counts.of(class, slot);
            let is_less = least.is_none_or(|(_, least)| count < least);
            if count == 0 || !is_less || !may_go(slot) {
                continue;
            }
            least = Some((slot, count));
            if count < self.c_max {
                break;
            }
        }
        let (slot, _) = least?;
        Some(self.pass(class, slot))
    }

    /// Returns the victim by `fbc_resident`. Among the next `window` slots that FBC would choose,
    /// this is the first with a resident page. Without one it is the victim of [`Self::victim`].
    ///
    /// Maltzahn 1999 leaves it as future work: "a tighter synchronization with the operating
    /// system's memory management". Slots of too high a count do not count for the window, but the
    /// search ends after `4 · window` slots. The pointer moves behind the victim, so that skipped
    /// slots wait for the next lap. If it stayed, the slot just filled, now with a resident page,
    /// would be the next victim. `resident` is called at most `window` times.
    pub fn victim_resident(
        &mut self,
        class: SegmentClass,
        window: usize,
        mut may_go: impl FnMut(u32) -> bool,
        resident: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let near = self.lap(class).take(window.saturating_mul(LOOKED_AT));
        let would_take =
            |slot: &u32| (1..self.c_max).contains(&self.counts.of(class, *slot)) && may_go(*slot);
        match resident_first(near.filter(would_take), window, resident) {
            Some(slot) => Some(self.pass(class, slot)),
            None => self.victim(class, may_go),
        }
    }

    /// Returns the references to the object in the slot, as aged by now; 0 when there is none.
    pub fn count(&self, class: SegmentClass, slot: u32) -> u32 {
        self.counts.of(class, slot)
    }

    /// Returns the slots of a class that have an object, each with its count as aged by now.
    pub fn counts(&self, class: SegmentClass) -> impl Iterator<Item = (u32, u32)> + '_ {
        let counted = (0..self.counts.slots(class)).map(move |slot| (slot, self.counts.of(class, slot)));
        counted.filter(|(_, count)| *count > 0)
    }

    /// Returns the first slot with an object that the pointer of a class will reach; `None` when
    /// there is none.
    pub fn next_slot(&self, class: SegmentClass) -> Option<u32> {
        self.lap(class).find(|slot| self.counts.of(class, *slot) > 0)
    }

    /// Returns the number of objects, and the sum of their counts.
    pub fn totals(&self) -> (u64, u64) {
        (self.counts.objects(), self.counts.sum())
    }

    /// Returns the number of times that all counts were halved.
    pub fn halvings(&self) -> u64 {
        self.counts.halvings()
    }

    /// Returns the next slot of each class, for a store to keep.
    pub fn pointers(&self) -> [u32; 5] {
        self.pointers
    }

    /// Restores the pointers from [`Self::pointers`]. A pointer behind the last slot becomes the
    /// first.
    pub fn set_pointers(&mut self, pointers: [u32; 5]) {
        self.pointers = pointers;
    }

    /// Returns the bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        let offsets = self.offsets.iter().flat_map(|offsets| offsets.iter());
        let offsets = offsets.map(|offsets| offsets.capacity() * size_of::<u64>());
        self.counts.memory_bytes() + offsets.sum::<usize>()
    }

    /// Returns all slots of a class, from the pointer on.
    fn lap(&self, class: SegmentClass) -> impl Iterator<Item = u32> + use<> {
        let slots = self.counts.slots(class);
        let pointer = self.pointers[class.index()].min(slots);
        (pointer..slots).chain(0..pointer)
    }

    fn pass(&mut self, class: SegmentClass, slot: u32) -> u32 {
        let next = slot + 1;
        self.pointers[class.index()] = if next >= self.counts.slots(class) { 0 } else { next };
        if let Some(offsets) = &self.offsets {
            let end = offsets[class.index()][slot as usize] + class.bytes();
            for other in SegmentClass::ALL.into_iter().filter(|other| *other != class) {
                let next = offsets[other.index()].partition_point(|offset| *offset < end) as u32;
                self.pointers[other.index()] = if next >= self.counts.slots(other) { 0 } else { next };
            }
        }
        slot
    }

    /// Ages the counts: "Frequency counts are aged whenever the average reference count of all
    /// objects becomes greater than A_max."
    ///
    /// Once is enough, unless objects with counts below the mean were removed since.
    fn age(&mut self) {
        while self.counts.sum() > self.counts.objects() * u64::from(self.a_max) {
            self.counts.halve();
        }
    }
}

/// Slots that a search for a resident page examines, for each query that it may make.
const LOOKED_AT: usize = 4;
