//! FBC, frequency-based cyclic replacement: a pointer goes round the file, and passes over what is
//! asked for often.
//!
//! Carlos Maltzahn, Kathy J. Richardson, Dirk Grunwald: "Reducing the Disk I/O of Web Proxy Server
//! Caches", USENIX 1999, section 3.6. Each object has a count of references, one at least; a hit
//! adds one. For each class of segments a pointer goes over the slots in the order of their
//! numbers: a count below C_max names the victim, any other is passed over, and behind the last
//! slot it begins anew. When the mean of all counts, of all classes together, exceeds A_max, every
//! count c becomes ⌈c/2⌉, so that the sum stays between N·A_max/2 and N·A_max (N objects).
//!
//! Fits stores in which the *place* of a victim costs I/O: victims follow each other in the file,
//! and so do the pages that are written. Does not fit where places are free to choose, and at best
//! comes near LRU's hit ratio.
//!
//! What the text leaves open, and our reading: when a whole lap finds every count at C_max or
//! above, the smallest of that lap goes, the first of several; slots that may not go now (pinned:
//! someone reads them) are passed over whatever their count; and counts are looked at for their
//! mean after a reference (a hit or a new object), not in between giving up one object and taking
//! in another.
//!
//! **Costs.** A hit, a new object, a leaving one: O(1), [`counts::COUNT_BITS`] additions at most. A
//! victim: a step for each slot passed over, few while most objects are asked for once; a whole lap
//! of its class where all are at C_max or above. Halving all counts: O(1) (see [`counts`]). Memory:
//! 8 bytes a slot.

mod counts;
#[cfg(test)]
mod tests;

use crate::{SegmentClass, resident_first};
use counts::Counts;

/// Frequency-based cyclic replacement over slots of five classes, numbered from 0 in each class by
/// their order in the file.
#[derive(Clone, Debug)]
pub struct Fbc {
    counts: Counts,
    /// The slot that is considered next, by class.
    pointers: [u32; SegmentClass::ALL.len()],
    c_max: u32,
    a_max: u32,
}

impl Fbc {
    /// No objects yet. An object with `c_max` references or more is passed over; counts are halved
    /// when their mean exceeds `a_max`.
    ///
    /// Both count as one at least: with `c_max` 1 every object is passed over, and the smallest
    /// count of a lap goes.
    pub fn new(c_max: u32, a_max: u32) -> Self {
        Self {
            counts: Counts::default(),
            pointers: [0; SegmentClass::ALL.len()],
            c_max: c_max.max(1),
            a_max: a_max.max(1),
        }
    }

    /// A new object is in the slot, in place of the one before it, if any. Slots may come in any
    /// order; memory is taken up to the highest number.
    pub fn filled(&mut self, class: SegmentClass, slot: u32) {
        self.counts.set(class, slot, 1);
        self.age();
    }

    /// The object in the slot was asked for. Nothing happens when there is none.
    pub fn hit(&mut self, class: SegmentClass, slot: u32) {
        self.counts.add_one(class, slot);
        self.age();
    }

    /// The object in the slot is gone, and the slot is nobody's victim until it is filled.
    pub fn emptied(&mut self, class: SegmentClass, slot: u32) {
        self.counts.set(class, slot, 0);
    }

    /// Takes up a slot with the count that a store kept for its object. Counts are not aged until
    /// the next reference, so that all can be taken up first.
    pub fn restored(&mut self, class: SegmentClass, slot: u32, count: u32) {
        self.counts.set(class, slot, count);
    }

    /// The victim of a class among the slots that `may_go`; the pointer moves on behind it. `None`
    /// when none may.
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

    /// `fbc_resident`: as [`Self::victim`], but of the next `window` slots that FBC would take, the
    /// first whose page is resident; what FBC takes when none is.
    ///
    /// Maltzahn 1999 leaves it as future work: "a tighter synchronization with the operating
    /// system's memory management". Slots of too high a count do not count for the window, but the
    /// search ends with `4 · window` slots looked at. The pointer moves on behind the victim, so
    /// what was skipped waits for the next lap; were it to stay, the slot just filled, whose page
    /// is now resident, would be the next victim. `resident` is asked at most `window` times.
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

    /// References to the object in the slot, as aged by now; 0 when there is none.
    pub fn count(&self, class: SegmentClass, slot: u32) -> u32 {
        self.counts.of(class, slot)
    }

    /// The slots of a class that have an object, each with its count as aged by now.
    pub fn counts(&self, class: SegmentClass) -> impl Iterator<Item = (u32, u32)> + '_ {
        let counted = (0..self.counts.slots(class)).map(move |slot| (slot, self.counts.of(class, slot)));
        counted.filter(|(_, count)| *count > 0)
    }

    /// The first slot with an object that the pointer of a class will come to; `None` when there is
    /// none.
    pub fn next_slot(&self, class: SegmentClass) -> Option<u32> {
        self.lap(class).find(|slot| self.counts.of(class, *slot) > 0)
    }

    /// Objects, and the sum of their counts.
    pub fn totals(&self) -> (u64, u64) {
        (self.counts.objects(), self.counts.sum())
    }

    /// The slots that are considered next, by class, for a store to keep.
    pub fn pointers(&self) -> [u32; 5] {
        self.pointers
    }

    /// Goes on where [`Self::pointers`] stood. A pointer behind the last slot stands at the first.
    pub fn set_pointers(&mut self, pointers: [u32; 5]) {
        self.pointers = pointers;
    }

    /// Bytes of memory taken.
    pub fn memory_bytes(&self) -> usize {
        self.counts.memory_bytes()
    }

    /// All slots of a class, from the pointer on.
    fn lap(&self, class: SegmentClass) -> impl Iterator<Item = u32> + use<> {
        let slots = self.counts.slots(class);
        let pointer = self.pointers[class.index()].min(slots);
        (pointer..slots).chain(0..pointer)
    }

    fn pass(&mut self, class: SegmentClass, slot: u32) -> u32 {
        let next = slot + 1;
        self.pointers[class.index()] = if next >= self.counts.slots(class) { 0 } else { next };
        slot
    }

    /// "Frequency counts are aged whenever the average reference count of all objects becomes
    /// greater than A_max." Once is enough, but for objects that left since, with counts below the
    /// mean.
    fn age(&mut self) {
        while self.counts.sum() > self.counts.objects() * u64::from(self.a_max) {
            self.counts.halve();
        }
    }
}

/// Slots that a search for a resident page looks at for each that it may ask about.
const LOOKED_AT: usize = 4;
