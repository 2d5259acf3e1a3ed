//! This node's part in a cluster: the members as it sees them, and its links to them.
//!
//! [`ClusterHandle`] joins the parts. Object asks are made and answered by
//! `shoal_exchange`; calls are answered by the services that other crates add.

mod asked;
mod asked_before;
mod calls;
pub mod digests;
mod hit_share;
mod live;
mod load;
mod membership;
mod message_link;
mod peer;
pub mod purges;
mod report;
mod services;
pub mod shared_memory;

pub use crate::access::{DoorDecision, DoorWay, PeerDoor, peer_address};
pub use asked::AskRefusal;
pub use calls::CALLS;
pub use calls::HttpCalls;
pub use live::{ClusterInheritance, check_keys, check_reloaded_keys, level, reload_cluster, start_cluster};
pub use load::{AskInFlight, HomeLoad};
pub use membership::Membership;
pub use message_link::{IncomingMessage, LinkAnswer, LinkCall, MessageLink};
pub use peer::{PeerNode, PeerTally, PeerTrial};
pub use report::{AskCounts, ClusterReport, PeerRow, peer_state};
pub use services::PeerServices;

use crate::hybrid_cache::HybridCache;
use crate::metrics::Metrics;
use crate::upstream::{SetupError, Upstreams};
use arc_swap::ArcSwap;
use asked_before::AskedBefore;
use bytes::Bytes;
use digests::{ClusterDigests, ClusterDigestsParts, DigestSource};
use parking_lot::Mutex;
use purges::{ClusterPurges, ClusterPurgesParts, PurgeService, PurgeTarget};
use shared_memory::{ClusterMemory, CpuTime};
use shoal_cluster::{CallError, PeerCalls};
use shoal_cooperation::invalidation::Coverage;
use shoal_cooperation::{Heat, HomeHistory, Homes, NodeId, View};
use shoal_core::{Key, KeySecret};
use shoal_settings::{Placement, Settings};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// This node's part in a cluster.
pub struct ClusterHandle {
    own: NodeId,
    name: Arc<str>,
    address: SocketAddr,
    members: ArcSwap<Membership>,
    links: Upstreams,
    calls: Arc<HttpCalls>,
    services: PeerServices,
    door: Arc<PeerDoor>,
    invalidation: OnceLock<Arc<ClusterPurges>>,
    digests: OnceLock<Arc<ClusterDigests>>,
    memory: OnceLock<Arc<ClusterMemory>>,
    load: Arc<HomeLoad>,
    heat: Mutex<Heat>,
    /// Keys of plain requests that have their home elsewhere.
    pub asked_before: AskedBefore,
    started: Instant,
    /// Longest wait for a sign of life of peers, in milliseconds.
    peer_timeout_ms: AtomicU64,
    /// Homes of before the last changes.
    past: Mutex<HomeHistory>,
    /// Asks of previous homes without a copy, one after the other, since the last change.
    holders_in_vain: AtomicU32,
    /// Exchanges lists with the node at an address.
    exchange: OnceLock<ListExchange>,
}

/// Function that exchanges lists of members with the node at an address.
type ListExchange = Box<dyn Fn(SocketAddr) + Send + Sync>;

impl ClusterHandle {
    /// Creates the part of a node with these settings, which are known to name a cluster and an
    /// address for peers.
    ///
    /// # Errors
    /// If the links cannot be set up.
    pub fn new(settings: &Settings) -> Result<Option<Arc<Self>>, SetupError> {
        let Some(address) = peer_address(settings) else { return Ok(None) };
        let cluster = &settings.cluster;
        let door = Arc::new(PeerDoor::new(cluster.trusted_networks.clone()));
        // The counters of origins do not count peers.
        let links = Upstreams::to_peers(settings, address.ip(), Arc::clone(&door), Arc::default())?;
        let name: Arc<str> = match cluster.node.is_empty() {
            true => address.to_string().into(),
            false => cluster.node.as_str().into(),
        };
        let view = Arc::new(View::new(Vec::new(), KeySecret::NONE));
        Ok(Some(Arc::new(Self {
            own: NodeId::named(&name),
            name,
            address,
            members: ArcSwap::from_pointee(Membership::of(&HashMap::new(), view, cluster.peer_timeout)),
            calls: Arc::new(HttpCalls::new(links.clone(), cluster.peer_timeout)),
            links,
            services: PeerServices::default(),
            door,
            invalidation: OnceLock::new(),
            digests: OnceLock::new(),
            memory: OnceLock::new(),
            load: HomeLoad::new(),
            heat: Mutex::new(Heat::new(HOT_KEYS_MAX)),
            asked_before: AskedBefore::new(),
            started: Instant::now(),
            peer_timeout_ms: AtomicU64::new(cluster.peer_timeout.as_millis() as u64),
            past: Mutex::default(),
            holders_in_vain: AtomicU32::new(0),
            exchange: OnceLock::new(),
        })))
    }

