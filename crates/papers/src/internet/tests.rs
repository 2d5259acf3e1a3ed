//! The whole report on a small made trace.

use super::*;
use crate::Silent;
use shoal_trace::generate::Traffic;

#[test]
fn small_run_makes_the_whole_report() {
    let trace = Traffic { requests: 5000, clients: 50, ..Traffic::default() }.make().expect("a trace");
    let inputs = Inputs { seed: 1, is_small: true, ..Inputs::new(trace, 0.5) };
    let report = run(&inputs, &mut Silent).expect("a report");
    let anchors: Vec<&str> = report.sections.iter().map(|section| section.anchor.as_str()).collect();
    assert_eq!(anchors, ["scale", "busiest", "growth", "checked"]);
    for figure in report.figures() {
        shoal_lab::figure::check_well_formed(&figure.svg());
        shoal_lab::figure::check_labels(&figure.svg());
    }
    let found = |key: &str| {
        let findings = report.sections.iter().flat_map(|section| &section.findings);
        findings.clone().find(|finding| finding.key == key).expect(key).found[0]
    };
    assert!(found("load_directory") > Some(1.0), "everybody cannot tell everybody");
    assert!(
        found("breaks_directory") < found("breaks_hierarchy"),
        "directories break before a hierarchy's top"
    );
    assert!(found("breaks_alone").is_none() && found("breaks_group_directory").is_none());
    assert!(
        found("off_hits") < Some(0.1) && found("off_latency") < Some(0.25),
        "{:?} {:?}",
        found("off_hits"),
        found("off_latency")
    );
    let html = report.html();
    assert!(!html.contains("NaN") && !html.contains("inf "), "every number is one");
}
