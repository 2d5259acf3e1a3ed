//! Accounts of the sources of hints: wrong hints do no harm, since a source that is often wrong is
//! held back.
//!
//! Each prefetch is *resolved* once: a client used it, or nobody did in time and its bytes were
//! wasted. Three rules bound the cost of a source before it has proven anything, and after:
//!
//! - **Window.** The number of unresolved prefetches has a limit. It rises by one with each use,
//!   and falls by a quarter with each waste, as TCP's window does. That is by Jacobson, *Congestion
//!   avoidance and control*, SIGCOMM 1988.
//! - **Allowance.** Bytes that are unresolved or wasted have a limit. It is a fixed trial, plus the
//!   bytes that clients used, plus a share of the bytes of clients' own misses.
//! - **Floor.** Precision is the share of resolved prefetches that were used, over the last ones.
//!   Below the floor the source is muted for a time, which doubles from mute to mute.
//!
//! With wrong hints alone, an origin therefore sends at most the trial and the share more than
//! without. Time is an argument, in seconds. All is O(1).

/// Source of hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HintSource {
    /// A list sent to the node.
    List,
    /// A lockfile.
    Lockfile,
    /// Layers of an image manifest that passed through a mirror.
    Image,
    /// `Link` fields of answers.
    Link,
    /// Interim answers 103 of an origin.
    EarlyHints,
    /// Ranges that follow the ranges read so far.
    Ranges,
    /// Successors that the node learnt.
    Learnt,
    /// Another node of the cluster.
    Peer,
}

impl HintSource {
    /// All sources.
    pub const ALL: [Self; 8] = [
        Self::List,
        Self::Lockfile,
        Self::Image,
        Self::Link,
        Self::EarlyHints,
        Self::Ranges,
        Self::Learnt,
        Self::Peer,
    ];

    /// Returns the name, as metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Lockfile => "lockfile",
            Self::Image => "image",
            Self::Link => "link",
            Self::EarlyHints => "early_hints",
            Self::Ranges => "ranges",
            Self::Learnt => "learnt",
            Self::Peer => "peer",
        }
    }
}

/// Rules for the accounts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceRules {
    /// Least precision, from 0 to 1.
    pub floor: f64,
    /// Share of the bytes of clients' misses that may be wasted, from 0 to 1.
    pub waste_share: f64,
    /// Bytes that may be wasted beyond that share.
    pub trial_bytes: u64,
    /// Seconds of the first mute.
    pub mute_seconds: f64,
}

/// Counts of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// Hints received.
    pub received: u64,
    /// Hints refused: for other sites, malformed, beyond a limit.
    pub refused: u64,
    /// Hints for objects that the cache had.
    pub held: u64,
    /// Hints that another node took, as the home of the object.
    pub placed: u64,
    /// Prefetches begun.
    pub prefetched: u64,
    /// Prefetches without a usable answer.
    pub failed: u64,
    /// Bytes of bodies prefetched.
    pub prefetched_bytes: u64,
    /// Prefetches that a client used.
    pub used: u64,
    /// Bytes of these.
    pub used_bytes: u64,
    /// Prefetches that nobody used in time.
    pub wasted: u64,
    /// Bytes of these, and of prefetches that failed.
    pub wasted_bytes: u64,
    /// Times that the source was muted.
    pub muted: u64,
}

/// Reason for which a source may not prefetch now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SourceHold {
    /// The source is muted until this time.
    Muted {
        /// Time in seconds.
        until_seconds: f64,
    },
    /// As many prefetches as the window are unresolved.
    Window,
    /// The allowance of bytes is used up.
    Allowance,
}

/// Account of one source.
#[derive(Clone, Debug)]
pub struct SourceAccount {
    counts: SourceCounts,
    window: f64,
    unresolved: u64,
    unresolved_bytes: u64,
    /// Prefetches on their way, and the mean length of earlier ones; `None` before the first.
    in_flight: u64,
    mean_bytes: Option<f64>,
    /// Used, and all resolved prefetches; older ones weigh less.
    recent: (f64, f64),
    muted_until: Option<f64>,
    mutes_in_row: u32,
}

impl Default for SourceAccount {
    fn default() -> Self {
        Self {
            counts: SourceCounts::default(),
            window: FIRST_WINDOW,
            unresolved: 0,
            unresolved_bytes: 0,
            in_flight: 0,
            mean_bytes: None,
            recent: (0.0, 0.0),
            muted_until: None,
            mutes_in_row: 0,
        }
    }
}

impl SourceAccount {
    /// Returns the counts.
    pub fn counts(&self) -> SourceCounts {
        self.counts
    }

    /// Returns the precision; `None` before enough prefetches were resolved.
    pub fn precision(&self) -> Option<f64> {
        let (used, all) = self.recent;
        (all >= LEAST_RESOLVED).then(|| used / all)
    }

    /// Returns the end of the mute, if the source is muted at `now`.
    pub fn muted_until(&self, now: f64) -> Option<f64> {
        self.muted_until.filter(|until| *until > now)
    }

    /// Counts hints that came.
    pub fn received(&mut self, hints: u64) {
        self.counts.received += hints;
    }

