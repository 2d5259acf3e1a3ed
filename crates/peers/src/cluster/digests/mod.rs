//! Digests of the cluster: this node's, and those of the others as it pulls them.
//!
//! ```text
//!  stored ─► notes ─┐
//!  RAM, looked at ──┴► held objects ─► published digest ◄── digests/pull ── other nodes
//!  miss ─► holders() ◄─ known digests ◄── digests/pull ──► other nodes
//! ```
//!
//! Answers of a node carry the mark of its newest digest, so that a stale one is pulled soon.
//!
//! One thread with its own runtime builds the digest and pulls, once a second. It does nothing
//! unless `cluster.placement` is `directory`. Messages take at most 1% of the bytes that the node
//! serves, after a start of 256 KiB; a member is asked each 30 s in any case.

mod held;
mod pulling;

use crate::clock;
use crate::cluster::Membership;
use crate::hybrid_cache::{ContentNote, ContentNotes};
use crate::metrics::{Counter, Metrics};
use arc_swap::ArcSwap;
use bytes::Bytes;
use held::HeldObjects;
use parking_lot::Mutex;
use pulling::PullTurns;
use shoal_cluster::{CallError, CallFuture, Caller, PeerCalls, PeerService};
use shoal_cooperation::directory::{
    DigestAnswer, DigestBudget, DigestPull, DigestTrust, KnownDigests, PublishedDigest,
};
use shoal_cooperation::{Homes, Member, MemberState, NodeId, View};
use shoal_core::Key;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Judge of a key's hash: `true` if its object is held.
pub type HoldsKey<'a> = dyn Fn(Key) -> bool + 'a;

