//! Figure 7: disk I/O, hit ratio and time of three replacement strategies for the memory-mapped
//! file.

use super::architectures::{ios, ratio, real_figure, real_table, seconds, table};
use super::outcome::{Outcomes, RunResult};
use shoal_lab::figure::{Axis, Bar, Bars, Chart, Figure, Plot, Series, Shape, Unit};
use shoal_lab::report::{Claim, Finding, Section, Table};

/// FBC at other bounds than the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct FbcVariant {
    /// References from which on an object is passed over.
    pub c_max: u32,
    /// Mean references at which counts are halved.
    pub a_max: u32,
    /// Outcome of the run.
    pub outcome: RunResult,
    /// Number of times that all counts were halved, warm-up included.
    pub halvings: u64,
    /// Mean count of the objects at the end.
    pub mean_count: f64,
}

/// Returns the three strategies, and FBC at other bounds.
pub fn section(outcomes: &Outcomes, sweep: &[FbcVariant]) -> Section {
    let figure = |name: &str, title: &str, drawing| Figure::new(name, title, "One mark a strategy.", drawing);
    let mut figures = vec![
        figure("figure-7a", "Hit ratio against disk I/Os by replacement strategy", tradeoff(outcomes)),
        figure("figure-7b", "Duration of the measured part by replacement strategy", durations(outcomes)),
    ];
    if !sweep.is_empty() {
        figures.push(figure(
            "figure-7-sweep",
            "FBC's bounds: hit ratio against disk I/Os, one line an A_max, C_max from 2 upwards",
            swept(sweep),
        ));
    }
    let is_strategy = |name: &str| outcomes.modelled.iter().any(|modelled| modelled.name == name);
    figures.extend(real_figure("figure-7-today", "replacement strategy", &outcomes.real, is_strategy));
    let mut tables = vec![
        table("The runs on the modelled machine", &outcomes.modelled),
        real_table(&outcomes.real, is_strategy),
    ];
    let named = |run: &FbcVariant| RunResult {
        name: format!("C_max {}, A_max {}", run.c_max, run.a_max),
        ..run.outcome.clone()
    };
    tables.push(table(
        "FBC's bounds on the modelled machine",
        &sweep.iter().map(named).collect::<Vec<RunResult>>(),
    ));
    tables.push(aging(sweep));
    tables.retain(|table| !table.rows.is_empty());
    Section {
        anchor: "figure-7".into(),
        title: "Figure 7 (in print 6): replacement in a finite memory-mapped file".into(),
        question: "The file is about six times the memory it is mapped into. What does each replacement strategy cost in I/O, and gain in hits?".into(),
        figures,
        findings: findings(outcomes),
        tables,
        notes: vec![
            "The paper's \"an additional 10% reduction possible\" names no base, so no number of it stands beside future's. The text leaves open whether \
             FBC's \"target pointer\" is one for the file or one for each size; ours has one for each size, and fbc_one_pointer is the other reading. \
             Counts are halved when their mean exceeds A_max; the last table tells where that ever happens."
                .into(),
        ],
        ..Section::default()
    }
}

fn aging(sweep: &[FbcVariant]) -> Table {
    let mut table = Table::new(
        "FBC's aging: halvings of all counts, and mean count at the end",
        &["bounds", "halvings", "mean count"],
    );
    for run in sweep {
        let bounds = format!("C_max {}, A_max {}", run.c_max, run.a_max);
        table.row(&[&bounds, &run.halvings.to_string(), &format!("{:.1}", run.mean_count)]);
    }
    table
}

