//! Drain signal: tells connections to finish current requests and close.

use parking_lot::{Condvar, Mutex};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Sends the drain signal and creates a [`DrainWatch`] for each connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Drain {
    word: Arc<DrainState>,
}

#[derive(Debug, Default)]
struct DrainState {
    given: AtomicBool,
    notify: Arc<Notify>,
    /// Wakes threads outside any runtime.
    lock: Mutex<()>,
    condition: Condvar,
}

impl Drain {
    /// Starts draining. Draining cannot be undone.
    pub fn begin(&self) {
        self.word.given.store(true, Ordering::Release);
        self.word.notify.notify_waiters();
        // The lock reaches a thread that has checked the flag but does not wait yet.
        drop(self.word.lock.lock());
        self.word.condition.notify_all();
    }

    /// Returns `true` once draining has begun.
    pub fn is_begun(&self) -> bool {
        self.word.given.load(Ordering::Acquire)
    }

    /// Blocks the thread until draining begins, for at most `time`. Returns `true` if draining has
    /// begun.
    pub fn wait_for(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut guard = self.word.lock.lock();
        while !self.word.given.load(Ordering::Acquire) {
            if self.word.condition.wait_until(&mut guard, until).timed_out() {
                return false;
            }
        }
        true
    }

    /// Returns a watch for one connection.
    pub fn watch(&self) -> DrainWatch {
        let mut notified = Box::pin(Arc::clone(&self.word.notify).notified_owned());
        // Register before the first read of the flag, so that the watch misses no signal in
        // between.
        notified.as_mut().enable();
        DrainWatch { word: Arc::clone(&self.word), notified, waker: None }
    }
}

/// One connection's subscription to the drain signal.
#[derive(Debug)]
pub(super) struct DrainWatch {
    word: Arc<DrainState>,
    notified: Pin<Box<OwnedNotified>>,
    waker: Option<Waker>,
}

impl DrainWatch {
    /// Returns `true` once draining has begun.
    pub fn is_draining(&self) -> bool {
        self.word.given.load(Ordering::Acquire)
    }

    /// Returns ready once draining has begun. Further polls by the same task take no lock.
    pub fn poll_draining(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_draining() {
            return Poll::Ready(());
        }
        if self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        let polled = self.notified.as_mut().poll(context);
        self.waker = polled.is_pending().then(|| context.waker().clone());
        polled
    }

    /// Waits until draining begins.
    pub async fn draining(&mut self) {
        std::future::poll_fn(|context| self.poll_draining(context)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn drain_reaches_earlier_and_later_watches() {
        let drain = Drain::default();
        let mut early = drain.watch();
        let waiting = tokio::spawn(async move { early.draining().await });
        tokio::task::yield_now().await;
        let mut idle = drain.watch();
        assert!(!idle.is_draining());
        drain.begin();
        waiting.await.expect("woken");
        idle.draining().await;
        drain.watch().draining().await;
    }

    #[test]
    fn repeated_polls_register_one_waker() {
        let (drain, asker) = (Drain::default(), Arc::new(Asker::default()));
        let waker = Waker::from(Arc::clone(&asker));
        let mut watch = drain.watch();
        for _ in 0..3 {
            assert!(watch.poll_draining(&mut Context::from_waker(&waker)).is_pending());
            // One clone is in the watch, one in the notifier.
            assert_eq!(Arc::strong_count(&asker), 2 + 2);
        }
        drain.begin();
        assert!(asker.woken.load(Ordering::Relaxed));
    }

    #[derive(Default)]
    struct Asker {
        woken: AtomicBool,
    }

    impl std::task::Wake for Asker {
        fn wake(self: Arc<Self>) {
            self.woken.store(true, Ordering::Relaxed);
        }
    }
}
