//! Ways to forecast a hit ratio, each a function of what is known at a cut.
//!
//! Sums over classes go in the order of these, so that the same trace gives the same digits. None
//! sees a request after the cut, but for the last, which says what the one before it could do at
//! best.

use crate::forecast::{Forecast, Past, Returns, Seen, hit_ratio};
use std::collections::BTreeMap;

/// What is known at a cut, and how much is asked for.
pub(super) struct Known<'a> {
    /// What became of all requests; those up to the cut may be looked at.
    pub(super) past: &'a Past,
    /// Requests up to the cut.
    pub(super) cut: usize,
    /// Who made each.
    pub(super) clients: &'a [u32],
    /// How many requests each client had made before.
    pub(super) ages: &'a [u32],
    /// Requests that are to be forecast.
    pub(super) requests: usize,
}

/// A way to forecast.
pub(super) struct Try {
    pub(super) name: &'static str,
    pub(super) of: fn(&Known<'_>) -> f64,
}

/// All of them; the fourth is what `shoal plan` tells.
pub(super) const TRIES: [Try; 7] = [
    Try { name: "mean after a warm-up of 30%", of: after_warm_up },
    Try { name: "mean of all", of: |known| hit_ratio(known.seen().since) },
    Try { name: "mean of the latest 30%", of: |known| hit_ratio(&known.seen().since[known.cut * 7 / 10..]) },
    Try { name: USED, of: by_returns },
    Try { name: "the same, less the mean error of its back-tests", of: less_drift },
    Try { name: "the last three, weighed by their back-tests", of: weighed },
    Try { name: "by returns, and by how old clients will be", of: by_age },
];
pub(super) const USED: &str = "by returns (what the planner tells)";

impl Known<'_> {
    /// What may be looked at.
    pub(super) fn seen(&self) -> Seen<'_> {
        self.past.until(self.cut)
    }

    /// What was known at an earlier cut, for as many requests again as there are.
    fn at(&self, cut: usize) -> (Known<'_>, f64) {
        let requests = cut.min(self.cut - cut);
        let known =
            Known { past: self.past, cut, clients: &self.clients[..cut], ages: &self.ages[..cut], requests };
        (known, hit_ratio(&self.seen().since[cut..cut + requests]))
    }

    /// Forecasts less what came, at a few cuts.
    fn errors(&self, of: fn(&Known<'_>) -> f64) -> Vec<f64> {
        let error = |share: &f64| {
            let (known, came) = self.at((self.cut as f64 * share) as usize);
            of(&known) - came
        };
        BACK_TESTS.iter().map(error).collect()
    }
}

fn after_warm_up(known: &Known<'_>) -> f64 {
    hit_ratio(&known.seen().since[known.cut * 3 / 10..])
}

fn by_returns(known: &Known<'_>) -> f64 {
    Forecast::after(known.seen(), known.requests).hit_ratio
}

fn less_drift(known: &Known<'_>) -> f64 {
    let errors = known.errors(by_returns);
    by_returns(known) - errors.iter().sum::<f64>() / errors.len() as f64
}

fn weighed(known: &Known<'_>) -> f64 {
    let weighed = TRIES[1..4].iter().map(|one| {
        let errors = known.errors(one.of);
        let weight =
            1.0 / (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64 + 1e-4);
        (weight, weight * (one.of)(known))
    });
    let (weights, sum) = weighed.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    sum / weights
}

/// Clients that have asked for much hit less than new ones, who ask for what all ask for first. So
/// what each age hits, beside what was to be expected at its place in the log, is weighed by the
/// ages of clients to come: those who are known go on as in the latter half of the log, and as
/// large a share as then is made by new ones.
fn by_age(known: &Known<'_>) -> f64 {
    with_ages(known, &ages_to_come(known))
}

/// The forecast when requests of clients of so many classes of age come, each so often.
pub(super) fn with_ages(known: &Known<'_>, to_come: &BTreeMap<u32, f64>) -> f64 {
    let returns = Returns::of(known.seen());
    let place = known.cut.div_ceil(PLACES).max(1);
    let usual: Vec<f64> = (0..PLACES).map(|at| returns.within((at * place + place / 2) as f64)).collect();
    let mut by_class: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (at, (since, age)) in known.seen().since.iter().zip(known.ages).enumerate() {
        let hit = f64::from(u8::from(*since > 0));
        let entry = by_class.entry(class(f64::from(*age))).or_default();
        *entry = (entry.0 + hit - usual[at / place], entry.1 + 1.0);
    }
    let of_class = |wanted: u32| {
        let (mut sum, mut count) = (0.0, 0.0);
        // classes with few requests take their neighbours in
        for away in 0..40u32 {
            let mut near = vec![wanted.checked_sub(away), (away > 0).then_some(wanted + away)];
            near.retain(Option::is_some);
            for (more, requests) in near.into_iter().flatten().filter_map(|class| by_class.get(&class)) {
                (sum, count) = (sum + more, count + requests);
            }
            if count >= LEAST_OF_CLASS {
                break;
            }
        }
        if count > 0.0 { sum / count } else { 0.0 }
    };
    let all: f64 = to_come.values().sum();
    let more: f64 = to_come.iter().map(|(class, weight)| weight * of_class(*class)).sum();
    let before = by_class.values().map(|(sum, _)| sum).sum::<f64>() / known.cut.max(1) as f64;
    (by_returns(known) + more / all.max(1.0) - before).clamp(0.0, 1.0)
}

/// How many of the requests to come are made at each class of age.
pub(super) fn ages_to_come(known: &Known<'_>) -> BTreeMap<u32, f64> {
    let from = known.cut / 2;
    let (mut before, mut latter) = (BTreeMap::<u32, u32>::new(), BTreeMap::<u32, u32>::new());
    known.clients[..from].iter().for_each(|client| *before.entry(*client).or_default() += 1);
    known.clients[from..].iter().for_each(|client| *latter.entry(*client).or_default() += 1);
    let count = (known.cut - from) as f64;
    let scale = known.requests as f64 / count;
    let mut to_come: BTreeMap<u32, f64> = BTreeMap::new();
    let mut of_new = 0.0;
    for at in from..known.cut {
        if !before.contains_key(&known.clients[at]) {
            of_new += 1.0;
            *to_come.entry(class(f64::from(known.ages[at]) * scale)).or_default() += scale;
        }
    }
    for (client, requests) in &latter {
        let age = f64::from(before.get(client).copied().unwrap_or(0) + requests);
        let more = (count - of_new) * scale * f64::from(*requests) / count;
        for step in 0..STEPS {
            let reached = age + more * (f64::from(step) + 0.5) / f64::from(STEPS);
            *to_come.entry(class(reached)).or_default() += more / f64::from(STEPS);
        }
    }
    to_come
}

/// Half octaves of the requests that a client has made.
pub(super) fn class(age: f64) -> u32 {
    ((age + 1.0).log2() * 2.0) as u32
}

/// Where back-tests cut.
const BACK_TESTS: [f64; 3] = [0.35, 0.5, 0.7];
const PLACES: usize = 200;
const LEAST_OF_CLASS: f64 = 200.0;
const STEPS: u32 = 20;
