//! Tests of several nodes in one process, with calls that are cut and restored.

use super::*;
use bytes::Bytes;
use parking_lot::RwLock;
use shoal_cluster::{CallError, CallFuture, Caller, PeerService};
use shoal_core::KeySecret;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Calls between the nodes of a test.
#[derive(Default)]
struct Wires {
    services: RwLock<HashMap<SocketAddr, Arc<PurgeService>>>,
    cut: RwLock<BTreeSet<SocketAddr>>,
}

/// Calls by the node at this address. A node that is cut off neither reaches nor is reached.
struct WiredCalls(Arc<Wires>, SocketAddr);

impl PeerCalls for WiredCalls {
    fn call(&self, to: SocketAddr, name: &'static str, body: Bytes) -> CallFuture<'_> {
        let service = self.0.services.read().get(&to).cloned();
        let is_cut = [to, self.1].iter().any(|address| self.0.cut.read().contains(address));
        let service = service.filter(|_| !is_cut);
        Box::pin(async move {
            let service = service.ok_or(CallError::Unreachable("cut".into()))?;
            let from = Caller { name: None, address: ([127, 0, 0, 1], 1).into() };
            service.answer(from, name, body).await
        })
    }
}

/// Cache that only notes its purges.
#[derive(Default)]
struct Notes {
    applied: Mutex<Vec<Scope>>,
    validations: AtomicU64,
    validates_earlier: AtomicU64,
    purges: std::sync::OnceLock<Weak<ClusterPurges>>,
    /// Hash that the node shows while a purge is applied.
    shown: AtomicU64,
}

impl PurgeTarget for Notes {
    fn apply<'a>(&'a self, scope: &'a Scope) -> Pin<Box<dyn Future<Output = PurgeOutcome> + Send + 'a>> {
        if !matches!(scope, Scope::Start { .. }) {
            self.applied.lock().push(scope.clone());
            let purges = self.purges.get().and_then(Weak::upgrade);
            purges.iter().for_each(|purges| self.shown.store(purges.vector_hash(), SeqCst));
        }
        Box::pin(async { PurgeOutcome::Purged { responses: None } })
    }

    fn require_validation(&self) -> u64 {
        self.validations.fetch_add(1, SeqCst) + 1
    }

    fn validate_before(&self, _: u64) {}

    fn validate_earlier_processes(&self, is_demanded: bool) {
        self.validates_earlier.store(u64::from(is_demanded), SeqCst);
    }
}

struct TestCluster {
    folder: tempfile::TempDir,
    wires: Arc<Wires>,
    view: Arc<Mutex<Arc<View>>>,
}

struct TestNode {
    purges: Arc<ClusterPurges>,
    notes: Arc<Notes>,
    address: SocketAddr,
}

impl TestCluster {
    fn new(nodes: u16) -> Self {
        let member = |number: u16| {
            let address = address(number);
            let name: Arc<str> = format!("node{number}").into();
            Member {
                id: NodeId::named(&name),
                name,
                address,
                weight: 1.0,
                state: MemberState::In,
                life: 1,
                level: 0,
            }
        };
        let view = Arc::new(View::new((0..nodes).map(member).collect(), KeySecret::NONE));
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            wires: Arc::default(),
            view: Arc::new(Mutex::new(view)),
        }
    }

    fn journal(&self, number: u16) -> PathBuf {
        self.folder.path().join(format!("purges{number}.cluster"))
    }

    fn start(&self, number: u16) -> TestNode {
        let (view, notes) = (Arc::clone(&self.view), Arc::new(Notes::default()));
        let parts = ClusterPurgesParts {
            node: NodeId::named(&format!("node{number}")),
            view: Box::new(move || Arc::clone(&view.lock())),
            calls: Arc::new(WiredCalls(Arc::clone(&self.wires), address(number))),
            target: Arc::clone(&notes) as Arc<_>,
            metrics: Arc::default(),
        };
        let purges = ClusterPurges::start(parts, Some(&self.journal(number))).expect("a thread");
        let is_first = notes.purges.set(Arc::downgrade(&purges)).is_ok();
        assert!(is_first, "notes of one node");
        let address = address(number);
        self.wires.services.write().insert(address, Arc::new(PurgeService(Arc::clone(&purges))));
        TestNode { purges, notes, address }
    }

    /// Returns `true` if the node's journal has the time of a comparison.
    fn has_compared(&self, number: u16) -> bool {
        let read = Journal::read(&self.journal(number), NodeId::named(&format!("node{number}")));
        read.expect("read").is_some_and(|state| state.compared.is_some())
    }

    fn stop(&self, node: TestNode) {
        self.wires.services.write().remove(&node.address);
        drop(node);
    }
}

fn address(number: u16) -> SocketAddr {
    ([127, 0, 0, 1], 4000 + number).into()
}

fn tag(name: &str) -> Scope {
    Scope::Tag(name.into())
}

