//! Deterministic simulation of memberships: a virtual clock and network, and the figures that the
//! design promises.

mod healing;

use super::joining::JoinVerdict;
use super::*;
use crate::keys::SEAL_BYTES;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

/// Nodes, their network, and one queue of events.
struct SimulatedCluster {
    nodes: Vec<Option<Membership>>,
    queue: BinaryHeap<Reverse<(Duration, u64, SimulatedEvent)>>,
    events: u64,
    now: Duration,
    draws: DrawSequence,
    /// Nodes below this number reach no node above it.
    cut: Option<usize>,
    frozen: HashSet<usize>,
    loss_percent: u64,
    timers: Vec<Option<Duration>>,
    seeds: Vec<usize>,
    bytes: u64,
    messages: u64,
    trace: u64,
    joins_refused: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SimulatedEvent {
    Timer(usize),
    Arrival { from: usize, to: usize, sender: (NodeId, u64), message: Vec<u8> },
    Join { from: usize, seed: usize },
}

impl SimulatedCluster {
    fn new(count: usize, seed: u64) -> Self {
        let mut cluster = Self {
            nodes: Vec::new(),
            queue: BinaryHeap::new(),
            events: 0,
            now: Duration::ZERO,
            draws: DrawSequence::new(seed),
            cut: None,
            frozen: HashSet::new(),
            loss_percent: 0,
            timers: Vec::new(),
            seeds: vec![0, 1, 2],
            bytes: 0,
            messages: 0,
            trace: 0,
            joins_refused: 0,
        };
        (0..count).for_each(|_| cluster.add());
        cluster
    }

    fn add(&mut self) {
        let number = self.nodes.len();
        self.nodes.push(None);
        self.timers.push(None);
        self.start(number, 5);
    }

    fn start(&mut self, number: usize, life: u64) {
        let name = name_of(number).into();
        let (weight, state) = (1.0, MemberState::In);
        let facts = NodeFacts { name, address: address(number), weight, state, level: 0 };
        let seed = self.draws.below(u64::MAX);
        self.nodes[number] = Some(Membership::new(NodeIdentity::new(life, facts), seed, self.now));
        self.timers[number] = None;
        self.settle(number);
    }

    fn push(&mut self, at: Duration, event: SimulatedEvent) {
        self.events += 1;
        self.queue.push(Reverse((at, self.events, event)));
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        let is_cut = self.cut.is_some_and(|cut| (from < cut) != (to < cut));
        !is_cut && self.nodes[to].is_some()
    }

    fn delay(&mut self) -> Duration {
        Duration::from_micros(200 + self.draws.below(1_300))
    }

    /// Takes a node's output and sets its next timer.
    fn settle(&mut self, number: usize) {
        while let Some(output) = self.nodes[number].as_mut().and_then(Membership::take_output) {
            match output {
                MembershipOutput::Send { to, message } => self.deliver(number, to, message),
                MembershipOutput::AskSeeds => {
                    for seed in self.seeds.clone() {
                        let known = self.node(number).known(NodeId::named(&name_of(seed)));
                        if seed != number && seed < self.nodes.len() && !known.is_some_and(|(_, lives)| lives)
                        {
                            let at = self.now + self.delay();
                            self.push(at, SimulatedEvent::Join { from: number, seed });
                        }
                    }
                }
                MembershipOutput::Exchange(with) => {
                    let at = self.now + self.delay();
                    self.push(at, SimulatedEvent::Join { from: number, seed: number_of(with) });
                }
                MembershipOutput::Changed | MembershipOutput::Displaced(_) => {}
            }
        }
        let Some(next) = self.nodes[number].as_ref().and_then(Membership::next_timer) else { return };
        let next = next.max(self.now);
        if self.timers[number].is_none_or(|set| next < set) {
            self.timers[number] = Some(next);
            self.push(next, SimulatedEvent::Timer(number));
        }
    }

    fn deliver(&mut self, from: usize, to: SocketAddr, message: Vec<u8>) {
        assert!(message.len() <= settings::MESSAGE_BYTES_MAX);
        self.bytes += (message.len() + SEAL_BYTES) as u64;
        self.messages += 1;
        let to = number_of(to);
        if self.draws.below(100) < self.loss_percent {
            return;
        }
        let own = self.node(from).own();
        let sender = (own.id, own.life);
        let at = self.now + self.delay();
        self.push(at, SimulatedEvent::Arrival { from, to, sender, message });
    }

