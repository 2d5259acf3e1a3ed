//! Queues that share one array of nodes, linked by position: no allocation per object and no pointers.

use crate::{Handle, Victim};
use shoal_core::Key;

/// The nodes of all queues of one policy.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    free: Vec<u32>,
}

/// One object's place in a queue.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) key: Key,
    pub(crate) weight: u64,
    /// The policy's own mark.
    pub(crate) frequency: u8,
    pub(crate) place: Place,
    previous: u32,
    next: u32,
}

/// Which queue a node stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Nowhere,
    Small,
    Main,
}

/// A queue: enters at the front, leaves at the back or from anywhere. All operations are O(1).
#[derive(Debug)]
pub(crate) struct Queue {
    place: Place,
    front: u32,
    back: u32,
    weight: u64,
    len: usize,
}

impl Nodes {
    pub(crate) fn add(&mut self, key: Key, weight: u64) -> Handle {
        let node = Node { key, weight, frequency: 0, place: Place::Nowhere, previous: NONE, next: NONE };
        if let Some(position) = self.free.pop() {
            self.nodes[position as usize] = node;
            return Handle(position);
        }
        let position = u32::try_from(self.nodes.len()).expect("fewer than 2^32 objects fit in memory");
        self.nodes.push(node);
        Handle(position)
    }

    /// Gives the node back for reuse; it must stand in no queue.
    pub(crate) fn release(&mut self, handle: Handle) -> Victim {
        let node = &self.nodes[handle.0 as usize];
        debug_assert_eq!(node.place, Place::Nowhere);
        self.free.push(handle.0);
        Victim { key: node.key, weight: node.weight }
    }

    /// The node of a handle that is in some queue.
    pub(crate) fn queued(&mut self, handle: Handle) -> Option<&mut Node> {
        self.nodes.get_mut(handle.0 as usize).filter(|node| node.place != Place::Nowhere)
    }

    pub(crate) fn at(&mut self, handle: Handle) -> &mut Node {
        &mut self.nodes[handle.0 as usize]
    }
}

impl Queue {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, front: NONE, back: NONE, weight: 0, len: 0 }
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push_front(&mut self, nodes: &mut Nodes, handle: Handle) {
        let front = self.front;
        let node = nodes.at(handle);
        debug_assert_eq!(node.place, Place::Nowhere);
        (node.place, node.previous, node.next) = (self.place, NONE, front);
        self.weight += node.weight;
        self.len += 1;
        match front {
            NONE => self.back = handle.0,
            _ => nodes.at(Handle(front)).previous = handle.0,
        }
        self.front = handle.0;
    }

    pub(crate) fn pop_back(&mut self, nodes: &mut Nodes) -> Option<Handle> {
        let handle = Handle(self.back);
        (self.back != NONE).then(|| {
            self.remove(nodes, handle);
            handle
        })
    }

    pub(crate) fn remove(&mut self, nodes: &mut Nodes, handle: Handle) {
        let node = nodes.at(handle);
        debug_assert_eq!(node.place, self.place);
        let (previous, next) = (node.previous, node.next);
        node.place = Place::Nowhere;
        self.weight -= node.weight;
        self.len -= 1;
        match previous {
            NONE => self.front = next,
            _ => nodes.at(Handle(previous)).next = next,
        }
        match next {
            NONE => self.back = previous,
            _ => nodes.at(Handle(next)).previous = previous,
        }
    }
}

const NONE: u32 = u32::MAX;
