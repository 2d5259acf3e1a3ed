//! The planner: the cache that this log would need.
//!
//! Everything is computed from one log:
//!
//! - the hits of its cache today, the possible hits, and the losses (`today`);
//! - the hit ratio of caches of 20 sizes, by the policies that the product runs (`curve`);
//! - RAM before disk;
//! - the writes of the store's architectures, by the store's own code on the modelled machine;
//! - the index's memory;
//! - the value of cooperation, by the wide-area model;
//! - the assumptions behind the answers ([`bounds`]).
//!
//! The first part of the log warms the caches and is not counted. Facts that the log cannot tell
//! are assumed, stated, and bounded.

pub mod bounds;
mod brief;
mod by_size;
mod choice;
mod cooperation;
mod demand;
mod disk;
mod footprint;
mod future;
mod json;
mod log_tier;
mod memory;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod tier;
mod today;

pub use bounds::Bound;
pub use brief::brief;
pub use by_size::{BySize, SizePrefix};
pub use choice::{Choice, PricedPair};
pub use cooperation::{CooperationVerdict, PopulationPoint};
pub use demand::Demand;
pub use disk::{DiskPlan, Wear};
pub use footprint::Footprint;
pub use future::{Future, past};
pub use json::json;
pub use log_tier::NEIGHBOURHOOD_PERCENT;
pub use memory::{Goal, RamPlan, Target};
pub use report::report;
pub use settings::settings;
pub use text::text;
pub use today::today;

use crate::character::{CacheAccount, CensusTrace, Character};
use crate::curve::TierPoint;
use crate::error::LabError;
use crate::figure::Unit;
use crate::progress::Progress;
use shoal_trace::Format;

/// Options given by the operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOptions {
    /// Price of a GB of RAM a month, in any currency.
    pub ram_price: Option<f64>,
    /// Price of a GB of disk a month.
    pub disk_price: Option<f64>,
    /// Price of a GB fetched from origins.
    pub egress_price: Option<f64>,
    /// Existing bytes of RAM; without them, the plan says how many are needed.
    pub ram_bytes: Option<u64>,
    /// Existing bytes of disk; without them, the plan says how many are needed.
    pub disk_bytes: Option<u64>,
    /// Bytes of the drive that holds the disk; at least those of the disk.
    pub drive_bytes: u64,
    /// Whole writes of the drive a day, by its maker's rating.
    pub drive_writes_per_day: f64,
    /// Years of the rating.
    pub drive_years: f64,
    /// Largest number of operations a second on the drive at the peak.
    pub drive_operations: f64,
    /// Overhead of an object beside its body.
    pub footprint: Footprint,
    /// Cost of a request that RAM misses, in requests that it hits.
    pub miss_cost: f64,
    /// Share of the requests that warms the caches.
    pub warm_up: f64,
    /// The seed of samples.
    pub seed: u64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            ram_price: None,
            disk_price: None,
            egress_price: None,
            ram_bytes: None,
            disk_bytes: None,
            drive_bytes: 480_000_000_000,
            drive_writes_per_day: 1.0,
            drive_years: 5.0,
            drive_operations: 5000.0,
            footprint: Footprint::default(),
            miss_cost: 5.0,
            warm_up: 0.3,
            seed: 1,
        }
    }
}

/// A plan.
pub struct Plan {
    /// Options of the plan.
    pub wishes: PlanOptions,
    /// Hits and losses of the cache that wrote the log.
    pub account: CacheAccount,
    /// Demand of the log.
    pub demand: Demand,
    /// RAM alone, by size.
    pub memory: RamPlan,
    /// RAM and disk together, for pairs of sizes.
    pub tiers: Vec<TierPoint>,
    /// Planned disk.
    pub disk: DiskPlan,
    /// Assumptions behind the answers.
    pub bounds: Vec<Bound>,
    /// Value of cooperation.
    pub cooperation: CooperationVerdict,
    /// Recommendation.
    pub choice: Choice,
    /// Results of the recommendation, simulated.
    pub expected: TierPoint,
    /// Forecast for the recommendation.
    pub future: Future,
}

impl Plan {
    /// Plans for a log.
    ///
    /// # Errors
    /// When the log has too few requests for a plan, or a store cannot be driven.
    pub fn of(
        loaded: &CensusTrace,
        character: &Character,
        wishes: PlanOptions,
        progress: &mut dyn Progress,
    ) -> Result<Self, LabError> {
        let requests = loaded.trace.requests().len();
        if requests < LEAST_REQUESTS {
            return Err(LabError::TooFewRequests { found: requests, least: LEAST_REQUESTS });
        }
        let heads_in_sizes = wishes.footprint.heads_in_sizes || loaded.reading.format == Format::Squid;
        let wishes = PlanOptions { footprint: Footprint { heads_in_sizes, ..wishes.footprint }, ..wishes };
        let demand = Demand::of(loaded, character, wishes.warm_up);
        let mut memory = RamPlan::of(loaded, &demand, &wishes, progress);
        let disk = DiskPlan::of(loaded, &demand, &memory, &wishes, progress)?;
        memory.aim(&disk, &demand, &wishes);
        let architecture = disk.recommended().to_owned();
        let mut simulated =
            |pairs: &[(u64, u64)]| memory.tiers(loaded, &demand, (&architecture, pairs), &wishes, progress);
        let tiers = simulated(&memory.pairs(&wishes)).points;
        let choice = Choice::of(&memory, &tiers, &disk, &demand, &wishes);
        let chosen = simulated(&[(choice.ram_bytes, choice.disk_bytes)]);
        let expected = chosen.points[0];
        Ok(Self {
            future: Future::of(&chosen, &memory, requests),
            bounds: bounds::bounds(loaded, character, &demand, &wishes),
            cooperation: CooperationVerdict::of(character, &demand),
            wishes,
            account: loaded.account.clone(),
            demand,
            memory,
            tiers,
            disk,
            choice,
            expected,
        })
    }
}

/// Returns a size as settings spell it, rounded: `768.0 MiB`.
fn bytes(bytes: u64) -> String {
    Unit::Bytes.shown(bytes as f64)
}

/// Least number of requests for a plan.
pub const LEAST_REQUESTS: usize = 1000;
