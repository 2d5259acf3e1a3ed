//! Forecasts a cache's next hits from the outcomes of its past requests.
//!
//! A log says which of its own requests would have hit. The hits of the next requests are another
//! question, and four things stand between the two:
//!
//! - *History.* Early requests of a log can only hit objects that the log itself has brought in. A
//!   repeat counts as a miss if its object was last requested before the log began. A mean over the
//!   log is therefore too low for a cache that goes on. [`Returns`] corrects for this, and
//!   estimates the share of requests that come back within each span. Only requests that could be
//!   seen to come back within the span count. This is the estimator of Kaplan and Meier, for times
//!   that are cut off (*Nonparametric Estimation from Incomplete Observations*, JASA 53, 1958). The
//!   log's beginning cuts them off. Longer spans than the log go on falling as the last two octaves
//!   do.
//! - *Room.* A cache takes everything until it is full, and only its policy's choice from then on.
//!   Its behaviour before tells nothing of its behaviour after, and is left out where at least half
//!   of the past remains ([`PastView::from`]).
//! - *Change.* Traffic changes from week to week. Means of neighbouring stretches differ by far
//!   more than chance among independent requests would have it. The error of a forecast is taken
//!   from that: [`unrest`] is twice the two-sample deviation of Allan (*Statistics of Atomic
//!   Frequency Standards*, Proc. IEEE 54, 1966) over stretches of a fifth and of a third of the
//!   log.
//! - *New events.* No log knows them. [`back_tests`] forecasts the log's own later parts from its
//!   earlier ones, so that a reader sees their effect in the past.
//!
//! O(requests) for each forecast; four bytes a request.

mod past;
#[cfg(test)]
mod tests;

pub use past::{Became, Past, PastView};

use std::f64::consts::LN_2;

/// Expected hits of a cache that goes on serving.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Forecast {
    /// Requests of the forecast, after those that are known.
    pub requests: usize,
    /// Hits over requests.
    pub hit_ratio: f64,
    /// Error of the hit ratio, at 95%: [`unrest`], and all of the growth.
    pub error: f64,
    /// Part of the hit ratio that a longer history than the log's adds.
    pub growth: f64,
}

/// A forecast of a part of the past from the part before it, with the true result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackTest {
    /// Requests that were known.
    pub known: usize,
    /// Forecast from the known requests.
    pub forecast: Forecast,
    /// True hit ratio.
    pub came: f64,
}

impl Forecast {
    /// Forecasts the `requests` requests after a past.
    pub fn after(seen: PastView<'_>, requests: usize) -> Self {
        let returns = Returns::of(seen);
        let growth = returns.growth(requests);
        Self {
            requests,
            hit_ratio: (returns.within(seen.since.len() as f64) + growth).min(1.0),
            error: unrest(&returns.stretches(seen)).hypot(growth),
            growth,
        }
    }
}

/// Forecasts from the first quarter, half and three quarters of a past. Each is over an equal
/// number of further requests, as far as there are.
pub fn back_tests(past: &Past) -> Vec<BackTest> {
    let of = |quarters: usize| {
        let (all, known) = (past.requests(), past.requests() * quarters / 4);
        let requests = known.min(all - known);
        let came = hit_ratio(&past.all().since[known..known + requests]);
        BackTest { known, forecast: Forecast::after(past.until(known), requests), came }
    };
    (1..4).map(of).collect()
}

/// Returns the share of requests that hit; 0 without requests.
pub fn hit_ratio(since: &[u32]) -> f64 {
    since.iter().filter(|since| **since > 0).count() as f64 / since.len().max(1) as f64
}

/// Share of requests that hit, by the age of their object's last request.
pub struct Returns {
    /// Requests that are known.
    known: f64,
    /// Share of requests that hit an object last requested within `known / 2` to `known` requests
    /// before, within half of these, and so on. The last octave takes all shorter ages.
    octaves: [f64; OCTAVES],
}

