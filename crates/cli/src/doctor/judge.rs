//! Findings of `shoal doctor`: facts and settings in, findings out, and nothing else.

mod disks;
mod files;
mod network;
mod system;
#[cfg(test)]
mod tests;

use super::facts::{Facts, NodeFact};
use crate::finding::Finding;
use shoal_settings::Settings;

pub(super) use network::LOOKUP;

/// Returns a finding for each thing looked at, in the order of the report.
pub fn judge(settings: &Settings, facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![system::open_files(settings, &facts.open_files)];
    findings.extend(system::memory(settings, &facts.memory));
    findings.extend(system::clock(&facts.clock));
    findings.extend(disks::disks(settings, &facts.disks));
    findings.extend(files::files(&facts.files, &facts.user));
    findings.extend(network::kernel(settings, &facts.kernel));
    findings.extend(network::names(&facts.names));
    let is_unasked = matches!(facts.node, NodeFact::NotAsked | NodeFact::Refused { .. });
    findings.extend(network::ports(&facts.ports, is_unasked));
    findings.extend(network::admin(settings));
    findings.extend(node(&facts.node));
    debug_assert!(!findings.is_empty(), "open files are always judged");
    findings
}

fn node(node: &NodeFact) -> Vec<Finding> {
    match node {
        NodeFact::NotAsked => Vec::new(),
        NodeFact::NoAddress => vec![Finding::warn(
            "no node can be asked: the settings have no admin listener",
            "set admin.listen; `status`, `purge`, `reload` and metrics need it",
        )],
        NodeFact::Silent { at, why } => {
            vec![Finding::ok(format!("no node runs at {at} ({why}); its state is not judged"))]
        }
        NodeFact::Refused { why } => {
            vec![Finding::warn(
                format!("the running node is not judged: {why}"),
                "name a user and the certificate",
            )]
        }
        NodeFact::Answers { at, status, findings } if findings.is_empty() => {
            vec![Finding::ok(format!(
                "the node at {at} is well: shoal {}, {}",
                status.version,
                status.readiness.name()
            ))]
        }
        NodeFact::Answers { findings, .. } => findings
            .iter()
            .map(|finding| Finding { text: format!("running node: {}", finding.text), ..finding.clone() })
            .collect(),
    }
}
