//! A trace's character as a report: one page with its figures.

use super::{CensusTrace, Character};
use crate::curve::sizes_between;
use crate::figure::{Axis, Bar, Bars, Chart, Figure, Plot, Series, Shape, Unit};
use crate::report::{Report, Section, Table};

/// Returns the report of a trace of this name.
pub fn report(character: &Character, loaded: &CensusTrace, name: &str, command: &str) -> Report {
    Report {
        name: "trace-info".into(),
        title: format!("What {name} is like"),
        question: "How often do objects come back and how soon, how does popularity fall, how do sizes lie, and how often do \
                   objects change?"
            .into(),
        command: command.into(),
        seed: 1,
        facts: facts(character, loaded),
        columns: Vec::new(),
        sections: vec![
            popularity(character),
            sizes(character),
            reuse(character),
            working_set(character),
            section(character),
        ],
        ..Report::default()
    }
}

fn facts(character: &Character, loaded: &CensusTrace) -> Vec<(String, String)> {
    let infinite = &character.infinite;
    let count = |number: u64| Unit::Count.shown(number as f64);
    let share = |share: f64| Unit::Share.shown(share);
    let bytes = |bytes: u64| Unit::Bytes.shown(bytes as f64);
    let mut facts = vec![
        ("read as".into(), loaded.reading.assumed.join("; ")),
        ("lines, bad ones".into(), format!("{}, {}", count(loaded.reading.lines), count(loaded.reading.bad))),
        ("requests that count".into(), count(character.requests)),
        (
            "objects, hosts, clients".into(),
            [character.objects, character.hosts, character.clients].map(count).join(", "),
        ),
        (
            "bytes asked for, of all objects".into(),
            [character.bytes, character.unique_bytes].map(bytes).join(", "),
        ),
        (
            "infinite cache, objects are their names".into(),
            format!("{} of requests, {} of bytes", share(infinite.hit_ratio), share(infinite.byte_hit_ratio)),
        ),
        (
            "infinite cache, another size is a new version".into(),
            format!(
                "{} of requests, {} of bytes",
                share(infinite.version_hit_ratio),
                share(infinite.version_byte_hit_ratio)
            ),
        ),
    ];
    if let Some(ratio) = loaded.account.hit_ratio() {
        facts.push(("the cache that wrote the log hit".into(), share(ratio)));
    }
    facts
}

fn popularity(character: &Character) -> Section {
    let popularity = &character.popularity;
    let plot = Plot {
        x: Axis::log10("rank", Unit::Count),
        y: Axis::log10("requests", Unit::Count),
        series: vec![Series {
            name: "objects".into(),
            shape: Shape::Curve,
            points: popularity.curve.clone(),
        }],
        marks: Vec::new(),
    };
    let alternative =
        format!("Counts fall with rank about as rank to the power of -{:.2}.", popularity.alpha);
    let mut table = Table::new("Requests for the most popular objects", &["objects", "requests"]);
    for (objects, requests) in &popularity.concentration {
        table.row(&[&Unit::Share.shown(*objects), &Unit::Share.shown(*requests)]);
    }
    Section {
        anchor: "popularity".into(),
        title: "Popularity".into(),
        question: "How many requests do few objects draw?".into(),
        figures: vec![Figure::new("popularity", "Requests by rank", &alternative, Chart::Plot(plot))],
        tables: vec![table],
        notes: vec![format!(
            "The Zipf exponent is {:.3} with a standard error of {:.3}; the straight line explains {} of the variance. {} of the objects are \
             asked for once, by {} of the requests: they are worth no room.",
            popularity.alpha,
            popularity.alpha_error,
            Unit::Share.shown(popularity.fit),
            Unit::Share.shown(popularity.one_hit_objects),
            Unit::Share.shown(popularity.one_hit_requests),
        )],
        ..Section::default()
    }
}

fn sizes(character: &Character) -> Section {
    let sizes = &character.sizes;
    let all =
        (character.requests.max(1) as f64, character.objects.max(1) as f64, character.bytes.max(1) as f64);
    let mut sums = (0.0, 0.0, 0.0);
    let mut points = [Vec::new(), Vec::new(), Vec::new()];
    for class in sizes.classes.iter().filter(|class| class.to > 0) {
        sums.0 += class.requests as f64 / all.0;
        sums.1 += class.objects as f64 / all.1;
        sums.2 += class.bytes as f64 / all.2;
        let at = class.to as f64;
        points[0].push((at, sums.0));
        points[1].push((at, sums.1));
        points[2].push((at, sums.2));
    }
    let names = ["requests", "objects", "bytes asked for"];
    let series = names.into_iter().zip(points);
    let plot = Plot {
        x: Axis::log2("size", Unit::Bytes),
        y: Axis::share("no larger than this"),
        series: series
            .map(|(name, points)| Series { name: name.into(), shape: Shape::Steps, points })
            .collect(),
        marks: Vec::new(),
    };
    let mut table = Table::new("Sizes", &["of", "mean", "10%", "median", "90%", "99%", "largest"]);
    for (name, spread) in [("requests", &sizes.of_requests), ("objects", &sizes.of_objects)] {
        let mut row = vec![name.to_owned(), Unit::Bytes.shown(spread.mean)];
        row.extend(spread.quantiles.iter().map(|size| Unit::Bytes.shown(*size as f64)));
        table.rows.push(row);
    }
    let alternative =
        format!("{} of requests are for at most 8 KB.", Unit::Share.shown(sizes.small_requests));
    Section {
        anchor: "sizes".into(),
        title: "Sizes".into(),
        question: "Which sizes take the requests, and which the bytes?".into(),
        figures: vec![Figure::new("sizes", "Sizes, cumulative", &alternative, Chart::Plot(plot))],
        tables: vec![table],
        ..Section::default()
    }
}

