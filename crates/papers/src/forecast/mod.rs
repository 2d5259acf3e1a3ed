//! Accuracy of forecasting a cache's next hits from its past hits.
//!
//! The planner's cache serves the trace from end to end, in three sizes. At cuts all along the
//! trace each way to forecast (`tries`) sees the part before the cut. The forecast is compared with
//! the part after it: an equal number of requests, or as many as there are. No way can therefore be
//! fitted to one cut. The error that a plan states is held against the same futures.

mod tries;

use super::{Experiment, Inputs, LabError, Progress};
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Series, Shape, Unit};
use shoal_lab::forecast::{Became, Forecast, Past, Returns, STRETCHES, hit_ratio};
use shoal_lab::plan::past;
use shoal_lab::report::{Report, Section, Table};
use shoal_trace::{Request, Trace};
use std::collections::{BTreeMap, HashMap, HashSet};
use tries::{ForecastInput, TRIES, USED, class, with_ages};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "forecast",
    question: "can what a cache will hit next be told from what it has hit, and how far off is it?",
    needs: "a trace with sizes; clients help one of the tries",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let requests = inputs.trace.requests();
    if requests.len() < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests { found: requests.len(), least: LEAST_REQUESTS });
    }
    let served = ServedTrace::of(&inputs.trace, progress);
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "What a cache will hit next".into(),
        question: "A plan is made of a log, and wanted for what comes after it. Which way to forecast is off by least, whatever the cut, and does the \
                   error that a plan states hold?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: vec![
            ("trace".into(), inputs.source.clone()),
            ("requests, clients".into(), format!("{}, {}", requests.len(), inputs.trace.clients().len())),
            ("cuts".into(), format!("{}, at {:.0} to {:.0}%", CUTS.len(), CUTS[0] * 100.0, CUTS[CUTS.len() - 1] * 100.0)),
        ],
        columns: Vec::new(),
        sections: vec![ways(&served), errors(&served), reasons(&served)],
        ..Report::default()
    })
}

/// A trace, served by caches of several sizes.
struct ServedTrace {
    clients: Vec<u32>,
    ages: Vec<u32>,
    sizes: Vec<Size>,
    /// Past of an infinite cache: every object requested so far is in it.
    infinite: Past,
    /// Past of the middle size, with all objects of their mean size.
    alike: Past,
}

/// A cache of one size.
struct Size {
    ram_bytes: u64,
    disk_bytes: u64,
    past: Past,
}

impl ServedTrace {
    fn of(trace: &Trace, progress: &mut dyn Progress) -> Self {
        let requests = trace.requests();
        let (objects, bytes) = first_half(requests);
        let mean = bytes / objects.max(1);
        progress.begin("sizes", SHARES.len() as u64 + 2);
        let mut simulated = |requests: &[Request], share: f64| {
            let disk_bytes = ((bytes as f64 * share) as u64).max(LEAST_DISK);
            let ram_bytes = (disk_bytes / 4).max(LEAST_RAM);
            let past = past(requests, (ram_bytes, disk_bytes), mean);
            progress.done(1);
            Size { ram_bytes, disk_bytes, past }
        };
        let sizes = SHARES.iter().map(|share| simulated(requests, *share)).collect();
        let alike: Vec<Request> =
            requests.iter().map(|request| Request { bytes: mean, ..*request }).collect();
        let alike = simulated(&alike, SHARES[1]).past;
        let mut infinite = Past::default();
        let mut seen = HashSet::new();
        for request in requests {
            let hits = !seen.insert(request.object);
            infinite.push(request.object.into(), Became { hits, is_full: false });
        }
        progress.done(1);
        let clients: Vec<u32> = requests.iter().map(|request| request.client).collect();
        let mut made: HashMap<u32, u32> = HashMap::new();
        let mut age = |client: &u32| {
            let made = made.entry(*client).or_default();
            *made += 1;
            *made - 1
        };
        let served = Self { ages: clients.iter().map(&mut age).collect(), clients, sizes, infinite, alike };
        served.invariants();
        served
    }

