//! The whole report at small scale, and its arithmetic.

use super::*;
use crate::Silent;

#[test]
fn small_run_makes_the_whole_report() {
    let inputs = Inputs { is_small: true, seed: 1, ..Inputs::default() };
    let report = run(&inputs, &mut Silent).expect("a report");
    let anchors: Vec<&str> = report.sections.iter().map(|section| section.anchor.as_str()).collect();
    assert_eq!(anchors, ["rules", "time", "money"]);
    for figure in report.figures() {
        shoal_lab::figure::check_well_formed(&figure.svg());
        shoal_lab::figure::check_labels(&figure.svg());
    }
    let found = |key: &str| {
        let findings = report.sections.iter().flat_map(|section| &section.findings);
        findings.clone().find(|finding| finding.key == key).and_then(|one| one.found[0]).expect(key)
    };
    // 13 ms to 0.37; 82.3 µs to 32.6.
    assert!((found("worth_then") - 35.1).abs() < 0.1 && (found("worth_now") - 2.5).abs() < 0.1);
    // 50 µs over the difference of 0.320 and 0.286 ns a byte.
    assert!((found("frontier_idle") / 1.458e6 - 1.0).abs() < 0.01);
    assert!(found("frontier_busy") < found("frontier_idle") / 10.0, "waiting moves the frontier");
    assert!((1.0..2.0).contains(&found("gms_now")) && found("interval_now") < found("interval_then"));
    let html = report.html();
    assert!(!html.contains("NaN") && !html.contains("inf"), "every number is one");
}
