//! Pins on stripes that are being read. A pinned stripe is never taken for new records.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Pins on a volume's stripes.
#[derive(Default)]
pub(super) struct StripePins {
    state: Mutex<PinState>,
}

#[derive(Default)]
struct PinState {
    pins: HashMap<u32, u32>,
    taken: Option<u32>,
}

/// Pin that keeps stripes from being overwritten until it is dropped.
pub(super) struct StripePin {
    stripes: Arc<StripePins>,
    /// Pinned stripes; one may occur more than once.
    pinned: Vec<u32>,
}

impl StripePins {
    /// Pins all of these stripes. Returns `None` when one of them is being taken.
    pub(super) fn pin(self: &Arc<Self>, wanted: impl IntoIterator<Item = u32>) -> Option<StripePin> {
        let mut pin = StripePin { stripes: Arc::clone(self), pinned: Vec::new() };
        pin.add(wanted).then_some(pin)
    }

    /// Takes a stripe for new records. Returns `false` when a reader has pinned it.
    pub(super) fn take(&self, stripe: u32) -> bool {
        let mut state = self.state.lock();
        assert!(state.taken.is_none(), "one stripe is taken at a time");
        let is_free = !state.pins.contains_key(&stripe);
        if is_free {
            state.taken = Some(stripe);
        }
        is_free
    }

    /// Records that the taken stripe has no old records left.
    pub(super) fn release(&self) {
        let taken = self.state.lock().taken.take();
        assert!(taken.is_some(), "no stripe was taken");
    }
}

impl StripePin {
    /// Pins more stripes. Returns `false` when one of them is being taken; those before it are
    /// pinned.
    pub(super) fn add(&mut self, wanted: impl IntoIterator<Item = u32>) -> bool {
        let mut state = self.stripes.state.lock();
        for stripe in wanted {
            if state.taken == Some(stripe) {
                return false;
            }
            if self.pinned.last() != Some(&stripe) {
                *state.pins.entry(stripe).or_insert(0) += 1;
                self.pinned.push(stripe);
            }
        }
        true
    }
}

impl Drop for StripePin {
    fn drop(&mut self) {
        let mut state = self.stripes.state.lock();
        for stripe in &self.pinned {
            debug_assert_ne!(state.taken, Some(*stripe), "a pinned stripe was taken");
            debug_assert!(state.pins.contains_key(stripe), "a pin that was not counted");
            if let Some(count) = state.pins.get_mut(stripe) {
                debug_assert!(*count > 0);
                *count -= 1;
                if *count == 0 {
                    state.pins.remove(stripe);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_and_taken_stripes_exclude_each_other() {
        let stripes = Arc::new(StripePins::default());
        let pin = stripes.pin([1, 1, 2, 1]).expect("nothing is taken");
        let other = stripes.pin([1]).expect("two may read");
        assert!(!stripes.take(1) && !stripes.take(2));
        drop(pin);
        assert!(!stripes.take(1) && stripes.take(2));
        assert!(stripes.pin([3, 2]).is_none());
        drop(other);
        stripes.release();
        assert!(stripes.take(3), "a pin that failed leaves nothing");
        stripes.release();
        assert!(stripes.pin([2]).is_some());
    }
}
