//! One experiment under several seeds: means and intervals of its findings and curves.
//!
//! An interval is Student's t at 95% times the standard error of the mean, over runs that differ in
//! their seed alone. It tells how much chance of made programs and simulations is in a value. A
//! difference between model and testbed is not in it.

use super::{LabError, Progress, Silent};
use shoal_lab::curve::spread;
use shoal_lab::figure::{Chart, Figure, Series, Shape};
use shoal_lab::report::{Finding, Section, Table};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// Runs an experiment for `count` seeds from `first` on. Returns its sections with the means over
/// the seeds, and a section with the intervals at the end.
pub(super) fn over(
    first: u64,
    count: u64,
    progress: &mut dyn Progress,
    run: impl Fn(u64, &mut dyn Progress) -> Result<Vec<Section>, LabError> + Sync,
) -> Result<Vec<Section>, LabError> {
    assert!(count > 0, "an experiment has a seed");
    let runs = run_all(count, progress, |seed, progress| run(first.wrapping_add(seed), progress))?;
    let Some((sections, others)) = runs.split_first() else { return Ok(Vec::new()) };
    assert!(others.iter().all(|run| run.len() == sections.len()), "each seed gives the same sections");
    let mut sections = sections.clone();
    let mut table = Table::new("Findings over the seeds", &["finding", "mean", "±", "least", "most"]);
    for (at, section) in sections.iter_mut().enumerate() {
        let same: Vec<&Section> = others.iter().filter_map(|run| run.get(at)).collect();
        for (which, finding) in section.findings.iter_mut().enumerate() {
            let others = same.iter().filter_map(|section| section.findings.get(which));
            merge_finding(finding, others, &mut table);
        }
        for (which, figure) in section.figures.iter_mut().enumerate() {
            let others: Vec<&Figure> = same.iter().filter_map(|section| section.figures.get(which)).collect();
            merge_figure(figure, &others);
        }
    }
    sections.push(Section {
        anchor: "seeds".into(),
        title: "Seeds".into(),
        question: "How much of each value is chance?".into(),
        tables: vec![table],
        notes: vec![format!(
            "Findings and curves are means over the seeds {first} to {}. ± and upright lines are intervals of the mean at 95%, by Student's t. Tables, and curves of more than {POINTS_MAX} points, are of seed {first} alone. \
             A value without an interval does not depend on the seed.",
            first.wrapping_add(count.saturating_sub(1))
        )],
        ..Section::default()
    });
    Ok(sections)
}

/// Runs seeds 0 to `count` - 1, one on each core at a time. Returns their sections in the order of
/// the seeds. The progress is that of the caller's thread.
fn run_all(
    count: u64,
    progress: &mut dyn Progress,
    run: impl Fn(u64, &mut dyn Progress) -> Result<Vec<Section>, LabError> + Sync,
) -> Result<Vec<Vec<Section>>, LabError> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let others = cores.min(count) - 1;
    let (next, (done, taken)) = (AtomicU64::new(0), mpsc::channel());
    let work = |progress: &mut dyn Progress, done: mpsc::Sender<_>| {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        for seed in numbers.take_while(|seed| *seed < count) {
            let sections = run(seed, &mut *progress);
            if sections.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            let is_taken = done.send((seed, sections)).is_ok();
            debug_assert!(is_taken, "the receiver outlives the threads");
        }
    };
    std::thread::scope(|scope| {
        for done in (0..others).map(|_| done.clone()) {
            let work = &work;
            scope.spawn(move || work(&mut Silent, done));
        }
        work(&mut *progress, done);
        if others > 0 {
            progress.begin("seeds on other cores", 0);
        }
    });
    let mut runs: Vec<_> = taken.into_iter().collect();
    runs.sort_by_key(|(seed, _)| *seed);
    runs.into_iter().map(|(_, sections)| sections).collect()
}

/// Replaces a finding's first value by the mean, and adds its row.
fn merge_finding<'a>(finding: &mut Finding, others: impl Iterator<Item = &'a Finding>, table: &mut Table) {
    let value = |finding: &Finding| finding.found.first().copied().flatten();
    let Some(first) = value(finding) else { return };
    let key = finding.key.clone();
    let same = others.filter(|other| other.key == key).filter_map(value);
    let values: Vec<f64> = std::iter::once(first).chain(same).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    finding.found[0] = Some(mean);
    let shown = |value: f64| finding.unit.shown(value);
    let (least, most) =
        values.iter().fold((first, first), |(low, high), value| (low.min(*value), high.max(*value)));
    debug_assert!(least <= mean + 1e-9 && mean <= most + 1e-9, "{mean} from {least} to {most}");
    table.row(&[&finding.what, &shown(mean), &shown(spread(&values)), &shown(least), &shown(most)]);
}

