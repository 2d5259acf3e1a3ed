//! The shoal binary: one file a command.
//!
//! Only this crate reads arguments, environment and settings files. A command prints its output, or
//! returns a [`Failure`] with an exit code.

#![forbid(unsafe_code)]

mod admin_client;
mod check;
mod completions;
mod config;
mod configuration;
mod failure;
mod lab;
mod man;
mod model;
mod plan;
mod purge;
mod reload;
mod replay;
mod run;
mod show;
mod status;
mod store;
mod trace;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::parse().command.perform() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// A caching HTTP proxy, forward and reverse, with its cache on disk.
#[derive(Parser)]
#[command(name = "shoal", version, after_help = AFTER_HELP, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed: what is asked for could not be done
  2  bad usage or configuration; nothing was started or changed
  3  no node answers at the admin address";

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(Subcommand)]
enum Command {
    Run(run::Options),
    Check(check::Options),
    Config(config::Options),
    Status(status::Options),
    Purge(purge::Options),
    Reload(reload::Options),
    Store(store::Options),
    Replay(replay::Options),
    Trace(trace::Options),
    Plan(plan::Options),
    Lab(lab::Options),
    Model(model::Options),
    Completions(completions::Options),
    Man(man::Options),
}

impl Command {
    fn perform(self) -> Result<(), Failure> {
        match self {
            Self::Run(options) => options.perform(),
            Self::Check(options) => options.perform(),
            Self::Config(options) => options.perform(),
            Self::Status(options) => options.perform(),
            Self::Purge(options) => options.perform(),
            Self::Reload(options) => options.perform(),
            Self::Store(options) => options.perform(),
            Self::Replay(options) => options.perform(),
            Self::Trace(options) => options.perform(),
            Self::Plan(options) => options.perform(),
            Self::Lab(options) => options.perform(),
            Self::Model(options) => options.perform(),
            Self::Completions(options) => options.perform(),
            Self::Man(options) => options.perform(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }
}
