//! The disks as those see them who wait for one: a pool for its jobs each, and whether it answers.
//!
//! A disk may hang: its calls do not return, for half a minute or for ever. A client waits for one a few seconds and goes to the
//! origin. When no job at all was finished in that time, the disk is taken to hang: until a job gets finished nobody waits for it
//! again, which is said once, as is the end of it. The others go on as before.

use crate::io_pool::{Busy, IoPool, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::timeout;
use tracing::{error, info};

/// A disk's pool, and whether the disk answers.
pub struct Lane {
    number: usize,
    pool: Arc<IoPool>,
    /// How many jobs had been finished when it was found to hang.
    hangs_since: AtomicU64,
}

/// A job that has not been done, or not in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The queue was full, or the disk is known to hang.
    Refused,
    /// It took too long. It may still be done later.
    Slow,
}

impl From<Busy> for NoAnswer {
    fn from(_: Busy) -> Self {
        Self::Refused
    }
}

impl Lane {
    pub(super) fn new(number: usize, pool: Arc<IoPool>) -> Self {
        Self { number, pool, hangs_since: AtomicU64::new(ANSWERS) }
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
        kind: Kind,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        if self.hangs() {
            return Err(NoAnswer::Refused);
        }
        let mut finished = self.pool.finished();
        let mut answer = self.pool.submit(kind, job)?;
        loop {
            if let Ok(answer) = timeout(PATIENCE, &mut answer).await {
                return answer.map_err(|_| NoAnswer::Refused);
            }
            let now = self.pool.finished();
            if now == finished {
                self.note_hanging(now);
                return Err(NoAnswer::Slow);
            }
            if matches!(kind, Kind::Read { .. } | Kind::Change) {
                return Err(NoAnswer::Slow);
            }
            finished = now;
        }
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
/// How long a client waits for a disk before the origin is asked instead.
pub(super) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 1000 } else { 3000 });
