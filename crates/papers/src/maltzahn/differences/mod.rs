//! Reasons for answers that differ from Maltzahn's paper, each put to the test.
//!
//! Where a number of [`maltzahn`](super) is not the paper's, some property of trace or machine is
//! suspected. Here that property is changed alone, and the number moves or does not.

mod foresight;
mod httpd;
mod logging;
mod popularity;
mod records;
mod sequences;
mod transfers;

pub use logging::System;

use super::LEAST_REQUESTS;
use super::architectures::table;
use super::outcome::RunResult;
use super::runs::MachineRuns;
use crate::{Experiment, Inputs, LabError, Progress};
use shoal_lab::figure::Unit;
use shoal_lab::machine_runs::Variant;
use shoal_lab::report::{Claim, Finding, Report, Section};

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "differences",
    question: "why do our answers to the questions of Maltzahn 1999 differ from the paper's where they do?",
    needs: "a trace with URLs and sizes",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let workload = &inputs.workload;
    if workload.measured().len() < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests { found: workload.requests.len(), least: 2 * LEAST_REQUESTS });
    }
    let runs = MachineRuns::new(inputs);
    let sections = vec![
        logging::section(&runs, progress)?,
        httpd::section(&runs, progress)?,
        transfers::section(&runs, progress)?,
        popularity::section(inputs),
        foresight::section(inputs, &runs, progress)?,
        records::section(&runs, progress)?,
        sequences::section(inputs, &runs, progress)?,
    ];
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Why our answers differ from those of Maltzahn 1999".into(),
        question: "Where the lab's numbers are not the paper's, a reason is suspected. Does the number move when that alone is changed?".into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: super::facts(inputs, &runs),
        columns: vec!["ours".into()],
        sections,
        ..Report::default()
    })
}

/// A run's name and its difference.
type Change<'a> = (&'a str, Variant<'a>);

/// Runs all changes; a run has the name of its change.
fn outcomes(
    runs: &MachineRuns<'_>,
    changes: &[Change<'_>],
    progress: &mut dyn Progress,
) -> Result<Vec<RunResult>, LabError> {
    let run = |(name, variant): &Change<'_>| runs.infinite(&Variant { name, ..variant.clone() }, progress);
    changes.iter().map(run).collect()
}

/// Returns a section with its runs as a table.
fn section(anchor: &str, title: &str, question: &str, outcomes: &[RunResult]) -> Section {
    Section {
        anchor: anchor.into(),
        title: title.into(),
        question: question.into(),
        tables: vec![table("The runs on the modelled machine", outcomes)],
        ..Section::default()
    }
}

fn finding(key: &str, what: &str, unit: Unit, claim: Claim, found: Option<f64>) -> Finding {
    Finding::new(key, what, unit, claim).found(&[found])
}

/// Returns a finding that the paper has no claim for.
fn unclaimed(key: &str, what: &str, unit: Unit, found: Option<f64>) -> Finding {
    finding(key, what, unit, Claim::Words("–".into()), found)
}

/// Returns one run's I/Os over another's.
fn ios_over(outcomes: &[RunResult], of: &str, to: &str) -> Option<f64> {
    let ios = |name: &str| outcomes.iter().find(|outcome| outcome.name == name).map(RunResult::ios);
    let whole = ios(to).filter(|ios| *ios > 0)?;
    Some(ios(of)? as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_lab::figure::check_well_formed;
    use shoal_trace::generate::Traffic;

    struct Silent;

    impl Progress for Silent {
        fn begin(&mut self, _part: &str, _steps: u64) {}
        fn done(&mut self, _steps: u64) {}
    }

    #[test]
    fn every_reason_is_tried_and_every_finding_found() {
        let traffic = Traffic { requests: 2000, ..Traffic::default() };
        let inputs = Inputs { seed: 1, ..Inputs::new(traffic.make().expect("such traffic can be had"), 0.5) };
        let report = run(&inputs, &mut Silent).unwrap();
        check_well_formed(&report.html());
        assert_eq!(report.sections.len(), 7);
        // The few large objects of a short trace stay in memory, and nothing is left to compare.
        let is_bare = |finding: &&Finding| finding.key.starts_with("one_hand");
        for finding in
            report.sections.iter().flat_map(|section| &section.findings).filter(|finding| !is_bare(finding))
        {
            assert!(finding.found[0].is_some_and(f64::is_finite), "{}", finding.key);
        }
        let found = |key: &str| {
            let mut findings = report.sections.iter().flat_map(|section| &section.findings);
            findings.find(|finding| finding.key == key).and_then(|finding| finding.found[0]).unwrap()
        };
        assert!(found("cern_over_squid_logged_3") < found("cern_over_squid_ufs_3"));
        for system in ["ufs", "logged"] {
            assert!(found(&format!("httpd_{system}")) < found(&format!("cern_{system}")), "{system}");
        }
        assert!(
            found("transfer_read") < found("transfer_0") && found("transfer_0") < found("transfer_written")
        );
        assert!(found("future_over_fbc_again") > found("future_over_fbc_all"));
        assert!(run(&Inputs::default(), &mut Silent).is_err());
    }
}
