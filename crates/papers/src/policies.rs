//! Every replacement policy over one trace: misses of each, by the cache's size.
//!
//! The policies are those that the RAM tier can run, and Belady by size, which knows the trace.
//! Sizes are shares of the bytes of all objects, each counted once. The warm-up part fills the
//! cache and is not counted.

use super::{Experiment, Inputs, LabError, Progress, Workload};
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Series, Shape, Unit};
use shoal_lab::report::{Report, Section, Table};
use shoal_lab::simulator::{Capacity, Counts, Request, Simulator};
use shoal_policy::{BeladySize, NextUses, Replacement, ReplacementPolicy};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "policies",
    question: "how often does each replacement policy miss on this trace, by the cache's size?",
    needs: "a trace with sizes",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let workload = &inputs.workload;
    if workload.measured().len() < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests { found: workload.requests.len(), least: 2 * LEAST_REQUESTS });
    }
    let curves = curves(workload, progress);
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Replacement policies side by side".into(),
        question: "Which policy misses least on this trace, how much does the choice matter, and how far is each from \
                   one that knows the future?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: facts(inputs),
        columns: Vec::new(),
        sections: vec![section(&curves)],
        ..Report::default()
    })
}

/// Results of one policy, one for each size.
struct PolicyCurve {
    policy: String,
    points: Vec<PolicyPoint>,
}

/// Results of a policy in a cache of one size.
struct PolicyPoint {
    cache_bytes: u64,
    counts: Counts,
    bytes_per_object: f64,
}

fn curves(workload: &Workload, progress: &mut dyn Progress) -> Vec<PolicyCurve> {
    let sizes = workload.sizes();
    let requests: Vec<Request> = workload
        .requests
        .iter()
        .map(|request| Request { object: request.object.into(), bytes: sizes[request.object as usize] })
        .collect();
    let room = |share: f64| (workload.unique_bytes().0 as f64 * share) as u64;
    progress.begin("policies", (ReplacementPolicy::<u64>::ALL.len() + 1) as u64);
    let mut of = |policy: &str, construct: &dyn Fn() -> Box<dyn Replacement<u64>>| {
        let points =
            SHARES.iter().map(|share| simulate(construct(), &requests, workload.warm_up, room(*share)));
        let curve = PolicyCurve { policy: policy.into(), points: points.collect() };
        progress.done(1);
        curve
    };
    let mut curves: Vec<PolicyCurve> =
        ReplacementPolicy::ALL.iter().map(|policy| of(policy.name, &|| (policy.construct)())).collect();
    let future = NextUses::of(requests.iter().map(|request| request.object));
    curves.push(of("belady_size", &|| Box::new(BeladySize::new(future.clone()))));
    curves
}

fn simulate(
    policy: Box<dyn Replacement<u64>>,
    requests: &[Request],
    warm_up: usize,
    cache_bytes: u64,
) -> PolicyPoint {
    let mut simulator = Simulator::new(policy, Capacity::Bytes(cache_bytes));
    let warm = simulator.run(requests[..warm_up].iter().copied());
    let all = simulator.run(requests[warm_up..].iter().copied());
    let bytes_per_object = simulator.memory_bytes() as f64 / simulator.objects().max(1) as f64;
    PolicyPoint { cache_bytes, counts: all.since(&warm), bytes_per_object }
}

fn section(curves: &[PolicyCurve]) -> Section {
    Section {
        anchor: "miss-ratios".into(),
        title: "Miss ratios by the cache's size".into(),
        question: "How often is an object not there, and how many of the bytes asked for must be fetched?".into(),
        figures: vec![
            figure(curves, "miss-ratio", "Requests that miss", Counts::miss_ratio),
            figure(curves, "byte-miss-ratio", "Bytes that are missed", Counts::byte_miss_ratio),
        ],
        tables: vec![
            table(curves, "Requests that miss", |point| Unit::Share.shown(point.counts.miss_ratio())),
            table(curves, "Bytes that are missed", |point| Unit::Share.shown(point.counts.byte_miss_ratio())),
            table(curves, "Bytes of memory an object, everything counted", |point| {
                format!("{:.0}", point.bytes_per_object)
            }),
        ],
        notes: vec![
            "belady_size knows the trace and is a heuristic where sizes differ: far from all others on requests, and no \
             bound on bytes, which it does not try to save. Its memory holds the trace's future."
                .into(),
        ],
        ..Section::default()
    }
}

