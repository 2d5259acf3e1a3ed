//! Age of the memory that a node would give up next, estimated from its evictions.
//!
//! GMS (Feeley et al., SOSP 1995) orders all pages by their last use. A cache keeps no such order
//! if its hits are to cost nothing. S3-FIFO evicts from its small queue objects that nobody used
//! since they came. Their time since the insertion is the time since their last use. For the main
//! queue it is an upper bound. The mean age of the latest victims is taken as that of the next one.
//!
//! A node that evicts nothing gives up memory that nobody uses: its age grows with the time since
//! its last eviction, and is [`AGE_MAX`] before the first one. O(1) an eviction.

use std::time::Duration;

/// Ages of the latest victims of a node.
#[derive(Clone, Debug, Default)]
pub struct TierAge {
    /// Decayed mean age of victims, and the time of the last one.
    victims: Option<(Duration, Duration)>,
}

impl TierAge {
    /// Records an eviction: age of the victim, and time.
    pub fn evicted(&mut self, age: Duration, now: Duration) {
        let age = age.min(AGE_MAX);
        let mean = match self.victims {
            Some((mean, _)) => (mean * (MEMORY - 1) + age) / MEMORY,
            None => age,
        };
        debug_assert!(mean <= AGE_MAX);
        self.victims = Some((mean, now));
    }

    /// Returns the age of the object that this node would give up next.
    pub fn age(&self, now: Duration) -> Duration {
        let Some((mean, last)) = self.victims else { return AGE_MAX };
        // A pause longer than the victims' age means that the demand is over.
        let pause = now.saturating_sub(last);
        if pause > mean {
            mean.saturating_add((pause - mean).saturating_mul(RECOVERY)).min(AGE_MAX)
        } else {
            mean
        }
    }
}

/// Longest age that is told or believed: a week.
pub const AGE_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Victims in the mean.
const MEMORY: u32 = 32;

/// Seconds by which the age grows in a second without an eviction.
const RECOVERY: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn age_follows_victims_and_pauses() {
        let mut tier = TierAge::default();
        assert_eq!(tier.age(seconds(5)), AGE_MAX, "nothing was given up yet");
        for second in 0..500 {
            tier.evicted(seconds(40), seconds(second));
        }
        assert_eq!(tier.age(seconds(500)), seconds(40));
        for second in 500..900 {
            tier.evicted(seconds(2), seconds(second));
        }
        assert!(tier.age(seconds(900)) < seconds(3));
        assert!(tier.age(seconds(1900)) > seconds(1000), "a pause makes memory old");
        tier.evicted(Duration::MAX, seconds(1900));
        assert!(tier.age(seconds(u64::MAX)) <= AGE_MAX);
    }
}
