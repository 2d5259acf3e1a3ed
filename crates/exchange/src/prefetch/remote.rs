//! Global prefetching: an object of which another node is the home is fetched there.
//!
//! Voelker 2000, section 4.3. The paper prefetches into the memory of any node that gives pages,
//! and a directory says later which one has them. A cluster of Shoal has homes by hash instead, so
//! that the home alone is asked. The rest is the paper's: values, an epoch with the weights of the
//! nodes, at most B requests outstanding, and acknowledgements that tell the rest of a weight.
//!
//! ```text
//!   this node                               the home
//!   prefetch/report ───────────────────────►  NodeReport, every epoch
//!   w > 0, value > MaxValue, B not reached?
//!   prefetch/ask    ───────────────────────►  hint of the source `peer`, its own budgets
//!                   ◄───────────────────────  begun or refused, and the rest of w
//! ```
//!
//! A node plans an epoch for itself from the reports: it alone prefetches by it. A home that
//! refuses, or gives nothing, leaves the object to this node's own cache. Another node may lie: its
//! request is a hint like any other, and its promise costs a request at most.

use super::fetching::context;
use super::hint::{Hint, HintPlace, UNKNOWN_READER};
use super::place::{HintAuthor, place_of};
use super::{Prefetcher, now_seconds};
use crate::CacheEngine;
use crate::cluster::ClusterHandle;
use crate::peers::may_ask;
use crate::request::RequestContext;
use crate::settings::ExchangeSettings;
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_cluster::{CallError, CallFuture, Caller, PeerService};
use shoal_cooperation::NodeId;
use shoal_cooperation::prefetch::{
    BufferGroup, Epoch, HintSource, NodeReport, PrefetchMessage, PrefetchRequester, SourceHold, Value, plan,
};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// This node's knowledge of the others, for one epoch.
#[derive(Default)]
pub(super) struct RemoteMemory {
    state: Mutex<Option<RemoteEpoch>>,
    number: AtomicU64,
}

struct RemoteEpoch {
    epoch: Epoch,
    nodes: Vec<NodeId>,
    requester: PrefetchRequester,
    /// Time since which reports are on their way.
    planning_since: Option<f64>,
}

/// Result of an ask.
pub(super) enum FetchPlace {
    /// The home fetches the object.
    AtHome,
    /// The object is this node's own to fetch.
    Here,
}

impl RemoteMemory {
    /// Returns the node to ask, if the epoch says that it gives objects worth less than this one.
    /// The request is then outstanding.
    fn begin(&self, home: NodeId, value: Value, now: f64) -> BeginOutcome {
        let mut state = self.state.lock();
        let Some(known) = state.as_mut().filter(|known| known.epoch.ending(now).is_none()) else {
            let since = state.as_ref().and_then(|known| known.planning_since);
            let is_planning = since.is_some_and(|since| now < since + EPOCH_SECONDS);
            if !is_planning {
                let requester = PrefetchRequester::new(usize::MAX - 1, OUTSTANDING_MAX);
                let (epoch, planning_since) = (Epoch::default(), Some(now));
                *state = Some(RemoteEpoch { epoch, nodes: Vec::new(), requester, planning_since });
            }
            return if is_planning { BeginOutcome::Here } else { BeginOutcome::Plan };
        };
        let Some(at) = known.nodes.iter().position(|node| *node == home) else { return BeginOutcome::Here };
        let gives = known.epoch.left().get(at).is_some_and(|left| *left > 0);
        let is_worth_it = value > known.epoch.max_value(now);
        match gives && is_worth_it && known.requester.begin() {
            true => BeginOutcome::Ask,
            false => BeginOutcome::Here,
        }
    }

    fn acknowledged(&self, home: NodeId, left: u64) {
        let mut state = self.state.lock();
        let Some(known) = state.as_mut() else { return };
        known.requester.acknowledged();
        debug_assert!(known.epoch.left().len() <= NODES_MAX, "an epoch has a limit");
        if let Some(at) = known.nodes.iter().position(|node| *node == home) {
            known.epoch.acknowledged(at, left);
        }
    }

    fn planned(&self, nodes: Vec<NodeId>, reports: &[NodeReport], now: f64) {
        let epoch = plan(reports, WANTED, now, EPOCH_SECONDS).unwrap_or_default();
        let requester = PrefetchRequester::new(usize::MAX - 1, OUTSTANDING_MAX);
        *self.state.lock() = Some(RemoteEpoch { epoch, nodes, requester, planning_since: None });
    }
}

