//! The disks as those see them who wait for one: a pool for its jobs each, and whether it answers.
//!
//! A disk may hang: its calls do not return, for half a minute or for ever. A client waits for one
//! a few seconds and goes to the origin. When no job at all was finished in that time, the disk is
//! taken to hang: until a job gets finished nobody waits for it any more, which is said once, as is
//! the end of it. The others go on as before.
//!
//! That time counts from the last job that was finished, whosever that was. Otherwise a client who
//! began to wait just before would wait twice: for what it wanted to read, and for what it fetched
//! instead to be stored.
//!
//! A disk may also be slow, or the machine busy, and the queue longer than a client waits. Then
//! some of those who wait go to the origin, as long as nobody waits for a connection to one: of a
//! thousand that went at once most would be refused there. The others wait on, for ten times as
//! long at most.
//!
//! Three quarters of a pool's queue are for reads. Those that find no place there wait for one, and
//! that counts as waiting for the disk: who was sent to the origin at once would make more work for
//! the same node, with thousands of clients more than the origin takes. A read keeps its place
//! until who waits for it has taken what was read: so however busy the workers are, what lies
//! between disk and clients is bounded.

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

/// A disk's pool, and whether the disk answers.
pub struct DiskQueue {
    number: usize,
    pool: Arc<IoPool>,
    /// Places in the pool's queue for reads.
    places: Arc<Semaphore>,
    /// How many jobs had been finished when it was found to hang.
    hangs_since: AtomicU64,
    progress: Arc<Mutex<Progress>>,
    leaving: Mutex<Leaving>,
    metrics: Arc<Metrics>,
}

/// Those who go to the origin, since a disk that answers has not answered them for long.
struct Leaving {
    /// How many went since then.
    count: u32,
    since: Instant,
}

/// What those who wait have seen of a disk.
struct Progress {
    /// Jobs that somebody waits for, or has waited for.
    unfinished: usize,
    /// Jobs that had been finished when somebody looked last.
    finished: u64,
    /// Since when it has been so many, with others unfinished.
    since: Instant,
}

/// Goes with a job, and ends with it.
struct UnfinishedJob(Arc<Mutex<Progress>>);

impl Drop for UnfinishedJob {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        debug_assert!(progress.unfinished > 0, "a job that was not counted");
        progress.unfinished -= 1;
    }
}

/// A job that has not been done, or not in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskJobError {
    /// The queue was full, or the disk is known to hang.
    Refused,
    /// It took too long. It may still be done later.
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
        let leaving = Mutex::new(Leaving { count: 0, since: Instant::now() });
        let (hangs_since, metrics) = (AtomicU64::new(ANSWERS), Arc::clone(metrics));
        Self { number, pool, places, hangs_since, progress, leaving, metrics }
    }

    /// The pool, for jobs that must be done however long that takes.
    pub fn pool(&self) -> &Arc<IoPool> {
        &self.pool
    }

    /// Whether the disk was found to hang, and has done nothing since.
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

    /// Does a job, unless the disk hangs.
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
                JobKind::Completion | JobKind::ChangeSoon => false,
            };
            if is_over {
                return Err(DiskJobError::Slow);
            }
        }
    }

    /// Has the job done, once there is a place for it.
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
        // What was read keeps its place until it is taken: a disk may be quicker than who sends
        // what it reads.
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

    /// How many jobs have been finished, if that has not changed for as long as a client waits.
    fn stuck_at(&self) -> Option<u64> {
        let finished = self.pool.finished();
        let mut progress = self.progress.lock();
        if progress.finished != finished {
            (progress.finished, progress.since) = (finished, Instant::now());
        }
        (progress.since.elapsed() >= PATIENCE).then_some(finished)
    }

    /// Whether one more may go to the origin now.
    fn may_leave(&self) -> bool {
        if self.metrics.upstream_waiting.value() > 0 {
            return false;
        }
        let (mut leaving, now) = (self.leaving.lock(), Instant::now());
        if leaving.since + GLANCE <= now {
            *leaving = Leaving { count: 0, since: now };
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

/// No job has been waited for in vain since the last one was finished.
const ANSWERS: u64 = u64::MAX;
/// How often somebody who waits looks whether anything gets done.
const GLANCE: Duration = Duration::from_millis(PATIENCE.as_millis() as u64 / 12);
/// How long a client waits for a disk before the origin is asked instead.
pub(super) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 1000 } else { 3000 });

/// How long a client waits for a disk that answers others, at most.
const QUEUE_PATIENCE: Duration = PATIENCE.saturating_mul(10);
/// How many of those who wait for such a disk go to the origin in a [`GLANCE`].
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

    /// A disk that does a job in a tenth of a second, and has more of them than a client waits for.
    #[tokio::test]
    async fn who_waits_for_a_slow_disk_goes_to_the_origin_if_there_is_room() {
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

    /// Polls a read once. True when it waits.
    async fn begun(mut read: std::pin::Pin<&mut impl Future>) -> bool {
        std::future::poll_fn(|context| std::task::Poll::Ready(read.as_mut().poll(context).is_pending())).await
    }

    /// On a machine with other work the disk reads more than the workers take.
    #[tokio::test]
    async fn what_nobody_has_taken_keeps_its_place() {
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

    #[tokio::test]
    async fn who_waits_for_a_place_waits_no_longer_than_others() {
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
    async fn who_waited_when_the_disk_stopped_does_not_wait_again_as_long() {
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
