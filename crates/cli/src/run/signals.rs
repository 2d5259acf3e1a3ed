//! Signals as events that the main thread waits for.

use std::io;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// HUP: read the settings again.
    Reload,
    /// USR1: open the logs again.
    Reopen,
    /// TERM, INT or QUIT: stop.
    Stop,
    /// One that would end the process and means nothing, by its name.
    Unknown(&'static str),
}

/// The signals that a node takes, from its making on.
pub struct Signals {
    runtime: Runtime,
    streams: Streams,
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

/// Work that was started by [`Signals::watch`].
pub struct Completion(oneshot::Receiver<()>);

impl Signals {
    /// Takes the signals over from their default action.
    pub fn new() -> io::Result<Self> {
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
        Ok(Self { runtime, streams })
    }

    /// Waits for the next one.
    pub fn next(&mut self) -> Event {
        self.runtime.block_on(self.streams.next())
    }

    /// Waits for the next one, or for the work: then gives `None`.
    pub fn next_or(&mut self, done: &mut Completion) -> Option<Event> {
        self.runtime.block_on(async {
            tokio::select! {
                event = self.streams.next() => Some(event),
                // work that panicked is done too
                _ = &mut done.0 => None,
            }
        })
    }

    /// Does blocking work on a thread of its own, of this name, to wait for it beside the signals.
    pub fn watch(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Completion {
        let (sender, receiver) = oneshot::channel();
        let work = move || {
            work();
            let _ = sender.send(());
        };
        // without a thread the sender is dropped, and the work counts as done
        if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(work) {
            tracing::warn!(%error, "cannot start a thread to {name}");
        }
        Completion(receiver)
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
            _ = self.user2.recv() => Event::Unknown("USR2"),
            _ = self.alarm.recv() => Event::Unknown("ALRM"),
            _ = self.io.recv() => Event::Unknown("IO"),
        }
    }
}
