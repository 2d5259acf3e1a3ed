//! A plan for readers at a terminal.

use super::{Goal, Plan, bytes, settings};
use crate::figure::Unit;
use crate::forecast::BackTest;
use std::fmt::Write;

/// Returns the plan for a log of this name; [`super::today`] has the first answers.
pub fn text(plan: &Plan, log: &str) -> String {
    let mut text = String::new();
    demand(plan, &mut text);
    sizes(plan, &mut text);
    targets(plan, &mut text);
    tiers(plan, &mut text);
    prices(plan, &mut text);
    disk(plan, &mut text);
    let _ = writeln!(text, "\nCooperation\n  {}", plan.cooperation.verdict);
    bounds(plan, &mut text);
    let (choice, expected) = (&plan.choice, &plan.expected);
    let _ = writeln!(
        text,
        "\nRecommended: {} of RAM, {} of disk ({})",
        bytes(choice.ram_bytes),
        bytes(choice.disk_bytes),
        choice.architecture
    );
    let _ = writeln!(
        text,
        "  {} of this log's storable requests hit, {} in RAM: {} of all requests",
        share(expected.hit_ratio()),
        share(expected.ram_hit_ratio),
        share(expected.hit_ratio() * plan.demand.storable_share())
    );
    let _ = writeln!(
        text,
        "  from {} to {} in fifths of the log, one after the other",
        share(expected.range.0),
        share(expected.range.1)
    );
    next(plan, &mut text);
    let _ = writeln!(text, "  {}", choice.why);
    if !choice.hint.is_empty() {
        let _ = writeln!(text, "  {}", choice.hint);
    }
    let _ = writeln!(text, "\nshoal.toml\n");
    settings(plan, log).lines().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
    text
}

/// Writes the forecast for the requests after the log, and the quality of such forecasts within it.
fn next(plan: &Plan, text: &mut String) {
    let (forecast, count) = (&plan.future.forecast, |number: usize| Unit::Count.shown(number as f64));
    let _ = writeln!(
        text,
        "  of the next {} requests, as many again: {}, if they change no more than this log's do from fifth to fifth and third to third",
        count(forecast.requests),
        within(forecast.hit_ratio, forecast.error)
    );
    let of = |(test, part): (&BackTest, &str)| {
        format!("{part} {}, {} came", within(test.forecast.hit_ratio, test.forecast.error), share(test.came))
    };
    let parts = ["its first quarter", "its first half", "three quarters"];
    let told: Vec<String> = plan.future.back_tests.iter().zip(parts).map(of).collect();
    let _ = writeln!(text, "  the same tried within the log, from {}", told.join("; from "));
}

fn demand(plan: &Plan, text: &mut String) {
    let demand = &plan.demand;
    let count = |number: u64| Unit::Count.shown(number as f64);
    let _ = writeln!(text, "The log");
    let _ = writeln!(
        text,
        "  {} requests, {} of them storable (GET and HEAD with a status that a cache may keep); {} objects of {} in all",
        count(demand.requests),
        share(demand.storable_share()),
        count(demand.objects),
        bytes(demand.unique_bytes)
    );
    match (demand.mean_rate, demand.peak_rate) {
        (Some(mean), Some(peak)) => {
            let _ = writeln!(text, "  {mean:.2} requests a second on average, {peak:.2} in the busiest hour");
        }
        _ => text.push_str("  no times: rates, disk operations and wear cannot be told\n"),
    }
    let _ = writeln!(
        text,
        "  an infinite cache hits {} of what is storable, after a warm-up of {} requests",
        share(demand.achievable),
        count(demand.warm_up as u64)
    );
}

fn sizes(plan: &Plan, text: &mut String) {
    let memory = &plan.memory;
    let how = if memory.rate < 1.0 {
        format!(", from {:.1}% of the objects", memory.rate * 100.0)
    } else {
        String::new()
    };
    let what = if memory.too_large > 0.0 { "Hit ratio of RAM by size" } else { "Hit ratio by size" };
    let _ = writeln!(text, "\n{what} (± at 95% for as many requests again{how})");
    // Where RAM hits nothing there is no size of it to choose.
    if memory.most() > 0.0 {
        policies(plan, text);
    }
    if let Some(told) = too_large(plan) {
        let _ = writeln!(text, "  {told}");
        as_one(plan, text);
    }
}

