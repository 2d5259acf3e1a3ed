//! Checks of the invariants that need more than one node, or the state of a whole node.

use super::World;
use super::actions::VIEWS_SPREAD;
use crate::message::AskMessage;
use crate::node::{FlightId, LEAST_LIMIT, full_key};
use shoal_cooperation::{AskKind, HOPS_MAX, LOAD_FACTOR, MemberState, SkipReason, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// Loads that nodes told each other, kept apart from the nodes' own memory of them.
#[derive(Debug, Default)]
pub(super) struct HeardLoads {
    loads: BTreeMap<(usize, usize), (u32, Duration)>,
}

impl HeardLoads {
    pub(super) fn heard(&mut self, by: usize, from: usize, load: u32, now: Duration) {
        self.loads.insert((by, from), (load, now));
    }

    /// Returns the mean load that a node knows, with its own, or `None` if it knows no other.
    fn mean(&self, of: usize, own: u32, now: Duration) -> Option<f64> {
        let known = self.loads.range((of, 0)..(of + 1, 0));
        let counts = known.filter(|(_, (_, at))| now - *at < Duration::from_secs(10));
        let (sum, count) = counts.fold((f64::from(own), 1.0), |(sum, count), (_, (load, _))| {
            (sum + f64::from(*load), count + 1.0)
        });
        assert!(sum >= f64::from(own), "the own load is in the sum");
        (count > 1.0).then_some(sum / count)
    }

    fn forget(&mut self, node: usize) {
        self.loads.retain(|(by, _), _| *by != node);
    }
}

impl World {
    /// Checks an ask after its node has handled it: its hops and the graph of waiting flights
    /// (invariant 4), and the load of the node (invariant 9).
    pub(super) fn check_ask(&mut self, node: usize, ask: &AskMessage, in_flight_before: u32) {
        let level = |node: usize| self.members.all()[node].level;
        let is_first = match self.nodes[node].level {
            None => ask.kind == AskKind::Holder || ask.hops == 1,
            // Upward alone.
            Some(own) => level(self.members.index(ask.entry)) < own,
        };
        if ask.hops > HOPS_MAX || ask.hops == 0 || !is_first {
            self.oracle.violate(4, format!("an ask as {:?} arrives with {} hops", ask.kind, ask.hops));
        }
        self.check_waits(node, ask);
        let in_flight = self.nodes[node].in_flight;
        if in_flight > in_flight_before {
            let share = self.nodes[node].weight_share();
            if let Some(mean) = self.loads.mean(node, in_flight_before, self.now) {
                let limit = (LOAD_FACTOR * mean * share).ceil().max(f64::from(LEAST_LIMIT));
                if f64::from(in_flight) > limit {
                    let text = format!("node {node} has {in_flight} asks in flight, {limit} is the limit");
                    self.oracle.violate(9, text);
                }
            }
        }
    }

    /// Follows the flights that an ask waits for.
    fn check_waits(&mut self, node: usize, ask: &AskMessage) {
        let Some(first) = self.nodes[node].serves(ask.id) else { return };
        let (mut at, mut flight) = (node, first);
        for _ in 0..WAITS_MAX {
            let Some((next, following)) = self.waits_for(at, flight) else { return };
            if (next, following) == (node, first) {
                break;
            }
            (at, flight) = (next, following);
        }
        let text = format!("node {node}'s flight {first:?} waits for itself, or in a row of {WAITS_MAX}");
        self.oracle.violate(4, text);
    }

    fn waits_for(&self, node: usize, flight: FlightId) -> Option<(usize, FlightId)> {
        if let Some(own) = self.nodes[node].own_home_flight(flight) {
            return Some((node, own));
        }
        let (ask, to) = self.nodes[node].waits_for(flight)?;
        let to = self.members.index(to);
        Some((to, self.nodes[to].serves(ask)?))
    }

    /// Checks that a node's tables keep to their bounds (invariant 8).
    pub(super) fn check_sizes(&mut self, node: usize) {
        let open = self.oracle.open_requests();
        for (name, size, bound) in self.nodes[node].sizes(open, self.nodes.len()) {
            if size > bound {
                self.oracle.violate(8, format!("node {node} has {size} {name}, {bound} is the bound"));
            }
        }
    }

    /// Counts a message, and checks the messages of the last second (invariant 8).
    pub(super) fn count_message(&mut self) {
        let second = self.now.as_secs();
        if self.messages.0 != second {
            self.messages = (second, 0);
        }
        self.messages.1 += 1;
        let nodes = self.nodes.len() as u64;
        let bound = nodes * nodes.min(17) * MESSAGES_PER_PAIR + nodes * MESSAGES_PER_NODE;
        if self.messages.1 > bound {
            self.oracle.violate(8, format!("{} messages in a second, {bound} is the bound", self.messages.1));
        }
    }

    /// Checks that only keys from or to a node move when the node changes (invariant 7).
    pub(super) fn check_moves(&mut self, node: usize, before: &View, after: &View) {
        self.loads.forget(node);
        let changed = Some(self.id(node));
        for object in 0..MOVES_CHECKED {
            let key = full_key(object);
            let (old, new) = (before.homes(&key).first(), after.homes(&key).first());
            if old != new && old != changed && new != changed {
                self.oracle.violate(7, format!("object {object} moved from {old:?} to {new:?}"));
            }
        }
    }

    /// Checks that shares of keys follow the weights (invariant 7).
    pub(super) fn check_shares(&mut self) {
        let view = self.members.truth();
        let total: f64 = view.members().iter().map(|member| member.weight).sum();
        let mut counts = BTreeMap::new();
        let keys = SHARES_KEYS_TOTAL / self.nodes.len() as u32;
        for object in 0..keys {
            *counts.entry(view.homes(&full_key(object)).first()).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.values().sum::<u32>(), keys, "each key has one first home");
        for member in view.members() {
            let expected = f64::from(keys) * member.weight / total;
            let found = f64::from(counts.get(&Some(member.id)).copied().unwrap_or(0));
            // Six standard deviations of a binomial count.
            if (found - expected).abs() > 6.0 * expected.sqrt() + 1.0 {
                self.oracle.violate(7, format!("{} has {found} keys, expected {expected}", member.name));
            }
        }
    }

    /// Checks after the faults that the cluster has recovered (invariant 6). Returns `false` at the
    /// end of the run.
    pub(super) fn check_recovery(&mut self) -> bool {
        let Some(healed) = self.healed else { return true };
        let next = self.queue.next_time().unwrap_or(Duration::MAX);
        let many = self.nodes.len() > COMPARED_ALL;
        let wait = if many { MANY_NODES_WAIT } else { Duration::ZERO };
        let wait = if self.gossip.is_some() { wait + GOSSIP_WAIT } else { wait };
        // Among many nodes each asks each other too seldom for the second check.
        let steps: &[Duration] = &[VIEWS_SPREAD * 2 + RESTART_WAIT + wait, RECOVERED];
        let steps = if many { &steps[..1] } else { steps };
        while steps.get(self.recovery_checks).is_some_and(|after| healed + *after <= next) {
            if self.recovery_checks == 0 {
                self.check_agreement()
            } else {
                self.check_peers()
            }
            self.recovery_checks += 1;
        }
        self.recovery_checks < steps.len()
    }

    fn check_agreement(&mut self) {
        for node in &self.nodes {
            let probes = node.health.iter().map(|(peer, health)| (*peer, health.status().counts.probes));
            self.probes.extend(probes.map(|(peer, probes)| ((node.index, peer), probes)));
        }
        let view = self.members.truth();
        let vector = self.nodes[0].purging.vector_hash();
        for node in 0..self.nodes.len() {
            if self.nodes[node].view.fingerprint() != view.fingerprint() {
                self.oracle.violate(6, format!("node {node} has another view after the faults"));
            }
            if self.members.state(node) != MemberState::In {
                self.oracle
                    .violate(6, format!("node {node} is {:?} after the faults", self.members.state(node)));
            }
            if self.nodes[node].purging.vector_hash() != vector {
                let vectors = (self.nodes[0].purging.vector(), self.nodes[node].purging.vector());
                self.oracle.violate(6, format!("nodes 0 and {node} have other vectors: {vectors:?}"));
            }
        }
    }

    fn check_peers(&mut self) {
        for node in &self.nodes {
            for (peer, health) in &node.health {
                let probes = self.probes.get(&(node.index, *peer)).copied().unwrap_or(0);
                // A peer that no request needed meanwhile has had no probe.
                let was_probed = health.status().counts.probes >= probes + PROBES;
                let skipped = health.status().skipped.filter(|_| was_probed);
                let skipped = skipped.filter(|reason| *reason != SkipReason::Lied);
                if let Some(reason) = skipped {
                    let text = format!("node {} does not ask {peer:?}: {reason:?}", node.index);
                    self.oracle.violate(6, text);
                }
            }
        }
    }
}

/// Nodes up to this number compare their vectors with all others.
const COMPARED_ALL: usize = 17;

/// Probes of a sound peer that must have closed its breaker.
const PROBES: u64 = 2;

/// Most flights in a row: entry, own home flight or home, holder.
const WAITS_MAX: usize = 4;

const MESSAGES_PER_PAIR: u64 = 100;
const MESSAGES_PER_NODE: u64 = 1_000;
const MOVES_CHECKED: u32 = 32;
const SHARES_KEYS_TOTAL: u32 = 4_000;

/// Time for restarted nodes to compare with all.
const RESTART_WAIT: Duration = Duration::from_millis(1_000);

/// Time for memberships to agree again after any fault, restarts among them.
const GOSSIP_WAIT: Duration = Duration::from_secs(20);

/// Time for vectors to spread among nodes that compare with some others only.
const MANY_NODES_WAIT: Duration = Duration::from_secs(3);

/// Time after which each peer has been asked again: three times the longest pause of a breaker.
const RECOVERED: Duration = Duration::from_secs(30);
