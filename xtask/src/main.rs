//! Project tasks: `cargo xtask ci` and its parts.
//!
//! `ci` is the one command that says whether a change may go in, here and in continuous
//! integration. Its rules are data: the crate table of `docs/CRATES.md` ([`crate_table`]),
//! the tables of bans in [`tidy`], and the excuses with their reasons in `xtask/exceptions.toml`
//! ([`exceptions`]).

#![forbid(unsafe_code)]

mod ci;
mod crate_table;
mod deps;
mod exceptions;
mod finding;
mod fuzz;
mod house;
mod instructions;
mod package;
mod python;
mod quick;
mod release;
mod simulate;
mod suite;
mod tidy;
mod venv;
mod workspace;

use std::process::ExitCode;

/// What a task says when it went well, or what is wrong and what to do about it.
type Outcome = Result<String, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Outcome {
    let root = workspace::root();
    match arguments {
        ["ci", options @ ..] => ci::run(&root, options),
        ["tidy"] => tidy::run(&root),
        ["deps"] => deps::run(&root),
        ["fuzz", options @ ..] => fuzz::run(&root, options),
        ["house", options @ ..] => house::run(&root, options),
        ["instructions", options @ ..] => instructions::run(&root, options),
        ["package", options @ ..] => package::run(&root, options),
        ["python", options @ ..] => python::run(&root, options),
        ["quick", options @ ..] => quick::run(&root, options),
        ["tests", options @ ..] => suite::run(&root, options),
        ["release", options @ ..] => release::run(&root, options),
        ["simulate", options @ ..] => simulate::run(&root, options),
        [] | ["help" | "--help" | "-h"] => Ok(USAGE.into()),
        [unknown, ..] => Err(format!("there is no task {unknown:?}\n\n{USAGE}")),
    }
}

const USAGE: &str = "\
cargo xtask ci [--keep-going]   everything a change must pass; stops at the first failure unless told to go on
cargo xtask tidy                the rules of the house over the sources and docs
cargo xtask deps                the crate table, the reasons of dependencies, and cargo-deny (deny.toml): licences, sources, versions, advisories
cargo xtask fuzz [--seconds N] [TARGET…]   each fuzz target for N seconds (20), starting from fuzz/seeds
cargo xtask house [--lower]     how plainly comments, names and pages speak, beside the limits in xtask/house.toml
cargo xtask instructions [--renew]   instructions per hit, against bench/instructions.txt (needs valgrind)
cargo xtask package [--twice]   what users install, in target/packages: Debian package, archives, chart, bill of materials
cargo xtask package --trained   the same, with the host's binary laid out by a profile; three builds (needs llvm-profdata)
cargo xtask python [--ray]      the Python package built and tested; with --ray on a local Ray cluster (needs python3, pip, its index)
cargo xtask python --wheel      the Python package as a wheel in target/packages, which pip installs in seconds
cargo xtask quick [BASE]        format, clippy and unit tests of crates that differ from BASE (HEAD), and of dependents
cargo xtask release             the release build laid out by a profile, in target/release-profiled/shoal; two release builds (needs llvm-profdata)
cargo xtask simulate [--seeds N] [--events N] [--threads N] [--levels] [--state FILE]   clusters in virtual time under each fault; continues where it stopped
cargo xtask tests [--strict]    every test, two programs at a time; failed ones again by themselves";
