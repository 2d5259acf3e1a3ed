//! Transfers to the mapped file of 17 KB and not 21: search for the causes of their size.

use super::{Change, Variant, finding, outcomes, unclaimed};
use crate::maltzahn::runs::MachineRuns;
use crate::{LabError, Progress};
use shoal_lab::figure::Unit;
use shoal_lab::machine_runs::Manner;
use shoal_lab::report::{Claim, Section};
use shoal_machine1999::Machine;
use std::time::Duration;

/// Returns squidm with other cleaning intervals, pauses between requests, other memory for pages,
/// and faults that read one page.
pub fn section(runs: &MachineRuns<'_>, progress: &mut dyn Progress) -> Result<Section, LabError> {
    let mut names = vec!["as assumed".to_string()];
    let mut changes: Vec<Variation> = vec![Variation::default()];
    for seconds in INTERVALS {
        names.push(format!("cleaning every {seconds} s"));
        changes.push(Variation::machine(move |machine| {
            machine.transfers.cleaning_interval = Duration::from_secs(seconds);
        }));
    }
    for pause in PAUSES {
        names.push(format!("{pause} ms between requests"));
        let manner = Manner { pause: Duration::from_millis(pause), ..Manner::default() };
        changes.push(Variation { manner, ..Variation::default() });
    }
    for percent in MEMORIES {
        names.push(format!("{percent}% of the memory for pages"));
        changes.push(Variation::machine(move |machine| {
            let bytes = machine.memory.shared_pages() as u64 * PAGE_BYTES * percent / 100;
            *machine = machine.clone().with_shared_memory(bytes);
        }));
    }
    names.push("a fault reads one page".into());
    changes.push(Variation::machine(|machine| machine.transfers.fault_ahead = false));
    let variants: Vec<Change<'_>> =
        names.iter().map(String::as_str).zip(changes.iter().map(Variation::of)).collect();
    let outcomes = outcomes(runs, &variants, progress)?;
    let mut section = super::section(
        "transfers",
        "Transfers to the mapped file",
        "Reads are page faults, with some pages ahead; writes gather between cleanings. How large are squidm's transfers to the mapped file when \
         cleanings are rarer, when requests are, and with other memory?",
        &outcomes,
    );
    for (at, outcome) in outcomes.iter().enumerate() {
        let claim = if at == 0 { Claim::Is(21.0 * 1024.0) } else { Claim::Words("–".into()) };
        let what = format!("mean transfer, {}", outcome.name);
        let (key, mean) = (format!("transfer_{at}"), outcome.mapped.mean_bytes());
        section.findings.push(finding(&key, &what, Unit::Bytes, claim, mean));
    }
    if let Some(assumed) = outcomes.first() {
        let mapped = assumed.mapped;
        let reads = mapped.reads as f64 / mapped.count().max(1) as f64;
        section.findings.extend([
            unclaimed(
                "transfer_read",
                "mean of the reads alone, as assumed",
                Unit::Bytes,
                mapped.mean_read_bytes(),
            ),
            unclaimed(
                "transfer_written",
                "mean of the writes alone, as assumed",
                Unit::Bytes,
                mapped.mean_written_bytes(),
            ),
            unclaimed(
                "mapped_reads",
                "share of the mapped file's transfers that read, as assumed",
                Unit::Share,
                Some(reads),
            ),
        ]);
    }
    Ok(section)
}

/// One difference from the assumed machine.
#[derive(Default)]
struct Variation {
    manner: Manner,
    change: Option<Box<ChangeMachine>>,
}

impl Variation {
    fn machine(change: impl Fn(&mut Machine) + 'static) -> Self {
        Self { change: Some(Box::new(change)), ..Self::default() }
    }

    fn of(&self) -> Variant<'_> {
        let change = self.change.as_deref();
        Variant { architecture: "squidm", manner: self.manner, change, ..Variant::default() }
    }
}

type ChangeMachine = dyn Fn(&mut Machine);

/// Seconds between cleanings.
const INTERVALS: [u64; 3] = [10, 60, 120];
/// Milliseconds between requests.
const PAUSES: [u64; 2] = [20, 500];
/// Percentages of the assumed memory for pages.
const MEMORIES: [u64; 3] = [50, 200, 400];
const PAGE_BYTES: u64 = shoal_policy::PAGE_BYTES;
