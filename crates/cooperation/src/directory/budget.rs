//! Limits of the cost of digests: bytes of messages, and asks in vain.

use std::time::Duration;

/// Account of the bytes of messages about digests: a share of the traffic, and a start.
///
/// ```text
/// spent ≤ BURST + traffic / SHARE
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestBudget {
    spent: u64,
}

impl DigestBudget {
    /// Takes `bytes` out of the account if the node has served enough. Returns `false` otherwise.
    pub fn spend(&mut self, traffic: u64, bytes: u64) -> bool {
        let is_covered = self.spent.saturating_add(bytes) <= BURST.saturating_add(traffic / SHARE);
        if is_covered {
            self.spent += bytes;
        }
        is_covered
    }

    /// Returns the bytes spent.
    pub fn spent(&self) -> u64 {
        self.spent
    }
}

/// Trust in the digest of one node, by the asks that the digest led to.
///
/// A sound digest sends few asks in vain. If more than half of the latest are, the digest is left
/// out for a minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestTrust {
    hits: u32,
    false_hits: u32,
    set_aside_until: Duration,
}

impl DigestTrust {
    /// Records an ask at time `now`. Returns `true` if the digest is set aside for it.
    pub fn note(&mut self, found: bool, now: Duration) -> bool {
        if self.hits + self.false_hits >= WINDOW {
            self.hits /= 2;
            self.false_hits /= 2;
        }
        *if found { &mut self.hits } else { &mut self.false_hits } += 1;
        let is_in_vain = self.false_hits > self.hits && self.hits + self.false_hits >= ASKS_MIN;
        if is_in_vain {
            *self = Self { set_aside_until: now + SET_ASIDE, ..Self::default() };
        }
        is_in_vain
    }

    /// Returns `true` if the digest may lead to asks.
    pub fn is_trusted(&self, now: Duration) -> bool {
        now >= self.set_aside_until
    }
}

/// Part of the traffic that messages about digests may take: 1%.
const SHARE: u64 = 100;

/// Bytes that a node may spend before it has served anything.
const BURST: u64 = 256 << 10;

/// Asks from which a digest is judged, and asks after which the older count for half.
const ASKS_MIN: u32 = 16;
const WINDOW: u32 = 128;

/// Time for which a digest is left out.
const SET_ASIDE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_never_exceeds_its_share() {
        let (mut budget, mut traffic) = (DigestBudget::default(), 0);
        assert!(budget.spend(0, BURST) && !budget.spend(0, 1));
        for step in 0..10_000u64 {
            traffic += step * 37 % 5000;
            budget.spend(traffic, step * 11 % 97);
            assert!(budget.spent() <= BURST + traffic / 100);
        }
        assert!(budget.spent() > BURST + traffic / 200, "the share is used");
        assert!(!budget.spend(u64::MAX, u64::MAX));
    }

    #[test]
    fn lying_digest_costs_bounded_asks() {
        let mut trust = DigestTrust::default();
        let mut asks = 0;
        for second in 0..600 {
            let now = Duration::from_secs(second);
            for _ in 0..100 {
                if trust.is_trusted(now) {
                    trust.note(false, now);
                    asks += 1;
                }
            }
        }
        assert_eq!(asks, 10 * u64::from(ASKS_MIN), "sixteen a minute");
    }

    #[test]
    fn usual_digest_stays_trusted() {
        let mut trust = DigestTrust::default();
        let now = Duration::from_secs(9);
        assert!((0..10_000).all(|number| !trust.note(number % 3 != 0, now)), "a third is stale");
        assert!(trust.is_trusted(now));
    }
}
