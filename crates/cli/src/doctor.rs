//! `shoal doctor`: is this machine fit for a node with these settings, and is the running one well?
//!
//! ```text
//! gather, ports ─► Facts ─► judge ─► findings ─► one line each
//! ```
//!
//! `judge` decides by facts alone, so that tests feed it facts.

mod facts;
mod gather;
mod judge;
mod ports;

use crate::admin_client::{AdminNode, NodeOptions};
use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::finding::{Finding, end_unmade, worst};
use crate::show::{self, print};
use serde_json::json;
use shoal_settings::Settings;
use std::time::Duration;

/// Examine this machine for a node: limits, memory, disks, kernel, clock, DNS, files, ports
///
/// Reads the settings as `shoal run` would, starts nothing and changes nothing. Each line has a
/// level (ok, warn, bad), a finding and a remedy. A running node is asked too: its limits and its
/// user are then judged, not those of this shell.
///
/// Exit codes are those of monitoring plugins: 0 well, 1 something needs a hand, 2 something is
/// bad, 3 the settings cannot be read.
#[derive(clap::Args)]
pub struct DoctorOptions {
    #[command(flatten)]
    node: NodeOptions,
    /// Do not ask a running node
    #[arg(long)]
    offline: bool,
    /// Leave out lines that are in order
    #[arg(long, short)]
    quiet: bool,
    /// Print {"verdict": …, "code": …, "findings": […]}
    #[arg(long)]
    json: bool,
}

impl DoctorOptions {
    pub fn perform(self) -> Result<(), Failure> {
        self.examine().or_else(|failure| end_unmade(failure, self.json))
    }

    fn examine(&self) -> Result<(), Failure> {
        let configuration = Configuration::find(self.node.config.clone());
        let (settings, mut findings) = settings(&configuration)?;
        let node = self.node(&settings)?;
        let facts = gather::gather(&settings, configuration.file.as_deref(), node.as_ref());
        findings.extend(judge::judge(&settings, &facts));
        debug_assert!(findings.iter().all(|finding| !finding.text.contains('\n')), "a finding is a line");
        self.tell(&findings)?;
        worst(&findings).end()
    }

    /// Returns the way to the running node. One on another machine says nothing of this one.
    fn node(&self, settings: &Settings) -> Result<Option<AdminNode>, Failure> {
        if self.offline || (settings.admin.listen.is_none() && self.node.admin.admin.is_none()) {
            return Ok(None);
        }
        let node = self.node.node()?.with_patience(PATIENCE);
        match node.url().is_here() {
            true => Ok(Some(node)),
            false => {
                let why = format!("{node} is another machine's: run the doctor there, or with --offline");
                Err(Failure::Usage(why))
            }
        }
    }

    fn tell(&self, findings: &[Finding]) -> Result<(), Failure> {
        let level = worst(findings);
        if self.json {
            let findings: Vec<_> = findings.iter().map(Finding::as_json).collect();
            let value = json!({ "verdict": level.verdict(), "code": level.code(), "findings": findings });
            return print(&format!("{value}\n"));
        }
        let count =
            |name: &str| findings.iter().filter(|finding| finding.level.name() == name).count() as u64;
        let (bad, warn) = (count("bad"), count("warn"));
        let shown = findings.iter().filter(|finding| !self.quiet || finding.level.code() > 0);
        let lines: String = shown.map(Finding::line).collect();
        print(&format!(
            "{}: {} bad, {}, {} in order\n{lines}",
            level.verdict(),
            show::count(bad),
            show::counted(warn, "warning"),
            show::count(findings.len() as u64 - bad - warn)
        ))
    }
}

/// Reads the settings. Mistakes that keep a node from starting are findings, as long as the other
/// settings can be judged.
fn settings(configuration: &Configuration) -> Result<(Settings, Vec<Finding>), Failure> {
    let file =
        configuration.file.as_ref().map_or("the built-in ones".into(), |file| file.display().to_string());
    let mistakes = match configuration.load() {
        Ok(settings) => {
            return Ok((settings, vec![Finding::ok(format!("settings: {file}: no mistakes"))]));
        }
        Err(Failure::Configuration(mistakes)) => mistakes,
        Err(failure) => return Err(failure),
    };
    let settings = configuration.load_alone()?;
    let of_mistake = |mistake: &shoal_settings::Mistake| {
        Finding::bad(format!("settings: {mistake}").replace('\n', " "), "`shoal check` tells the same")
    };
    Ok((settings, mistakes.iter().map(of_mistake).collect()))
}

/// Longest wait for an answer of the node.
const PATIENCE: Duration = Duration::from_secs(10);
