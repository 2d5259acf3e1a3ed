//! Gossip: the memberships of the nodes of a run, which learn of each other by the product's own
//! code over the virtual network.
//!
//! Each node has a `shoal_cluster` membership. Its datagrams, timers and exchanges of lists are
//! events of the run, so that cuts, freezes, kills and lossy links act on them too. A loss of a
//! datagram is a loss here: nothing sends it again.

use crate::network::Network;
use crate::random::Random;
use shoal_cluster::membership::{Membership, MembershipOutput, NodeFacts, NodeIdentity, exchange_lists};
use shoal_cooperation::{Member, MemberState, NodeId, View};
use shoal_core::KeySecret;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Event of a node's membership.
#[derive(Clone, Debug)]
pub enum GossipEvent {
    /// A timer may be due.
    Timer,
    /// A datagram arrives from this node in this life.
    Arrival {
        /// Sender.
        from: usize,
        /// Number and life of the sender.
        sender: (NodeId, u64),
        /// Message.
        message: Vec<u8>,
    },
    /// Lists are exchanged with this node.
    Exchange(usize),
}

/// Memberships of the nodes of a run.
pub struct Gossip {
    nodes: Vec<Option<Membership>>,
    timers: Vec<Option<Duration>>,
    /// Bytes and messages that nodes sent.
    pub sent: (u64, u64),
}

/// Actions that follow from an event: events to come, and the nodes with other members.
#[derive(Debug, Default)]
pub struct GossipEffects {
    /// Time, node and event.
    pub events: Vec<(Duration, usize, GossipEvent)>,
    /// Nodes with another view than before.
    pub changed: Vec<usize>,
}

