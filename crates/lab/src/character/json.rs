//! A trace's character for programs.

use super::{CacheAccount, Census, CensusTrace, ChangeClass, Character, Spread};
use serde_json::{Value, json};

/// Returns everything that `shoal trace info --json` prints: the character, and the account of its
/// log.
pub fn json(character: &Character, loaded: &CensusTrace) -> Value {
    let mut told = facts(character);
    told["reading"] = reading(loaded);
    told["census"] = census(&loaded.census);
    told["cache_that_logged"] = account(&loaded.account);
    told
}

/// Returns the account of the cache that wrote the log.
pub fn account(account: &CacheAccount) -> Value {
    json!({
        "requests": account.requests,
        "requests_with_outcome": account.told,
        "hit_ratio": account.hit_ratio(),
        "validated_ratio": account.hit_ratio().map(|_| account.validated as f64 / account.told as f64),
        "hit_ratio_with_room": account.possible_hit_ratio(),
        "lost": account.losses().iter()
            .map(|(loss, share)| json!({ "to": loss.name(), "share": share, "meaning": loss.meaning() }))
            .collect::<Vec<_>>(),
    })
}

/// Returns a trace's character alone.
pub fn facts(character: &Character) -> Value {
    let Character { infinite, popularity, sizes, locality, working_set, change, .. } = character;
    json!({
        "requests": character.requests,
        "objects": character.objects,
        "hosts": character.hosts,
        "clients": character.clients,
        "bytes": character.bytes,
        "unique_bytes": character.unique_bytes,
        "seconds": character.seconds,
        "requests_per_second": character.rate(),
        "infinite_cache": {
            "identity": { "hit_ratio": infinite.hit_ratio, "byte_hit_ratio": infinite.byte_hit_ratio },
            "version": { "hit_ratio": infinite.version_hit_ratio, "byte_hit_ratio": infinite.version_byte_hit_ratio },
        },
        "popularity": {
            "zipf_alpha": popularity.alpha,
            "zipf_alpha_standard_error": popularity.alpha_error,
            "fit_r_squared": popularity.fit,
            "one_hit_objects": popularity.one_hit_objects,
            "one_hit_requests": popularity.one_hit_requests,
            "concentration": popularity.concentration.iter()
                .map(|(objects, requests)| json!({ "objects": objects, "requests": requests })).collect::<Vec<_>>(),
        },
        "sizes": {
            "requests": spread(&sizes.of_requests),
            "objects": spread(&sizes.of_objects),
            "requests_to_8_kb": sizes.small_requests,
            "classes": sizes.classes.iter().filter(|class| class.requests > 0).map(|class| json!({
                "to_bytes": class.to, "requests": class.requests, "objects": class.objects, "bytes": class.bytes,
            })).collect::<Vec<_>>(),
        },
        "reuse_distance": {
            "sampling_rate": character.reuse.rate,
            "objects": quantiles(&character.reuse.distances().quantiles_by_objects(&SHARES)),
            "bytes": quantiles(&character.reuse.distances().quantiles(&SHARES)),
        },
        "host_locality": {
            "same_host": locality.same_host,
            "same_host_per_client": locality.same_host_per_client,
            "distance_p50": locality.distance_p50,
            "collapsed_distance_p50": locality.collapsed_p50,
            "collapsed_distance_p90": locality.collapsed_p90,
            "first_seen": locality.first_seen,
        },
        "working_set": {
            "slice_seconds": working_set.slice_seconds,
            "slices": working_set.slices.iter().map(|slice| json!({
                "at_seconds": slice.at_seconds, "requests": slice.requests, "objects": slice.objects,
                "bytes": slice.bytes, "new_objects": slice.new_objects,
            })).collect::<Vec<_>>(),
        },
        "change": { "popular": changes(&change.popular), "others": changes(&change.others) },
    })
}

/// Returns the account of reading a trace: lines, problems and requests left out.
pub fn reading(loaded: &CensusTrace) -> Value {
    let reading = &loaded.reading;
    json!({
        "format": reading.format.name(),
        "compression": reading.compression,
        "assumed": reading.assumed,
        "lines": reading.lines,
        "bad": reading.bad,
        "left_out": reading.left_out,
        "out_of_order": reading.out_of_order,
        "wrong_times": loaded.wrong_times,
        "problems": reading.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "refused": shoal_trace::RefusalReason::ALL.iter().zip(loaded.unread.refused)
            .filter(|(_, number)| *number > 0)
            .map(|(why, number)| (why.name().to_owned(), Value::from(number)))
            .collect::<serde_json::Map<_, _>>(),
        "limited": loaded.unread.limited,
        "sizes_filled": {
            "from_an_earlier_request": loaded.filled.from_before,
            "from_a_later_request": loaded.filled.from_after,
            "median_of_all": loaded.filled.by_median,
        },
    })
}

/// Returns the census of a log.
pub fn census(census: &Census) -> Value {
    json!({
        "requests": census.lines,
        "without_status": census.statuses[0],
        "statuses": (1..6).map(|digit| (format!("{digit}xx"), Value::from(census.statuses[digit])))
            .collect::<serde_json::Map<_, _>>(),
        "not_modified": census.not_modified,
        "get": census.gets,
        "head": census.heads,
        "other_methods": census.other_methods,
        "dynamic": census.dynamic,
        "without_size": census.without_size,
        "without_time": census.without_time,
    })
}

fn spread(spread: &Spread) -> Value {
    let [p10, p50, p90, p99, max] = spread.quantiles;
    json!({ "mean": spread.mean, "p10": p10, "p50": p50, "p90": p90, "p99": p99, "max": max })
}

fn quantiles(found: &[Option<u64>]) -> Value {
    json!({ "p10": found[0], "p50": found[1], "p90": found[2] })
}

fn changes(class: &ChangeClass) -> Value {
    json!({
        "objects": class.objects,
        "repeats": class.repeats,
        "changes": class.changes,
        "changes_of_repeats": class.of_repeats(),
        "changes_per_object_and_day_at_most": class.per_day(),
        "request_share": class.request_share,
    })
}

/// Shares of repeats for the printed distances.
const SHARES: [f64; 3] = [0.1, 0.5, 0.9];
