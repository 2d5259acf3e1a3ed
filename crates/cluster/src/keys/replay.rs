//! Replay window: which counters of a sender were seen.
//!
//! Bit `n` stands for the counter `highest - n`. A counter older than the window is refused, since
//! nobody knows any longer whether it was seen.

/// Window over the counters of one sender in one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplayWindow {
    highest: u64,
    seen: u128,
}

impl ReplayWindow {
    /// Makes the window of a sender's first datagram.
    pub(super) fn first(counter: u64) -> Self {
        Self { highest: counter, seen: 1 }
    }

    /// Takes a counter. Returns `false` if it was seen, or is older than the window.
    pub(super) fn take(&mut self, counter: u64) -> bool {
        if let Some(ahead) = counter.checked_sub(self.highest).filter(|ahead| *ahead > 0) {
            self.seen = if ahead < WINDOW { self.seen << ahead } else { 0 };
            self.seen |= 1;
            self.highest = counter;
            return true;
        }
        let behind = self.highest - counter;
        let bit = if behind < WINDOW { 1 << behind } else { return false };
        let is_new = self.seen & bit == 0;
        self.seen |= bit;
        debug_assert!(self.seen & 1 == 1, "the highest counter was seen");
        is_new
    }
}

/// Counters that the window covers.
const WINDOW: u64 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn window_takes_each_counter_once() {
        let mut window = ReplayWindow::first(1000);
        for (counter, is_taken) in [
            (1000, false),
            (1001, true),
            (999, true),
            (999, false),
            (873, false),
            (874, true),
            (1300, true),
            (1001, false),
            (1173, true),
            (1172, false),
            (u64::MAX, true),
            (u64::MAX, false),
            (0, false),
        ] {
            assert_eq!(window.take(counter), is_taken, "{counter}");
        }
    }

    proptest! {
        #[test]
        fn window_agrees_with_a_set(counters in proptest::collection::vec(0..400u64, 1..300)) {
            let mut window = ReplayWindow::first(counters[0]);
            let mut seen = BTreeSet::from([counters[0]]);
            for counter in &counters[1..] {
                let highest = *seen.last().expect("one at least");
                let expected = counter + WINDOW > highest && !seen.contains(counter);
                prop_assert_eq!(window.take(*counter), expected);
                if expected {
                    seen.insert(*counter);
                }
            }
        }
    }
}
