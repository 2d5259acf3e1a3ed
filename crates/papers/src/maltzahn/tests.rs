//! The whole report over a small made trace, in seconds: everything is there, well-formed, and the
//! same twice.

use super::*;
use crate::Silent;
use shoal_lab::figure::check_well_formed;
use shoal_trace::generate::Traffic;
use std::sync::LazyLock;

fn inputs(requests: usize) -> Inputs {
    let trace = Traffic { requests, ..Traffic::default() }.make().expect("such traffic can be had");
    Inputs { seed: 1, command: "shoal lab run maltzahn".into(), ..Inputs::new(trace, 0.5) }
}

/// Report of the small trace, which all tests look at.
static REPORT: LazyLock<Report> =
    LazyLock::new(|| run(&inputs(3000), &mut Silent).expect("the trace is long enough"));

#[test]
fn the_report_is_whole_well_formed_and_the_same_twice() {
    let report = &*REPORT;
    check_well_formed(&report.html());
    let names: Vec<&str> = report.figures().map(|figure| figure.name.as_str()).collect();
    let expected = [
        "figure-1",
        "figure-2",
        "figure-3",
        "figure-4",
        "figure-5a",
        "figure-5b",
        "figure-6",
        "figure-7a",
        "figure-7b",
        "figure-7-sweep",
        "finite-disks",
        "finite-disks-memory",
        "extension-staleness",
        "extension-residency",
        "extension-sequences",
    ];
    assert_eq!(names, expected);
    let bars = |name: &str| report.figures().find(|figure| figure.name == name).unwrap().csv();
    assert!(bars("figure-4").contains("squid, logged"), "as the paper had it: {}", bars("figure-4"));
    assert!(!bars("figure-5a").contains("cern"), "one bar that hides all others");
    for figure in report.figures() {
        check_well_formed(&figure.svg());
        let csv = figure.csv();
        let columns = csv.lines().next().unwrap().split(',').count();
        assert!(columns >= 3 && csv.lines().count() > 1, "{}: {csv}", figure.name);
        assert!(csv.lines().all(|line| line.split(',').count() >= columns), "{}", figure.name);
    }
    let again = run(&inputs(3000), &mut Silent).unwrap();
    assert_eq!(report.html(), again.html());
    assert_eq!(report.summary(), again.summary());
}

#[test]
fn made_traffic_gives_the_papers_order() {
    let report = &*REPORT;
    let found = |key: &str| {
        let mut findings = report.sections.iter().flat_map(|section| &section.findings);
        findings.find(|finding| finding.key == key).and_then(|finding| finding.found[0]).unwrap()
    };
    for key in ["squidl_over_squid", "squidm_over_squid", "squidml_over_squid", "squidmla_over_squid"] {
        assert!((0.02..0.9).contains(&found(key)), "{key}: {}", found(key));
    }
    assert!(found("squidml_over_squid") < found("squidl_over_squid"));
    assert!((0.02..0.9).contains(&found("squid_lowest_over_squid")));
    assert!((found("squidmla_over_squidml") - 1.0).abs() < 0.1);
    assert_eq!(found("crossing_aligned"), 0.0);
    assert!((0.2..0.5).contains(&found("crossing_objects")));
    assert!((found("infinite_hit_ratio") - 0.59).abs() < 0.05);
}

#[test]
fn on_a_full_disk_only_overwriting_saves() {
    let report = &*REPORT;
    let section = report.sections.iter().find(|section| section.anchor == "finite-disks").unwrap();
    let found = |key: &str| {
        section.findings.iter().find(|finding| finding.key == key).and_then(|finding| finding.found[0])
    };
    for room in ["30", "10"] {
        let over = |name: &str| found(&format!("{name}_over_squid_{room}")).unwrap();
        assert!(over("squid_lowest") < 0.8, "{room}: {}", over("squid_lowest"));
        assert!(over("squidl") > 0.8, "{room}: {}", over("squidl"));
        assert!(over("squid_lowest") < over("squid_monotonic"), "{room}");
    }
    assert!(found("unlink_ms").unwrap() > found("open_write_ms").unwrap());
    let calls = section.tables.iter().find(|table| table.title.contains("call")).unwrap();
    let lowest = calls.rows.iter().find(|row| row[0] == "squid_lowest, 10%").unwrap();
    assert_eq!(lowest[4], "–", "a full squid_lowest removes no file: {lowest:?}");
}

#[test]
fn the_paper_is_given_no_number_that_it_does_not_say() {
    let report = &*REPORT;
    let mut findings = report.sections.iter().flat_map(|section| &section.findings);
    let future = findings.find(|finding| finding.key == "future_over_fbc").unwrap();
    assert_eq!(future.claim.number(), None);
    let section = report.sections.iter().find(|section| section.anchor == "figure-7").unwrap();
    let aging = section.tables.iter().find(|table| table.title.contains("aging")).unwrap();
    let halvings = |bounds: &str| {
        let row = aging.rows.iter().find(|row| row[0] == bounds).unwrap();
        row[1].parse::<u64>().unwrap()
    };
    assert_eq!(halvings("C_max 3, A_max 100"), 0, "at the published bounds counts never age");
    assert!(halvings("C_max 3, A_max 2") > 0);
}

#[test]
fn a_trace_that_is_too_short_is_refused() {
    let mut trace = shoal_trace::Trace::default();
    trace.push(&shoal_trace::Record { url: "http://a/".into(), ..shoal_trace::Record::default() }, 1);
    let error = run(&Inputs::new(trace, 0.5), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("at least 200"), "{error}");
}