    /// Returns the number of this node.
    pub fn own(&self) -> NodeId {
        self.own
    }

    /// Returns the name of this node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address of this node for its peers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the members as this node sees them now.
    pub fn members(&self) -> arc_swap::Guard<Arc<Membership>> {
        self.members.load()
    }

    /// Puts another view in force. Nodes that stay keep their connections.
    pub fn set_view(&self, view: Arc<View>) {
        let before = self.members.load();
        self.door.members().note(view.members().iter().map(|member| member.address));
        if before.view.fingerprint() != view.fingerprint() {
            self.past.lock().changed(&before.view, &view, self.own, self.started.elapsed());
            self.holders_in_vain.store(0, Relaxed);
        }
        self.members.store(Arc::new(Membership::of(&before.peers, view, self.peer_timeout())));
        if let Some(purges) = self.invalidation() {
            purges.members_changed(&before.view);
        }
    }

    /// Returns the node that may hold the object of a key from before a change of the homes. Nobody
    /// is named after many previous homes in a row had no copy.
    pub fn previous_home(&self, full_key: &[u8]) -> Option<NodeId> {
        if self.holders_in_vain.load(Relaxed) >= HOLDERS_IN_VAIN_MAX {
            return None;
        }
        let members = self.members.load();
        self.past.lock().previous_home(full_key, &members.view, self.own, self.started.elapsed())
    }

    /// Notes that a previous home had a copy, or had none.
    pub fn note_previous_home(&self, had_copy: bool) {
        let in_vain = self.holders_in_vain.load(Relaxed);
        self.holders_in_vain.store(if had_copy { 0 } else { in_vain.saturating_add(1) }, Relaxed);
    }

    /// Sets the function that exchanges lists with a node that has another view.
    pub fn on_other_view(&self, exchange: impl Fn(SocketAddr) + Send + Sync + 'static) {
        let is_first = self.exchange.set(Box::new(exchange)).is_ok();
        assert!(is_first, "the membership starts once");
    }

    /// Takes the fingerprint of a node's view. Exchanges lists if it is another one, at most once a
    /// second for each node.
    pub fn heard_view(&self, peer: &PeerNode, fingerprint: u64) {
        if fingerprint != self.members.load().view.fingerprint()
            && peer.may_exchange()
            && let Some(exchange) = self.exchange.get()
        {
            exchange(peer.target.address());
        }
    }

    /// Returns the longest wait for a sign of life of a peer, and of all peers of a request.
    pub fn peer_timeout(&self) -> Duration {
        Duration::from_millis(self.peer_timeout_ms.load(Relaxed))
    }

    /// Takes the settings that may change without a restart.
    pub fn reload(&self, settings: &Settings) {
        let longest = settings.cluster.peer_timeout;
        self.peer_timeout_ms.store(longest.as_millis() as u64, Relaxed);
        self.members.load().peers.values().for_each(|peer| peer.set_longest(longest));
        if let Some(purges) = self.invalidation() {
            purges.set_validate_after(settings.cluster.validate_after);
        }
        if let Some(digests) = self.digests() {
            digests.set(asks_by_digests(settings));
        }
        self.shared_memory().into_iter().for_each(|memory| memory.set(settings));
    }

    /// Returns the asks in flight at this node, and those of others as they tell them.
    pub fn load(&self) -> &HomeLoad {
        &self.load
    }

    /// Counts an ask for a key. Returns the lease for a copy if the object is hot.
    pub fn heated(&self, key: Key, draw: u64) -> Option<Duration> {
        self.heat.lock().asked(key, 1, draw, self.started.elapsed())
    }

    /// Returns the hottest keys of this node as home, with their rates.
    pub fn hottest(&self) -> Vec<(Key, f32)> {
        self.heat.lock().hottest(HOT_KEYS_MAX)
    }

    /// Returns the hash of the purges that this node has applied, or is about to.
    pub fn purges(&self) -> u64 {
        self.invalidation().map_or(0, |purges| purges.vector_hash())
    }

    /// Returns `true` if this node has applied all purges of the node `from`, which shows the hash
    /// `theirs`. If it may lack some, it asks that node for them first, for at most `patience`.
    pub async fn covers_purges(&self, from: NodeId, theirs: u64, patience: Duration) -> bool {
        let Some(purges) = self.invalidation() else { return theirs == 0 };
        if purges.covers(theirs) == Coverage::Covered {
            return true;
        }
        let caught_up = tokio::time::timeout(patience, purges.catch_up_with(from)).await;
        caught_up == Ok(true) && purges.covers(theirs) == Coverage::Covered
    }

