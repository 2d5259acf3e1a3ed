//! A plan for programs.

use super::{CooperationVerdict, Future, Goal, Plan, Wear, settings};
use crate::character::account_json;
use crate::curve::{Curve, Point};
use crate::forecast::Forecast;
use serde_json::{Value, json};

/// Returns the whole plan for a log of this name.
pub fn json(plan: &Plan, log: &str) -> Value {
    let Plan { demand, memory, disk, cooperation, .. } = plan;
    json!({
        "log": log,
        "cache_that_logged": account_json(&plan.account),
        "demand": {
            "requests": demand.requests,
            "storable_requests": demand.storable,
            "storable_share": demand.storable_share(),
            "warm_up_requests": demand.warm_up,
            "requests_per_second": demand.mean_rate,
            "requests_per_second_peak": demand.peak_rate,
            "bytes_per_second_peak": demand.peak_bytes,
            "mean_bytes": demand.mean_bytes,
            "objects": demand.objects,
            "unique_bytes": demand.unique_bytes,
            "achievable_hit_ratio": demand.achievable,
        },
        "ram": {
            "sampling_rate": memory.rate,
            "knee": memory.knee.as_ref().map(point),
            "curves": memory.curves.iter().map(|(name, curve)| (name.to_string(), Value::from(points(curve))))
                .collect::<serde_json::Map<_, _>>(),
            "lru_by_stack_distance": points(&memory.stack),
            "with_disk": points(&memory.whole),
            "too_large_share": memory.too_large,
            "targets": memory.targets.iter().map(|target| json!({
                "of": match target.goal { Goal::HitRatio => "hit_ratio", Goal::Throughput => "throughput" },
                "share": target.share,
                "ram_bytes": target.ram_bytes,
                "hit_ratio": target.hit_ratio,
                "disk_operations_per_second": target.disk_ios,
            })).collect::<Vec<_>>(),
        },
        "tiers": plan.tiers.iter().map(|tier| json!({
            "ram_bytes": tier.ram_bytes,
            "disk_bytes": tier.disk_bytes,
            "ram_hit_ratio": tier.ram_hit_ratio,
            "disk_hit_ratio": tier.disk_hit_ratio,
            "byte_hit_ratio": tier.byte_hit_ratio,
            "hit_ratio_error": tier.error,
            "write_ratio": tier.write_ratio,
        })).collect::<Vec<_>>(),
        "disk": {
            "bytes": disk.bytes,
            "hit_ratio": disk.hit_ratio,
            "objects": disk.objects,
            "index_bytes": disk.index_bytes,
            "architectures": disk.wear.iter().map(wear).collect::<Vec<_>>(),
        },
        "assumptions": plan.bounds.iter().map(|bound| json!({
            "key": bound.key,
            "assumed": bound.assumed,
            "hit_ratio": bound.hit_ratio,
            "otherwise": bound.other,
            "hit_ratio_otherwise": bound.otherwise,
        })).collect::<Vec<_>>(),
        "cooperation": cooperated(cooperation),
        "choice": chosen(plan),
        "shoal.toml": settings(plan, log),
    })
}

fn cooperated(cooperation: &CooperationVerdict) -> Value {
    json!({
        "pays": cooperation.pays,
        "verdict": cooperation.verdict,
        "documents": cooperation.documents,
        "locality": cooperation.locality,
        "change_days": { "popular": cooperation.change_days.0, "others": cooperation.change_days.1 },
        "changes_from_log": cooperation.changes_from_log,
        "hit_ratios": cooperation.joined.iter()
            .map(|one| json!({ "caches": one.caches, "hit_ratio": one.hit_ratio })).collect::<Vec<_>>(),
    })
}

fn chosen(plan: &Plan) -> Value {
    let Plan { choice, demand, expected, .. } = plan;
    json!({
        "ram_bytes": choice.ram_bytes,
        "disk_bytes": choice.disk_bytes,
        "architecture": choice.architecture,
        "max_objects": choice.objects,
        "hit_ratio": expected.hit_ratio(),
        "hit_ratio_error": expected.error,
        "hit_ratio_of_fifths": { "least": expected.range.0, "most": expected.range.1 },
        "forecast": foreseen(&plan.future),
        "byte_hit_ratio": expected.byte_hit_ratio,
        "ram_hit_ratio": expected.ram_hit_ratio,
        "hit_ratio_of_all_requests": expected.hit_ratio() * demand.storable_share(),
        "why": choice.why,
        "hint": choice.hint,
        "prices_a_month": choice.priced.iter().map(|priced| json!({
            "ram_bytes": priced.ram_bytes, "disk_bytes": priced.disk_bytes,
            "machine": priced.machine, "egress": priced.egress, "total": priced.total(),
        })).collect::<Vec<_>>(),
    })
}

fn foreseen(future: &Future) -> Value {
    let of = |forecast: &Forecast| {
        json!({
            "requests": forecast.requests,
            "hit_ratio": forecast.hit_ratio,
            "hit_ratio_error": forecast.error,
            "of_it_growth": forecast.growth,
        })
    };
    let mut value = of(&future.forecast);
    value["back_tests"] = future
        .back_tests
        .iter()
        .map(
            |test| json!({ "known_requests": test.known, "forecast": of(&test.forecast), "came": test.came }),
        )
        .collect();
    value
}

fn points(curve: &Curve) -> Vec<Value> {
    curve.points.iter().map(point).collect()
}

fn point(point: &Point) -> Value {
    json!({
        "bytes": point.size,
        "hit_ratio": point.hit_ratio,
        "hit_ratio_error": point.error,
        "byte_hit_ratio": point.byte_hit_ratio,
        "byte_hit_ratio_error": point.byte_error,
    })
}

fn wear(wear: &Wear) -> Value {
    json!({
        "architecture": wear.architecture,
        "reads_per_hit": wear.reads_per_hit,
        "writes_per_insert": wear.writes_per_insert,
        "write_amplification": wear.amplification,
        "bytes_written_per_day": wear.bytes_per_day,
        "drive_writes_per_day": wear.drive_writes_per_day,
        "years_until_rated_endurance": wear.years,
    })
}
