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
mod doctor;
mod explain;
mod failure;
mod finding;
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
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    match arguments.command.perform() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Prints help, or a mistake of the command line. The mistake of a check leaves its result unknown.
fn refused(error: &clap::Error) -> ExitCode {
    // If nothing can be printed, the caller still gets the exit code.
    let _ = error.print();
    let is_check = std::env::args_os().nth(1).is_some_and(|name| name == "status" || name == "doctor");
    match error.exit_code() {
        2 if is_check => ExitCode::from(finding::UNKNOWN),
        code => ExitCode::from(u8::try_from(code).unwrap_or(2)),
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
  4  migrate: the file is written, and something is not carried over
status and doctor, as monitoring plugins:
  0  well
  1  degraded: clients are served, and something needs a hand
  2  bad, or no answer
  3  unknown: the check could not be made";

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(Subcommand)]
enum ShoalCommand {
    Run(run::RunOptions),
    Check(check::CheckOptions),
    Config(config::ConfigOptions),
    Status(status::StatusOptions),
    Doctor(doctor::DoctorOptions),
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
            Self::Doctor(options) => options.perform(),
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
