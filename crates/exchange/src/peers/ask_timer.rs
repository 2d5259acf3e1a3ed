//! Timers of asks, kept for the next ask of the same thread.
//!
//! A new timer of the runtime that is due before all others wakes the thread once more through the
//! kernel. A kept timer that is due early enough is left as it is.

use crate::transport::Deadline;
use std::cell::RefCell;
use std::future::poll_fn;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Limit of an ask.
pub(super) struct AskTimer {
    deadline: Option<Deadline>,
    /// Thread of the runtime that runs the timer.
    thread: ThreadId,
}

impl AskTimer {
    /// Starts a timer of this thread's runtime.
    pub fn start(after: Duration) -> Self {
        let kept = KEPT.with_borrow_mut(Vec::pop);
        let mut timer = Self { deadline: kept, thread: thread::current().id() };
        timer.restart(after);
        timer
    }

    /// Moves the limit.
    pub fn restart(&mut self, after: Duration) {
        match &mut self.deadline {
            Some(deadline) => deadline.set(Instant::now() + after),
            None => self.deadline = Some(Deadline::after(after)),
        }
    }

    /// Waits until the limit has passed.
    pub async fn passed(&mut self) {
        if let Some(deadline) = &mut self.deadline {
            poll_fn(|context| deadline.poll_passed(context)).await;
        }
    }
}

impl Drop for AskTimer {
    fn drop(&mut self) {
        let own = self.deadline.take().filter(|_| self.thread == thread::current().id());
        let Some(mut deadline) = own else { return };
        debug_assert!(self.deadline.is_none(), "the timer is taken once");
        deadline.lift();
        // The thread may be ending.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(deadline);
            }
        });
    }
}

/// Timers that a thread keeps.
const KEPT_MAX: usize = 64;

thread_local! {
    /// Timers that no ask uses now.
    static KEPT: RefCell<Vec<Deadline>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn kept_timers_fire_at_their_new_limit() {
        let start = tokio::time::Instant::now();
        drop(AskTimer::start(Duration::from_secs(1)));
        assert_eq!(KEPT.with_borrow(Vec::len), 1);
        let mut timer = AskTimer::start(Duration::from_secs(5));
        timer.restart(Duration::from_secs(7));
        assert_eq!(KEPT.with_borrow(Vec::len), 0);
        timer.passed().await;
        assert!(start.elapsed() >= Duration::from_secs(6), "{:?}", start.elapsed());
    }
}
