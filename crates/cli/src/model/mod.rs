//! `shoal model`: the papers' models, computed for the user's numbers.

mod gms;
mod pgms;
mod specweb99;
mod wan;

use crate::failure::Failure;
use clap::Subcommand;

/// Compute a model of cooperating caches for numbers of your own
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(Subcommand)]
enum Command {
    Gms(gms::Options),
    Pgms(pgms::Options),
    Specweb99(specweb99::Options),
    Wan(wan::Options),
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            Command::Gms(options) => options.perform(),
            Command::Pgms(options) => options.perform(),
            Command::Specweb99(options) => options.perform(),
            Command::Wan(options) => options.perform(),
        }
    }
}
