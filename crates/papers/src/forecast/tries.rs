//! Ways to forecast a hit ratio, each a function of the facts known at a cut.
//!
//! Sums over classes go in the order of the classes, so that the same trace gives the same digits.
//! No way sees a request after the cut, except the last. The last tells the best possible result of
//! the one before it.

use shoal_lab::forecast::{Forecast, Past, PastView, Returns, hit_ratio};
use std::collections::BTreeMap;

/// Facts known at a cut, and the number of requests to forecast.
pub(super) struct ForecastInput<'a> {
    /// Outcomes of all requests; a way may look at those up to the cut.
    pub(super) past: &'a Past,
    /// Number of requests up to the cut.
    pub(super) cut: usize,
    /// Client of each request.
    pub(super) clients: &'a [u32],
    /// Number of earlier requests of each request's client.
    pub(super) ages: &'a [u32],
    /// Number of requests to forecast.
    pub(super) requests: usize,
}

/// A way to forecast.
pub(super) struct Try {
    pub(super) name: &'static str,
    pub(super) of: fn(&ForecastInput<'_>) -> f64,
}

/// All ways; the fourth is the one that `shoal plan` uses.
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

impl ForecastInput<'_> {
    /// Returns the outcomes that a way may look at.
    pub(super) fn seen(&self) -> PastView<'_> {
        self.past.until(self.cut)
    }

    /// Returns the facts known at an earlier cut, for an equal number of further requests as far as
    /// there are, and their true hit ratio.
    fn at(&self, cut: usize) -> (ForecastInput<'_>, f64) {
        let requests = cut.min(self.cut - cut);
        let known = ForecastInput {
            past: self.past,
            cut,
            clients: &self.clients[..cut],
            ages: &self.ages[..cut],
            requests,
        };
        (known, hit_ratio(&self.seen().since[cut..cut + requests]))
    }

    /// Returns forecasts less the true results, at a few cuts.
    fn errors(&self, of: fn(&ForecastInput<'_>) -> f64) -> Vec<f64> {
        let error = |share: &f64| {
            let (known, came) = self.at((self.cut as f64 * share) as usize);
            of(&known) - came
        };
        BACK_TESTS.iter().map(error).collect()
    }
}

fn after_warm_up(known: &ForecastInput<'_>) -> f64 {
    hit_ratio(&known.seen().since[known.cut * 3 / 10..])
}

fn by_returns(known: &ForecastInput<'_>) -> f64 {
    Forecast::after(known.seen(), known.requests).hit_ratio
}

fn less_drift(known: &ForecastInput<'_>) -> f64 {
    let errors = known.errors(by_returns);
    by_returns(known) - errors.iter().sum::<f64>() / errors.len() as f64
}

fn weighed(known: &ForecastInput<'_>) -> f64 {
    let weighed = TRIES[1..4].iter().map(|one| {
        let errors = known.errors(one.of);
        let weight =
            1.0 / (errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64 + 1e-4);
        (weight, weight * (one.of)(known))
    });
    let (weights, sum) = weighed.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    sum / weights
}

/// Clients with many requests hit less than new ones: the first requests of a client are for common
/// objects. Each age's hits, beside the expected hits at its place in the log, are therefore
/// weighed by the ages of future clients. Known clients go on as in the latter half of the log, and
/// new ones make the same share of requests as there.
fn by_age(known: &ForecastInput<'_>) -> f64 {
    with_ages(known, &ages_to_come(known))
}

/// Returns the forecast for requests from these classes of client age, with the number of requests
/// of each.
pub(super) fn with_ages(known: &ForecastInput<'_>, to_come: &BTreeMap<u32, f64>) -> f64 {
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
        // Classes with few requests take in their neighbours.
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

/// Returns the number of future requests in each class of age.
pub(super) fn ages_to_come(known: &ForecastInput<'_>) -> BTreeMap<u32, f64> {
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

/// Returns the class of an age: half octaves of a client's requests.
pub(super) fn class(age: f64) -> u32 {
    ((age + 1.0).log2() * 2.0) as u32
}

/// Cuts of the back-tests, as shares of the known requests.
const BACK_TESTS: [f64; 3] = [0.35, 0.5, 0.7];
const PLACES: usize = 200;
const LEAST_OF_CLASS: f64 = 200.0;
const STEPS: u32 = 20;
