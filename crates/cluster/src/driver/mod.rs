//! Driver of the membership: a thread with its own runtime, the UDP socket, and calls to seeds.
//!
//! [`Cluster`] is the handle of the node. Workers read the view by one atomic load. The control
//! thread owns the socket and the keys in use. Calls of other nodes arrive on workers; they lock
//! the membership for the time of one message, never across an `await`.

mod changes;
mod control;
mod namesakes;
mod options;
mod refusals;
mod seeds;
mod service;
mod status;
#[cfg(test)]
mod tests;

pub use options::ClusterOptions;
pub use status::{ClusterStatus, DatagramStatus, MemberRow};

use crate::keys::{CallDirection, KeyRing, PeerIdentity, PeerTls};
use crate::membership::{Membership, NodeFacts, NodeIdentity, next_life};
use crate::{CallError, ClusterError, PeerCalls, PeerService};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use seeds::SeedAddresses;
use shoal_cooperation::{MemberState, NodeId, View};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, watch};

/// This node's membership of a cluster. Dropped, the node leaves.
pub struct Cluster {
    node: Arc<ClusterNode>,
    /// Handle of the socket, for another process.
    socket: std::net::UdpSocket,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State that the control thread, the service and the handle share.
struct ClusterNode {
    options: ClusterOptions,
    name: Arc<str>,
    membership: Mutex<Membership>,
    view: ArcSwap<View>,
    changes: watch::Sender<Arc<View>>,
    listener: Mutex<Option<ViewListener>>,
    ring: ArcSwap<KeyRing>,
    tls: ArcSwap<Option<PeerTls>>,
    join: Mutex<Vec<String>>,
    seeds: tokio::sync::Mutex<SeedAddresses>,
    refused: Mutex<Option<String>>,
    /// Last refusal of another node, so that each is told once in a while.
    refusals: Mutex<refusals::LastRefusal>,
    /// `true` while `refused` says that no seed answers.
    is_unanswered: AtomicBool,
    counters: status::Counters,
    calls: Arc<dyn PeerCalls>,
    wake: Notify,
    is_ending: AtomicBool,
    /// `true` while another process speaks for this node: nothing is read or sent.
    is_paused: AtomicBool,
    /// `true` once another process has taken this node over: the thread ends without a word.
    is_replaced: AtomicBool,
    started: Instant,
}

/// Function that is called with each view.
type ViewListener = Box<dyn Fn(Arc<View>) + Send + Sync>;

impl Cluster {
    /// Opens the socket, reads the keys and starts the control thread, which joins by itself.
    ///
    /// # Errors
    /// If the options or the key file cannot be used, or the socket or thread cannot be had.
    pub fn start(options: ClusterOptions, calls: Arc<dyn PeerCalls>) -> Result<Self, ClusterError> {
        Self::start_on(options, calls, None)
    }

    /// Starts likewise, on the socket of a process that was this node before.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_on(
        options: ClusterOptions,
        calls: Arc<dyn PeerCalls>,
        passed: Option<std::net::UdpSocket>,
    ) -> Result<Self, ClusterError> {
        let facts = options.facts()?;
        let ring = KeyRing::read(&options.cluster, options.key_file.as_deref())?;
        let identity = PeerIdentity { name: Arc::clone(&facts.name), address: facts.address };
        let tls = PeerTls::new(&ring, &identity)?;
        let bound = passed.map_or_else(|| std::net::UdpSocket::bind(options.peer), Ok);
        let sockets = bound
            .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
            .and_then(|socket| Ok((socket.try_clone()?, socket)))
            .map_err(|source| ClusterError::Socket { address: options.peer, source });
        let (kept, socket) = sockets?;
        let own = NodeIdentity::new(next_life(unix_ms(), 0), facts);
        let view = Arc::new(View::new(vec![own.member()], ring.placement_secret()));
        let node = Arc::new(ClusterNode {
            name: identity.name,
            membership: Mutex::new(Membership::new(own, random()?, Duration::ZERO)),
            view: ArcSwap::new(Arc::clone(&view)),
            changes: watch::Sender::new(view),
            listener: Mutex::default(),
            ring: ArcSwap::from_pointee(ring),
            tls: ArcSwap::from_pointee(tls),
            join: Mutex::new(options.join.clone()),
            seeds: tokio::sync::Mutex::default(),
            refused: Mutex::default(),
            refusals: Mutex::default(),
            is_unanswered: AtomicBool::new(false),
            counters: status::Counters::default(),
            calls,
            wake: Notify::new(),
            is_ending: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            is_replaced: AtomicBool::new(false),
            started: Instant::now(),
            options,
        });
        let control = control::Control::new(Arc::clone(&node), random()? >> 1)?;
        let thread = std::thread::Builder::new().name("cluster".into()).spawn(move || control.run(socket));
        let thread = Mutex::new(Some(thread.map_err(ClusterError::Thread)?));
        Ok(Self { node, socket: kept, thread })
    }

