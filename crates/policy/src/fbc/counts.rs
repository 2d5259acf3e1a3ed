//! Counts of references that are all halved, rounding up, in O(1): exactly as if each had been
//! halved on the spot.
//!
//! Let d = c − 1 be what a count exceeds its minimum by. Then ⌈c/2⌉ − 1 = ⌊d/2⌋: halving is a shift
//! of d by one bit, and no count falls below one. So a slot keeps d together with the number of
//! halvings there had been when it was written (its epoch), and what is read later is d shifted by
//! the halvings since. The sum of all counts, by which the next halving is decided, needs to know
//! how many d are odd; so for each bit the objects are counted whose d has it:
//!
//! ```text
//!   Σ c = N + Σ ones[j] · 2^j          halving: ones[j] ← ones[j+1], epoch + 1
//! ```
//!
//! Everything is O(1) with [`COUNT_BITS`] steps at most. When the epochs run out, after 2^32 − 1
//! halvings, all slots are written anew in one go.

use crate::SegmentClass;

/// Counts by class and slot. See the file's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    classes: [Vec<Excess>; SegmentClass::ALL.len()],
    /// Objects whose excess has each bit, as of now.
    ones: [u64; COUNT_BITS],
    objects: u64,
    /// Halvings so far.
    epoch: u32,
}

/// By how much a count exceeds one, as of some epoch.
#[derive(Clone, Copy, Debug)]
struct Excess {
    value: u32,
    epoch: u32,
}

/// Bits of a count's excess over one. What exceeds them stays at the largest.
pub(crate) const COUNT_BITS: usize = 31;
/// The excess of the largest count.
const EXCESS_MAX: u32 = (1 << COUNT_BITS) - 1;

impl Excess {
    /// There is no object.
    const NONE: Self = Self { value: u32::MAX, epoch: 0 };

    /// What it is after so many halvings in all.
    fn now(self, epoch: u32) -> Option<u32> {
        (self.value != u32::MAX).then(|| self.value.checked_shr(epoch - self.epoch).unwrap_or(0))
    }
}

impl Counts {
    /// The count of a slot; 0 without an object.
    pub(crate) fn of(&self, class: SegmentClass, slot: u32) -> u32 {
        self.excess(class, slot).map_or(0, |excess| excess + 1)
    }

    /// Gives a slot a count; with 0 it has no object.
    pub(crate) fn set(&mut self, class: SegmentClass, slot: u32, count: u32) {
        if let Some(before) = self.excess(class, slot) {
            self.objects -= 1;
            self.for_each_bit(before, |ones| *ones -= 1);
        }
        let Some(value) = count.checked_sub(1).map(|excess| excess.min(EXCESS_MAX)) else {
            return self.write(class, slot, Excess::NONE);
        };
        self.objects += 1;
        self.for_each_bit(value, |ones| *ones += 1);
        self.write(class, slot, Excess { value, epoch: self.epoch });
    }

    /// Adds one to the count of a slot that has an object.
    pub(crate) fn add_one(&mut self, class: SegmentClass, slot: u32) {
        if let Some(excess) = self.excess(class, slot).filter(|excess| *excess < EXCESS_MAX) {
            self.set(class, slot, excess + 2);
        }
    }

    /// Every count c becomes ⌈c/2⌉.
    pub(crate) fn halve(&mut self) {
        if self.epoch == u32::MAX {
            self.begin_epochs_anew();
        }
        self.epoch += 1;
        self.ones.rotate_left(1);
        self.ones[COUNT_BITS - 1] = 0;
    }

    /// Slots of a class, with and without objects.
    pub(crate) fn slots(&self, class: SegmentClass) -> u32 {
        self.classes[class.index()].len() as u32
    }

    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    /// The sum of all counts.
    pub(crate) fn sum(&self) -> u64 {
        self.objects + self.ones.iter().enumerate().map(|(bit, ones)| ones << bit).sum::<u64>()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.classes.iter().map(|slots| slots.capacity() * size_of::<Excess>()).sum()
    }

    fn excess(&self, class: SegmentClass, slot: u32) -> Option<u32> {
        self.classes[class.index()].get(slot as usize)?.now(self.epoch)
    }

    fn write(&mut self, class: SegmentClass, slot: u32, excess: Excess) {
        let slots = &mut self.classes[class.index()];
        if slots.len() <= slot as usize {
            if excess.value == u32::MAX {
                return;
            }
            slots.resize(slot as usize + 1, Excess::NONE);
        }
        slots[slot as usize] = excess;
    }

    fn for_each_bit(&mut self, excess: u32, change: impl Fn(&mut u64)) {
        let mut rest = excess;
        while rest != 0 {
            change(&mut self.ones[rest.trailing_zeros() as usize]);
            rest &= rest - 1;
        }
    }

    #[cold]
    fn begin_epochs_anew(&mut self) {
        for excess in self.classes.iter_mut().flatten() {
            if let Some(value) = excess.now(self.epoch) {
                *excess = Excess { value, epoch: 0 };
            }
        }
        self.epoch = 0;
    }

    #[cfg(test)]
    pub(crate) fn set_epoch(&mut self, epoch: u32) {
        assert_eq!(self.objects, 0, "what is counted already belongs to earlier epochs");
        self.epoch = epoch;
    }
}
