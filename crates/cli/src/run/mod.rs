//! `shoal run`: a node from its settings to its end.
//!
//! The main thread starts everything, then waits for signals. HUP reads the settings again. USR1
//! opens the logs again. USR2 lets a new process take over. TERM, INT and QUIT let requests in
//! flight finish; a second such signal does not wait for them. Other signals that would end a
//! process are logged and ignored.

mod admin;
mod banner;
mod error_lines;
mod files;
mod logging;
mod node;
mod notify;
mod options;
mod panics;
mod predecessor;
mod requests;
mod signals;
mod successor;
mod upgrading;

pub use options::{RunOptions, reverse_listener};

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::show::print;
use admin::{AdminListeners, BoundListeners};
use logging::ErrorLog;
use node::RunningNode;
use notify::{Notifier, State};
use predecessor::Predecessor;
use shoal_handover::{Activation, InheritedSockets, PendingRequest, UpgradeOutcome, activated};
use shoal_proxy::admin::{Control as _, Readiness};
use shoal_proxy::node::Inheritance;
use shoal_settings::{AdminAddress, Settings};
use signals::{Completion, Event, Signals};
use std::io::Write as _;
use std::sync::Arc;
use upgrading::AfterUpgrade;

/// Runs a node until a signal ends it, or another process takes over.
fn run(configuration: Configuration) -> Result<(), Failure> {
    // Before any thread starts: one that allocates earlier gets a heap of its own. Other threads
    // share that later, and it grows by a system call for each block.
    shoal_cache::storage::return_freed_bytes();
    let (predecessor, sockets) = match Predecessor::find()? {
        Some((predecessor, sockets)) => (Some(Arc::new(predecessor)), sockets),
        None => (None, activated_sockets()?),
    };
    let result = run_after(configuration, predecessor.clone(), sockets);
    let Some(predecessor) = predecessor.filter(|predecessor| !predecessor.has_entrusted()) else {
        return result;
    };
    result.map_err(|failure| {
        let lines = failure.lines();
        predecessor.refuse(&lines);
        Failure::Runtime(lines.join("\n"))
    })
}

/// Returns the sockets that a service manager has passed.
fn activated_sockets() -> Result<InheritedSockets, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let variables = Activation {
        pid: variable("LISTEN_PID"),
        count: variable("LISTEN_FDS"),
        names: variable("LISTEN_FDNAMES"),
    };
    activated(&variables, std::process::id()).map_err(|fault| Failure::Runtime(fault.to_string()))
}

fn run_after(
    configuration: Configuration,
    predecessor: Option<Arc<Predecessor>>,
    sockets: InheritedSockets,
) -> Result<(), Failure> {
    let settings = configuration.load()?;
    let error_log = ErrorLog::start(&settings.log)
        .map_err(|error| Failure::Runtime(format!("cannot start the error log: {error}")))?;
    let error_log = Arc::new(error_log);
    let result = run_logging((configuration, settings), error_log.clone(), predecessor, sockets);
    error_log.flush();
    result
}

fn run_logging(
    (configuration, settings): (Configuration, Settings),
    error_log: Arc<ErrorLog>,
    predecessor: Option<Arc<Predecessor>>,
    mut sockets: InheritedSockets,
) -> Result<(), Failure> {
    panics::report();
    files::keep_to_ourselves();
    files::raise_limit(settings.max_connections + settings.upstream.tunnels);
    let (upgrade_socket, requests) = requests::open();
    let signals =
        Signals::new(requests).map_err(|error| Failure::Runtime(format!("cannot take signals: {error}")))?;

    let admin = BoundListeners::bind(&settings, &mut sockets)?;
    let admin_address = admin.address().cloned();
    let store = predecessor
        .clone()
        .map(|predecessor| Box::new(move || predecessor.wait_for_store()) as Box<dyn FnOnce() -> _ + Send>);
    let inherited = Inheritance { sockets, store };
    let running = RunningNode::start(configuration, settings.clone(), admin_address, error_log, inherited)?;
    let running = Arc::new(running);
    panics::report_and_count(running.clone());
    upgrade_socket.iter().for_each(|socket| running.set_upgrade_socket(socket.path()));
    if let Some(predecessor) = &predecessor {
        predecessor.take_over(&running).map_err(Failure::Runtime)?;
    }
    let admin = admin.start(&running, &settings.admin)?;
    admin.own();
    greet(&settings, &running, admin.address());
    let addresses: Vec<String> = running.addresses().iter().map(ToString::to_string).collect();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listens = addresses.join(", "), "started");
    let notifier = Notifier::from_environment();
    // systemd is asked for the time of a stop; other managers have a limit of their own.
    if let Some(warning) = settings.stop_warning().filter(|_| !notifier.has_manager()) {
        tracing::warn!("{warning}");
    }
    notifier.send_state(readiness(&running));
    let (opened, told) = (Arc::downgrade(&running), notifier.clone());
    running.on_disk_opened(move || {
        if let Some(running) = opened.upgrade() {
            told.send_state(readiness(&running));
        }
    });

    RunLoop { running: running.clone(), admin, signals, notifier }.serve();
    running.close_logs();
    Ok(())
}