fn findings(outcomes: &Outcomes) -> Vec<Finding> {
    let difference = outcomes.of(["fbc", "lru"], |[fbc, lru]| Some(fbc.hit_ratio() - lru.hit_ratio()));
    let fewer = ratio(outcomes, "fbc", "lru", ios);
    let faster = ratio(outcomes, "fbc", "lru", seconds);
    let words = |words: &str| Claim::Words(words.into());
    vec![
        Finding::new("fbc_over_lru", "fbc's I/Os over lru's", Unit::Ratio, words("fewer")).found(&fewer),
        Finding::new("fbc_less_lru_hits", "fbc's hit ratio less lru's", Unit::Points, Claim::Is(0.0))
            .found(&difference),
        Finding::new(
            "fbc_over_lru_time",
            "fbc's time over lru's",
            Unit::Ratio,
            words("saves more than the I/Os"),
        )
        .found(&faster),
        Finding::new(
            "fbc_one_pointer_over_lru",
            "fbc's with one pointer for all sizes over lru's",
            Unit::Ratio,
            words("fewer"),
        )
        .found(&ratio(outcomes, "fbc_one_pointer", "lru", ios)),
        Finding::new(
            "future_over_fbc",
            "future's I/Os over fbc's",
            Unit::Ratio,
            words("\"additional 10%\", of what is not said"),
        )
        .found(&ratio(outcomes, "future", "fbc", ios)),
        Finding::new("future_less_fbc_hits", "future's hit ratio less fbc's", Unit::Points, words("higher"))
            .found(
                &outcomes.of(["future", "fbc"], |[future, fbc]| Some(future.hit_ratio() - fbc.hit_ratio())),
            ),
    ]
}

fn tradeoff(outcomes: &Outcomes) -> Chart {
    let series =
        STRATEGIES.iter().filter_map(|name| outcomes.modelled.iter().find(|outcome| outcome.name == *name));
    let series = series.map(|outcome| Series {
        name: outcome.name.clone(),
        shape: Shape::Points,
        points: vec![(outcome.ios() as f64, outcome.hit_ratio())],
    });
    Chart::Plot(Plot {
        x: io_axis(),
        y: Axis::share("hit ratio"),
        series: series.collect(),
        marks: Vec::new(),
    })
}

fn durations(outcomes: &Outcomes) -> Chart {
    let bars =
        STRATEGIES.iter().filter_map(|name| outcomes.modelled.iter().find(|outcome| outcome.name == *name));
    Chart::Bars(Bars {
        axis: Axis::linear("time that the measured part takes", Unit::Seconds),
        parts: vec!["modelled machine".into()],
        bars: bars.map(|outcome| Bar::new(&outcome.name, &[outcome.seconds])).collect(),
        claimant: "paper".into(),
    })
}

fn swept(sweep: &[FbcVariant]) -> Chart {
    let mut bounds: Vec<u32> = sweep.iter().map(|run| run.a_max).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut series: Vec<Series> = Vec::new();
    for a_max in bounds {
        let runs = sweep.iter().filter(|run| run.a_max == a_max);
        let points: Vec<(f64, f64)> =
            runs.map(|run| (run.outcome.ios() as f64, run.outcome.hit_ratio())).collect();
        // Bounds that mean counts never reach give the same results; one line would hide the other.
        match series.iter_mut().find(|other| other.points == points) {
            Some(same) => same.name += &format!(", {a_max}"),
            None => series.push(Series { name: format!("A_max {a_max}"), shape: Shape::Dotted, points }),
        }
    }
    let points = || sweep.iter().map(|run| (run.outcome.ios() as f64, run.outcome.hit_ratio()));
    let ratios = around(points().map(|point| point.1), 0.02);
    let transfers = around(points().map(|point| point.0), 2000.0);
    let y = Axis::linear("hit ratio", Unit::Share).over(ratios.0, ratios.1);
    let x = io_axis().over(transfers.0, transfers.1);
    Chart::Plot(Plot { x, y, series, marks: Vec::new() })
}

/// Returns the least and the greatest value, rounded outwards to whole steps.
fn around(values: impl Iterator<Item = f64>, step: f64) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
    (low, if high > low { high } else { low + step })
}

fn io_axis() -> Axis {
    Axis::linear("disk I/Os in the measured part (fewer is better)", Unit::Count)
}

/// The strategies in the paper's order.
pub const STRATEGIES: [&str; 3] = ["future", "lru", "fbc"];
