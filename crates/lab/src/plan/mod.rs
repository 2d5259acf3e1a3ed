//! The planner: what cache this log would need.
//!
//! Everything is reckoned from one log: how often caches of 20 sizes hit (by the policies that the
//! product runs, `curve`), RAM before disk, what the store's architectures would write (the store's
//! own code on the modelled machine), what the index takes, whether it would pay to cooperate (the
//! wide-area model), and what the answers hang on ([`bounds`]). The first part of the log warms the
//! caches and is not counted. What the log cannot tell is assumed, said, and bounded.

pub mod bounds;
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

pub use bounds::Bound;
pub use by_size::{BySize, SizePrefix};
pub use choice::{Choice, PricedPair};
pub use cooperation::{Cooperation, PopulationPoint};
pub use demand::Demand;
pub use disk::{Disk, Wear};
pub use footprint::Footprint;
pub use future::{Future, past};
pub use json::json;
pub use log_tier::NEIGHBOURHOOD_PERCENT;
pub use memory::{Goal, Memory, Target};
pub use report::report;
pub use settings::settings;
pub use text::text;

use crate::character::{Character, Loaded};
use crate::curve::TierPoint;
use crate::experiment::{Error, Progress};
use crate::figure::Unit;
use shoal_trace::Format;

/// What the operator says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanOptions {
    /// What a GB of RAM costs a month, in any currency.
    pub ram_price: Option<f64>,
    /// What a GB of disk costs a month.
    pub disk_price: Option<f64>,
    /// What a GB fetched from origins costs.
    pub egress_price: Option<f64>,
    /// Bytes of RAM that there are; without, the plan says how many it takes.
    pub ram_bytes: Option<u64>,
    /// Bytes of disk that there are; without, the plan says how many it takes.
    pub disk_bytes: Option<u64>,
    /// Bytes of the drive that the disk is on; at least those of the disk.
    pub drive_bytes: u64,
    /// Whole writes of the drive a day that its maker rates it for.
    pub drive_writes_per_day: f64,
    /// Years that the rating is for.
    pub drive_years: f64,
    /// Operations a second that the drive may be asked for at the peak.
    pub drive_operations: f64,
    /// What an object takes beside its body.
    pub footprint: Footprint,
    /// What a request that RAM misses costs the machine, in requests that it hits.
    pub miss_cost: f64,
    /// The part of the requests that warms the caches.
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
    /// What it was asked.
    pub wishes: PlanOptions,
    /// What the log demands.
    pub demand: Demand,
    /// RAM alone, by size.
    pub memory: Memory,
    /// RAM and disk together, for pairs of sizes.
    pub tiers: Vec<TierPoint>,
    /// What the disk would do.
    pub disk: Disk,
    /// What the answers hang on.
    pub bounds: Vec<Bound>,
    /// Whether it would pay to cooperate.
    pub cooperation: Cooperation,
    /// What is recommended.
    pub choice: Choice,
    /// What that does, simulated.
    pub expected: TierPoint,
    /// What it is expected to do next.
    pub future: Future,
}

impl Plan {
    /// Plans for a log.
    ///
    /// # Errors
    /// When the log has too few requests to say anything, or a store cannot be driven.
    pub fn of(
        loaded: &Loaded,
        character: &Character,
        wishes: PlanOptions,
        progress: &mut dyn Progress,
    ) -> Result<Self, Error> {
        let requests = loaded.trace.requests().len();
        if requests < LEAST_REQUESTS {
            return Err(Error::TooFewRequests { found: requests, least: LEAST_REQUESTS });
        }
        let heads_in_sizes = wishes.footprint.heads_in_sizes || loaded.reading.format == Format::Squid;
        let wishes = PlanOptions { footprint: Footprint { heads_in_sizes, ..wishes.footprint }, ..wishes };
        let demand = Demand::of(loaded, character, wishes.warm_up);
        let mut memory = Memory::of(loaded, &demand, &wishes, progress);
        let disk = Disk::of(loaded, &demand, &memory, &wishes, progress)?;
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
            cooperation: Cooperation::of(character, &demand),
            wishes,
            demand,
            memory,
            tiers,
            disk,
            choice,
            expected,
        })
    }
}

/// A size as settings spell it, rounded: `768.0 MiB`.
fn bytes(bytes: u64) -> String {
    Unit::Bytes.shown(bytes as f64)
}

/// Requests below which a plan says nothing.
pub const LEAST_REQUESTS: usize = 1000;
