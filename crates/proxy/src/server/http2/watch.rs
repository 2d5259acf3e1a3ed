//! Looks after a connection between its frames: idle ones are closed, dead ones are found out by pings, slow requests are given
//! up, and draining sends GOAWAY.

use crate::server::drain::DrainWatch;
use crate::server::live::Live;
use crate::transport::Deadline;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// See the head of this file.
pub(super) struct Watch {
    drain: DrainWatch,
    idle: Deadline,
    keep_alive: Duration,
    /// When what has begun to arrive is to be there.
    begun: Option<Deadline>,
    head_timeout: Duration,
    ping: Deadline,
    ping_every: Duration,
    ping_unanswered: bool,
    leaving: bool,
    /// Bytes that the client had sent and taken when the time between two pings began.
    moved_before: (u64, u64),
    /// Bytes a second that a client takes at least; 0 for no such rule.
    rate_min: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// No further streams are to be opened.
    GoAway,
    /// The client is to show that it is there.
    Ping,
    /// It does not, or does not leave, or takes too long for a request.
    Dead,
}

/// How the connection does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doing {
    /// Streams being answered.
    pub streams: usize,
    /// When the last of them ended.
    pub quiet_since: Instant,
    /// Whether bytes wait to be taken.
    pub is_pressed: bool,
    /// A part of a frame or of a head is there, which is no body.
    pub is_begun: bool,
    /// Bytes read, and bytes written after a wait: for these the client has taken others.
    pub moved: (u64, u64),
}

impl Watch {
    /// Of a connection whose preface is due.
    pub fn new(live: &Live, drain: DrainWatch) -> Self {
        let keep_alive = live.keep_alive.max(KEEP_ALIVE_MIN);
        Self {
            drain,
            idle: Deadline::after(keep_alive),
            keep_alive,
            begun: None,
            head_timeout: live.head_timeout,
            ping: Deadline::after(live.patience.pause),
            ping_every: live.patience.pause,
            ping_unanswered: false,
            leaving: false,
            moved_before: (0, 0),
            rate_min: live.patience.rate_min,
        }
    }

    /// The client has answered a ping.
    pub fn pong(&mut self) {
        self.ping_unanswered = false;
    }

    /// Waits until something is to be done. After [`Due::GoAway`] and [`Due::Ping`] it is to be asked again.
    pub fn poll(&mut self, context: &mut Context<'_>, doing: &Doing) -> Poll<Due> {
        if !self.leaving && self.drain.poll_draining(context).is_ready() {
            return Poll::Ready(self.leave());
        }
        if self.poll_begun(context, doing).is_ready() {
            return Poll::Ready(Due::Dead);
        }
        while self.idle.poll_passed(context).is_ready() {
            let now = Instant::now();
            if self.leaving {
                // A stream ends when its last bytes are handed over; a slow client has yet to take them.
                if doing.streams == 0 && !doing.is_pressed {
                    return Poll::Ready(Due::Dead);
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

    fn leave(&mut self) -> Due {
        self.leaving = true;
        self.idle.set(Instant::now() + LEAVE_TIME);
        Due::GoAway
    }

    /// Ready when what has begun to arrive is not there in time.
    fn poll_begun(&mut self, context: &mut Context<'_>, doing: &Doing) -> Poll<()> {
        // A client that takes too little makes us read late, which is not its request's fault.
        if !doing.is_begun || doing.is_pressed {
            self.begun = None;
            return Poll::Pending;
        }
        self.begun.get_or_insert_with(|| Deadline::after(self.head_timeout)).poll_passed(context)
    }

    /// A client that neither answers a ping within the time between two nor moves anything else is gone, whatever streams it has
    /// open. The ping waits behind all that the kernels hold, which may be megabytes.
    fn poll_ping(&mut self, context: &mut Context<'_>, doing: &Doing) -> Poll<Due> {
        while self.ping.poll_passed(context).is_ready() {
            let lives = self.lives(doing);
            if self.ping_unanswered && !lives {
                return Poll::Ready(Due::Dead);
            }
            self.ping.set(Instant::now() + self.ping_every);
            if !self.ping_unanswered {
                self.ping_unanswered = true;
                return Poll::Ready(Due::Ping);
            }
        }
        Poll::Pending
    }

    /// Whether the client has shown since the last look that it is there: by taking what it let wait, or by sending something as
    /// long as streams are open, which have their own patience.
    fn lives(&mut self, doing: &Doing) -> bool {
        let (read, taken) = (doing.moved.0 - self.moved_before.0, doing.moved.1 - self.moved_before.1);
        self.moved_before = doing.moved;
        let takes = taken > 0 && taken as f64 >= self.ping_every.as_secs_f64() * self.rate_min as f64;
        takes || doing.streams > 0 && read > 0
    }
}

/// A connection without streams lives at least so long: the first request needs time to arrive.
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);

/// After GOAWAY: how often to look whether the last stream has ended and its client has taken it.
pub(super) const LEAVE_TIME: Duration = Duration::from_secs(2);
