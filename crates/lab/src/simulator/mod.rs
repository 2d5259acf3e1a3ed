//! The policy simulator: drives any replacement policy over a stream of requests, without bodies
//! and without disk.
//!
//! A [`Simulator`] is a cache as small as it can be: a hash table of slot numbers ([`SlotTable`])
//! and the policy, the very code that the proxy runs, which holds the keys. It counts hits, bytes,
//! evictions and its own memory. A [`MappedCache`] does the same for a memory-mapped file of
//! segments. [`ZipfTrace`] makes requests where no trace is at hand, and [`speed`] measures the
//! policies side by side.

mod counts;
mod mapped;
mod request;
pub mod speed;
mod table;
mod zipf;

#[cfg(test)]
mod tests;

pub use counts::Counts;
pub use mapped::{MappedCache, MappedPolicy, foreseen};
pub use request::{Capacity, Request};
pub use table::SlotTable;
pub use zipf::{Alias, ZipfTrace};

use shoal_policy::{Fingerprint, Handle, Replacement};
use std::hint::black_box;

/// A policy with as much of a cache around it as it needs.
///
/// An object keeps the size that it came in with until it leaves; a request that names another size
/// is a hit of the size it names.
pub struct Simulator<P> {
    policy: P,
    table: SlotTable,
    capacity: Capacity,
    counts: Counts,
}

impl<P: Replacement<u64>> Simulator<P> {
    /// An empty cache.
    pub fn new(policy: P, capacity: Capacity) -> Self {
        Self { policy, table: SlotTable::new(), capacity, counts: Counts::default() }
    }

    /// One request. True when it hits.
    pub fn request(&mut self, request: Request) -> bool {
        self.request_weighing(request, request.bytes)
    }

    /// One request for an object that takes so many bytes of a capacity in bytes. True when it
    /// hits.
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

    /// One request for an object that is not looked for here and not taken in: a miss.
    pub fn pass(&mut self, bytes: u64) {
        self.counts.requests += 1;
        self.counts.bytes += bytes;
        self.counts.declined += 1;
    }

    /// All of them, in order. Returns what was counted, these included.
    ///
    /// A few are looked at ahead, so that what they will need from memory arrives while others are
    /// served; the results are those of [`Simulator::request`] one by one.
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

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Objects that are in.
    pub fn objects(&self) -> usize {
        self.policy.len()
    }

    /// Bytes of memory for all that is kept about objects: table, keys, links, ghosts.
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
            self.table.remove(victim.key.fingerprint(), victim.handle.number());
            self.counts.evictions += 1;
        }
        let handle = self.policy.insert(object, weight);
        let Self { policy, table, .. } = self;
        let hash_of = |slot| policy.key(Handle::from_number(slot)).map_or(0, Fingerprint::fingerprint);
        table.insert(hash, handle.number(), hash_of);
    }

    /// Reads what these requests will look at: nothing but reads that do not wait for one another.
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

/// Requests looked at ahead: enough to fill the wait for memory, few enough to be still there when
/// their turn comes.
const AHEAD: usize = 16;