enum BeginOutcome {
    Ask,
    Here,
    /// No epoch is known: this caller plans one.
    Plan,
}

/// Lets the home of a key fetch a hinted object, if it is another node and gives memory.
pub(super) async fn place(engine: &Arc<CacheEngine>, ask: &RequestContext, hint: &Hint) -> FetchPlace {
    let Some(cluster) = ask.live.cluster.as_ref().filter(|_| ask.live.asks_homes && may_ask(ask)) else {
        return FetchPlace::Here;
    };
    let Some(url) = url_for_home(hint) else { return FetchPlace::Here };
    let home = cluster.members().view.homes(ask.primary.full()).first();
    let Some(home) = home.filter(|home| *home != cluster.own()) else { return FetchPlace::Here };
    let remote = &engine.prefetcher.remote;
    let value = Value::until(hint.needed_in_seconds);
    let mut begun = remote.begin(home, value, now_seconds());
    if matches!(begun, BeginOutcome::Plan) {
        plan_epoch(engine, cluster).await;
        begun = remote.begin(home, value, now_seconds());
    }
    if !matches!(begun, BeginOutcome::Ask) {
        return FetchPlace::Here;
    }
    let number = remote.number.fetch_add(1, Ordering::Relaxed);
    let message = PrefetchMessage::Ask { number, value, url };
    let answer = call(cluster, home, ASK, &message).await;
    match answer {
        Some(PrefetchMessage::Begun { number: of, is_taken, left }) if of == number => {
            remote.acknowledged(home, left);
            if is_taken { FetchPlace::AtHome } else { FetchPlace::Here }
        }
        // Silent, or a liar: it gives nothing until the next epoch.
        _ => {
            remote.acknowledged(home, 0);
            FetchPlace::Here
        }
    }
}

/// Returns the URL of a hint that the home may fetch: a whole object, hinted at this node. A place
/// below a mirror has a URL of its own kind, since each node may reach the registry by another
/// name.
///
/// A node that another one has asked fetches itself. Views of the cluster may differ, and two nodes
/// that each take the other for the home would pass the hint on in a circle.
fn url_for_home(hint: &Hint) -> Option<String> {
    if hint.source == HintSource::Peer || hint.range.is_some() {
        return None;
    }
    match &hint.place {
        HintPlace::Url { url, .. } => Some(url.clone()),
        // Documents differ by the fields of their request, which do not travel.
        HintPlace::Mirror { mirror, path } => {
            hint.fields.is_empty().then(|| format!("{MIRROR}{mirror}:{path}"))
        }
    }
}

/// Returns the place of a URL that another node has sent.
fn place_at_home(live: &ExchangeSettings, url: &str) -> Option<HintPlace> {
    let Some(below) = url.strip_prefix(MIRROR) else {
        return place_of(live, url, HintAuthor::Operator).ok();
    };
    let (mirror, path) = below.split_once(':').filter(|(_, path)| path.starts_with('/'))?;
    live.mirrors.named(mirror)?;
    Some(HintPlace::Mirror { mirror: mirror.to_owned(), path: path.to_owned() })
}

/// Asks all members for their reports and plans an epoch.
async fn plan_epoch(engine: &Arc<CacheEngine>, cluster: &Arc<ClusterHandle>) {
    let own = cluster.own();
    let nodes: Vec<NodeId> = {
        let members = cluster.members();
        let homes = members.view.members().iter().filter(|member| member.is_home() && member.id != own);
        homes.map(|member| member.id).take(NODES_MAX).collect()
    };
    let mut asks = tokio::task::JoinSet::new();
    for (at, node) in nodes.iter().copied().enumerate() {
        let cluster = Arc::clone(cluster);
        asks.spawn(async move {
            let own = PrefetchMessage::Report(NodeReport::default());
            let report = match call(&cluster, node, REPORT, &own).await {
                Some(PrefetchMessage::Report(report)) => report,
                _ => NodeReport::default(),
            };
            (at, report)
        });
    }
    let mut reports = vec![NodeReport::default(); nodes.len()];
    while let Some(told) = asks.join_next().await {
        if let Ok((at, report)) = told {
            reports[at] = report;
        }
    }
    engine.prefetcher.remote.planned(nodes, &reports, now_seconds());
}

