//! An upgrade as the main thread runs it: the attempt on a thread of its own, its outcome told to
//! the service manager, the log and the process that asked.

use super::notify::State;
use super::signals::Event;
use super::successor::{Estate, Successor};
use super::{AfterWork, RunLoop, ignore, readiness, refuse};
use shoal_handover::{ChannelFault, PendingRequest, UpgradeOutcome};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// End of an attempt to upgrade.
pub(super) enum AfterUpgrade {
    /// Another process is the node.
    Replaced(Successor),
    /// This process goes on.
    GoOn,
    /// A signal stops this process.
    Stop,
}

impl RunLoop {
    /// Lets a new process take over. The main thread handles other signals meanwhile.
    pub(super) fn upgrade(&mut self, request: Option<PendingRequest>) -> AfterUpgrade {
        self.notifier.send_state(State::Reloading);
        self.running.set_upgrading(true);
        let program = request.as_ref().and_then(|request| request.request.program.clone());
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let outcome = Arc::new(Mutex::new(None));
        let mut must_stop = false;
        // The thread ends before the listener is used again.
        let admin = std::mem::take(&mut self.admin);
        let mut done = {
            let (running, cancelled, told) = (self.running.clone(), is_cancelled.clone(), outcome.clone());
            self.signals.watch("upgrade", move || {
                let patience = running.upgrade_timeout();
                let estate = Estate { running: &running, admin: &admin, patience };
                let handed_over = estate.hand_over(program, &cancelled);
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some((handed_over, admin));
            })
        };
        loop {
            match self.signals.next_or(&mut done) {
                None => break,
                Some(Event::Stop) => {
                    is_cancelled.store(true, SeqCst);
                    must_stop = true;
                }
                Some(Event::Reopen) => self.running.reopen_logs(),
                Some(Event::Upgrade(request)) => refuse(request, "an upgrade is under way"),
                Some(Event::Unknown(name)) => ignore(name),
                // The new process has just read them, or will not come up.
                Some(Event::Reload) => {}
            }
        }
        let ended = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((handed_over, admin)) = ended else {
            self.running.set_upgrading(false);
            refuse(request, "no thread for the upgrade");
            return AfterUpgrade::GoOn;
        };
        self.admin = admin;
        match handed_over {
            Ok(successor) => self.replaced(successor, request),
            Err(why) => {
                self.goes_on(why, request);
                if must_stop { AfterUpgrade::Stop } else { AfterUpgrade::GoOn }
            }
        }
    }

    fn replaced(&self, successor: Successor, request: Option<PendingRequest>) -> AfterUpgrade {
        // First the service manager learns of the new main process, which then says it is ready.
        self.notifier.send_state(State::Replaced(successor.pid));
        match successor.entrust() {
            Ok(()) => {}
            Err(ChannelFault::Ended) => return self.survived(request),
            Err(error) => tracing::error!(%error, pid = successor.pid, "the new process was not told"),
        }
        self.admin.leave();
        tracing::info!(pid = successor.pid, version = successor.program, "a new process has taken over");
        if let Some(request) = request {
            let (pid, program) = (successor.pid, successor.program.clone());
            request.answer(&UpgradeOutcome::Upgraded { pid, program });
        }
        AfterUpgrade::Replaced(successor)
    }

    /// Takes everything back from a process that ended before it was the node.
    fn survived(&self, request: Option<PendingRequest>) -> AfterUpgrade {
        self.notifier.send_state(State::Replaced(std::process::id()));
        self.running.node().take_back();
        self.admin.resume();
        self.goes_on(vec!["the new process ended before it was the node".into()], request);
        AfterUpgrade::GoOn
    }

    fn goes_on(&self, why: Vec<String>, request: Option<PendingRequest>) {
        self.running.set_upgrading(false);
        why.iter().for_each(|line| tracing::error!("upgrade: {line}"));
        tracing::error!("no upgrade: this process goes on");
        self.notifier.send_state(readiness(&self.running));
        if let Some(request) = request {
            request.answer(&UpgradeOutcome::Refused { why });
        }
    }

    /// Lets running requests end here, while another process is the node.
    pub(super) fn retire(mut self, successor: Successor) {
        let untold = successor.untold();
        successor.follow(&self.running);
        let retiring = self.running.clone();
        let mut done = self.signals.watch("retire", move || {
            retiring.retire();
            let end = Instant::now() + UNTOLD_WAIT_MAX;
            while untold.load(SeqCst) > 0 && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        match self.wait_for(&mut done) {
            AfterWork::GoOn => tracing::info!("all requests of this process have ended"),
            AfterWork::Stop => tracing::warn!("stopped at once; what was in flight is cut"),
        }
    }
}

/// Longest wait, at the end, until the new process has heard all.
const UNTOLD_WAIT_MAX: Duration = Duration::from_secs(5);
