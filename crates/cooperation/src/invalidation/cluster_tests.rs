//! A cluster of ledgers in virtual time: loss, delay, reordering, cuts, kills and wrong clocks.
//!
//! Bodies are versions of their URL. An oracle notes which version each node may still serve, and
//! compares each answer with it.

use super::*;
use shoal_core::{Timestamp, mixed};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

type Url = u64;

/// State that survives a kill.
#[derive(Clone, Default)]
struct Disk {
    vector: Vector,
    log: PurgeLog,
    /// Bodies: version, and position at which the body was asked for.
    bodies: BTreeMap<Url, (u64, u64)>,
    position: u64,
    validate_before: u64,
    last_compared: Option<Timestamp>,
    life: u64,
}

struct TestNode {
    disk: Disk,
    ledger: Option<PurgeLedger>,
    /// Members compared with in this life.
    compared: BTreeSet<u64>,
    /// Positions of the last purge of each URL, in this life.
    purged: BTreeMap<Url, u64>,
    /// Error of the node's clock, in milliseconds.
    clock_error: u64,
    /// Versions that the node must not go below, since it has confirmed their purges.
    confirmed: BTreeMap<Url, u64>,
}

#[derive(Clone)]
enum Event {
    /// A message about purges arrives.
    Arrives { from: u64, to: u64, bytes: Vec<u8> },
    /// A peer is asked for a body.
    Asked { from: u64, to: u64, url: Url, hash: u64, position: u64, least: u64 },
    /// A body arrives.
    Body { to: u64, life: u64, url: Url, version: u64, position: u64, least: u64 },
    /// A node compares with a random member.
    Tick(u64),
    /// A client asks a node.
    Request,
    /// An operator purges a URL that has changed.
    Change,
    /// A killed node starts again.
    Restart(u64),
}

struct TestCluster {
    nodes: Vec<TestNode>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    now: u64,
    next: u64,
    random: u64,
    versions: BTreeMap<Url, u64>,
    /// Version that a purge with this id made the oldest one allowed.
    made: BTreeMap<PurgeId, (Url, u64)>,
    faults: bool,
    cut: Option<u64>,
    served: u64,
    from_peers: u64,
    wholes: u64,
    trace: u64,
}

const URLS: u64 = 12;
const LOG: LogLimits = LogLimits { entries: 60, bytes: 1 << 20, age: Duration::from_secs(60) };
const DAY_MS: u64 = 86_400_000;

