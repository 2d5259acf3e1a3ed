//! Peer health: time-out for asks of one peer, and whether the peer is asked at all.
//!
//! ```text
//!            refused, or 3 time-outs in a row            pause over
//!   closed ────────────────────────────────► open ◄────────────────► probing (one ask)
//!      ▲                                       ▲   failed: pause × 2     │
//!      │              answered                 └─────────────────────────┤
//!      └─────────────────────────────────────────────────────────────────┘
//!   a lie (wrong key, body or checksum): set aside for 1 min, 2 min … 1 h, then one probe
//! ```
//!
//! The data path decides which peers are asked; gossip confirms later. The time-out is three times
//! the decayed 99th percentile of the peer's own answers, doubled for each time-out since the last
//! answer. A time-out counts as an answer of twice the time. A peer that became slower is thus
//! reached again.
//!
//! Time-outs are in a row if each ask was sent after the time-out before. One pause of a busy
//! machine, which many asks meet at once, is therefore one time-out and not many.
//!
//! Costs 400 bytes a peer; O(1) an answer, O(buckets) for a time-out every 64 answers.

mod latencies;
#[cfg(test)]
mod tests;

use latencies::Latencies;
use std::time::Duration;

/// State of one peer, as this node's asks found it. Times are since the node's start.
#[derive(Clone, Debug)]
pub struct PeerHealth {
    latencies: Latencies,
    longest: Duration,
    breaker: Breaker,
    /// Pause of the next opening.
    pause: Duration,
    /// Time-outs since the last answer, one after the other.
    timeouts_in_row: u32,
    /// Time of the last of them.
    timed_out_last: Duration,
    /// End of the last pause; long after it, pauses begin small again.
    pause_ended: Duration,
    lies_in_row: u32,
    counts: PeerCounts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Breaker {
    Closed,
    Open {
        until: Duration,
        reason: SkipReason,
    },
    /// One ask is under way. Without a result by `until`, another one is tried.
    Probing {
        until: Duration,
        reason: SkipReason,
    },
}

/// Decision if a peer is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerAdmission {
    /// Ask, and wait for this time. The caller reports the result in any case.
    Ask(Duration),
    /// Take the next one.
    Skip(SkipReason),
}

/// Reason why a peer is not asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SkipReason {
    /// Connections to the peer were refused or broke.
    Refused,
    /// The peer gave no sign of life in time.
    TimedOut,
    /// The peer sent a wrong object.
    Lied,
}

/// Numbers of results since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PeerCounts {
    /// Asks answered in time.
    pub answered: u64,
    /// Connections refused or broken.
    pub refused: u64,
    /// Asks without a sign of life in time.
    pub timed_out: u64,
    /// Wrong objects.
    pub lied: u64,
    /// Times that the breaker opened.
    pub opened: u64,
    /// Probes while it was open.
    pub probes: u64,
    /// Asks not sent because connections were refused.
    pub skipped_refused: u64,
    /// Asks not sent because of time-outs.
    pub skipped_timed_out: u64,
    /// Asks not sent because the peer lied.
    pub skipped_lied: u64,
}

/// State of a peer, for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerStatus {
    /// Reason why the peer is not asked, if it is not.
    pub skipped: Option<SkipReason>,
    /// Time that an ask would get.
    pub timeout: Duration,
    /// Decayed 99th percentile of the times to the first sign of life.
    pub p99: Option<Duration>,
    /// Numbers of results.
    pub counts: PeerCounts,
}

impl PeerHealth {
    /// Makes a peer of which nothing is known. `longest` is the setting `cluster.peer_timeout`:
    /// the time-out at the start and at most.
    pub fn new(longest: Duration) -> Self {
        Self {
            latencies: Latencies::default(),
            longest: longest.max(TIMEOUT_MIN),
            breaker: Breaker::Closed,
            pause: PAUSE_MIN,
            timeouts_in_row: 0,
            timed_out_last: Duration::ZERO,
            pause_ended: Duration::ZERO,
            lies_in_row: 0,
            counts: PeerCounts::default(),
        }
    }

    /// Sets the longest time-out anew, after a reload.
    pub fn set_longest(&mut self, longest: Duration) {
        self.longest = longest.max(TIMEOUT_MIN);
    }

    /// Decides if the peer is asked now. An admitted probe holds back other asks until its result.
    pub fn admit(&mut self, now: Duration) -> PeerAdmission {
        let timeout = self.timeout();
        match self.breaker {
            Breaker::Closed => PeerAdmission::Ask(timeout),
            Breaker::Open { until, reason } | Breaker::Probing { until, reason } if now >= until => {
                self.counts.probes += 1;
                // A probe without a result must not end all probes.
                self.breaker = Breaker::Probing { until: now + self.longest * 2, reason };
                PeerAdmission::Ask(timeout)
            }
            Breaker::Open { reason, .. } | Breaker::Probing { reason, .. } => {
                match reason {
                    SkipReason::Refused => self.counts.skipped_refused += 1,
                    SkipReason::TimedOut => self.counts.skipped_timed_out += 1,
                    SkipReason::Lied => self.counts.skipped_lied += 1,
                }
                PeerAdmission::Skip(reason)
            }
        }
    }

