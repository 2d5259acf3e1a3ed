//! A plan as a page with figures.

use super::text::{AS_ONE_NOTE, lasting, too_large, within};
use super::{Bound, Goal, Plan, brief, bytes, settings, today};
use crate::character::{Character, report_section};
use crate::curve::{Curve, Point};
use crate::figure::{Axis, Bar, Bars, Chart, Figure, Mark, Plot, Series, Shape, Unit};
use crate::report::{Report, Section, Table};

/// Returns the page of a plan for a log of this name. `command` makes it again, and `unread` tells
/// of lines that were not read.
pub fn report(plan: &Plan, character: &Character, (log, command, unread): (&str, &str, &str)) -> Report {
    let (choice, expected) = (&plan.choice, &plan.expected);
    let demand = &plan.demand;
    let verdict = format!(
        "{} of RAM and {} of disk: {} of the storable requests hit ({} to {} in fifths of the log), {} of all",
        bytes(choice.ram_bytes),
        bytes(choice.disk_bytes),
        share(expected.hit_ratio()),
        share(expected.range.0),
        share(expected.range.1),
        share(expected.hit_ratio() * demand.storable_share())
    );
    let rate = |rate: Option<f64>| rate.map_or("not told".into(), |rate| format!("{rate:.2} a second"));
    Report {
        name: "plan".into(),
        title: format!("A cache for {log}"),
        question: "How much RAM and disk would a cache for this log take, what would it hit, and what would it do to a drive?".into(),
        command: command.into(),
        seed: plan.wishes.seed,
        answers: brief::answers(plan, log, unread),
        facts: vec![
            ("recommended".into(), verdict),
            ("the next requests, as many again".into(), within(plan.future.forecast.hit_ratio, plan.future.forecast.error)),
            ("why".into(), choice.why.clone()),
            ("another policy".into(), if choice.hint.is_empty() { "none hits much more".into() } else { choice.hint.clone() }),
            ("cooperation".into(), plan.cooperation.verdict.clone()),
            ("requests, storable".into(), format!("{}, {}", count(demand.requests), share(demand.storable_share()))),
            ("rate, in the busiest hour".into(), format!("{}, {}", rate(demand.mean_rate), rate(demand.peak_rate))),
            ("objects".into(), format!("{}, {} in all", count(demand.objects), bytes(demand.unique_bytes))),
            ("an infinite cache hits".into(), format!("{} of what is storable", share(demand.achievable))),
            ("warm-up, not counted".into(), format!("{} requests", count(demand.warm_up as u64))),
        ],
        columns: Vec::new(),
        sections: vec![
            today::section(plan),
            ram(plan),
            targets(plan),
            tiers(plan),
            prices(plan),
            next(plan),
            disk(plan),
            cooperation(plan),
            bounds(plan),
            report_section(character),
            configuration(plan, log),
        ],
    }
}

