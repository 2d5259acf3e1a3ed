//! Mechanisms that the model leaves out: costs and errors of digests, more levels, a proxy that is
//! lost.

use super::made::{made, model_of, plan};
use super::traced::{plan_of, proxies};
use super::{Inputs, LabError};
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Series, Shape, Unit};
use shoal_lab::model::wan::paper::Rates;
use shoal_lab::model::wan::scheme::{Region, Scheme};
use shoal_lab::report::{Section, Table};
use shoal_lab::wide_area::{
    COURSE_PARTS, Cooperation, Digests, HomeRule, Loss, Stream, WideAreaResult, simulate,
};

/// "I ignore the overhead of these messages in my analyses, as well as the extra misses caused by
/// directory entries that become stale" (5.3).
pub(super) fn summaries(inputs: &Inputs, trace: &Stream) -> Result<Section, LabError> {
    let run = |bits_per_object, threshold| {
        let digests = Digests { bits_per_object, hashes: HASHES, threshold, tries: TRIES };
        simulate(trace, &plan_of(inputs, proxies(), Cooperation::Summaries(digests)), inputs.seed)
    };
    let of_thresholds: Vec<(f64, WideAreaResult)> = THRESHOLDS
        .iter()
        .map(|threshold| Ok((*threshold, run(16, *threshold)?)))
        .collect::<Result<_, LabError>>()?;
    let series = |name: &str, count: fn(&WideAreaResult) -> u64| Series {
        name: name.into(),
        shape: Shape::Dotted,
        points: of_thresholds
            .iter()
            .map(|(at, found)| (*at, found.of_requests(count(found) as f64)))
            .collect(),
    };
    let plot = Plot {
        x: Axis::log10("new objects before an update, as a share of those held", Unit::Share),
        y: Axis::log10("of all requests", Unit::Share),
        series: vec![
            series("false misses", |found| found.false_misses),
            series("false hits", |found| found.false_hits),
            series("updates", |found| found.updates),
        ],
        marks: Vec::new(),
    };
    let alternative = "With rarer updates false misses grow and updates become few; false hits stay where the digests' size puts them.";
    let truth = simulate(trace, &plan_of(inputs, proxies(), Cooperation::Directory), inputs.seed)?;
    let heading = [
        "bits an object",
        "told at",
        "hits",
        "asked in vain",
        "missed at peers",
        "questions",
        "updates",
        "bytes of updates a request",
    ];
    let mut table = Table::new("Directories of nine proxies", &heading);
    table.rows.push(directory_row("", "the truth", &truth));
    for (threshold, found) in &of_thresholds {
        table.rows.push(directory_row("16", &format!("{}%", threshold * 100.0), found));
    }
    for bits in [8, 4] {
        table.rows.push(directory_row(&bits.to_string(), "1%", &run(bits, 0.01)?));
    }
    Ok(Section {
        anchor: "summaries".into(),
        title: "What directories cost, and how they err".into(),
        question: "What do the updates cost that the model ignores, and what do old directories miss?".into(),
        figures: vec![Figure::new(
            "summaries",
            "Errors and messages by how often directories are told (16 bits an object)",
            alternative,
            Chart::Plot(plot),
        )],
        tables: vec![table],
        notes: vec![SUMMARIES_NOTE.into()],
        ..Section::default()
    })
}

fn directory_row(bits: &str, told: &str, found: &WideAreaResult) -> Vec<String> {
    let share = |count: u64| format!("{:.2}%", found.of_requests(count as f64) * 100.0);
    vec![
        bits.into(),
        told.into(),
        Unit::Share.shown(found.hit_rate()),
        share(found.false_hits),
        share(found.false_misses),
        share(found.questions),
        share(found.updates),
        format!("{:.0}", found.of_requests(found.update_bytes as f64)),
    ]
}