    /// Returns the members as this node sees them now.
    pub fn view(&self) -> Arc<View> {
        self.node.view.load_full()
    }

    /// Returns a receiver of each further view.
    pub fn changes(&self) -> watch::Receiver<Arc<View>> {
        self.node.changes.subscribe()
    }

    /// Calls a function with the view of now, and with each further view.
    pub fn on_change(&self, told: impl Fn(Arc<View>) + Send + Sync + 'static) {
        let mut listener = self.node.listener.lock();
        told(self.view());
        *listener = Some(Box::new(told));
    }

    /// Returns the service that answers calls of the names `members/…`.
    pub fn service(&self) -> Arc<dyn PeerService> {
        Arc::new(service::MembersService(Arc::clone(&self.node)))
    }

    /// Returns the number of this node.
    pub fn own(&self) -> NodeId {
        NodeId::named(&self.node.name)
    }

    /// Returns TLS between nodes with the keys now in force; `None` without keys.
    pub fn tls(&self) -> Option<PeerTls> {
        (**self.node.tls.load()).clone()
    }

    /// Makes this node a home: at the end of a join, or of a drain that is undone.
    pub fn admit(&self) {
        self.set_state(MemberState::In);
    }

    /// Takes this node out of the homes. It stays a member.
    pub fn drain(&self) {
        self.set_state(MemberState::Draining);
    }

    /// Exchanges lists with a node that has another view.
    pub fn exchange_with(&self, address: SocketAddr) {
        self.exchanger()(address);
    }

    /// Returns the function behind [`Self::exchange_with`], which outlives this handle.
    pub fn exchanger(&self) -> impl Fn(SocketAddr) + Send + Sync + use<> {
        let node = Arc::downgrade(&self.node);
        move |address| {
            if let Some(node) = node.upgrade() {
                node.membership.lock().exchange_with(address);
                node.wake.notify_one();
            }
        }
    }

    /// Takes other seeds, from a reload.
    pub fn set_join(&self, join: Vec<String>) {
        *self.node.join.lock() = join;
    }

    /// Reads the key file of the new settings. The old keys stay if the file cannot be used.
    ///
    /// # Errors
    /// If the file cannot be read, or no certificate can be made.
    pub fn reload_keys(&self, key_file: Option<&Path>) -> Result<(), ClusterError> {
        let node = &self.node;
        let ring = KeyRing::read(&node.options.cluster, key_file)?;
        let identity = PeerIdentity { name: Arc::clone(&node.name), address: node.options.peer };
        let tls = PeerTls::new(&ring, &identity)?;
        let (sealing, accepted) = (ring.sealing_key_id(), ring.keys().len());
        node.tls.store(Arc::new(tls));
        let before = node.ring.swap(Arc::new(ring));
        if (before.sealing_key_id(), before.keys().len()) != (sealing, accepted) {
            tracing::info!("the key file has changed: key {sealing:08x} seals, keys accepted: {accepted}");
        }
        node.publish();
        node.wake.notify_one();
        Ok(())
    }

