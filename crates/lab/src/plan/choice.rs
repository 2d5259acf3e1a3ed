//! Recommendation: a size of RAM and one of disk, by price where prices are given, by the curve's
//! shape elsewhere.

use super::PlanOptions;
use super::demand::Demand;
use super::disk::DiskPlan;
use super::memory::{Goal, RamPlan};
use super::tier;
use crate::curve::{Curve, TierPoint};
use std::collections::HashSet;

/// A recommendation.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// RAM for the cache.
    pub ram_bytes: u64,
    /// Disk for the store.
    pub disk_bytes: u64,
    /// The cache architecture.
    pub architecture: String,
    /// Objects that the store must hold.
    pub objects: u64,
    /// Reason for the recommendation.
    pub why: String,
    /// Effect of another policy in RAM of that size, where it does much more; empty otherwise.
    pub hint: String,
    /// Cost of each pair of sizes, where prices are given.
    pub priced: Vec<PricedPair>,
}

/// Cost of a pair of sizes, by month.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PricedPair {
    /// RAM.
    pub ram_bytes: u64,
    /// Disk.
    pub disk_bytes: u64,
    /// Cost of RAM and disk.
    pub machine: f64,
    /// Cost of bytes fetched from origins.
    pub egress: f64,
    /// Operations a second on the drive at the peak.
    pub operations: f64,
}

impl PricedPair {
    /// Returns the whole cost.
    pub fn total(&self) -> f64 {
        self.machine + self.egress
    }

    fn why(&self, pairs: usize) -> String {
        format!(
            "of {pairs} pairs of sizes this one costs least a month, {:.2}, and asks the drive for {:.0} operations a second at the peak",
            self.total(),
            self.operations
        )
    }
}

impl Choice {
    pub(super) fn of(
        memory: &RamPlan,
        tiers: &[TierPoint],
        disk: &DiskPlan,
        demand: &Demand,
        wishes: &PlanOptions,
    ) -> Self {
        let priced = priced(tiers, disk, demand, wishes);
        let possible = priced.iter().filter(|pair| pair.operations <= wishes.drive_operations);
        let cheapest = possible.min_by(|a, b| a.total().total_cmp(&b.total()));
        let (ram, disk_bytes, why) = match cheapest {
            Some(best) => (best.ram_bytes, best.disk_bytes, best.why(priced.len())),
            None => by_shape(memory, disk, demand, wishes),
        };
        let ram_bytes = wishes.ram_bytes.unwrap_or_else(|| rounded(ram.max(LEAST_RAM)));
        let disk_bytes = match (wishes.disk_bytes, disk_bytes) {
            (_, 0) => 0,
            (Some(told), _) => told,
            (None, bytes) => rounded(bytes.max(LEAST_DISK)),
        };
        let (architecture, footprint) = (disk.recommended(), wishes.footprint);
        let mean = demand.objects_up_to(tier::largest(architecture, disk_bytes, footprint)).mean();
        let objects = tier::objects(architecture, disk_bytes, mean, footprint);
        Self {
            ram_bytes,
            disk_bytes,
            architecture: architecture.into(),
            objects: (objects * tier::OBJECTS_ROOM / 100).max(LEAST_OBJECTS),
            hint: hint(memory, ram_bytes),
            why,
            priced,
        }
    }
}

/// Returns RAM for 95% of the achievable throughput, and disk for 99% of the hits. A drive that is
/// idle at the peak needs no such RAM: the knee is then enough.
fn by_shape(memory: &RamPlan, disk: &DiskPlan, demand: &Demand, wishes: &PlanOptions) -> (u64, u64, String) {
    let target = memory.targets.iter().find(|target| target.goal == Goal::Throughput);
    let at_knee = memory
        .knee
        .zip(demand.storable_peak())
        .map(|(knee, peak)| (knee.size, peak * memory.ios_beside(knee.hit_ratio, disk)));
    let idle = at_knee.filter(|(_, ios)| *ios <= wishes.drive_operations * IDLE);
    let (ram, told) = match (idle, target) {
        (Some((ram, ios)), _) => {
            let told = format!(
                "RAM is at the knee of its curve, since the drive then does {ios:.1} operations a second at the peak and may do {:.0}",
                wishes.drive_operations
            );
            (ram, told)
        }
        (None, Some(target)) => {
            (target.ram_bytes, "RAM gives 95% of the throughput that RAM for everything would".into())
        }
        (None, None) => (
            LEAST_RAM,
            "RAM is the least that is proposed, since it takes none of the objects that are asked for again"
                .into(),
        ),
    };
    // Existing RAM or disk is not chosen.
    let of_ram = if wishes.ram_bytes.is_some() { "RAM is as much as there is" } else { &told };
    let of_disk = match wishes.disk_bytes {
        Some(_) => "the disk is the one that there is",
        None => "the disk holds what 99% of the achievable hits take",
    };
    (ram, disk.bytes, format!("{of_ram}; {of_disk}; no prices were told"))
}