fn reuse(character: &Character) -> Section {
    let unique = character.unique_bytes.max(1);
    let sizes = sizes_between(unique / 10_000, unique.saturating_mul(2), 60);
    let curve = character.reuse.curve(&sizes);
    let points = |pick: fn(&crate::curve::Point) -> f64| {
        curve.points.iter().map(|point| (point.size as f64, pick(point))).collect::<Vec<_>>()
    };
    let plot = Plot {
        x: Axis::log2("bytes of distinct objects in between", Unit::Bytes),
        y: Axis::share("of requests, of bytes"),
        series: vec![
            Series { name: "requests".into(), shape: Shape::Curve, points: points(|point| point.hit_ratio) },
            Series {
                name: "bytes".into(),
                shape: Shape::Curve,
                points: points(|point| point.byte_hit_ratio),
            },
        ],
        marks: Vec::new(),
    };
    let shown = |found: Option<u64>, unit: Unit| found.map_or("–".into(), |value| unit.shown(value as f64));
    let mut table = Table::new("Reuse distances of repeats", &["in", "10%", "median", "90%"]);
    let distances = character.reuse.distances();
    for (name, found, unit) in [
        ("objects", distances.quantiles_by_objects(&[0.1, 0.5, 0.9]), Unit::Count),
        ("bytes", distances.quantiles(&[0.1, 0.5, 0.9]), Unit::Bytes),
    ] {
        table.row(&[name, &shown(found[0], unit), &shown(found[1], unit), &shown(found[2], unit)]);
    }
    let how = match character.reuse.rate {
        rate if rate < 1.0 => format!("estimated from {:.2}% of the objects (SHARDS)", rate * 100.0),
        _ => "exact".into(),
    };
    Section {
        anchor: "reuse".into(),
        title: "Reuse".into(),
        question: "How much else is asked for before an object comes back? It is what an LRU cache of that size hits.".into(),
        figures: vec![Figure::new("reuse", "Requests that come back within so many bytes", &how, Chart::Plot(plot))],
        tables: vec![table],
        notes: vec![format!("The distances are {how}.")],
        ..Section::default()
    }
}

fn working_set(character: &Character) -> Section {
    let slices = &character.working_set.slices;
    let days = |slice: &super::Slice| slice.at_seconds / 3600.0;
    let series = |name: &str, pick: fn(&super::Slice) -> u64| Series {
        name: name.into(),
        shape: Shape::Curve,
        points: slices.iter().map(|slice| (days(slice), pick(slice) as f64)).collect(),
    };
    let plot = Plot {
        x: Axis::linear("hours from the beginning", Unit::Count),
        y: Axis::linear("in a slice of time", Unit::Count),
        series: vec![
            series("requests", |slice| slice.requests),
            series("objects", |slice| slice.objects),
            series("new objects", |slice| slice.new_objects),
        ],
        marks: Vec::new(),
    };
    let hours = character.working_set.slice_seconds / 3600.0;
    let alternative = format!("Slices of {hours:.2} hours.");
    let figures = match slices.len() {
        0 => Vec::new(),
        _ => vec![Figure::new("working-set", "The working set over time", &alternative, Chart::Plot(plot))],
    };
    let notes = match slices.len() {
        0 => vec!["The trace tells no times, or all are the same.".into()],
        _ => vec![format!(
            "A slice is {hours:.2} hours; {:.2} requests a second on average.",
            character.rate()
        )],
    };
    Section {
        anchor: "working-set".into(),
        title: "Working set".into(),
        question: "How much is asked for within a time, and how much of that was never seen before?".into(),
        figures,
        notes,
        ..Section::default()
    }
}

/// Hosts and changes: the numbers without a curve.
pub fn section(character: &Character) -> Section {
    let locality = &character.locality;
    let share = |share: f64| Unit::Share.shown(share);
    let mut hosts = Table::new("Hosts", &["what", "value"]);
    hosts.row(&["the next request goes to the same host", &share(locality.same_host)]);
    hosts.row(&["the same, of one client", &share(locality.same_host_per_client)]);
    hosts.row(&["hosts in between, runs to one host as one, median", &locality.collapsed_p50.to_string()]);
    hosts.row(&["the same, 90%", &locality.collapsed_p90.to_string()]);
    hosts.row(&["requests to hosts not seen before", &share(locality.first_seen)]);
    let heading = [
        "objects",
        "with repeats",
        "requests",
        "repeats of another size",
        "changes an object and day, at most",
    ];
    let mut changes = Table::new("Changes, as far as sizes tell", &heading);
    let change = &character.change;
    for (name, class) in [("most popular 0.3%", &change.popular), ("others", &change.others)] {
        let per_day = class.per_day().map_or("–".into(), |rate| format!("{rate:.3}"));
        changes.row(&[
            name,
            &Unit::Count.shown(class.objects as f64),
            &share(class.request_share),
            &share(class.of_repeats()),
            &per_day,
        ]);
    }
    let bars = Bars {
        axis: Axis::share("repeats of another size"),
        parts: vec!["repeats".into()],
        bars: [("popular", &change.popular), ("others", &change.others)]
            .map(|(name, class)| Bar::new(name, &[class.of_repeats()]))
            .into(),
        claimant: String::new(),
    };
    Section {
        anchor: "hosts-and-changes".into(),
        title: "Hosts and changes".into(),
        question: "Do requests to a host come together, and how often do objects change?".into(),
        figures: vec![Figure::new("changes", "Repeats of another size", "By popularity.", Chart::Bars(bars))],
        tables: vec![hosts, changes],
        notes: vec![
            "Errors and aborted transfers look like changes of size, so the rates are bounds from above."
                .into(),
        ],
        ..Section::default()
    }
}
