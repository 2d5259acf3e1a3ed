//! The trace's clients behind proxies: the value of their number, and the results of each scheme.
//!
//! The model's steady state is not a trace's. The log does not tell changes from other answers, so
//! that nothing changes here, and every miss is the first request for an object. The model
//! therefore gives the probability that an object was requested since the trace began. Its exponent
//! is the trace's. Its number of documents is the one with which it expects the trace's number of
//! distinct objects.

use super::{Inputs, LabError};
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Series, Shape, Unit};
use shoal_lab::model::wan::paper::{PrintedRegion, Rates};
use shoal_lab::model::wan::scheme::Region;
use shoal_lab::model::wan::{Change, Form, Model, Web};
use shoal_lab::report::{Section, Table};
use shoal_lab::wide_area::{
    Cooperation, Digests, HomeRule, Stream, Visit, WideAreaResult, WideAreaSetup, simulate,
};
use shoal_trace::Random;

pub(super) fn section(inputs: &Inputs, trace: &Stream) -> Result<Section, LabError> {
    let fitted = FittedModel::new(inputs, trace)?;
    Ok(Section {
        anchor: "trace".into(),
        title: "The trace's clients behind proxies".into(),
        question: "What does each scheme do with real requests, and how near does the model come?".into(),
        figures: vec![by_clients(&fitted, inputs, trace)?],
        tables: vec![by_scheme(&fitted, inputs, trace)?],
        notes: vec![
            format!(
                "The model takes the trace's Zipf exponent, {:.2}, and {} documents, with which it expects the {} different objects that were asked for. Clients of a trace are \
                 not alike: the horizontal axis counts their requests, in clients of mean activity.",
                fitted.model.web().alpha,
                Unit::Count.shown(fitted.model.web().documents as f64),
                Unit::Count.shown(trace.objects as f64),
            ),
            NOTE.into(),
        ],
        ..Section::default()
    })
}

/// The model fitted to a trace.
struct FittedModel {
    model: Model,
    clients: f64,
    /// The measured part, in days since the trace began at a steady rate.
    measured: (f64, f64),
}

impl FittedModel {
    fn new(inputs: &Inputs, trace: &Stream) -> Result<Self, LabError> {
        let days = trace.days().max(LEAST_DAYS);
        let clients = trace.clients as f64;
        let rate = trace.visits.len() as f64 / clients / days;
        let alpha = inputs.workload.zipf_exponent().clamp(0.0, 2.0);
        let model = |documents: f64| {
            Model::new(
                Web {
                    alpha,
                    documents: documents.max(1.0) as u64,
                    popular: 0,
                    requests_per_day: rate,
                    cacheable: 1.0,
                    unpopular_change: Change::every(f64::INFINITY),
                    ..Web::table_5_1(Rates::SLOW)
                },
                Form::Sum,
            )
        };
        let seen = trace.objects as f64;
        let (mut low, mut high) = (seen.max(1.0), MOST_DOCUMENTS);
        while high / low > 1.001 {
            let middle = (low * high).sqrt();
            let enough = model(middle)?.documents_seen(clients, days)? >= seen;
            debug_assert!(low <= middle && middle <= high, "the search keeps its bounds");
            if enough { high = middle } else { low = middle }
        }
        // Requests are the clock: their rate varies by hour and month, and only their number
        // counts.
        let first = days * inputs.workload.warm_up as f64 / trace.visits.len().max(1) as f64;
        assert!((0.0..=days).contains(&first), "the measured part lies in the trace");
        Ok(Self { model: model(high)?, clients, measured: (first, days) })
    }

    /// Returns the expected hit rate of `clients` clients of mean activity, on average over the
    /// measured part.
    fn hit_rate(&self, clients: f64) -> Result<f64, LabError> {
        let (first, last) = self.measured;
        let at = |part: u32| first + (last - first) * (f64::from(part) + 0.5) / f64::from(PARTS);
        let hits: Result<f64, _> = (0..PARTS)
            .map(|part| Ok(self.model.since_empty(clients, at(part))?.total()))
            .sum::<Result<f64, LabError>>();
        let rate = hits? / f64::from(PARTS);
        assert!((0.0..=1.0 + 1e-9).contains(&rate), "{rate} is no hit rate");
        Ok(rate)
    }
}

/// Returns one cache for growing numbers of clients.
fn by_clients(fitted: &FittedModel, inputs: &Inputs, trace: &Stream) -> Result<Figure, LabError> {
    let measured = growing(fitted, inputs, trace)?;
    let ends = (measured.first().map_or(0.5, |point| point.0).max(0.01), fitted.clients.max(2.0));
    let model =
        super::curve("model", &super::spread(ends.0, ends.1, 30), |clients| fitted.hit_rate(clients))?;
    let dotted = |name: &str, points| Series { name: name.into(), shape: Shape::Dotted, points };
    let plot = Plot {
        x: Axis::log10("clients of mean activity", Unit::Count),
        y: Axis::share("requests that hit"),
        series: vec![
            model,
            dotted("shuffled", growing(fitted, inputs, &shuffled(trace, inputs.seed))?),
            dotted("trace", measured),
        ],
        marks: Vec::new(),
    };
    let alternative = "Hits grow with the logarithm of the number of clients; most in the model, nearly as much when the trace is shuffled, less in the trace.";
    Ok(Figure::new(
        "trace-clients",
        "One cache for ever more of the trace's clients",
        alternative,
        Chart::Plot(plot),
    ))
}