impl fmt::Debug for Gossip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gossip").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl Gossip {
    /// Makes the memberships of nodes that all know each other.
    pub fn new(members: &[Member], random: &mut Random) -> (Self, GossipEffects) {
        let mut gossip = Self { nodes: Vec::new(), timers: vec![None; members.len()], sent: (0, 0) };
        for (index, member) in members.iter().enumerate() {
            let node = Membership::new(identity(index, member), random.bits(), Duration::ZERO);
            gossip.nodes.push(Some(node));
        }
        for number in 1..members.len() {
            gossip.exchange(0, number, Duration::ZERO);
        }
        for number in 1..members.len() {
            gossip.exchange(number, 0, Duration::ZERO);
        }
        let mut effects = GossipEffects::default();
        let calm = Network::new(crate::network::Links::LOCAL);
        for number in 0..members.len() {
            gossip.settle(number, (Duration::ZERO, &calm), random, &mut effects);
        }
        effects.changed.clear();
        (gossip, effects)
    }

    /// Returns the view of a node; `None` if the node is dead.
    pub fn view(&self, number: usize) -> Option<Arc<View>> {
        let members = self.nodes[number].as_ref()?.members();
        Some(Arc::new(View::new(members, KeySecret::NONE)))
    }

    /// Lets a node handle an event.
    pub fn handle(
        &mut self,
        number: usize,
        event: GossipEvent,
        near: (Duration, &Network),
        random: &mut Random,
    ) -> GossipEffects {
        let (now, mut effects) = (near.0, GossipEffects::default());
        match event {
            GossipEvent::Timer => {
                self.timers[number] = None;
                if let Some(node) = &mut self.nodes[number] {
                    node.on_timer(now);
                }
            }
            GossipEvent::Arrival { from, sender, message } => {
                if let Some(node) = &mut self.nodes[number]
                    // A node knows messages of earlier lives by their seal.
                    && node.known(sender.0).is_none_or(|(known, _)| sender.1 >= known.life)
                {
                    let _ = node.on_message(now, sender, address(from), &message);
                }
            }
            GossipEvent::Exchange(with) => {
                if !near.1.is_cut(number, with) && !near.1.is_cut(with, number) {
                    self.exchange(number, with, now);
                    self.settle(with, near, random, &mut effects);
                }
            }
        }
        self.settle(number, near, random, &mut effects);
        effects
    }

    /// Starts a node in another life. It asks a node that it reaches for its list first.
    pub fn start(
        &mut self,
        number: usize,
        member: &Member,
        near: (Duration, &Network),
        random: &mut Random,
    ) -> GossipEffects {
        let (now, mut effects) = (near.0, GossipEffects::default());
        debug_assert!(self.nodes[number].is_none(), "a node starts once it is dead");
        self.nodes[number] = Some(Membership::new(identity(number, member), random.bits(), now));
        self.timers[number] = None;
        let others = (0..self.nodes.len()).filter(|other| *other != number);
        let is_reached = |other: &usize| {
            self.nodes[*other].is_some() && !near.1.is_cut(number, *other) && !near.1.is_cut(*other, number)
        };
        let reached: Vec<_> = others.filter(is_reached).take(SEEDS).collect();
        for seed in reached {
            self.exchange(number, seed, now);
            self.settle(seed, near, random, &mut effects);
        }
        self.settle(number, near, random, &mut effects);
        effects
    }

    /// Changes the state of a node, which tells the others.
    pub fn change(
        &mut self,
        number: usize,
        state: MemberState,
        near: (Duration, &Network),
        random: &mut Random,
    ) -> GossipEffects {
        let mut effects = GossipEffects::default();
        if let Some(node) = &mut self.nodes[number] {
            match state {
                MemberState::Out => node.leave(near.0),
                state => node.set_state(near.0, state),
            }
        }
        self.settle(number, near, random, &mut effects);
        effects
    }

    /// Ends a node without a word.
    pub fn kill(&mut self, number: usize) {
        self.nodes[number] = None;
    }

    fn exchange(&mut self, number: usize, with: usize, now: Duration) {
        debug_assert_ne!(number, with, "a node has its own list");
        let (Some(mut node), Some(mut seed)) = (self.nodes[number].take(), self.nodes[with].take()) else {
            return;
        };
        exchange_lists(&mut node, &mut seed, now);
        (self.nodes[number], self.nodes[with]) = (Some(node), Some(seed));
    }

    /// Takes a node's outputs, and sets its next timer.
    fn settle(
        &mut self,
        number: usize,
        (now, network): (Duration, &Network),
        random: &mut Random,
        effects: &mut GossipEffects,
    ) {
        let count = self.nodes.len();
        let Some(node) = &mut self.nodes[number] else { return };
        let own = (node.own().id, node.own().life);
        while let Some(output) = node.take_output() {
            match output {
                MembershipOutput::Send { to, message } => {
                    self.sent.0 += message.len() as u64;
                    self.sent.1 += 1;
                    let to = number_of(to);
                    if !random.chance(network.links.loss)
                        && let Some(delay) = network.delay(number, to, random)
                    {
                        let event = GossipEvent::Arrival { from: number, sender: own, message };
                        effects.events.push((now + delay, to, event));
                    }
                }
                MembershipOutput::AskSeeds => {
                    for seed in (0..count.min(SEEDS)).filter(|seed| *seed != number) {
                        effects.events.push((now + CALL, number, GossipEvent::Exchange(seed)));
                    }
                }
                MembershipOutput::Exchange(with) => {
                    effects.events.push((now + CALL, number, GossipEvent::Exchange(number_of(with))));
                }
                MembershipOutput::Changed => effects.changed.push(number),
                MembershipOutput::Displaced(_) => {}
            }
        }
        let Some(next) = node.next_timer() else { return };
        let next = next.max(now);
        debug_assert!(self.timers[number].is_none_or(|set| set >= now || next >= now), "timers lie ahead");
        if self.timers[number].is_none_or(|set| next < set) {
            self.timers[number] = Some(next);
            effects.events.push((next, number, GossipEvent::Timer));
        }
    }
}

fn identity(number: usize, member: &Member) -> NodeIdentity {
    let facts = NodeFacts {
        name: Arc::clone(&member.name),
        address: address(number),
        weight: member.weight as f32,
        state: member.state,
        level: member.level,
    };
    NodeIdentity::new(member.life, facts)
}

fn address(number: usize) -> SocketAddr {
    let [.., a, b, c] = (number as u32 + 1).to_be_bytes();
    ([10, a, b, c], 3131).into()
}

fn number_of(address: SocketAddr) -> usize {
    let std::net::IpAddr::V4(ip) = address.ip() else { unreachable!("nodes have IPv4 addresses") };
    (u32::from(ip) & 0xff_ffff) as usize - 1
}

/// Nodes that a node asks for their lists when it starts, or has lost all others.
const SEEDS: usize = 3;

/// Time of a call.
const CALL: Duration = Duration::from_millis(2);
