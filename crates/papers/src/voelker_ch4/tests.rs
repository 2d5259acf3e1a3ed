//! The whole report at small scale.

use super::*;
use crate::Silent;

#[test]
fn a_small_run_makes_the_whole_report() {
    let inputs = Inputs { is_small: true, seed: 1, ..Inputs::default() };
    let report = run(&inputs, &mut Silent).expect("a report");
    let anchors: Vec<&str> = report.sections.iter().map(|section| section.anchor.as_str()).collect();
    let expected = [
        "figure-4-3",
        "figure-4-4",
        "figure-4-5",
        "figure-4-6",
        "figure-4-7",
        "figure-4-8",
        "variants",
        "figure-4-9",
        "hints",
        "glfd",
        "balance",
        "copies",
        "seeds",
    ];
    assert_eq!(anchors, expected);
    assert_eq!(report.figures().count(), 19);
    for figure in report.figures() {
        shoal_lab::figure::check_well_formed(&figure.svg());
        shoal_lab::figure::check_labels(&figure.svg());
    }
    let findings: Vec<&Finding> = report.sections.iter().flat_map(|section| &section.findings).collect();
    let keys: std::collections::BTreeSet<&str> =
        findings.iter().map(|finding| finding.key.as_str()).collect();
    assert_eq!(keys.len(), findings.len(), "keys are unique");
    assert!(findings.iter().all(|finding| finding.found[0].is_some_and(f64::is_finite)));
    let found = |key: &str| {
        findings.iter().find(|finding| finding.key == key).and_then(|one| one.found[0]).expect(key)
    };
    assert!(found("same_unhinted") < 1.0 && found("same_working_set") > 1.0);
    assert!(found("short_memory_1") > found("more_memory_1") && found("wrong_all") < 1.0);
    // The stand-in for Render was derived from these: 1.75 for GMS on five nodes, and the
    // processor-bound level.
    assert!(
        (found("render_7") / found("over_gms") / (found("render_7") / found("render_5")) - 1.75).abs() < 0.06
    );
    assert!((5.3..5.8).contains(&found("render_7")));
    assert!((1.4..1.9).contains(&found("render_1")) && (0.0..0.1).contains(&found("worth_gl")));
    assert!((4.5..5.3).contains(&found("five_random")));
    let html = report.html();
    assert!(!html.contains("NaN") && !html.contains("inf"), "every number is one");
}
