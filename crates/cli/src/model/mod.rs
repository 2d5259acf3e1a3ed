//! `shoal model`: the papers' formulas, answered for numbers of one's own.

mod gms;
mod pgms;
mod specweb99;
mod wan;

use crate::failure::Failure;
use clap::Subcommand;

/// Work out a model of cooperating caches for numbers of your own
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

// Without words of their own the commands have those of their options, long help with them.
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