/// Returns hit rates of the first client, the first two, four and so on to all, by their activity.
fn growing(fitted: &FittedModel, inputs: &Inputs, trace: &Stream) -> Result<Vec<(f64, f64)>, LabError> {
    let mut points = Vec::new();
    let counts = (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count < trace.clients);
    for count in counts.chain([trace.clients]) {
        let part = of_clients(trace, count);
        let single = Region { population: 1.0, fanout: 1, latency_seconds: vec![0.01] };
        let mut plan = plan_of(inputs, single, Cooperation::Alone);
        plan.warm_up = warm_up(inputs, trace, count);
        let found = simulate(&part, &plan, inputs.seed)?;
        if found.requests > 0 {
            let activity = part.visits.len() as f64 / trace.visits.len() as f64;
            points.push((activity * fitted.clients, found.hit_rate()));
        }
    }
    assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0), "more clients ask no less");
    Ok(points)
}

/// Keeps clients and times, and exchanges their objects at random: the model's assumption of
/// independent requests and no other.
fn shuffled(trace: &Stream, seed: u64) -> Stream {
    let mut random = Random::new(seed);
    let mut visits = trace.visits.clone();
    for last in (1..visits.len()).rev() {
        let other = random.below(last as u64 + 1) as usize;
        let (a, b) = (visits[last], visits[other]);
        visits[last] = Visit { day: a.day, client: a.client, ..b };
        visits[other] = Visit { day: b.day, client: b.client, ..a };
    }
    let is_in_place = |(old, new): (&Visit, &Visit)| (old.day, old.client) == (new.day, new.client);
    debug_assert!(trace.visits.iter().zip(&visits).all(is_in_place), "clients and times stay");
    Stream { visits, ..*trace }
}

/// Returns the number of requests of the first clients in the warm-up.
fn warm_up(inputs: &Inputs, trace: &Stream, count: usize) -> usize {
    assert_eq!(trace.visits.len(), inputs.workload.requests.len(), "one visit a request");
    let warming = &trace.visits[..inputs.workload.warm_up];
    warming.iter().filter(|visit| (visit.client as usize) < count).count()
}

fn of_clients(trace: &Stream, count: usize) -> Stream {
    let visits: Vec<Visit> =
        trace.visits.iter().filter(|visit| (visit.client as usize) < count).copied().collect();
    Stream { visits, ..*trace }
}

fn by_scheme(fitted: &FittedModel, inputs: &Inputs, trace: &Stream) -> Result<Table, LabError> {
    let region = proxies();
    let heading = [
        "scheme",
        "hits",
        "model",
        "here",
        "latency",
        "busiest cache",
        "asked in vain",
        "bytes stored",
        "byte hits",
    ];
    let mut table = Table::new("Nine proxies in three cities of a state", &heading);
    let all = fitted.hit_rate(fitted.clients)?;
    let own = fitted.hit_rate(fitted.clients / region.proxies())?;
    for (name, cooperation) in SCHEMES {
        let found = simulate(trace, &plan_of(inputs, region.clone(), cooperation), inputs.seed)?;
        let modelled = if cooperation == Cooperation::Alone { own } else { all };
        table.rows.push(row(name, modelled, &found));
    }
    Ok(table)
}

fn row(name: &str, modelled: f64, found: &WideAreaResult) -> Vec<String> {
    let share = |count: u64| Unit::Share.shown(found.of_requests(count as f64));
    vec![
        name.into(),
        Unit::Share.shown(found.hit_rate()),
        Unit::Share.shown(modelled),
        share(found.found_here),
        format!("{:.3} s", found.mean_latency_seconds()),
        Unit::Share.shown(found.busiest()),
        share(found.false_hits),
        Unit::Bytes.shown(found.stored_bytes as f64),
        Unit::Share.shown(found.found_bytes as f64 / found.bytes.max(1) as f64),
    ]
}

/// Returns the plan for the trace's measured part behind proxies.
pub(super) fn plan_of(inputs: &Inputs, region: Region, cooperation: Cooperation) -> WideAreaSetup {
    WideAreaSetup {
        region,
        cooperation,
        cache_bytes: None,
        origin_seconds: 1.9,
        warm_up: inputs.workload.warm_up,
    }
}

/// Returns three cities of three proxies each, with the distances of the State's.
pub(super) fn proxies() -> Region {
    super::made::region(&PrintedRegion::STATE, 3)
}

const SCHEMES: [(&str, Cooperation); 7] = [
    ("each for itself", Cooperation::Alone),
    ("hierarchy", Cooperation::Hierarchy),
    ("hashed", Cooperation::Hashed(HomeRule::Rendezvous, None)),
    ("hash tiers", Cooperation::HashTiers),
    ("directory", Cooperation::Directory),
    ("directory tiers", Cooperation::DirectoryTiers),
    (
        "summaries",
        Cooperation::Summaries(Digests { bits_per_object: 16, hashes: 4, threshold: 0.01, tries: 3 }),
    ),
];
const NOTE: &str = "\"Shuffled\" is the same trace with what is asked for exchanged at random: requests as independent as the model takes them, popularity as it was. Where it leaves the model, the \
                    popularity is not quite Zipf-like; where the trace leaves it, objects come up and pass, and clients differ in what they want. A hit \"here\" needs no other cache; asked in vain are peers.";
const PARTS: u32 = 16;
/// Least length of a trace, for traces without times.
const LEAST_DAYS: f64 = 1e-3;
const MOST_DOCUMENTS: f64 = 1e12;
