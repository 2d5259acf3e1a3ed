//! Shared memory in virtual time: nodes with RAM and a disk each, that put and get pages.
//!
//! The directories, plans, reports and messages are those of the product; RAM is an LRU of equal
//! pages, and each node is the only one that stores its objects. After each answer to a client:
//!
//! 1. The body is that of the latest version when the request came, or of a later one.
//! 2. The answer took the disk's time, and one time-out of a peer at most.
//! 3. No node holds more pages for others than its limit, and no table is beyond its bound.
//!
//! A run is a function of its settings and seed.

mod node;

use crate::network::{Links, Network};
use crate::random::Random;
use node::{AnswerFacts, ClientAnswer, MemoryNode};
use shoal_cooperation::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Fault of one node in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryFault {
    /// None.
    None,
    /// Ends, and starts again with its disk.
    Dies,
    /// Stands still.
    Freezes,
    /// Returns other bytes, and tells of endless memory.
    Lies,
    /// Takes pages and forgets them.
    Forgets,
    /// Declines all pages.
    Fills,
    /// Messages are repeated later.
    Replays,
}

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct MemorySettings {
    /// Seed of all draws.
    pub seed: u64,
    /// Number of nodes; the first one is busy.
    pub nodes: usize,
    /// Objects of each node.
    pub objects: u64,
    /// Pages in the RAM of a node.
    pub ram: usize,
    /// Requests of the busy node; the others get a quarter together.
    pub requests: u64,
    /// Fault of the other nodes, in the second third of the run.
    pub fault: MemoryFault,
    /// `false` for the same run without shared memory.
    pub is_shared: bool,
}

/// Counts of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MemoryOutcome {
    /// Requests answered.
    pub answered: u64,
    /// Reads of the busy node's disk.
    pub disk_reads: u64,
    /// Pages that came back from other nodes.
    pub gets: u64,
    /// Pages that came back in the last sixth of the run.
    pub gets_at_last: u64,
    /// Gets that ended without a page.
    pub gets_in_vain: u64,
    /// Pages refused for their bytes.
    pub wrong: u64,
    /// Longest time of an answer.
    pub longest: Duration,
}

/// Event of a run.
enum Step {
    /// A client asks a node.
    Request(usize),
    /// The owner of an object changes it, and purges the older version.
    Change(usize),
    /// Bytes arrive, from a node and its life.
    Ask { from: usize, to: usize, bytes: Vec<u8>, get: Option<u64> },
    /// An answer arrives.
    Answer { from: usize, to: usize, life: u64, bytes: Vec<u8>, get: Option<u64>, reply: AnswerFacts },
    /// A get has waited for its time-out.
    Late { node: usize, life: u64, get: u64 },
    /// Reports and plans.
    Tick,
    /// A fault begins or ends.
    Fault(bool),
}

/// Runs a setting.
///
/// # Errors
/// Says which invariant broke, and the seed.
pub fn run_memory(settings: MemorySettings) -> Result<MemoryOutcome, String> {
    let mut world = MemoryWorld::new(settings);
    while let Some(((now, _), step)) = world.steps.pop_first() {
        world.now = now;
        world.step(step).map_err(|why| format!("seed {}: {why} at {now:?}", settings.seed))?;
        if world.requests_left == 0 && world.nodes.iter().all(|node| !node.waits()) {
            break;
        }
    }
    Ok(world.outcome)
}

struct MemoryWorld {
    settings: MemorySettings,
    now: Duration,
    steps: BTreeMap<(Duration, u64), Step>,
    number: u64,
    random: Random,
    network: Network,
    nodes: Vec<MemoryNode>,
    requests_left: u64,
    outcome: MemoryOutcome,
    is_faulty: bool,
    length: Duration,
}

impl MemoryWorld {
    fn new(settings: MemorySettings) -> Self {
        let length = PACE * u32::try_from(settings.requests).unwrap_or(u32::MAX);
        let nodes = (0..settings.nodes).map(|number| MemoryNode::new(number, &settings)).collect();
        let mut world = Self {
            settings,
            now: Duration::ZERO,
            steps: BTreeMap::new(),
            number: 0,
            random: Random::new(settings.seed),
            network: Network::new(Links::LOCAL),
            nodes,
            requests_left: settings.requests,
            outcome: MemoryOutcome::default(),
            is_faulty: false,
            length,
        };
        (0..settings.nodes).for_each(|node| world.push(PACE, Step::Request(node)));
        world.push(PACE * 50, Step::Change(0));
        world.push(Duration::ZERO, Step::Tick);
        world.push(length / 3, Step::Fault(true));
        world.push(length * 2 / 3, Step::Fault(false));
        world
    }

