//! One queue per disk for waiting clients: a pool for the disk's jobs, and a record of its answers.
//!
//! A disk may hang: its calls do not return, for half a minute or for ever. A client waits a few
//! seconds for a disk and then goes to the origin. If no job finished in this time, the disk counts
//! as hanging. No client then waits for the disk until a job finishes. The log shows the start and
//! the end of this state once. The other disks continue as before.
//!
//! The time counts from the last finished job of any client. Otherwise a client that began to wait
//! just before would wait twice: for its read, and for storing the response fetched instead.
//!
//! A disk may also be slow, or the machine busy, and the queue longer than a client's patience.
//! Some waiting clients then go to the origin, as long as no request waits for an origin
//! connection. Of a thousand that went at once, the origin would refuse most. The others wait on,
//! at most ten times as long.
//!
//! Three quarters of a pool's queue are for reads. A read that finds no place waits for one, which
//! counts as waiting for the disk. Sending it to the origin at once would make more work for the
//! node. With thousands of clients, the origin could not take the requests. A read keeps its place
//! until its client has taken the bytes. The bytes between disk and clients are therefore bounded,
//! even with busy workers.
//!
//! A read ahead of clients takes no place of theirs, and waits for as long as they keep the disk
//! busy. It ends early if the disk hangs.

use crate::io_pool::{IoPool, JobKind, QueueFull};
use crate::metrics::Metrics;
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::{error, info};

/// A disk's pool, and the record of its answers.
pub struct DiskQueue {
    number: usize,
    pool: Arc<IoPool>,
    /// Places in the pool's queue for reads.
    places: Arc<Semaphore>,
    /// Number of finished jobs when the disk was found to hang.
    hangs_since: AtomicU64,
    progress: Arc<Mutex<Progress>>,
    leaving: Mutex<LeaveCount>,
    metrics: Arc<Metrics>,
}

/// Count of clients that left a slow disk for the origin, in one interval.
struct LeaveCount {
    /// Clients that left since `since`.
    count: u32,
    since: Instant,
}

/// Progress of a disk as seen by waiting clients.
struct Progress {
    /// Unfinished jobs of waiting or former clients.
    unfinished: usize,
    /// Number of finished jobs at the last check.
    finished: u64,
    /// Time since which `finished` has been constant, with jobs unfinished.
    since: Instant,
}

/// Guard that belongs to a job and ends with it.
struct UnfinishedJob(Arc<Mutex<Progress>>);

impl Drop for UnfinishedJob {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        debug_assert!(progress.unfinished > 0, "a job that was not counted");
        progress.unfinished -= 1;
    }
}

/// A job that was not done, or not in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskJobError {
    /// The queue was full, or the disk is known to hang.
    Refused,
    /// The job took too long, and may still be done later.
    Slow,
}

impl From<QueueFull> for DiskJobError {
    fn from(_: QueueFull) -> Self {
        Self::Refused
    }
}

impl DiskQueue {
    pub(super) fn new(number: usize, pool: Arc<IoPool>, metrics: &Arc<Metrics>) -> Self {
        let progress = Progress { unfinished: 0, finished: 0, since: Instant::now() };
        let progress = Arc::new(Mutex::new(progress));
        let places = Arc::new(Semaphore::new(pool.limit() - pool.limit() / 4));
        let leaving = Mutex::new(LeaveCount { count: 0, since: Instant::now() });
        let (hangs_since, metrics) = (AtomicU64::new(ANSWERS), Arc::clone(metrics));
        Self { number, pool, places, hangs_since, progress, leaving, metrics }
    }

    /// Returns the pool, for jobs that must be done in any time.
    pub fn pool(&self) -> &Arc<IoPool> {
        &self.pool
    }

    /// Returns `true` if the disk was found to hang, and has finished no job since.
    pub(super) fn hangs(&self) -> bool {
        let since = self.hangs_since.load(Relaxed);
        if since == ANSWERS {
            return false;
        }
        if self.pool.finished() == since {
            return true;
        }
        if self.hangs_since.swap(ANSWERS, Relaxed) != ANSWERS {
            info!(disk = self.number, "the disk answers again");
        }
        false
    }

