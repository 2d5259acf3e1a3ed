//! Queues that share one array of nodes, linked by position, without an allocation per object and
//! without pointers.
//!
//! A node takes 24 bytes with a 64-bit key and 32 with a 128-bit one. Released nodes are linked
//! through `next` and reused last in, first out, so that the memory just read for a victim serves
//! the newcomer.

use crate::replacement::{Fingerprint, Handle, Victim, WEIGHT_MAX};
use shoal_core::Key;

/// Nodes of all queues of one policy.
#[derive(Debug)]
pub(crate) struct Nodes<K> {
    nodes: Vec<QueueNode<K>>,
    /// First released node, [`NONE`] without any.
    free: u32,
}

/// Place of one object in a queue.
#[derive(Debug)]
pub(crate) struct QueueNode<K> {
    key: K,
    previous: u32,
    next: u32,
    weight_low: u32,
    weight_high: u16,
    /// Queue that holds the node, or [`NOWHERE`].
    place: u8,
    /// Mark for the policy's own use.
    pub(crate) mark: u8,
}

const _: () = assert!(size_of::<QueueNode<u64>>() == 24 && size_of::<QueueNode<Key>>() == 32);

/// Queue: objects enter at the front, and leave at the back or from anywhere. All operations are
/// O(1).
#[derive(Debug)]
pub(crate) struct Queue {
    place: u8,
    front: u32,
    back: u32,
    weight: u64,
    len: usize,
}

impl<K: Fingerprint> Nodes<K> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE }
    }

    /// Makes a node for an object, in no queue yet.
    pub(crate) fn add(&mut self, key: K, weight: u64) -> Handle {
        let weight = weight.min(WEIGHT_MAX);
        let node = QueueNode {
            key,
            previous: NONE,
            next: NONE,
            weight_low: weight as u32,
            weight_high: (weight >> 32) as u16,
            place: NOWHERE,
            mark: 0,
        };
        if let Some(free) = self.nodes.get_mut(self.free as usize) {
            let position = std::mem::replace(&mut self.free, free.next);
            *free = node;
            return Handle(position);
        }
        let position = u32::try_from(self.nodes.len()).expect("fewer than 2^32 objects fit in memory");
        if self.nodes.len() == self.nodes.capacity() {
            // Grow by a sixteenth: memory stays in proportion to the objects, and growth is still
            // O(1) amortised.
            self.nodes.reserve_exact(self.nodes.len() / 16 + GROWTH_MIN);
        }
        self.nodes.push(node);
        Handle(position)
    }

    /// Releases a node for reuse; it must be in no queue.
    pub(crate) fn release(&mut self, handle: Handle) -> Victim<K> {
        let free = self.free;
        let node = self.at(handle);
        debug_assert_eq!(node.place, NOWHERE);
        debug_assert_ne!(free, handle.0, "a node that is given back twice");
        node.next = free;
        let victim = Victim { key: node.key, weight: node.weight(), handle };
        self.free = handle.0;
        victim
    }

    /// Returns the node of a handle that is in some queue.
    pub(crate) fn queued(&mut self, handle: Handle) -> Option<&mut QueueNode<K>> {
        self.nodes.get_mut(handle.0 as usize).filter(|node| node.place != NOWHERE)
    }

    /// Returns the node as [`Self::queued`] does, for reading.
    pub(crate) fn queued_at(&self, handle: Handle) -> Option<&QueueNode<K>> {
        self.nodes.get(handle.0 as usize).filter(|node| node.place != NOWHERE)
    }

    pub(crate) fn at(&mut self, handle: Handle) -> &mut QueueNode<K> {
        &mut self.nodes[handle.0 as usize]
    }

    pub(crate) fn key(&self, handle: Handle) -> Option<K> {
        self.nodes.get(handle.0 as usize).filter(|node| node.place != NOWHERE).map(|node| node.key)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<QueueNode<K>>()
    }
}

impl<K: Fingerprint> QueueNode<K> {
    pub(crate) fn weight(&self) -> u64 {
        u64::from(self.weight_low) | u64::from(self.weight_high) << 32
    }

    /// Returns the number of the node's queue; a number of no queue when it is in none.
    pub(crate) fn place(&self) -> usize {
        usize::from(self.place)
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.key.fingerprint()
    }

    /// Returns the next node towards the front.
    pub(crate) fn towards_front(&self) -> Option<Handle> {
        some(self.previous)
    }
}

impl Queue {
    /// Makes an empty queue. Queues over the same nodes have different places, below 255.
    pub(crate) fn new(place: u8) -> Self {
        debug_assert_ne!(place, NOWHERE);
        Self { place, front: NONE, back: NONE, weight: 0, len: 0 }
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn back(&self) -> Option<Handle> {
        some(self.back)
    }

    pub(crate) fn push_front<K: Fingerprint>(&mut self, nodes: &mut Nodes<K>, handle: Handle) {
        let front = self.front;
        let node = nodes.at(handle);
        debug_assert_eq!(node.place, NOWHERE);
        (node.place, node.previous, node.next) = (self.place, NONE, front);
        self.weight += node.weight();
        self.len += 1;
        match front {
            NONE => self.back = handle.0,
            _ => nodes.at(Handle(front)).previous = handle.0,
        }
        self.front = handle.0;
    }

    pub(crate) fn move_to_front<K: Fingerprint>(&mut self, nodes: &mut Nodes<K>, handle: Handle) {
        if self.front != handle.0 {
            self.remove(nodes, handle);
            self.push_front(nodes, handle);
        }
    }

    pub(crate) fn pop_back<K: Fingerprint>(&mut self, nodes: &mut Nodes<K>) -> Option<Handle> {
        let handle = self.back()?;
        self.remove(nodes, handle);
        Some(handle)
    }

    pub(crate) fn remove<K: Fingerprint>(&mut self, nodes: &mut Nodes<K>, handle: Handle) {
        let node = nodes.at(handle);
        debug_assert_eq!(node.place, self.place);
        let (previous, next) = (node.previous, node.next);
        node.place = NOWHERE;
        debug_assert!(self.len > 0);
        debug_assert!(self.weight >= node.weight());
        self.weight -= node.weight();
        self.len -= 1;
        debug_assert!(self.len > 0 || self.weight == 0, "weight of no object");
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

fn some(position: u32) -> Option<Handle> {
    (position != NONE).then_some(Handle(position))
}

const NONE: u32 = u32::MAX;
/// Place of a node in no queue.
const NOWHERE: u8 = u8::MAX;
/// Least number of nodes added at once.
const GROWTH_MIN: usize = 64;