impl Returns {
    /// Computes the returns of a past.
    pub fn of(seen: PastView<'_>) -> Self {
        let known = seen.since.len() as f64;
        let mut octaves = [0.0; OCTAVES];
        for since in seen.steady_outcomes().iter().filter(|since| **since > 0) {
            let octave = (known / f64::from(*since)).log2() as usize;
            octaves[octave.min(LAST_OCTAVE)] += 1.0;
        }
        for (octave, hits) in octaves.iter_mut().enumerate() {
            *hits /= could_be_seen(seen.from as f64, known, octave).max(1.0);
        }
        Self { known, octaves }
    }

    /// Returns the share of requests that hit with a known history of `history` requests, up to all
    /// of the past.
    pub fn within(&self, history: f64) -> f64 {
        if self.known < 1.0 {
            return 0.0;
        }
        let part = |(octave, share): (usize, &f64)| match octave {
            LAST_OCTAVE => *share,
            _ => share * (history / half_to(self.known, octave)).log2().clamp(0.0, 1.0),
        };
        self.octaves.iter().enumerate().map(part).sum::<f64>().min(1.0)
    }

    /// Returns the mean share that a longer history than the past adds over `requests` requests
    /// after it.
    fn growth(&self, requests: usize) -> f64 {
        let [last, before, ..] = self.octaves;
        let longer = 1.0 + requests as f64 / self.known.max(1.0);
        if before <= 0.0 || longer <= 1.0 {
            return 0.0;
        }
        let octave = last * (last / before).min(1.0);
        // the mean of log2 from 1 to `longer`
        octave * (longer * longer.ln() - longer + 1.0) / (longer - 1.0) / LN_2
    }

    /// Returns hit ratios of [`STRETCHES`] equal parts of the telling requests, each as if all of
    /// the history had been before it.
    pub fn stretches(&self, seen: PastView<'_>) -> Vec<f64> {
        let all = self.within(self.known);
        let end = |stretch: usize| seen.from + stretch * (seen.since.len() - seen.from) / STRETCHES;
        let of = |stretch: usize| {
            let (from, to) = (end(stretch), end(stretch + 1));
            hit_ratio(&seen.since[from..to]) + all - self.within((from + to) as f64 / 2.0)
        };
        (0..STRETCHES).map(of).collect()
    }
}

/// Returns the distance of the mean of the next values from the mean of these, at 95%, where
/// neighbouring values are alike. The distance is twice the largest root mean square difference
/// between neighbouring stretches, of a fifth and of a third of the values. 0 for fewer than six
/// values.
///
/// A standard error takes values for independent. For a forecast of traffic it is several times too
/// small (docs/experiments/forecast.md).
pub fn unrest(values: &[f64]) -> f64 {
    if values.len() < 6 {
        return 0.0;
    }
    let of = |length: usize| {
        let mean = |stretch: &[f64]| stretch.iter().sum::<f64>() / length as f64;
        let squares = values.windows(2 * length).map(|both| {
            let (before, after) = both.split_at(length);
            (mean(before) - mean(after)).powi(2)
        });
        let count = squares.len() as f64;
        (squares.sum::<f64>() / count).sqrt()
    };
    2.0 * of(values.len() / 5).max(of(values.len() / 3))
}

/// Returns the number of requests, from `from` on, that could be seen to come back within this
/// octave. Requests with a longer past than the octave count whole. The others count for the part
/// of the octave that they have, by the logarithm.
fn could_be_seen(from: f64, known: f64, octave: usize) -> f64 {
    if octave == LAST_OCTAVE {
        return known - from;
    }
    let low = half_to(known, octave);
    let high = low * 2.0;
    // the integral of log2(at / low) up to `high`
    let up_to = |at: f64| (at * (at / low).ln() - at + low) / LN_2;
    let of_some = if from < high { up_to(high) - up_to(from.max(low)) } else { 0.0 };
    of_some + (known - from.max(high)).max(0.0)
}

/// Returns the beginning of an octave.
fn half_to(known: f64, octave: usize) -> f64 {
    known / (2u64 << octave) as f64
}

/// Number of parts for the differences that tell the change of traffic.
pub const STRETCHES: usize = 30;
const OCTAVES: usize = 16;
const LAST_OCTAVE: usize = OCTAVES - 1;