fn ram(plan: &Plan) -> Section {
    let memory = &plan.memory;
    let points = |curve: &Curve| {
        curve.points.iter().map(|point| (point.size as f64, point.hit_ratio)).collect::<Vec<_>>()
    };
    let series = |name: &str, points| Series { name: name.into(), shape: Shape::Curve, points };
    let mut requests: Vec<Series> =
        memory.curves.iter().map(|(name, curve)| series(name, points(curve))).collect();
    if memory.too_large > 0.0 {
        requests.push(series(AS_ONE, points(&memory.whole)));
    }
    let first = memory.curves[0].0;
    requests.push(whiskers(first, memory.curve(), |point| (point.hit_ratio, point.error)));
    let mut marks = vec![Mark::Level { y: plan.demand.achievable, label: "infinite cache".into() }];
    if let Some(knee) = memory.knee {
        marks.push(Mark::Point {
            at: (knee.size as f64, knee.hit_ratio),
            label: format!("knee, {}", bytes(knee.size)),
        });
    }
    let advised = plan.choice.ram_bytes;
    // Two labels in one place tell nothing.
    if memory.knee.is_none_or(|knee| advised.abs_diff(knee.size) > knee.size / 8) {
        let (hits, _) = memory.curve().at(advised);
        marks.push(Mark::Point { at: (advised as f64, hits), label: format!("advised, {}", bytes(advised)) });
    }
    let by_requests = Plot {
        x: Axis::log2("size of the cache", Unit::Bytes),
        y: Axis::share("requests that hit"),
        series: requests,
        marks,
    };
    let bytes_of = |curve: &Curve| {
        curve.points.iter().map(|point| (point.size as f64, point.byte_hit_ratio)).collect::<Vec<_>>()
    };
    let mut by_bytes: Vec<Series> =
        memory.curves.iter().map(|(name, curve)| series(name, bytes_of(curve))).collect();
    if memory.too_large > 0.0 {
        by_bytes.push(series(AS_ONE, bytes_of(&memory.whole)));
    }
    by_bytes.push(whiskers(first, memory.curve(), |point| (point.byte_hit_ratio, point.byte_error)));
    let by_bytes = Plot {
        x: Axis::log2("size of the cache", Unit::Bytes),
        y: Axis::share("bytes that hit"),
        series: by_bytes,
        marks: Vec::new(),
    };
    let how = match memory.rate {
        rate if rate < 1.0 => format!("Simulated over {:.1}% of the objects.", rate * 100.0),
        _ => "Simulated over all objects.".into(),
    };
    let upright = format!(
        "{how} Upright lines, for {first}: how far as many requests again may be off, at 95%, by the sample and by how much stretches of the log differ."
    );
    let beyond = too_large(plan).map(|told| {
        format!("{told}: the curve of RAM and disk as one cache has them. That is {AS_ONE_NOTE}.")
    });
    Section {
        anchor: "ram".into(),
        title: "Hit ratio by size".into(),
        question: "What would a cache of each size hit, after the warm-up?".into(),
        figures: vec![
            Figure::new("hit-ratio", "Requests that hit", &how, Chart::Plot(by_requests)),
            Figure::new("byte-hit-ratio", "Bytes that hit", &how, Chart::Plot(by_bytes)),
        ],
        notes: [Some(upright), beyond].into_iter().flatten().collect(),
        ..Section::default()
    }
}

/// Returns the error bar of each point of the curve of this name.
fn whiskers(name: &str, curve: &Curve, pick: fn(&Point) -> (f64, f64)) -> Series {
    let ends = |point: &Point| {
        let (value, error) = pick(point);
        let x = point.size as f64;
        [(x, (value - error).max(0.0)), (x, (value + error).min(1.0))]
    };
    let points = curve.points.iter().flat_map(ends).collect();
    Series { name: format!("{name} ±"), shape: Shape::Whiskers, points }
}

fn targets(plan: &Plan) -> Section {
    let heading = ["of what can be had", "RAM", "hits in RAM", "disk operations a second, peak"];
    let mut table = Table::new("RAM", &heading);
    for target in &plan.memory.targets {
        let goal = match target.goal {
            Goal::HitRatio => "hit ratio",
            Goal::Throughput => "throughput",
        };
        let ios = target.disk_ios.map_or("–".into(), |ios| format!("{ios:.1}"));
        let what = format!("{:.0}% of the {goal}", target.share * 100.0);
        table.row(&[&what, &bytes(target.ram_bytes), &share(target.hit_ratio), &ios]);
    }
    let note = format!(
        "Throughput goes with 1 / (1 + (k − 1)·m): a miss in RAM costs the machine {} times a hit, and the disk has the rest.",
        plan.wishes.miss_cost
    );
    Section {
        anchor: "targets".into(),
        title: "RAM for 95, 98 and 99%".into(),
        question: "Kant and Won's question: how much RAM for nearly all that could be had?".into(),
        tables: vec![table],
        notes: vec![note],
        ..Section::default()
    }
}

