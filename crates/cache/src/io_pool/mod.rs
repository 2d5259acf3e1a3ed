//! The bounded pool for all jobs that may wait for the disk.
//!
//! Event loops never block: they submit a job and await its result. The queue is bounded. A full
//! queue refuses the job at once, and the caller treats an insert as declined. Reads wait before
//! the queue (`hybrid_cache::DiskQueue`).
//!
//! Most jobs without a waiting caller write objects. The store first takes these objects into a
//! queue of its own. Waking a thread for each job would cost more than the job. Such a job begins
//! within 10 ms, together with others that arrived meanwhile. Changes begin in their order of
//! arrival. Reads go before them, in the order of their places on the disk, but at most 16 reads go
//! before a change that is due. Reads ahead of any client (`ahead`) go last.

mod ahead;
mod elevator;
mod kind;

use ahead::AheadReads;
use elevator::Elevator;
use kind::JobQueueKind;
pub use kind::{JobKind, Urgency};
use parking_lot::{Condvar, Mutex, MutexGuard};
use shoal_telemetry::by_site::{BUCKETS, TimeBuckets};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A bounded queue, and threads up to a fixed number. The pool starts with one thread. A job that
/// finds no idle thread starts another.
pub struct IoPool {
    queue: Arc<JobQueue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Failure to submit: the pool's queue is full, or the pool is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

type Job = Box<dyn FnOnce() + Send>;

struct JobQueue {
    state: Mutex<PoolState>,
    arrived: Condvar,
    /// Wakes the thread that waits until changes are due.
    timer: Condvar,
    limit: usize,
    /// Most threads.
    threads_max: usize,
    /// Number of jobs done.
    finished: AtomicU64,
    /// Number of changing jobs not yet done.
    changing: AtomicUsize,
    /// Times that jobs waited for a thread, if somebody waited for them.
    waits: TimeBuckets,
}

struct PoolState {
    reads: Elevator<Job>,
    ahead: AheadReads<Job>,
    changes: VecDeque<Job>,
    /// Reads begun since the last change, while changes waited.
    passed_by: u32,
    /// Latest time to begin the changes, while no thread has been woken for them.
    due: Option<Instant>,
    /// `true` while a thread waits for `due`.
    is_timed: bool,
    /// Number of threads that wait for a job and have not been woken.
    idle: usize,
    /// Number of threads.
    started: usize,
    closed: bool,
}

impl PoolState {
    fn new() -> Self {
        let (reads, ahead, changes) = (Elevator::new(), AheadReads::new(), VecDeque::new());
        Self {
            reads,
            ahead,
            changes,
            passed_by: 0,
            due: None,
            is_timed: false,
            idle: 0,
            started: 0,
            closed: false,
        }
    }

    /// Returns the number of waiting jobs. Reads ahead hold up no job, and are not counted.
    fn waiting(&self) -> usize {
        self.reads.len() + self.changes.len()
    }

    /// Returns the next job to begin now, and its queue.
    fn take(&mut self) -> Option<(Job, JobQueueKind)> {
        let is_due = self.closed || self.due.is_none_or(|due| Instant::now() >= due);
        let changes_wait = is_due && !self.changes.is_empty();
        let is_their_turn = changes_wait && self.passed_by >= PASSED_BY_MAX;
        if let Some(job) = if is_their_turn { None } else { self.reads.pop() } {
            self.passed_by += u32::from(changes_wait);
            debug_assert!(self.passed_by <= PASSED_BY_MAX, "changes that never come to their turn");
            return Some((job, JobQueueKind::Reads));
        }
        self.passed_by = 0;
        if is_due {
            self.due = None;
            if let Some(job) = self.changes.pop_front() {
                return Some((job, JobQueueKind::Changes));
            }
        }
        self.ahead.pop().map(|job| (job, JobQueueKind::Ahead))
    }
}

impl IoPool {
    /// Starts a pool of at most `threads` threads, in which at most `limit` jobs wait.
    pub fn new(threads: usize, limit: usize) -> std::io::Result<Self> {
        let queue = Arc::new(JobQueue {
            state: Mutex::new(PoolState::new()),
            arrived: Condvar::new(),
            timer: Condvar::new(),
            limit: limit.max(1),
            threads_max: threads.max(1),
            finished: AtomicU64::new(0),
            changing: AtomicUsize::new(0),
            waits: TimeBuckets::default(),
        });
        let pool = Self { threads: Mutex::default(), queue };
        pool.queue.state.lock().started = 1;
        pool.start_thread()?;
        Ok(pool)
    }

    fn start_thread(&self) -> std::io::Result<()> {
        let mut threads = self.threads.lock();
        let queue = Arc::clone(&self.queue);
        let name = format!("shoal-io-{}", threads.len());
        threads.push(std::thread::Builder::new().name(name).spawn(move || queue.work())?);
        debug_assert!(threads.len() <= self.queue.threads_max);
        Ok(())
    }

    /// Queues `job` at once. The result comes through the channel. The channel closes without a
    /// result if the job panicked or the pool was dropped.
    pub fn submit<T: Send + 'static>(
        &self,
        kind: JobKind,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<T>, QueueFull> {
        let (answer, answered) = oneshot::channel();
        // Jobs that nobody waits for are delayed on purpose.
        let is_awaited = !matches!(kind, JobKind::ChangeSoon | JobKind::ReadAhead);
        let queued = is_awaited.then(|| (Arc::clone(&self.queue), Instant::now()));
        let job = Box::new(move || {
            if let Some((queue, at)) = queued {
                queue.waits.observe(at.elapsed());
            }
            let _ = answer.send(job());
        });
        if self.queue.push(kind, job)? && self.start_thread().is_err() {
            // The threads that run do the job.
            self.queue.state.lock().started -= 1;
        }
        Ok(answered)
    }

