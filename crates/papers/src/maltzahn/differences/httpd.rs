//! cern beside squid. Suspected reason: CERN httpd kept fewer files than our `cern` does.

use super::{finding, logging};
use crate::maltzahn::httpd::{Lock, run};
use crate::maltzahn::paper;
use crate::maltzahn::runs::MachineRuns;
use crate::{LabError, Progress};
use shoal_lab::figure::Unit;
use shoal_lab::machine_runs::Variant;
use shoal_lab::report::{Claim, Section};
use shoal_machine1999::Machine;

/// Returns ours and the original's beside squid, on UFS and with logged metadata.
pub fn section(runs: &MachineRuns<'_>, progress: &mut dyn Progress) -> Result<Section, LabError> {
    let mut outcomes = Vec::new();
    let mut findings = Vec::new();
    for (key, system, make) in SYSTEMS {
        let change = |machine: &mut Machine| make(machine);
        let mut of = Vec::new();
        for architecture in ["squid", "cern"] {
            let name = format!("{architecture}, {system}");
            let variant = Variant { name: &name, architecture, change: Some(&change), ..Variant::default() };
            of.push(runs.infinite(&variant, progress)?);
        }
        for lock in [Lock::Apart, Lock::Renamed] {
            of.push(run(&format!("{}, {system}", lock.name()), lock, runs, &change, progress)?);
        }
        for (keyed, outcome) in ["cern", "shared_folders", "httpd"].into_iter().zip(&of[1..]) {
            let ratio = Some(outcome.ios() as f64 / of[0].ios().max(1) as f64);
            let what = format!("I/Os over squid's: {}", outcome.name);
            let claim = Claim::Words("similar".into());
            findings.push(finding(&format!("{keyed}_{key}"), &what, Unit::Ratio, claim, ratio));
        }
        let what = format!("share of I/Os that read: {}", of[3].name);
        let claim = Claim::Is(paper::READS);
        findings.push(finding(
            &format!("httpd_reads_{key}"),
            &what,
            Unit::Share,
            claim,
            Some(of[3].read_share()),
        ));
        outcomes.append(&mut of);
    }
    let mut section = super::section(
        "httpd",
        "The files of CERN httpd",
        "Our cern keeps a folder, a lock file, a metadata file and an object file for each URL. The original shared folders and metadata files among \
         the URLs of a directory, and its lock file became the object. How much of the difference is that?",
        &outcomes,
    );
    section.findings = findings;
    section.notes.push(
        "httpd 3.0 as its sources have it: two looks for the lock file and the object; on a hit the folder's metadata file is read whole, then the object; \
         on a miss each folder of the path is looked for and made where it is missing, the lock file is made, written and renamed to the object, \
         and a line goes to the end of the folder's metadata file. Names of more than 64 bytes, which httpd does not cache, are cut off here. In \
         between stands a run in which the lock file is one of its own, made and removed."
            .into(),
    );
    Ok(section)
}

/// A way of keeping metadata: its name in the key, its name in words, and its change of a machine.
type System = (&'static str, &'static str, fn(&mut Machine));

const SYSTEMS: [System; 2] = [
    ("ufs", "UFS", |_| ()),
    ("logged", "logged", |machine| logging::System { is_logged: true, metadata_percent: 7 }.make(machine)),
];
