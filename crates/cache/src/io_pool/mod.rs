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
//! before a change that is due. Reads ahead of any client ([`ahead`]) go last.

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

/// A fixed number of threads behind a bounded queue.
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
    closed: bool,
}

impl PoolState {
    fn new() -> Self {
        let (reads, ahead, changes) = (Elevator::new(), AheadReads::new(), VecDeque::new());
        Self { reads, ahead, changes, passed_by: 0, due: None, is_timed: false, idle: 0, closed: false }
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
    /// Starts `threads` threads; at most `limit` jobs wait.
    pub fn new(threads: usize, limit: usize) -> std::io::Result<Self> {
        let queue = Arc::new(JobQueue {
            state: Mutex::new(PoolState::new()),
            arrived: Condvar::new(),
            timer: Condvar::new(),
            limit: limit.max(1),
            finished: AtomicU64::new(0),
            changing: AtomicUsize::new(0),
            waits: TimeBuckets::default(),
        });
        let started = (0..threads.max(1)).map(|number| {
            let queue = Arc::clone(&queue);
            std::thread::Builder::new().name(format!("shoal-io-{number}")).spawn(move || queue.work())
        });
        Ok(Self { threads: Mutex::new(started.collect::<Result<_, _>>()?), queue })
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
        self.queue.push(kind, job)?;
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
        for thread in self.threads.lock().drain(..) {
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
    fn push(&self, kind: JobKind, job: Job) -> Result<(), QueueFull> {
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
        if wakes {
            self.wake(state);
        }
        Ok(())
    }

    /// Wakes an idle thread, or the timed thread if no other is idle.
    fn wake(&self, mut state: MutexGuard<'_, PoolState>) {
        if state.idle > 0 {
            state.idle -= 1;
            drop(state);
            self.arrived.notify_one();
        } else if state.is_timed {
            drop(state);
            self.timer.notify_one();
        }
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
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn runs_jobs_and_refuses_when_full() {
        let pool = IoPool::new(1, 2).expect("threads start");
        let (release, gate) = mpsc::channel::<()>();
        let (entered, in_job) = mpsc::channel::<()>();
        let blocked = pool.submit(JobKind::READ, move || {
            let _ = entered.send(());
            gate.recv().is_ok()
        });
        in_job.recv().expect("the first job started");
        let first = pool.submit(JobKind::READ, || 1).expect("room for one");
        let second = pool.submit(JobKind::READ, || 2).expect("room for two");
        assert!(pool.submit(JobKind::READ, || 3).is_err(), "a third waiting job is refused");
        release.send(()).expect("the job waits");
        assert_eq!(blocked.expect("queued").await, Ok(true));
        assert_eq!((first.await, second.await), (Ok(1), Ok(2)));
        pool.close();
        assert!(pool.submit(JobKind::READ, || 4).is_err(), "a closed pool refuses");
    }

    #[tokio::test(start_paused = true)]
    async fn capacity_wait_ends_if_disk_hangs() {
        let pool = IoPool::new(1, 4).expect("threads start");
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let jobs: Vec<_> = (0..4)
            .map(|_| {
                let gate = Arc::clone(&gate);
                pool.submit(JobKind::READ, move || gate.lock().recv().is_ok()).expect("room")
            })
            .collect();
        let began = tokio::time::Instant::now();
        pool.wait_for_capacity().await;
        let hung = began.elapsed();
        assert!((STUCK..CATCH_UP_MAX).contains(&hung), "{hung:?}");
        (0..4).for_each(|_| release.send(()).expect("jobs wait"));
        for job in jobs {
            assert_eq!(job.await, Ok(true));
        }
        let began = tokio::time::Instant::now();
        pool.wait_for_capacity().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "an empty queue holds nobody up");
        pool.close();
    }

    #[tokio::test]
    async fn a_panicking_job_is_a_refusal_and_the_pool_lives() {
        let pool = IoPool::new(1, 4).expect("threads start");
        let panicking = pool.submit(JobKind::READ, || -> u8 { panic!("expected in this test") });
        assert!(panicking.expect("queued").await.is_err());
        assert_eq!(pool.submit(JobKind::READ, || 7).expect("queued").await, Ok(7));
        pool.close();
    }

    #[tokio::test]
    async fn waiting_reads_begin_in_disk_order() {
        let pool = IoPool::new(1, 100).expect("threads start");
        let (release, gate) = mpsc::channel::<()>();
        let blocked = pool.submit(JobKind::READ, move || gate.recv().is_ok()).expect("room");
        let order = Arc::new(Mutex::new(Vec::new()));
        let reads: Vec<_> = [70, 20, 90, 20, 40]
            .into_iter()
            .map(|at| {
                let order = Arc::clone(&order);
                pool.submit(JobKind::Read { at: Some(at) }, move || order.lock().push(at)).expect("room")
            })
            .collect();
        release.send(()).expect("the job waits");
        assert_eq!(blocked.await, Ok(true));
        for read in reads {
            read.await.expect("it is done");
        }
        assert_eq!(*order.lock(), [20, 20, 40, 70, 90]);
        pool.close();
    }

    #[tokio::test]
    async fn reads_go_before_changes_but_not_for_ever() {
        let pool = IoPool::new(1, 1000).expect("threads start");
        let (release, gate) = mpsc::channel::<()>();
        let blocked = pool.submit(JobKind::READ, move || gate.recv().is_ok()).expect("room");
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().push(what)
        };
        let changes = [(); 3].map(|()| pool.submit(JobKind::Change, note("change")).expect("room"));
        let reads: Vec<_> =
            (0..200).map(|_| pool.submit(JobKind::READ, note("read")).expect("room")).collect();
        release.send(()).expect("the job waits");
        assert_eq!(blocked.await, Ok(true));
        for job in changes.into_iter().chain(reads) {
            job.await.expect("it is done");
        }
        let order = order.lock();
        let changes: Vec<_> = (0..203).filter(|at| order[*at] == "change").collect();
        assert!(changes[0] >= 10, "reads come first: {changes:?}");
        assert!(changes[2] <= 60, "others wait for some of them only: {changes:?}");
        pool.close();
    }

    #[tokio::test]
    async fn unawaited_changes_begin_soon_and_in_order() {
        let pool = IoPool::new(4, 1000).expect("threads start");
        let begun = Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |number: u32| {
            let order = Arc::clone(&order);
            move || order.lock().push(number)
        };
        let jobs: Vec<_> =
            (0..10).map(|number| pool.submit(JobKind::ChangeSoon, note(number)).expect("room")).collect();
        pool.submit(JobKind::READ, || ()).expect("room").await.expect("it is done");
        assert!(begun.elapsed() > SOON || order.lock().is_empty(), "a read does not wait for them");
        for job in jobs {
            job.await.expect("it is done");
        }
        assert!(begun.elapsed() >= SOON, "they were begun together");
        until_settled(&pool).await;
        assert_eq!(order.lock().len(), 10);
        let soon = pool.submit(JobKind::ChangeSoon, note(10)).expect("room");
        assert!(pool.is_changing(), "one has not been done");
        let now = pool.submit(JobKind::Change, note(11)).expect("room");
        assert!(soon.await.is_ok() && now.await.is_ok());
        assert_eq!(order.lock().iter().filter(|number| **number >= 10).count(), 2);
        pool.close();
    }

    /// Waits until all changes have been done.
    async fn until_settled(pool: &IoPool) {
        let begun = Instant::now();
        while pool.is_changing() {
            assert!(begun.elapsed() < Duration::from_secs(10), "they are never done");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn close_finishes_many_unawaited_changes() {
        let pool = IoPool::new(2, 1000).expect("threads start");
        let done = Arc::new(AtomicU64::new(0));
        for _ in 0..900 {
            let done = Arc::clone(&done);
            pool.submit(JobKind::ChangeSoon, move || done.fetch_add(1, Relaxed)).expect("room");
        }
        pool.close();
        assert_eq!(done.load(Relaxed), 900);
    }
}
