//! The process that becomes this node: started, given the sockets and the store, and trusted once
//! it serves. If it fails before that, this process goes on as if nothing had happened.

use super::admin::AdminListeners;
use super::node::RunningNode;
use super::predecessor::VARIABLE;
use shoal_handover::{
    Change, Channel, ChannelFault, DESCRIPTORS_MAX, Message, PROTOCOL, PROTOCOL_LEAST, SocketName,
    send_object, to_digits,
};
use shoal_proxy::node::{LateNews, LateObject, StoreRelease};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The process that has become this node.
pub struct Successor {
    /// Process id of the new process.
    pub pid: u32,
    /// Version of the new program.
    pub program: String,
    channel: Arc<Channel>,
    /// Events that are not told yet.
    untold: Arc<AtomicUsize>,
}

/// A process that is to become this node.
struct Candidate {
    child: Child,
    channel: Arc<Channel>,
}

/// Parts of the running node that are handed over.
pub struct Estate<'a> {
    /// The node.
    pub running: &'a Arc<RunningNode>,
    /// Admin listeners of the node.
    pub admin: &'a AdminListeners,
    /// Longest wait for each step of the new process.
    pub patience: Duration,
}

impl Estate<'_> {
    /// Starts a program, the one at the place of the running one if none is given, and hands the
    /// node over to it. Blocks. `is_cancelled` ends the attempt.
    ///
    /// # Errors
    /// The reason why this process goes on, in lines.
    pub fn hand_over(
        &self,
        program: Option<PathBuf>,
        is_cancelled: &AtomicBool,
    ) -> Result<Successor, Vec<String>> {
        if std::process::id() == 1 {
            let why = "this process is the first of its container, which ends with it: replace the container";
            return Err(vec![why.into()]);
        }
        let mut candidate = Candidate::start(&program.unwrap_or_else(own_program))?;
        let handed_over = self.hand_over_to(&mut candidate, is_cancelled);
        if handed_over.is_err() {
            candidate.end();
        }
        handed_over
    }

    fn hand_over_to(
        &self,
        candidate: &mut Candidate,
        is_cancelled: &AtomicBool,
    ) -> Result<Successor, Vec<String>> {
        candidate.offer(self.offers().map_err(|error| vec![format!("sockets: {error}")])?)?;
        let prepared = candidate.next(self.patience, is_cancelled)?;
        let Message::Prepared { program, .. } = prepared else { return Err(candidate.misunderstood()) };
        if !self.admin.pause(CHANGES_WAIT_MAX) {
            return Err(vec!["a purge or another change is still under way; ask again".into()]);
        }
        let taken = self.release_to(candidate, is_cancelled);
        match taken {
            Ok(untold) => {
                let (pid, channel) = (candidate.child.id(), Arc::clone(&candidate.channel));
                Ok(Successor { pid, program, channel, untold })
            }
            Err(why) => {
                self.admin.resume();
                Err(why)
            }
        }
    }

    /// Lets the store go, and waits until the other process serves. After an error the store is
    /// this process's again. Returns the number of events that are not told yet.
    fn release_to(
        &self,
        candidate: &mut Candidate,
        is_cancelled: &AtomicBool,
    ) -> Result<Arc<AtomicUsize>, Vec<String>> {
        let node = self.running.node();
        let queue = NewsQueue::start(&candidate.channel);
        let (kept, untold) = (Arc::clone(&queue.kept), Arc::clone(&queue.untold));
        let told = move |news| queue.tell(news);
        let begun = Instant::now();
        let StoreRelease { disks, members } = node.release(told).map_err(|why| vec![why])?;
        tracing::info!(milliseconds = begun.elapsed().as_millis() as u64, "the store is written and let go");
        let released = candidate.channel.send(&Message::Released { disks, members });
        let served = released.map_err(|error| vec![error.to_string()]).and_then(|()| {
            match candidate.next(self.patience, is_cancelled)? {
                Message::Serving => Ok(()),
                _ => Err(candidate.misunderstood()),
            }
        });
        if served.is_err() {
            // The other process must not write any longer.
            candidate.end();
            node.take_back();
            let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
            node.store_again(kept.objects);
        }
        served.map(|()| untold)
    }

    fn offers(&self) -> std::io::Result<Vec<(SocketName, OwnedFd)>> {
        let mut offers = self.running.node().offers()?;
        offers.extend(self.admin.offers()?);
        Ok(offers)
    }
}

