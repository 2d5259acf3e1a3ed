//! `cargo xtask deps`: directions and reasons of dependencies, and cargo-deny over all packages.
//!
//! The crate table of `docs/CRATES.md` is compared with what `cargo metadata` says of the
//! workspace for the platform that is built and measured, [`PLATFORM`].

mod deny;
mod directions;
mod metadata;
mod reasons;

use crate::Outcome;
use crate::crate_table::CrateTable;
use crate::finding::outcome;
use metadata::Metadata;
use std::path::Path;

/// The platform whose dependencies are checked, wherever the check runs.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Checks the workspace's dependencies.
pub fn run(root: &Path) -> Outcome {
    let metadata = Metadata::read(root, PLATFORM)?;
    let table = CrateTable::read(root)?;
    let manifest =
        std::fs::read_to_string(root.join("Cargo.toml")).map_err(|why| format!("Cargo.toml: {why}"))?;
    let mut findings = directions::check(&metadata, &table);
    findings.extend(reasons::check(&manifest));
    let said = outcome("deps", &format!("{} packages", metadata.packages.len()), findings)?;
    Ok(format!("{said}\n{}", deny::run(root)?))
}
