//! Weighted LRU and N-chance forwarding once more, by looking at every copy: the systems must serve
//! each request from the same place.

use super::*;
use shoal_trace::Random;

/// Memories as lists of copies, the oldest first.
struct Lists {
    nodes: Vec<Vec<MemoryCopy>>,
    frames: Vec<usize>,
    server: Vec<u32>,
    server_frames: usize,
    now: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct MemoryCopy {
    object: u32,
    last_used: u64,
    /// Chances left of a block that was passed on.
    chances: Option<u8>,
}

impl Lists {
    fn new(size: &ClusterSize) -> Self {
        Self {
            nodes: vec![Vec::new(); size.nodes.len()],
            frames: size.nodes.clone(),
            server: Vec::new(),
            server_frames: size.server,
            now: 0,
        }
    }

    fn at(&self, node: usize, object: u32) -> Option<usize> {
        self.nodes[node].iter().position(|held| held.object == object)
    }

    fn holders(&self, object: u32) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.at(*node, object).is_some()).collect()
    }

    /// Returns `true` and renews a copy that the node has.
    fn used(&mut self, node: usize, object: u32) -> bool {
        self.now += 1;
        let found = self.at(node, object);
        if let Some(at) = found {
            self.nodes[node].remove(at);
            self.nodes[node].push(MemoryCopy { object, last_used: self.now, chances: None });
        }
        found.is_some()
    }

    /// Returns the place outside the node that has the object.
    fn asked(&mut self, node: usize, object: u32) -> ServedFrom {
        let other = self.holders(object).into_iter().find(|holder| *holder != node);
        let in_server = self.server.iter().position(|held| *held == object);
        match (other, in_server) {
            (Some(from), None) => ServedFrom::Remote { from, hops: 3, asked: LocatedBy::Server },
            (_, Some(at)) => {
                self.server.remove(at);
                self.server.push(object);
                ServedFrom::Server(2)
            }
            (None, None) => {
                self.server.push(object);
                if self.server.len() > self.server_frames {
                    self.server.remove(0);
                }
                ServedFrom::Disk(2)
            }
        }
    }

    fn is_full(&self, node: usize) -> bool {
        self.nodes[node].len() == self.frames[node]
    }

    /// Drops the copies of others that a write makes old.
    fn written(&mut self, node: usize, object: u32) {
        for other in self.holders(object).into_iter().filter(|other| *other != node) {
            self.nodes[other].retain(|held| held.object != object);
        }
        self.server.retain(|held| *held != object);
    }
}

trait Slow {
    fn request(&mut self, node: usize, object: u32) -> ServedFrom;
    fn lists(&mut self) -> &mut Lists;
}

struct SlowWeights(Lists);

impl SlowWeights {
    /// Returns a copy's worth: its cost in microseconds over its age.
    fn worth(&self, held: &MemoryCopy) -> (u64, u64) {
        let cost = if self.0.holders(held.object).len() > 1 { 1250 } else { 1250 + 14_800 };
        (cost, self.0.now - held.last_used + 1)
    }

    /// Returns the place of the copy worth least in some memories; the oldest of equal ones.
    fn least(&self, nodes: impl Iterator<Item = usize>) -> (usize, usize) {
        let places = nodes.flat_map(|node| (0..self.0.nodes[node].len()).map(move |at| (node, at)));
        let held = |place: &(usize, usize)| self.0.nodes[place.0][place.1];
        let by_worth = |one: &(usize, usize), other: &(usize, usize)| {
            let (one, other) = (held(one), held(other));
            let (a, b) = (self.worth(&one), self.worth(&other));
            (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.0.cmp(&b.0))
        };
        places.min_by(by_worth).expect("a full memory")
    }

    fn make_room(&mut self, node: usize) {
        let (_, at) = self.least(node..node + 1);
        let own = self.0.nodes[node][at];
        let worth = self.worth(&own);
        let mut to = None;
        if self.0.holders(own.object).len() == 1 {
            to = (0..self.0.nodes.len()).find(|other| !self.0.is_full(*other));
            if to.is_none() {
                let (other, at) = self.least(0..self.0.nodes.len());
                let found = self.worth(&self.0.nodes[other][at]);
                if other != node && found.0 * worth.1 < worth.0 * found.1 {
                    self.0.nodes[other].remove(at);
                    to = Some(other);
                }
            }
        }
        self.0.nodes[node].remove(at);
        if let Some(to) = to {
            self.0.nodes[to].push(own);
        }
    }
}