impl Candidate {
    fn start(program: &Path) -> Result<Self, Vec<String>> {
        let failed = |error: std::io::Error| vec![format!("cannot start {}: {error}", program.display())];
        let (channel, far) = Channel::pair().map_err(failed)?;
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        let child = Command::new(program)
            .args(arguments)
            .env(VARIABLE, std::process::id().to_string())
            .stdin(far.into_descriptor())
            .spawn()
            .map_err(failed)?;
        tracing::info!(program = %program.display(), pid = child.id(), "started the process that takes over");
        Ok(Self { child, channel: Arc::new(channel) })
    }

    fn offer(&self, sockets: Vec<(SocketName, OwnedFd)>) -> Result<(), Vec<String>> {
        let offer = Message::Offer {
            least: PROTOCOL_LEAST,
            most: PROTOCOL,
            program: env!("CARGO_PKG_VERSION").into(),
            sockets: sockets.len(),
        };
        let send = || {
            self.channel.send(&offer)?;
            for some in sockets.chunks(DESCRIPTORS_MAX) {
                let names = some.iter().map(|(name, _)| name.clone()).collect();
                let descriptors: Vec<_> = some.iter().map(|(_, socket)| socket.as_fd()).collect();
                self.channel.send_with(&Message::Sockets { names }, &descriptors)?;
            }
            Ok(())
        };
        send().map_err(|error: ChannelFault| vec![self.reason(&error)])
    }

    /// Waits for the next message, for at most `limit`.
    fn next(&self, limit: Duration, is_cancelled: &AtomicBool) -> Result<Message, Vec<String>> {
        let end = Instant::now() + limit;
        loop {
            match self.channel.receive(LOOK_EVERY) {
                Ok(Message::Refused { why }) => return Err(why.lines().map(str::to_owned).collect()),
                Ok(message) => return Ok(message),
                Err(ChannelFault::Silent) if is_cancelled.load(SeqCst) => {
                    return Err(vec!["the node was told to stop".into()]);
                }
                Err(ChannelFault::Silent) if Instant::now() < end => {}
                Err(error) => return Err(vec![self.reason(&error)]),
            }
        }
    }

    fn reason(&self, error: &ChannelFault) -> String {
        match error {
            ChannelFault::Ended => {
                "the new process ended before it was ready; its own lines in the error log say why".into()
            }
            ChannelFault::Silent => "the new process was not ready in time, and was ended".into(),
            error => format!("the new process: {error}"),
        }
    }

    fn misunderstood(&self) -> Vec<String> {
        vec!["the new process has sent a message out of turn".into()]
    }

    /// Kills the process, and returns when it is gone with its locks.
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Successor {
    /// Tells the process that it is the node now.
    ///
    /// # Errors
    /// If it cannot be told; [`ChannelFault::Ended`] if it has ended.
    pub fn entrust(&self) -> Result<(), ChannelFault> {
        self.channel.send(&Message::Entrusted)
    }

    /// Returns the number of events that are not told yet.
    pub fn untold(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.untold)
    }

    /// Forgets all that is stored here when the new process purges, on a thread of its own.
    pub fn follow(self, running: &Arc<RunningNode>) {
        let (channel, running) = (self.channel, Arc::downgrade(running));
        let work = move || {
            while let Some(running) = running.upgrade() {
                match channel.receive(Duration::from_secs(1)) {
                    Ok(Message::Changed { .. }) => running.node().forget_stored(),
                    Ok(_) | Err(ChannelFault::Silent) => {}
                    // Without the other process nobody tells of purges.
                    Err(_) => return running.node().forget_stored(),
                }
            }
        };
        if std::thread::Builder::new().name("successor".into()).spawn(work).is_err() {
            tracing::warn!("no thread follows the purges of the process that has taken over");
        }
    }
}

