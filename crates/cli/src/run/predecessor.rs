//! The process that was this node before: its sockets, its store, and its late purges.
//!
//! A process that is started by an upgrade finds the channel to the one before as its standard
//! input. Until that process has entrusted the node to it, any failure ends this process, and the
//! one before goes on.

use super::node::RunningNode;
use crate::failure::Failure;
use shoal_core::ObjectKey;
use shoal_handover::{
    Change, Channel, ChannelFault, InheritedSockets, Message, ObjectParts, PROTOCOL, SocketName, agree,
    from_digits, read_object,
};
use shoal_proxy::node::{LateObject, StoreRelease};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The process that was this node before.
pub struct Predecessor {
    channel: Arc<Channel>,
    program: String,
    protocol: u32,
    /// Events that it has told, and that are not followed here yet.
    news: Mutex<Vec<HeardNews>>,
    has_entrusted: AtomicBool,
}

impl Predecessor {
    /// Returns the process that has started this one for an upgrade, with its sockets; `None` if
    /// none has.
    ///
    /// # Errors
    /// If the two processes do not understand each other.
    pub fn find() -> Result<Option<(Self, InheritedSockets)>, Failure> {
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().to_string());
        if parent.is_none() || std::env::var(VARIABLE).ok() != parent {
            return Ok(None);
        }
        let failed = |error: ChannelFault| Failure::Runtime(format!("upgrade: {error}"));
        let channel = Channel::from_inherited(io::stdin().as_fd()).map_err(failed)?;
        let nothing = std::fs::File::open("/dev/null").map_err(|error| failed(error.into()))?;
        rustix::stdio::dup2_stdin(&nothing).map_err(|error| failed(error.into()))?;
        let offer = channel.receive(MESSAGE_WAIT_MAX).map_err(failed)?;
        let Message::Offer { least, most, program, sockets } = offer else {
            return Err(failed(ChannelFault::Malformed("no offer")));
        };
        let channel = Arc::new(channel);
        let this = |protocol| Self {
            channel,
            program,
            protocol,
            news: Mutex::default(),
            has_entrusted: AtomicBool::new(false),
        };
        match agree(least, most) {
            Ok(protocol) => {
                let this = this(protocol);
                let sockets = this.receive_sockets(sockets).map_err(failed)?;
                Ok(Some((this, sockets)))
            }
            Err(why) => {
                this(PROTOCOL).refuse(std::slice::from_ref(&why));
                Err(Failure::Runtime(why))
            }
        }
    }

    fn receive_sockets(&self, count: usize) -> Result<InheritedSockets, ChannelFault> {
        let mut sockets = InheritedSockets::default();
        let mut received = 0;
        while received < count.min(SOCKETS_MAX) {
            let (message, descriptors) = self.channel.receive_with(MESSAGE_WAIT_MAX)?;
            let Message::Sockets { names } = message else {
                return Err(ChannelFault::Malformed("no sockets where they were announced"));
            };
            if names.len() != descriptors.len() || names.is_empty() {
                return Err(ChannelFault::Malformed("a name for each socket"));
            }
            debug_assert!(names.len() <= count, "more sockets than were announced");
            received += names.len();
            let named: Vec<(SocketName, OwnedFd)> = names.into_iter().zip(descriptors).collect();
            named.into_iter().for_each(|(name, socket)| sockets.add(name, socket));
        }
        Ok(sockets)
    }

    /// Returns `true` once this process is the node.
    pub fn has_entrusted(&self) -> bool {
        self.has_entrusted.load(SeqCst)
    }

    /// Tells the process before that this one cannot go on.
    pub fn refuse(&self, lines: &[String]) {
        let mut why = lines.join("\n");
        why.truncate(why.floor_char_boundary(WHY_BYTES_MAX));
        // A process that has ended needs no reason.
        let _ = self.channel.send(&Message::Refused { why });
    }

    /// Says that all but the store is ready, and waits until the process before has let it go.
    ///
    /// # Errors
    /// If it does not, in a line.
    pub fn wait_for_store(&self) -> Result<StoreRelease, String> {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let prepared = Message::Prepared { protocol: self.protocol, program };
        self.channel.send(&prepared).map_err(|error| error.to_string())?;
        match self.next() {
            Ok(Message::Released { disks, members }) => Ok(StoreRelease { disks, members }),
            Ok(_) => Err("the running process has not let the store go".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Says that this process accepts clients, waits until it is the node, and follows the process
    /// before to its end.
    ///
    /// # Errors
    /// If the process before goes on instead, in a line.
    pub fn take_over(&self, running: &Arc<RunningNode>) -> Result<(), String> {
        let own = self.listen(running);
        self.channel.send(&Message::Serving).map_err(|error| error.to_string())?;
        match self.next() {
            Ok(Message::Entrusted) => {
                self.has_entrusted.store(true, SeqCst);
                self.follow(running, own);
                Ok(())
            }
            Ok(_) => Err("the running process goes on itself".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the next message of the hand-over. Events are kept for later.
    fn next(&self) -> Result<Message, ChannelFault> {
        loop {
            match receive(&self.channel, STEP_WAIT_MAX)? {
                Heard::News(news) => self.news.lock().unwrap_or_else(PoisonError::into_inner).push(news),
                Heard::Step(message) => return Ok(message),
            }
        }
    }

    /// Begins to keep the purges of this node, for [`Self::follow`].
    fn listen(&self, running: &RunningNode) -> Receiver<Change> {
        let (told, heard) = sync_channel(CHANGES_MAX);
        running.node().tell_changes(Some(Box::new(move |change| tell(&told, change))));
        heard
    }

    /// Makes the purges that the process before tells, and tells it those of this node, on threads
    /// of their own until that process has ended.
    fn follow(&self, running: &Arc<RunningNode>, own: Receiver<Change>) {
        tracing::info!(before = self.program, "took over from the process before");
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        // Clients are served already: purges go first. An object that comes before its purge is
        // then refused, or older than the purge. A removal stays behind its object.
        let (changes, others): (Vec<_>, Vec<_>) =
            news.into_iter().partition(|news| matches!(news, HeardNews::Changed(_)));
        changes.into_iter().chain(others).for_each(|news| follow(running, news));
        let channel = Arc::clone(&self.channel);
        let send = move || {
            while let Ok(change) = own.recv() {
                if let Err(ChannelFault::Ended) = channel.send(&Message::Changed { change }) {
                    return;
                }
            }
        };
        let (channel, running) = (Arc::clone(&self.channel), Arc::downgrade(running));
        let hear = move || {
            loop {
                match (receive(&channel, MESSAGE_WAIT_MAX), running.upgrade()) {
                    (_, None) => return,
                    (Ok(Heard::News(news)), Some(running)) => follow(&running, news),
                    (Ok(_) | Err(ChannelFault::Silent), Some(_)) => {}
                    (Err(_), Some(running)) => {
                        running.node().tell_changes(None);
                        return tracing::info!("the process before has ended");
                    }
                }
            }
        };
        let spawn =
            |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().name("heir".into()).spawn(work);
        if let Err(error) = spawn(Box::new(send)).and_then(|_| spawn(Box::new(hear))) {
            tracing::warn!(%error, "purges of the process before are not followed");
        }
    }
}

/// Message of the process before.
enum Heard {
    /// Step of the hand-over.
    Step(Message),
    /// Event after it has let the store go.
    News(HeardNews),
}

/// Event of the process before. Keys are bytes: the store that knows their hash may not be open.
enum HeardNews {
    Changed(Change),
    Removed(Vec<u8>),
    Stored(ObjectParts),
}

/// Receives a message. An object that cannot be read is left out.
fn receive(channel: &Channel, limit: Duration) -> Result<Heard, ChannelFault> {
    loop {
        let (message, descriptors) = channel.receive_with(limit)?;
        let mut descriptors = descriptors.into_iter();
        match message {
            Message::Changed { change } => return Ok(Heard::News(HeardNews::Changed(change))),
            Message::Removed { key } => {
                let key = from_digits(&key).ok_or(ChannelFault::Malformed("a key"))?;
                return Ok(Heard::News(HeardNews::Removed(key)));
            }
            Message::Stored { key_bytes, metadata_bytes, body_bytes } => {
                let lengths = [key_bytes, metadata_bytes, body_bytes];
                let read = descriptors.next().and_then(|file| read_object(lengths, file).ok());
                if let Some(parts) = read {
                    return Ok(Heard::News(HeardNews::Stored(parts)));
                }
            }
            step => return Ok(Heard::Step(step)),
        }
    }
}

/// Follows an event of the process before.
fn follow(running: &RunningNode, news: HeardNews) {
    let node = running.node();
    match news {
        HeardNews::Changed(change) => node.apply_change(change),
        HeardNews::Removed(key) => node.remove_late(&ObjectKey::new(key)),
        HeardNews::Stored((key, metadata, body)) => {
            let (key, metadata, body) = (ObjectKey::new(key), metadata.into(), body.into());
            node.adopt(&LateObject { key, metadata, body });
        }
    }
}

/// Tells a change. If too many wait, a further one needs no telling: the process before forgets all
/// that it has stored at each.
fn tell(told: &SyncSender<Change>, change: Change) {
    match told.try_send(change) {
        Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
    }
}

/// Variable with the process id of the process before.
pub const VARIABLE: &str = "UPGRADES_SHOAL_PID";

/// Longest wait for a message that is on its way.
const MESSAGE_WAIT_MAX: Duration = Duration::from_secs(5);

/// Longest wait for the process before to write its store, longer than that may take.
const STEP_WAIT_MAX: Duration = Duration::from_secs(60);

/// Most sockets that are taken.
const SOCKETS_MAX: usize = 16_384;

/// Most bytes of a reason.
const WHY_BYTES_MAX: usize = 8 << 10;

/// Most purges that wait to be told.
const CHANGES_MAX: usize = 256;
