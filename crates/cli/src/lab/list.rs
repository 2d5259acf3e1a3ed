//! `shoal lab list`: lists the experiments with their questions and inputs.

use crate::failure::Failure;
use crate::show::print;
use shoal_papers::EXPERIMENTS;
use std::fmt::Write;

/// List the experiments with their questions and inputs
#[derive(clap::Args)]
pub struct LabListOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl LabListOptions {
    pub fn perform(self) -> Result<(), Failure> {
        print(&if self.json { json() } else { render() })
    }
}

fn render() -> String {
    let mut text = String::new();
    for experiment in EXPERIMENTS {
        let _ = writeln!(
            text,
            "{}\n  asks   {}\n  needs  {}",
            experiment.name, experiment.question, experiment.needs
        );
    }
    text
}

fn json() -> String {
    let rows = EXPERIMENTS.iter().map(|experiment| {
        serde_json::json!({ "name": experiment.name, "question": experiment.question, "needs": experiment.needs })
    });
    let mut text = serde_json::Value::from_iter(rows).to_string();
    text.push('\n');
    text
}