/// Contents of this node.
pub trait DigestSource: Send + Sync + 'static {
    /// Calls `work` with the notes of stored objects, unless the node ends.
    fn with_notes(&self, work: &mut dyn FnMut(&ContentNotes));

    /// Looks at the objects in RAM, at most `limit`.
    fn look(&self, limit: usize) -> Vec<ContentNote>;

    /// Drops the objects of the table that are not held: calls `work` with the judge of a hash.
    fn judge(&self, work: &mut dyn FnMut(&HoldsKey<'_>));
}

/// Digests, as this node takes part in them.
pub struct ClusterDigests {
    node: NodeId,
    is_on: AtomicBool,
    view: Box<dyn Fn() -> Arc<View> + Send + Sync>,
    calls: Arc<dyn PeerCalls>,
    source: Arc<dyn DigestSource>,
    metrics: Arc<Metrics>,
    started: Instant,
    published: Mutex<PublishedDigest>,
    known: ArcSwap<KnownDigests>,
    trust: Mutex<HashMap<NodeId, DigestTrust>>,
    /// Mark of the newest own digest, which answers of this node carry.
    mark: AtomicU64,
    /// Members that showed the mark of another digest than the known one.
    hints: Mutex<HashSet<NodeId>>,
    budget: Mutex<DigestBudget>,
    /// Keys of the latest misses for which no digest named a holder.
    missed: Mutex<VecDeque<Key>>,
}

/// Parts from which the digests of a cluster are built.
pub struct ClusterDigestsParts {
    /// This node.
    pub node: NodeId,
    /// Returns the members as this node sees them now.
    pub view: Box<dyn Fn() -> Arc<View> + Send + Sync>,
    /// Way to the other nodes.
    pub calls: Arc<dyn PeerCalls>,
    /// Contents of this node.
    pub source: Arc<dyn DigestSource>,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl ClusterDigests {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(parts: ClusterDigestsParts) -> io::Result<Arc<Self>> {
        let ClusterDigestsParts { node, view, calls, source, metrics } = parts;
        let digests = Arc::new(Self {
            node,
            is_on: AtomicBool::new(false),
            view,
            calls,
            source,
            metrics,
            started: Instant::now(),
            published: Mutex::new(PublishedDigest::new(clock::now().millis())),
            known: ArcSwap::default(),
            trust: Mutex::default(),
            mark: AtomicU64::new(0),
            hints: Mutex::default(),
            budget: Mutex::default(),
            missed: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let weak = Arc::downgrade(&digests);
        let thread = std::thread::Builder::new().name("cluster-digests".into());
        thread.spawn(move || runtime.block_on(work(weak)))?;
        Ok(digests)
    }

    /// Begins or ends to keep digests, after a reload.
    pub fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
        self.source.with_notes(&mut |notes| notes.set(is_on));
    }

    /// Returns the members that probably hold the object with this full key: at most two of those
    /// that may be asked, the ones that usually answer soonest first.
    pub fn holders(&self, members: &Membership, full_key: &[u8], is_among: &dyn Fn(NodeId) -> bool) -> Homes {
        let key = members.view.digest_key(full_key);
        let now = self.started.elapsed();
        let rank = |node: NodeId| {
            let is_trusted = self.trust.lock().get(&node).is_none_or(|trust| trust.is_trusted(now));
            let peer = members.peer(node).filter(|_| is_trusted && node != self.node && is_among(node))?;
            let usual = peer.status().p99.unwrap_or_default().as_millis() as u64;
            // Equal nodes share the keys.
            Some(usual << 32 | (key.high() ^ node.0).wrapping_mul(SPREAD) >> 32)
        };
        let holders = self.known.load().holders(key, rank);
        if holders[0].is_none() {
            let mut missed = self.missed.lock();
            missed.push_back(key);
            if missed.len() > MISSED_MAX {
                missed.pop_front();
            }
        }
        Homes::listed(holders.into_iter().flatten())
    }

    /// Records that a holder had the object, or had not.
    pub fn asked(&self, node: NodeId, found: bool) {
        match found {
            true => self.metrics.cluster_digest_hits.increment(),
            false => self.metrics.cluster_digest_false_hits.increment(),
        }
        if self.trust.lock().entry(node).or_default().note(found, self.started.elapsed()) {
            self.metrics.cluster_digest_distrusted.increment();
        }
    }

    /// Returns the mark of the newest own digest; 0 if there is none.
    pub fn mark(&self) -> u64 {
        self.mark.load(Relaxed)
    }

    /// Takes the mark of a member's newest digest, which came with an answer. A digest that is not
    /// known is pulled at the next tick.
    pub fn heard(&self, node: NodeId, mark: u64) {
        if mark != 0 && self.is_on.load(Relaxed) && self.known.load().version(node).mark() != mark {
            self.hints.lock().insert(node);
        }
    }

    fn others(&self) -> Vec<Member> {
        let view = (self.view)();
        let is_other = |member: &&Member| member.id != self.node && member.state != MemberState::Out;
        view.members().iter().filter(is_other).cloned().collect()
    }

    /// Takes bytes out of the budget, and counts them. Returns `false` if it does not cover them.
    fn pays(&self, bytes: u64) -> bool {
        let bodies: u64 = self.metrics.body_bytes.all().map(|(_, _, bytes)| bytes.value()).sum();
        let traffic = bodies + self.metrics.cluster_served_bytes.value();
        let is_covered = self.budget.lock().spend(traffic, bytes);
        if is_covered {
            self.metrics.cluster_digest_bytes.add(bytes);
        }
        is_covered
    }

    /// Brings the table up to date, and publishes the digest of it.
    fn build(&self, held: &mut HeldObjects, looks: bool) {
        let view = (self.view)();
        if view.members().is_empty() {
            // The secret of placement is not known yet.
            return;
        }
        let (mut notes, mut is_incomplete) = (Vec::new(), looks);
        self.source.with_notes(&mut |new| {
            let (new, is_missing) = new.take();
            notes.extend(new);
            is_incomplete |= is_missing;
        });
        if is_incomplete {
            notes.extend(self.source.look(held::OBJECTS_MAX));
        }
        for note in notes {
            let digest_key = view.digest_key(note.key.full());
            if !held.note(note.key.hash(), digest_key, note.fresh_until) {
                self.metrics.cluster_digest_left_out.increment();
            }
        }
        let until = u32::try_from(clock::now().seconds()).unwrap_or(u32::MAX);
        self.source.judge(&mut |is_held| held.keep(until, is_held));
        let version = {
            let mut published = self.published.lock();
            published.publish(held.digest_keys());
            published.version()
        };
        self.mark.store(version.mark(), Relaxed);
        set_gauge(&self.metrics.cluster_digest_keys, held.len() as u64);
    }
}

impl PeerService for ClusterDigests {
    fn answer(&self, _: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
        let asked = (name == "digests/pull").then(|| DigestPull::decode(&body));
        Box::pin(async move {
            let pull = asked.ok_or(CallError::Unknown)?.ok_or(CallError::Malformed(MALFORMED))?;
            if !self.is_on.load(Relaxed) {
                return Ok(DigestAnswer::Off.encode().into());
            }
            let answer = self.published.lock().since(pull.known);
            let bytes = answer.encode();
            let is_news = matches!(answer, DigestAnswer::Whole(_) | DigestAnswer::Delta(_));
            if is_news && !self.pays(bytes.len() as u64) {
                return Ok(DigestAnswer::Later.encode().into());
            }
            Ok(bytes.into())
        })
    }
}

/// Builds and pulls until the node has ended.
async fn work(digests: Weak<ClusterDigests>) {
    let (mut held, mut turns) = (HeldObjects::default(), PullTurns::default());
    let (mut looked, mut built) = (None::<Instant>, Instant::now());
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(digests) = digests.upgrade() else { return };
        if !digests.is_on.load(Relaxed) {
            if looked.take().is_some() {
                held.clear();
                turns = PullTurns::default();
                digests.published.lock().publish(held.digest_keys());
                digests.known.store(Arc::default());
                digests.mark.store(0, Relaxed);
                digests.hints.lock().clear();
                digests.trust.lock().clear();
                digests.missed.lock().clear();
                set_gauge(&digests.metrics.cluster_digest_keys, 0);
                set_gauge(&digests.metrics.cluster_digest_age, 0);
            }
            continue;
        }
        // A large table is built less often.
        if looked.is_none() || built.elapsed() >= TICK * (held.len() / BUILT_EACH_TICK) as u32 {
            let looks = looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
            digests.build(&mut held, looks);
            if looks {
                looked = Some(Instant::now());
            }
            built = Instant::now();
        }
        digests.pull_due(&mut turns).await;
    }
}

/// Sets a gauge that this thread alone changes.
fn set_gauge(gauge: &Counter, value: u64) {
    gauge.add(value.wrapping_sub(gauge.value()));
}

/// Interval of the thread's work.
const TICK: Duration = Duration::from_secs(1);

/// Interval at which RAM is looked at, for objects that the notes lack.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Objects for each second between two builds.
const BUILT_EACH_TICK: usize = 50_000;

/// Bytes of a pull and of an answer without news, with their heads.
const PULL_BYTES: u64 = 400;

/// Most misses that are remembered.
const MISSED_MAX: usize = 1024;

/// Odd number that spreads keys over equal holders.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

const MALFORMED: &str = "a malformed pull of a digest";