async fn call(
    cluster: &ClusterHandle,
    node: NodeId,
    name: &'static str,
    message: &PrefetchMessage,
) -> Option<PrefetchMessage> {
    let peer = cluster.members().peer(node).cloned()?;
    let mut body = Vec::new();
    message.encode(&mut body);
    let answer = cluster.call_peer(&peer, name, body.into()).await.ok()?;
    PrefetchMessage::decode(&answer)
}

/// Answers other nodes' calls about prefetching.
pub struct PrefetchService(pub Weak<CacheEngine>);

impl PeerService for PrefetchService {
    fn answer(&self, caller: Caller, name: &str, body: Bytes) -> CallFuture<'_> {
        let is_ask = name == ASK;
        let is_report = name == REPORT;
        Box::pin(async move {
            let engine = self.0.upgrade().ok_or_else(|| CallError::Refused("the node ends".into()))?;
            let message = PrefetchMessage::decode(&body).ok_or(CallError::Malformed("no message"))?;
            let reply = match message {
                PrefetchMessage::Ask { number, value, url } if is_ask => {
                    let (is_taken, left) = take(&engine, &url, value, caller.address.ip());
                    PrefetchMessage::Begun { number, is_taken, left }
                }
                PrefetchMessage::Report(_) if is_report => PrefetchMessage::Report(own_report(&engine)),
                _ if is_ask || is_report => return Err(CallError::Malformed("another message")),
                _ => return Err(CallError::Unknown),
            };
            let mut answer = Vec::new();
            reply.encode(&mut answer);
            Ok(answer.into())
        })
    }
}

/// Takes another node's hint. Returns the number of objects left to give, too.
fn take(engine: &Arc<CacheEngine>, url: &str, value: Value, asker: IpAddr) -> (bool, u64) {
    let live = engine.live();
    // Memory that is worth less than the hinted object.
    let buffers = own_report(engine).buffers;
    let left = buffers.iter().filter(|group| group.value < value).map(|group| group.count).sum::<u64>();
    let Some(place) = place_at_home(&live, url) else { return (false, left) };
    if left == 0 {
        return (false, 0);
    }
    let needed_in_seconds = value.until_us() as f64 / 1e6;
    // The other node's client is not known here, and this node's own rights are not its.
    let hint = Hint::new(HintSource::Peer, place).read_by(UNKNOWN_READER);
    // A hint that the rules refuse is not taken: the other node would count it as placed.
    if context(engine, &hint, &Arc::default()).is_none() {
        return (false, left);
    }
    let hint = Hint { needed_in_seconds, asker: Some(asker), ..hint };
    let (now, demand) = (now_seconds(), engine.metrics.upstream_body_bytes.value());
    let is_taken = {
        let mut state = engine.prefetcher.state.lock();
        // Other holds end with the next answer, or the next use.
        let hold = state.hold_of(hint.account(), &live.prefetch, (now, demand));
        !matches!(hold, Some(SourceHold::Muted { .. })) && state.add_placed(hint, now)
    };
    Prefetcher::begin(engine);
    (is_taken, left - u64::from(is_taken))
}

/// Returns this node's report: its processors, and the memory that it gives.
fn own_report(engine: &CacheEngine) -> NodeReport {
    let prefetcher = &engine.prefetcher;
    let processor = f64::from(prefetcher.cpu.load(Ordering::Relaxed).min(100)) / 100.0;
    let ([.., unused, unused_bytes], waiting) = {
        let state = prefetcher.state.lock();
        (state.sizes(), state.origins.room() as u64)
    };
    let settings = &engine.live().prefetch;
    let budget = settings.bytes.0.saturating_sub(unused_bytes) / MEAN_BYTES;
    let ledger = engine.cache.objects.ledger();
    let free = ledger.limit().saturating_sub(ledger.used()) / MEAN_BYTES;
    let room = budget.min(ROOM_MAX.saturating_sub(unused)).min(waiting);
    let mut buffers = vec![BufferGroup { value: Value::NEVER, count: free.min(room) }];
    let live = engine.live();
    if let Some(memory) = live.cluster.as_ref().and_then(|cluster| cluster.shared_memory()) {
        buffers.extend(groups_of(&memory.oldest_ages(GROUPED_MAX), room));
    }
    NodeReport { processor, buffers }
}

