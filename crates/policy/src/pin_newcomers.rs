//! Newly pinned objects: those that a store wrote since it last looked at their slots.
//!
//! [`crate::PinLedger`] has the bytes spared in the last lap, but none that were written since.
//! This account adds both, so that a store can tell at an insert if replacement would spare the
//! object. Objects that come when the budget is used up are ordinary ones.

use std::collections::HashMap;

/// Account of pinned objects that are not in a [`crate::PinLedger`] yet.
#[derive(Clone, Debug, Default)]
pub struct PinNewcomers {
    /// Bytes by slot in which they were written.
    written: HashMap<u32, u64>,
    written_bytes: u64,
    /// Bytes that the ledger has.
    spared_bytes: u64,
    bytes_max: u64,
    slot: u32,
}

impl PinNewcomers {
    /// Returns an account with the ledger's budget.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Returns `true` if the budget has room for an object of `bytes`.
    pub fn has_room(&self, bytes: u64) -> bool {
        let promised = self.spared_bytes.saturating_add(self.written_bytes);
        promised.saturating_add(bytes) <= self.bytes_max
    }

    /// Adds an object that is written now. Beyond the budget nothing is added: the object will not
    /// be spared.
    pub fn add(&mut self, bytes: u64) {
        if bytes > 0 && self.has_room(bytes) {
            *self.written.entry(self.slot).or_default() += bytes;
            self.written_bytes += bytes;
        }
        debug_assert!(self.written_bytes <= self.bytes_max);
    }

    /// Forgets the bytes written to a slot: the ledger, which now spares `spared_bytes`, has looked
    /// at it.
    pub fn looked_at(&mut self, slot: u32, spared_bytes: u64) {
        let bytes = self.written.remove(&slot).unwrap_or(0);
        assert!(bytes <= self.written_bytes, "bytes that were not counted");
        self.written_bytes -= bytes;
        self.spared_bytes = spared_bytes;
    }

    /// Notes the slot that is written from now on.
    pub fn write_to(&mut self, slot: u32) {
        self.slot = slot;
    }

    /// Checks that the sum is that of the slots.
    pub fn invariants(&self) {
        assert_eq!(self.written.values().sum::<u64>(), self.written_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_counts_spared_and_new_bytes() {
        let mut newcomers = PinNewcomers::new(100);
        newcomers.add(60);
        assert!(newcomers.has_room(40) && !newcomers.has_room(41));
        newcomers.write_to(1);
        newcomers.add(50);
        assert!(newcomers.has_room(40), "it came beyond the budget");
        newcomers.add(30);
        // The ledger had room for one of the objects of slot 0.
        newcomers.looked_at(0, 50);
        assert!(newcomers.has_room(20) && !newcomers.has_room(21));
        newcomers.looked_at(1, 100);
        assert!(!newcomers.has_room(1));
        newcomers.looked_at(0, 0);
        assert!(newcomers.has_room(100));
        newcomers.invariants();
        assert!(!PinNewcomers::default().has_room(1), "without a budget");
    }
}
