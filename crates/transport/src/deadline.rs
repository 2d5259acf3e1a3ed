//! One timer per connection, cheap to move.
//!
//! A keep-alive connection moves its deadline with every request. Each move of a runtime timer
//! would take the timer wheel's lock. Here the timer keeps its instant while the deadline moves
//! later. The timer is reset only if it fires too early. The timer also keeps the waker from the
//! first poll of a task.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::task::coop;
use tokio::time::Sleep;

/// A deadline that can be moved or lifted at any time.
#[derive(Debug)]
pub struct Deadline {
    sleep: Pin<Box<Sleep>>,
    due: Option<Instant>,
    /// Waker of the task to wake when the timer fires.
    waker: Option<Waker>,
}

impl Deadline {
    /// Creates a deadline `after` from now.
    pub fn after(after: Duration) -> Self {
        let due = Instant::now() + after;
        Self { sleep: Box::pin(tokio::time::sleep_until(due.into())), due: Some(due), waker: None }
    }

    /// Moves the deadline.
    pub fn set(&mut self, due: Instant) {
        self.due = Some(due);
        if self.sleep.deadline() > due.into() {
            self.reset(due);
        }
    }

    /// Sets the deadline to `after` from now, unless one is set.
    pub fn set_if_lifted(&mut self, after: Duration) {
        if self.due.is_none() {
            self.set(Instant::now() + after);
        }
    }

    /// Lifts the deadline.
    pub fn lift(&mut self) {
        self.due = None;
    }

    /// Returns `Ready` once the deadline has passed.
    pub fn poll_passed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = self.due else { return Poll::Pending };
        if !self.sleep.is_elapsed()
            && self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()))
        {
            return Poll::Pending;
        }
        while self.sleep.as_mut().poll(context).is_ready() {
            if self.sleep.deadline() >= due.into() {
                return Poll::Ready(());
            }
            self.reset(due);
        }
        // A task without remaining budget is suspended before the timer has registered its waker.
        self.waker = coop::has_budget_remaining().then(|| context.waker().clone());
        Poll::Pending
    }

    fn reset(&mut self, due: Instant) {
        self.sleep.as_mut().reset(due.into());
        self.waker = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_moves_both_ways_and_lifts() {
        let start = tokio::time::Instant::now();
        let mut deadline = Deadline::after(Duration::from_secs(10));
        deadline.set(start.into_std() + Duration::from_secs(30));
        poll_fn(|context| deadline.poll_passed(context)).await;
        assert_eq!(start.elapsed().as_secs(), 30);
        deadline.set(start.into_std() + Duration::from_secs(60));
        deadline.set(start.into_std() + Duration::from_secs(40));
        poll_fn(|context| deadline.poll_passed(context)).await;
        assert_eq!(start.elapsed().as_secs(), 40);
        deadline.lift();
        let lifted = poll_fn(|context| deadline.poll_passed(context));
        assert!(tokio::time::timeout(Duration::from_secs(999), lifted).await.is_err());
    }

    #[tokio::test]
    async fn a_task_that_is_put_off_is_woken_all_the_same() {
        let mut deadline = Deadline::after(Duration::from_millis(20));
        let mut first = true;
        let waiting = tokio::spawn(async move {
            poll_fn(|context| {
                while first && let Poll::Ready(turn) = coop::poll_proceed(context) {
                    turn.made_progress();
                }
                first = false;
                deadline.poll_passed(context)
            })
            .await;
        });
        tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("in time").expect("no panic");
    }
}