impl TestCluster {
    fn new(nodes: u64, seed: u64) -> Self {
        let mut cluster = Self {
            nodes: Vec::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            now: 0,
            next: 0,
            random: mixed(seed + 1),
            versions: (0..URLS).map(|url| (url, 1)).collect(),
            made: BTreeMap::new(),
            faults: true,
            cut: None,
            served: 0,
            from_peers: 0,
            wholes: 0,
            trace: 0,
        };
        for node in 0..nodes {
            cluster.nodes.push(TestNode {
                disk: Disk::default(),
                ledger: None,
                compared: BTreeSet::new(),
                purged: BTreeMap::new(),
                clock_error: (node % 3) * DAY_MS / 4,
                confirmed: BTreeMap::new(),
            });
            cluster.start(node);
            cluster.after(node, Event::Tick(node));
        }
        cluster
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = mixed(self.random.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.random % below
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.next += 1;
        self.queue.push(Reverse((self.now + delay, self.next)));
        self.events.insert(self.next, event);
    }

    fn clock(&self, node: u64) -> Timestamp {
        Timestamp::from_millis(DAY_MS + self.now + self.nodes[node as usize].clock_error)
    }

    /// Starts a node from its disk.
    fn start(&mut self, number: u64) {
        let now = self.clock(number);
        let node = &mut self.nodes[number as usize];
        let disk = &mut node.disk;
        disk.life += 1;
        disk.position += 1000;
        if absence_needs_validation(disk.last_compared, now, LOG.age) {
            disk.validate_before = disk.position;
        }
        let (vector, log) = (disk.vector.clone(), disk.log.clone());
        node.ledger = Some(PurgeLedger::new(NodeId(number), disk.life, vector, log, LOG));
        node.compared.clear();
        node.purged.clear();
    }

    fn kill(&mut self, number: u64) {
        self.nodes[number as usize].ledger = None;
        let delay = if self.draw(3) == 0 { 90_000 } else { 200 };
        self.after(delay, Event::Restart(number));
    }

    fn is_caught_up(&self, number: u64) -> bool {
        self.nodes[number as usize].compared.len() + 1 == self.nodes.len()
    }

    fn send(&mut self, from: u64, to: u64, message: &Message) {
        let is_cut = self.cut.is_some_and(|edge| (from < edge) != (to < edge));
        if from == to || is_cut || self.faults && self.draw(5) == 0 {
            return;
        }
        let copies = if self.faults && self.draw(10) == 0 { 2 } else { 1 };
        for _ in 0..copies {
            let delay = 1 + if self.faults { self.draw(400) } else { self.draw(5) };
            self.after(delay, Event::Arrives { from, to, bytes: message.encode() });
        }
    }

    /// Applies, writes down and records purges; a kill may come between any two steps. Returns
    /// `false` if it did.
    fn take(&mut self, number: u64, purges: Vec<Purge>) -> bool {
        let now = self.clock(number);
        let kill_at = if self.faults && self.draw(60) == 0 { self.draw(3) } else { 3 };
        let node = &mut self.nodes[number as usize];
        let ledger = node.ledger.as_mut().expect("alive");
        let new = ledger.admit(purges);
        for purge in &new {
            node.disk.position += 1;
            let url = match &purge.scope {
                Scope::Tag(name) => name.parse().expect("a number"),
                _ => continue,
            };
            node.purged.insert(url, node.disk.position);
            node.disk.bodies.remove(&url);
        }
        if kill_at == 0 {
            self.kill(number);
            return false;
        }
        // The file gets the state that the record leads to.
        let mut written = ledger.clone();
        let change = written.record(new, now);
        if change == VectorChange::Uncertain {
            node.disk.validate_before = node.disk.position;
        }
        (node.disk.vector, node.disk.log) = (written.vector().clone(), written.log().clone());
        if kill_at == 1 {
            self.kill(number);
            return false;
        }
        *ledger = written;
        for (id, (url, version)) in &self.made {
            if ledger.vector().has(*id) {
                let least = node.confirmed.entry(*url).or_default();
                *least = (*version).max(*least);
            }
        }
        if kill_at == 2 {
            self.kill(number);
        }
        kill_at > 2
    }

    fn step(&mut self) -> bool {
        let Some(Reverse((at, number))) = self.queue.pop() else { return false };
        assert!(at >= self.now, "time goes back");
        self.now = at;
        self.trace = mixed(self.trace ^ at ^ number << 20);
        match self.events.remove(&number).expect("queued once") {
            Event::Arrives { from, to, bytes } => {
                if self.nodes[to as usize].ledger.is_some() {
                    let message = Message::decode(&bytes).expect("as it was sent");
                    self.arrives(from, to, message);
                }
            }
            Event::Asked { from, to, url, hash, position, least } => {
                self.asked((from, to), url, hash, (position, least));
            }
            Event::Body { to, life, url, version, position, least } => {
                self.body(to, life, url, version, (position, least));
            }
            Event::Tick(node) => self.tick(node),
            Event::Request => self.request(),
            Event::Change => self.change(),
            Event::Restart(node) => self.start(node),
        }
        true
    }

    fn arrives(&mut self, from: u64, to: u64, message: Message) {
        let ledger = self.nodes[to as usize].ledger.as_ref().expect("alive");
        match message {
            Message::Apply { from: sender, purges } => {
                let life = purges.first().map_or(0, |purge| purge.id.life);
                if self.take(to, purges) {
                    let ledger = self.nodes[to as usize].ledger.as_ref().expect("alive");
                    let number = ledger.vector().number(sender, life);
                    let answer = Message::Applied { number, is_busy: false };
                    self.send(to, from, &answer);
                }
            }
            Message::Compare { hash, .. } if hash == ledger.vector().hash() => {
                self.send(to, from, &Message::Same);
            }
            Message::Compare { .. } => {
                let answer = Message::Current { from: NodeId(to), vector: ledger.vector().clone() };
                self.send(to, from, &answer);
            }
            // The other's vector: it gets the purges that it lacks.
            Message::Current { vector, .. } => {
                let repair = ledger.repair(&vector, 300);
                let covers = ledger.vector().covers(&vector);
                if covers {
                    self.compared(to, from);
                } else {
                    let own = Message::Current { from: NodeId(to), vector: ledger.vector().clone() };
                    self.send(to, from, &own);
                }
                if !matches!(&repair, Repair::Entries { purges, .. } if purges.is_empty()) {
                    self.send(to, from, &Message::Repaired(repair));
                }
            }
            Message::Same => self.compared(to, from),
            Message::Repaired(Repair::Entries { purges, .. }) => drop(self.take(to, purges)),
            Message::Repaired(Repair::Whole(vector)) => self.take_whole(to, &vector),
            Message::Applied { .. } => {}
        }
    }

    fn compared(&mut self, node: u64, with: u64) {
        let now = self.clock(node);
        let node = &mut self.nodes[node as usize];
        node.compared.insert(with);
        node.disk.last_compared = Some(now);
    }

    fn take_whole(&mut self, number: u64, vector: &Vector) {
        let node = &mut self.nodes[number as usize];
        let ledger = node.ledger.as_mut().expect("alive");
        if ledger.vector().covers(vector) {
            return;
        }
        self.wholes += 1;
        node.disk.position += 1;
        node.disk.validate_before = node.disk.position;
        ledger.take_whole(vector);
        (node.disk.vector, node.disk.log) = (ledger.vector().clone(), ledger.log().clone());
        for (id, (url, version)) in &self.made {
            if ledger.vector().has(*id) {
                let least = node.confirmed.entry(*url).or_default();
                *least = (*version).max(*least);
            }
        }
    }

    fn tick(&mut self, node: u64) {
        let with = self.draw(self.nodes.len() as u64);
        if let Some(ledger) = &mut self.nodes[node as usize].ledger {
            let hash = ledger.vector().hash();
            self.send(node, with, &Message::Compare { from: NodeId(node), hash });
        }
        self.after(1000, Event::Tick(node));
    }

    fn change(&mut self) {
        let (node, url) = (self.draw(self.nodes.len() as u64), self.draw(URLS));
        let is_caught_up = self.is_caught_up(node);
        let version = self.versions.get_mut(&url).expect("known");
        *version += 1;
        let version = *version;
        let Some(ledger) = &mut self.nodes[node as usize].ledger else { return };
        let purges = ledger.issue(Scope::Tag(url.to_string()), is_caught_up);
        self.made.insert(purges.last().expect("one").id, (url, version));
        if self.take(node, purges.clone()) {
            for to in 0..self.nodes.len() as u64 {
                self.send(node, to, &Message::Apply { from: NodeId(node), purges: purges.clone() });
            }
        }
    }

    /// Serves a client from the node's bodies, from a peer, or from the origin.
    fn request(&mut self) {
        let (number, url) = (self.draw(self.nodes.len() as u64), self.draw(URLS));
        let is_caught_up = self.is_caught_up(number);
        let peer = self.draw(self.nodes.len() as u64);
        let node = &self.nodes[number as usize];
        let Some(ledger) = &node.ledger else { return };
        let least = node.confirmed.get(&url).copied().unwrap_or(0);
        let started = if is_caught_up { 0 } else { u64::MAX };
        if let Some((version, position)) = node.disk.bodies.get(&url)
            && *position > node.disk.validate_before
            && *position > started
        {
            assert!(*version >= least, "node {number} serves version {version} of {url}, not {least}");
            self.served += 1;
            return;
        }
        let (hash, position) = (ledger.vector().hash(), node.disk.position + 1);
        self.nodes[number as usize].disk.position += 1;
        let delay = 1 + self.draw(50);
        let event = Event::Asked { from: number, to: peer, url, hash, position, least };
        self.after(delay, event);
    }

    fn asked(&mut self, (from, to): (u64, u64), url: Url, hash: u64, (position, least): (u64, u64)) {
        let is_caught_up = self.is_caught_up(to);
        let node = &self.nodes[to as usize];
        let is_covered =
            node.ledger.as_ref().is_some_and(|ledger| ledger.coverage(hash) == Coverage::Covered);
        let held = node.disk.bodies.get(&url).filter(|(_, at)| *at > node.disk.validate_before);
        let held = held.filter(|_| from != to && is_covered && is_caught_up).map(|(version, _)| *version);
        self.from_peers += u64::from(held.is_some());
        let version = held.unwrap_or(self.versions[&url]);
        let (delay, life) = (1 + self.draw(300), self.nodes[from as usize].disk.life);
        self.after(delay, Event::Body { to: from, life, url, version, position, least });
    }

    fn body(&mut self, to: u64, life: u64, url: Url, version: u64, (position, least): (u64, u64)) {
        assert!(version >= least, "node {to} got version {version} of {url}, not {least}");
        let node = &mut self.nodes[to as usize];
        let is_valid = node.purged.get(&url).is_none_or(|at| *at < position);
        if node.ledger.is_some() && node.disk.life == life && is_valid {
            node.disk.bodies.insert(url, (version, position));
        }
    }
}

/// Runs a cluster through faults, heals it, and returns its trace.
fn run(seed: u64) -> (u64, u64, u64, u64) {
    let mut cluster = TestCluster::new(2 + seed % 4, seed);
    let end = 240_000;
    for at in (0..end).step_by(40) {
        cluster.after(at, if at % 280 == 0 { Event::Change } else { Event::Request });
    }
    let cut_at = 20_000 + cluster.draw(40_000);
    while cluster.now < end {
        let is_cut = (cut_at..cut_at + 100_000).contains(&cluster.now);
        cluster.cut = is_cut.then_some(1);
        if cluster.now.is_multiple_of(997) && cluster.draw(40) == 0 {
            let node = cluster.draw(cluster.nodes.len() as u64);
            if cluster.nodes[node as usize].ledger.is_some() {
                cluster.kill(node);
            }
        }
        assert!(cluster.step());
    }
    // All is well again, and all vectors become equal.
    (cluster.faults, cluster.cut) = (false, None);
    while cluster.now < end + 150_000 {
        cluster.step();
    }
    let vectors: Vec<&Vector> =
        cluster.nodes.iter().map(|node| node.ledger.as_ref().expect("back").vector()).collect();
    for pair in vectors.windows(2) {
        assert!(pair[0].covers(pair[1]) && pair[1].covers(pair[0]), "seed {seed}: {pair:?}");
        assert_eq!(pair[0].hash(), pair[1].hash(), "seed {seed}");
    }
    (cluster.trace, cluster.served, cluster.from_peers, cluster.wholes)
}

#[test]
fn no_purged_body_is_served_under_faults() {
    let (mut served, mut from_peers, mut wholes) = (0, 0, 0);
    for seed in 0..40 {
        let (_, own, peers, whole) = run(seed);
        served += own;
        from_peers += peers;
        wholes += whole;
    }
    assert!(served > 1000, "only {served} answers came from a cache");
    assert!(from_peers > 100, "only {from_peers} bodies came from peers");
    assert!(wholes > 0, "no node was ever away for too long");
}

#[test]
fn a_seed_gives_one_trace() {
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).0, run(8).0);
}
