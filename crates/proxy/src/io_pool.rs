//! The bounded pool on which everything runs that may wait for the disk.
//!
//! Event loops never block: they hand a job over and await its result. The queue is bounded; when it is
//! full the job is refused at once, and the caller treats a read as a miss and an insert as declined.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// A fixed number of threads behind a bounded queue.
pub struct IoPool {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The pool's queue was full, or the pool is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

type Job = Box<dyn FnOnce() + Send>;

struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    limit: usize,
    /// Jobs done so far.
    finished: AtomicU64,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl IoPool {
    /// Starts `threads` threads; at most `limit` jobs wait.
    pub fn new(threads: usize, limit: usize) -> std::io::Result<Self> {
        let queue = Arc::new(Queue {
            state: Mutex::default(),
            arrived: Condvar::new(),
            limit: limit.max(1),
            finished: AtomicU64::new(0),
        });
        let started = (0..threads.max(1)).map(|number| {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new().name(format!("shoal-io-{number}")).spawn(move || queue.work())
        });
        Ok(Self { threads: Mutex::new(started.collect::<Result<_, _>>()?), queue })
    }

    /// Queues `job` at once; its result comes through the channel, which closes without one when the job
    /// panicked or the pool was dropped.
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, Busy> {
        let (answer, answered) = oneshot::channel();
        self.queue.push(Box::new(move || {
            let _ = answer.send(job());
        }))?;
        Ok(answered)
    }

    /// Queues `job` and awaits its result.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, Busy> {
        self.submit(job)?.await.map_err(|_| Busy)
    }

    /// Waits while the queue is more than half full, for whoever can slow down what fills it: a while, and only as long as
    /// jobs get finished. A disk that hangs holds nobody up.
    pub async fn catch_up(&self) {
        let mut finished = self.finished();
        let (mut waited, mut stuck) = (Duration::ZERO, Duration::ZERO);
        while self.waiting() > self.queue.limit / 2 && waited < CATCH_UP_MAX && stuck < STUCK {
            tokio::time::sleep(CATCH_UP_PAUSE).await;
            let now = self.finished();
            waited += CATCH_UP_PAUSE;
            stuck = if now == finished { stuck + CATCH_UP_PAUSE } else { Duration::ZERO };
            finished = now;
        }
    }

    /// Finishes what is queued and ends the threads.
    pub fn close(&self) {
        self.queue.state.lock().closed = true;
        self.queue.arrived.notify_all();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }

    /// Jobs done so far.
    pub fn finished(&self) -> u64 {
        self.queue.finished.load(Relaxed)
    }

    /// Jobs that wait now.
    pub fn waiting(&self) -> usize {
        self.queue.state.lock().jobs.len()
    }
}

impl Queue {
    fn push(&self, job: Job) -> Result<(), Busy> {
        let mut state = self.state.lock();
        if state.closed || state.jobs.len() >= self.limit {
            return Err(Busy);
        }
        state.jobs.push_back(job);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                tracing::error!("a disk job panicked; its request is treated as a miss");
            }
            self.finished.fetch_add(1, Relaxed);
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.arrived.wait(&mut state);
        }
    }
}

/// How often a full queue is looked at again.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(2);
/// What a reply is held up by a disk that is behind, at most...
const CATCH_UP_MAX: Duration = Duration::from_secs(2);
/// ...and by one that does nothing at all.
const STUCK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn runs_jobs_and_refuses_when_full() {
        let pool = IoPool::new(1, 2).expect("threads start");
        let (release, gate) = mpsc::channel::<()>();
        let (entered, in_job) = mpsc::channel::<()>();
        let blocked = pool.submit(move || {
            let _ = entered.send(());
            gate.recv().is_ok()
        });
        in_job.recv().expect("the first job started");
        let first = pool.submit(|| 1).expect("room for one");
        let second = pool.submit(|| 2).expect("room for two");
        assert!(pool.submit(|| 3).is_err(), "a third waiting job is refused");
        release.send(()).expect("the job waits");
        assert_eq!(blocked.expect("queued").await, Ok(true));
        assert_eq!((first.await, second.await), (Ok(1), Ok(2)));
        pool.close();
        assert!(pool.submit(|| 4).is_err(), "a closed pool refuses");
    }

    #[tokio::test(start_paused = true)]
    async fn who_fills_the_queue_waits_for_a_slow_disk_and_not_for_one_that_hangs() {
        let pool = IoPool::new(1, 4).expect("threads start");
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let jobs: Vec<_> = (0..4)
            .map(|_| {
                let gate = Arc::clone(&gate);
                pool.submit(move || gate.lock().recv().is_ok()).expect("room")
            })
            .collect();
        let began = tokio::time::Instant::now();
        pool.catch_up().await;
        let hung = began.elapsed();
        assert!((STUCK..CATCH_UP_MAX).contains(&hung), "{hung:?}");
        (0..4).for_each(|_| release.send(()).expect("jobs wait"));
        for job in jobs {
            assert_eq!(job.await, Ok(true));
        }
        let began = tokio::time::Instant::now();
        pool.catch_up().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "an empty queue holds nobody up");
        pool.close();
    }

    #[tokio::test]
    async fn a_panicking_job_is_a_refusal_and_the_pool_lives() {
        let pool = IoPool::new(1, 4).expect("threads start");
        assert_eq!(pool.run(|| -> u8 { panic!("expected in this test") }).await, Err(Busy));
        assert_eq!(pool.run(|| 7).await, Ok(7));
        pool.close();
    }
}
