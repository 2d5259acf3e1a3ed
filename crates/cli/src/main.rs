//! The shoal binary: one file a command.
//!
//! Only this crate reads arguments, environment and settings files. A command prints its output, or
//! returns a [`Failure`] with an exit code.

#![forbid(unsafe_code)]

mod admin_client;
mod ca;
mod check;
mod cluster;
mod completions;
mod config;
mod configuration;
mod explain;
mod failure;
mod lab;
mod lock;
mod man;
mod migrate;
mod mirror;
mod model;
mod plan;
mod purge;
mod reload;
mod replay;
mod run;
mod show;
mod status;
mod store;
mod table;
mod top;
mod trace;
mod upgrade;
mod warm;

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
    command: ShoalCommand,
}

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  failed: what is asked for could not be done
  2  bad usage or configuration; nothing was started or changed
  3  no node answers at the admin address
  4  migrate: the file is written, and something is not carried over";

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(Subcommand)]
enum ShoalCommand {
    Run(run::RunOptions),
    Check(check::CheckOptions),
    Config(config::ConfigOptions),
    Status(status::StatusOptions),
    Top(top::TopOptions),
    Purge(purge::PurgeOptions),
    Cluster(cluster::ClusterOptions),
    Reload(reload::ReloadOptions),
    Upgrade(upgrade::UpgradeOptions),
    Explain(explain::ExplainOptions),
    Store(store::StoreOptions),
    Replay(replay::ReplayOptions),
    Trace(trace::TraceOptions),
    Plan(plan::PlanArguments),
    Lab(lab::LabOptions),
    Model(model::ModelOptions),
    Mirror(mirror::MirrorOptions),
    Lock(lock::LockOptions),
    Warm(warm::WarmOptions),
    Ca(ca::CaOptions),
    Migrate(migrate::MigrationOptions),
    Completions(completions::CompletionsOptions),
    Man(man::ManOptions),
}

impl ShoalCommand {
    fn perform(self) -> Result<(), Failure> {
        match self {
            Self::Run(options) => options.perform(),
            Self::Check(options) => options.perform(),
            Self::Config(options) => options.perform(),
            Self::Status(options) => options.perform(),
            Self::Top(options) => options.perform(),
            Self::Purge(options) => options.perform(),
            Self::Cluster(options) => options.perform(),
            Self::Reload(options) => options.perform(),
            Self::Upgrade(options) => options.perform(),
            Self::Explain(options) => options.perform(),
            Self::Store(options) => options.perform(),
            Self::Replay(options) => options.perform(),
            Self::Trace(options) => options.perform(),
            Self::Plan(options) => options.perform(),
            Self::Lab(options) => options.perform(),
            Self::Model(options) => options.perform(),
            Self::Mirror(options) => options.perform(),
            Self::Lock(options) => options.perform(),
            Self::Warm(options) => options.perform(),
            Self::Ca(options) => options.perform(),
            Self::Migrate(options) => options.perform(),
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