/// Replaces the curves of a plot by their means, and adds an interval to each point that has one. A
/// course over many points stays that of the first seed: its intervals would hide it.
fn merge_figure(figure: &mut Figure, others: &[&Figure]) {
    let Chart::Plot(plot) = &mut figure.drawing else { return };
    let mut intervals = Vec::new();
    for series in &mut plot.series {
        let is_course = series.points.len() > POINTS_MAX;
        if is_course || !matches!(series.shape, Shape::Curve | Shape::Dotted) {
            continue;
        }
        let same: Vec<&Series> = others.iter().filter_map(|figure| series_of(figure, series)).collect();
        let mut ends = Vec::new();
        for (at, point) in series.points.iter_mut().enumerate() {
            let values: Vec<f64> =
                std::iter::once(point.1).chain(same.iter().map(|other| other.points[at].1)).collect();
            let (mean, error) = (values.iter().sum::<f64>() / values.len() as f64, spread(&values));
            debug_assert!(error >= 0.0, "an interval of {error}");
            point.1 = mean;
            if error > mean.abs() * WORTH {
                ends.extend([(point.0, mean - error), (point.0, mean + error)]);
            }
        }
        if !ends.is_empty() {
            intervals.push(Series {
                name: format!("{} ±", series.name),
                shape: Shape::Whiskers,
                points: ends,
            });
        }
    }
    plot.series.extend(intervals);
}

/// Returns the series of another run that has the name and the places of a series.
fn series_of<'a>(figure: &'a Figure, series: &Series) -> Option<&'a Series> {
    let Chart::Plot(plot) = &figure.drawing else { return None };
    let is_same = |other: &&Series| {
        let places = |of: &Series| of.points.iter().map(|point| point.0.to_bits()).collect::<Vec<_>>();
        other.name == series.name && places(other) == places(series)
    };
    plot.series.iter().find(is_same)
}

/// Least interval that is drawn, as a share of its value.
const WORTH: f64 = 0.002;

/// Most points of a curve that is a mean over seeds.
const POINTS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::{dotted, plot};
    use shoal_lab::figure::{Axis, Unit};
    use shoal_lab::report::Claim;

    fn sections(seed: u64) -> Vec<Section> {
        let value = 10.0 + seed as f64;
        let axes = (Axis::linear("x", Unit::Count), Axis::linear("y", Unit::Count));
        let series = vec![dotted("moved", vec![(1.0, value), (2.0, 5.0)]), dotted("still", vec![(1.0, 3.0)])];
        vec![Section {
            findings: vec![
                Finding::new("moved", "a value", Unit::Count, Claim::Is(11.0)).found(&[Some(value)]),
                Finding::new("none", "no value", Unit::Count, Claim::Is(1.0)).found(&[None]),
            ],
            figures: vec![plot("f", "A plot", "It moves.", axes, series, Vec::new())],
            ..Section::default()
        }]
    }

    #[test]
    fn findings_and_curves_have_means_and_intervals() {
        let found = over(1, 3, &mut Silent, |seed, _| Ok(sections(seed))).expect("a report");
        assert_eq!(
            (found.len(), found[0].findings[0].found[0], found[0].findings[1].found[0]),
            (2, Some(12.0), None)
        );
        // Student's t of two degrees of freedom, times 1 / √3.
        assert_eq!(found[1].tables[0].rows, [["a value", "12", "2", "11", "13"]]);
        let Chart::Plot(plot) = &found[0].figures[0].drawing else { panic!("a plot") };
        let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["moved", "still", "moved ±"]);
        assert_eq!((plot.series[0].points[0].1, plot.series[2].points.len()), (12.0, 2));
        let half = (plot.series[2].points[1].1 - plot.series[2].points[0].1) / 2.0;
        assert!((half - 4.303 / 3f64.sqrt()).abs() < 1e-9, "{half}");
    }

    #[test]
    fn long_course_stays_that_of_the_first_seed() {
        let course = |seed: u64, points: usize| {
            let points = (0..points).map(|at| (at as f64, (seed * at as u64) as f64)).collect();
            let axes = (Axis::linear("epoch", Unit::Count), Axis::linear("b", Unit::Count));
            let figure = plot("f", "A course", "It goes on.", axes, vec![dotted("b", points)], Vec::new());
            vec![Section { figures: vec![figure], ..Section::default() }]
        };
        let drawn = |points: usize| {
            let found = over(1, 3, &mut Silent, |seed, _| Ok(course(seed, points))).expect("a report");
            let Chart::Plot(plot) = &found[0].figures[0].drawing else { panic!("a plot") };
            (plot.series.len(), plot.series[0].points[10].1)
        };
        assert_eq!((drawn(POINTS_MAX), drawn(POINTS_MAX + 1)), ((2, 20.0), (1, 10.0)));
    }

    #[test]
    fn error_of_any_seed_is_the_reports() {
        let refused = || LabError::TooFewRequests { found: 1, least: 2 };
        for bad in 0..4 {
            let found = over(1, 4, &mut Silent, |seed, _| match seed == 1 + bad {
                true => Err(refused()),
                false => Ok(sections(seed)),
            });
            assert!(matches!(found, Err(LabError::TooFewRequests { found: 1, .. })), "{bad}");
        }
    }

    #[test]
    fn one_seed_has_no_interval() {
        let found = over(7, 1, &mut Silent, |seed, _| Ok(sections(seed))).expect("a report");
        assert_eq!(
            (found[0].findings[0].found[0], found[1].tables[0].rows[0][2].as_str()),
            (Some(17.0), "0")
        );
    }
}