    /// Returns the state for an operator.
    pub fn status(&self) -> ClusterStatus {
        let node = &self.node;
        let (all, own) = {
            let membership = node.membership.lock();
            (membership.status(), membership.own().clone())
        };
        let ring = node.ring.load();
        ClusterStatus {
            cluster: node.options.cluster.clone(),
            node: node.name.to_string(),
            address: node.options.peer,
            state: status::state_name(own.facts().state),
            life: own.life,
            key: if ring.is_keyless() { "none".into() } else { format!("{:08x}", ring.sealing_key_id()) },
            view: format!("{:016x}", node.view.load().fingerprint()),
            refused: node.refused.lock().clone(),
            members: status::rows(&all),
            datagrams: node.counters.status(),
        }
    }

    /// Tells the others that this node leaves, and ends the control thread.
    pub fn leave(&self) {
        self.node.is_ending.store(true, Relaxed);
        self.end();
    }

    fn end(&self) {
        self.node.wake.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the cluster ended by a panic");
        }
    }

    /// Returns a handle of the socket, for another process.
    ///
    /// # Errors
    /// If descriptors have run out.
    pub fn socket(&self) -> std::io::Result<std::net::UdpSocket> {
        self.socket.try_clone()
    }

    /// Lets another process speak for this node, or goes on after that. The other members notice
    /// nothing of a short pause.
    pub fn pause(&self, is_paused: bool) {
        self.node.is_paused.store(is_paused, Relaxed);
        self.node.wake.notify_one();
    }

    /// Returns `true` if another process has become this node.
    pub fn is_replaced(&self) -> bool {
        self.node.is_replaced.load(Relaxed) || self.node.is_paused.load(Relaxed)
    }

    /// Ends the control thread without a word to the others: another process is this node.
    pub fn end_replaced(&self) {
        self.node.is_replaced.store(true, Relaxed);
        self.end();
    }

    /// Puts this node on another level of a hierarchy, after a reload.
    pub fn set_level(&self, level: u8) {
        {
            let mut membership = self.node.membership.lock();
            let facts = NodeFacts { level, ..membership.own().facts().clone() };
            membership.set_facts(self.node.now(), facts);
        }
        self.node.wake.notify_one();
    }

    fn set_state(&self, state: MemberState) {
        self.node.membership.lock().set_state(self.node.now(), state);
        self.node.wake.notify_one();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.leave();
    }
}

impl ClusterNode {
    /// Returns the time since the start.
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Makes a call, with body and answer sealed by the cluster's key.
    async fn sealed_call(
        &self,
        to: SocketAddr,
        name: &'static str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, CallError> {
        let ring = self.ring.load_full();
        let sealed = ring.seal_call(CallDirection::Question, name, body);
        let sealed = sealed.map_err(|error| CallError::Unreachable(error.to_string()))?;
        let answer = self.calls.call(to, name, sealed.into()).await?;
        // Sealed before the call with keys of before a reload: either ring may open it.
        let rings = [ring, self.ring.load_full()];
        let opened = rings.iter().find_map(|ring| ring.open_call(CallDirection::Answer, name, &answer));
        opened.ok_or_else(|| CallError::Refused("its answer is not sealed with a key of this cluster".into()))
    }

    /// Puts the members in force as a view.
    fn publish(&self) {
        let members = self.membership.lock().members();
        let view = Arc::new(View::new(members, self.ring.load().placement_secret()));
        // The listener first: its guards are in force before anybody sees the view.
        if let Some(listener) = &*self.listener.lock() {
            listener(Arc::clone(&view));
        }
        let before = self.view.swap(Arc::clone(&view));
        let own = NodeId::named(&self.name);
        changes::lines(&before, &view, own).iter().for_each(changes::ChangeLine::log);
        if view.members().len() > 1 && self.is_unanswered.swap(false, Relaxed) {
            *self.refused.lock() = None;
        }
        self.changes.send_replace(view);
    }
}

/// Returns the clock in milliseconds since 1970.
fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn random() -> Result<u64, ClusterError> {
    let mut bytes = [0; 8];
    crate::keys::fill_random(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