/// Events that wait to be told to the other process.
struct NewsQueue {
    told: SyncSender<LateNews>,
    /// `true` if an event found the queue full: everything counts as purged then. The other process
    /// fetches again, and serves nothing that was purged.
    is_overrun: Arc<AtomicBool>,
    /// Objects passed on, for this process if the other one does not come up.
    kept: Arc<Mutex<KeptObjects>>,
    /// Events that are not told yet.
    untold: Arc<AtomicUsize>,
}

/// Objects passed on to a process that is not trusted yet.
#[derive(Default)]
struct KeptObjects {
    objects: Vec<LateObject>,
    bytes: usize,
}

impl NewsQueue {
    /// Makes the queue, and a thread that tells its events.
    fn start(channel: &Arc<Channel>) -> Self {
        let (told, heard) = sync_channel::<LateNews>(NEWS_MAX);
        let is_overrun = Arc::new(AtomicBool::new(false));
        let untold = Arc::new(AtomicUsize::new(0));
        let (channel, overrun) = (Arc::downgrade(channel), Arc::clone(&is_overrun));
        let left = Arc::clone(&untold);
        let work = move || {
            while let Ok(news) = heard.recv() {
                let news = if overrun.swap(false, SeqCst) { LateNews::Changed(Change::All) } else { news };
                let Some(channel) = channel.upgrade() else { return };
                tell_until_heard(&channel, news);
                let before = left.fetch_sub(1, SeqCst);
                debug_assert!(before > 0, "an event that is told twice");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("tell-news".into()).spawn(work) {
            tracing::error!(%error, "no thread tells the new process of purges");
        }
        Self { told, is_overrun, kept: Arc::default(), untold }
    }

    /// Queues an event. Returns `false` if it cannot be told.
    fn tell(&self, news: LateNews) -> bool {
        if let LateNews::Stored(object) = &news {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.bytes + object.body.len() > KEPT_BYTES_MAX {
                return false;
            }
            kept.bytes += object.body.len();
            debug_assert!(kept.bytes <= KEPT_BYTES_MAX);
            kept.objects.push(object.clone());
        }
        let is_object = matches!(news, LateNews::Stored(_));
        self.untold.fetch_add(1, SeqCst);
        let sent = self.told.try_send(news);
        if sent.is_err() {
            self.untold.fetch_sub(1, SeqCst);
        }
        match sent {
            Ok(()) => true,
            // An object that is left out is fetched again.
            Err(TrySendError::Full(_)) if is_object => false,
            Err(TrySendError::Full(_)) => {
                self.is_overrun.store(true, SeqCst);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

/// Sends an event to the other process.
/// Tells an event, which the other process may take late. A purge that cannot be told becomes one
/// of everything.
fn tell_until_heard(channel: &Channel, mut news: LateNews) {
    loop {
        match send(channel, &news) {
            Ok(()) | Err(ChannelFault::Ended) => return,
            // While the other process starts, it may take none.
            Err(ChannelFault::Silent) => {}
            Err(_) if matches!(news, LateNews::Stored(_)) => return,
            Err(_) => {
                news = LateNews::Changed(Change::All);
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

fn send(channel: &Channel, news: &LateNews) -> Result<(), ChannelFault> {
    match news {
        LateNews::Changed(change) => channel.send(&Message::Changed { change: change.clone() }),
        LateNews::Removed(key) => channel.send(&Message::Removed { key: to_digits(key.full()) }),
        LateNews::Stored(object) => send_object(channel, object.key.full(), &object.metadata, &object.body),
    }
}

/// Returns the program that is at the place of the running one, as it was called.
fn own_program() -> PathBuf {
    std::env::args_os().next().map_or_else(|| "shoal".into(), PathBuf::from)
}

/// Longest wait for changes through the admin listener.
const CHANGES_WAIT_MAX: Duration = Duration::from_secs(2);

/// Interval of looks at a stop of the node.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Most events that wait to be told.
const NEWS_MAX: usize = 4096;

/// Most bytes of objects that are passed on.
const KEPT_BYTES_MAX: usize = 64 << 20;
