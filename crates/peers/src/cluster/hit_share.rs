//! Share of the asks in messages that a node answered at once: whether messages pay.
//!
//! A message asks for objects in the RAM of a home. An ask that is not answered at once is sent
//! again by itself. A miss at the home thus costs one more round trip, and waits for the message
//! before it. Where most asks miss, requests therefore go by themselves. A few still go in
//! messages, so that a change is noticed.
//!
//! First requests for an object and repeats are counted apart ([`super::asked_before`]): most of
//! the former miss where most of the latter hit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Shares of hits of one node.
#[derive(Debug, Default)]
pub struct HitShares {
    first: HitShare,
    repeats: HitShare,
}

impl HitShares {
    /// Returns the share of repeats, or that of first requests.
    pub fn of(&self, is_repeat: bool) -> &HitShare {
        if is_repeat { &self.repeats } else { &self.first }
    }
}

/// Decayed counts of asks in messages to one node.
#[derive(Debug, Default)]
pub struct HitShare {
    /// Asks in the low half, those answered at once in the high half.
    counts: AtomicU64,
    /// Requests since the start, for the choice of those that go in messages anyway.
    requests: AtomicU64,
}

impl HitShare {
    /// Notes asks of a message, and those answered at once.
    pub fn note(&self, asked: usize, answered: usize) {
        debug_assert!(answered <= asked, "an ask has one answer");
        let add = |counts: u64| {
            let (asks, hits) = (counts & HALF, counts >> 32);
            let (asks, hits) = if asks >= ASKS_KEPT { (asks / 2, hits / 2) } else { (asks, hits) };
            Some((hits + answered as u64) << 32 | (asks + asked as u64))
        };
        let _ = self.counts.fetch_update(Relaxed, Relaxed, add);
    }

    /// Returns `true` if the next request goes in a message.
    pub fn pays(&self) -> bool {
        let counts = self.counts.load(Relaxed);
        let (asks, hits) = (counts & HALF, counts >> 32);
        asks < ASKS_MIN
            || hits * 2 >= asks
            || self.requests.fetch_add(1, Relaxed).is_multiple_of(REQUESTS_A_TRIAL)
    }
}

const HALF: u64 = u32::MAX as u64;

/// Asks after which all count half.
const ASKS_KEPT: u64 = 512;

/// Asks without which nothing is known.
const ASKS_MIN: u64 = 64;

/// Requests of which one goes in a message where messages do not pay.
const REQUESTS_A_TRIAL: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn in_messages(share: &HitShare) -> usize {
        (0..160).filter(|_| share.pays()).count()
    }

    #[test]
    fn messages_pay_where_most_are_hits() {
        let share = HitShare::default();
        assert_eq!(in_messages(&share), 160, "nothing is known yet");
        (0..20).for_each(|_| share.note(32, 10));
        assert_eq!(in_messages(&share), 10, "a few trials");
        (0..40).for_each(|_| share.note(32, 30));
        assert_eq!(in_messages(&share), 160, "the working set is in RAM now");
    }

    #[test]
    fn first_requests_and_repeats_are_counted_apart() {
        let shares = HitShares::default();
        for _ in 0..20 {
            shares.of(false).note(32, 3);
            shares.of(true).note(32, 30);
        }
        assert_eq!((in_messages(shares.of(false)), in_messages(shares.of(true))), (10, 160));
    }
}