/// Runs the same clients below one to four levels.
pub(super) fn levels(requests: usize, seed: u64) -> Result<Section, LabError> {
    let made = made(requests, 5e5, Rates::MID_SLOW);
    let (stream, model) = (made.stream(seed), model_of(&made)?);
    let clients = f64::from(made.clients);
    let heading = [
        "levels",
        "proxies",
        "hits here, model",
        "simulated",
        "latency, model",
        "simulated",
        "top is asked, model",
        "simulated",
        "copies of an object",
    ];
    let mut table = Table::new("Hierarchies of one to four levels, three caches below each", &heading);
    for levels in 1..=LATENCIES.len() {
        let latency_seconds = LATENCIES[LATENCIES.len() - levels..].to_vec();
        let region = Region { population: clients, fanout: 3, latency_seconds };
        let modelled = model.performance(Scheme::Hierarchy, &region)?;
        let found = simulate(&stream, &plan(region.clone(), Cooperation::Hierarchy, &stream), seed)?;
        let asked = |per_day: f64| Unit::Share.shown(per_day / (clients * made.requests_per_day));
        let top = found.arrivals.last().map_or(0.0, |arrivals| found.of_requests(*arrivals as f64));
        let single = simulate(
            &stream,
            &plan(Region { latency_seconds: vec![0.01], ..region.clone() }, Cooperation::Alone, &stream),
            seed,
        )?;
        let row = [
            levels.to_string(),
            format!("{}", region.proxies()),
            Unit::Share.shown(model.hit_rate(clients / region.proxies())?),
            Unit::Share.shown(found.of_requests(found.found_here as f64)),
            format!("{:.3} s", modelled.latency_seconds),
            format!("{:.3} s", found.mean_latency_seconds()),
            asked(modelled.arrivals_per_day[0]),
            Unit::Share.shown(top),
            format!("{:.2}", found.stored_bytes as f64 / single.stored_bytes.max(1) as f64),
        ];
        table.rows.push(row.to_vec());
    }
    Ok(Section {
        anchor: "levels".into(),
        title: "Hierarchies of k levels".into(),
        question: "What do more levels between the same clients and origins cost?".into(),
        tables: vec![table],
        notes: vec![LEVELS_NOTE.into()],
        ..Section::default()
    })
}

/// Runs with the loss of a proxy when the measured part begins.
pub(super) fn loss(inputs: &Inputs, trace: &Stream) -> Result<Section, LabError> {
    let loss = Loss { at: inputs.workload.warm_up, proxy: 4 };
    let run = |rule, loss| {
        simulate(trace, &plan_of(inputs, proxies(), Cooperation::Hashed(rule, loss)), inputs.seed)
    };
    let whole = run(HomeRule::Rendezvous, None)?;
    let mut series = Vec::new();
    let heading = ["homes by", "hits after the loss", "fetched again", "most loaded proxy after it"];
    let mut table = Table::new("One of nine proxies is lost as the measured part begins", &heading);
    for (name, rule) in RULES {
        let found = run(rule, Some(loss))?;
        assert_eq!(found.course.len(), COURSE_PARTS, "{name}: a point for each part");
        assert!(found.course.iter().all(|(hits, requests)| hits <= requests), "{name}: hits are requests");
        let point = |(part, (hits, requests)): (usize, &(u64, u64))| {
            let at = trace.visits.len() as f64 * (part as f64 + 0.5) / COURSE_PARTS as f64;
            (at, *hits as f64 / (*requests).max(1) as f64)
        };
        series.push(Series {
            name: name.into(),
            shape: Shape::Curve,
            points: found.course.iter().enumerate().map(point).collect(),
        });
        let lost = whole.hits().saturating_sub(found.hits());
        table.rows.push(vec![
            name.into(),
            Unit::Share.shown(found.hit_rate()),
            Unit::Count.shown(lost as f64),
            Unit::Share.shown(found.busiest()),
        ]);
    }
    let plot = Plot {
        x: Axis::linear("requests", Unit::Count),
        y: Axis::share("requests that hit"),
        series,
        marks: Vec::new(),
    };
    let alternative = "By rendezvous and on the ring the loss hardly shows; by modulo hits fall, since nearly every object has a new home.";
    Ok(Section {
        anchor: "loss".into(),
        title: "A proxy is lost".into(),
        question: "What does the loss of a home cost, and who bears its load?".into(),
        figures: vec![Figure::new(
            "loss",
            "Hits on the way, one of nine proxies lost as the measured part begins",
            alternative,
            Chart::Plot(plot),
        )],
        tables: vec![table],
        notes: vec![LOSS_NOTE.into()],
        ..Section::default()
    })
}

const RULES: [(&str, HomeRule); 4] = [
    ("rendezvous", HomeRule::Rendezvous),
    ("ring", HomeRule::Ring),
    ("CARP", HomeRule::Carp),
    ("modulo", HomeRule::Modulo),
];
const THRESHOLDS: [f64; 5] = [0.001, 0.003, 0.01, 0.03, 0.1];
const HASHES: u32 = 4;
const TRIES: usize = 3;
/// The West Coast's latencies, the top first.
const LATENCIES: [f64; 4] = [0.500, 0.100, 0.050, 0.010];
const SUMMARIES_NOTE: &str = "False misses are requests that went to the origin although a peer held the object; false hits are questions to peers that did not. Each update goes to eight peers. The \
                              threshold is the share of new objects at which Fan et al. 2000 tell the others.";
const LEVELS_NOTE: &str = "The bottom of every hierarchy is 10 ms from its clients; further levels are 50, 100 and 500 ms away, as for city, state and coast. Copies are bytes stored in all caches over \
                           those of a single cache for all clients.";
const LOSS_NOTE: &str = "\"Fetched again\" are hits that the same proxies had without the loss. A ninth of the objects is lost whatever the rule; by modulo eight in nine of the others \
                         change their home too. Loads are shares of all clients' requests: a ninth, 11.1%, before the loss, an eighth, 12.5%, after it, would be even.";