    /// Waits until the queue is at most half full, so that the caller does not outrun the disk.
    /// Returns after 2 s (`CATCH_UP_MAX`), or if no job finishes for 100 ms (`STUCK`). A disk that
    /// hangs therefore delays no caller.
    pub async fn wait_for_capacity(&self) {
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

    /// Finishes queued jobs and ends the threads.
    pub fn close(&self) {
        {
            let mut state = self.queue.state.lock();
            (state.closed, state.idle) = (true, 0);
        }
        self.queue.arrived.notify_all();
        self.queue.timer.notify_all();
        // The lock is released: a caller that starts a thread must not wait for a disk.
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// Returns the number of jobs done.
    pub fn finished(&self) -> u64 {
        self.queue.finished.load(Relaxed)
    }

    /// Returns `true` while changing jobs wait or run. These jobs could undo a change made
    /// elsewhere now.
    pub fn is_changing(&self) -> bool {
        self.queue.changing.load(Acquire) > 0
    }

    /// Returns the times that jobs waited for a thread, by bucket.
    pub fn waits(&self) -> [u64; BUCKETS] {
        self.queue.waits.values()
    }

    /// Returns the maximum number of waiting jobs.
    pub fn limit(&self) -> usize {
        self.queue.limit
    }

    /// Returns the number of jobs that wait now.
    pub fn waiting(&self) -> usize {
        self.queue.state.lock().waiting()
    }
}

impl JobQueue {
    /// Queues a job. Returns `true` if the caller is to start another thread.
    fn push(&self, kind: JobKind, job: Job) -> Result<bool, QueueFull> {
        let mut state = self.state.lock();
        if state.closed || state.waiting() >= self.limit {
            return Err(QueueFull);
        }
        debug_assert!(state.waiting() < self.limit);
        if !matches!(kind, JobKind::Read { .. } | JobKind::ReadAhead) {
            self.changing.fetch_add(1, Relaxed);
        }
        let wakes = match kind {
            JobKind::Read { at } => {
                state.reads.push(at, job);
                true
            }
            JobKind::ReadAhead => {
                state.ahead.push(job)?;
                true
            }
            JobKind::Change | JobKind::Completion => {
                state.changes.push_back(job);
                state.due = None;
                true
            }
            JobKind::ChangeSoon => {
                state.changes.push_back(job);
                self.delay(&mut state)
            }
        };
        Ok(wakes && self.wake(state))
    }

    /// Wakes an idle thread, or the timed thread if no other is idle. Returns `true` if there is
    /// neither, and another thread may be started; it is counted already.
    fn wake(&self, mut state: MutexGuard<'_, PoolState>) -> bool {
        if state.idle > 0 {
            state.idle -= 1;
            drop(state);
            self.arrived.notify_one();
            return false;
        }
        let starts = state.started < self.threads_max;
        state.started += usize::from(starts);
        if state.is_timed {
            drop(state);
            self.timer.notify_one();
        }
        starts
    }

    /// Schedules a change without a waiting caller. Returns `true` if a thread must be woken: for
    /// the first change, to begin in time, and for each if there are many.
    fn delay(&self, state: &mut PoolState) -> bool {
        if state.changes.len() > TOGETHER_MAX.min(self.limit / 4) {
            state.due = None;
            return true;
        }
        if state.changes.len() == 1 {
            state.due = Some(Instant::now() + SOON);
        }
        state.due.is_none() || !state.is_timed
    }

    fn work(&self) {
        while let Some((job, queue)) = self.next() {
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                tracing::error!("a disk job panicked; its request is treated as a miss");
            }
            match queue {
                JobQueueKind::Changes => {
                    let changing = self.changing.fetch_sub(1, Release);
                    debug_assert!(changing > 0, "a change that was not counted");
                }
                JobQueueKind::Ahead => self.state.lock().ahead.ended(),
                JobQueueKind::Reads => {}
            }
            self.finished.fetch_add(1, Relaxed);
        }
    }

    fn next(&self) -> Option<(Job, JobQueueKind)> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.take() {
                return Some(job);
            }
            match state.due {
                _ if state.closed => return None,
                Some(due) if !state.is_timed => {
                    debug_assert!(!state.changes.is_empty(), "an instant at which nothing is due");
                    state.is_timed = true;
                    self.timer.wait_until(&mut state, due);
                    state.is_timed = false;
                }
                // The thread that wakes this one decrements `idle`.
                _ => {
                    state.idle += 1;
                    self.arrived.wait(&mut state);
                }
            }
        }
    }
}

/// Reads begun before a change that waits. Without a limit, a disk with constant reads would never
/// begin a change.
const PASSED_BY_MAX: u32 = 16;
/// Longest delay of a job without a waiting caller, if no other job runs it earlier.
const SOON: Duration = Duration::from_millis(10);
/// Number of delayed changes beyond which they begin at once.
const TOGETHER_MAX: usize = 64;
/// Interval between checks of a full queue.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(2);
/// Longest delay of a reply by a slow disk.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);
/// Longest delay of a reply by a disk that finishes no job.
const STUCK: Duration = Duration::from_millis(100);

const _: () = {
    assert!(PASSED_BY_MAX > 0 && TOGETHER_MAX > 0);
    assert!(CATCH_UP_PAUSE.as_millis() < STUCK.as_millis());
    assert!(STUCK.as_millis() < CATCH_UP_MAX.as_millis());
};

#[cfg(test)]
mod tests;
