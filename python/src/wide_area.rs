//! Proxies that cooperate in a wide area, over a trace with clients.

use crate::arrays::{WarmUp, wrong};
use crate::trace::Trace;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_lab::model::wan::scheme::Region;
use shoal_lab::wide_area::{Cooperation, Digests, Stream, WideAreaResult, WideAreaSetup, simulate};
use shoal_trace::SizeChange;

/// What proxies found together.
#[pyclass(frozen, get_all, module = "shoal")]
pub struct WideAreaOutcome {
    /// Requests that count.
    pub requests: u64,
    /// Those that any cache answered.
    pub hits: u64,
    /// Those that the client's own proxy answered.
    pub found_here: u64,
    /// Requests that a cache answered, by the level where it was found, the top one first.
    pub found: Vec<u64>,
    /// Hits over requests.
    pub hit_rate: f64,
    /// The mean latency of a request, in seconds.
    pub mean_latency_seconds: f64,
    /// Requests that found an old version and had to go on.
    pub outdated: u64,
    /// Peers asked in vain.
    pub false_hits: u64,
    /// Requests that went to the origin although a peer held the object.
    pub false_misses: u64,
    /// Requests from one cache to another.
    pub questions: u64,
    /// Updates of directories, one for each receiver.
    pub updates: u64,
    /// Their bytes.
    pub update_bytes: u64,
    /// Bytes in all caches at the end.
    pub stored_bytes: u64,
    /// Requests that each cache was asked: the proxies, then what stands above them level by level.
    pub arrivals: Vec<u64>,
}

/// Sends a trace through proxies that cooperate; its clients are dealt out among them.
///
/// Cooperation: alone, hierarchy, rendezvous, ring, carp, hash-tiers, directory, directory-tiers,
/// summaries. `levels_ms` is the latency in milliseconds from a cache of each level, the top one first and a
/// client's own proxy last; each cache has `fanout` below it. `summaries` have digests of
/// `bits_per_object` and `hashes`, sent when the share `threshold` has changed; `tries` peers are
/// asked in vain before the origin is.
#[pyfunction]
#[pyo3(signature = (trace, cooperation, *, levels_ms = vec![50.0, 10.0], fanout = 10, cache_bytes = None, origin_ms = 1900.0, size_change = "identity",
    bits_per_object = 16, hashes = 4, threshold = 0.01, tries = 1, warm_up = WarmUp::NONE, seed = 1))]
pub fn simulate_wide_area(
    py: Python<'_>,
    trace: &Trace,
    cooperation: &str,
    levels_ms: Vec<f64>,
    fanout: u32,
    cache_bytes: Option<u64>,
    origin_ms: f64,
    size_change: &str,
    bits_per_object: u32,
    hashes: u32,
    threshold: f64,
    tries: usize,
    warm_up: WarmUp,
    seed: u64,
) -> PyResult<WideAreaOutcome> {
    let digests = Digests { bits_per_object, hashes, threshold, tries };
    let plan = WideAreaSetup {
        region: Region {
            population: trace.inner.clients().len() as f64,
            fanout,
            latency_seconds: levels_ms.iter().map(|ms| ms / 1000.0).collect(),
        },
        cooperation: named(cooperation, digests)?,
        cache_bytes,
        origin_seconds: origin_ms / 1000.0,
        warm_up: warm_up.of(trace.inner.requests().len())?,
    };
    let rules = [SizeChange::Identity, SizeChange::Version];
    let rule = rules.into_iter().find(|rule| rule.name() == size_change);
    let rule = rule.ok_or_else(|| PyValueError::new_err("size_change: identity or version"))?;
    let found = py.detach(|| simulate(&Stream::of_trace(&trace.inner, rule), &plan, seed));
    Ok(wide_area_outcome(found.map_err(wrong)?))
}

fn named(name: &str, digests: Digests) -> PyResult<Cooperation> {
    let fits = (1..=64).contains(&digests.bits_per_object)
        && (1..=16).contains(&digests.hashes)
        && (0.0..=1.0).contains(&digests.threshold);
    if !fits {
        return Err(PyValueError::new_err(
            "digests have 1 to 64 bits_per_object, 1 to 16 hashes, and a threshold from 0 to 1",
        ));
    }
    Cooperation::named(name, digests).ok_or_else(|| {
        let known = Cooperation::NAMES.join(", ");
        PyValueError::new_err(format!("there is no way to cooperate called {name:?}; there are: {known}"))
    })
}

fn wide_area_outcome(found: WideAreaResult) -> WideAreaOutcome {
    WideAreaOutcome {
        requests: found.requests,
        hits: found.hits(),
        found_here: found.found_here,
        hit_rate: found.hit_rate(),
        mean_latency_seconds: found.mean_latency_seconds(),
        outdated: found.outdated,
        false_hits: found.false_hits,
        false_misses: found.false_misses,
        questions: found.questions,
        updates: found.updates,
        update_bytes: found.update_bytes,
        stored_bytes: found.stored_bytes,
        arrivals: found.arrivals,
        found: found.found,
    }
}