fn policies(plan: &Plan, text: &mut String) {
    let memory = &plan.memory;
    let _ = write!(text, "  {:>10}", "size");
    memory.curves.iter().for_each(|(name, _)| {
        let _ = write!(text, "  {:>20}", format!("{name}: requests"));
    });
    let _ = writeln!(text, "  {:>20}", format!("{}: bytes", memory.curves[0].0));
    for (at, first) in memory.curve().points.iter().enumerate() {
        let _ = write!(text, "  {:>10}", bytes(first.size));
        for (_, curve) in &memory.curves {
            let point = &curve.points[at];
            let _ = write!(text, "  {:>20}", within(point.hit_ratio, point.error));
        }
        let knee = if memory.knee.is_some_and(|knee| knee.size == first.size) { "  knee" } else { "" };
        let _ = writeln!(text, "  {:>20}{knee}", within(first.byte_hit_ratio, first.byte_error));
    }
}

/// Writes the hit ratio of RAM and disk together, where RAM does not take every object.
fn as_one(plan: &Plan, text: &mut String) {
    let largest = bytes(plan.wishes.footprint.object_max);
    let _ = writeln!(
        text,
        "\nHit ratio of RAM and disk as one cache, for objects of up to {largest} (store.object_max)"
    );
    let _ = writeln!(text, "  {AS_ONE_NOTE}");
    let _ = writeln!(text, "  {:>10}  {:>20}  {:>20}", "size", "requests", "bytes");
    for point in &plan.memory.whole.points {
        let (requests, of_bytes) =
            (within(point.hit_ratio, point.error), within(point.byte_hit_ratio, point.byte_error));
        let _ = writeln!(text, "  {:>10}  {requests:>20}  {of_bytes:>20}", bytes(point.size));
    }
}

/// Returns a sentence on the requests for objects too large for RAM; `None` without such requests.
pub(super) fn too_large(plan: &Plan) -> Option<String> {
    (plan.memory.too_large > 0.0).then(|| {
        format!(
            "{} of the requests are for objects of more than {} (cache.ram_object_max), which RAM does not take",
            share(plan.memory.too_large),
            bytes(plan.wishes.footprint.ram_object_max)
        )
    })
}

fn targets(plan: &Plan, text: &mut String) {
    let cost = plan.wishes.miss_cost;
    let _ =
        writeln!(text, "\nRAM for shares of what RAM can have (a miss in RAM costs as much as {cost} hits)");
    if plan.memory.targets.is_empty() {
        text.push_str("  none: RAM takes no object that is asked for again\n");
    }
    for target in &plan.memory.targets {
        let goal = match target.goal {
            Goal::HitRatio => "hit ratio",
            Goal::Throughput => "throughput",
        };
        let ios = target
            .disk_ios
            .map_or(String::new(), |ios| format!(", {ios:.1} disk operations a second at the peak"));
        let (part, ram, hits) = (target.share * 100.0, bytes(target.ram_bytes), share(target.hit_ratio));
        let _ = writeln!(text, "  {part:.0}% of the {goal:<11}{ram:>10}, {hits} hit in RAM{ios}");
    }
}

fn tiers(plan: &Plan, text: &mut String) {
    let _ = writeln!(text, "\nRAM before disk");
    let _ = writeln!(
        text,
        "  {:>10}  {:>10}  {:>8}  {:>8}  {:>8}  {:>8}",
        "RAM", "disk", "in RAM", "on disk", "together", "bytes"
    );
    for tier in &plan.tiers {
        let together = tier.ram_hit_ratio + tier.disk_hit_ratio;
        let _ = writeln!(
            text,
            "  {:>10}  {:>10}  {:>8}  {:>8}  {:>8}  {:>8}",
            bytes(tier.ram_bytes),
            bytes(tier.disk_bytes),
            share(tier.ram_hit_ratio),
            share(tier.disk_hit_ratio),
            share(together),
            share(tier.byte_hit_ratio)
        );
    }
}

