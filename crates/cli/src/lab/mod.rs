//! `shoal lab`: experiments that can be asked again.

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

#[derive(Subcommand)]
enum Command {
    /// List the experiments: what each asks and needs
    List(list::Options),
    /// Write SPECweb99's file set to a folder
    Files(files::Options),
    /// Run an experiment and write its report to a folder
    Run(run::Options),
    /// Compute a grid of simulations and models on all cores, into tables of Parquet
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