    fn push(&mut self, after: Duration, step: Step) {
        self.number += 1;
        self.steps.insert((self.now + after, self.number), step);
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Request(node) => self.request(node)?,
            Step::Change(node) => {
                let object = self.random.below(self.settings.objects);
                self.nodes[node].change(object);
                self.push(PACE * 50, Step::Change(node));
            }
            Step::Ask { from, to, bytes, get } => self.ask(from, to, (bytes, get)),
            Step::Answer { from, to, life, bytes, get, reply } => {
                if self.nodes[to].life == life && !self.is_stopped(to) {
                    let answered = self.nodes[to].answered(from, (&bytes, get, reply), self.now);
                    self.outcome.wrong += u64::from(answered.is_wrong);
                    self.ended(to, answered)?;
                }
            }
            Step::Late { node, life, get } => {
                if self.nodes[node].life == life {
                    let answered = self.nodes[node].late(get, self.now);
                    self.ended(node, answered)?;
                }
            }
            Step::Tick => self.tick(),
            Step::Fault(begins) => {
                self.is_faulty = begins;
                if begins && self.settings.fault == MemoryFault::Dies {
                    (1..self.nodes.len()).for_each(|node| self.nodes[node].restart());
                }
            }
        }
        self.nodes.iter().try_for_each(MemoryNode::check)
    }

    fn has_fault(&self, node: usize, fault: MemoryFault) -> bool {
        node > 0 && self.is_faulty && self.settings.fault == fault
    }

    fn is_stopped(&self, node: usize) -> bool {
        self.has_fault(node, MemoryFault::Freezes) || self.has_fault(node, MemoryFault::Dies)
    }

    fn request(&mut self, node: usize) -> Result<(), String> {
        let pace = if node == 0 { PACE } else { PACE * 4 * (self.settings.nodes as u32 - 1) };
        let object = zipf(&mut self.random, if node == 0 { self.settings.objects } else { QUIET_OBJECTS });
        if node == 0 {
            self.requests_left = self.requests_left.saturating_sub(1);
        }
        let next = self.random.around(pace);
        self.push(next, Step::Request(node));
        if self.is_stopped(node) {
            return Ok(());
        }
        let now = self.now;
        let answered = self.nodes[node].request(object, now);
        self.send(node);
        self.ended(node, answered)
    }

    /// Sends the messages that a node wants to send.
    fn send(&mut self, node: usize) {
        for (to, bytes, get) in std::mem::take(&mut self.nodes[node].outbox) {
            if let Some(get) = get {
                let late = Step::Late { node, life: self.nodes[node].life, get };
                self.push(TIMEOUT, late);
            }
            let Some(delay) = self.network.delay(node, to, &mut self.random) else { continue };
            if self.has_fault(node, MemoryFault::Replays) || (self.is_faulty && node == 0 && self.replays()) {
                let again = self.random.around(Duration::from_secs(2));
                self.push(delay + again, Step::Ask { from: node, to, bytes: bytes.clone(), get: None });
            }
            self.push(delay, Step::Ask { from: node, to, bytes, get });
        }
    }

    fn replays(&self) -> bool {
        self.settings.fault == MemoryFault::Replays
    }

    fn ask(&mut self, from: usize, to: usize, (bytes, get): (Vec<u8>, Option<u64>)) {
        if self.is_stopped(to) {
            return;
        }
        let kind = match () {
            () if self.has_fault(to, MemoryFault::Lies) => MemoryFault::Lies,
            () if self.has_fault(to, MemoryFault::Forgets) => MemoryFault::Forgets,
            () if self.has_fault(to, MemoryFault::Fills) => MemoryFault::Fills,
            () => MemoryFault::None,
        };
        let now = self.now;
        let Some((answer, reply)) = self.nodes[to].answer(NodeId(from as u64), &bytes, (kind, now)) else {
            return;
        };
        let life = self.nodes[from].life;
        if let Some(delay) = self.network.delay(to, from, &mut self.random) {
            self.push(delay, Step::Answer { from: to, to: from, life, bytes: answer, get, reply });
        }
    }

    fn tick(&mut self) {
        self.push(Duration::from_millis(200), Step::Tick);
        if !self.settings.is_shared {
            return;
        }
        for node in 0..self.nodes.len() {
            if !self.is_stopped(node) {
                let draw = self.random.bits();
                self.nodes[node].tick(self.now, draw);
                self.send(node);
            }
        }
    }

    /// Checks the answer to a client, if there is one.
    fn ended(&mut self, node: usize, answered: ClientAnswer) -> Result<(), String> {
        let Some(body) = answered.body else { return Ok(()) };
        if body.version < body.least_version {
            return Err(format!("node {node} served version {} after {}", body.version, body.least_version));
        }
        let took = self.now.saturating_sub(body.began) + body.beyond;
        if took > DISK_TIME + TIMEOUT {
            return Err(format!("node {node} answered after {took:?}"));
        }
        self.outcome.answered += 1;
        self.outcome.longest = self.outcome.longest.max(took);
        if node == 0 {
            self.outcome.disk_reads += u64::from(body.from_disk);
            self.outcome.gets += u64::from(body.from_peer);
            self.outcome.gets_at_last += u64::from(body.from_peer && self.now > self.length * 5 / 6);
            self.outcome.gets_in_vain += u64::from(body.in_vain);
        }
        Ok(())
    }
}