fn tiers(plan: &Plan) -> Section {
    let mut table = Table::new("Pairs of sizes", &["RAM", "disk", "in RAM", "on disk", "together", "bytes"]);
    for tier in &plan.tiers {
        table.row(&[
            &bytes(tier.ram_bytes),
            &bytes(tier.disk_bytes),
            &share(tier.ram_hit_ratio),
            &share(tier.disk_hit_ratio),
            &share(tier.ram_hit_ratio + tier.disk_hit_ratio),
            &share(tier.byte_hit_ratio),
        ]);
    }
    let mut disks: Vec<u64> = plan.tiers.iter().map(|tier| tier.disk_bytes).collect();
    disks.sort_unstable();
    disks.dedup();
    let series = |disk: &u64| Series {
        name: format!("disk {}", bytes(*disk)),
        shape: Shape::Dotted,
        points: plan
            .tiers
            .iter()
            .filter(|tier| tier.disk_bytes == *disk)
            .map(|tier| (tier.ram_bytes as f64, tier.ram_hit_ratio + tier.disk_hit_ratio))
            .collect(),
    };
    let plot = Plot {
        x: Axis::log2("RAM", Unit::Bytes),
        y: Axis::share("requests that hit"),
        series: disks.iter().map(series).collect(),
        marks: Vec::new(),
    };
    Section {
        anchor: "tiers".into(),
        title: "RAM before disk".into(),
        question: "What do both hit together, and which of them?".into(),
        figures: vec![Figure::new(
            "tiers",
            "RAM and disk together",
            "A curve for each disk.",
            Chart::Plot(plot),
        )],
        tables: vec![table],
        ..Section::default()
    }
}

/// Returns the section on the requests after the log, and on the forecasts within it.
fn next(plan: &Plan) -> Section {
    let future = &plan.future;
    let mut table = Table::new("Forecast and found", &["known", "the next", "forecast", "came", "off by"]);
    for test in &future.back_tests {
        let (forecast, points) = (&test.forecast, (test.came - test.forecast.hit_ratio) * 100.0);
        table.row(&[
            &count(test.known as u64),
            &count(forecast.requests as u64),
            &within(forecast.hit_ratio, forecast.error),
            &share(test.came),
            &format!("{points:+.1} points"),
        ]);
    }
    let all = &future.forecast;
    table.row(&["all", &count(all.requests as u64), &within(all.hit_ratio, all.error), "–", "–"]);
    let note = format!(
        "By how soon requests come back, each span of time from those requests alone that could be seen to come back within it; {} of the {} are \
         expected of a history that grows beyond the log's. The error is twice how much neighbouring fifths and thirds of the log differ: what has \
         not happened in the log is not in it. Within the log these forecasts were off by {:.1} points on average.",
        share(all.growth),
        share(all.hit_ratio),
        future.mean_error() * 100.0
    );
    Section {
        anchor: "next".into(),
        title: "The next requests".into(),
        question: "What will a cache that has served this log hit of as many requests again?".into(),
        tables: vec![table],
        notes: vec![note],
        ..Section::default()
    }
}

/// Returns the section on the cost of each pair of sizes; only the question where no prices are
/// given.
fn prices(plan: &Plan) -> Section {
    let heading =
        ["RAM", "disk", "RAM and disk", "fetched from origins", "together", "operations a second, peak"];
    let mut table = Table::new("Costs a month, in the currency of the prices", &heading);
    let cost = |cost: f64| format!("{cost:.2}");
    let priced = &plan.choice.priced;
    for pair in priced {
        table.row(&[
            &bytes(pair.ram_bytes),
            &bytes(pair.disk_bytes),
            &cost(pair.machine),
            &cost(pair.egress),
            &cost(pair.total()),
            &format!("{:.1}", pair.operations),
        ]);
    }
    let question = match priced.is_empty() {
        true => {
            "No prices were told: `--ram-price` and `--egress-price` make it the cheapest pair of sizes that is recommended."
        }
        false => "What does each pair of sizes cost, the cheapest first?",
    };
    Section {
        anchor: "costs".into(),
        title: "Costs".into(),
        question: question.into(),
        tables: if priced.is_empty() { Vec::new() } else { vec![table] },
        ..Section::default()
    }
}