    /// Checks that all pasts tell of the same requests.
    fn invariants(&self) {
        assert_eq!(self.ages.len(), self.clients.len(), "each request has its client's age");
        assert_eq!(self.infinite.requests(), self.clients.len(), "the infinite cache serves all");
        assert_eq!(self.alike.requests(), self.clients.len(), "so does the one of objects alike");
        for size in &self.sizes {
            assert_eq!(size.past.requests(), self.clients.len(), "a size serves all requests");
            assert!(size.disk_bytes >= LEAST_DISK && size.ram_bytes >= LEAST_RAM, "a cache has room");
        }
    }

    /// Returns the facts known at a cut, and the true hit ratio after it.
    fn at<'a>(&'a self, past: &'a Past, share: f64) -> (ForecastInput<'a>, f64) {
        let cut = (past.requests() as f64 * share) as usize;
        assert!(cut <= past.requests(), "a cut lies in the trace");
        let requests = cut.min(past.requests() - cut);
        let known =
            ForecastInput { past, cut, clients: &self.clients[..cut], ages: &self.ages[..cut], requests };
        (known, hit_ratio(&past.all().since[cut..cut + requests]))
    }

    /// Returns the forecast of "by age" with the true ages of future clients.
    fn with_known_ages(&self, past: &Past, share: f64) -> f64 {
        let (known, _) = self.at(past, share);
        let mut to_come = BTreeMap::new();
        for age in &self.ages[known.cut..][..known.requests] {
            *to_come.entry(class(f64::from(*age))).or_default() += 1.0;
        }
        with_ages(&known, &to_come)
    }
}

/// Returns the number of objects in the first half of the requests, and their bytes.
fn first_half(requests: &[Request]) -> (u64, u64) {
    let sizes: HashMap<u32, u64> =
        requests[..requests.len() / 2].iter().map(|request| (request.object, request.bytes)).collect();
    (sizes.len() as u64, sizes.values().sum())
}

/// Returns each way's error, over all cuts and at the half.
fn ways(served: &ServedTrace) -> Section {
    let heading = ["way", "off by, all cuts and sizes", "too high by", "at the half: off by", "too high by"];
    let mut table = Table::new("Points of hit ratio, means", &heading);
    let mut row = |name: &str, of: &dyn Fn(&Past, f64) -> f64| {
        let errors = |cuts: &[f64]| -> Vec<f64> {
            let of_size = |size: &Size| {
                cuts.iter()
                    .map(|cut| of(&size.past, *cut) - served.at(&size.past, *cut).1)
                    .collect::<Vec<_>>()
            };
            served.sizes.iter().flat_map(of_size).collect()
        };
        let cells = [errors(&CUTS), errors(&[0.5])].map(|errors| {
            let absolute: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
            [format!("{:.2}", mean(&absolute) * 100.0), format!("{:+.2}", mean(&errors) * 100.0)]
        });
        table.row(&[name, &cells[0][0], &cells[0][1], &cells[1][0], &cells[1][1]]);
    };
    for one in &TRIES {
        row(one.name, &|past, cut| (one.of)(&served.at(past, cut).0));
    }
    row("the last, if the ages of clients to come were known", &|past, cut| {
        served.with_known_ages(past, cut)
    });
    Section {
        anchor: "ways".into(),
        title: "Ways to forecast".into(),
        question: "How far is each off, over cuts all along the trace, and at the one in the middle?".into(),
        tables: vec![table],
        notes: vec![
            "A way that is good at the half and not over all cuts was lucky there. Neighbouring cuts share most of their requests, so these are not so many \
             independent trials."
                .into(),
        ],
        ..Section::default()
    }
}

