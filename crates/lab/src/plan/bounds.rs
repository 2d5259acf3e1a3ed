//! Facts that the log does not tell, and their largest effect.

use super::demand::Demand;
use super::{Footprint, PlanOptions};
use crate::character::census::is_dynamic;
use crate::character::{CensusTrace, Character};
use crate::workload::share;
use std::collections::HashSet;

/// One assumption with its effect on the hit ratio of an infinite cache over all storable requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// A short name for programs.
    pub key: &'static str,
    /// Assumption.
    pub assumed: String,
    /// Hit ratio under the assumption.
    pub hit_ratio: f64,
    /// Hit ratio if the assumption is all wrong; `None` where the assumption does not concern the
    /// hit ratio.
    pub otherwise: Option<f64>,
    /// Description of the other case.
    pub other: String,
}

/// Returns every assumption.
pub(super) fn bounds(
    loaded: &CensusTrace,
    character: &Character,
    demand: &Demand,
    wishes: &PlanOptions,
) -> Vec<Bound> {
    let (assumed, footprint) = (character.infinite.hit_ratio, wishes.footprint);
    let bound = |key, text: &str, otherwise, other: &str| Bound {
        key,
        assumed: text.into(),
        hit_ratio: assumed,
        otherwise,
        other: other.into(),
    };
    let (dynamic, per_client) = repeats(loaded);
    let freshness = freshness(loaded, character);
    let storing = match loaded.account.told > 0 {
        true => "every GET with a status that may be stored is stored, unless the log says otherwise",
        false => {
            "every GET with a status that may be stored is stored: the log does not tell Cache-Control, cookies and authorization"
        }
    };
    let mut bounds = vec![
        freshness,
        bound("cacheability", storing, Some(dynamic), "nothing with ? or cgi-bin in its URL is stored"),
    ];
    if character.clients > 1 {
        bounds.push(bound(
            "vary",
            "a URL has one variant: the log does not tell Vary",
            Some(per_client),
            "each client needs a variant of its own",
        ));
    }
    let filled = &loaded.filled;
    let guessed = filled.from_before + filled.from_after + filled.by_median;
    if guessed > 0 {
        let requests = demand.storable as f64;
        let mut text = format!(
            "{:.1}% of the requests came without a size (304, HEAD or none logged) and have that of another request for the object",
            guessed as f64 / requests * 100.0
        );
        if filled.by_median > 0 {
            let part = filled.by_median as f64 / requests * 100.0;
            text += &format!(
                "; {part:.1}% have the median of all sizes, {} bytes, since no request for the object has one",
                filled.median
            );
        }
        bounds.push(bound(
            "sizes",
            &text,
            None,
            "bytes and byte hit ratios are off by at most these requests' part",
        ));
    }
    bounds.extend(of_the_plan(assumed, footprint));
    bounds
}

/// Returns the assumption on lifetimes, by those that the log tells if it tells any.
fn freshness(loaded: &CensusTrace, character: &Character) -> Bound {
    let infinite = &character.infinite;
    let (assumed, otherwise, other) = match loaded.fresh_hits() {
        Some((told, fresh)) => (
            format!(
                "responses whose lifetime is over are confirmed by their origin, which counts as a hit; the log tells lifetimes for {:.1}% of the requests",
                told * 100.0
            ),
            fresh.min(infinite.hit_ratio),
            "each told lifetime ends in a new version, and a miss",
        ),
        None => (
            "objects stay fresh: the log does not tell lifetimes, and a validated response counts as a hit"
                .into(),
            infinite.version_hit_ratio,
            "every repeat of another size is a new version, and a miss",
        ),
    };
    let (hit_ratio, otherwise) = (infinite.hit_ratio, Some(otherwise));
    Bound { key: "freshness", assumed, hit_ratio, otherwise, other: other.into() }
}

/// Returns the assumptions of the plan itself.
fn of_the_plan(hit_ratio: f64, footprint: Footprint) -> [Bound; 2] {
    let bound = |key, assumed: String, other: &str| Bound {
        key,
        assumed,
        hit_ratio,
        otherwise: None,
        other: other.into(),
    };
    let (ram, disk) = (footprint.ram_overhead(), footprint.volume(0));
    let (heads, other) = match footprint.heads_in_sizes {
        true => (
            format!(
                "sizes have the response's head in them; with bookkeeping an object takes {ram} bytes of RAM and {disk} of disk beside that"
            ),
            "where they are those of bodies, an object takes as much more as its head has",
        ),
        false => (
            format!(
                "a response's head has {} bytes; with bookkeeping an object takes {ram} bytes of RAM and {disk} of disk beside its body",
                footprint.head_bytes
            ),
            "a byte more of head takes a byte more of RAM and of disk for each object",
        ),
    };
    [
        bound("heads", heads, other),
        bound(
            "log",
            "the future is like the log".into(),
            "error bars are for as many requests again, and hold if these change as the log's own fifths and thirds do; what never happened in the log \
             is in no bar",
        ),
    ]
}

/// Returns two hit ratios of an infinite cache: when no computed-looking response is stored, and
/// when each client has its own cache.
fn repeats(loaded: &CensusTrace) -> (f64, f64) {
    let trace = &loaded.trace;
    let dynamic: Vec<bool> = trace.objects().iter().map(is_dynamic).collect();
    let mut seen = vec![false; dynamic.len()];
    let mut seen_by: HashSet<u64> = HashSet::new();
    let (mut plain, mut own) = (0, 0);
    for request in trace.requests() {
        let at = request.object as usize;
        plain += u64::from(std::mem::replace(&mut seen[at], true) && !dynamic[at]);
        own += u64::from(!seen_by.insert(u64::from(request.client) << 32 | u64::from(request.object)));
    }
    let requests = trace.requests().len() as u64;
    (share(plain, requests), share(own, requests))
}