    /// Counts hints that were refused.
    pub fn refused(&mut self, hints: u64) {
        self.counts.refused += hints;
    }

    /// Counts a hint for an object that the cache had. It says nothing about precision.
    pub fn held(&mut self) {
        self.counts.held += 1;
    }

    /// Counts a hint that another node took. Its use is judged there.
    pub fn placed(&mut self) {
        self.counts.placed += 1;
    }

    /// Returns the number of bytes that a prefetch may bring now.
    ///
    /// # Errors
    /// The reason for which nothing may be fetched.
    pub fn allowance(&self, now: f64, demand_bytes: u64, rules: &SourceRules) -> Result<u64, SourceHold> {
        if let Some(until_seconds) = self.muted_until(now) {
            return Err(SourceHold::Muted { until_seconds });
        }
        if self.unresolved as f64 >= self.window {
            return Err(SourceHold::Window);
        }
        let share = (demand_bytes as f64 * rules.waste_share) as u64;
        let earned = rules.trial_bytes.saturating_add(share).saturating_add(self.counts.used_bytes);
        // Those on their way will bring as much as earlier ones.
        let mean = self.mean_bytes.unwrap_or(UNKNOWN_BYTES) as u64;
        let spent = self.unresolved_bytes.saturating_add(self.counts.wasted_bytes);
        let left = earned.saturating_sub(spent).saturating_sub(mean.saturating_mul(self.in_flight));
        let least = self.mean_bytes.map_or(1, |mean| (mean as u64).max(1));
        if left >= least { Ok(left) } else { Err(SourceHold::Allowance) }
    }

    /// Records that a prefetch has begun.
    pub fn begun(&mut self) {
        self.counts.prefetched += 1;
        self.unresolved += 1;
        self.in_flight += 1;
    }

    /// Records that a prefetch of `bytes` bytes has arrived whole.
    pub fn landed(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.note_size(bytes);
    }

    /// Records bytes that arrived for an unresolved prefetch.
    pub fn arrived(&mut self, bytes: u64) {
        self.counts.prefetched_bytes += bytes;
        self.unresolved_bytes += bytes;
    }

    /// Records that a prefetch was not needed after all.
    pub fn withdrawn(&mut self) {
        self.counts.prefetched = self.counts.prefetched.saturating_sub(1);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.resolve(0);
    }

    /// Records that a prefetch ended without a usable answer, after `bytes` bytes.
    pub fn failed(&mut self, bytes: u64) {
        self.counts.failed += 1;
        self.counts.wasted_bytes += bytes;
        self.in_flight = self.in_flight.saturating_sub(1);
        self.resolve(bytes);
    }

    /// Records that a client used a prefetch of `bytes` bytes.
    pub fn used(&mut self, bytes: u64) {
        self.counts.used += 1;
        self.counts.used_bytes += bytes;
        self.resolve(bytes);
        self.window = (self.window + 1.0).min(LARGEST_WINDOW);
        self.weigh(1.0);
        if self.precision().is_some() {
            self.mutes_in_row = 0;
        }
    }

    /// Records that a prefetch brought nothing that clients may share, after `bytes` bytes. Returns
    /// `true` if the source is muted for that.
    pub fn useless(&mut self, bytes: u64, now: f64, rules: &SourceRules) -> bool {
        self.counts.failed += 1;
        self.landed(bytes);
        self.lose(bytes, now, rules)
    }

    /// Records that nobody used a prefetch of `bytes` bytes in time. Returns `true` if the source
    /// is muted for that.
    pub fn wasted(&mut self, bytes: u64, now: f64, rules: &SourceRules) -> bool {
        self.counts.wasted += 1;
        self.lose(bytes, now, rules)
    }

    fn lose(&mut self, bytes: u64, now: f64, rules: &SourceRules) -> bool {
        self.counts.wasted_bytes += bytes;
        self.resolve(bytes);
        self.window = (self.window * CLOSING).max(SMALLEST_WINDOW);
        self.weigh(0.0);
        let is_low = self.precision().is_some_and(|precision| precision < rules.floor);
        if !is_low || self.muted_until(now).is_some() {
            return false;
        }
        let seconds = rules.mute_seconds * f64::from(1_u32 << self.mutes_in_row.min(LONGEST_DOUBLINGS));
        self.muted_until = Some(now + seconds);
        self.mutes_in_row += 1;
        self.counts.muted += 1;
        // The next trial begins anew.
        (self.recent, self.window) = ((0.0, 0.0), SMALLEST_WINDOW);
        true
    }

    fn resolve(&mut self, bytes: u64) {
        self.unresolved = self.unresolved.saturating_sub(1);
        self.unresolved_bytes = self.unresolved_bytes.saturating_sub(bytes);
    }

    fn note_size(&mut self, bytes: u64) {
        if bytes > 0 {
            let mean = self.mean_bytes.unwrap_or(bytes as f64);
            self.mean_bytes = Some(mean + NEWEST_SIZE * (bytes as f64 - mean));
        }
    }

    fn weigh(&mut self, used: f64) {
        let (before, all) = self.recent;
        self.recent = (before * OLDER + used, all * OLDER + 1.0);
    }
}