impl Slow for SlowWeights {
    fn request(&mut self, node: usize, object: u32) -> ServedFrom {
        if self.0.used(node, object) {
            return ServedFrom::Local;
        }
        let served = self.0.asked(node, object);
        if self.0.is_full(node) {
            self.make_room(node);
        }
        self.0.nodes[node].push(MemoryCopy { object, last_used: self.0.now, chances: None });
        served
    }

    fn lists(&mut self) -> &mut Lists {
        &mut self.0
    }
}

struct SlowNChance {
    lists: Lists,
    n: u8,
    random: Random,
}

impl SlowNChance {
    /// "discarding its oldest duplicate. If the cache contains no duplicates, the client discards
    /// its oldest recirculating singlet with the fewest recirculations remaining."
    fn make_room(&mut self, node: usize) {
        let held = &self.lists.nodes[node];
        let duplicate = held.iter().position(|held| self.lists.holders(held.object).len() > 1);
        let fewest = held.iter().filter_map(|held| held.chances).min();
        let recirculating =
            fewest.and_then(|fewest| held.iter().position(|held| held.chances == Some(fewest)));
        self.lists.nodes[node].remove(duplicate.or(recirculating).unwrap_or(0));
    }

    fn evict(&mut self, node: usize) {
        let gone = self.lists.nodes[node].remove(0);
        let left = gone.chances.unwrap_or(self.n);
        if left == 0 || !self.lists.holders(gone.object).is_empty() {
            return;
        }
        let to = self.random.below(self.lists.nodes.len() as u64 - 1) as usize;
        let to = to + usize::from(to >= node);
        if self.lists.is_full(to) {
            self.make_room(to);
        }
        let passed = MemoryCopy { chances: Some(left - 1), last_used: self.lists.now, ..gone };
        self.lists.nodes[to].push(passed);
    }
}

impl Slow for SlowNChance {
    fn request(&mut self, node: usize, object: u32) -> ServedFrom {
        if self.lists.used(node, object) {
            return ServedFrom::Local;
        }
        let served = self.lists.asked(node, object);
        if let ServedFrom::Remote { from, .. } = served
            && self.lists.nodes[from].iter().any(|held| held.object == object && held.chances.is_some())
        {
            self.lists.nodes[from].retain(|held| held.object != object);
        }
        if self.lists.is_full(node) {
            self.evict(node);
        }
        self.lists.nodes[node].push(MemoryCopy { object, last_used: self.lists.now, chances: None });
        served
    }

    fn lists(&mut self) -> &mut Lists {
        &mut self.lists
    }
}

/// Takes the same requests through a system and its reference.
fn check(system: &mut dyn ClusterScheme, slow: &mut dyn Slow, size: &ClusterSize, seed: u64) {
    let mut cluster = Cluster::new(size);
    let mut random = Random::new(seed);
    for at in 0..4000 {
        let node = random.below(size.nodes.len() as u64) as usize;
        let popular = random.below(size.objects as u64) * random.below(size.objects as u64);
        let object = (popular / size.objects as u64) as u32;
        let is_write = random.below(20) == 0;
        let (_, served) = cluster.perform(system, Access { node, object, is_write }).expect("known");
        assert_eq!(served, slow.request(node, object), "{}, seed {seed}, request {at}", system.name());
        if is_write {
            slow.lists().written(node, object);
        }
    }
    cluster.invariants();
    assert!(cluster.counts.remote > 100 && cluster.counts.disk > 100 && cluster.counts.forwarded > 100);
}

#[test]
fn every_copy_is_weighed() {
    for (seed, size) in sizes() {
        check(&mut WeightedLru, &mut SlowWeights(Lists::new(&size)), &size, seed);
    }
}

#[test]
fn every_duplicate_of_a_receiver_is_seen() {
    for (seed, size) in sizes() {
        for n in [1, 2, 5] {
            let mut slow = SlowNChance { lists: Lists::new(&size), n, random: Random::new(seed) };
            check(&mut NChance::new(n, seed), &mut slow, &size, seed);
        }
    }
}

/// Returns clusters of several shapes, each with a seed.
fn sizes() -> impl Iterator<Item = (u64, ClusterSize)> {
    let shapes = [vec![24, 24, 24], vec![40, 3, 17, 30, 12], vec![64, 64], vec![1, 30, 30, 2]];
    let size = |nodes: Vec<usize>| ClusterSize { nodes, server: 9, objects: 300 };
    (1..).zip(shapes.map(size))
}