/// Names the policy that hits most requests at this size, when the gain justifies a setting.
fn hint(memory: &RamPlan, ram_bytes: u64) -> String {
    let of = |curve: &Curve| curve.at(ram_bytes);
    let default = of(memory.curve());
    let best = memory.curves.iter().map(|(name, curve)| (*name, of(curve)));
    let best = best.max_by(|a, b| a.1.0.total_cmp(&b.1.0)).filter(|best| best.1.0 - default.0 >= WORTH);
    best.map_or(String::new(), |(name, (requests, bytes))| {
        format!(
            "cache.ram_policy = \"{name}\" would hit {:.1}% of the requests in RAM instead of {:.1}%, and {:.1}% of the bytes instead of {:.1}%",
            requests * 100.0,
            default.0 * 100.0,
            bytes * 100.0,
            default.1 * 100.0
        )
    })
}

/// Returns every pair's price, the cheapest first. Returns none unless the prices of RAM and of
/// fetched bytes are given and the log has times.
fn priced(tiers: &[TierPoint], disk: &DiskPlan, demand: &Demand, wishes: &PlanOptions) -> Vec<PricedPair> {
    let (Some(ram), Some(egress), Some(requests)) =
        (wishes.ram_price, wishes.egress_price, demand.storable_per_day())
    else {
        return Vec::new();
    };
    // A disk that is there already costs nothing more.
    let disk_price = wishes.disk_price.unwrap_or(0.0);
    let peak = demand.storable_peak().unwrap_or(0.0);
    let month_bytes = requests * DAYS_A_MONTH * demand.mean_bytes;
    let gb = |bytes: f64| bytes / 1e9;
    let price = |tier: &TierPoint| {
        // The price is for the recommended sizes at least; their further hits are not counted.
        let ram_bytes = wishes.ram_bytes.unwrap_or_else(|| tier.ram_bytes.max(LEAST_RAM));
        let disk_bytes = match tier.disk_bytes {
            0 => 0,
            bytes => wishes.disk_bytes.unwrap_or_else(|| bytes.max(LEAST_DISK)),
        };
        PricedPair {
            ram_bytes,
            disk_bytes,
            machine: gb(ram_bytes as f64) * ram + gb(disk_bytes as f64) * disk_price,
            egress: gb(month_bytes * (1.0 - tier.byte_hit_ratio)) * egress,
            operations: if disk_bytes > 0 {
                peak * disk.ios(tier.disk_hit_ratio, tier.write_ratio)
            } else {
                0.0
            },
        }
    };
    let mut priced: Vec<PricedPair> = tiers.iter().map(price).collect();
    // Among equal pairs, the pair with most hits is the nearest to the recommended sizes.
    priced.sort_by(|a, b| a.total().total_cmp(&b.total()));
    let mut seen = HashSet::new();
    priced.retain(|pair| seen.insert((pair.ram_bytes, pair.disk_bytes)));
    priced
}

/// Rounds up to a multiple of 1 MiB, or of a sixteenth of its power of two where that is more.
fn rounded(bytes: u64) -> u64 {
    let unit = (1u64 << 20).max(bytes.next_power_of_two() / 32);
    let rounded = bytes.div_ceil(unit) * unit;
    debug_assert!(rounded >= bytes && rounded - bytes < unit, "{bytes} became {rounded}");
    rounded
}

/// Share of a drive's operations below which the drive counts as idle.
const IDLE: f64 = 0.1;
const LEAST_RAM: u64 = 16 << 20;
const LEAST_DISK: u64 = 64 << 20;
const LEAST_OBJECTS: u64 = 1000;
/// Share of the requests for which a setting is worth changing.
const WORTH: f64 = 0.02;
const DAYS_A_MONTH: f64 = 30.44;
