//! Time limits for clients that take their response, or send their body, too slowly.
//!
//! - A client that moves nothing for `idle_timeout` is closed. The connection's timer enforces this
//!   rule.
//! - Otherwise a client could keep its connection forever by moving a few bytes now and then. The
//!   waiting time is therefore added up. Each time the sum reaches `idle_timeout`, at least
//!   `rate_min` bytes per second of it must have moved.
//!
//! Only time spent waiting for the client counts: a slow origin is not the client's fault. Bytes in
//! the kernel's buffer count as moved. A client that never makes us wait costs nothing here, not
//! even a clock reading.

use crate::metrics::Metrics;
use crate::transport::Deadline;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The two rules, as configured.
#[derive(Clone, Debug)]
pub(super) struct SlowClientPolicy {
    /// Maximum pause, and the waiting time over which the rate is measured.
    pub pause: Duration,
    /// Minimum bytes per second; 0 for no minimum.
    pub rate_min: u64,
    /// Metrics that count the clients closed for slowness.
    pub metrics: Arc<Metrics>,
}

impl SlowClientPolicy {
    /// Returns the minimum number of bytes moved within the maximum pause, at least 1.
    pub fn bytes_min(&self) -> u64 {
        ((self.pause.as_secs_f64() * self.rate_min as f64) as u64).max(1)
    }
}

/// Waiting time and progress of one client.
#[derive(Debug, Default)]
pub(super) struct ClientProgress {
    /// Waiting time since the last check of the rate.
    waited: Duration,
    /// Bytes moved since the last check.
    moved: u64,
    /// Start of the current wait, if one is going on.
    since: Option<Instant>,
}

/// Error: the client is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooSlow;

impl ClientProgress {
    /// Starts a wait for the client, unless one is going on.
    pub fn waits(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Starts a wait likewise. Returns ready once the client has moved nothing for too long.
    pub fn poll_stalled(
        &mut self,
        deadline: &mut Deadline,
        context: &mut Context<'_>,
        patience: &SlowClientPolicy,
    ) -> Poll<TooSlow> {
        self.waits();
        deadline.set_if_lifted(patience.pause);
        ready!(deadline.poll_passed(context));
        patience.metrics.clients_slow.increment();
        Poll::Ready(TooSlow)
    }

    /// Records that the client has moved `bytes`. Returns an error if that is too little for the
    /// waiting time.
    pub fn moved(&mut self, bytes: usize, patience: &SlowClientPolicy) -> Result<(), TooSlow> {
        if self.since.is_none() && self.waited.is_zero() {
            return Ok(());
        }
        let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.add(waited, bytes as u64, patience)
    }

    /// Records `bytes` that the client took without a wait. They count against earlier waits.
    pub fn took_at_once(&mut self, bytes: usize) {
        if !self.waited.is_zero() {
            self.moved = self.moved.saturating_add(bytes as u64);
        }
    }

    /// Records that `bytes` of earlier output are flushed. This ends the current wait. The time
    /// that follows belongs to the origin or an idle connection, not to the client.
    pub fn flushed(&mut self, bytes: usize, patience: &SlowClientPolicy) -> Result<(), TooSlow> {
        if self.since.is_none() { Ok(()) } else { self.moved(bytes, patience) }
    }

    fn add(&mut self, waited: Duration, bytes: u64, patience: &SlowClientPolicy) -> Result<(), TooSlow> {
        self.waited += waited;
        self.moved = self.moved.saturating_add(bytes);
        if self.waited < patience.pause {
            return Ok(());
        }
        let due = self.waited.as_secs_f64() * patience.rate_min as f64;
        if (self.moved as f64) < due {
            patience.metrics.clients_slow.increment();
            return Err(TooSlow);
        }
        (self.waited, self.moved) = (Duration::ZERO, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Index of the first step of (wait in seconds, bytes moved) that is refused.
    fn course(rate_min: u64, steps: &[(u64, u64)]) -> Option<usize> {
        let patience = SlowClientPolicy { pause: Duration::from_secs(10), rate_min, metrics: Arc::default() };
        let mut pace = ClientProgress::default();
        let refused = |&(waited, bytes): &(u64, u64)| {
            pace.add(Duration::from_secs(waited), bytes, &patience) == Err(TooSlow)
        };
        let first = steps.iter().position(refused);
        assert_eq!(patience.metrics.clients_slow.value(), u64::from(first.is_some()));
        first
    }

    #[test]
    fn the_rate_is_taken_over_the_waiting_time() {
        for (rate_min, steps, expected) in [
            (100, &[(9, 1)][..], None),
            (100, &[(9, 1), (1, 1)], Some(1)),
            (100, &[(9, 1), (1, 999)], None),
            (100, &[(5, 0), (5, 1000), (5, 0), (4, 0), (1, 999)], Some(4)),
            (100, &[(15, 1000)], Some(0)),
            (0, &[(10, 0), (10, 0), (10, 0)], None),
        ] {
            assert_eq!(course(rate_min, steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn bytes_taken_between_waits_count() {
        let patience =
            SlowClientPolicy { pause: Duration::from_secs(2), rate_min: 100, metrics: Arc::default() };
        for (at_once, expected) in [(0, Err(TooSlow)), (150, Ok(()))] {
            let mut pace = ClientProgress::default();
            assert_eq!(pace.add(Duration::from_secs(1), 30, &patience), Ok(()));
            pace.took_at_once(at_once);
            assert_eq!(pace.add(Duration::from_secs(1), 30, &patience), expected, "{at_once} at once");
        }
    }

    #[test]
    fn client_without_waits_is_never_too_slow() {
        let patience = SlowClientPolicy { pause: Duration::ZERO, rate_min: 1 << 40, metrics: Arc::default() };
        let mut pace = ClientProgress::default();
        assert!((0..10).all(|_| pace.moved(1, &patience).is_ok()));
    }
}