    /// Runs a job, unless the disk hangs.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        kind: JobKind,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskJobError> {
        if self.hangs() {
            return Err(DiskJobError::Refused);
        }
        let mut doing = pin!(self.submit(kind, job));
        let mut waited = Duration::ZERO;
        loop {
            if let Ok(outcome) = timeout(GLANCE, doing.as_mut()).await {
                return outcome;
            }
            waited += GLANCE;
            if let Some(finished) = self.stuck_at() {
                self.note_hanging(finished);
                return Err(DiskJobError::Slow);
            }
            let is_over = match kind {
                JobKind::Read { .. } => waited >= QUEUE_PATIENCE || waited >= PATIENCE && self.may_leave(),
                JobKind::Change => waited >= PATIENCE,
                JobKind::Completion | JobKind::ChangeSoon | JobKind::ReadAhead => false,
            };
            if is_over {
                return Err(DiskJobError::Slow);
            }
        }
    }

    /// Submits the job once there is a place for it.
    async fn submit<T: Send + 'static>(
        &self,
        kind: JobKind,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskJobError> {
        let unfinished = self.begin();
        let place = match kind {
            JobKind::Read { .. } => Arc::clone(&self.places).acquire_owned().await.ok(),
            _ => None,
        };
        // A read keeps its place until its result is taken: a disk may be faster than the clients.
        let job = move || {
            let _unfinished = unfinished;
            (job(), place)
        };
        let (outcome, place) = self.pool.submit(kind, job)?.await.map_err(|_| DiskJobError::Refused)?;
        debug_assert_eq!(place.is_some(), matches!(kind, JobKind::Read { .. }), "reads have places");
        drop(place);
        Ok(outcome)
    }

    fn begin(&self) -> UnfinishedJob {
        let mut progress = self.progress.lock();
        if progress.unfinished == 0 {
            (progress.finished, progress.since) = (self.pool.finished(), Instant::now());
        }
        progress.unfinished += 1;
        debug_assert!(progress.finished <= self.pool.finished(), "finished jobs never fall");
        UnfinishedJob(Arc::clone(&self.progress))
    }

    /// Returns the number of finished jobs if it has not changed for a client's patience.
    fn stuck_at(&self) -> Option<u64> {
        let finished = self.pool.finished();
        let mut progress = self.progress.lock();
        if progress.finished != finished {
            (progress.finished, progress.since) = (finished, Instant::now());
        }
        (progress.since.elapsed() >= PATIENCE).then_some(finished)
    }

    /// Returns `true` if one more client may go to the origin now.
    fn may_leave(&self) -> bool {
        if self.metrics.upstream_waiting.value() > 0 {
            return false;
        }
        let (mut leaving, now) = (self.leaving.lock(), Instant::now());
        if leaving.since + GLANCE <= now {
            *leaving = LeaveCount { count: 0, since: now };
        }
        leaving.count += 1;
        leaving.count <= LEAVING_MAX
    }

    fn note_hanging(&self, finished: u64) {
        if self.hangs_since.swap(finished, Relaxed) == ANSWERS {
            error!(
                disk = self.number,
                "the disk has not answered for {} s; until it does, it is done without",
                PATIENCE.as_secs()
            );
        }
    }
}

/// Marks a disk that answers: no client has waited in vain since the last finished job.
const ANSWERS: u64 = u64::MAX;
/// Interval at which a waiting client checks for progress.
const GLANCE: Duration = Duration::from_millis(PATIENCE.as_millis() as u64 / 12);
/// Longest wait of a client for a disk before the origin is asked instead.
pub(super) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 1000 } else { 3000 });

/// Longest wait of a client for a disk that answers others.
const QUEUE_PATIENCE: Duration = PATIENCE.saturating_mul(10);
/// Maximum clients that leave such a disk for the origin in one [`GLANCE`].
const LEAVING_MAX: u32 = 64;

