//! The whole report at small scale.

use super::*;
use crate::Silent;

fn inputs() -> Inputs {
    let made = Application::made(4000, 7).remove(2);
    let named = |name: &str, one: &Application| Application { name: name.into(), ..one.clone() };
    let mut web = named("log.csv", &Application::made(8000, 3).remove(3));
    web.clients = (0..web.references.len() as u32).map(|at| at * 7 % 40).collect();
    Inputs {
        applications: vec![named("pages-of-ours.txt.zst", &made), web],
        is_small: true,
        seed: 1,
        ..Inputs::default()
    }
}

#[test]
fn small_run_makes_the_whole_report_of_numbers() {
    let report = run(&inputs(), &mut Silent).expect("a report");
    let anchors: Vec<&str> = report.sections.iter().map(|section| section.anchor.as_str()).collect();
    let expected =
        ["systems", "waiting", "receivers", "uneven", "distribution", "pagers", "lost-server", "regions"];
    assert_eq!(anchors, expected);
    assert_eq!(report.figures().count(), 9);
    assert_eq!(report.sections[0].tables[0].rows.len(), 19, "every system");
    let findings: Vec<_> = report.sections.iter().flat_map(|section| &section.findings).collect();
    let keys: std::collections::BTreeSet<&str> =
        findings.iter().map(|finding| finding.key.as_str()).collect();
    assert_eq!(keys.len(), findings.len(), "keys are unique");
    assert!(findings.iter().all(|finding| finding.found[0].is_some_and(f64::is_finite)));
    let html = report.html();
    assert!(
        !html.contains("NaN") && !html.contains("inf") && html.contains("of-ours"),
        "every number is one"
    );
    for figure in report.figures() {
        shoal_lab::figure::check_well_formed(&figure.svg());
    }
    assert_eq!(html, run(&inputs(), &mut Silent).expect("again").html(), "the same seed, the same bytes");
}

#[test]
fn traffic_is_made_without_a_trace_of_clients() {
    let mut inputs = inputs();
    inputs.applications.truncate(1);
    let web = WebRequests::of(&inputs, &SchemeEffort::SMALL).expect("made");
    assert!(web.source.starts_with("made") && web.requests.len() == SchemeEffort::SMALL.requests);
    inputs.applications[0].references.truncate(10);
    assert!(matches!(run(&inputs, &mut Silent), Err(LabError::TooFewRequests { found: 10, .. })));
}