/// Returns the errors that a plan states, held against the true results.
fn errors(served: &ServedTrace) -> Section {
    let heading = [
        "RAM",
        "disk",
        "cuts",
        "within the error stated",
        "error stated, mean",
        "within a standard error's",
        "that error, mean",
    ];
    let mut table = Table::new("Does the stated error hold?", &heading);
    let unit = |bytes: u64| Unit::Bytes.shown(bytes as f64);
    let points = |values: &[f64]| format!("{:.1} points", mean(values) * 100.0);
    for size in &served.sizes {
        let trials: Vec<(f64, f64, f64)> = CUTS.iter().map(|cut| trial(served, &size.past, *cut)).collect();
        let held = |error: fn(&(f64, f64, f64)) -> f64| {
            trials.iter().filter(|trial| trial.0 <= error(trial)).count().to_string()
        };
        let stated: Vec<f64> = trials.iter().map(|trial| trial.1).collect();
        let standard: Vec<f64> = trials.iter().map(|trial| trial.2).collect();
        table.row(&[
            &unit(size.ram_bytes),
            &unit(size.disk_bytes),
            &CUTS.len().to_string(),
            &held(|trial| trial.1),
            &points(&stated),
            &held(|trial| trial.2),
            &points(&standard),
        ]);
    }
    Section {
        anchor: "errors".into(),
        title: "The error stated".into(),
        question: "In how many cases is what came within the error of its forecast?".into(),
        figures: vec![figure(served)],
        tables: vec![table],
        notes: vec![format!(
            "The error stated is twice how much neighbouring fifths and thirds of the past differ (forecast::unrest). A standard error, Student's t over {STRETCHES} stretches, \
             takes these for independent, which they are not."
        )],
        ..Section::default()
    }
}

/// Returns the error of a forecast, the error it stated, and the one that a standard error would
/// have stated.
fn trial(served: &ServedTrace, past: &Past, cut: f64) -> (f64, f64, f64) {
    let (known, came) = served.at(past, cut);
    let forecast = Forecast::after(known.seen(), known.requests);
    assert!((0.0..=1.0).contains(&forecast.hit_ratio), "{} is no hit ratio", forecast.hit_ratio);
    assert!(forecast.error >= 0.0, "{} is no error", forecast.error);
    let stretches = Returns::of(known.seen()).stretches(known.seen());
    let middle = mean(&stretches);
    let variance =
        stretches.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (stretches.len() - 1) as f64;
    ((forecast.hit_ratio - came).abs(), forecast.error, T_29 * (variance / stretches.len() as f64).sqrt())
}

fn figure(served: &ServedTrace) -> Figure {
    let size = &served.sizes[1];
    let trials = CUTS.map(|cut| {
        let (known, came) = served.at(&size.past, cut);
        (cut, Forecast::after(known.seen(), known.requests), came)
    });
    let line = |name: &str, of: &dyn Fn(&(f64, Forecast, f64)) -> f64| Series {
        name: name.into(),
        shape: Shape::Dotted,
        points: trials.iter().map(|trial| (trial.0, of(trial))).collect(),
    };
    let whiskers = trials.iter().flat_map(|(cut, forecast, _)| {
        let (low, high) = (forecast.hit_ratio - forecast.error, forecast.hit_ratio + forecast.error);
        [(*cut, low.max(0.0)), (*cut, high.min(1.0))]
    });
    let whiskers = Series { name: String::new(), shape: Shape::Whiskers, points: whiskers.collect() };
    let plot = Plot {
        x: Axis::share("part of the trace that is known"),
        y: Axis::share("requests that hit"),
        series: vec![line("forecast", &|trial| trial.1.hit_ratio), line("came", &|trial| trial.2), whiskers],
        marks: Vec::new(),
    };
    let worst =
        trials.iter().map(|(_, forecast, came)| (forecast.hit_ratio - came).abs()).fold(0.0, f64::max);
    let alternative = format!("At most {:.1} points apart.", worst * 100.0);
    Figure::new("forecast", "Forecast and found, middle size", &alternative, Chart::Plot(plot))
}

