//! Directories: a request is answered by the client's proxy, by a peer that the directory names, or
//! by the origin.

use super::cache::{Look, ProxyCache};
use super::paths::proxies_at;
use super::{Cooperation, Stream, Visit, VisitTally, WideAreaResult, WideAreaSetup, common_level};
use shoal_cooperation::NodeId;
use shoal_cooperation::directory::{DigestShape, Directory};
use shoal_core::Key;
use shoal_trace::Random;

/// Settings of digests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Digests {
    /// Bits for each object that a proxy may hold.
    pub bits_per_object: u32,
    /// Hashes.
    pub hashes: u32,
    /// The share of a proxy's objects that come or go between two updates.
    pub threshold: f64,
    /// Number of peers asked in vain before the origin is asked.
    pub tries: usize,
}

struct DirectoryRun<'a> {
    plan: &'a WideAreaSetup,
    caches: Vec<ProxyCache>,
    /// Digests of each proxy; empty when directories tell the truth.
    directories: Vec<Directory>,
    random: Random,
    holders: Vec<usize>,
}

pub(super) fn simulate(stream: &Stream, plan: &WideAreaSetup, seed: u64) -> WideAreaResult {
    let proxies = proxies_at(plan.region.levels() - 1, &plan.region);
    let mut outcome = WideAreaResult::new(plan, proxies);
    let directories = match plan.cooperation {
        // No proxy restarts, so that all have life 0.
        Cooperation::Summaries(digests) => vec![empty(&digests, stream, proxies); proxies],
        _ => Vec::new(),
    };
    let mut run = DirectoryRun {
        plan,
        caches: (0..proxies).map(|_| ProxyCache::new(plan.cache_bytes)).collect(),
        directories,
        random: Random::of(seed, proxies as u64),
        holders: Vec::new(),
    };
    run.introduce();
    for (number, visit) in stream.visits.iter().enumerate() {
        let mut tally = VisitTally::of(&mut outcome, plan, number, stream);
        run.visit(number, stream.visits.len(), visit, &mut tally);
    }
    outcome.stored_bytes = run.caches.iter().map(ProxyCache::bytes).sum();
    outcome
}

/// Returns a digest with room for a proxy's share of the objects. Popular objects are on every
/// proxy. Twice an equal share is therefore a fair guess, as an operator would make it.
fn empty(digests: &Digests, stream: &Stream, proxies: usize) -> Directory {
    let objects = (2 * stream.objects / proxies.max(1)).max(64) as u64;
    Directory::new(DigestShape::new(objects, digests.bits_per_object, digests.hashes), digests.threshold, 0)
}

