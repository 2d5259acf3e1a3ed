//! `shoal model`: the papers' models, computed for the user's numbers.

mod gms;
mod pgms;
mod specweb99;
mod wan;

use crate::failure::Failure;
use clap::Subcommand;

/// Compute a model of cooperating caches for numbers of your own
#[derive(clap::Args)]
pub struct ModelOptions {
    #[command(subcommand)]
    command: ModelCommand,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(Subcommand)]
enum ModelCommand {
    Gms(gms::ModelGmsOptions),
    Pgms(pgms::ModelPgmsOptions),
    Specweb99(specweb99::ModelSpecweb99Options),
    Wan(wan::ModelWanOptions),
}

impl ModelOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            ModelCommand::Gms(options) => options.perform(),
            ModelCommand::Pgms(options) => options.perform(),
            ModelCommand::Specweb99(options) => options.perform(),
            ModelCommand::Wan(options) => options.perform(),
        }
    }
}