const _: () = {
    assert!(GLANCE.as_millis() < PATIENCE.as_millis());
    assert!(PATIENCE.as_millis() <= QUEUE_PATIENCE.as_millis());
    assert!(LEAVING_MAX > 0);
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn lane(threads: usize, limit: usize) -> Arc<DiskQueue> {
        let pool = Arc::new(IoPool::new(threads, limit).expect("threads start"));
        Arc::new(DiskQueue::new(0, pool, &Arc::default()))
    }

    /// A disk that needs a tenth of the patience per job, with more jobs than a client waits for.
    #[tokio::test]
    async fn slow_disk_read_leaves_if_origin_has_room() {
        for is_origin_crowded in [false, true] {
            let lane = lane(1, 100);
            if is_origin_crowded {
                lane.metrics.upstream_waiting.increment();
            }
            let read = |_| {
                let lane = Arc::clone(&lane);
                let job = || std::thread::sleep(PATIENCE / 10);
                tokio::spawn(async move { lane.run(JobKind::READ, job).await })
            };
            let mut left = 0;
            for read in (0..15).map(read).collect::<Vec<_>>() {
                left += usize::from(read.await.expect("no panic").is_err());
            }
            assert_eq!(left > 0, !is_origin_crowded, "{left} left");
            assert!(!lane.hangs());
            lane.pool.close();
        }
    }

    #[tokio::test]
    async fn more_reads_than_have_places_are_all_done() {
        let lane = lane(1, 4);
        let read = |number| {
            let lane = Arc::clone(&lane);
            let job = move || {
                std::thread::sleep(Duration::from_millis(1));
                number
            };
            tokio::spawn(async move { lane.run(JobKind::READ, job).await })
        };
        let reads: Vec<_> = (0..100).map(read).collect();
        for (number, read) in reads.into_iter().enumerate() {
            assert_eq!(read.await.expect("no panic"), Ok(number));
        }
        lane.pool.close();
    }

    /// Polls a read once. Returns `true` if it waits.
    async fn begun(mut read: std::pin::Pin<&mut impl Future>) -> bool {
        std::future::poll_fn(|context| std::task::Poll::Ready(read.as_mut().poll(context).is_pending())).await
    }

    /// On a machine with other work the disk reads more than the workers take.
    #[tokio::test]
    async fn untaken_read_keeps_its_place() {
        let lane = lane(2, 4);
        let (answer, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let read = |number| {
            let gate = Arc::clone(&gate);
            let job = move || gate.lock().recv().map_or(number, |()| number);
            Box::pin(lane.run(JobKind::READ, job))
        };
        let mut reads: Vec<_> = (0..10).map(read).collect();
        for read in &mut reads {
            assert!(begun(read.as_mut()).await);
        }
        drop(answer);
        let begun_at = std::time::Instant::now();
        while lane.pool.finished() < 3 {
            assert!(begun_at.elapsed() < Duration::from_secs(30), "they are read");
            std::thread::yield_now();
        }
        for read in &mut reads[3..] {
            assert!(begun(read.as_mut()).await, "no place is free");
        }
        assert_eq!((lane.pool.finished(), lane.places.available_permits()), (3, 0));
        for (number, read) in reads.into_iter().enumerate() {
            assert_eq!(read.await, Ok(number));
        }
        lane.pool.close();
    }

    /// Clients leave a disk that keeps them waiting. Nobody waits for a prefetch.
    #[tokio::test]
    async fn reads_ahead_take_no_places_of_clients() {
        let lane = lane(1, 4);
        let (answer, gate) = mpsc::channel::<()>();
        let mut blocked = Box::pin(lane.run(JobKind::READ, move || gate.recv().is_ok()));
        assert!(begun(blocked.as_mut()).await);
        let begun_at = std::time::Instant::now();
        while lane.pool.waiting() > 0 {
            assert!(begun_at.elapsed() < Duration::from_secs(30), "a thread takes it");
            std::thread::yield_now();
        }
        let mut ahead: Vec<_> =
            (0..20).map(|number| Box::pin(lane.run(JobKind::ReadAhead, move || number))).collect();
        for read in &mut ahead {
            assert!(begun(read.as_mut()).await, "the thread is at work");
        }
        assert_eq!((lane.places.available_permits(), lane.pool.waiting()), (2, 0));
        answer.send(()).expect("the job waits");
        assert_eq!(blocked.await, Ok(true));
        for (number, read) in ahead.into_iter().enumerate() {
            assert_eq!(read.await, Ok(number));
        }
        lane.pool.close();
    }

    #[tokio::test]
    async fn wait_for_place_counts_as_wait_for_disk() {
        let lane = lane(1, 4);
        let (answer, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let begun = Instant::now();
        let read = |_| {
            let (lane, gate) = (Arc::clone(&lane), Arc::clone(&gate));
            tokio::spawn(async move { lane.run(JobKind::READ, move || gate.lock().recv().is_ok()).await })
        };
        for read in (0..20).map(read).collect::<Vec<_>>() {
            assert!(read.await.expect("no panic").is_err());
        }
        assert!(begun.elapsed() < PATIENCE * 2, "{:?}", begun.elapsed());
        assert_eq!(lane.places.available_permits(), 0, "those in the queue keep their places");
        drop(answer);
        while lane.hangs() || lane.places.available_permits() < 3 {
            tokio::time::sleep(GLANCE).await;
        }
        assert_eq!(lane.run(JobKind::READ, || 2).await, Ok(2));
        lane.pool.close();
    }

    #[tokio::test]
    async fn hang_is_detected_without_second_full_wait() {
        let lane = lane(3, 10);
        let (answer, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let stuck = |gate: &Arc<Mutex<mpsc::Receiver<()>>>| {
            let gate = Arc::clone(gate);
            move || gate.lock().recv().is_ok()
        };
        let (other, job) = (Arc::clone(&lane), stuck(&gate));
        let read = tokio::spawn(async move { other.run(JobKind::READ, job).await });
        tokio::time::sleep(PATIENCE / 2).await;
        assert_eq!(lane.run(JobKind::READ, || 1).await, Ok(1), "others are answered until now");
        assert_eq!(read.await.expect("no panic"), Err(DiskJobError::Slow));
        assert!(!lane.hangs(), "something was finished meanwhile");
        let begun = Instant::now();
        assert_eq!(lane.run(JobKind::Change, stuck(&gate)).await, Err(DiskJobError::Slow));
        assert!(begun.elapsed() < PATIENCE * 3 / 4, "{:?} more", begun.elapsed());
        assert!(lane.hangs());
        drop(answer);
        while lane.hangs() {
            tokio::time::sleep(GLANCE).await;
        }
        assert_eq!(lane.run(JobKind::READ, || 2).await, Ok(2));
        lane.pool.close();
    }
}
