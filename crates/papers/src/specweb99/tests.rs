//! A small run of the whole experiment.

use super::*;
use crate::{Silent, Workload};
use shoal_lab::figure::check_well_formed;

#[test]
fn a_small_run_has_every_row_and_figure() {
    let urls: Vec<String> = (0..4000).map(|n: u64| format!("http://a.example/{}", n * n % 397)).collect();
    let sized = urls.iter().map(|url| (url.as_str(), 0, 100 + url.len() as u64 * 50));
    let inputs =
        Inputs { workload: Workload::of_requests(sized, 2000), is_small: true, seed: 1, ..Inputs::default() };
    let report = run(&inputs, &mut Silent).unwrap();
    assert_eq!(report.figures().count(), 8);
    let table = &report.sections[1];
    assert!(table.tables[..4].iter().all(|table| table.rows.len() == 18), "all rows of Table 1.1");
    // The model's hit ratios agree with the printed ones to half a percent.
    for row in table.tables[0].rows.iter().filter(|row| row[0].ends_with('A') && row[1] != "–") {
        let error: f64 = row[3].trim_end_matches('%').parse().unwrap();
        assert!(error.abs() < 0.5, "{row:?}");
    }
    // The simulated rows agree with the paper's to two percent.
    let simulated: Vec<_> =
        table.tables[0].rows.iter().filter(|row| row[0].ends_with('S') && row[2] != "–").collect();
    assert_eq!(simulated.len(), 3);
    for row in simulated {
        let error: f64 = row[3].trim_end_matches('%').parse().unwrap();
        assert!(error.abs() < 2.0, "{row:?}");
    }
    let mut keys: Vec<&str> = report
        .sections
        .iter()
        .flat_map(|section| &section.findings)
        .map(|finding| finding.key.as_str())
        .collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all, "keys are unique");
    check_well_formed(&report.html());
    assert_eq!(
        report.html(),
        run(&inputs, &mut Silent).unwrap().html(),
        "the same seed gives the same bytes"
    );
}
