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
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(Subcommand)]
enum Command {
    List(list::Options),
    Files(files::Options),
    Run(run::Options),
    Sweep(sweep::Options),
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            Command::List(options) => options.perform(),
            Command::Files(options) => options.perform(),
            Command::Run(options) => options.perform(),
            Command::Sweep(options) => options.perform(),
        }
    }
}