    /// Returns `true` if asks go to the peer as usual: none is held back.
    pub fn is_closed(&self) -> bool {
        self.breaker == Breaker::Closed
    }

    /// Takes an answer of any kind, "busy" and "behind" among them, `latency` after the ask.
    pub fn answered(&mut self, latency: Duration, now: Duration) {
        self.counts.answered += 1;
        self.latencies.add(latency, now);
        match self.breaker {
            // An answer to an ask of before says nothing about now.
            Breaker::Open { .. } => return,
            Breaker::Probing { .. } => {
                self.breaker = Breaker::Closed;
                self.pause_ended = now;
            }
            Breaker::Closed => {}
        }
        self.timeouts_in_row = 0;
    }

    /// Takes a refused or broken connection.
    pub fn refused(&mut self, now: Duration) {
        self.counts.refused += 1;
        self.open(SkipReason::Refused, now);
    }

    /// Takes an ask without a sign of life within its time-out.
    pub fn timed_out(&mut self, timeout: Duration, now: Duration) {
        self.counts.timed_out += 1;
        self.latencies.add((timeout * 2).min(self.longest), now);
        let was_sent_after = now.saturating_sub(timeout) >= self.timed_out_last;
        if self.timeouts_in_row == 0 || was_sent_after {
            self.timeouts_in_row = self.timeouts_in_row.saturating_add(1);
            self.timed_out_last = now;
        }
        let probing = matches!(self.breaker, Breaker::Probing { .. });
        if probing || self.timeouts_in_row >= TIMEOUTS_IN_ROW {
            self.open(SkipReason::TimedOut, now);
        }
    }

    /// Takes the end of an ask that says nothing about the peer, because its client left.
    pub fn abandoned(&mut self, now: Duration) {
        if let Breaker::Probing { reason, .. } = self.breaker {
            self.breaker = Breaker::Open { until: now, reason };
        }
    }

    /// Takes a wrong object: another key, variant or mode, or a wrong checksum.
    pub fn lied(&mut self, now: Duration) {
        self.counts.lied += 1;
        if let Breaker::Open { reason: SkipReason::Lied, until } = self.breaker
            && now < until
        {
            return;
        }
        if now.saturating_sub(self.pause_ended) > ASIDE_MAX {
            self.lies_in_row = 0;
        }
        let aside = (ASIDE_MIN * (1 << self.lies_in_row.min(16))).min(ASIDE_MAX);
        self.lies_in_row = self.lies_in_row.saturating_add(1);
        self.counts.opened += 1;
        self.pause_ended = now + aside;
        self.breaker = Breaker::Open { until: now + aside, reason: SkipReason::Lied };
    }

    /// Returns the state for operators.
    pub fn status(&self) -> PeerStatus {
        let skipped = match self.breaker {
            Breaker::Closed => None,
            Breaker::Open { reason, .. } | Breaker::Probing { reason, .. } => Some(reason),
        };
        PeerStatus { skipped, timeout: self.timeout(), p99: self.latencies.p99(), counts: self.counts }
    }

    /// Returns the time-out for an ask.
    pub fn timeout(&self) -> Duration {
        let usual = self.latencies.p99().map_or(self.longest, |p99| p99 * TIMEOUT_FACTOR);
        // Each time-out doubles the next, so that a probe reaches a peer that became slower.
        let doubled = usual.max(TIMEOUT_MIN) * (1 << self.timeouts_in_row.min(16));
        doubled.min(self.longest)
    }

    /// Opens the breaker. Results of asks that were sent before do not make the pause longer.
    fn open(&mut self, reason: SkipReason, now: Duration) {
        if matches!(self.breaker, Breaker::Open { .. }) {
            return;
        }
        if matches!(self.breaker, Breaker::Closed) && now.saturating_sub(self.pause_ended) > PAUSE_MAX {
            self.pause = PAUSE_MIN;
        }
        self.counts.opened += 1;
        self.breaker = Breaker::Open { until: now + self.pause, reason };
        self.pause_ended = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// Shortest time-out: below this, a pause of a busy machine counts as a dead peer. Each needless
/// time-out costs a fetch from the origin, which usually takes as long.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// Time-out over the 99th percentile.
const TIMEOUT_FACTOR: u32 = 3;

/// Time-outs one after the other, without an answer between them, that open the breaker.
const TIMEOUTS_IN_ROW: u32 = 3;

/// First and longest pause before a probe.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// First and longest time for which a liar is set aside.
const ASIDE_MIN: Duration = Duration::from_secs(60);
const ASIDE_MAX: Duration = Duration::from_secs(3600);
