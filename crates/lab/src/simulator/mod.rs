//! The policy simulator: drives any replacement policy over a stream of requests, without bodies
//! and without disk.
//!
//! A [`Simulator`] is a minimal cache: a hash table of slot numbers ([`SlotTable`]) and the policy,
//! which holds the keys. The policy is the code that the proxy runs. The simulator counts hits,
//! bytes, evictions and its own memory. A [`MappedCache`] does the same for a memory-mapped file of
//! segments. [`ZipfTrace`] makes requests where no trace is at hand, and [`speed`] measures the
//! policies side by side.

mod counts;
mod mapped;
mod request;
pub mod speed;
mod zipf;

#[cfg(test)]
mod tests;

pub use counts::Counts;
pub use mapped::{MappedCache, MappedPolicy, foreseen};
pub use request::{Capacity, Request};
pub use shoal_policy::SlotTable;
pub use zipf::{Alias, ZipfTrace};

use shoal_policy::{Fingerprint, Handle, Replacement};
use std::hint::black_box;

/// A policy with a minimal cache around it.
///
/// An object keeps the size of its admission until its eviction. A request with another size is a
/// hit of the size that the request names.
pub struct Simulator<P> {
    policy: P,
    table: SlotTable,
    capacity: Capacity,
    counts: Counts,
}

impl<P: Replacement<u64>> Simulator<P> {
    /// Creates an empty cache.
    pub fn new(mut policy: P, capacity: Capacity) -> Self {
        let (Capacity::Bytes(room) | Capacity::Objects(room)) = capacity;
        policy.set_capacity(room);
        Self { policy, table: SlotTable::new(), capacity, counts: Counts::default() }
    }

    /// Handles one request. Returns `true` when it hits.
    pub fn request(&mut self, request: Request) -> bool {
        self.request_weighing(request, request.bytes)
    }

    /// Handles one request for an object that takes `weight_bytes` of a capacity in bytes. Returns
    /// `true` when it hits.
    pub fn request_weighing(&mut self, request: Request, weight_bytes: u64) -> bool {
        let hash = request.object.fingerprint();
        self.counts.requests += 1;
        self.counts.bytes += request.bytes;
        let Self { policy, table, .. } = self;
        let is_it = |slot| policy.key(Handle::from_number(slot)) == Some(request.object);
        if let Some(slot) = table.find(hash, is_it) {
            policy.hit(Handle::from_number(slot));
            self.counts.hits += 1;
            self.counts.hit_bytes += request.bytes;
            return true;
        }
        self.take_in(request.object, weight_bytes, hash);
        false
    }

    /// Counts one request as a miss, without looking for its object or admitting it.
    pub fn pass(&mut self, bytes: u64) {
        self.counts.requests += 1;
        self.counts.bytes += bytes;
        self.counts.declined += 1;
    }

    /// Handles all requests, in order. Returns the counts, these requests included.
    ///
    /// The simulator looks at a few requests ahead, so that their memory arrives while others are
    /// served. The results are those of [`Simulator::request`] one by one.
    pub fn run(&mut self, requests: impl IntoIterator<Item = Request>) -> Counts {
        let mut requests = requests.into_iter();
        let mut ahead = [Request { object: 0, bytes: 0 }; AHEAD];
        loop {
            let mut len = 0;
            for request in requests.by_ref().take(AHEAD) {
                ahead[len] = request;
                len += 1;
            }
            if len == 0 {
                return self.counts;
            }
            self.touch(&ahead[..len]);
            for request in &ahead[..len] {
                self.request(*request);
            }
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of objects in the cache.
    pub fn objects(&self) -> usize {
        self.policy.len()
    }

    /// Returns the bytes of memory for all data about objects: table, keys, links, ghosts.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.policy.memory_bytes()
    }

    fn take_in(&mut self, object: u64, bytes: u64, hash: u64) {
        let (weight, room) = match self.capacity {
            Capacity::Bytes(room) => (bytes, room),
            Capacity::Objects(room) => (1, room),
        };
        if weight > room {
            self.counts.declined += 1;
            self.policy.declined(object);
            return;
        }
        while self.policy.weight() + weight > room {
            let Some(victim) = self.policy.evict() else { break };
            let was_there = self.table.remove(victim.key.fingerprint(), victim.handle.number());
            debug_assert!(was_there, "the table has every object of the policy");
            self.counts.evictions += 1;
        }
        let handle = self.policy.insert(object, weight);
        debug_assert!(self.policy.weight() <= room, "{} of {room}", self.policy.weight());
        let Self { policy, table, .. } = self;
        let hash_of = |slot| policy.key(Handle::from_number(slot)).map_or(0, Fingerprint::fingerprint);
        table.insert(hash, handle.number(), hash_of);
        debug_assert_eq!(table.len(), policy.len(), "table and policy hold the same objects");
    }

    /// Reads the memory that these requests will need, by reads that do not wait for one another.
    fn touch(&self, requests: &[Request]) {
        let mut slots = [0; AHEAD];
        for (slot, request) in slots.iter_mut().zip(requests) {
            *slot = self.table.first_candidate(request.object.fingerprint()).unwrap_or(0);
        }
        for slot in slots {
            black_box(self.policy.key(Handle::from_number(slot)));
        }
    }
}

/// Requests looked at ahead: enough to fill the wait for memory, few enough to stay in the
/// processor's cache until their turn.
const AHEAD: usize = 16;