/// Returns the state of the node for a service manager.
fn readiness(running: &RunningNode) -> State {
    if running.readiness() == Readiness::Degraded { State::Degraded } else { State::Ready }
}

/// Main thread of a running node.
struct RunLoop {
    running: Arc<RunningNode>,
    admin: AdminListeners,
    signals: Signals,
    notifier: Notifier,
}

/// End of some work that the main thread waited for.
enum AfterWork {
    /// The node goes on.
    GoOn,
    /// A signal stops the node.
    Stop,
}

impl RunLoop {
    /// Handles signals until the node has ended.
    fn serve(mut self) {
        loop {
            match self.signals.next() {
                Event::Reload => {
                    self.notifier.send_state(State::Reloading);
                    let after = self.reload();
                    self.notifier.send_state(readiness(&self.running));
                    if matches!(after, AfterWork::Stop) {
                        return self.stop();
                    }
                }
                Event::Upgrade(request) => match self.upgrade(request) {
                    AfterUpgrade::Replaced(successor) => return self.retire(successor),
                    AfterUpgrade::GoOn => {}
                    AfterUpgrade::Stop => return self.stop(),
                },
                Event::Reopen => self.running.reopen_logs(),
                Event::Unknown(name) => ignore(name),
                Event::Stop => return self.stop(),
            }
        }
    }

    /// Reads the settings again on another thread, since a file may be slow to read. The main
    /// thread handles other signals meanwhile.
    fn reload(&mut self) -> AfterWork {
        let begin = |running: &Arc<RunningNode>, signals: &Signals| {
            let reloading = running.clone();
            // The reload has logged its mistakes; the old settings then stay in force.
            signals.watch("reload", move || drop(reloading.reload()))
        };
        let mut done = begin(&self.running, &self.signals);
        let mut again = false;
        loop {
            match self.signals.next_or(&mut done) {
                None if again => (done, again) = (begin(&self.running, &self.signals), false),
                None => return AfterWork::GoOn,
                Some(Event::Stop) => return AfterWork::Stop,
                Some(Event::Reopen) => self.running.reopen_logs(),
                Some(Event::Unknown(name)) => ignore(name),
                Some(Event::Reload) => again = true,
                Some(Event::Upgrade(request)) => refuse(request, "a reload is under way; ask again"),
            }
        }
    }

    /// Lets health checks see the end first, then lets requests in flight finish, unless a second
    /// signal arrives.
    fn stop(mut self) {
        self.notifier.send_state(State::Stopping(self.running.stop_time()));
        let lame_duck = self.running.lame_duck();
        if !lame_duck.is_zero() {
            tracing::info!(
                seconds = lame_duck.as_secs_f64(),
                "health checks fail; clients are still accepted"
            );
            self.running.announce_drain();
            let mut over = self.signals.watch("lame-duck", move || std::thread::sleep(lame_duck));
            self.wait_for(&mut over);
        }
        tracing::info!("stopping; what is in flight may finish, a second signal cuts it");
        let draining = self.running.clone();
        let mut done = self.signals.watch("drain", move || draining.drain());
        match self.wait_for(&mut done) {
            AfterWork::GoOn => tracing::info!("stopped"),
            AfterWork::Stop => tracing::warn!("stopped at once; what was in flight is cut"),
        }
    }

    /// Waits for the last work of the node, or for a signal that cuts it.
    fn wait_for(&mut self, done: &mut Completion) -> AfterWork {
        loop {
            match self.signals.next_or(done) {
                None => return AfterWork::GoOn,
                Some(Event::Stop) => return AfterWork::Stop,
                Some(Event::Reopen) => self.running.reopen_logs(),
                Some(Event::Upgrade(request)) => refuse(request, "the process is ending"),
                Some(Event::Reload | Event::Unknown(_)) => {}
            }
        }
    }
}

/// Answers that there is no upgrade now.
fn refuse(request: Option<PendingRequest>, why: &str) {
    tracing::warn!(why, "no upgrade");
    if let Some(request) = request {
        request.answer(&UpgradeOutcome::Refused { why: vec![why.into()] });
    }
}

/// Logs that a signal was received and has no effect.
fn ignore(signal: &str) {
    tracing::warn!(
        signal,
        "this signal means nothing to a node and is ignored; HUP, USR1, USR2, TERM, INT and QUIT do"
    );
}

/// Prints the banner, on stderr if stdout is the access log. A closed terminal or a full disk does
/// not stop the node.
fn greet(settings: &Settings, running: &RunningNode, admin: Option<&AdminAddress>) {
    let disks = running.status().store.map_or_else(Vec::new, |store| store.disks);
    let text = banner::text(settings, &running.addresses(), admin, &disks);
    match settings.log.access.as_str() {
        // If stderr cannot be written, this failure cannot be reported either.
        "stdout" => drop(std::io::stderr().write_all(text.as_bytes())),
        _ => {
            if let Err(failure) = print(&text) {
                tracing::warn!("{}", failure.lines().join("; "));
            }
        }
    }
}