/// Returns groups of about equal age, the oldest first, of `room` objects at most.
fn groups_of(ages: &[Duration], room: u64) -> Vec<BufferGroup> {
    let ages = &ages[..ages.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
    let size = ages.len().div_ceil(GROUPS).max(1);
    debug_assert!(ages.is_sorted_by(|before, after| before >= after), "the oldest first");
    let group = |ages: &[Duration]| {
        let youngest = ages.last().copied().unwrap_or_default();
        BufferGroup { value: Value::unhinted(youngest.as_secs_f64()), count: ages.len() as u64 }
    };
    ages.chunks(size).map(group).collect()
}

/// Names of the calls.
const ASK: &str = "prefetch/ask";
const REPORT: &str = "prefetch/report";
/// B: requests outstanding at most.
const OUTSTANDING_MAX: usize = 8;
/// Longest epoch in seconds.
const EPOCH_SECONDS: f64 = 5.0;
/// Objects that an epoch is planned for.
const WANTED: u64 = 1024;
/// Most nodes of an epoch.
const NODES_MAX: usize = 200;
/// Most objects that wait for a client at one node.
const ROOM_MAX: u64 = 4096;
/// Beginning of the URL of a place below a mirror.
const MIRROR: &str = "mirror:";
/// Pages of other nodes in a report, and the groups that they are told in.
const GROUPED_MAX: usize = 1024;
const GROUPS: usize = 8;
/// Bytes that one object is taken for, while its length is unknown.
const MEAN_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: u64) -> NodeReport {
        NodeReport { processor: 0.1, buffers: vec![BufferGroup { value: Value::NEVER, count }] }
    }

    #[test]
    fn homes_are_asked_while_they_give() {
        let (remote, nodes) = (RemoteMemory::default(), vec![NodeId(1), NodeId(2)]);
        let begin = |node| remote.begin(NodeId(node), Value::NOW, 1.0);
        assert!(matches!(begin(1), BeginOutcome::Plan) && matches!(begin(1), BeginOutcome::Here));
        remote.planned(nodes, &[report(2), report(0)], 1.0);
        assert!(matches!(begin(1), BeginOutcome::Ask));
        assert!(matches!(begin(2), BeginOutcome::Here), "it gives nothing");
        assert!(matches!(begin(3), BeginOutcome::Here), "it is no member");
        remote.acknowledged(NodeId(1), 0);
        assert!(matches!(begin(1), BeginOutcome::Here), "nothing is left");
        assert!(matches!(remote.begin(NodeId(1), Value::NOW, 7.0), BeginOutcome::Plan), "the next epoch");
    }

    #[test]
    fn hint_of_a_peer_is_fetched_here() {
        let place = HintPlace::Url { url: "http://a.test/".into(), listener: 0, key: 1, is_site: true };
        for source in HintSource::ALL {
            let hint = Hint::new(source, place.clone());
            assert_eq!(url_for_home(&hint).is_some(), source != HintSource::Peer, "{}", source.name());
            assert_eq!(url_for_home(&hint.with_range(0, 9)), None, "the home fetches wholes");
        }
    }

    #[test]
    fn hint_of_a_mirror_names_the_mirror() {
        let place = HintPlace::Mirror { mirror: "npm".into(), path: "/a/-/a-1.tgz".into() };
        let hint = Hint::new(HintSource::List, place);
        assert_eq!(url_for_home(&hint).as_deref(), Some("mirror:npm:/a/-/a-1.tgz"));
        let fields = vec![("accept".into(), b"text/plain".as_slice().into())];
        assert_eq!(url_for_home(&Hint { fields, ..hint }), None, "a document has several forms");
    }

    #[test]
    fn pages_of_others_are_told_by_age() {
        let ages: Vec<Duration> = (0..100).rev().map(Duration::from_secs).collect();
        let groups = groups_of(&ages, 1000);
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), 100);
        assert!(groups.len() <= GROUPS && groups.is_sorted_by(|a, b| a.value <= b.value), "{groups:?}");
        assert_eq!(groups.last().map(|group| group.value), Some(Value::NOW));
        assert_eq!(groups_of(&ages, 3).iter().map(|group| group.count).sum::<u64>(), 3);
        assert!(groups_of(&[], 10).is_empty());
    }

    #[test]
    fn no_more_than_b_are_outstanding() {
        let remote = RemoteMemory::default();
        remote.planned(vec![NodeId(1)], &[report(100)], 1.0);
        let begin = || matches!(remote.begin(NodeId(1), Value::NOW, 1.0), BeginOutcome::Ask);
        assert_eq!((0..20).filter(|_| begin()).count(), OUTSTANDING_MAX);
        remote.acknowledged(NodeId(1), 50);
        assert!(begin() && !begin());
    }
}
