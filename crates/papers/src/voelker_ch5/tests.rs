//! The whole report at small scale.

use super::*;
use crate::Silent;
use shoal_lab::figure::Chart;
use shoal_trace::generate::Traffic;

#[test]
fn a_small_report_has_every_figure_and_only_numbers() {
    let traffic = Traffic { requests: 6000, clients: 30, ..Traffic::default() };
    let mut inputs = Inputs::new(traffic.make().expect("traffic"), 0.5);
    inputs.seed = 2;
    let report = run(&inputs, &mut Silent).expect("a report");
    assert_eq!(report.sections.len(), 13);
    let names: Vec<&str> = report.figures().map(|figure| figure.name.as_str()).collect();
    for name in
        ["figure-5-1", "figure-5-2", "figure-5-3", "figure-5-4", "tiers", "heavy-tails", "finite", "streams"]
    {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    for figure in report.figures() {
        let Chart::Plot(plot) = &figure.drawing else { panic!("{} is no plot", figure.name) };
        let points = plot.series.iter().flat_map(|series| &series.points);
        assert!(points.clone().count() > 0 && points.clone().all(|(x, y)| x.is_finite() && y.is_finite()));
    }
    let page = report.html();
    assert!(!page.contains("NaN") && !page.contains("inf s"));
    shoal_lab::figure::check_well_formed(&report.figures().next().expect("figures").svg());
    let findings: Vec<_> = report.sections.iter().flat_map(|section| &section.findings).collect();
    let keys: std::collections::BTreeSet<&str> =
        findings.iter().map(|finding| finding.key.as_str()).collect();
    assert_eq!(keys.len(), findings.len(), "keys are unique");
    assert!(findings.iter().all(|finding| finding.found[0].is_some_and(f64::is_finite)));
    assert_eq!(
        report.html(),
        run(&inputs, &mut Silent).expect("again").html(),
        "the same seed, the same bytes"
    );
}

#[test]
fn short_trace_is_refused_but_not_missing_times() {
    let of = |requests: u64| {
        let lines: String = (0..requests).map(|n| format!("http://a/{}\n", n * n % 701)).collect();
        let input = shoal_trace::Input::new(std::io::Cursor::new(format!("url\n{lines}"))).expect("memory");
        let options = shoal_trace::ReadOptions::default();
        let read = shoal_trace::Trace::read(input, &options, &shoal_trace::Filter::paper(), 9999, 100);
        Inputs::new(read.expect("a trace").0, 0.5)
    };
    assert!(matches!(run(&of(1000), &mut Silent), Err(LabError::TooFewRequests { .. })));
    assert!(run(&of(4000), &mut Silent).is_ok());
}
