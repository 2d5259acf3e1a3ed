//! Parts that the benches about the volume share: a trace of the yardstick, and the RAM tier in
//! front of the disk.

// Not every bench needs all of it.
#[allow(dead_code)]
pub mod log;

use shoal_policy::{Handle, Replacement};
use std::collections::HashMap;

/// Requests by object number, with each object's bytes and site.
pub struct Trace {
    pub requests: Vec<u64>,
    pub bytes: Vec<u64>,
    pub sites: Vec<u64>,
}

impl Trace {
    pub fn read(text: &str) -> Self {
        let (mut numbers, mut sites) = (HashMap::new(), HashMap::new());
        let mut trace = Self { requests: Vec::new(), bytes: Vec::new(), sites: Vec::new() };
        for line in text.lines().skip(1) {
            let mut columns = line.split(',').skip(2);
            let (Some(url), Some(Ok(bytes))) = (columns.next(), columns.next().map(str::parse)) else {
                continue;
            };
            let next = numbers.len() as u64;
            let number = *numbers.entry(url).or_insert(next);
            if number == next {
                let site = url.split('/').nth(2).unwrap_or_default();
                let next = sites.len() as u64;
                trace.bytes.push(bytes);
                trace.sites.push(*sites.entry(site).or_insert(next));
            }
            trace.requests.push(number);
        }
        trace
    }
}

/// The RAM tier.
pub struct Tier {
    order: Box<dyn Replacement<u64>>,
    handles: HashMap<u64, Handle>,
    limit: u64,
}

impl Tier {
    pub fn new(order: Box<dyn Replacement<u64>>, limit: u64) -> Self {
        Self { order, handles: HashMap::new(), limit }
    }

    pub fn hit(&mut self, object: u64) -> bool {
        self.handles.get(&object).is_some_and(|handle| {
            self.order.hit(*handle);
            true
        })
    }

    #[allow(dead_code)]
    pub fn holds(&self, object: u64) -> bool {
        self.handles.contains_key(&object)
    }

    pub fn insert(&mut self, object: u64, bytes: u64) {
        let weight = bytes + RAM_OVERHEAD;
        if weight > self.limit / 4 {
            return self.order.declined(object);
        }
        while self.order.weight() + weight > self.limit {
            let Some(victim) = self.order.evict() else { break };
            self.handles.remove(&victim.key);
        }
        self.handles.insert(object, self.order.insert(object, weight));
    }
}

/// Returns the bytes of an object on disk, with head, key and metadata, rounded to the volume's
/// unit.
pub fn on_disk(bytes: u64) -> u64 {
    (bytes + 350).next_multiple_of(64)
}

/// Bytes of an object in the RAM tier beside its body: key, stored head, places in map and policy.
const RAM_OVERHEAD: u64 = 900;
