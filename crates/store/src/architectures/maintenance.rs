//! Background work: threads that repair, at a bounded rate, and write what is due, while the store
//! serves.

use super::files::{Core, FileStore};
use super::space::EvictionReason;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// A thread; it ends when this is dropped.
pub(super) struct Maintenance {
    bell: Arc<WakeSignal>,
    thread: Option<JoinHandle<()>>,
}

/// Ends the pauses of a thread of background work.
#[derive(Default)]
pub(super) struct WakeSignal {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Default)]
struct BellState {
    /// Somebody has rung since the last pause.
    has_rung: bool,
    /// The thread has to end.
    has_stopped: bool,
}

/// Time since a thread of background work was started.
pub(super) type Clock<'a> = &'a dyn Fn() -> Duration;

/// A store with background work.
pub(super) trait BackgroundWork: Send + Sync + 'static {
    /// Does one bounded piece of what is due.
    fn maintain(&self) -> WorkDone;
}

/// What a step of background work has done.
pub(super) enum WorkDone {
    /// Nothing was due.
    Idle,
    /// So many files were looked at or removed.
    Worked(usize),
}

impl Maintenance {
    /// Starts the thread that repairs.
    pub(super) fn start<U: BackgroundWork>(core: &Arc<U>) -> Self {
        Self::run("shoal-store", core, Arc::default(), |core, _| match core.maintain() {
            WorkDone::Idle => IDLE_PAUSE,
            WorkDone::Worked(files) => PAUSE_PER_FILE * files as u32 + LEAST_PAUSE,
        })
    }

    /// Starts a thread that works, then pauses for as long as its work says or until the bell
    /// rings, and so on.
    pub(super) fn run<U: Send + Sync + 'static>(
        name: &str,
        core: &Arc<U>,
        bell: Arc<WakeSignal>,
        work: fn(&U, Clock<'_>) -> Duration,
    ) -> Self {
        let (weak, its_bell, begin) = (Arc::downgrade(core), Arc::clone(&bell), Instant::now());
        let rounds = move || {
            while let Some(core) = weak.upgrade() {
                let pause = work(&core, &|| begin.elapsed());
                drop(core);
                if !its_bell.wait(pause) {
                    return;
                }
            }
        };
        let spawned = thread::Builder::new().name(name.into()).spawn(rounds);
        let failed = |error| warn!(%error, name, "the store runs without this thread of background work");
        Self { bell, thread: spawned.map_err(failed).ok() }
    }
}

impl WakeSignal {
    /// Ends the pause, or the next one when there is none.
    pub(super) fn ring(&self) {
        self.state.lock().has_rung = true;
        self.changed.notify_one();
    }

    /// Pauses. False when the thread has to end.
    fn wait(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.has_rung && !state.has_stopped {
            self.changed.wait_for(&mut state, pause);
        }
        state.has_rung = false;
        !state.has_stopped
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.bell.state.lock().has_stopped = true;
        self.bell.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // Before the core, so that the last reference to it is not the thread's.
        self.maintenance = None;
    }
}

impl BackgroundWork for Core {
    fn maintain(&self) -> WorkDone {
        let surveyed = self.survey_segments();
        if surveyed > 0 {
            // Entries in memory, of which a thousand cost as much as a file.
            return WorkDone::Worked(surveyed / 1024);
        }
        if let Some(step) = self.index.audit_step() {
            let looked_at = self.repair(&step);
            if self.index.finish_step(&step) {
                self.leave_held_back();
                let totals = self.index.totals();
                info!(objects = totals.objects, "the store is repaired");
            }
            return WorkDone::Worked(looked_at);
        }
        if self.index.is_damaged() {
            warn!("the store's index has damaged entries; it is repaired while it serves");
            self.index.begin_audit(self.naming.folders());
            return WorkDone::Worked(0);
        }
        match self.trim() + self.discard_lingering(TRIM_FILES) + self.fill_order() {
            0 => WorkDone::Idle,
            given_up => WorkDone::Worked(given_up),
        }
    }
}

impl Core {
    /// Comes down to a limit that has been lowered since the last session, a few objects at a time.
    fn trim(&self) -> usize {
        let mut passed = 0;
        let is_over = || self.index.totals().blocks > self.index.limit_blocks();
        (0..TRIM_FILES)
            .take_while(|_| is_over() && self.give_up_one(&mut passed, EvictionReason::Space).is_ok())
            .count()
    }
}

/// How often an idle store looks whether something is due.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Bounds the rate to a few thousand files a second, of which a disk arm would manage fewer.
const PAUSE_PER_FILE: Duration = Duration::from_micros(250);
const LEAST_PAUSE: Duration = Duration::from_micros(500);
/// Files given up in one step to come down to a lowered limit, or since nobody has overwritten
/// them.
const TRIM_FILES: usize = 64;
