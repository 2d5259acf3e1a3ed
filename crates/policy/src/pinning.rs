//! Pinning: objects that replacement spares for an operator, within a budget of bytes.
//!
//! A store that reclaims its space slot by slot, round and round, meets each pinned object once a
//! lap. The ledger holds one charge for each slot: the bytes that were spared at its last visit. So
//! the charges are those of the last lap, and their sum stays within the budget. After a restart
//! the ledger is empty, and the first lap fills it.

use std::collections::HashMap;

/// Account of the bytes that are spared.
#[derive(Clone, Debug, Default)]
pub struct PinLedger {
    /// Bytes by slot. Slots without a charge have no entry.
    charges: HashMap<u32, u64>,
    total_bytes: u64,
    bytes_max: u64,
}

impl PinLedger {
    /// Returns a ledger with this budget. A budget of 0 pins nothing.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Forgets the charge of a slot that is visited again.
    pub fn release(&mut self, slot: u32) {
        let bytes = self.charges.remove(&slot).unwrap_or(0);
        assert!(bytes <= self.total_bytes, "a charge that was not counted");
        self.total_bytes -= bytes;
    }

    /// Adds `bytes` to the charge of a slot. Returns `false`, and adds nothing, if the budget does
    /// not allow it.
    pub fn charge(&mut self, slot: u32, bytes: u64) -> bool {
        let total_bytes = self.total_bytes.saturating_add(bytes);
        if total_bytes > self.bytes_max {
            return false;
        }
        *self.charges.entry(slot).or_default() += bytes;
        self.total_bytes = total_bytes;
        true
    }

    /// Returns the bytes spared in the last lap.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Checks that the sum is that of the charges, and within the budget.
    pub fn invariants(&self) {
        assert_eq!(self.charges.values().sum::<u64>(), self.total_bytes);
        assert!(self.total_bytes <= self.bytes_max, "more is spared than the budget allows");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn budget_of_a_lap_is_kept() {
        let mut ledger = PinLedger::new(100);
        assert!(ledger.charge(1, 60) && ledger.charge(1, 20));
        assert!(!ledger.charge(2, 30), "above the budget");
        assert!(ledger.charge(2, 20));
        ledger.release(1);
        assert_eq!(ledger.total_bytes(), 20);
        assert!(ledger.charge(1, 80));
        assert!(!PinLedger::default().charge(0, 1), "without a budget");
    }

    proptest! {
        #[test]
        fn charges_add_up(steps in prop::collection::vec((0_u32..8, prop::option::of(0_u64..50)), 0..200)) {
            let mut ledger = PinLedger::new(120);
            for (slot, bytes) in steps {
                match bytes {
                    Some(bytes) => drop(ledger.charge(slot, bytes)),
                    None => ledger.release(slot),
                }
                ledger.invariants();
            }
        }
    }
}
