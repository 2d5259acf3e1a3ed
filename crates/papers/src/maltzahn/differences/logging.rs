//! cern beside squid, and the share of reads. Suspected reason: Figure 4 was measured on a file
//! system that logs its metadata.

use super::{Variant, finding, ios_over};
use crate::maltzahn::paper;
use crate::maltzahn::runs::MachineRuns;
use crate::{LabError, Progress};
use shoal_lab::figure::Unit;
use shoal_lab::report::{Claim, Section};
use shoal_machine1999::{Machine, MetadataWrites};

/// Returns the two on UFS, with logged metadata, and with more of the metadata in memory besides.
pub fn section(runs: &MachineRuns<'_>, progress: &mut dyn Progress) -> Result<Section, LabError> {
    let mut outcomes = Vec::new();
    for system in SYSTEMS {
        let change = move |machine: &mut Machine| system.make(machine);
        for architecture in ["cern", "squid"] {
            let name = format!("{architecture}, {}", system.name());
            let variant = Variant { name: &name, architecture, change: Some(&change), ..Variant::default() };
            outcomes.push(runs.infinite(&variant, progress)?);
        }
    }
    let mut section = super::section(
        "logging",
        "Reads, and cern beside squid",
        "The paper counted cern and squid on AdvFS, which logs its metadata, and found them alike and a third of I/Os to be reads. What does a \
         log make of them here, and what memory for metadata?",
        &outcomes,
    );
    for (system, runs) in SYSTEMS.iter().zip(outcomes.chunks_exact(2)) {
        let (key, name) = (system.key(), system.name());
        let ratio = ios_over(runs, &runs[0].name, &runs[1].name);
        let claim = Claim::Words("similar".into());
        let what = format!("cern's I/Os over squid's: {name}");
        section.findings.push(finding(&format!("cern_over_squid_{key}"), &what, Unit::Ratio, claim, ratio));
        for (run, architecture) in runs.iter().zip(["cern", "squid"]) {
            let what = format!("{architecture}: share of I/Os that read: {name}");
            let (key, claim) = (format!("{architecture}_reads_{key}"), Claim::Is(paper::READS));
            section.findings.push(finding(&key, &what, Unit::Share, claim, Some(run.read_share())));
        }
    }
    section.notes.push(format!(
        "A change takes {CHANGE_BYTES} bytes of the log, an assumption. UFS has 3% of memory for metadata; AdvFS 7%. Directories and inodes stay \
         UFS's: AdvFS has one table for all inodes of a disk, which is not modelled."
    ));
    Ok(section)
}

/// Way of keeping metadata.
#[derive(Clone, Copy)]
pub struct System {
    /// `true` if changes of metadata go to a log.
    pub is_logged: bool,
    /// Percentage of memory for metadata; UFS has 3.
    pub metadata_percent: u64,
}

impl System {
    /// AdvFS as far as it is modelled.
    pub const ADVFS: Self = Self { is_logged: true, metadata_percent: 7 };

    /// Changes a machine with UFS.
    pub fn make(self, machine: &mut Machine) {
        if self.is_logged {
            machine.file_system.metadata_writes = MetadataWrites::Logged { change_bytes: CHANGE_BYTES };
        }
        machine.memory.metadata = machine.memory.metadata * self.metadata_percent / 3;
    }

    fn key(self) -> String {
        format!("{}_{}", if self.is_logged { "logged" } else { "ufs" }, self.metadata_percent)
    }

    fn name(self) -> String {
        let writes = if self.is_logged { "logged" } else { "UFS" };
        format!("{writes}, {}% for metadata", self.metadata_percent)
    }
}

const SYSTEMS: [System; 6] = {
    const fn of(is_logged: bool, metadata_percent: u64) -> System {
        System { is_logged, metadata_percent }
    }
    [of(false, 3), of(false, 7), of(true, 3), of(true, 7), of(true, 15), of(true, 30)]
};
/// Bytes in the log of a change of an inode, an entry or a map.
const CHANGE_BYTES: u32 = 512;
