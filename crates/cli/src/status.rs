//! `shoal status`: is all well? A verdict on a running node, its reasons, and its figures.

mod health;
mod look;
mod render;
mod sites;
mod verdict;

use crate::admin_client::NodeOptions;
use crate::failure::Failure;
use crate::finding::{Finding, end_unmade, worst};
use crate::show::print;
use health::HealthKind;
use look::NodeLook;
use serde_json::{Value, json};
use std::time::Duration;

pub use look::NodeLook as StatusLook;
pub use verdict::judge;

/// Tell whether all is well with a running node, and show its figures
///
/// The first line is the verdict: well, degraded (clients are served, and something needs a hand)
/// or bad (clients are not served, or soon will not be). Each reason follows with its remedy.
///
/// Exit codes are those of monitoring plugins: 0 well, 1 degraded, 2 bad or no answer, 3 unknown,
/// since the node cannot be asked this way (user, certificate, settings).
#[derive(clap::Args)]
pub struct StatusOptions {
    #[command(flatten)]
    node: NodeOptions,
    /// Show all sites, not only those with most requests
    #[arg(long)]
    all: bool,
    /// Print the node's own JSON, and `verdict`, `code` and `findings` in it
    #[arg(long)]
    json: bool,
    /// Ask /healthz alone, which needs no user and reveals one word: exit code 0 or 1. The
    /// certificate is not checked. For health checks of containers
    #[arg(long, value_enum, value_name = "KIND", num_args = 0..=1, require_equals = true,
          default_missing_value = "ready", conflicts_with_all = ["all", "json"])]
    health: Option<HealthKind>,
    /// Longest wait for an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=300))]
    timeout: u64,
}

impl StatusOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.health {
            Some(health) => self.check_health(health),
            None => self.tell().or_else(|failure| end_unmade(failure, self.json)),
        }
    }

    fn check_health(&self, health: HealthKind) -> Result<(), Failure> {
        health.check(&self.node.node_unchecked()?.with_patience(self.patience()))
    }

    fn tell(&self) -> Result<(), Failure> {
        let look = NodeLook::at(&self.node.node()?.with_patience(self.patience()))?;
        let findings = judge(&look);
        match self.json {
            true => print(&format!("{}\n", as_json(&look, &findings)))?,
            false => print(&render::screen(&look, &findings, self.all))?,
        }
        worst(&findings).end()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

fn as_json(look: &NodeLook, findings: &[Finding]) -> Value {
    let level = worst(findings);
    let mut value = json!({
        "verdict": level.verdict(),
        "code": level.code(),
        "findings": findings.iter().map(Finding::as_json).collect::<Vec<_>>(),
    });
    if let (Value::Object(value), Value::Object(own)) = (&mut value, &look.status_json) {
        value.extend(own.iter().map(|(name, own)| (name.clone(), own.clone())));
    }
    value
}
