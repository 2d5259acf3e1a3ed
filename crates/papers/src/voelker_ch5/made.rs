//! Model and simulation of the same streams: small webs with the dissertation's popularity and
//! rates of change.
//!
//! The number of requests for a document during its lifetime decides its hits. A web of a few
//! thousand documents therefore answers as the web of 3.2 billion does, when each document has the
//! same requests a day. Only the most popular few documents differ: they are a larger share of a
//! small web.

use super::{LabError, spread};
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Series, Shape, Unit};
use shoal_lab::model::wan::paper::{PrintedRegion, Rates};
use shoal_lab::model::wan::scheme::{Region, Scheme};
use shoal_lab::model::wan::{Change, Form, Model, Web};
use shoal_lab::report::{Section, Table};
use shoal_lab::wide_area::{Cooperation, HomeRule, ModelStream, Stream, WideAreaSetup, simulate};

pub(super) fn section(requests: usize, seed: u64) -> Result<Section, LabError> {
    Ok(Section {
        anchor: "made".into(),
        title: "Model and simulation of the same streams".into(),
        question:
            "Do proxies that run the cluster's code do what the model says, where its assumptions hold?"
                .into(),
        figures: vec![by_population(requests, seed)?],
        tables: vec![by_scheme(requests, seed)?],
        notes: vec![NOTE.into()],
        ..Section::default()
    })
}

/// Makes Table 5.1's web with fewer documents. Clients request each document at the rate of this
/// population's requests for each of the 3.2 billion.
pub(crate) fn made(requests: usize, population: f64, rates: Rates) -> ModelStream {
    let paper = Web::table_5_1(rates);
    let per_document = paper.requests_per_day * population / paper.documents as f64;
    let objects = (requests as f64 / (per_document * DAYS)).clamp(LEAST_OBJECTS, MOST_OBJECTS);
    let popular = objects * paper.popular as f64 / paper.documents as f64;
    assert!(popular <= objects, "popular objects are some of all");
    ModelStream {
        objects: objects as u32,
        popular: popular.round() as u32,
        alpha: paper.alpha,
        clients: CLIENTS,
        requests_per_day: per_document * objects.floor() / f64::from(CLIENTS),
        cacheable: paper.cacheable,
        bytes: paper.mean_bytes as u64,
        popular_change: Change::every(rates.popular_days),
        unpopular_change: Change::every(rates.unpopular_days),
        requests,
    }
}

/// Returns the model of such a stream.
pub(crate) fn model_of(made: &ModelStream) -> Result<Model, LabError> {
    let web = Web {
        alpha: made.alpha,
        documents: u64::from(made.objects),
        popular: u64::from(made.popular),
        requests_per_day: made.requests_per_day,
        cacheable: made.cacheable,
        mean_bytes: made.bytes as f64,
        popular_change: made.popular_change,
        unpopular_change: made.unpopular_change,
        ..Web::table_5_1(Rates::MID_SLOW)
    };
    Ok(Model::new(web, Form::Sum)?)
}

pub(crate) fn plan(region: Region, cooperation: Cooperation, stream: &Stream) -> WideAreaSetup {
    let warm_up = stream.visits.len() / 3 * 2;
    assert!(warm_up < stream.visits.len(), "some requests are measured");
    WideAreaSetup { region, cooperation, cache_bytes: None, origin_seconds: 1.9, warm_up }
}

/// Returns a printed region, with `fanout` caches below each.
pub(super) fn region(printed: &PrintedRegion, fanout: u32) -> Region {
    Region { fanout, ..printed.region() }
}

fn by_population(requests: usize, seed: u64) -> Result<Figure, LabError> {
    let mut series = Vec::new();
    for rates in [Rates::SLOW, Rates::MID_SLOW, Rates::FAST] {
        let model = super::paper(rates)?;
        let clients = spread(1e3, 1e8, 40);
        series.push(super::curve(rates.name, &clients, |n| Ok(model.hit_rate(n)?))?);
    }
    let mut points = Vec::new();
    for rates in [Rates::FAST, Rates::MID_SLOW, Rates::SLOW] {
        for population in [1e4, 1e5, 1e6, 1e7] {
            let stream = made(requests, population, rates).stream(seed);
            let single = Region { population, fanout: 1, latency_seconds: vec![0.01] };
            let found = simulate(&stream, &plan(single, Cooperation::Alone, &stream), seed)?;
            points.push((population, found.hit_rate()));
        }
    }
    series.push(Series { name: "simulated".into(), shape: Shape::Points, points });
    let plot = Plot {
        x: Axis::log10("clients", Unit::Count),
        y: Axis::linear("requests that hit, H_N", Unit::Share).over(0.0, 0.6),
        series,
        marks: Vec::new(),
    };
    let alternative = "Points of the simulation lie on the curves of the model.";
    Ok(Figure::new(
        "simulated-population",
        "One cache for all: hits of all requests, model and simulation",
        alternative,
        Chart::Plot(plot),
    ))
}

fn by_scheme(requests: usize, seed: u64) -> Result<Table, LabError> {
    let city = region(&PrintedRegion::CITY, 10);
    let made = made(requests, PrintedRegion::CITY.population, Rates::MID_SLOW);
    let (stream, model) = (made.stream(seed), model_of(&made)?);
    let clients = f64::from(made.clients);
    let heading = [
        "scheme",
        "hits, model",
        "simulated",
        "latency, model",
        "simulated",
        "busiest cache, model",
        "simulated",
    ];
    let title = format!(
        "A city of ten proxies: {} documents, {} requests of which the last third counts",
        made.objects, requests
    );
    let mut table = Table::new(&title, &heading);
    for (scheme, cooperation) in SCHEMES {
        let modelled = model.performance(scheme, &Region { population: clients, ..city.clone() })?;
        let found = simulate(&stream, &plan(city.clone(), cooperation, &stream), seed)?;
        let busiest = modelled.arrivals_per_day.iter().copied().fold(0.0, f64::max);
        let row = [
            scheme.name().to_string(),
            Unit::Share.shown(model.hit_rate(clients)?),
            Unit::Share.shown(found.hit_rate()),
            format!("{:.3} s", modelled.latency_seconds),
            format!("{:.3} s", found.mean_latency_seconds()),
            Unit::Share.shown(busiest / (clients * made.requests_per_day)),
            Unit::Share.shown(found.busiest()),
        ];
        table.rows.push(row.to_vec());
    }
    Ok(table)
}

const SCHEMES: [(Scheme, Cooperation); 4] = [
    (Scheme::Hierarchy, Cooperation::Hierarchy),
    (Scheme::Hashed, Cooperation::Hashed(HomeRule::Rendezvous, None)),
    (Scheme::Directory, Cooperation::Directory),
    (Scheme::DirectoryConsistent, Cooperation::Directory),
];
const NOTE: &str = "A small web stands for the large one: its clients ask for each document as often. The busiest cache is told as a share of all clients' requests. The simulated \
                    hashed proxies are not equally loaded, since whole documents and not requests are spread over them; the model knows no such thing. The directory as printed is \
                    compared with the same simulation as the consistent one, and is the one row that does not agree.";
/// Three and a half lives of an unpopular document: a third of it measures, after two thirds of
/// warm-up.
const DAYS: f64 = 650.0;
const CLIENTS: u32 = 1000;
const LEAST_OBJECTS: f64 = 300.0;
const MOST_OBJECTS: f64 = 2e6;
