//! 64% of hits in the first quarter of the file, not 70. Suspected reason: the length of the trace,
//! over which the popular objects change.

use super::{finding, unclaimed};
use crate::maltzahn::paper;
use crate::{Inputs, Workload};
use shoal_lab::figure::Unit;
use shoal_lab::machine_runs::Placement;
use shoal_lab::report::{Claim, Section, Table};

/// Returns Figure 6 over ever shorter parts of the trace, each with its own warm-up.
pub fn section(inputs: &Inputs) -> Section {
    let warm_up = inputs.workload.warm_up as f64 / inputs.workload.requests.len().max(1) as f64;
    let mut section = Section {
        anchor: "popularity".into(),
        title: "Hits in the first quarter of the file".into(),
        question: "The trace is cut into equal parts, each taken as a trace of its own. Do more of the hits go to what was missed first when the \
                   time is shorter?"
            .into(),
        ..Section::default()
    };
    let mut table = Table::new(
        "Parts of the trace",
        &[
            "parts",
            "days, on average",
            "measured requests of one",
            "first quarter, on average",
            "least",
            "most",
        ],
    );
    for parts in PARTS {
        let Some(found) = Quarters::of(&inputs.workload, parts, warm_up) else { break };
        table.row(&[
            &parts.to_string(),
            &format!("{:.1}", found.days),
            &Unit::Count.shown(found.measured),
            &Unit::Share.shown(found.share),
            &Unit::Share.shown(found.least),
            &Unit::Share.shown(found.most),
        ]);
        let what = format!("hits in the first quarter, {parts} parts of {:.1} days", found.days);
        let key = format!("first_quarter_{parts}");
        if parts == 1 {
            let claim = Claim::Is(paper::FIRST_QUARTER);
            section.findings.push(finding(&key, &what, Unit::Share, claim, Some(found.share)));
            continue;
        }
        section.findings.push(unclaimed(&key, &what, Unit::Share, Some(found.share)));
        let least = unclaimed(&format!("{key}_least"), "of these the least", Unit::Share, Some(found.least));
        section.findings.push(least);
    }
    section.tables.push(table);
    section
}

/// Means over the parts of a trace, with the least and the greatest share.
struct Quarters {
    days: f64,
    measured: f64,
    share: f64,
    least: f64,
    most: f64,
}

impl Quarters {
    /// Computes them; `None` when the parts are too short.
    fn of(workload: &Workload, parts: usize, warm_up: f64) -> Option<Self> {
        let length = workload.requests.len() / parts;
        let mut sums = Self { days: 0.0, measured: 0.0, share: 0.0, least: 1.0, most: 0.0 };
        for requests in workload.requests.chunks_exact(length.max(1)).take(parts) {
            let part = Workload {
                requests: requests.to_vec(),
                warm_up: (length as f64 * warm_up) as usize,
                ..*workload
            };
            let (first, last) = (requests.first()?, requests.last()?);
            if part.measured().len() < LEAST_MEASURED {
                return None;
            }
            sums.days += last.milliseconds.saturating_sub(first.milliseconds) as f64 / MILLISECONDS_A_DAY;
            sums.measured += part.measured().len() as f64;
            let share = Placement::aligned(&part).hit_distribution(&part)[24];
            (sums.share, sums.least, sums.most) =
                (sums.share + share, sums.least.min(share), sums.most.max(share));
        }
        let mean = |sum: f64| sum / parts as f64;
        let (days, measured, share) = (mean(sums.days), mean(sums.measured), mean(sums.share));
        Some(Self { days, measured, share, ..sums })
    }
}

/// Numbers of parts into which the trace is cut.
const PARTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Least measured requests: fewer make no distribution.
const LEAST_MEASURED: usize = 400;
const MILLISECONDS_A_DAY: f64 = 86_400_000.0;
