//! `shoal top`: lists of a running node's greatest costs.

mod misses;

use crate::failure::Failure;

/// List the greatest costs of a running node's origins
#[derive(clap::Args)]
pub struct TopOptions {
    #[command(subcommand)]
    command: TopCommand,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(clap::Subcommand)]
enum TopCommand {
    Misses(misses::MissOptions),
}

impl TopOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            TopCommand::Misses(options) => options.perform(),
        }
    }
}