impl DirectoryRun<'_> {
    /// Tells every proxy that the others hold nothing.
    fn introduce(&mut self) {
        for from in 0..self.directories.len() {
            let whole = self.directories[from].whole();
            for to in (0..self.directories.len()).filter(|to| *to != from) {
                let _ = self.directories[to].receive(NodeId(from as u64), whole.clone());
            }
        }
    }

    fn visit(&mut self, number: usize, visits: usize, visit: &Visit, tally: &mut VisitTally<'_>) {
        let here = visit.client as usize % self.caches.len();
        let region = &self.plan.region;
        tally.count(|outcome| outcome.arrivals[here] += 1);
        let own =
            if visit.cacheable { self.caches[here].look(visit.object, visit.version) } else { Look::Absent };
        if own == Look::Valid {
            let level = region.levels() - 1;
            tally.found(number, visits, level, visit.bytes, region.latency_seconds[level]);
            tally.count(|outcome| outcome.found_here += 1);
            return;
        }
        let (found, asked_seconds, old) =
            if visit.cacheable { self.ask_peers(here, visit, tally) } else { (None, 0.0, false) };
        match found {
            Some(level) => tally.found(number, visits, level, visit.bytes, asked_seconds),
            None => {
                tally.count(|outcome| outcome.latency_seconds += asked_seconds + self.plan.origin_seconds)
            }
        }
        tally.count(|outcome| outcome.outdated += u64::from(old || own == Look::Old));
        if visit.cacheable {
            self.keep(here, visit, tally);
        }
    }

    /// Asks peers one after the other. Returns the level of the one that answered, the time it
    /// took, and `true` if one held an older version.
    fn ask_peers(
        &mut self,
        here: usize,
        visit: &Visit,
        tally: &mut VisitTally<'_>,
    ) -> (Option<usize>, f64, bool) {
        let plan = self.plan;
        self.name_holders(here, visit);
        let (mut seconds, mut old) = (0.0, false);
        for peer in self.holders.iter().copied() {
            let level = match plan.cooperation {
                Cooperation::DirectoryTiers => common_level(here, peer, &plan.region),
                _ => 0,
            };
            seconds += 2.0 * plan.region.latency_seconds[level];
            tally.count(|outcome| {
                outcome.arrivals[peer] += 1;
                outcome.questions += 1;
            });
            match self.caches[peer].look(visit.object, visit.version) {
                Look::Valid => return (Some(level), seconds, old),
                look => {
                    old |= look == Look::Old;
                    tally.count(|outcome| outcome.false_hits += 1);
                }
            }
        }
        let missed = (0..self.caches.len())
            .any(|peer| peer != here && self.caches[peer].peek(visit.object, visit.version) == Look::Valid);
        tally.count(|outcome| outcome.false_misses += u64::from(missed));
        (None, seconds, old)
    }

    /// Lists the peers to ask, in order.
    fn name_holders(&mut self, here: usize, visit: &Visit) {
        self.holders.clear();
        if let Cooperation::Summaries(digests) = self.plan.cooperation {
            let holders = self.directories[here].holders(key(visit.object));
            self.holders.extend(holders.map(|node| node.0 as usize));
            self.shuffle();
            self.holders.truncate(digests.tries.max(1));
            return;
        }
        let holds = |peer: &usize| self.caches[*peer].peek(visit.object, visit.version) == Look::Valid;
        self.holders.extend((0..self.caches.len()).filter(|peer| *peer != here).filter(holds));
        self.shuffle();
        if self.plan.cooperation == Cooperation::DirectoryTiers {
            let region = &self.plan.region;
            self.holders.sort_by_key(|peer| std::cmp::Reverse(common_level(here, *peer, region)));
        }
        self.holders.truncate(1);
        debug_assert!(!self.holders.contains(&here), "proxy {here} is no peer of its own");
    }

    fn shuffle(&mut self) {
        for last in (1..self.holders.len()).rev() {
            let other = self.random.below(last as u64 + 1) as usize;
            self.holders.swap(last, other);
        }
    }

    /// Keeps a copy at the proxy, and tells the others when an update is due.
    fn keep(&mut self, here: usize, visit: &Visit, tally: &mut VisitTally<'_>) {
        let mut gone = Vec::new();
        let kept =
            self.caches[here].keep(visit.object, visit.version, visit.bytes, &mut |object| gone.push(object));
        let peers = self.caches.len() as u64 - 1;
        debug_assert!(!gone.contains(&visit.object) || gone[0] == visit.object, "the old version goes first");
        let Some(directory) = self.directories.get_mut(here) else { return };
        // A new version in place of an old one changes nothing in a digest.
        let replaced = kept && gone.contains(&visit.object);
        for object in gone.into_iter().filter(|object| !replaced || *object != visit.object) {
            directory.removed(key(object));
        }
        if kept && !replaced {
            directory.stored(key(visit.object));
        }
        let Some(update) = directory.update() else { return };
        tally.count(|outcome| {
            outcome.updates += peers;
            outcome.update_bytes += peers * update.bytes();
        });
        for to in (0..self.directories.len()).filter(|to| *to != here) {
            // No update is lost here, so that there are no gaps.
            let _ = self.directories[to].receive(NodeId(here as u64), update.clone());
        }
    }
}

fn key(object: u32) -> Key {
    Key::unkeyed(&object.to_le_bytes())
}
