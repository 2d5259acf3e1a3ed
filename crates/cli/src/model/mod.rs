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

#[derive(Subcommand)]
enum Command {
    /// How long pages from peers' memory take when many nodes ask few memory servers
    Gms(gms::Options),
    /// What prefetching with idle nodes' disks and memory is worth to a program that tells what it will read
    Pgms(pgms::Options),
    /// What a file cache saves a SPECweb99 server
    Specweb99(specweb99::Options),
    /// How many requests caches answer together, by the number of their clients
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