/// Waits until the condition holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn purge_is_confirmed_by_all_members() {
    let world = TestCluster::new(3);
    let nodes: Vec<TestNode> = (0..3).map(|number| world.start(number)).collect();
    let (outcome, confirmation) = nodes[0].purges.purge(tag("news"), PATIENCE).await;
    assert_eq!(outcome, PurgeOutcome::Purged { responses: None });
    assert!(confirmation.missing.is_empty(), "{confirmation:?}");
    assert_eq!(confirmation.confirmed.len(), 2);
    for node in &nodes {
        assert_eq!(*node.notes.applied.lock(), [tag("news")]);
        assert_eq!(node.purges.vector_hash(), nodes[0].purges.vector_hash());
        assert_eq!(node.purges.covers(nodes[0].purges.vector_hash()), Coverage::Covered);
    }
}

#[tokio::test]
async fn unreached_member_is_named_and_catches_up() {
    let world = TestCluster::new(3);
    let nodes: Vec<TestNode> = (0..3).map(|number| world.start(number)).collect();
    world.wires.cut.write().insert(nodes[2].address);
    let (_, confirmation) = nodes[0].purges.purge(tag("news"), Duration::from_millis(300)).await;
    assert_eq!(confirmation.missing, ["node2"]);
    assert_eq!(nodes[2].purges.covers(nodes[0].purges.vector_hash()), Coverage::CatchUp);
    assert!(nodes[2].notes.applied.lock().is_empty());
    world.wires.cut.write().clear();
    nodes[2].purges.catch_up_with(NodeId::named("node1")).await;
    until("the purge arrives", || nodes[2].notes.applied.lock().len() == 1).await;
    until("it is recorded", || nodes[2].purges.covers(nodes[0].purges.vector_hash()) == Coverage::Covered)
        .await;
}

#[tokio::test]
async fn restarted_member_catches_up_before_it_serves() {
    let world = TestCluster::new(3);
    let nodes: Vec<TestNode> = (0..2).map(|number| world.start(number)).collect();
    let away = world.start(2);
    until("all are caught up", || nodes.iter().chain([&away]).all(|node| node.purges.is_caught_up())).await;
    world.stop(away);
    let (_, confirmation) = nodes[0].purges.purge(tag("news"), Duration::from_millis(100)).await;
    assert_eq!(confirmation.missing, ["node2"]);
    // The node that was told is away when the other returns.
    let one = nodes.into_iter().next().expect("two nodes");
    world.wires.cut.write().insert(one.address);
    let back = world.start(2);
    until("the purge is pulled", || back.notes.applied.lock().len() == 1).await;
    assert!(!back.purges.is_caught_up(), "one member was not compared with");
    assert_eq!(back.notes.validates_earlier.load(SeqCst), 1);
    assert_eq!(back.notes.validations.load(SeqCst), 0, "its journal is known");
    world.wires.cut.write().clear();
    until("it is caught up", || back.purges.is_caught_up()).await;
    assert_eq!(back.notes.validates_earlier.load(SeqCst), 0);
}

#[tokio::test]
async fn acknowledged_purges_are_known_after_a_restart() {
    let world = TestCluster::new(2);
    let (one, other) = (world.start(0), world.start(1));
    for number in 0..20 {
        let (_, confirmation) = one.purges.purge(tag(&number.to_string()), PATIENCE).await;
        assert!(confirmation.missing.is_empty());
    }
    let hash = one.purges.vector_hash();
    until("comparisons are written", || (0..2).all(|number| world.has_compared(number))).await;
    // No node is closed: each restart reads the files as a kill leaves them.
    let one = world.start(0);
    let other_again = world.start(1);
    assert_eq!((one.purges.vector_hash(), other_again.purges.vector_hash()), (hash, hash));
    assert_eq!(one.notes.validations.load(SeqCst), 0);
    drop(other);
    let (_, confirmation) = one.purges.purge(tag("later"), PATIENCE).await;
    assert!(confirmation.missing.is_empty(), "a new life is confirmed: {confirmation:?}");
}

/// The other process does not come up: no gap in the numbers holds later purges back.
#[tokio::test]
async fn purges_with_a_lent_journal_spread_later() {
    let world = TestCluster::new(2);
    let (one, other) = (world.start(0), world.start(1));
    one.purges.freeze(true);
    let (outcome, _) = one.purges.purge(tag("lent"), Duration::from_millis(50)).await;
    assert!(matches!(outcome, PurgeOutcome::Failed(_)), "{outcome:?}");
    assert_eq!(*one.notes.applied.lock(), [tag("lent")], "it holds here");
    assert!(other.notes.applied.lock().is_empty());
    one.purges.freeze(false);
    let (_, confirmation) = one.purges.purge(tag("later"), PATIENCE).await;
    assert!(confirmation.missing.is_empty(), "{confirmation:?}");
    until("both arrive", || {
        let applied = other.notes.applied.lock();
        applied.contains(&tag("lent")) && applied.contains(&tag("later"))
    })
    .await;
    assert_eq!(one.purges.recorded_hash(), other.purges.recorded_hash());
}

