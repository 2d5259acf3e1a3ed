//! Hierarchies and homes by hash: a request goes along a path of caches until one holds the object,
//! and all caches before keep a copy.

use super::cache::{Look, ProxyCache};
use super::{Cooperation, Stream, Visit, VisitTally, WideAreaResult, WideAreaSetup, common_level, group};
use crate::model::wan::scheme::Region;
use shoal_cooperation::hash::{Carp, HashPlacement, Rendezvous, Ring, Tiers};
use shoal_cooperation::hierarchy::Hierarchy;
use shoal_cooperation::{NodeId, Route};
use shoal_core::Key;

/// Rules for finding an object's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeRule {
    /// Rendezvous hashing.
    Rendezvous,
    /// Consistent hashing on a ring.
    Ring,
    /// The Cache Array Routing Protocol.
    Carp,
    /// The key's number modulo the number of proxies: the baseline that the other rules improve on.
    Modulo,
}

/// A proxy that is lost with all it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Number of the visit before which the proxy is lost.
    pub at: usize,
    /// Number of the lost proxy.
    pub proxy: usize,
}

/// A run over the proxies and the caches above them.
struct PathRun<'a> {
    plan: &'a WideAreaSetup,
    caches: Vec<ProxyCache>,
    route: Box<dyn Route>,
    path: Vec<NodeId>,
}

pub(super) fn simulate(stream: &Stream, plan: &WideAreaSetup) -> WideAreaResult {
    let route = rule(plan);
    let levels = if plan.cooperation == Cooperation::Hierarchy { plan.region.levels() } else { 1 };
    let caches: usize =
        (0..levels).map(|level| proxies_at(plan.region.levels() - 1 - level, &plan.region)).sum();
    let mut outcome = WideAreaResult::new(plan, caches);
    let caches = (0..caches).map(|_| ProxyCache::new(plan.cache_bytes)).collect();
    let mut run = PathRun { plan, caches, route, path: Vec::new() };
    for (number, visit) in stream.visits.iter().enumerate() {
        if let Cooperation::Hashed(_, Some(loss)) = plan.cooperation
            && loss.at == number
        {
            run.route.lose(NodeId(loss.proxy as u64));
            if let Some(cache) = run.caches.get_mut(loss.proxy) {
                cache.clear();
            }
        }
        let mut tally = VisitTally::of(&mut outcome, plan, number, stream);
        run.visit(number, stream.visits.len(), visit, Key::unkeyed(&visit.object.to_le_bytes()), &mut tally);
    }
    outcome.stored_bytes = run.caches.iter().map(ProxyCache::bytes).sum();
    outcome
}

impl PathRun<'_> {
    fn visit(&mut self, number: usize, visits: usize, visit: &Visit, key: Key, tally: &mut VisitTally<'_>) {
        let here = visit.client as usize % proxies_at(self.plan.region.levels() - 1, &self.plan.region);
        self.route.path(NodeId(here as u64), key, &mut self.path);
        let mut outdated = false;
        let mut found = None;
        for (at, node) in self.path.iter().enumerate() {
            let cache = node.0 as usize;
            tally.count(|outcome| {
                outcome.arrivals[cache] += 1;
                outcome.questions += u64::from(at > 0 || cache != here);
            });
            if !visit.cacheable {
                continue;
            }
            match self.caches[cache].look(visit.object, visit.version) {
                Look::Valid => {
                    found = Some(at);
                    break;
                }
                look => outdated |= look == Look::Old,
            }
        }
        debug_assert!(found.is_none_or(|at| at < self.path.len()), "found on the path");
        let level = found.map(|at| self.level(here, at));
        match level {
            Some(level) => {
                let seconds = self.plan.region.latency_seconds[level];
                tally.found(number, visits, level, visit.bytes, seconds);
            }
            None => tally.count(|outcome| outcome.latency_seconds += self.plan.origin_seconds),
        }
        tally.count(|outcome| {
            outcome.found_here += u64::from(found.is_some_and(|at| self.path[at].0 as usize == here));
            outcome.outdated += u64::from(outdated);
        });
        if visit.cacheable {
            for node in &self.path[..found.unwrap_or(self.path.len())] {
                self.caches[node.0 as usize].keep(visit.object, visit.version, visit.bytes, &mut |_| {});
            }
        }
    }

    /// Returns the level of a place on the path. A hierarchy has one place for each level. A home
    /// has the level of its tier, as Table 5.3 counts it.
    fn level(&self, here: usize, at: usize) -> usize {
        let bottom = self.plan.region.levels() - 1;
        match self.plan.cooperation {
            Cooperation::Alone => bottom,
            Cooperation::Hierarchy => bottom - at,
            Cooperation::HashTiers => {
                let lowest_tier = bottom.saturating_sub(1);
                common_level(here, self.path[at].0 as usize, &self.plan.region).min(lowest_tier)
            }
            _ => 0,
        }
    }
}

