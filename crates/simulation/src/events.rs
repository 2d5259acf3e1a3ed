//! Events of a run, in the order of their times.

use crate::faults::Recovery;
use crate::gossip::GossipEvent;
use crate::message::{AskId, Message};
use crate::node::Timer;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Event of a run.
#[derive(Debug)]
pub enum Event {
    /// Clients send their next requests.
    Clients,
    /// An operator purges.
    Purge,
    /// A message arrives, for this life of the node.
    Deliver {
        /// Sender.
        from: usize,
        /// Receiver.
        to: usize,
        /// Life of the receiver when the message was sent.
        life: u64,
        /// Message.
        message: Box<Message>,
    },
    /// A connection was refused or broke.
    Refused {
        /// Node that asked.
        node: usize,
        /// Life of that node.
        life: u64,
        /// Ask.
        ask: AskId,
    },
    /// A node wakes.
    Wake {
        /// Node.
        node: usize,
        /// Life of the node.
        life: u64,
        /// Reason.
        timer: Timer,
    },
    /// A node learns the members.
    View(usize),
    /// The membership of a node has something to do, in this life of the node.
    Gossip(usize, u64, GossipEvent),
    /// The members notice that a node is dead.
    Detect(usize, u64),
    /// A fault begins.
    Fault,
    /// A fault ends.
    Heal(Recovery),
}

/// Events to come.
#[derive(Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<QueuedEvent>,
    sequence: u64,
}

#[derive(Debug)]
struct QueuedEvent {
    at: Duration,
    sequence: u64,
    event: Event,
}

impl Queue {
    /// Adds an event.
    pub fn push(&mut self, at: Duration, event: Event) {
        self.sequence += 1;
        self.heap.push(QueuedEvent { at, sequence: self.sequence, event });
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Duration, Event)> {
        let next = self.heap.pop()?;
        debug_assert!(self.next_time().is_none_or(|later| later >= next.at), "the earliest event goes first");
        Some((next.at, next.event))
    }

    /// Returns the time of the next event.
    pub fn next_time(&self) -> Option<Duration> {
        self.heap.peek().map(|next| next.at)
    }
}

impl PartialEq for QueuedEvent {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for QueuedEvent {}

impl PartialOrd for QueuedEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for QueuedEvent {
    /// The earliest event is the greatest, as a heap wants it.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}
