//! Shelf: the stored bodies of a simulated node, and the purges that apply to them.
//!
//! Purges are kept as in the product: each slot holds the node's own count at its last purge, and a
//! body is gone if it was asked for before. The disk may lag behind the memory.

use crate::message::{Body, ObjectId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Stored bodies of a node.
#[derive(Clone, Debug)]
pub struct Shelf {
    stored: BTreeMap<ObjectId, StoredBody>,
    capacity: usize,
    slots: Slots,
    /// Slots as they are on disk.
    durable: Slots,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct StoredBody {
    body: Body,
    /// Count of the node's purges when the body was asked for.
    asked: u64,
    /// End of a lease.
    until: Option<Duration>,
    used: u64,
    /// Life in which the body was stored.
    life: u64,
}

#[derive(Clone, Default, Debug)]
struct Slots {
    count: u64,
    objects: BTreeMap<ObjectId, u64>,
    all: u64,
}

/// Responses that a purge removes, in the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Nothing: the start of a life.
    Nothing,
    /// One object.
    Object(ObjectId),
    /// Every object.
    All,
}

impl Shelf {
    /// Makes an empty shelf for this number of bodies.
    pub fn new(capacity: usize) -> Self {
        let slots = Slots::default();
        Self { stored: BTreeMap::new(), capacity, slots: slots.clone(), durable: slots, uses: 0 }
    }

    /// Returns the node's count of purges: the position of a request that begins now.
    pub fn position(&self) -> u64 {
        self.slots.count
    }

    /// Returns a body that may be served. Bodies of lives before `oldest_life` are not trusted.
    pub fn find(&mut self, object: ObjectId, oldest_life: u64, now: Duration) -> Option<Body> {
        let slot = self.slots.of(object);
        let stored = self.stored.get_mut(&object)?;
        if stored.asked < slot || stored.until.is_some_and(|until| now >= until) {
            self.stored.remove(&object);
            return None;
        }
        self.uses += 1;
        stored.used = self.uses;
        assert_eq!(stored.body.object, object, "a body stands under its own object");
        (stored.life >= oldest_life).then_some(stored.body)
    }

    /// Stores a body that was asked for at `asked`, unless a purge came since. Evicts the body
    /// that was used least lately.
    pub fn store(&mut self, body: Body, asked: u64, until: Option<Duration>, life: u64) {
        assert!(asked <= self.slots.count, "a body is asked for before it is stored");
        if asked < self.slots.of(body.object) {
            return;
        }
        self.uses += 1;
        self.stored.insert(body.object, StoredBody { body, asked, until, used: self.uses, life });
        if self.stored.len() > self.capacity {
            let oldest = self.stored.iter().min_by_key(|(_, stored)| stored.used).map(|(object, _)| *object);
            self.stored.remove(&oldest.expect("the shelf is not empty"));
        }
        assert!(self.stored.len() <= self.capacity, "the shelf is bounded");
    }

    /// Applies a purge in memory.
    pub fn purge(&mut self, reach: Reach) {
        self.slots.purge(reach);
    }

    /// Notes that purges are on disk. Purges that are applied only go with them, which is safe.
    pub fn purges_are_durable(&mut self) {
        self.durable.clone_from(&self.slots);
    }

    /// Loses all that is not on disk. All positions of before must stay below those of after.
    pub fn restart(&mut self) {
        self.durable.count = self.durable.count.max(self.slots.count);
        self.slots = self.durable.clone();
        self.stored.retain(|_, stored| stored.until.is_none());
        self.invariants();
    }

    /// Checks that no position is beyond the count, in memory, on disk, and of bodies.
    pub fn invariants(&self) {
        assert!(self.stored.len() <= self.capacity, "the shelf is bounded");
        assert!(self.durable.count <= self.slots.count, "the disk is never ahead of the memory");
        self.slots.invariants();
        self.durable.invariants();
        for stored in self.stored.values() {
            assert!(stored.asked <= self.slots.count, "a body of the future");
            assert!(stored.used <= self.uses, "a use of the future");
        }
    }

    /// Returns the number of stored bodies.
    pub fn len(&self) -> usize {
        self.stored.len()
    }
}

impl Slots {
    fn of(&self, object: ObjectId) -> u64 {
        self.objects.get(&object).copied().unwrap_or(0).max(self.all)
    }

    fn invariants(&self) {
        assert!(self.all <= self.count, "the last purge of all is counted");
        assert!(self.objects.values().all(|slot| *slot <= self.count), "each purge is counted");
    }

    fn purge(&mut self, reach: Reach) {
        self.count += 1;
        match reach {
            Reach::Nothing => {}
            Reach::Object(object) => drop(self.objects.insert(object, self.count)),
            Reach::All => self.all = self.count,
        }
    }
}