/// Writes the cheapest pairs of sizes, where prices are given.
fn prices(plan: &Plan, text: &mut String) {
    let priced = &plan.choice.priced;
    if priced.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\nCosts a month, the cheapest {} of {} pairs",
        priced.len().min(CHEAPEST),
        priced.len()
    );
    let _ = writeln!(
        text,
        "  {:>10}  {:>10}  {:>12}  {:>12}  {:>12}",
        "RAM", "disk", "RAM and disk", "from origins", "together"
    );
    for pair in priced.iter().take(CHEAPEST) {
        let (machine, egress, total) = (pair.machine, pair.egress, pair.total());
        let (ram, disk) = (bytes(pair.ram_bytes), bytes(pair.disk_bytes));
        let _ = writeln!(text, "  {ram:>10}  {disk:>10}  {machine:>12.2}  {egress:>12.2}  {total:>12.2}");
    }
}

fn disk(plan: &Plan, text: &mut String) {
    let disk = &plan.disk;
    let count = |number: u64| Unit::Count.shown(number as f64);
    let _ = writeln!(
        text,
        "\nDisk of {}: {} objects, an index of {} in RAM when all of it is used",
        bytes(disk.bytes),
        count(disk.objects),
        bytes(disk.index_bytes)
    );
    let (writes, years) = (plan.wishes.drive_writes_per_day, plan.wishes.drive_years);
    let _ = writeln!(
        text,
        "  over the first {} requests on the modelled machine; a drive of {} rated for {writes} writes of itself a day over {years} years",
        count(disk.counted_over),
        bytes(plan.wishes.drive_bytes.max(disk.bytes))
    );
    let _ = writeln!(
        text,
        "  {:<16}{:>11}{:>14}{:>15}{:>14}{:>13}{:>10}",
        "architecture", "reads/hit", "writes/object", "bytes written", "a day", "drives a day", "lasts"
    );
    for wear in &disk.wear {
        let told = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or("-".into(), show);
        let _ = writeln!(
            text,
            "  {:<16}{:>11.2}{:>14.2}{:>15}{:>14}{:>13}{:>10}",
            wear.architecture,
            wear.reads_per_hit,
            wear.writes_per_insert,
            format!("{:.2} times", wear.amplification),
            told(wear.bytes_per_day, &|value| bytes(value as u64)),
            told(wear.drive_writes_per_day, &|value| format!("{value:.3}")),
            told(wear.years, &lasting)
        );
    }
}

fn bounds(plan: &Plan, text: &mut String) {
    let _ = writeln!(text, "\nAssumed, and what else could be (infinite cache, all storable requests)");
    for bound in &plan.bounds {
        let _ = writeln!(text, "  - {}", bound.assumed);
        match bound.otherwise {
            Some(otherwise) => {
                let _ = writeln!(
                    text,
                    "    {} as assumed; {} if {}",
                    share(bound.hit_ratio),
                    share(otherwise),
                    bound.other
                );
            }
            None => {
                let _ = writeln!(text, "    {}", bound.other);
            }
        }
    }
}

/// Formats years: `5 years`, up to a hundred.
pub(super) fn lasting(years: f64) -> String {
    if years > 100.0 { "> 100 y".into() } else { format!("{years:.1} y") }
}

/// Formats a share with its error: `66.2 ± 5.5%`.
pub(super) fn within(value: f64, error: f64) -> String {
    format!("{:.1} ± {:.1}%", value * 100.0, error * 100.0)
}

fn share(share: f64) -> String {
    Unit::Share.shown(share)
}

/// Limit of the curve of RAM and disk as one cache.
pub(super) const AS_ONE_NOTE: &str = "one s3_fifo cache, a bound: a volume gives up objects of more than 64 KiB at its cursor, and hits some points fewer of the bytes (RAM before disk)";
/// Number of pairs printed with their costs.
const CHEAPEST: usize = 5;
