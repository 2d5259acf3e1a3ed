//! RAM by size: curves of the policies that the RAM tier runs, the knee, and the RAM for shares of
//! the achievable.
//!
//! Kant and Won ask for the RAM of a server that reaches 95, 98 and 99% of its best throughput
//! (*Server Capacity Planning for Web Traffic Workload*, IEEE TKDE 1999). A request that RAM misses
//! costs the machine more than one that it hits. With k for the ratio and m for the miss ratio,
//! throughput goes with 1 / (1 + (k − 1) · m).

use super::PlanOptions;
use super::by_size::SizePrefix;
use super::demand::Demand;
use super::disk::DiskPlan;
use super::footprint::Footprint;
use super::tier;
use crate::character::CensusTrace;
use crate::curve::{Curve, MiniSimulation, Point, Shards, TierPoint, TwoTiers, sizes_between};
use crate::forecast::{Past, STRETCHES};
use crate::progress::Progress;
use crate::workload::share;
use shoal_policy::{Replacement, ReplacementPolicy};

/// RAM alone.
pub struct RamPlan {
    /// Share of objects that were simulated; 1 is all.
    pub rate: f64,
    /// Curve of each policy, by its name: `s3_fifo`, which is the default, first. RAM takes no
    /// object of more than [`Footprint::ram_object_max`].
    pub curves: Vec<(&'static str, Curve)>,
    /// Curve of RAM and disk together under the default policy: a cache that takes objects up to
    /// [`Footprint::object_max`].
    pub whole: Curve,
    /// Share of the measured requests that are for objects too large for RAM.
    pub too_large: f64,
    /// LRU by stack distances over objects of any size, at the sizes of `whole`.
    pub stack: Curve,
    /// Point beyond which more RAM brings little.
    pub knee: Option<Point>,
    /// RAM for each share of the achievable.
    pub targets: Vec<Target>,
}

/// RAM for a share of the achievable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Goal of the share.
    pub goal: Goal,
    /// Share of the goal.
    pub share: f64,
    /// RAM.
    pub ram_bytes: u64,
    /// Hit ratio with that RAM.
    pub hit_ratio: f64,
    /// Disk operations a second at the peak with that RAM, for a disk that has the rest; `None`
    /// where the log has no times.
    pub disk_ios: Option<f64>,
}

/// Goals for which RAM is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The hit ratio of an infinite cache.
    HitRatio,
    /// The throughput of a machine with RAM for everything.
    Throughput,
}

/// Pairs of RAM and disk, simulated.
pub(super) struct TierSimulation {
    /// Results of each pair.
    pub(super) points: Vec<TierPoint>,
    /// Outcomes of the requests with the first pair.
    pub(super) past: Past,
    /// Number of requests in `past` that only warmed the caches.
    pub(super) warm_up: usize,
}

