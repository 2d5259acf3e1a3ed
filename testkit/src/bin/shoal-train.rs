//! `SHOAL_BIN=PATH shoal-train`: the load that a release is trained with, for `cargo xtask
//! release`.
//!
//! Drives the binary that `SHOAL_BIN` names as `shoal_testkit::training` describes, and prints a
//! line for each kind of request. Fails when an answer is not what it must be; what it started is
//! ended then too.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::var_os("SHOAL_BIN").is_none() {
        eprintln!("shoal-train: SHOAL_BIN has to name the binary to train");
        return ExitCode::from(2);
    }
    shoal_testkit::training::run(1, &mut |line| println!("{line}"));
    ExitCode::SUCCESS
}