    fn node(&self, number: usize) -> &Membership {
        self.nodes[number].as_ref().expect("the node lives")
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.queue.peek().is_some_and(|Reverse((at, ..))| *at <= end) {
            let Reverse((at, number, event)) = self.queue.pop().expect("peeked");
            self.now = at;
            self.trace = shoal_core::mixed(self.trace ^ at.as_nanos() as u64 ^ number);
            self.handle(event);
        }
        self.now = end;
    }

    fn handle(&mut self, event: SimulatedEvent) {
        let touched = match event {
            SimulatedEvent::Timer(number) if self.frozen.contains(&number) => {
                let later = self.now + Duration::from_millis(100);
                return self.push(later, SimulatedEvent::Timer(number));
            }
            SimulatedEvent::Timer(number) => {
                self.timers[number] = None;
                let now = self.now;
                if let Some(node) = &mut self.nodes[number] {
                    node.on_timer(now);
                }
                number
            }
            SimulatedEvent::Arrival { from, to, sender, message } => {
                if !self.reaches(from, to) || self.frozen.contains(&to) {
                    return;
                }
                self.trace ^=
                    message.iter().fold(0, |sum, byte| (sum * 31 + u64::from(*byte)) & ((1 << 40) - 1));
                let now = self.now;
                let node = self.nodes[to].as_mut().expect("reached");
                // A node knows messages of earlier lives by their seal.
                if node.known(sender.0).is_none_or(|(known, _)| sender.1 >= known.life) {
                    let _ = node.on_message(now, sender, address(from), &message);
                }
                to
            }
            SimulatedEvent::Join { from, seed } => {
                if self.reaches(from, seed)
                    && self.nodes[from].is_some()
                    && !self.frozen.contains(&from)
                    && !self.frozen.contains(&seed)
                {
                    self.join(from, seed);
                }
                return;
            }
        };
        self.settle(touched);
    }

    fn join(&mut self, from: usize, seed: usize) {
        let (node, members) = (self.node(from).own().clone(), self.node(from).list());
        let request = JoinRequest { cluster: "sim".into(), clock_ms: 1, node, members };
        let request = JoinRequest::decode(&request.encode(), self.node(seed)).expect("as written");
        let now = self.now;
        let node = self.nodes[seed].as_mut().expect("reached");
        match node.judge(&request.node) {
            JoinVerdict::Welcome => {
                let answer = node.welcome(now, request, 1).encode();
                self.settle(seed);
                let node = self.nodes[from].as_mut().expect("reached");
                let answer = JoinAnswer::decode(&answer, node).expect("as written");
                let JoinAnswer::Welcome { members, .. } = answer else { panic!("welcome") };
                node.on_members(now, members);
            }
            JoinVerdict::LaterLife(life) => {
                let identity = node_identity(&request, life + 1);
                let seed = self.draws.below(u64::MAX);
                self.nodes[from] = Some(Membership::new(identity, seed, now));
            }
            JoinVerdict::NameTaken(_) => self.joins_refused += 1,
        }
        self.settle(from);
    }

    /// Runs until a condition holds, in steps of 50 ms. Returns the time that it took.
    fn until(&mut self, limit: Duration, holds: impl Fn(&Self) -> bool) -> Duration {
        let begun = self.now;
        while !holds(self) {
            assert!(self.now - begun < limit, "not within {limit:?}: {:?}", self.sizes());
            self.run(Duration::from_millis(50));
        }
        self.now - begun
    }

    fn sizes(&self) -> Vec<usize> {
        self.nodes.iter().flatten().map(Membership::others).collect()
    }

    fn all_know(&self, count: usize) -> bool {
        self.nodes.iter().flatten().all(|node| node.others() + 1 == count)
    }

