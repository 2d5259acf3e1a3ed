//! Requests that no client waits for, and that give way to those of clients: prefetches.
//!
//! ```text
//!                    a client wants it
//!   background ─┬──────────────────────► wanted: an ordinary request from now on
//!               └──────────────────────► given way: ends at once, and leaves its connection
//!                 a client's request waits
//! ```
//!
//! A background request takes a connection only if others stay free ([`SPARE_SHARE`]). It never
//! waits in a queue. When a client's request finds all connections in use, one background request
//! of that origin gives way.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tokio::sync::Notify;

/// State of a background request, shared by its task and the pool.
#[derive(Debug, Default)]
pub struct Background {
    state: AtomicU8,
    /// No connection was to spare.
    is_turned_away: AtomicBool,
    gone: Notify,
}

impl Background {
    /// Makes the request an ordinary one, since a client wants its answer. Returns `false` if the
    /// request has given way already.
    pub fn want(&self) -> bool {
        self.state.compare_exchange(WAITING, WANTED, Ordering::AcqRel, Ordering::Acquire) != Err(GIVEN_WAY)
    }

    /// Returns `true` if no client wants the answer yet.
    pub fn is_unwanted(&self) -> bool {
        self.state.load(Ordering::Acquire) != WANTED
    }

    /// Returns `true` if the request must end.
    pub fn has_given_way(&self) -> bool {
        self.state.load(Ordering::Acquire) == GIVEN_WAY
    }

    /// Ends the request, unless a client wants its answer. Returns `true` if it ends now.
    pub fn give_way(&self) -> bool {
        let is_ended =
            self.state.compare_exchange(WAITING, GIVEN_WAY, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if is_ended {
            self.gone.notify_waiters();
        }
        is_ended
    }

    /// Returns `true` if the request found no connection to spare, so that no origin has heard it.
    pub fn was_turned_away(&self) -> bool {
        self.is_turned_away.load(Ordering::Acquire)
    }

    /// Notes that no connection was to spare.
    pub(super) fn turn_away(&self) {
        self.is_turned_away.store(true, Ordering::Release);
    }

    /// Waits until the request must end.
    pub async fn given_way(&self) {
        loop {
            let notified = self.gone.notified();
            let mut notified = std::pin::pin!(notified);
            notified.as_mut().enable();
            if self.has_given_way() {
                return;
            }
            notified.await;
        }
    }
}

/// Background requests that hold connections or turns of one origin.
#[derive(Debug, Default)]
pub(super) struct Backgrounds(Vec<Weak<Background>>);

impl Backgrounds {
    /// Adds a request.
    pub fn add(&mut self, background: Weak<Background>) {
        if self.0.len() >= self.0.capacity().max(FORGET_FROM) {
            self.0.retain(|one| one.strong_count() > 0);
        }
        debug_assert!(background.strong_count() > 0, "the request goes on");
        self.0.push(background);
    }

    /// Lets the request that began last give way.
    pub fn give_way(&mut self) -> bool {
        while let Some(last) = self.0.pop() {
            if last.upgrade().is_some_and(|background| background.give_way()) {
                return true;
            }
        }
        false
    }
}

const WAITING: u8 = 0;
const WANTED: u8 = 1;
const GIVEN_WAY: u8 = 2;
/// Divisor: this part of an origin's connections stays free of background requests, and one at
/// least.
pub(super) const SPARE_SHARE: usize = 4;
/// Entries from which ended requests are looked for.
const FORGET_FROM: usize = 16;

const _: () = assert!(SPARE_SHARE > 0 && WAITING != WANTED && WANTED != GIVEN_WAY);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn wanted_request_never_gives_way() {
        let (wanted, other) = (Arc::new(Background::default()), Arc::new(Background::default()));
        let mut all = Backgrounds::default();
        all.add(Arc::downgrade(&other));
        all.add(Arc::downgrade(&wanted));
        assert!(wanted.want() && wanted.want() && !wanted.is_unwanted());
        assert!(all.give_way() && !all.give_way());
        assert!(!wanted.has_given_way() && other.has_given_way() && !other.want());
        other.given_way().await;
    }

    #[tokio::test]
    async fn task_learns_that_it_must_end() {
        let background = Arc::new(Background::default());
        let ending = Arc::clone(&background);
        let waiting = tokio::spawn(async move { ending.given_way().await });
        tokio::task::yield_now().await;
        assert!(background.give_way() && !background.give_way());
        waiting.await.expect("it ended");
    }

    #[test]
    fn ended_requests_are_forgotten() {
        let mut all = Backgrounds::default();
        for _ in 0..10_000 {
            let one = Arc::new(Background::default());
            all.add(Arc::downgrade(&one));
        }
        assert!(all.0.len() <= 2 * FORGET_FROM, "{}", all.0.len());
        assert!(!all.give_way());
    }
}