    /// Returns `true` if this node surely has the purges of a node that shows the hash `theirs`.
    /// Takes no lock.
    pub fn has_purges_of(&self, theirs: u64) -> bool {
        self.invalidation().map_or(0, |purges| purges.recorded_hash()) == theirs
    }

    /// Returns the number of other nodes that are homes.
    pub fn other_homes(&self) -> usize {
        let members = self.members.load();
        members.view.members().iter().filter(|member| member.id != self.own && member.is_home()).count()
    }

    /// Returns the links to other nodes.
    pub fn links(&self) -> &Upstreams {
        &self.links
    }

    /// Returns the way to call other nodes.
    pub fn calls(&self) -> Arc<dyn PeerCalls> {
        Arc::clone(&self.calls) as Arc<_>
    }

    /// Calls a member.
    ///
    /// # Errors
    /// If the node refuses the call, or cannot be reached.
    pub async fn call_peer(
        &self,
        peer: &PeerNode,
        name: &'static str,
        body: Bytes,
    ) -> Result<Bytes, CallError> {
        self.calls.ask(&peer.target, name, body).await
    }

    /// Returns the services that answer calls of other nodes.
    pub fn services(&self) -> &PeerServices {
        &self.services
    }

    /// Starts to take part in the cluster's purges. `journal` is the path of their file, for a node
    /// that stores on disk.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start_purges(
        self: &Arc<Self>,
        target: Arc<dyn PurgeTarget>,
        journal: Option<&Path>,
        metrics: &Arc<Metrics>,
    ) -> std::io::Result<()> {
        let members = Arc::downgrade(self);
        let none = Arc::new(View::new(Vec::new(), KeySecret::NONE));
        let view = move || members.upgrade().map_or(Arc::clone(&none), |it| Arc::clone(&it.members().view));
        let (node, calls, metrics) = (self.own, self.calls(), Arc::clone(metrics));
        let parts = ClusterPurgesParts { node, view: Box::new(view), calls, target, metrics };
        let purges = ClusterPurges::start(parts, journal)?;
        self.services.add("purges/", Arc::new(PurgeService(Arc::clone(&purges))));
        let is_first = self.invalidation.set(purges).is_ok();
        assert!(is_first, "purges start once");
        Ok(())
    }

    /// Returns the purges of the cluster, once they have started.
    pub fn invalidation(&self) -> Option<&Arc<ClusterPurges>> {
        self.invalidation.get()
    }

    /// Starts to keep digests of the contents of nodes, if the placement asks for them.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start_digests(
        self: &Arc<Self>,
        source: Arc<dyn DigestSource>,
        (settings, metrics): (&Settings, &Arc<Metrics>),
    ) -> std::io::Result<()> {
        let members = Arc::downgrade(self);
        let none = Arc::new(View::new(Vec::new(), KeySecret::NONE));
        let view = move || members.upgrade().map_or(Arc::clone(&none), |it| Arc::clone(&it.members().view));
        let (node, calls, metrics) = (self.own, self.calls(), Arc::clone(metrics));
        let parts = ClusterDigestsParts { node, view: Box::new(view), calls, source, metrics };
        let digests = ClusterDigests::start(parts)?;
        digests.set(asks_by_digests(settings));
        self.services.add("digests/", Arc::clone(&digests) as Arc<_>);
        let is_first = self.digests.set(digests).is_ok();
        assert!(is_first, "digests start once");
        Ok(())
    }

    /// Returns the digests, once they have started.
    pub fn digests(&self) -> Option<&Arc<ClusterDigests>> {
        self.digests.get()
    }

    /// Starts to share memory with other nodes, if the settings ask for it.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start_memory(
        self: &Arc<Self>,
        cache: &HybridCache,
        parts: (&Settings, &Arc<Metrics>, CpuTime),
    ) -> std::io::Result<()> {
        let memory = ClusterMemory::start(self, cache, parts)?;
        self.services.add("memory/", Arc::clone(&memory) as Arc<_>);
        let is_first = self.memory.set(memory).is_ok();
        assert!(is_first, "memory is shared once");
        Ok(())
    }

    /// Returns the shared memory, once it has started.
    pub fn shared_memory(&self) -> Option<&Arc<ClusterMemory>> {
        self.memory.get()
    }

    /// Returns the mark of this node's newest digest; 0 if it publishes none.
    pub fn digest_mark(&self) -> u64 {
        self.digests().map_or(0, |digests| digests.mark())
    }

    /// Returns the members that probably hold the object with this full key.
    pub fn holders(&self, full_key: &[u8]) -> Homes {
        self.holders_among(full_key, |_, _| true)
    }

    /// Returns the siblings that probably hold the object with this full key, for a node of this
    /// level.
    pub fn siblings(&self, full_key: &[u8], level: u8) -> Homes {
        self.holders_among(full_key, |view, node| view.is_sibling(self.own, level, node))
    }

    fn holders_among(&self, full_key: &[u8], is_among: impl Fn(&View, NodeId) -> bool) -> Homes {
        let (members, digests) = (self.members(), self.digests());
        let is_among = |node| is_among(&members.view, node);
        digests.map_or(Homes::default(), |digests| digests.holders(&members, full_key, &is_among))
    }

    /// Returns the judge of connections between nodes.
    pub fn door(&self) -> &Arc<PeerDoor> {
        &self.door
    }
}

