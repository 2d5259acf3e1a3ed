//! Watches a connection between its frames. Closes idle connections, finds dead ones by pings, ends
//! late requests, and sends GOAWAY when the server drains.

use crate::drain::DrainWatch;
use crate::limits::ConnectionLimits;
use crate::slow_clients::SlowClientPolicy;
use crate::transport::Deadline;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Timers and pings of one connection.
pub(super) struct ConnectionMonitor {
    drain: DrainWatch,
    idle: Deadline,
    keep_alive: Duration,
    /// Number of the unfinished element, and its deadline.
    begun: Option<(u64, Deadline)>,
    head_timeout: Duration,
    ping: Deadline,
    ping_unanswered: bool,
    /// Output has been waiting since the current ping interval began.
    pressed: bool,
    leaving: bool,
    /// Bytes that the client had sent and taken when the current ping interval began.
    moved_before: (u64, u64),
    /// Length of the ping interval, and the minimum speed of the client.
    patience: SlowClientPolicy,
}

/// Action that the connection must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonitorAction {
    /// Announce that no further streams are accepted.
    GoAway,
    /// The ping interval has ended: check the streams. Ping the client unless an earlier ping is
    /// unanswered.
    Look {
        /// `true` if a ping is to be sent.
        ping: bool,
    },
    /// End: the client had time to leave since GOAWAY, and no stream is left.
    Over,
    /// End: a head or other frame has begun and is late.
    Late,
    /// End: the client has gone, or takes its output too slowly.
    Dead,
}

/// Activity of the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionActivity {
    /// Number of streams being answered.
    pub streams: usize,
    /// Time at which the last stream ended.
    pub quiet_since: Instant,
    /// `true` if output waits for the client.
    pub is_pressed: bool,
    /// Number of the unfinished frame or head, if it is not a DATA frame.
    pub begun: Option<u64>,
    /// Bytes read, and bytes written after a wait. The latter show that the client has taken
    /// earlier bytes.
    pub moved: (u64, u64),
}

impl ConnectionMonitor {
    /// Creates the monitor of a connection before its preface arrives.
    pub fn new(live: &ConnectionLimits, drain: DrainWatch) -> Self {
        let keep_alive = live.keep_alive.max(KEEP_ALIVE_MIN);
        Self {
            drain,
            idle: Deadline::after(keep_alive),
            keep_alive,
            begun: None,
            head_timeout: live.head_timeout,
            ping: Deadline::after(live.patience.pause),
            ping_unanswered: false,
            pressed: false,
            leaving: false,
            moved_before: (0, 0),
            patience: live.patience.clone(),
        }
    }

    /// Records that the client has answered a ping.
    pub fn pong(&mut self) {
        self.ping_unanswered = false;
    }

    /// Waits until an action is due. Poll again after [`MonitorAction::GoAway`] and
    /// [`MonitorAction::Look`].
    pub fn poll(&mut self, context: &mut Context<'_>, doing: &ConnectionActivity) -> Poll<MonitorAction> {
        self.pressed &= doing.is_pressed;
        if !self.leaving && (self.drain.poll_draining(context).is_ready()) {
            return Poll::Ready(self.leave());
        }
        if self.poll_begun(context, doing).is_ready() {
            return Poll::Ready(MonitorAction::Late);
        }
        while self.idle.poll_passed(context).is_ready() {
            let now = Instant::now();
            if self.leaving {
                // A stream ends when its last bytes are handed over. A slow client may still have
                // to take them.
                if doing.streams == 0 && !doing.is_pressed {
                    return Poll::Ready(MonitorAction::Over);
                }
                self.idle.set(now + LEAVE_TIME);
                continue;
            }
            let due = match doing.streams {
                0 => doing.quiet_since + self.keep_alive,
                _ => now + self.keep_alive,
            };
            if due <= now {
                return Poll::Ready(self.leave());
            }
            self.idle.set(due);
        }
        self.poll_ping(context, doing)
    }

    fn leave(&mut self) -> MonitorAction {
        debug_assert!(!self.leaving, "GOAWAY is sent once");
        self.leaving = true;
        self.idle.set(Instant::now() + LEAVE_TIME);
        MonitorAction::GoAway
    }

    /// Returns ready if the unfinished element is late.
    fn poll_begun(&mut self, context: &mut Context<'_>, doing: &ConnectionActivity) -> Poll<()> {
        // A client that takes output slowly delays our reading, so its request is not late.
        let Some(number) = doing.begun.filter(|_| !doing.is_pressed) else {
            self.begun = None;
            return Poll::Pending;
        };
        // A different element gets its own deadline.
        if self.begun.as_ref().is_none_or(|(begun, _)| *begun != number) {
            self.begun = None;
        }
        let begun = self.begun.get_or_insert_with(|| (number, Deadline::after(self.head_timeout)));
        begun.1.poll_passed(context)
    }

    /// Returns ready at the end of a ping interval. A client is gone if it neither answers the ping
    /// nor moves other bytes within an interval, whether or not streams are open. The ping may wait
    /// behind megabytes in the kernels' buffers. A client that takes its output too slowly is
    /// closed even if it sends frames.
    fn poll_ping(&mut self, context: &mut Context<'_>, doing: &ConnectionActivity) -> Poll<MonitorAction> {
        if self.ping.poll_passed(context).is_pending() {
            return Poll::Pending;
        }
        debug_assert!(doing.moved.0 >= self.moved_before.0, "counts never fall");
        debug_assert!(doing.moved.1 >= self.moved_before.1);
        let (read, taken) = (doing.moved.0 - self.moved_before.0, doing.moved.1 - self.moved_before.1);
        self.moved_before = doing.moved;
        let takes = taken >= self.patience.bytes_min();
        let is_slow = std::mem::replace(&mut self.pressed, doing.is_pressed) && !takes;
        if is_slow {
            self.patience.metrics.clients_slow.increment();
        }
        // Open streams have their own limits on request bodies.
        let lives = takes || doing.streams > 0 && read > 0;
        if is_slow || self.ping_unanswered && !lives {
            return Poll::Ready(MonitorAction::Dead);
        }
        self.ping.set(Instant::now() + self.patience.pause);
        Poll::Ready(MonitorAction::Look { ping: !std::mem::replace(&mut self.ping_unanswered, true) })
    }
}

/// Minimum life of a connection without streams: the first request needs time to arrive.
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);

/// Interval of checks after GOAWAY for the end of the last stream and its output.
pub(super) const LEAVE_TIME: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::Drain;
    use crate::metrics::Metrics;
    use shoal_settings::ClientLimits;
    use std::sync::Arc;
    use std::task::Waker;

    fn active() -> ConnectionActivity {
        let quiet_since = Instant::now();
        ConnectionActivity { streams: 1, quiet_since, is_pressed: false, begun: None, moved: (0, 0) }
    }

    #[tokio::test]
    async fn draining_sends_goaway_once() {
        let live = ConnectionLimits::new(&ClientLimits::default(), Arc::<Metrics>::default());
        let context = &mut Context::from_waker(Waker::noop());
        let drain = Drain::default();
        let mut monitor = ConnectionMonitor::new(&live, drain.watch());
        assert_eq!(monitor.poll(context, &active()), Poll::Pending);
        drain.begin();
        assert_eq!(monitor.poll(context, &active()), Poll::Ready(MonitorAction::GoAway));
        assert_eq!(monitor.poll(context, &active()), Poll::Pending);
    }
}
