//! The one thread that codes bodies. It has the lowest priority, and rests as long as it works: on
//! a busy machine the workers have the cores.

use super::encode::encode;
use bytes::Bytes;
use shoal_semantics::Coding;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The thread, once a body is to be coded; `None` if it could not be started.
#[derive(Default)]
pub(super) struct CodingThread(OnceLock<Option<SyncSender<Job>>>);

/// Reason for which there is no coded form.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unmade {
    /// The body becomes no smaller.
    NotSmaller,
    /// There is too much to do, or the body is not at hand.
    Refused,
}

struct Job {
    coding: Coding,
    body: Bytes,
    done: oneshot::Sender<Option<Vec<u8>>>,
}

impl CodingThread {
    /// Codes a body.
    pub async fn encode(&self, coding: Coding, body: Bytes) -> Result<Vec<u8>, Unmade> {
        let (done, coded) = oneshot::channel();
        let jobs = self.0.get_or_init(start).as_ref().ok_or(Unmade::Refused)?;
        jobs.try_send(Job { coding, body, done }).map_err(|_| Unmade::Refused)?;
        coded.await.map_err(|_| Unmade::Refused)?.ok_or(Unmade::NotSmaller)
    }
}

fn start() -> Option<SyncSender<Job>> {
    let (sender, jobs) = sync_channel(JOBS_MAX);
    let thread = thread::Builder::new().name("shoal-coding".into()).spawn(move || work(&jobs));
    match thread {
        Ok(_) => Some(sender),
        Err(error) => {
            tracing::warn!(%error, "no thread to compress text");
            None
        }
    }
}

fn work(jobs: &Receiver<Job>) {
    // Linux has a priority for each thread. Without the lowest, it works at that of the others.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOWEST_PRIORITY);
    for Job { coding, body, done } in jobs {
        let begun = Instant::now();
        let coded = catch_unwind(AssertUnwindSafe(|| encode(coding, &body))).unwrap_or(None);
        drop(body);
        // Nobody may wait any more.
        let _ = done.send(coded);
        thread::sleep(begun.elapsed().min(REST_MAX));
    }
}

/// Most bodies that wait for the thread.
pub(super) const JOBS_MAX: usize = 16;
const LOWEST_PRIORITY: i32 = 19;
const REST_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_are_coded_in_turn() {
        let thread = CodingThread::default();
        let text = Bytes::from("text ".repeat(1000));
        for coding in Coding::ALL {
            let coded = thread.encode(coding, text.clone()).await.expect("text");
            assert!(coded.len() < text.len() / 10, "{coding:?}");
        }
        assert_eq!(thread.encode(Coding::Gzip, Bytes::from("a")).await, Err(Unmade::NotSmaller));
    }
}
