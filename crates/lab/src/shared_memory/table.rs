//! The comparison as text.

use super::{FleetOutcome, FleetSettings, FleetSource};
use std::fmt::Write as _;

/// Returns a table: memory apart, shared, and in one node.
pub fn fleet_text(settings: &FleetSettings, [apart, shared, one]: [&FleetOutcome; 3]) -> String {
    let mut text = format!(
        "Shared memory of {} nodes, {:.1} MiB of RAM each; {} requests counted, {} to warm up\n",
        settings.nodes,
        settings.ram_bytes as f64 / f64::from(1 << 20),
        apart.requests,
        settings.warm_up
    );
    let mut row = |name: &str, cells: [String; 3]| {
        let [first, second, third] = cells;
        let _ = writeln!(text, "  {name:<44}{first:>10}{second:>10}{third:>10}");
    };
    row("", ["apart".into(), "shared".into(), "one node".into()]);
    let all = [apart, shared, one];
    row("RAM hits", all.map(|of| format!("{:.1}%", of.ram_hit_ratio() * 100.0)));
    row("disk reads", all.map(|of| of.disk_reads().to_string()));
    for (source, name) in SOURCES {
        if all.iter().any(|of| of.of(source) > 0) {
            row(&format!("  {name}"), all.map(|of| of.of(source).to_string()));
        }
    }
    row("pages put", all.map(|of| of.pages_put.to_string()));
    row("different objects in memory", all.map(|of| of.distinct.0.to_string()));
    text + &verdict(apart, shared)
}

/// Returns the answer in a line.
fn verdict(apart: &FleetOutcome, shared: &FleetOutcome) -> String {
    let (before, after) = (apart.disk_reads(), shared.disk_reads());
    let saved = before.saturating_sub(after) as f64 / before.max(1) as f64;
    let points = (shared.ram_hit_ratio() - apart.ram_hit_ratio()) * 100.0;
    let answer = if points >= WORTH_POINTS { "Worth a try" } else { "Not worth it" };
    format!(
        "{answer}: {:.0}% of the disk reads saved, {points:.1} points more RAM hits.\nIt pays if the disk is slower than a peer.\n",
        saved * 100.0
    )
}

/// Sources, with their words.
const SOURCES: [(FleetSource, &str); 9] = [
    (FleetSource::Ram, "from the RAM of the asked node"),
    (FleetSource::PeerRam, "from the RAM of the node that has it"),
    (FleetSource::Page, "from a page at another node"),
    (FleetSource::DiskUnwanted, "disk: no node had older memory"),
    (FleetSource::DiskDeclined, "disk: the page was declined"),
    (FleetSource::DiskGivenUp, "disk: the page was given up"),
    (FleetSource::DiskAlone, "disk: memory is not shared, or too large"),
    (FleetSource::OriginFirst, "origin: the first request"),
    (FleetSource::OriginAgain, "origin: digests did not tell yet"),
];

/// Points of RAM hit ratio from which the work of pages is worth it.
const WORTH_POINTS: f64 = 1.0;
