//! Looks after a connection between its frames: idle ones are closed, dead ones are found out by
//! pings, slow requests are given up, and draining sends GOAWAY, as keys do that have encrypted
//! much.

use crate::server::drain::DrainWatch;
use crate::server::limits::ConnectionLimits;
use crate::server::slow_clients::SlowClientPolicy;
use crate::transport::Deadline;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// See the head of this file.
pub(super) struct ConnectionMonitor {
    drain: DrainWatch,
    idle: Deadline,
    keep_alive: Duration,
    /// The number of what has begun to arrive, and when it is to be there.
    begun: Option<(u64, Deadline)>,
    head_timeout: Duration,
    ping: Deadline,
    ping_unanswered: bool,
    /// Bytes have waited to be taken ever since the time between two pings began.
    pressed: bool,
    leaving: bool,
    /// Bytes that the client had sent and taken when the time between two pings began.
    moved_before: (u64, u64),
    /// The time between two pings, and what a client is to take in it.
    patience: SlowClientPolicy,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonitorAction {
    /// No further streams are to be opened.
    GoAway,
    /// The time between two pings is over: the streams are to be looked at, and the client is to
    /// show that it is there unless it was asked before.
    Look {
        /// Whether to ask.
        ping: bool,
    },
    /// It has had time to leave since GOAWAY, and no stream is left.
    Over,
    /// A head or another frame has begun, and is not there in time.
    Late,
    /// The client is not there, or takes too little of what waits for it.
    Dead,
}

/// How the connection does.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionActivity {
    /// Streams being answered.
    pub streams: usize,
    /// When the last of them ended.
    pub quiet_since: Instant,
    /// Whether bytes wait to be taken.
    pub is_pressed: bool,
    /// The number of a frame or of a head of which a part is there, and which is no body.
    pub begun: Option<u64>,
    /// Bytes read, and bytes written after a wait: for these the client has taken others.
    pub moved: (u64, u64),
}

impl ConnectionMonitor {
    /// Of a connection whose preface is due.
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

    /// The client has answered a ping.
    pub fn pong(&mut self) {
        self.ping_unanswered = false;
    }

    /// Waits until something is to be done. After [`MonitorAction::GoAway`] and
    /// [`MonitorAction::Look`] it is to be asked again.
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
                // A stream ends when its last bytes are handed over; a slow client has yet to take
                // them.
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

    /// Ready when what has begun to arrive is not there in time.
    fn poll_begun(&mut self, context: &mut Context<'_>, doing: &ConnectionActivity) -> Poll<()> {
        // A client that takes too little makes us read late, which is not its request's fault.
        let Some(number) = doing.begun.filter(|_| !doing.is_pressed) else {
            self.begun = None;
            return Poll::Pending;
        };
        // Another than at the last look has its own time.
        if self.begun.as_ref().is_none_or(|(begun, _)| *begun != number) {
            self.begun = None;
        }
        let begun = self.begun.get_or_insert_with(|| (number, Deadline::after(self.head_timeout)));
        begun.1.poll_passed(context)
    }

    /// A client that neither answers a ping within the time between two nor moves anything else is
    /// gone, whatever streams it has open. The ping waits behind all that the kernels hold, which
    /// may be megabytes. And one that takes too little of what waits for it is too slow, whatever
    /// it says meanwhile.
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
        // Streams that are open have their own patience with what is sent.
        let lives = takes || doing.streams > 0 && read > 0;
        if is_slow || self.ping_unanswered && !lives {
            return Poll::Ready(MonitorAction::Dead);
        }
        self.ping.set(Instant::now() + self.patience.pause);
        Poll::Ready(MonitorAction::Look { ping: !std::mem::replace(&mut self.ping_unanswered, true) })
    }
}

/// A connection without streams lives at least so long: the first request needs time to arrive.
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);

/// After GOAWAY: how often to look whether the last stream has ended and its client has taken it.
pub(super) const LEAVE_TIME: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::server::drain::Drain;
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
