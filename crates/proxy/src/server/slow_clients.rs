//! How long a client is waited for that takes its response, or sends its body, too slowly.
//!
//! Two rules hold. A client that moves nothing for `idle_timeout` is given up; that is a timer of
//! the connection. And a client that moves a little now and then would keep its connection for
//! ever: so the time that was spent in waiting for it is added up, and whenever it reaches
//! `idle_timeout`, at least `rate_min` bytes for each second of it must have moved. Only waiting
//! counts: a response that its origin delivers slowly is not the client's fault. What the kernel
//! buffers counts as moved. A client that never lets us wait costs nothing here, not even a look at
//! the clock.

use crate::metrics::Metrics;
use crate::transport::Deadline;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The two rules, as the settings have them.
#[derive(Clone, Debug)]
pub(super) struct SlowClientPolicy {
    /// The longest pause, and the time over which the rate is taken.
    pub pause: Duration,
    /// Bytes a second; 0 for none.
    pub rate_min: u64,
    /// Where clients that are given up are counted.
    pub metrics: Arc<Metrics>,
}

impl SlowClientPolicy {
    /// Bytes that a client moves in the time of the longest pause, if it is not too slow; at least
    /// one.
    pub fn bytes_min(&self) -> u64 {
        ((self.pause.as_secs_f64() * self.rate_min as f64) as u64).max(1)
    }
}

/// How one client has done so far.
#[derive(Debug, Default)]
pub(super) struct ClientProgress {
    /// Time spent in waiting since the rate was last looked at.
    waited: Duration,
    /// Bytes moved since then.
    moved: u64,
    /// When the wait began that lasts.
    since: Option<Instant>,
}

/// The client is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooSlow;

impl ClientProgress {
    /// The client has to be waited for.
    pub fn waits(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The same. Ready once it has moved nothing for too long.
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

    /// The client has taken or sent so many bytes. An error when that is too little for all the
    /// waiting.
    pub fn moved(&mut self, bytes: usize, patience: &SlowClientPolicy) -> Result<(), TooSlow> {
        if self.since.is_none() && self.waited.is_zero() {
            return Ok(());
        }
        let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.add(waited, bytes as u64, patience)
    }

    /// The client has taken so many bytes at once, before anybody would have had to wait: they make
    /// good for earlier waits.
    pub fn took_at_once(&mut self, bytes: usize) {
        if !self.waited.is_zero() {
            self.moved = self.moved.saturating_add(bytes as u64);
        }
    }

    /// What was written before is flushed, so many bytes of it. A wait for that ends here: what
    /// follows, be it the origin's time or an idle connection's, is not the client's.
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

    /// The bytes moved after each of these waits in seconds, to the first refusal.
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
    fn what_is_taken_at_once_between_waits_counts() {
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
    fn who_never_keeps_us_waiting_is_never_too_slow() {
        let patience = SlowClientPolicy { pause: Duration::ZERO, rate_min: 1 << 40, metrics: Arc::default() };
        let mut pace = ClientProgress::default();
        assert!((0..10).all(|_| pace.moved(1, &patience).is_ok()));
    }
}