fn figure(curves: &[PolicyCurve], name: &str, title: &str, ratio: fn(&Counts) -> f64) -> Figure {
    let series = |curve: &PolicyCurve| Series {
        name: curve.policy.clone(),
        shape: Shape::Dotted,
        points: curve.points.iter().map(|point| (point.cache_bytes as f64, ratio(&point.counts))).collect(),
    };
    let plot = Plot {
        x: Axis::log2("size of the cache", Unit::Bytes),
        y: Axis::share(title),
        series: curves.iter().map(series).collect(),
        marks: Vec::new(),
    };
    let best = |at: usize| {
        let online = curves.iter().filter(|curve| curve.policy != "belady_size");
        let by_ratio = |a: &&PolicyCurve, b: &&PolicyCurve| {
            ratio(&a.points[at].counts).total_cmp(&ratio(&b.points[at].counts))
        };
        online.min_by(by_ratio).map(|curve| curve.policy.as_str()).unwrap_or_default()
    };
    let alternative = format!(
        "Least at the smallest size: {}; at the largest: {} (those that know no future).",
        best(0),
        best(SHARES.len() - 1)
    );
    Figure::new(name, title, &alternative, Chart::Plot(plot))
}

fn table(curves: &[PolicyCurve], title: &str, cell: fn(&PolicyPoint) -> String) -> Table {
    let mut heading = vec!["policy".to_string()];
    heading.extend(SHARES.iter().map(|share| format!("{}% of all bytes", share * 100.0)));
    let row = |curve: &PolicyCurve| {
        let mut row = vec![curve.policy.clone()];
        row.extend(curve.points.iter().map(cell));
        row
    };
    Table { title: title.into(), heading, rows: curves.iter().map(row).collect() }
}

fn facts(inputs: &Inputs) -> Vec<(String, String)> {
    let workload = &inputs.workload;
    vec![
        ("trace".into(), inputs.source.clone()),
        ("requests".into(), Unit::Count.shown(workload.requests.len() as f64)),
        ("of these measured".into(), Unit::Count.shown(workload.measured().len() as f64)),
        ("objects".into(), Unit::Count.shown(workload.objects as f64)),
        ("bytes of all objects".into(), Unit::Bytes.shown(workload.unique_bytes().0 as f64)),
        ("infinite cache misses".into(), Unit::Share.shown(1.0 - workload.infinite_hit_ratios().1)),
    ]
}

/// Sizes of the cache, in shares of all objects' bytes.
const SHARES: [f64; 6] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3];
/// Least measured requests: with fewer, a ratio says little.
const LEAST_REQUESTS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_lab::simulator::ZipfTrace;

    struct Silent(u64);

    impl Progress for Silent {
        fn begin(&mut self, _part: &str, steps: u64) {
            self.0 += steps;
        }

        fn done(&mut self, steps: u64) {
            self.0 -= steps;
        }
    }

    fn inputs(requests: usize) -> Inputs {
        let trace: Vec<_> =
            ZipfTrace::new(2000, 0.8, 1, 4).take(requests).map(|request| request.object).collect();
        let urls: Vec<String> = trace.iter().map(|object| format!("http://a.example/{object}")).collect();
        let sized = urls.iter().zip(&trace).map(|(url, object)| (url.as_str(), 0, 100 + object * 7 % 900));
        Inputs { workload: Workload::of_requests(sized, requests / 2), ..Inputs::default() }
    }

    #[test]
    fn larger_caches_miss_less_and_the_future_helps() {
        let mut progress = Silent(0);
        let inputs = inputs(20_000);
        let curves = curves(&inputs.workload, &mut progress);
        assert_eq!(
            (curves.len(), progress.0),
            (ReplacementPolicy::<u64>::ALL.len() + 1, 0),
            "all steps are done"
        );
        let ratios =
            |curve: &PolicyCurve| curve.points.iter().map(|p| p.counts.miss_ratio()).collect::<Vec<_>>();
        let infinite = 1.0 - inputs.workload.infinite_hit_ratios().1;
        let best = ratios(curves.last().unwrap());
        for curve in &curves {
            let ratios = ratios(curve);
            assert!(ratios.is_sorted_by(|a, b| a >= b), "{}: {ratios:?}", curve.policy);
            assert!(ratios.iter().zip(&best).all(|(ratio, best)| ratio >= best && *best >= infinite));
            assert!(curve.points.iter().all(|point| point.counts.requests == 10_000));
        }
    }

    #[test]
    fn report_is_complete_and_short_traces_are_refused() {
        let report = run(&inputs(4000), &mut Silent(0)).unwrap();
        let section = &report.sections[0];
        assert_eq!((section.figures.len(), section.tables.len()), (2, 3));
        assert!(
            section.tables.iter().all(|table| table.rows.len() == ReplacementPolicy::<u64>::ALL.len() + 1)
        );
        assert!(run(&inputs(1000), &mut Silent(0)).is_err());
    }
}