/// Returns `true` if digests say which nodes are asked: any node, or siblings in a hierarchy.
fn asks_by_digests(settings: &Settings) -> bool {
    matches!(settings.cluster.placement, Placement::Directory | Placement::Hierarchy)
}

/// Most objects of which a home knows how often they are asked for.
const HOT_KEYS_MAX: usize = 1024;

/// Previous homes in a row without a copy after which no more are asked until the next change.
const HOLDERS_IN_VAIN_MAX: u32 = 64;

#[cfg(test)]
mod membership_tests {
    use super::*;
    use shoal_cooperation::{Member, MemberState};

    fn settings(join: &[&str]) -> Settings {
        let mut settings = Settings::default();
        settings.cluster.name = "prod".into();
        settings.cluster.peer = Some(([127, 0, 0, 1], 3131).into());
        settings.cluster.join = join.iter().map(|&name| name.into()).collect();
        settings
    }

    fn member(address: &str) -> Member {
        let name: Arc<str> = address.into();
        let (id, address) = (NodeId::named(&name), address.parse().expect("an address"));
        Member { id, name, address, weight: 1.0, state: MemberState::In, life: 1, level: 0 }
    }

    fn handle(others: &[&str]) -> Arc<ClusterHandle> {
        let handle = ClusterHandle::new(&settings(&[])).expect("sound settings").expect("a cluster");
        let members = others.iter().map(|address| member(address)).chain([member("127.0.0.1:3131")]);
        handle.set_view(Arc::new(View::new(members.collect(), KeySecret::NONE)));
        handle
    }

    #[test]
    fn members_are_known_by_their_addresses() {
        let handle = handle(&["127.0.0.2:3131"]);
        let members = handle.members();
        assert!(members.view.member(handle.own()).is_some() && members.peer(handle.own()).is_some());
        let addresses = ["127.0.0.2", "::ffff:127.0.0.1", "127.0.0.3"];
        let known = addresses.map(|address| members.has_address(address.parse().expect("an address")));
        assert_eq!(known, [true, true, false]);
    }

    #[test]
    fn another_view_keeps_the_ways_to_nodes_that_stay() {
        let handle = handle(&["127.0.0.2:3131"]);
        let before = Arc::clone(&handle.members());
        let mut members = before.view.members().to_vec();
        let moved = members.iter_mut().find(|member| member.id != handle.own()).expect("two members");
        moved.address = ([127, 0, 0, 3], 3131).into();
        let moved = moved.id;
        handle.set_view(Arc::new(View::new(members, KeySecret::NONE)));
        let after = handle.members();
        let is_kept = |node| Arc::ptr_eq(before.peer(node).expect("there"), after.peer(node).expect("there"));
        assert!(is_kept(handle.own()) && !is_kept(moved));
    }

    #[test]
    fn other_view_exchanges_lists_once_a_second() {
        let handle = handle(&["127.0.0.2:3131"]);
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        handle.on_other_view(move |address| heard.lock().push(address));
        let members = Arc::clone(&handle.members());
        let peer = members.peer(NodeId::named("127.0.0.2:3131")).expect("a member");
        handle.heard_view(peer, members.view.fingerprint());
        assert!(told.lock().is_empty(), "the same view");
        (0..100).for_each(|_| handle.heard_view(peer, 1));
        assert_eq!(*told.lock(), [peer.target.address()]);
    }

    #[test]
    fn node_that_joins_asks_homes_of_before() {
        let handle = handle(&["127.0.0.2:3131", "127.0.0.3:3131"]);
        let view = Arc::clone(&handle.members().view);
        for number in 0..50 {
            let key = format!("http://a.test/{number}");
            let homes: Vec<_> = view.homes(key.as_bytes()).iter().collect();
            if homes[0] == handle.own() {
                assert_eq!(handle.previous_home(key.as_bytes()), Some(homes[1]));
            }
        }
        (0..HOLDERS_IN_VAIN_MAX).for_each(|_| handle.note_previous_home(false));
        assert_eq!(handle.previous_home(b"http://a.test/"), None, "they are cold");
    }

    #[test]
    fn without_a_name_there_is_no_cluster() {
        let mut alone = settings(&[]);
        alone.cluster.name.clear();
        assert!(ClusterHandle::new(&alone).expect("sound settings").is_none());
    }
}
