//! Fits the generator's values so that its traffic is like a trace.
//!
//! Visible properties of a trace are read off: sizes, hosts, clients, rates, changes. Other values
//! are searched for by a statistic:
//!
//! - the exponent, by the slope of the fitted line of popularity;
//! - the frequency of clients' returns, by the reuse distances of objects;
//! - the correlation of sizes with popularity, by the mean size of a request;
//! - the number of pages of a host, by the number of hosts seen.

use crate::{Progress, Silent};
use shoal_lab::character::{Character, TraceFields};
use shoal_trace::Trace;
use shoal_trace::generate::{Changes, Impossible, Sizes, Traffic};

/// Returns traffic like this trace.
///
/// # Errors
/// When no traffic has its hit ratio.
pub fn fit(
    trace: &Trace,
    character: &Character,
    seed: u64,
    progress: &mut dyn Progress,
) -> Result<Traffic, Impossible> {
    let embedded = embedded(trace);
    let per_page = 1.0 + embedded;
    let locality = character.locality.same_host_per_client;
    let mut traffic = Traffic {
        seed,
        requests: trace.requests().len(),
        alpha: character.popularity.alpha.clamp(0.3, 1.5),
        hit_ratio: character.infinite.hit_ratio.clamp(0.01, 0.99),
        clients: (character.clients.max(1) as u32).min(1_000_000),
        embedded,
        common: Traffic::default().common,
        pages_per_host: (character.objects as f64 / character.hosts.max(1) as f64 / per_page).clamp(1.0, 1e6),
        // All steps within a page stay on its host.
        stay: (locality * per_page - embedded).clamp(0.0, 0.9),
        recall: 0.0,
        rate: character.rate().clamp(1e-3, 1e6),
        sizes: sizes(trace),
        size_popularity: 0.0,
        changes: changes(trace, character),
    };
    let tried = RECALLS.len() + SIZE_POPULARITIES.len() + PAGES.len() + ALPHAS.len();
    progress.begin("values that make such traffic", tried as u64);
    let pages = PAGES.map(|times| (traffic.pages_per_host * times).clamp(1.0, 1e6));
    // Returning clients make objects come back sooner, and the few popular ones less popular. The
    // exponent is therefore last.
    let searches: [Search<'_>; 4] = [
        (&RECALLS, |traffic, recall| traffic.recall = recall, half_of),
        (&SIZE_POPULARITIES, |traffic, value| traffic.size_popularity = value, request_size),
        (&pages, |traffic, pages| traffic.pages_per_host = pages, |made| (made.hosts.max(1) as f64).ln()),
        (&ALPHAS, |traffic, alpha| traffic.alpha = alpha, |made| made.popularity.alpha),
    ];
    for (values, set, of) in searches {
        let wanted = of(character);
        assert!(!values.is_empty() && wanted.is_finite(), "a value is searched for among some");
        let value = nearest(traffic, values, progress, set, |made| of(made) - wanted)?;
        set(&mut traffic, value);
    }
    Ok(traffic)
}

/// Values to try, the function that sets one, and the statistic for comparing.
type Search<'a> = (&'a [f64], fn(&mut Traffic, f64), fn(&Character) -> f64);

/// Returns the logarithm of the mean size of a request.
fn request_size(character: &Character) -> f64 {
    character.sizes.of_requests.mean.max(1.0).ln()
}

/// Returns the value that makes the traffic nearest to the trace.
fn nearest(
    traffic: Traffic,
    values: &[f64],
    progress: &mut dyn Progress,
    set: impl Fn(&mut Traffic, f64),
    distance: impl Fn(&Character) -> f64,
) -> Result<f64, Impossible> {
    let mut best: Option<(f64, f64)> = None;
    let mut refused = None;
    for value in values {
        let mut tried = traffic;
        set(&mut tried, *value);
        match tried.make() {
            Ok(trace) => {
                let far = distance(&Character::of(&trace, TraceFields::ALL, tried.seed, &mut Silent)).abs();
                if best.is_none_or(|(least, _)| far < least) {
                    best = Some((far, *value));
                }
            }
            Err(error) => refused = Some(error),
        }
        progress.done(1);
    }
    match (best, refused) {
        (None, Some(error)) => Err(error),
        (best, _) => Ok(best.map_or(values[0], |(_, value)| value)),
    }
}

/// Returns the logarithm of the number of other objects within which half of the repeats come.
pub(super) fn half_of(character: &Character) -> f64 {
    let quantile = character.reuse.distances().quantiles_by_objects(&[character.infinite.hit_ratio / 2.0]);
    quantile.first().copied().flatten().map_or(0.0, |distance| (distance.max(1) as f64).ln())
}

