//! `shoal run`: a node from its settings to its end.
//!
//! The main thread starts everything, then waits for signals. HUP reads the settings again. USR1
//! opens the logs again. TERM, INT and QUIT let requests in flight finish; a second such signal
//! does not wait for them. Other signals that would end a process are logged and ignored.

mod banner;
mod error_lines;
mod files;
mod logging;
mod node;
mod notify;
mod options;
mod panics;
mod signals;

pub use options::{RunOptions, reverse_listener};

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::show::print;
use logging::ErrorLog;
use node::RunningNode;
use notify::{Notifier, State};
use shoal_proxy::admin::{AdminAccess, AdminListener, BoundAdmin, Control as _, Readiness};
use shoal_settings::{AdminAddress, Settings};
use signals::{Event, Signals};
use std::io::Write as _;
use std::sync::Arc;

/// Runs a node until a signal ends it.
fn run(configuration: Configuration) -> Result<(), Failure> {
    let settings = configuration.load()?;
    let error_log = ErrorLog::start(&settings.log)
        .map_err(|error| Failure::Runtime(format!("cannot start the error log: {error}")))?;
    let error_log = Arc::new(error_log);
    let result = run_logging(configuration, settings, error_log.clone());
    error_log.flush();
    result
}

fn run_logging(
    configuration: Configuration,
    settings: Settings,
    error_log: Arc<ErrorLog>,
) -> Result<(), Failure> {
    panics::report();
    files::keep_to_ourselves();
    files::raise_limit(settings.max_connections + settings.upstream.tunnels);
    let mut signals =
        Signals::new().map_err(|error| Failure::Runtime(format!("cannot take signals: {error}")))?;
    let notifier = Notifier::from_environment();

    let admin = bind_admin(&settings)?;
    let admin_access = AdminAccess::new(&settings.admin).map_err(Failure::Usage)?;
    let admin_address = admin.as_ref().map(|bound| bound.address().clone());
    let running = Arc::new(RunningNode::start(configuration, settings.clone(), admin_address, error_log)?);
    panics::report_and_count(running.clone());
    let admin = admin.map(|bound| bound.start(running.clone(), admin_access)).transpose();
    let admin =
        admin.map_err(|error| Failure::Runtime(format!("cannot start the admin listener: {error}")))?;
    greet(&settings, &running, admin.as_ref());
    let addresses: Vec<String> = running.addresses().iter().map(ToString::to_string).collect();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), listens = addresses.join(", "), "started");
    notifier.send_state(readiness(&running));
    let (opened, told) = (Arc::downgrade(&running), notifier.clone());
    running.on_disk_opened(move || {
        if let Some(running) = opened.upgrade() {
            told.send_state(readiness(&running));
        }
    });

    serve(&running, &mut signals, &notifier);
    running.close_logs();
    Ok(())
}

/// Returns the state of the node for a service manager.
fn readiness(running: &RunningNode) -> State {
    if running.readiness() == Readiness::Degraded { State::Degraded } else { State::Ready }
}

/// Handles signals until the node has ended.
fn serve(running: &Arc<RunningNode>, signals: &mut Signals, notifier: &Notifier) {
    loop {
        match signals.next() {
            Event::Reload => {
                notifier.send_state(State::Reloading);
                let must_stop = reload(running, signals);
                notifier.send_state(readiness(running));
                if must_stop {
                    notifier.send_state(State::Stopping);
                    return drain(running, signals);
                }
            }
            Event::Reopen => running.reopen_logs(),
            Event::Unknown(name) => ignore(name),
            Event::Stop => {
                notifier.send_state(State::Stopping);
                return drain(running, signals);
            }
        }
    }
}

/// Logs that a signal was received and has no effect.
fn ignore(signal: &str) {
    tracing::warn!(
        signal,
        "this signal means nothing to a node and is ignored; HUP, USR1, TERM, INT and QUIT do"
    );
}

/// Reads the settings again on another thread, since a file may be slow to read. The main thread
/// handles other signals meanwhile. Returns `true` if a signal stops the node.
fn reload(running: &Arc<RunningNode>, signals: &mut Signals) -> bool {
    let begin = |signals: &Signals| {
        let reloading = running.clone();
        // The reload has logged its mistakes; the old settings then stay in force.
        signals.watch("reload", move || drop(reloading.reload()))
    };
    let mut done = begin(signals);
    let mut again = false;
    loop {
        match signals.next_or(&mut done) {
            None if again => (done, again) = (begin(signals), false),
            None => return false,
            Some(Event::Stop) => return true,
            Some(Event::Reopen) => running.reopen_logs(),
            Some(Event::Unknown(name)) => ignore(name),
            Some(Event::Reload) => again = true,
        }
    }
}

/// Lets requests in flight finish, unless a second signal arrives.
fn drain(running: &Arc<RunningNode>, signals: &mut Signals) {
    tracing::info!("stopping; what is in flight may finish, a second signal cuts it");
    let draining = running.clone();
    let mut done = signals.watch("drain", move || draining.drain());
    loop {
        match signals.next_or(&mut done) {
            None => {
                tracing::info!("stopped");
                return;
            }
            Some(Event::Stop) => {
                tracing::warn!("stopped at once; what was in flight is cut");
                return;
            }
            Some(Event::Reload | Event::Reopen | Event::Unknown(_)) => {}
        }
    }
}

/// Binds the admin listener. If the address is the default and another node uses it, the listener
/// takes a free port. Two nodes can then be tried on one machine.
fn bind_admin(settings: &Settings) -> Result<Option<BoundAdmin>, Failure> {
    let Some(address) = &settings.admin.listen else { return Ok(None) };
    let mut result = BoundAdmin::bind(address);
    let in_use = matches!(&result, Err(error) if error.kind() == std::io::ErrorKind::AddrInUse);
    if in_use && settings.admin.listen == shoal_settings::Admin::default().listen {
        tracing::warn!(%address, "the default admin address is taken; using a free port");
        result = BoundAdmin::bind(&AdminAddress::Tcp(([127, 0, 0, 1], 0).into()));
    }
    let bound = result.map_err(|error| {
        Failure::Runtime(format!("cannot listen for administration at {address}: {error}"))
    })?;
    if let AdminAddress::Tcp(address) = bound.address()
        && !address.ip().is_loopback()
        && settings.admin.users.is_empty()
    {
        tracing::warn!(%address, "whoever reaches the admin listener may purge and reload");
    }
    Ok(Some(bound))
}

/// Prints the banner, on stderr if stdout is the access log. A closed terminal or a full disk does
/// not stop the node.
fn greet(settings: &Settings, running: &RunningNode, admin: Option<&AdminListener>) {
    let disks = running.status().store.map_or_else(Vec::new, |store| store.disks);
    let text = banner::text(settings, &running.addresses(), admin.map(AdminListener::address), &disks);
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
