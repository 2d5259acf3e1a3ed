//! A front end's policies by the number of back-ends: throughput, misses and underused nodes (Pai
//! et al. 1998, Figures 7 to 9).

use super::{Axis, Progress, SchemeEffort, Unit, WebRequests, curve, plot, ratio};
use shoal_lab::cluster::{ClusterSize, RunPlan, SchemeOptions, ServiceTimes, ThroughputResult, named, serve};
use shoal_lab::figure::{Figure, Series};
use shoal_lab::report::{Finding, Section, Table};

pub(super) fn section(web: &WebRequests, effort: &SchemeEffort, progress: &mut dyn Progress) -> Section {
    progress.begin("request distribution", (POLICIES.len() * effort.back_ends.len()) as u64);
    let all: Vec<Vec<(usize, ThroughputResult)>> = POLICIES
        .iter()
        .map(|(key, _)| {
            let run = |nodes: &usize| {
                progress.done(1);
                (*nodes, handed_out(web, key, *nodes))
            };
            effort.back_ends.iter().map(run).collect()
        })
        .collect();
    Section {
        anchor: "distribution".into(),
        title: "Handing out requests".into(),
        question: "What do more back-ends bring, by how a front end chooses among them?".into(),
        figures: figures(&all),
        findings: findings(&all),
        tables: vec![table(&all)],
        notes: vec![
            "The trace is taken twice, and the first time only fills memories: Pai et al. have traces in which nearly every request is for something asked for before. Each back-end holds an eighth of the \
             objects, so that eight hold them all."
                .into(),
            "Every object is of one size here; the paper's have their own sizes, which make loads more uneven still.".into(),
        ],
        ..Section::default()
    }
}

/// Runs the trace twice and counts the second time.
fn handed_out(web: &WebRequests, key: &str, nodes: usize) -> ThroughputResult {
    let frames = (web.objects / PART).max(2);
    let size = ClusterSize { nodes: vec![frames; nodes], server: 0, objects: web.objects };
    let options = SchemeOptions { seed: web.seed, ..SchemeOptions::default() };
    let plan = RunPlan { warm_up: web.requests.len() as u64, failure: None };
    let twice = web.requests.iter().chain(&web.requests).copied();
    named(key, &size, &options).map_or_else(ThroughputResult::default, |mut system| {
        serve(system.as_mut(), &size, &ServiceTimes::pai(nodes), twice, plan)
    })
}

fn misses(outcome: &ThroughputResult) -> f64 {
    outcome.counts.disk as f64 / outcome.counts.requests.max(1) as f64
}

fn figures(all: &[Vec<(usize, ThroughputResult)>]) -> Vec<Figure> {
    let series = |of: &dyn Fn(&ThroughputResult) -> f64| -> Vec<Series> {
        let points = |runs: &Vec<(usize, ThroughputResult)>| {
            runs.iter().map(|(nodes, found)| (*nodes as f64, of(found))).collect()
        };
        all.iter().zip(POLICIES).map(|(runs, (_, name))| curve(name, points(runs))).collect()
    };
    let most = all[0].last().map_or(2, |run| run.0.max(2)) as f64;
    let nodes = || Axis::linear("back-ends", Unit::Count).over(1.0, most);
    vec![
        plot(
            "distribution-throughput",
            "Requests answered a second",
            "Round robin grows in proportion to the back-ends; what heeds locality grows faster, and LARD and LARD/R most.",
            (nodes(), Axis::linear("requests a second", Unit::Count)),
            series(&ThroughputResult::throughput),
            Vec::new(),
        ),
        plot(
            "distribution-misses",
            "Requests that go to disk",
            "Round robin misses as much with sixteen back-ends as with one; the others miss less with each back-end.",
            (nodes(), Axis::linear("requests from disk", Unit::Share)),
            series(&misses),
            Vec::new(),
        ),
        plot(
            "distribution-underused",
            "How long a back-end is underused",
            "Back-ends are underused under LB and LB/GC, and hardly ever under LARD and round robin.",
            (nodes(), Axis::share("share of the time, mean of all")),
            series(&ThroughputResult::underused),
            Vec::new(),
        ),
    ]
}

fn table(all: &[Vec<(usize, ThroughputResult)>]) -> Table {
    let most = all[0].last().map_or(0, |run| run.0);
    let title = format!("With {most} back-ends");
    let mut table = Table::new(
        &title,
        &["policy", "a second", "from disk", "delay", "most requests over mean", "underused"],
    );
    for (runs, (_, name)) in all.iter().zip(POLICIES) {
        let Some((_, found)) = runs.last() else { continue };
        table.row(&[
            name,
            &Unit::Count.shown(found.throughput()),
            &Unit::Share.shown(misses(found)),
            &Unit::Seconds.shown(found.delay_ms / 1e3),
            &Unit::Ratio.shown(found.imbalance()),
            &Unit::Share.shown(found.underused()),
        ]);
    }
    table
}

fn findings(all: &[Vec<(usize, ThroughputResult)>]) -> Vec<Finding> {
    assert_eq!(all.len(), POLICIES.len(), "runs of each policy");
    let none = ThroughputResult::default();
    let last: Vec<&ThroughputResult> =
        all.iter().map(|runs| runs.last().map_or(&none, |run| &run.1)).collect();
    let first: Vec<&ThroughputResult> =
        all.iter().map(|runs| runs.first().map_or(&none, |run| &run.1)).collect();
    let throughput = |policy: usize| last[policy].throughput();
    let lard = throughput(LARD).max(throughput(LARD_R));
    let locality = throughput(LB).max(throughput(LB_GC));
    let over = |a: f64, b: f64| if b > 0.0 { a / b } else { 1.0 };
    vec![
        ratio(
            "lard_over_wrr",
            "the better of LARD and LARD/R: throughput over WRR's",
            "highest; 2 to 4 (Pai et al.)",
            over(lard, throughput(WRR)),
        ),
        ratio("lard_over_lb", "the same over the better of LB and LB/GC", "above 1", over(lard, locality)),
        ratio(
            "lb_over_wrr_gms",
            "the better of LB and LB/GC: throughput over WRR/GMS's",
            "moderately above 1",
            over(locality, throughput(WRR_GMS)),
        ),
        ratio(
            "wrr_misses",
            "WRR: misses with all back-ends over those with one",
            "no fewer: 1",
            over(misses(last[WRR]), misses(first[WRR])),
        ),
        ratio("lard_misses", "LARD: the same", "far below 1", over(misses(last[LARD]), misses(first[LARD]))),
        ratio(
            "lard_balance",
            "LARD: the most requests of a back-end over the mean",
            "nearly as WRR",
            last[LARD].imbalance(),
        ),
        ratio("wrr_balance", "WRR: the same", "best", last[WRR].imbalance()),
    ]
}

const POLICIES: [(&str, &str); 6] = [
    ("wrr", "WRR"),
    ("wrr_gms", "WRR/GMS"),
    ("lb", "LB"),
    ("lb_gc", "LB/GC"),
    ("lard", "LARD"),
    ("lard_replicated", "LARD/R"),
];
const WRR: usize = 0;
const WRR_GMS: usize = 1;
const LB: usize = 2;
const LB_GC: usize = 3;
const LARD: usize = 4;
const LARD_R: usize = 5;
/// Divisor of the number of objects: the part in a back-end's memory.
const PART: usize = 8;
