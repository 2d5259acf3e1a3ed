//! Gossip in the world: the memberships' events, and the views that nodes take from them.

use super::World;
use crate::events::Event;
use crate::gossip::{GossipEffects, GossipEvent};
use crate::node::Mutation;
use shoal_cooperation::MemberState;

impl World {
    /// Lets a node's membership handle an event.
    pub(super) fn gossip(&mut self, node: usize, event: GossipEvent) {
        let name = match event {
            GossipEvent::Timer => "gossip timer",
            GossipEvent::Arrival { .. } => "gossip",
            GossipEvent::Exchange(_) => "lists",
        };
        self.trace.note(self.now, name, [node as u64, 0, 0]);
        // A call to a node that is dead or stands still brings nothing.
        if let GossipEvent::Exchange(with) = event
            && (self.status[with].is_dead || self.status[with].frozen_until.is_some())
        {
            return;
        }
        let is_lost = self.settings.mutation == Some(Mutation::GossipLost);
        if is_lost && matches!(event, GossipEvent::Arrival { .. } | GossipEvent::Exchange(_)) {
            return;
        }
        let Some(gossip) = &mut self.gossip else { return };
        let effects = gossip.handle(node, event, (self.now, &self.network), &mut self.random);
        self.take_gossip(effects);
    }

    /// Tells a node's membership of the node's state, if it gossips.
    pub(super) fn gossip_state(&mut self, node: usize, state: MemberState) {
        let Some(gossip) = &mut self.gossip else { return };
        let effects = gossip.change(node, state, (self.now, &self.network), &mut self.random);
        self.take_gossip(effects);
    }

    /// Starts the membership of a node in the life that the members have.
    pub(super) fn gossip_start(&mut self, node: usize) {
        let Some(gossip) = &mut self.gossip else { return };
        let member = &self.members.all()[node];
        debug_assert_eq!(member.id, self.nodes[node].id, "one number for both");
        let effects = gossip.start(node, member, (self.now, &self.network), &mut self.random);
        self.take_gossip(effects);
    }

    /// Puts the events of memberships into the queue, and views in force.
    pub(super) fn take_gossip(&mut self, effects: GossipEffects) {
        for (at, node, event) in effects.events {
            // A datagram finds the process that runs when it arrives.
            let life = self.members.all()[node].life;
            self.queue.push(at, Event::Gossip(node, life, event));
        }
        for node in effects.changed {
            let view = self.gossip.as_ref().and_then(|gossip| gossip.view(node));
            if let Some(view) = view.filter(|_| !self.status[node].is_dead) {
                self.trace.note(self.now, "view", [node as u64, view.fingerprint(), 0]);
                self.take_view(node, view);
            }
        }
    }
}