/// Draws an object, popular ones more often: density falls as the reciprocal of the rank.
fn zipf(random: &mut Random, objects: u64) -> u64 {
    let rank = (objects as f64).powf(random.unit());
    (rank as u64).clamp(1, objects) - 1
}

/// Mean time between two requests of the busy node.
const PACE: Duration = Duration::from_millis(2);

/// Objects that clients of other nodes ask for.
const QUIET_OBJECTS: u64 = 20;

/// Time of a disk read, and the time-out of a peer.
pub(crate) const DISK_TIME: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: MemorySettings = MemorySettings {
        seed: 1,
        nodes: 4,
        objects: 800,
        ram: 100,
        requests: 20_000,
        fault: MemoryFault::None,
        is_shared: true,
    };

    #[test]
    fn idle_memory_halves_disk_reads() {
        let without =
            run_memory(MemorySettings { is_shared: false, ..SETTINGS }).expect("no invariant breaks");
        let with = run_memory(SETTINGS).expect("no invariant breaks");
        assert_eq!((without.gets, with.wrong), (0, 0));
        assert!(with.disk_reads * 2 < without.disk_reads, "{with:?} {without:?}");
        assert_eq!(run_memory(SETTINGS), Ok(with), "the same seed gives the same run");
    }

    #[test]
    fn faults_cost_time_and_never_a_wrong_body() {
        let without =
            run_memory(MemorySettings { is_shared: false, ..SETTINGS }).expect("no invariant breaks");
        for fault in [
            MemoryFault::Dies,
            MemoryFault::Freezes,
            MemoryFault::Lies,
            MemoryFault::Forgets,
            MemoryFault::Fills,
            MemoryFault::Replays,
        ] {
            for seed in 1..=3 {
                let settings = MemorySettings { seed, fault, ..SETTINGS };
                let with = run_memory(settings).unwrap_or_else(|why| panic!("{fault:?}, {why}"));
                assert!(with.answered >= SETTINGS.requests * 9 / 10, "{fault:?} {with:?}");
                assert!(with.disk_reads <= without.disk_reads * 21 / 20, "{fault:?} {with:?} {without:?}");
                // A node that forgot most pages gets none for a minute.
                let is_muted = matches!(fault, MemoryFault::Lies | MemoryFault::Forgets);
                assert!(with.gets_at_last > 0 || is_muted, "{fault:?}: memory is shared again, {with:?}");
            }
        }
    }

    #[test]
    fn liar_is_found_out_by_its_bytes() {
        let lies =
            run_memory(MemorySettings { fault: MemoryFault::Lies, ..SETTINGS }).expect("no invariant breaks");
        assert!(lies.wrong > 0 && lies.gets_in_vain >= lies.wrong, "{lies:?}");
        let forgets = run_memory(MemorySettings { fault: MemoryFault::Forgets, ..SETTINGS })
            .expect("no invariant breaks");
        assert!(forgets.gets_in_vain > 0 && forgets.gets_in_vain < 2_000, "{forgets:?}");
    }
}