fn rule(plan: &WideAreaSetup) -> Box<dyn Route> {
    let region = &plan.region;
    let proxies = proxies_at(region.levels() - 1, region);
    let nodes = || (0..proxies as u64).map(NodeId);
    match plan.cooperation {
        Cooperation::Hierarchy => Box::new(levels(region)),
        Cooperation::HashTiers => {
            let tiers = (0..region.levels().saturating_sub(1).max(1)).rev();
            let groups =
                |node: NodeId| tiers.clone().map(move |tier| group(node.0 as usize, tier, region) as u64);
            Box::new(Tiers::new(nodes().map(|node| (node, groups(node).collect()))))
        }
        Cooperation::Hashed(HomeRule::Rendezvous, _) => Box::new(Rendezvous::of(nodes())),
        Cooperation::Hashed(HomeRule::Ring, _) => Box::new(Ring::of(nodes())),
        Cooperation::Hashed(HomeRule::Carp, _) => {
            let mut array = Carp::default();
            nodes().for_each(|node| array.insert(node, 1.0));
            Box::new(array)
        }
        Cooperation::Hashed(HomeRule::Modulo, _) => Box::new(Modulo { nodes: nodes().collect() }),
        _ => Box::new(Separate),
    }
}

/// Returns the hierarchy: the proxies first, then each level above, with one cache for each group.
fn levels(region: &Region) -> Hierarchy {
    let bottom = region.levels() - 1;
    let mut first_of = vec![0u64; region.levels()];
    for level in (0..bottom).rev() {
        first_of[level] = first_of[level + 1] + proxies_at(level + 1, region) as u64;
    }
    let mut parents = Vec::new();
    for level in 0..=bottom {
        for cache in 0..proxies_at(level, region) as u64 {
            let above = |level: usize| NodeId(first_of[level - 1] + cache / u64::from(region.fanout));
            parents.push((NodeId(first_of[level] + cache), (level > 0).then(|| above(level))));
        }
    }
    // The numbers go upwards level by level, so that there is no circle. The model refuses regions
    // deeper than 16 levels.
    Hierarchy::new(parents).unwrap_or_default()
}

/// Returns d^level: groups at a level, 0 being the top.
pub(super) fn proxies_at(level: usize, region: &Region) -> usize {
    (region.fanout as usize).pow(level as u32)
}

/// Routing without cooperation.
struct Separate;

impl Route for Separate {
    fn path(&self, entry: NodeId, _key: Key, path: &mut Vec<NodeId>) {
        path.clear();
        path.push(entry);
    }

    fn lose(&mut self, _gone: NodeId) {}
}

/// Routing by the key's number modulo the number of nodes.
struct Modulo {
    nodes: Vec<NodeId>,
}

impl Route for Modulo {
    fn path(&self, _entry: NodeId, key: Key, path: &mut Vec<NodeId>) {
        path.clear();
        path.extend(self.nodes.get((key.low() % self.nodes.len().max(1) as u64) as usize));
    }

    fn lose(&mut self, gone: NodeId) {
        self.nodes.retain(|other| *other != gone);
    }
}
