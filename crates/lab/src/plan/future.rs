//! Next hits of the recommended cache: `forecast` for the chosen pair, and the quality of such
//! forecasts within this log.

use super::footprint::Footprint;
use super::memory::{self, RamPlan, TierSimulation};
use super::tier;
use crate::curve::TwoTiers;
use crate::forecast::{BackTest, Forecast, Past, back_tests, hit_ratio};
use shoal_trace::Request;

/// Forecast for the next requests, an equal number to the log's.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Future {
    /// Forecast for a cache that has served the log and goes on.
    pub forecast: Forecast,
    /// Parts of the log, forecast from the parts before them.
    pub back_tests: Vec<BackTest>,
}

impl Future {
    /// Forecasts the chosen pair after a log of `requests` requests.
    pub(super) fn of(chosen: &TierSimulation, memory: &RamPlan, requests: usize) -> Self {
        let (past, expected) = (&chosen.past, chosen.points[0]);
        let mut forecast = Forecast::after(past.all(), past.requests());
        forecast.requests = requests;
        // A sample has too few or too many requests for the few most popular objects. The hit ratio
        // of the whole is known better.
        let of_sample = hit_ratio(&past.all().since[chosen.warm_up..]);
        forecast.hit_ratio = (forecast.hit_ratio + expected.hit_ratio() - of_sample).clamp(0.0, 1.0);
        let size = expected.ram_bytes + expected.disk_bytes;
        let sampled =
            memory.stack.points.iter().find(|point| point.size >= size).or(memory.stack.points.last());
        forecast.error = forecast.error.hypot(sampled.map_or(0.0, |point| point.error));
        Self { forecast, back_tests: back_tests(past) }
    }

    /// Returns the mean error of the forecasts within the log, in hit ratio.
    pub fn mean_error(&self) -> f64 {
        let off = self.back_tests.iter().map(|test| (test.forecast.hit_ratio - test.came).abs());
        off.sum::<f64>() / self.back_tests.len().max(1) as f64
    }
}

/// Returns the outcome of each request with these bytes of RAM and of disk, when all objects are
/// simulated. Policy, architecture and head are the defaults.
pub fn past(requests: &[Request], (ram_bytes, disk_bytes): (u64, u64), mean_object_bytes: u64) -> Past {
    let footprint = Footprint::default();
    let disk = |bytes, rate| tier::disk(tier::VOLUME, (bytes, rate), mean_object_bytes, footprint);
    let mut tiers =
        TwoTiers::new(memory::policy(memory::POLICIES[0]), &disk, &[(ram_bytes, disk_bytes)], 1.0, 0);
    let mut past = Past::default();
    for request in requests {
        if let Some(became) = tiers.request(request.object.into(), footprint.weights(request.bytes)) {
            past.push(request.object.into(), became);
        }
    }
    past
}
