//! Additions of the store that the paper's files did not have: headers, keys, checksums.

use super::{Change, Variant, outcomes, unclaimed};
use crate::maltzahn::runs::MachineRuns;
use crate::{LabError, Progress};
use shoal_lab::figure::Unit;
use shoal_lab::machine_runs::Manner;
use shoal_lab::report::Section;

/// Returns each architecture with the trace's sizes as those of whole records, and as those of
/// bodies.
pub fn section(runs: &MachineRuns<'_>, progress: &mut dyn Progress) -> Result<Section, LabError> {
    let bodies = Manner { bodies: true, ..Manner::default() };
    let names = ARCHITECTURES.map(|name| (name, format!("{name}, with records on top")));
    let changes: Vec<Change<'_>> = names
        .iter()
        .flat_map(|(architecture, on_top)| {
            let whole = Variant { architecture, ..Variant::default() };
            [(*architecture, whole.clone()), (on_top.as_str(), Variant { manner: bodies, ..whole })]
        })
        .collect();
    let outcomes = outcomes(runs, &changes, progress)?;
    let mut section = super::section(
        "records",
        "Records of the store",
        "In all other runs an object with everything that the store adds (80 bytes of header, 8 of checksum, the URL, 16 of metadata) is as large as \
         the trace says. What does it cost when that comes on top?",
        &outcomes,
    );
    for (name, on_top) in &names {
        let found = super::ios_over(&outcomes, on_top, name);
        let what = format!("{name}: I/Os with records on top of the trace's sizes over those without");
        section.findings.push(unclaimed(&format!("{name}_records"), &what, Unit::Ratio, found));
    }
    Ok(section)
}

const ARCHITECTURES: [&str; 4] = ["squid", "squidl", "squidm", "squidmla"];
