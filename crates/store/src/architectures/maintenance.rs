//! Background threads that repair the store at a bounded rate, and write due data, while it serves.

use super::files::{Core, FileStore};
use super::space::EvictionReason;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Background thread. Dropping this ends the thread.
pub(super) struct Maintenance {
    bell: Arc<WakeSignal>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes a background thread from its pauses.
#[derive(Default)]
pub(super) struct WakeSignal {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Default)]
struct BellState {
    /// Set by `ring`, cleared by the next pause.
    has_rung: bool,
    /// Tells the thread to end.
    has_stopped: bool,
}

/// Time since the background thread was started.
pub(super) type Clock<'a> = &'a dyn Fn() -> Duration;

/// Store with background work.
pub(super) trait BackgroundWork: Send + Sync + 'static {
    /// Does one bounded piece of the work that is due.
    fn maintain(&self) -> StepResult;
}

/// Result of one step of background work.
pub(super) enum StepResult {
    /// Nothing was due.
    Idle,
    /// Number of files inspected or removed.
    Worked(usize),
}

impl Maintenance {
    /// Starts the repair thread.
    pub(super) fn start<U: BackgroundWork>(core: &Arc<U>) -> Self {
        Self::run("shoal-store", core, Arc::default(), |core, _| match core.maintain() {
            StepResult::Idle => IDLE_PAUSE,
            StepResult::Worked(files) => PAUSE_PER_FILE * files as u32 + LEAST_PAUSE,
        })
    }

    /// Starts a thread that alternates `work` and a pause. A pause lasts as long as `work`
    /// returned, or until the bell rings.
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
    /// Ends the pause, or the next one if the thread is not pausing.
    pub(super) fn ring(&self) {
        self.state.lock().has_rung = true;
        self.changed.notify_one();
    }

    /// Pauses the thread. Returns `false` when the thread has to end.
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
            // The thread itself has reported a panic.
            let _ = thread.join();
        }
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // Ends the thread before the core is dropped, so that the thread does not hold the last
        // reference.
        self.maintenance = None;
    }
}

impl BackgroundWork for Core {
    fn maintain(&self) -> StepResult {
        let surveyed = self.survey_segments();
        if surveyed > 0 {
            // These are entries in memory; a thousand of them cost as much as one file.
            return StepResult::Worked(surveyed / 1024);
        }
        if let Some(step) = self.index.audit_step() {
            let looked_at = self.repair(&step);
            if self.index.finish_step(&step) {
                self.leave_held_back();
                let totals = self.index.totals();
                info!(objects = totals.objects, "the store is repaired");
            }
            return StepResult::Worked(looked_at);
        }
        if self.index.is_damaged() {
            warn!("the store's index has damaged entries; it is repaired while it serves");
            self.index.begin_audit(self.naming.folders());
            return StepResult::Worked(0);
        }
        match self.trim() + self.discard_lingering(TRIM_FILES) + self.fill_order() {
            0 => StepResult::Idle,
            given_up => StepResult::Worked(given_up),
        }
    }
}

impl Core {
    /// Evicts a few objects towards a limit that was lowered since the last session.
    fn trim(&self) -> usize {
        let mut passed = 0;
        let is_over = || self.index.totals().blocks > self.index.limit_blocks();
        (0..TRIM_FILES)
            .take_while(|_| is_over() && self.give_up_one(&mut passed, EvictionReason::Space).is_ok())
            .count()
    }
}

/// Pause of an idle store before it looks for due work again.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Bounds the rate to a few thousand files a second. A disk arm manages fewer.
const PAUSE_PER_FILE: Duration = Duration::from_micros(250);
const LEAST_PAUSE: Duration = Duration::from_micros(500);
/// Files removed in one step, to come down to a lowered limit or because no object has overwritten
/// them.
const TRIM_FILES: usize = 64;