/// Unresolved prefetches that a source may have at first.
const FIRST_WINDOW: f64 = 16.0;
/// Unresolved prefetches that a source may have after waste.
const SMALLEST_WINDOW: f64 = 4.0;
/// Most unresolved prefetches of a source.
const LARGEST_WINDOW: f64 = 4096.0;
/// Factor of the window for each waste.
const CLOSING: f64 = 0.75;
/// Length that a prefetch is taken for before the first has come.
const UNKNOWN_BYTES: f64 = 65_536.0;
/// Weight of the newest length in the mean.
const NEWEST_SIZE: f64 = 1.0 / 8.0;
/// Weight of the older prefetches in the precision, for each newer one.
const OLDER: f64 = 31.0 / 32.0;
/// Weighed number of resolved prefetches from which precision is judged.
const LEAST_RESOLVED: f64 = 7.0;
/// Most doublings of a mute.
const LONGEST_DOUBLINGS: u32 = 6;

const _: () = assert!(SMALLEST_WINDOW <= FIRST_WINDOW && FIRST_WINDOW <= LARGEST_WINDOW);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: SourceRules =
        SourceRules { floor: 0.5, waste_share: 0.05, trial_bytes: 1000, mute_seconds: 60.0 };

    #[test]
    fn wrong_source_is_muted_for_longer_each_time() {
        let mut account = SourceAccount::default();
        let mut now = 0.0;
        for expected in [60.0, 120.0, 240.0] {
            let mut tried = 0;
            loop {
                assert!(account.allowance(now, u64::MAX, &RULES).is_ok(), "try {tried}");
                account.begun();
                account.arrived(10);
                account.landed(10);
                tried += 1;
                if account.wasted(10, now, &RULES) {
                    break;
                }
            }
            assert!(tried <= 8, "{tried} tries");
            let until = account.muted_until(now).expect("muted");
            assert!((until - now - expected).abs() < 1e-9, "{until}");
            assert_eq!(
                account.allowance(now, u64::MAX, &RULES),
                Err(SourceHold::Muted { until_seconds: until })
            );
            now = until;
        }
        assert_eq!(account.counts().muted, 3);
    }

    #[test]
    fn good_source_gets_a_wider_window() {
        let mut account = SourceAccount::default();
        for _ in 0..16 {
            assert!(account.allowance(0.0, 0, &RULES).is_ok());
            account.begun();
            account.landed(0);
        }
        assert_eq!(account.allowance(0.0, 0, &RULES), Err(SourceHold::Window));
        (0..16).for_each(|_| account.used(100));
        for _ in 0..32 {
            assert!(account.allowance(0.0, 0, &RULES).is_ok());
            account.begun();
            account.landed(0);
        }
        assert_eq!(account.allowance(0.0, 0, &RULES), Err(SourceHold::Window));
        assert_eq!(account.precision(), Some(1.0));
    }

    #[test]
    fn bytes_stay_within_trial_and_share() {
        let mut account = SourceAccount::default();
        assert_eq!(account.allowance(0.0, 100_000, &RULES), Ok(6000), "1000 and 5 percent");
        account.begun();
        assert_eq!(
            account.allowance(0.0, 100_000, &RULES),
            Err(SourceHold::Allowance),
            "one of unknown length"
        );
        account.arrived(5999);
        account.landed(1);
        assert_eq!(account.allowance(0.0, 100_000, &RULES), Ok(1));
        account.arrived(1);
        assert_eq!(account.allowance(0.0, 100_000, &RULES), Err(SourceHold::Allowance));
        account.used(6000);
        assert_eq!(account.allowance(0.0, 100_000, &RULES), Ok(12_000), "used bytes are no loss");
    }

    #[test]
    fn one_miss_among_hits_mutes_nothing() {
        let mut account = SourceAccount::default();
        for turn in 0..100 {
            account.begun();
            match turn % 3 {
                0 => assert!(!account.wasted(1, 0.0, &RULES), "turn {turn}"),
                _ => account.used(1),
            }
        }
        assert!(account.precision().is_some_and(|precision| precision > 0.6));
    }

    proptest! {
        /// Waste stays within the allowance, for any uses.
        #[test]
        fn waste_never_exceeds_the_allowance(
            turns in proptest::collection::vec((0u64..4000, any::<bool>()), 0..300),
            demand in 0u64..50_000,
        ) {
            let mut account = SourceAccount::default();
            let mut now = 0.0;
            for (bytes, is_used) in turns {
                now += 1.0;
                let Ok(left) = account.allowance(now, demand, &RULES) else { continue };
                account.begun();
                let bytes = bytes.min(left);
                account.arrived(bytes);
                account.landed(bytes);
                if is_used { account.used(bytes) } else { account.wasted(bytes, now, &RULES); }
                let counts = account.counts();
                let most = RULES.trial_bytes + (demand as f64 * RULES.waste_share) as u64 + counts.used_bytes;
                prop_assert!(counts.wasted_bytes <= most);
                prop_assert_eq!(counts.prefetched_bytes, counts.used_bytes + counts.wasted_bytes);
            }
        }
    }
}