/// Returns the number of requests for embedded objects, for each other request, by the endings of
/// names.
fn embedded(trace: &Trace) -> f64 {
    let is_image: Vec<bool> = trace
        .objects()
        .iter()
        .map(|url| {
            let path = url.split(['?', '#']).next().unwrap_or(url).to_ascii_lowercase();
            ENDINGS.iter().any(|ending| path.ends_with(ending))
        })
        .collect();
    let images = trace.requests().iter().filter(|request| is_image[request.object as usize]).count() as f64;
    let pages = trace.requests().len() as f64 - images;
    assert!(pages >= 0.0, "images are requests");
    (images / pages.max(1.0)).clamp(0.0, 50.0)
}

/// Returns body and tail of the objects' sizes: the median, the spread between the 10 and 90%
/// quantiles, and the tail's exponent. The exponent is Hill's estimator over the largest 3% (*A
/// Simple General Approach to Inference About the Tail of a Distribution*, Annals of Statistics
/// 1975).
fn sizes(trace: &Trace) -> Sizes {
    let mut sizes: Vec<f64> =
        last_sizes(trace).into_iter().filter(|bytes| *bytes > 0).map(|bytes| bytes as f64).collect();
    if sizes.len() < 100 {
        return Sizes::default();
    }
    sizes.sort_unstable_by(f64::total_cmp);
    debug_assert!(sizes.is_sorted(), "quantiles are read off sorted sizes");
    let at = |share: f64| sizes[((sizes.len() - 1) as f64 * share) as usize];
    let tail = Sizes::default().tail;
    let largest = &sizes[((sizes.len() as f64) * (1.0 - tail)) as usize..];
    assert!(!largest.is_empty(), "the tail has an object");
    let hill = largest.iter().map(|bytes| (bytes / largest[0]).ln()).sum::<f64>() / largest.len() as f64;
    Sizes {
        median: at(0.5 * (1.0 - tail)),
        sigma: ((at(0.9 * (1.0 - tail)) / at(0.1 * (1.0 - tail))).ln() / (2.0 * DEVIATE_90))
            .clamp(0.01, 10.0),
        tail,
        tail_min: largest[0],
        tail_alpha: (1.0 / hill.max(1e-3)).clamp(0.2, 50.0),
        max: at(1.0),
    }
}

/// Returns the changes of objects: the share that changed, and the days between changes of these.
fn changes(trace: &Trace, character: &Character) -> Changes {
    let mut last: Vec<Option<(u64, bool)>> = vec![None; trace.objects().len()];
    for request in trace.requests() {
        let entry = &mut last[request.object as usize];
        *entry = match *entry {
            None => Some((request.bytes, false)),
            Some((bytes, changed)) => Some((request.bytes, changed || bytes != request.bytes)),
        };
    }
    let repeated = character.popularity.counts.iter().filter(|count| **count > 1).count();
    let changed = last.iter().filter(|entry| entry.is_some_and(|(_, changed)| changed)).count();
    if changed == 0 {
        return Changes::default();
    }
    let changing = (changed as f64 / repeated.max(1) as f64).clamp(0.0, 1.0);
    let days = |class: &shoal_lab::character::ChangeClass| {
        class.per_day().filter(|rate| *rate > 0.0).map(|rate| (changing / rate).clamp(1e-6, 1e6))
    };
    let slow = Changes::default();
    Changes {
        changing,
        days: days(&character.change.others).unwrap_or(slow.days),
        popular_days: days(&character.change.popular).unwrap_or(slow.popular_days),
    }
}

fn last_sizes(trace: &Trace) -> Vec<u64> {
    let mut sizes = vec![0; trace.objects().len()];
    trace.requests().iter().for_each(|request| sizes[request.object as usize] = request.bytes);
    sizes
}

const ENDINGS: [&str; 8] = [".gif", ".jpg", ".jpeg", ".xbm", ".png", ".css", ".js", ".ico"];
/// Normal deviate at the 90% quantile.
const DEVIATE_90: f64 = 1.2816;
/// Exponents to try. The fitted line falls less steeply than the exponent, since most objects have
/// one request.
const ALPHAS: [f64; 8] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2];
const RECALLS: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.45, 0.6];
/// Correlations of popularity with size.
const SIZE_POPULARITIES: [f64; 7] = [-0.6, -0.4, -0.25, -0.15, -0.07, 0.0, 0.2];
/// Pages of a host, as multiples of the seen ones: the log does not show the others.
const PAGES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