    fn idle_bytes_a_second(&mut self, seconds: u64) -> f64 {
        (self.bytes, self.messages) = (0, 0);
        self.run(Duration::from_secs(seconds));
        let living = self.nodes.iter().flatten().count();
        self.bytes as f64 / seconds as f64 / living as f64
    }
}

fn node_identity(request: &JoinRequest, life: u64) -> NodeIdentity {
    request.node.reborn(life)
}

fn name_of(number: usize) -> String {
    format!("cache-{number}.example")
}

fn address(number: usize) -> SocketAddr {
    let [.., a, b, c] = (number as u32 + 1).to_be_bytes();
    ([10, a, b, c], 3131).into()
}

fn number_of(address: SocketAddr) -> usize {
    let std::net::IpAddr::V4(ip) = address.ip() else { panic!("IPv4") };
    (u32::from(ip) & 0xff_ffff) as usize - 1
}

fn joined(count: usize, seed: u64) -> SimulatedCluster {
    let mut cluster = SimulatedCluster::new(count, seed);
    cluster.until(MINUTE * 3, |cluster| cluster.all_know(count));
    cluster.run(Duration::from_secs(20));
    cluster
}

const MINUTE: Duration = Duration::from_secs(60);

/// Makes nodes that know each other, without a join.
fn acquainted(count: usize, seed: u64) -> SimulatedCluster {
    let mut cluster = SimulatedCluster::new(count, seed);
    cluster.queue.clear();
    let all: Vec<_> =
        (0..count).map(|number| foca::Member::alive(cluster.node(number).own().clone())).collect();
    for number in 0..count {
        cluster.timers[number] = None;
        cluster.nodes[number].as_mut().expect("lives").on_members(Duration::ZERO, all.clone());
        cluster.settle(number);
    }
    cluster
}

#[test]
fn same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let mut cluster = joined(16, seed);
        cluster.loss_percent = 5;
        cluster.nodes[3] = None;
        cluster.run(MINUTE);
        (cluster.trace, cluster.events, cluster.sizes())
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn idle_traffic_is_within_300_bytes_a_second() {
    check_idle_traffic(&[(16, 120), (100, 60), (300, 6)]);
}

#[test]
#[ignore = "takes most of a minute"]
fn idle_traffic_of_a_thousand_nodes_is_small() {
    check_idle_traffic(&[(1000, 6)]);
}

/// Checks the idle traffic of clusters with these numbers of nodes, over these seconds.
fn check_idle_traffic(clusters: &[(usize, u64)]) {
    for &(count, seconds) in clusters {
        let mut cluster = acquainted(count, 3);
        cluster.run(Duration::from_secs(if count >= 300 { 1 } else { 20 }));
        if count >= 300 {
            // The news of hundreds of nodes would hide the idle traffic.
            cluster.nodes.iter_mut().flatten().for_each(|node| {
                while node.foca.updates_backlog() > 0 {
                    node.foca.gossip(&mut plumbing::CallOutput::default()).expect("room");
                }
            });
        }
        let bytes = cluster.idle_bytes_a_second(seconds);
        assert!((50.0..300.0).contains(&bytes), "{count} nodes: {bytes:.0} B/s a node");
    }
}

#[test]
fn storms_of_joins_end_within_seconds() {
    for (count, limit) in [(16, 3), (100, 8)] {
        let mut cluster = SimulatedCluster::new(count, 7);
        cluster.until(Duration::from_secs(limit), |cluster| cluster.all_know(count));
        assert_eq!(cluster.joins_refused, 0);
    }
}

#[test]
fn join_and_leave_are_known_within_seconds() {
    let mut cluster = joined(16, 5);
    cluster.add();
    cluster.until(Duration::from_secs(3), |cluster| cluster.all_know(17));
    let now = cluster.now;
    cluster.nodes[4].as_mut().expect("lives").leave(now);
    cluster.settle(4);
    cluster.nodes[4] = None;
    cluster.until(Duration::from_secs(3), |cluster| cluster.all_know(16));
}

#[test]
fn death_is_known_to_all_within_15_seconds() {
    let mut cluster = joined(16, 5);
    cluster.nodes[9] = None;
    cluster.until(Duration::from_secs(15), |cluster| cluster.all_know(15));
    // A node of this name that starts again has a later life, although its clock says otherwise.
    cluster.start(9, 3);
    cluster.until(Duration::from_secs(5), |cluster| cluster.all_know(16));
    assert_eq!(cluster.node(9).own().life, 6);
}

#[test]
fn loss_kills_nobody() {
    let mut cluster = joined(16, 11);
    cluster.loss_percent = 10;
    for _ in 0..240 {
        cluster.run(Duration::from_secs(1));
        assert!(cluster.all_know(16), "{:?}", cluster.sizes());
    }
}

#[test]
fn frozen_node_comes_back_and_blames_nobody() {
    let mut cluster = joined(16, 13);
    cluster.frozen.insert(6);
    cluster.until(Duration::from_secs(40), |cluster| {
        (0..16).filter(|number| *number != 6).all(|number| cluster.node(number).others() == 14)
    });
    cluster.frozen.clear();
    for _ in 0..100 {
        cluster.run(Duration::from_millis(100));
        let lost = (0..16).filter(|number| *number != 6 && cluster.node(*number).others() < 14).count();
        assert_eq!(lost, 0, "the frozen node took a living one with it: {:?}", cluster.sizes());
    }
    cluster.until(Duration::from_secs(10), |cluster| cluster.all_know(16));
}

#[test]
fn cut_in_two_heals_within_ten_seconds() {
    let mut cluster = joined(16, 17);
    cluster.cut = Some(8);
    cluster.until(MINUTE, |cluster| cluster.nodes.iter().flatten().all(|node| node.others() == 7));
    cluster.run(MINUTE);
    cluster.cut = None;
    cluster.until(Duration::from_secs(10), |cluster| cluster.all_know(16));
}

#[test]
fn node_that_lost_all_asks_the_seeds() {
    let mut cluster = joined(8, 19);
    cluster.cut = Some(7);
    cluster.until(MINUTE * 4, |cluster| cluster.node(7).others() == 0);
    cluster.run(MINUTE * 5);
    cluster.cut = None;
    cluster.until(MINUTE, |cluster| cluster.all_know(8));
}

#[test]
fn islands_of_two_starts_become_one_cluster() {
    let mut cluster = SimulatedCluster::new(8, 23);
    cluster.cut = Some(4);
    cluster.seeds = vec![0, 4];
    cluster.until(MINUTE, |cluster| cluster.all_know(4));
    cluster.cut = None;
    cluster.until(MINUTE * 2, |cluster| cluster.all_know(8));
}

#[test]
fn changed_facts_reach_all_without_a_gap() {
    let mut cluster = joined(16, 29);
    let now = cluster.now;
    cluster.nodes[2].as_mut().expect("lives").set_state(now, MemberState::Draining);
    cluster.settle(2);
    let id = cluster.node(2).own().id;
    let states = |cluster: &SimulatedCluster| -> Vec<_> {
        let state = |node: &Membership| {
            node.members().iter().find(|member| member.id == id).map(|member| member.state)
        };
        cluster.nodes.iter().flatten().map(state).collect()
    };
    for _ in 0..30 {
        cluster.run(Duration::from_millis(100));
        assert!(states(&cluster).iter().all(Option::is_some), "the node was never out");
    }
    assert!(states(&cluster).iter().all(|state| *state == Some(MemberState::Draining)));
}

#[test]
fn second_node_of_a_name_is_refused() {
    let mut cluster = joined(4, 31);
    let twin = cluster.node(2).own().facts().clone();
    let twin = NodeIdentity::new(9, NodeFacts { address: address(77), ..twin });
    let seed = cluster.node(0);
    assert!(matches!(seed.judge(&twin), JoinVerdict::NameTaken(known) if known.life == 5));
    // By gossip the node that started later wins, and the earlier one says so.
    let now = cluster.now;
    let node = cluster.nodes[2].as_mut().expect("lives");
    let answer = JoinAnswer::Welcome { clock_ms: 1, members: vec![foca::Member::alive(twin)] }.encode();
    let refused = JoinAnswer::decode(&answer, node).expect_err("this node is displaced");
    assert!(refused.contains("cluster.node"), "{refused}");
    node.on_timer(now);
}

#[test]
fn strangers_to_a_full_table_are_refused() {
    let mut cluster = joined(3, 37);
    let node = cluster.nodes[0].as_mut().expect("lives");
    let many: Vec<_> = (0..MEMBERS_MAX + 500)
        .map(|number| {
            let facts = NodeFacts {
                name: format!("x{number}").into(),
                address: address(number),
                weight: 1.0,
                state: MemberState::In,
                level: 0,
            };
            foca::Member::alive(NodeIdentity::new(1, facts))
        })
        .collect();
    node.state.lock().now = cluster.now;
    for some in many.chunks(MEMBERS_MAX) {
        node.on_members(cluster.now, some.to_vec());
    }
    assert_eq!(node.list().len(), MEMBERS_MAX);
    node.invariants();
}

/// Prints the figures of docs/CLUSTER.md:
/// `cargo test --release -p shoal-cluster --lib -- --ignored figures`.
#[test]
#[ignore = "prints figures, for minutes"]
fn figures() {
    let all = [16, 100, 1000].map(|count| {
        let mut cluster = SimulatedCluster::new(count, 7);
        let storm = cluster.until(MINUTE * 3, |cluster| cluster.all_know(count));
        cluster.run(MINUTE);
        let idle = cluster.idle_bytes_a_second(30);
        cluster.add();
        let join = cluster.until(MINUTE, |cluster| cluster.all_know(count + 1));
        cluster.nodes[count / 2] = None;
        let death = cluster.until(MINUTE, |cluster| cluster.all_know(count));
        cluster.run(MINUTE);
        let after = cluster.idle_bytes_a_second(30);
        cluster.cut = Some(count / 2);
        cluster.run(MINUTE * 2);
        cluster.cut = None;
        let heal = cluster.until(MINUTE * 10, |cluster| cluster.all_know(count));
        format!(
            "{count}: storm {storm:?}, idle {idle:.0} B/s, join {join:?}, death {death:?}, with a dead node {after:.0} \
             B/s, heal {heal:?}"
        )
    });
    panic!("{all:#?}");
}
