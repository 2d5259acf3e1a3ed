//! The whole report on a small made trace.

use super::*;
use crate::Silent;
use shoal_trace::generate::Traffic;

#[test]
fn small_run_makes_the_whole_report() {
    let trace = Traffic { requests: 6000, clients: 50, ..Traffic::default() }.make().expect("a trace");
    let inputs = Inputs { seed: 1, ..Inputs::new(trace, 0.5) };
    let report = run(&inputs, &mut Silent).expect("a report");
    assert_eq!(report.sections.len(), 5);
    for figure in report.figures() {
        shoal_lab::figure::check_well_formed(&figure.svg());
        shoal_lab::figure::check_labels(&figure.svg());
    }
    let found = |key: &str| {
        let findings = report.sections.iter().flat_map(|section| &section.findings);
        findings.clone().find(|finding| finding.key == key).and_then(|one| one.found[0]).expect(key)
    };
    assert!(found("bounded_peak") <= 1.25 + 1.0 / 16.0 + 1e-9);
    assert_eq!(found("coalescing_crowd"), 1.0);
    assert!(found("bandana_bandwidth") >= 1.0 && found("known_peak") >= found("baleen_peak") - 0.05);
    let html = report.html();
    assert!(!html.contains("NaN") && !html.contains("inf"), "every number is one");
}

#[test]
fn queries_end_with_a_pause() {
    let one = |time_ms, object, client| Request { time_ms, bytes: 1, object, client };
    let requests = [one(0, 1, 1), one(5_000, 2, 1), one(6_000, 1, 1), one(6_000, 9, 2), one(20_000, 3, 1)];
    let mut found = queries(&requests);
    found.sort();
    assert_eq!(found, [vec![1, 2], vec![3], vec![9]]);
}
