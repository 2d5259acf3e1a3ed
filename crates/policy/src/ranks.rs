//! Objects in order of a rank that only rises while they are present: a heap that hits do not
//! touch.
//!
//! GDSF uses it. A hit writes the object's new rank beside the object and leaves the heap
//! unchanged. The object's place in the heap is then too low, which does no harm until it reaches
//! the top. There the heap looks up the true rank, and either evicts the object or moves it to its
//! place. An eager heap would evict the same object, as no object stands higher than its true rank.
//! Likewise a removed object is only marked.
//!
//! Insert is O(log n) at worst and O(1) in the usual case that newcomers rank high; a hit and a
//! removal are O(1). Taking the lowest is O(log n) for it, and for each object met on the way with
//! a risen rank. Each node has four children: a step down reads two cache lines at most. 48 bytes
//! an object with a 64-bit key.

use crate::replacement::{Fingerprint, Handle, Victim, WEIGHT_MAX};

/// Objects in order of their ranks. See the file's head.
#[derive(Debug)]
pub(crate) struct Ranks<K> {
    slots: Vec<Slot<K>>,
    free: u32,
    heap: Vec<Entry>,
    /// Number of removed objects that still stand in the heap and occupy their slots.
    removed: usize,
    weight: u64,
    /// Counter of requests; among equal ranks the least recently used is the lowest.
    turn: u32,
}

/// Slot of one object.
#[derive(Debug)]
struct Slot<K> {
    key: K,
    priority: f64,
    turn: u32,
    /// Requests; 0 once the object is gone. The slot is then linked to the next free one through
    /// `turn`, or still in the heap.
    requests: u32,
    weight: u64,
}

/// Entry of the heap. Its rank is the slot's current rank or an earlier one.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Bits of a priority; they sort like the priority, as none is negative.
    priority: u64,
    turn: u32,
    slot: u32,
}

impl Entry {
    fn new(priority: f64, turn: u32, slot: u32) -> Self {
        Self { priority: priority.to_bits(), turn, slot }
    }

    /// Returns one number to compare, which costs no branch.
    fn rank(&self) -> u128 {
        u128::from(self.priority) << 32 | u128::from(self.turn)
    }
}

impl<K: Fingerprint> Ranks<K> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, heap: Vec::new(), removed: 0, weight: 0, turn: 0 }
    }

    /// Inserts an object with one request. No priority may be negative.
    pub(crate) fn insert(&mut self, key: K, weight: u64, priority: f64) -> Handle {
        let weight = weight.min(WEIGHT_MAX);
        debug_assert!(priority >= 0.0, "bits are in the order of priorities that are not negative");
        let turn = self.next_turn();
        let slot = Slot { key, priority, turn, requests: 1, weight };
        let position = match self.slots.get_mut(self.free as usize) {
            Some(free) => {
                let position = std::mem::replace(&mut self.free, free.turn);
                *free = slot;
                position
            }
            None => {
                reserve_an_eighth(&mut self.slots);
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 objects fit in memory")
            }
        };
        self.weight += weight;
        reserve_an_eighth(&mut self.heap);
        self.heap.push(Entry::new(priority, turn, position));
        self.sift_up(self.heap.len() - 1);
        Handle(position)
    }

    /// Counts a request; the new priority is a function of the number of requests and the weight.
    /// It must not fall.
    pub(crate) fn hit(&mut self, handle: Handle, priority: impl Fn(u32, u64) -> f64) {
        let turn = self.turn.wrapping_add(1);
        let Some(slot) = self.slots.get_mut(handle.0 as usize).filter(|slot| slot.requests > 0) else {
            return;
        };
        slot.requests = slot.requests.saturating_add(1);
        let before = slot.priority;
        slot.priority = priority(slot.requests, slot.weight);
        debug_assert!(slot.priority >= before, "a priority that fell");
        slot.turn = turn;
        self.turn = turn;
    }

    /// Forgets the object.
    pub(crate) fn remove(&mut self, handle: Handle) {
        let Some(slot) = self.slots.get_mut(handle.0 as usize).filter(|slot| slot.requests > 0) else {
            return;
        };
        slot.requests = 0;
        debug_assert!(self.weight >= slot.weight);
        self.weight -= slot.weight;
        self.removed += 1;
        debug_assert!(self.removed <= self.heap.len());
        if self.removed > self.heap.len() / 2 {
            self.rebuild();
        }
    }

    /// Takes out the lowest object, with its priority.
    pub(crate) fn take_lowest(&mut self) -> Option<(Victim<K>, f64)> {
        loop {
            let top = *self.heap.first()?;
            let slot = &self.slots[top.slot as usize];
            if slot.requests == 0 {
                self.removed -= 1;
                self.drop_top();
                continue;
            }
            let now = Entry::new(slot.priority, slot.turn, top.slot);
            if now.rank() != top.rank() {
                self.heap[0] = now;
                self.sift_down(0);
                continue;
            }
            let victim = Victim { key: slot.key, weight: slot.weight, handle: Handle(top.slot) };
            self.slots[top.slot as usize].requests = 0;
            self.weight -= victim.weight;
            self.drop_top();
            return Some((victim, f64::from_bits(top.priority)));
        }
    }

    pub(crate) fn key(&self, handle: Handle) -> Option<K> {
        self.slots.get(handle.0 as usize).filter(|slot| slot.requests > 0).map(|slot| slot.key)
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len() - self.removed
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<K>>() + self.heap.capacity() * size_of::<Entry>()
    }

    fn next_turn(&mut self) -> u32 {
        // After 2^32 requests an older object may once count as a newer one, among equals.
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// Removes the top of the heap and frees its slot.
    fn drop_top(&mut self) {
        let top = self.heap.swap_remove(0);
        self.release(top.slot);
        if !self.heap.is_empty() {
            self.sift_down(0);
        }
    }

    fn release(&mut self, slot: u32) {
        self.slots[slot as usize].turn = std::mem::replace(&mut self.free, slot);
    }

    /// Rebuilds the heap without removed objects.
    fn rebuild(&mut self) {
        let entries = std::mem::take(&mut self.heap);
        let (gone, kept): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| self.slots[entry.slot as usize].requests == 0);
        gone.iter().for_each(|entry| self.release(entry.slot));
        debug_assert_eq!(gone.len(), self.removed);
        self.heap = kept;
        self.removed = 0;
        for at in (0..self.heap.len()).rev() {
            self.sift_down(at);
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if entry.rank() >= self.heap[parent].rank() {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    fn sift_down(&mut self, mut at: usize) {
        let heap = &mut self.heap[..];
        let entry = heap[at];
        loop {
            let first = at * CHILDREN + 1;
            if first >= heap.len() {
                break;
            }
            let children = &heap[first..(first + CHILDREN).min(heap.len())];
            let (mut lowest, mut rank) = (0, children[0].rank());
            for (at, child) in children.iter().enumerate().skip(1) {
                let is_lower = child.rank() < rank;
                lowest = if is_lower { at } else { lowest };
                rank = if is_lower { child.rank() } else { rank };
            }
            if rank >= entry.rank() {
                break;
            }
            heap[at] = children[lowest];
            at = first + lowest;
        }
        heap[at] = entry;
    }
}

/// Makes room for one more item by growing an eighth: memory stays in proportion to the objects,
/// and growth is O(1) amortised.
fn reserve_an_eighth<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len() / 8 + 64);
    }
}

const NONE: u32 = u32::MAX;
const CHILDREN: usize = 4;

const _: () = assert!(size_of::<Entry>() == 16 && size_of::<Slot<u64>>() == 32);
