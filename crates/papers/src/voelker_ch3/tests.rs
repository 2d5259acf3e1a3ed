//! The whole report at small scale.

use super::*;
use crate::Silent;
use shoal_lab::figure::Chart;

fn inputs() -> Inputs {
    let program = Application::made(2000, 7).remove(3);
    Inputs {
        applications: vec![Application { name: "pages-of-ours.txt.zst".into(), ..program }],
        source: "pages-of-ours.txt.zst".into(),
        is_small: true,
        seed: 1,
        ..Inputs::default()
    }
}

#[test]
fn a_small_run_makes_the_whole_report() {
    let report = run(&inputs(), &mut Silent).unwrap();
    let anchors: Vec<&str> = report.sections.iter().map(|section| section.anchor.as_str()).collect();
    let expected = [
        "figure-3-2",
        "figure-3-3",
        "figure-3-4",
        "figure-3-8",
        "methods",
        "figure-3-5",
        "figure-3-6",
        "figure-3-7",
        "rate",
        "tuned",
        "local",
        "seeds",
    ];
    assert_eq!(anchors, expected);
    assert_eq!(report.figures().count(), 16);
    let found = |key: &str| {
        let findings = report.sections.iter().flat_map(|section| &section.findings);
        findings.clone().find(|finding| finding.key == key).and_then(|finding| finding.found[0]).unwrap()
    };
    assert_eq!((found("utilization_7") * 100.0).round(), 51.0);
    assert!((found("skew_18") - 0.131).abs() < 1e-3 && (found("skew_24") - 0.356).abs() < 1e-3);
    assert!((found("suboptimal_30_of_ours")).is_finite());
    let (wait, askers) = (found("local_wait_told_phases"), found("local_askers_phases"));
    assert!(wait.is_finite() && askers > 0.0 && askers <= 1.0, "{wait} {askers}");
    for figure in report.figures() {
        shoal_lab::figure::check_labels(&figure.svg());
    }
    let seeds = report.sections.last().expect("the seeds");
    let findings: usize = report.sections.iter().map(|section| section.findings.len()).sum();
    assert_eq!(seeds.tables[0].rows.len(), findings, "each finding has its interval");
    assert!(seeds.tables[0].rows.iter().any(|row| !row[2].starts_with('0')), "some depend on the seed");
    let html = report.html();
    assert!(!html.contains("NaN") && !html.contains("inf"), "every number is one");
}

/// Figures are means over seeds and tables are of the first, so that one seed is looked at.
#[test]
fn figures_and_table_take_one_program_for_one_name() {
    let effort = Effort::SMALL;
    let programs = programs(&inputs(), 1, &effort).expect("made programs");
    let sections = rate::sections(&programs, 1, &effort, &mut Silent);
    let section = |anchor: &str| sections.iter().find(|section| section.anchor == anchor).unwrap();
    let ways = &section("tuned").tables[0];
    for name in ["phases", "database"] {
        let figure = format!("rate-steady-{name}");
        let figure = section("rate").figures.iter().find(|one| one.name == figure).unwrap();
        let Chart::Plot(plot) = &figure.drawing else { panic!("a plot") };
        let heaviest = plot.series.last().unwrap();
        let row = ways.rows.iter().find(|row| row[0] == name).unwrap();
        for (b, cell) in [(0.5, &row[1]), (1.0, &row[2])] {
            let (_, more) = heaviest.points.iter().find(|point| point.0 == b).unwrap();
            assert_eq!(cell, &Unit::Share.shown(*more), "{name}, b = {b}");
        }
    }
}

#[test]
fn a_program_that_is_too_short_is_refused() {
    let mut inputs = inputs();
    inputs.applications[0].references.truncate(10);
    assert!(matches!(run(&inputs, &mut Silent), Err(LabError::TooFewRequests { found: 10, .. })));
}