impl RamPlan {
    pub(super) fn of(
        loaded: &CensusTrace,
        demand: &Demand,
        wishes: &PlanOptions,
        progress: &mut dyn Progress,
    ) -> Self {
        let footprint = wishes.footprint;
        let (all, kept) =
            (demand.objects_up_to(footprint.object_max), demand.objects_up_to(footprint.ram_object_max));
        let (all_sizes, ram_sizes) = (sizes(all, footprint), sizes(kept, footprint));
        let requests = loaded.trace.requests();
        let rate = rate(requests.len());
        let simulation = |name, sizes: &[u64]| MiniSimulation::new(policy(name), sizes, rate, wishes.seed);
        let mut simulations = POLICIES.map(|name| (name, simulation(name, &ram_sizes)));
        // Where RAM takes every object, its curve is the whole curve.
        let is_some_too_large = requests.iter().any(|request| !footprint.is_kept_in_ram(request.bytes));
        let mut whole = is_some_too_large.then(|| simulation(POLICIES[0], &all_sizes));
        let mut too_large = 0;
        let mut stack = Shards::fixed_rate(rate, wishes.seed);
        let is_mark = marks(requests.len(), demand.warm_up);
        progress.begin("sizes of RAM", requests.len() as u64);
        for (at, request) in requests.iter().enumerate() {
            if at == demand.warm_up {
                stack.end_warm_up();
                too_large = 0;
                simulations.iter_mut().for_each(|(_, simulation)| simulation.end_warm_up());
                whole.iter_mut().for_each(MiniSimulation::end_warm_up);
            } else if is_mark(at) {
                simulations.iter_mut().for_each(|(_, simulation)| simulation.end_block());
                whole.iter_mut().for_each(MiniSimulation::end_block);
            }
            let (object, bytes, weight) =
                (request.object.into(), request.bytes, footprint.ram(request.bytes));
            stack.request(object, weight);
            if let Some(whole) = &mut whole {
                match bytes <= footprint.object_max {
                    true => whole.request_weighing(object, bytes, weight),
                    false => whole.pass(object, bytes),
                }
            }
            let is_kept = footprint.is_kept_in_ram(bytes);
            too_large += u64::from(!is_kept);
            for (_, simulation) in &mut simulations {
                match is_kept {
                    true => simulation.request_weighing(object, bytes, weight),
                    false => simulation.pass(object, bytes),
                }
            }
            progress.done(1);
        }
        simulations.iter_mut().for_each(|(_, simulation)| simulation.end_block());
        whole.iter_mut().for_each(MiniSimulation::end_block);
        let curves: Vec<(&'static str, Curve)> =
            simulations.iter().map(|(name, simulation)| (*name, simulation.curve())).collect();
        Self {
            rate,
            knee: curves[0].1.knee(),
            whole: whole.map_or_else(|| curves[0].1.clone(), |whole| whole.curve()),
            too_large: share(too_large, (requests.len() - demand.warm_up) as u64),
            stack: stack.finish().curve(&all_sizes),
            targets: Vec::new(),
            curves,
        }
    }

    /// Returns the curve of the default policy.
    pub fn curve(&self) -> &Curve {
        &self.curves[0].1
    }

    /// Returns the hit ratio of RAM for all objects that it takes.
    pub(super) fn most(&self) -> f64 {
        self.curve().points.last().map_or(0.0, |point| point.hit_ratio)
    }

    /// Returns the disk operations of a request where RAM hits this share of them, for a disk that
    /// has the rest.
    pub(super) fn ios_beside(&self, ram_hit_ratio: f64, disk: &DiskPlan) -> f64 {
        let most = self.whole.points.last().map_or(0.0, |point| point.hit_ratio);
        disk.ios((most - ram_hit_ratio).max(0.0), 1.0 - most)
    }

    /// Computes the RAM for each share, with the disk's operations. Finds none where RAM takes none
    /// of the objects that are requested again.
    pub(super) fn aim(&mut self, disk: &DiskPlan, demand: &Demand, wishes: &PlanOptions) {
        let most = self.most();
        if most <= 0.0 {
            return;
        }
        let mut targets = Vec::new();
        for goal in [Goal::HitRatio, Goal::Throughput] {
            for share in SHARES {
                let wanted = match goal {
                    Goal::HitRatio => most * share,
                    Goal::Throughput => hit_ratio_for(share, most, wishes.miss_cost),
                };
                let Some(ram_bytes) = self.curve().size_for(wanted) else { continue };
                let hit_ratio = self.curve().at(ram_bytes).0;
                let ios = |peak: f64| peak * self.ios_beside(hit_ratio, disk);
                let disk_ios = demand.storable_peak().map(ios);
                targets.push(Target { goal, share, ram_bytes, hit_ratio, disk_ios });
            }
        }
        self.targets = targets;
    }

    /// Returns pairs of RAM and disk around the likely choice.
    pub(super) fn pairs(&self, wishes: &PlanOptions) -> Vec<(u64, u64)> {
        let every = |curve: &Curve, step: usize| {
            curve.points.iter().map(|point| point.size).step_by(step).collect::<Vec<_>>()
        };
        let mut disks = vec![0];
        match wishes.disk_bytes {
            Some(bytes) => disks.push(bytes),
            None => {
                let last = self.whole.points.last().map(|point| point.size);
                disks.extend(every(&self.whole, 6).into_iter().skip(1).chain(last));
            }
        }
        let rams = wishes.ram_bytes.map_or_else(|| every(self.curve(), 4), |bytes| vec![bytes]);
        rams.into_iter().flat_map(|ram| disks.iter().map(move |disk| (ram, *disk))).collect()
    }

    /// Simulates pairs of RAM and disk, the disk under this architecture. Returns their results,
    /// and the past of the first pair over the simulated objects.
    pub(super) fn tiers(
        &self,
        loaded: &CensusTrace,
        demand: &Demand,
        (architecture, pairs): (&str, &[(u64, u64)]),
        wishes: &PlanOptions,
        progress: &mut dyn Progress,
    ) -> TierSimulation {
        let footprint = wishes.footprint;
        let disk = |bytes, rate| {
            let mean = demand.objects_up_to(tier::largest(architecture, bytes, footprint)).mean();
            tier::disk(architecture, (bytes, rate), mean, footprint)
        };
        let mut tiers = TwoTiers::new(policy(POLICIES[0]), &disk, pairs, self.rate, wishes.seed);
        let requests = loaded.trace.requests();
        let is_mark = marks(requests.len(), demand.warm_up);
        let (mut past, mut warm_up) = (Past::default(), 0);
        progress.begin("RAM before disk", requests.len() as u64);
        for (at, request) in requests.iter().enumerate() {
            if at == demand.warm_up {
                tiers.end_warm_up();
                warm_up = past.requests();
            } else if is_mark(at) {
                tiers.end_block();
            }
            if let Some(became) = tiers.request(request.object.into(), footprint.weights(request.bytes)) {
                past.push(request.object.into(), became);
            }
            progress.done(1);
        }
        tiers.end_block();
        TierSimulation { points: tiers.points(), past, warm_up }
    }
}

/// Returns a predicate for the end of each part of the measured requests; the last part ends with
/// the log.
fn marks(requests: usize, warm_up: usize) -> impl Fn(usize) -> bool {
    assert!(warm_up <= requests, "{warm_up} of {requests} requests warm up");
    let block = ((requests - warm_up) / BLOCKS).max(1);
    move |at| at > warm_up && (at - warm_up).is_multiple_of(block) && (at - warm_up) / block < BLOCKS
}

/// Returns the hit ratio that gives this share of the throughput at `most`.
fn hit_ratio_for(share: f64, most: f64, miss_cost: f64) -> f64 {
    debug_assert!(0.0 < share && share <= 1.0 && (0.0..=1.0).contains(&most), "{share} of {most}");
    let more = (miss_cost - 1.0).max(1e-9);
    let cost = (1.0 + more * (1.0 - most)) / share;
    (1.0 - (cost - 1.0) / more).clamp(0.0, most)
}

/// Returns sizes from about a thousandth of these objects' bytes to all of them, with room for the
/// last.
fn sizes(of: SizePrefix, footprint: Footprint) -> Vec<u64> {
    let around = of.objects * footprint.ram_overhead();
    let all = of.bytes.saturating_add(around).max(1 << 20);
    let last = all.saturating_add(all / 20).saturating_add(of.largest);
    // Below a megabyte there is nothing to plan, but whole logs may be small.
    sizes_between((last / 1000).max(1 << 20).min(last / 20), last, CURVE_POINTS)
}

/// Returns the share of objects to simulate: all of short logs, a part of long ones.
fn rate(requests: usize) -> f64 {
    debug_assert!(requests > 0, "a plan is made of requests");
    (SIMULATED_REQUESTS / requests as f64).clamp(0.002, 1.0)
}

pub(super) fn policy(name: &str) -> fn() -> Box<dyn Replacement<u64>> {
    ReplacementPolicy::<u64>::named(name)
        .expect("the names below are in the table: a test asks for each")
        .construct
}

/// Policies with curves; the first is the RAM tier's default.
pub(super) const POLICIES: [&str; 3] = ["s3_fifo", "lru", "gdsf"];
const SHARES: [f64; 3] = [0.95, 0.98, 0.99];
/// Number of sizes of a curve.
pub(super) const CURVE_POINTS: usize = 20;
/// Approximate number of simulated requests of a long log.
const SIMULATED_REQUESTS: f64 = 500_000.0;
/// Number of parts of the measured requests, for comparing their hit ratios.
const BLOCKS: usize = STRETCHES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_as_many_as_told() {
        let ends = |requests| (0..requests).filter(|at| marks(requests, 30)(*at)).collect::<Vec<_>>();
        let expected: Vec<usize> = (1..BLOCKS).map(|part| 30 + part * 20).collect();
        assert_eq!(ends(30 + BLOCKS * 20), expected);
        assert_eq!(ends(30 + BLOCKS * 20 + 19), expected);
    }

    #[test]
    fn policies_exist_and_throughput_fits_the_formula() {
        POLICIES.into_iter().for_each(|name| drop(policy(name)()));
        let throughput = |hits: f64| 1.0 / (1.0 + 4.0 * (1.0 - hits));
        for share in SHARES {
            let hits = hit_ratio_for(share, 0.8, 5.0);
            assert!((throughput(hits) / throughput(0.8) - share).abs() < 1e-9, "{share} {hits}");
        }
        assert_eq!(hit_ratio_for(0.5, 0.1, 5.0), 0.0);
    }
}
