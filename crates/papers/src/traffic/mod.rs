//! The traffic generator beside a real trace: likeness of its traffic to the trace it was fitted
//! to.
//!
//! `fit` finds the generator's values for the trace. The generator makes traffic with the same
//! number of requests, and both are measured in the same way ([`Character`]). The statistics
//! compared are those that matter to a cache. Some were fitted, and show if the search works; the
//! others were not, and test the model.

mod fit;

use super::{Experiment, Inputs, LabError, Progress};
use shoal_lab::character::{Character, TraceFields};
use shoal_lab::curve::sizes_between;
use shoal_lab::figure::{Axis, Chart, Figure, Plot, Series, Shape, Unit};
use shoal_lab::report::{Claim, Finding, Report, Section};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "traffic",
    question: "is the proxy traffic that the generator makes like a real trace?",
    needs: "a trace with times and sizes",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let requests = inputs.trace.requests().len();
    if requests < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests { found: requests, least: LEAST_REQUESTS });
    }
    let real = Character::of(&inputs.trace, TraceFields::ALL, inputs.seed, progress);
    let impossible = |error: shoal_trace::generate::Impossible| LabError::Model { reason: error.to_string() };
    let traffic = fit::fit(&inputs.trace, &real, inputs.seed, progress).map_err(impossible)?;
    let trace = traffic.make().map_err(impossible)?;
    let made = Character::of(&trace, TraceFields::ALL, inputs.seed, progress);
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Made traffic beside a trace".into(),
        question: "The generator's values are fitted to a trace; what is made from them is measured as the trace is. Does a cache feel \
                   the difference?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: vec![
            ("trace".into(), inputs.source.clone()),
            ("the same traffic again".into(), format!("shoal trace convert synthetic:{traffic}")),
        ],
        columns: vec!["made".into()],
        sections: vec![fitted(&real, &made), not_fitted(&real, &made), caches(&real, &made)],
        ..Report::default()
    })
}

/// Returns the statistics that were fitted.
fn fitted(real: &Character, made: &Character) -> Section {
    let median = |character: &Character| fit::half_of(character).exp();
    Section {
        anchor: "fitted".into(),
        title: "What was fitted".into(),
        question: "Does the traffic have what it was made to have?".into(),
        findings: vec![
            both("infinite-hits", "an infinite cache hits", Unit::Share, (real, made), |c| {
                c.infinite.hit_ratio
            }),
            both("alpha", "slope of counts by rank", Unit::Ratio, (real, made), |c| c.popularity.alpha),
            both(
                "half-distance",
                "objects within which half the repeats come",
                Unit::Count,
                (real, made),
                median,
            ),
            both(
                "host-client",
                "a client's next request is for the same host",
                Unit::Share,
                (real, made),
                |c| c.locality.same_host_per_client,
            ),
            both("hosts", "hosts", Unit::Count, (real, made), |c| c.hosts as f64),
            both("request-mean", "mean size of a request", Unit::Bytes, (real, made), |c| {
                c.sizes.of_requests.mean
            }),
            both("object-median", "median size of an object", Unit::Bytes, (real, made), |c| {
                c.sizes.of_objects.quantiles[1] as f64
            }),
            both("object-p90", "size that 90% of objects do not exceed", Unit::Bytes, (real, made), |c| {
                c.sizes.of_objects.quantiles[2] as f64
            }),
            both("object-p99", "size that 99% of objects do not exceed", Unit::Bytes, (real, made), |c| {
                c.sizes.of_objects.quantiles[3] as f64
            }),
            both("changed", "repeats of another size", Unit::Share, (real, made), |c| {
                (c.change.popular.changes + c.change.others.changes) as f64
                    / (c.change.popular.repeats + c.change.others.repeats).max(1) as f64
            }),
        ],
        ..Section::default()
    }
}

/// Returns the statistics that follow from the model.
fn not_fitted(real: &Character, made: &Character) -> Section {
    let top = |at: usize| move |c: &Character| c.popularity.concentration[at].1;
    let series = |name: &str, character: &Character| Series {
        name: name.into(),
        shape: Shape::Curve,
        points: character.popularity.curve.clone(),
    };
    let popularity = Plot {
        x: Axis::log10("rank", Unit::Count),
        y: Axis::log10("requests", Unit::Count),
        series: vec![series("trace", real), series("made", made)],
        marks: Vec::new(),
    };
    Section {
        anchor: "not-fitted".into(),
        title: "What was not".into(),
        question: "Does the rest come out by itself?".into(),
        figures: vec![Figure::new(
            "traffic-popularity",
            "Requests for an object by its rank",
            "Both fall alike where counts are large.",
            Chart::Plot(popularity),
        )],
        findings: vec![
            both("once", "objects asked for once", Unit::Share, (real, made), |c| {
                c.popularity.one_hit_objects
            }),
            both("top-1", "requests for the most popular 1% of objects", Unit::Share, (real, made), top(1)),
            both("top-10", "requests for the most popular 10% of objects", Unit::Share, (real, made), top(2)),
            both("host", "the next request of all is for the same host", Unit::Share, (real, made), |c| {
                c.locality.same_host
            }),
            both("infinite-bytes", "an infinite cache hits of the bytes", Unit::Share, (real, made), |c| {
                c.infinite.byte_hit_ratio
            }),
            both(
                "infinite-versions",
                "it hits where another size is a new version",
                Unit::Share,
                (real, made),
                |c| c.infinite.version_hit_ratio,
            ),
            both("unique-bytes", "bytes of all objects", Unit::Bytes, (real, made), |c| {
                c.unique_bytes as f64
            }),
        ],
        ..Section::default()
    }
}

