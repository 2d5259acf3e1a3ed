//! Reads that no client waits for: prefetches look on the disk before they ask the origin.
//!
//! Such a read begins if no other read waits and no change is due, and one of them runs at a time.
//! A client's read therefore finds at most one of them before it, on one of the pool's threads. On
//! a disk with constant work they wait for ever: their prefetches do, too, and their number is
//! bounded.

use super::QueueFull;
use std::collections::VecDeque;

/// Reads ahead that wait.
pub(super) struct AheadReads<J> {
    waiting: VecDeque<J>,
    is_running: bool,
}

impl<J> AheadReads<J> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self { waiting: VecDeque::new(), is_running: false }
    }

    /// Adds a read.
    ///
    /// # Errors
    /// If too many wait.
    pub fn push(&mut self, read: J) -> Result<(), QueueFull> {
        if self.waiting.len() >= WAITING_MAX {
            return Err(QueueFull);
        }
        self.waiting.push_back(read);
        Ok(())
    }

    /// Returns the next read, unless one runs. It runs until [`Self::ended`].
    pub fn pop(&mut self) -> Option<J> {
        let next = if self.is_running { None } else { self.waiting.pop_front() };
        self.is_running |= next.is_some();
        next
    }

    /// Notes the end of the read that ran.
    pub fn ended(&mut self) {
        debug_assert!(self.is_running, "a read that was not begun");
        self.is_running = false;
    }
}

/// Most reads that wait.
const WAITING_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::super::{IoPool, JobKind};
    use super::*;
    use parking_lot::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    #[test]
    fn waiting_reads_are_bounded() {
        let mut ahead = AheadReads::new();
        (0..WAITING_MAX).for_each(|number| assert_eq!(ahead.push(number), Ok(())));
        assert_eq!((ahead.push(0), ahead.pop(), ahead.pop()), (Err(QueueFull), Some(0), None));
        ahead.ended();
        assert_eq!(ahead.pop(), Some(1));
    }

    #[tokio::test]
    async fn reads_ahead_begin_last() {
        let pool = IoPool::new(1, 100).expect("threads start");
        let (release, gate) = mpsc::channel::<()>();
        let blocked = pool.submit(JobKind::READ, move || gate.recv().is_ok()).expect("room");
        let order = Arc::new(Mutex::new(Vec::new()));
        let jobs: Vec<_> = [JobKind::ReadAhead, JobKind::Change, JobKind::READ]
            .into_iter()
            .flat_map(|kind| [kind; 3])
            .map(|kind| {
                let order = Arc::clone(&order);
                pool.submit(kind, move || order.lock().push(kind)).expect("room")
            })
            .collect();
        release.send(()).expect("the job waits");
        assert_eq!(blocked.await, Ok(true));
        for job in jobs {
            job.await.expect("it is done");
        }
        let expected = [JobKind::READ, JobKind::Change, JobKind::ReadAhead];
        assert_eq!(*order.lock(), expected.map(|kind| [kind; 3]).concat());
        assert!(!pool.is_changing(), "reads change nothing");
        pool.close();
    }

    #[tokio::test]
    async fn one_read_ahead_runs_beside_others() {
        let pool = IoPool::new(4, 100).expect("threads start");
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let ahead: Vec<_> = (0..20)
            .map(|_| {
                let (running, most, gate) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&gate));
                let job = move || {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    let _ = gate.lock().recv_timeout(Duration::from_secs(30));
                    running.fetch_sub(1, SeqCst);
                };
                pool.submit(JobKind::ReadAhead, job).expect("room")
            })
            .collect();
        for number in 0..50 {
            assert_eq!(pool.submit(JobKind::READ, move || number).expect("room").await, Ok(number));
        }
        assert!(running.load(SeqCst) <= 1, "the others wait");
        (0..20).for_each(|_| release.send(()).expect("jobs wait"));
        for job in ahead {
            job.await.expect("it is done");
        }
        assert_eq!(most.load(SeqCst), 1);
        pool.close();
    }

    #[tokio::test]
    async fn close_finishes_reads_ahead() {
        let pool = IoPool::new(3, 100).expect("threads start");
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..50 {
            let done = Arc::clone(&done);
            let job = move || {
                std::thread::sleep(Duration::from_micros(100));
                done.fetch_add(1, SeqCst);
            };
            drop(pool.submit(JobKind::ReadAhead, job).expect("room"));
        }
        pool.close();
        assert_eq!(done.load(SeqCst), 50);
    }
}