fn disk(plan: &Plan) -> Section {
    let disk = &plan.disk;
    let heading = [
        "architecture",
        "reads a hit",
        "writes an object",
        "bytes written a byte",
        "a day",
        "drives a day",
        "lasts",
    ];
    let mut table = Table::new("What each architecture does", &heading);
    for wear in &disk.wear {
        let told = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or("–".into(), show);
        table.row(&[
            &wear.architecture,
            &format!("{:.2}", wear.reads_per_hit),
            &format!("{:.2}", wear.writes_per_insert),
            &format!("{:.2}", wear.amplification),
            &told(wear.bytes_per_day, &|value| bytes(value as u64)),
            &told(wear.drive_writes_per_day, &|value| format!("{value:.3}")),
            &told(wear.years, &lasting),
        ]);
    }
    let bars = Bars {
        axis: Axis::linear("disk operations", Unit::Ratio),
        parts: vec!["reads a hit".into(), "writes an object".into()],
        bars: disk
            .wear
            .iter()
            .map(|wear| Bar::new(&wear.architecture, &[wear.reads_per_hit, wear.writes_per_insert]))
            .collect(),
        claimant: String::new(),
    };
    Section {
        anchor: "disk".into(),
        title: "Disk".into(),
        question: "What would the disk do, how long would a drive last, and what does the index take?".into(),
        figures: vec![Figure::new(
            "disk",
            "Operations by architecture",
            "Reads for a hit, writes for an object.",
            Chart::Bars(bars),
        )],
        tables: vec![table],
        notes: vec![
            format!(
                "A disk of {} holds about {} objects; its index takes {} of RAM when all of it is used. The drive has {} and is rated for \
                 {} writes of itself a day over {} years.",
                bytes(disk.bytes),
                count(disk.objects),
                bytes(disk.index_bytes),
                bytes(plan.wishes.drive_bytes.max(disk.bytes)),
                plan.wishes.drive_writes_per_day,
                plan.wishes.drive_years
            ),
            format!(
                "Counted with the store's own code over the first {} requests on the modelled machine of Maltzahn 1999, smaller as the log is. It \
                 writes metadata at once, which file systems of today gather: operations are bounds from above.",
                count(disk.counted_over)
            ),
        ],
        ..Section::default()
    }
}

fn cooperation(plan: &Plan) -> Section {
    let cooperation = &plan.cooperation;
    let mut table = Table::new("Storable requests that hit", &["caches like this one, together", "C_N"]);
    for one in &cooperation.joined {
        table.row(&[&one.caches.to_string(), &share(one.hit_ratio)]);
    }
    let whose = if cooperation.changes_from_log {
        "sizes in the log tell"
    } else {
        "the dissertation's slow ones, since the log tells none"
    };
    Section {
        anchor: "cooperation".into(),
        title: "Would cooperation pay?".into(),
        question: cooperation.verdict.clone(),
        tables: if cooperation.joined.is_empty() { Vec::new() } else { vec![table] },
        notes: vec![format!(
            "The steady-state model of Voelker 2000, chapter 5, for this log's rate and popularity over {} documents, changes every {:.1} days \
             (popular) and {:.1} days (others), as {whose}. The log's requests come back sooner than independent ones: its cache stands for {:.1} of the model's. Others' users are taken to want \
             the same documents, so the gain is a bound from above.",
            count(cooperation.documents),
            cooperation.change_days.0,
            cooperation.change_days.1,
            cooperation.locality
        )],
        ..Section::default()
    }
}

fn bounds(plan: &Plan) -> Section {
    let mut table = Table::new(
        "An infinite cache, all storable requests",
        &["what hangs on", "hits as assumed", "hits otherwise"],
    );
    for bound in &plan.bounds {
        let otherwise = bound.otherwise.map_or("–".into(), share);
        table.row(&[bound.key, &share(bound.hit_ratio), &otherwise]);
    }
    let note = |bound: &Bound| {
        let otherwise = if bound.otherwise.is_some() { "Otherwise" } else { "What hangs on it" };
        format!("{}: {}. {otherwise}: {}.", bound.key, bound.assumed, bound.other)
    };
    Section {
        anchor: "assumptions".into(),
        title: "What was assumed".into(),
        question: "What does the log not tell, and how much can that change?".into(),
        tables: vec![table],
        notes: plan.bounds.iter().map(note).collect(),
        ..Section::default()
    }
}

fn configuration(plan: &Plan, log: &str) -> Section {
    Section {
        anchor: "settings".into(),
        title: "shoal.toml".into(),
        question: "Ready to be used; `shoal check` has nothing to say about it.".into(),
        listing: settings(plan, log),
        ..Section::default()
    }
}

fn share(share: f64) -> String {
    Unit::Share.shown(share)
}

fn count(number: u64) -> String {
    Unit::Count.shown(number as f64)
}

/// Name of the curve of a cache that takes the objects too large for RAM, too.
const AS_ONE: &str = "RAM and disk as one";
