//! What a cache will hit next: from what became of the requests that it has served.
//!
//! A log says what its own requests would have hit. What the next ones hit is another question, and
//! four things stand between the two:
//!
//! - *History.* Early requests of a log can only hit what the log itself has brought in. A repeat
//!   whose object was last asked for before the log began counts as a miss, so a mean over the log
//!   is too low for a cache that goes on. [`Returns`] corrects for it: how many requests come back
//!   within each span is estimated from those alone that could be seen to come back within it (the
//!   estimator of Kaplan and Meier, *Nonparametric Estimation from Incomplete Observations*, JASA
//!   53, 1958, for times that are cut off by the log's beginning). Longer spans than the log go on
//!   falling as the last two octaves do.
//! - *Room.* A cache takes everything until it is full, and from then on what its policy wants:
//!   what it did before tells nothing of what it will do, and is left out where at least half of
//!   the past remains ([`Seen::from`]).
//! - *Change.* Traffic changes from week to week, and means of neighbouring stretches differ by far
//!   more than chance among independent requests would have it. The error of a forecast is taken
//!   from that: [`unrest`] is twice the two-sample deviation of Allan (*Statistics of Atomic
//!   Frequency Standards*, Proc. IEEE 54, 1966) over stretches of a fifth and of a third of the
//!   log.
//! - *What has not happened yet.* No log knows it. [`back_tests`] forecasts the log's own later
//!   parts from its earlier ones, so that a reader sees how much that was.
//!
//! O(requests) for each forecast; four bytes a request.

mod past;
#[cfg(test)]
mod tests;

pub use past::{Became, Past, Seen};

use std::f64::consts::LN_2;

/// What a cache that goes on serving is expected to hit.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Forecast {
    /// Requests that it is for, after those that are known.
    pub requests: usize,
    /// Hits over requests.
    pub hit_ratio: f64,
    /// How far off that may be, at 95%: [`unrest`], and all of the growth.
    pub error: f64,
    /// The part of the hit ratio that comes of a longer history than the log has.
    pub growth: f64,
}

/// A forecast of a part of the past from what was before it, and what came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackTest {
    /// Requests that were known.
    pub known: usize,
    /// What was forecast from them.
    pub forecast: Forecast,
    /// What came.
    pub came: f64,
}

impl Forecast {
    /// What comes after a past, over so many requests.
    pub fn after(seen: Seen<'_>, requests: usize) -> Self {
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

/// Forecasts from the first quarter, half and three quarters of a past, each over as many requests
/// again as far as there are.
pub fn back_tests(past: &Past) -> Vec<BackTest> {
    let of = |quarters: usize| {
        let (all, known) = (past.requests(), past.requests() * quarters / 4);
        let requests = known.min(all - known);
        let came = hit_ratio(&past.all().since[known..known + requests]);
        BackTest { known, forecast: Forecast::after(past.until(known), requests), came }
    };
    (1..4).map(of).collect()
}

/// The share of requests that hit; 0 of none.
pub fn hit_ratio(since: &[u32]) -> f64 {
    since.iter().filter(|since| **since > 0).count() as f64 / since.len().max(1) as f64
}

/// How many requests hit by how long ago their object was asked for before.
pub struct Returns {
    /// Requests that are known.
    known: f64,
    /// The share of requests that hit what was asked for within `known / 2` to `known` requests
    /// before, within half of these, and so on; the last takes all that is sooner.
    octaves: [f64; OCTAVES],
}

impl Returns {
    /// Of a past.
    pub fn of(seen: Seen<'_>) -> Self {
        let known = seen.since.len() as f64;
        let mut octaves = [0.0; OCTAVES];
        for since in seen.telling().iter().filter(|since| **since > 0) {
            let octave = (known / f64::from(*since)).log2() as usize;
            octaves[octave.min(LAST_OCTAVE)] += 1.0;
        }
        for (octave, hits) in octaves.iter_mut().enumerate() {
            *hits /= could_be_seen(seen.from as f64, known, octave).max(1.0);
        }
        Self { known, octaves }
    }

    /// The share that hits when what was asked for within so many requests is known, up to all of
    /// the past.
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

    /// What a longer history than the past adds, on average over so many requests after it.
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

    /// Hit ratios of [`STRETCHES`] equal parts of what tells, each as if all of the history had
    /// been before it.
    pub fn stretches(&self, seen: Seen<'_>) -> Vec<f64> {
        let all = self.within(self.known);
        let end = |stretch: usize| seen.from + stretch * (seen.since.len() - seen.from) / STRETCHES;
        let of = |stretch: usize| {
            let (from, to) = (end(stretch), end(stretch + 1));
            hit_ratio(&seen.since[from..to]) + all - self.within((from + to) as f64 / 2.0)
        };
        (0..STRETCHES).map(of).collect()
    }
}

/// How far the mean of the next values may be from the mean of these, at 95%, where values near one
/// another are alike: twice the largest root mean square difference between neighbouring stretches,
/// of a fifth and of a third of the values. 0 of fewer than six.
///
/// A standard error, which takes values for independent, is several times too small for a forecast
/// of traffic (docs/experiments/forecast.md).
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

/// How many of the requests from one on could be seen to come back within this octave: those before
/// which the past is longer than the octave, and of the others the part of it that they have, by
/// the logarithm.
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

/// Where an octave begins.
fn half_to(known: f64, octave: usize) -> f64 {
    known / (2u64 << octave) as f64
}

/// Parts whose differences tell how much traffic changes.
pub const STRETCHES: usize = 30;
const OCTAVES: usize = 16;
const LAST_OCTAVE: usize = OCTAVES - 1;