#[tokio::test]
async fn lost_journal_makes_all_be_validated() {
    let world = TestCluster::new(2);
    let (one, other) = (world.start(0), world.start(1));
    one.purges.purge(tag("news"), PATIENCE).await;
    until("the comparison is written", || world.has_compared(1)).await;
    world.stop(other);
    let mut bytes = std::fs::read(world.journal(1)).expect("there");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(world.journal(1), bytes).expect("written");
    let other = world.start(1);
    assert_eq!(other.notes.validations.load(SeqCst), 1);
    until("it has the vector again", || other.purges.vector_hash() == one.purges.vector_hash()).await;
    let (_, confirmation) = other.purges.purge(tag("again"), PATIENCE).await;
    assert!(confirmation.missing.is_empty(), "{confirmation:?}");
}

#[tokio::test]
async fn burst_of_purges_arrives_in_full() {
    let world = TestCluster::new(3);
    let nodes: Vec<TestNode> = (0..3).map(|number| world.start(number)).collect();
    let tasks: Vec<_> = (0..BURST)
        .map(|number| {
            let purges = Arc::clone(&nodes[0].purges);
            tokio::spawn(async move { purges.purge(tag(&number.to_string()), PATIENCE).await })
        })
        .collect();
    for task in tasks {
        let (outcome, confirmation) = task.await.expect("no panic");
        assert_eq!(outcome, PurgeOutcome::Purged { responses: None });
        assert!(confirmation.missing.is_empty(), "{confirmation:?}");
    }
    for node in &nodes {
        assert_eq!(node.notes.applied.lock().len(), BURST, "each is applied once");
        assert_eq!(node.purges.vector_hash(), nodes[0].purges.vector_hash());
    }
}

#[tokio::test]
async fn new_hash_is_shown_before_a_purge_is_applied() {
    let world = TestCluster::new(1);
    let node = world.start(0);
    let before = node.purges.vector_hash();
    node.purges.purge(tag("news"), PATIENCE).await;
    let during = node.notes.shown.load(SeqCst);
    assert_ne!(during, before, "a peer without the purge gives no body from now on");
    assert_eq!(during, node.purges.vector_hash());
    assert_eq!(node.purges.covers(during), Coverage::Covered);
}

#[tokio::test]
async fn node_that_joins_meanwhile_confirms_too() {
    let world = TestCluster::new(3);
    let all = Arc::clone(&world.view.lock());
    let joins = NodeId::named("node2");
    let known = all.members().iter().filter(|member| member.id != joins).cloned().collect();
    *world.view.lock() = Arc::new(all.with_members(known));
    let nodes: Vec<TestNode> = (0..2).map(|number| world.start(number)).collect();
    world.wires.cut.write().insert(nodes[1].address);
    let purges = Arc::clone(&nodes[0].purges);
    let waiting = tokio::spawn(async move { purges.purge(tag("news"), PATIENCE).await });
    until("the purge is applied", || !nodes[0].notes.applied.lock().is_empty()).await;
    let third = world.start(2);
    *world.view.lock() = all;
    world.wires.cut.write().clear();
    let (_, confirmation) = waiting.await.expect("no panic");
    assert!(confirmation.confirmed.contains(&"node2".to_owned()), "{confirmation:?}");
    assert!(confirmation.missing.is_empty() && !third.notes.applied.lock().is_empty());
}

#[tokio::test]
async fn purges_of_another_sender_are_refused() {
    use shoal_cooperation::invalidation::{Message, Purge, PurgeId};
    let world = TestCluster::new(2);
    let node = world.start(0);
    let service = PurgeService(Arc::clone(&node.purges));
    let id = PurgeId { origin: NodeId(5), life: 1, number: 1 };
    let purge = Purge { id, scope: Scope::All };
    for (name, sender) in [("node1", 5), ("node1", 6)] {
        let body = Message::Apply { from: NodeId(sender), purges: vec![purge.clone()] }.encode();
        let from = Caller { name: Some(name.into()), address: node.address };
        let answer = service.answer(from, "purges/apply", body.into()).await;
        assert!(matches!(answer, Err(CallError::Refused(_))), "{answer:?}");
    }
    // In the clear, the address of another member proves nothing.
    let (known, elsewhere) = (NodeId::named("node1"), ([127, 0, 0, 2], 1).into());
    let id = PurgeId { origin: known, life: 1, number: 1 };
    let purges = vec![Purge { id, scope: Scope::All }];
    let apply = Message::Apply { from: known, purges };
    let compare = Message::Compare { from: known, hash: 1 };
    for (name, message) in [("purges/apply", apply), ("purges/compare", compare)] {
        let from = Caller { name: None, address: elsewhere };
        let answer = service.answer(from, name, message.encode().into()).await;
        assert!(matches!(answer, Err(CallError::Refused(_))), "{answer:?}");
    }
    let from = || Caller { name: None, address: node.address };
    let garbage = service.answer(from(), "purges/apply", "x".into()).await;
    assert!(matches!(garbage, Err(CallError::Malformed(_))));
    assert!(node.notes.applied.lock().is_empty());
}

const BURST: usize = 10_000;
