//! Signals as events that the main thread waits for.

use shoal_handover::PendingRequest;
use std::io;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;

/// Events that signals cause.
#[derive(Debug)]
pub enum Event {
    /// HUP: read the settings again.
    Reload,
    /// USR1: open the logs again.
    Reopen,
    /// TERM, INT or QUIT: stop.
    Stop,
    /// USR2, or a request at the node's socket: let a new process take over.
    Upgrade(Option<PendingRequest>),
    /// Name of another signal that would end the process. The node ignores the signal.
    Unknown(&'static str),
}

/// Signals that a node handles, from the creation of this value on.
pub struct Signals {
    runtime: Runtime,
    streams: Streams,
    requests: Receiver<PendingRequest>,
}

struct Streams {
    hangup: Signal,
    user1: Signal,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    user2: Signal,
    alarm: Signal,
    io: Signal,
}

/// Completion of work started by [`Signals::watch`].
pub struct Completion(oneshot::Receiver<()>);

impl Signals {
    /// Replaces the default actions of the signals. `requests` are those for an upgrade.
    pub fn new(requests: Receiver<PendingRequest>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let streams = {
            let _context = runtime.enter();
            Streams {
                hangup: signal(SignalKind::hangup())?,
                user1: signal(SignalKind::user_defined1())?,
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                quit: signal(SignalKind::quit())?,
                user2: signal(SignalKind::user_defined2())?,
                alarm: signal(SignalKind::alarm())?,
                io: signal(SignalKind::io())?,
            }
        };
        Ok(Self { runtime, streams, requests })
    }

    /// Waits for the next signal.
    pub fn next(&mut self) -> Event {
        self.runtime.block_on(next(&mut self.streams, &mut self.requests))
    }

    /// Waits for the next signal or for the end of the work. Returns `None` for the end of the
    /// work.
    pub fn next_or(&mut self, done: &mut Completion) -> Option<Event> {
        self.runtime.block_on(async {
            tokio::select! {
                event = next(&mut self.streams, &mut self.requests) => Some(event),
                // Work that panicked counts as done.
                _ = &mut done.0 => None,
            }
        })
    }

    /// Runs blocking work on a thread named `name`. The caller can wait for the work beside the
    /// signals.
    pub fn watch(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Completion {
        let (sender, receiver) = oneshot::channel();
        let work = move || {
            work();
            let _ = sender.send(());
        };
        // Without a thread the sender is dropped, and the work counts as done.
        if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(work) {
            tracing::warn!(%error, "cannot start a thread to {name}");
        }
        Completion(receiver)
    }
}

async fn next(streams: &mut Streams, requests: &mut Receiver<PendingRequest>) -> Event {
    tokio::select! {
        event = streams.next() => event,
        Some(request) = requests.recv() => Event::Upgrade(Some(request)),
    }
}

impl Streams {
    async fn next(&mut self) -> Event {
        tokio::select! {
            _ = self.hangup.recv() => Event::Reload,
            _ = self.user1.recv() => Event::Reopen,
            _ = self.terminate.recv() => Event::Stop,
            _ = self.interrupt.recv() => Event::Stop,
            _ = self.quit.recv() => Event::Stop,
            _ = self.user2.recv() => Event::Upgrade(None),
            _ = self.alarm.recv() => Event::Unknown("ALRM"),
            _ = self.io.recv() => Event::Unknown("IO"),
        }
    }
}