/// Returns the hits of LRU caches.
fn caches(real: &Character, made: &Character) -> Section {
    let bytes = real.unique_bytes.max(1 << 20);
    let shares = [0.003, 0.01, 0.03, 0.1, 0.3];
    let sizes: Vec<u64> = shares.iter().map(|share| (bytes as f64 * share) as u64).collect();
    let hits = |character: &Character, sizes: &[u64]| -> Vec<f64> {
        character.reuse.curve(sizes).points.iter().map(|point| point.hit_ratio).collect()
    };
    let (of_real, of_made) = (hits(real, &sizes), hits(made, &sizes));
    let finding = |at: usize| {
        let what = format!("LRU of {}% of all bytes hits", shares[at] * 100.0);
        Finding::new(&format!("lru-{at}"), &what, Unit::Share, Claim::Is(of_real[at]))
            .found(&[Some(of_made[at])])
    };
    let line = sizes_between((bytes / 1000).max(1), bytes, 40);
    let series = |name: &str, character: &Character| Series {
        name: name.into(),
        shape: Shape::Curve,
        points: line.iter().zip(hits(character, &line)).map(|(size, hit)| (*size as f64, hit)).collect(),
    };
    let plot = Plot {
        x: Axis::log2("size of the cache", Unit::Bytes),
        y: Axis::share("requests that hit"),
        series: vec![series("trace", real), series("made", made)],
        marks: Vec::new(),
    };
    let worst = of_real.iter().zip(&of_made).map(|(real, made)| (real - made).abs()).fold(0.0, f64::max);
    Section {
        anchor: "caches".into(),
        title: "What a cache feels".into(),
        question: "Do caches of the same size hit the same?".into(),
        figures: vec![Figure::new(
            "traffic-lru",
            "LRU by size",
            &format!("The curves are at most {:.1} points apart at the sizes of the table.", worst * 100.0),
            Chart::Plot(plot),
        )],
        findings: (0..shares.len()).map(finding).collect(),
        ..Section::default()
    }
}

/// Returns a finding on both: the trace's statistic is the claim.
fn both(
    key: &str,
    what: &str,
    unit: Unit,
    (real, made): (&Character, &Character),
    of: impl Fn(&Character) -> f64,
) -> Finding {
    Finding::new(key, what, unit, Claim::Is(of(real))).found(&[Some(of(made))])
}

/// Least requests: with fewer, no exponent can be fitted.
const LEAST_REQUESTS: usize = 2000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use shoal_trace::generate::{Changes, Traffic};

    #[test]
    fn traffic_that_was_made_is_made_again() {
        let changes = Changes { changing: 0.3, days: 0.05, popular_days: 0.05 };
        let traffic = Traffic { requests: 6000, clients: 20, recall: 0.3, changes, ..Traffic::default() };
        let inputs = Inputs { seed: 2, ..Inputs::new(traffic.make().expect("possible"), 0.0) };
        let report = run(&inputs, &mut Silent).expect("a report");
        for finding in report.sections.iter().flat_map(|section| &section.findings) {
            let (claimed, found) =
                (finding.claim.number().expect("a number"), finding.found[0].expect("found"));
            let close = match finding.unit {
                Unit::Share => (claimed - found).abs() < 0.08,
                // With few hosts, the number of hosts and the largest sizes are mostly chance.
                _ => (0.4..2.5).contains(&(found / claimed)),
            };
            assert!(close, "{}: {claimed} {found}", finding.what);
        }
        assert!(report.facts[1].1.starts_with("shoal trace convert synthetic:seed=2,requests=6000,"));
        report.figures().for_each(|figure| shoal_lab::figure::check_well_formed(&figure.svg()));
    }

    #[test]
    fn short_traces_are_refused() {
        let traffic = Traffic { requests: 1000, clients: 5, hit_ratio: 0.4, ..Traffic::default() };
        let inputs = Inputs::new(traffic.make().expect("possible"), 0.0);
        assert!(matches!(run(&inputs, &mut Silent), Err(LabError::TooFewRequests { found: 1000, .. })));
    }
}
