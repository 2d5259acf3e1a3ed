//! `shoal model specweb99`: savings by a file cache of one size in a SPECweb99 server, by model,
//! estimate and simulation.

use crate::failure::Failure;
use crate::show::print;
use serde_json::json;
use shoal_core::ByteCount;
use shoal_lab::model::specweb99::analytic::{Analytic, REUSE};
use shoal_lab::model::specweb99::simulation::{FileCacheSetup, simulate};
use shoal_lab::model::specweb99::{FileCacheResult, PathLength, Population, RateDerivation, che};
use shoal_policy::{POLICIES, ReplacementPolicy};
use shoal_trace::generate::specweb99::FileSet;
use std::fmt::Write;

/// Savings by a file cache in a SPECweb99 server: Kant and Won's model, the characteristic time,
/// and a simulation
#[derive(clap::Args)]
pub struct ModelSpecweb99Options {
    /// Directories of the file set, 5.12 MB each; (int)(25 + λ/5) for λ operations a second
    #[arg(long, value_name = "N", default_value_t = 525, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    directories: u32,
    /// Space for files
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    cache: ByteCount,
    /// Replacement policy of the simulation
    #[arg(long, value_name = "NAME", default_value = "lru")]
    policy: String,
    /// Number of accesses that warm up the simulation [default: two characteristic times of the
    /// cache]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=MOST_ACCESSES))]
    warm_up: Option<u64>,
    /// Number of accesses that count
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1000..=MOST_ACCESSES))]
    requests: u64,
    /// Seed of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ModelSpecweb99Options {
    pub fn perform(self) -> Result<(), Failure> {
        let policy = ReplacementPolicy::<u64>::named(&self.policy).ok_or_else(|| {
            let known: Vec<&str> = POLICIES.iter().map(|policy| policy.name).collect();
            Failure::Usage(format!(
                "--policy: there is no {:?}; there are: {}",
                self.policy,
                known.join(", ")
            ))
        })?;
        let population = Population::of_files(&FileSet::of(self.directories));
        let bytes = self.cache.0 as f64;
        let steady = che::warm_up(&population, bytes).ceil() as u64;
        let warm_up = self.warm_up.unwrap_or(steady.clamp(1000, MOST_ACCESSES));
        if warm_up < steady {
            eprintln!(
                "warning: {warm_up} accesses do not bring this cache into its steady state; \
                 the simulation needs --warm-up {steady}"
            );
        }
        let setting = FileCacheSetup {
            cache_bytes: self.cache.0,
            warm_up,
            requests: self.requests,
            arrivals: 1000.0,
            path: PathLength::default(),
            seed: self.seed,
        };
        let answers = [
            ("model", Analytic::of(&population, bytes, REUSE).outcome(RateDerivation::Restored)),
            ("characteristic time", che::outcome(&population, bytes)),
            ("simulation", simulate(&population, (policy.construct)(), &setting).outcome),
        ];
        print(&if self.json { told_as_json(&answers) } else { render(&answers) })
    }
}

fn render(answers: &[(&str, FileCacheResult)]) -> String {
    let mut text = format!(
        "{:<20} {:>10} {:>16} {:>14} {:>16} {:>9}\n",
        "", "hit ratio", "byte hit ratio", "KB read / op", "transfers / op", "T / T0"
    );
    for (name, outcome) in answers {
        let FileCacheResult { hit_ratio, byte_hit_ratio, bytes_read, transfers } = outcome;
        let _ = writeln!(
            text,
            "{name:<20} {:>9.1}% {:>15.1}% {:>14.2} {transfers:>16.3} {:>8.1}%",
            hit_ratio * 100.0,
            byte_hit_ratio * 100.0,
            bytes_read / 1e3,
            PathLength::default().throughput(outcome) * 100.0
        );
    }
    text
}

fn told_as_json(answers: &[(&str, FileCacheResult)]) -> String {
    let rows = answers.iter().map(|(name, outcome)| {
        json!({
            "by": name,
            "hit_ratio": outcome.hit_ratio,
            "byte_hit_ratio": outcome.byte_hit_ratio,
            "bytes_read": outcome.bytes_read,
            "transfers": outcome.transfers,
            "throughput_left": PathLength::default().throughput(outcome),
        })
    });
    let mut text = serde_json::Value::from_iter(rows).to_string();
    text.push('\n');
    text
}

/// Largest number of accesses that the simulation makes of each kind.
const MOST_ACCESSES: u64 = 100_000_000;
