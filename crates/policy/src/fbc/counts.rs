//! Counts of references with a halving of all counts in O(1), rounding up, exact as if each were
//! halved at once.
//!
//! Let d = c − 1 be a count's excess over its minimum. Then ⌈c/2⌉ − 1 = ⌊d/2⌋: halving is a shift
//! of d by one bit, and no count falls below one. So a slot keeps d together with the number of
//! halvings before its write (its epoch). A later read shifts d by the halvings since. The next
//! halving is decided by the sum of all counts, and the sum after a halving depends on the number
//! of odd d. So for each bit the objects with this bit in d are counted:
//!
//! ```text
//!   Σ c = N + Σ ones[j] · 2^j          halving: ones[j] ← ones[j+1], epoch + 1
//! ```
//!
//! Everything is O(1), with at most [`COUNT_BITS`] steps. When the epochs run out, after 2^32 − 1
//! halvings, all slots are rewritten at once.

use crate::SegmentClass;

/// Counts by class and slot. See the file's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    classes: [Vec<Excess>; SegmentClass::ALL.len()],
    /// Number of objects with each bit in their excess, as of now.
    ones: [u64; COUNT_BITS],
    objects: u64,
    /// Halvings so far, since the epochs began anew.
    epoch: u32,
    /// Number of times that the epochs have run out.
    begun_anew: u64,
}

/// Excess of a count over one, as of some epoch.
#[derive(Clone, Copy, Debug)]
struct Excess {
    value: u32,
    epoch: u32,
}

/// Bits of a count's excess over one. A larger excess stays at the largest value.
pub(crate) const COUNT_BITS: usize = 31;
/// Excess of the largest count.
const EXCESS_MAX: u32 = (1 << COUNT_BITS) - 1;

impl Excess {
    /// Slot without an object.
    const NONE: Self = Self { value: u32::MAX, epoch: 0 };

    /// Returns the excess at this epoch.
    fn now(self, epoch: u32) -> Option<u32> {
        (self.value != u32::MAX).then(|| self.value.checked_shr(epoch - self.epoch).unwrap_or(0))
    }
}

impl Counts {
    /// Returns the count of a slot; 0 without an object.
    pub(crate) fn of(&self, class: SegmentClass, slot: u32) -> u32 {
        self.excess(class, slot).map_or(0, |excess| excess + 1)
    }

    /// Sets the count of a slot; 0 removes its object.
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

    /// Halves every count: c becomes ⌈c/2⌉.
    pub(crate) fn halve(&mut self) {
        if self.epoch == u32::MAX {
            self.begin_epochs_anew();
        }
        self.epoch += 1;
        self.ones.rotate_left(1);
        self.ones[COUNT_BITS - 1] = 0;
    }

    /// Returns the halvings so far.
    pub(crate) fn halvings(&self) -> u64 {
        self.begun_anew * u64::from(u32::MAX) + u64::from(self.epoch)
    }

    /// Returns the slots of a class, with and without objects.
    pub(crate) fn slots(&self, class: SegmentClass) -> u32 {
        self.classes[class.index()].len() as u32
    }

    pub(crate) fn objects(&self) -> u64 {
        self.objects
    }

    /// Returns the sum of all counts.
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
        self.begun_anew += 1;
    }

    #[cfg(test)]
    pub(crate) fn set_epoch(&mut self, epoch: u32) {
        assert_eq!(self.objects, 0, "what is counted already belongs to earlier epochs");
        self.epoch = epoch;
    }
}
