//! `shoal lab`: reproducible experiments.

mod files;
mod list;
mod measured;
mod run;
mod sweep;
pub mod telling;

use crate::failure::Failure;
use clap::Subcommand;

/// Ask questions of a trace: list the experiments, run one, compute a grid of simulations
#[derive(clap::Args)]
pub struct LabOptions {
    #[command(subcommand)]
    command: LabCommand,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(Subcommand)]
enum LabCommand {
    List(list::LabListOptions),
    Files(files::LabFilesOptions),
    Run(run::LabRunOptions),
    Sweep(sweep::LabSweepOptions),
}

impl LabOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            LabCommand::List(options) => options.perform(),
            LabCommand::Files(options) => options.perform(),
            LabCommand::Run(options) => options.perform(),
            LabCommand::Sweep(options) => options.perform(),
        }
    }
}