/// Returns the parts of the error at the half.
fn reasons(served: &ServedTrace) -> Section {
    let both = |past: &Past| {
        let (known, came) = served.at(past, 0.5);
        ((TRIES[3].of)(&known), came)
    };
    let points = |value: f64| format!("{:+.1}", value * 100.0);
    let (returning, returned) = both(&served.infinite);
    let heading =
        ["RAM", "disk", "forecast", "came", "too high by", "for new objects", "for what comes back"];
    let mut table = Table::new("At the half, points of hit ratio", &heading);
    for size in &served.sizes {
        let (forecast, came) = both(&size.past);
        // A hit is a request for an object that returns and is still in the cache.
        let (kept_forecast, kept) = (forecast / returning.max(1e-9), came / returned.max(1e-9));
        let for_new = (returning - returned) * (kept_forecast + kept) / 2.0;
        let for_kept = (kept_forecast - kept) * (returning + returned) / 2.0;
        let parts = for_new + for_kept;
        debug_assert!(
            returned < 1e-6 || (parts - (forecast - came)).abs() < 1e-6,
            "{parts} is not the error"
        );
        let (ram, disk) =
            (Unit::Bytes.shown(size.ram_bytes as f64), Unit::Bytes.shown(size.disk_bytes as f64));
        table.row(&[
            &ram,
            &disk,
            &Unit::Share.shown(forecast),
            &Unit::Share.shown(came),
            &points(forecast - came),
            &points(for_new),
            &points(for_kept),
        ]);
    }
    let (alike, came_alike) = both(&served.alike);
    let (middle, came_middle) = both(&served.sizes[1].past);
    Section {
        anchor: "reasons".into(),
        title: "What it is made of".into(),
        question: "Do more new objects come than was foreseen, or do known ones come back too late for the cache, or are they larger?".into(),
        tables: vec![table],
        notes: vec![format!(
            "{USED}. An infinite cache: {} forecast, {} came. Where every object is as large as their mean, the middle size is forecast too high by {} instead of {}: \
             what is left then is not for sizes.",
            Unit::Share.shown(returning),
            Unit::Share.shown(returned),
            points(alike - came_alike),
            points(middle - came_middle)
        )],
        ..Section::default()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Shares of the first half's bytes that the disk has; a quarter of that is RAM.
const SHARES: [f64; 3] = [0.05, 0.15, 0.4];
/// Shares of the trace that are known.
const CUTS: [f64; 15] = [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8];
const LEAST_RAM: u64 = 4 << 20;
const LEAST_DISK: u64 = 8 << 20;
/// Least requests: with fewer, the first cuts know too little.
const LEAST_REQUESTS: usize = 5000;
/// Student's t, two-sided, 95%, of 29 degrees of freedom.
const T_29: f64 = 2.045;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use shoal_trace::generate::Traffic;

    fn inputs(requests: usize) -> Inputs {
        let traffic = Traffic { requests, clients: 40, ..Traffic::default() };
        Inputs { seed: 1, ..Inputs::new(traffic.make().expect("possible"), 0.0) }
    }

    #[test]
    fn made_traffic_does_not_change_and_is_foreseen() {
        let report = run(&inputs(30_000), &mut Silent).expect("a report");
        let ways = &report.sections[0].tables[0].rows;
        assert_eq!(ways.len(), TRIES.len() + 1);
        let off = |at: usize| ways[at][1].parse::<f64>().expect("a number");
        assert!(off(3) < 2.0 && off(3) < off(1), "returns know how a cache fills: {ways:?}");
        for row in &report.sections[1].tables[0].rows {
            assert!(row[3].parse::<usize>().expect("a number") >= 13, "{row:?}");
        }
        report.figures().for_each(|figure| shoal_lab::figure::check_well_formed(&figure.svg()));
    }

    #[test]
    fn no_way_sees_requests_after_its_cut() {
        let served = ServedTrace::of(&inputs(10_000).trace, &mut Silent);
        let past = &served.sizes[0].past;
        let (known, _) = served.at(past, 0.4);
        // The past without a future gives the same forecast.
        let mut alone = past.clone();
        alone.forget_after(known.cut);
        let alone = ForecastInput { past: &alone, ..known };
        for one in &TRIES {
            assert_eq!((one.of)(&alone), (one.of)(&served.at(past, 0.4).0), "{}", one.name);
        }
    }

    #[test]
    fn ages_to_come_are_as_many_as_requests() {
        let served = ServedTrace::of(&inputs(10_000).trace, &mut Silent);
        for cut in [0.3, 0.5, 0.8] {
            let (known, _) = served.at(&served.sizes[0].past, cut);
            let off = tries::ages_to_come(&known).values().sum::<f64>() - known.requests as f64;
            assert!(off.abs() < 1.0, "{cut}: {off}");
        }
    }
}
