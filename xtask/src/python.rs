//! `cargo xtask python`: the Python package built as pip builds it, and its tests run; and the
//! benches' scripts looked over for names that do not exist.
//!
//! Everything happens in the virtual environment of [`venv`]. Packages for the tests come from the
//! package index that pip is configured for. Without Python or the index the task says so and
//! passes. The package is built unoptimised, so that most of its code is compiled already. The test
//! on a local Ray cluster takes a download and a while, and is a task of its own: `--ray`.
//!
//! ```text
//!  maturin ─► wheel ─┬─ tests:   target/wheels, unoptimised ─► pip install ─► pytest
//!                    └─ --wheel: target/packages, optimised, for users
//! ```
//!
//! A wheel holds the compiled module, so that `pip install` of a wheel copies files and takes
//! seconds. One wheel serves every Python from 3.10 on (abi3) on machines with the builder's C
//! library or a later one; its name says which.

use crate::Outcome;
use crate::venv::{self, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What builds and tests the package.
const TOOLS: &[&str] = &["maturin>=1.7,<2", "numpy", "pytest", "matplotlib", "pylint>=3,<5"];
/// What the tests on Ray need beside it.
const RAY: &[&str] = &["ray"];

/// Builds the package and runs its tests, or says why it cannot.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let (with_ray, for_users) = match options {
        [] => (false, false),
        ["--ray"] => (true, false),
        ["--wheel"] => (false, true),
        other => return Err(format!("python knows --ray and --wheel, not {other:?}")),
    };
    let python = match venv::python(root)? {
        Ok(python) => python,
        Err(why) => return Ok(skipped(why)),
    };
    let tools = [TOOLS, if with_ray { RAY } else { &[] }].concat();
    if !venv::install(root, &python, &tools)? {
        return Ok(skipped("since pip cannot fetch what the tests need"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into());
    let target = root.join(target);
    if for_users {
        let built = wheel(root, &python, "python", &target.join("packages"))?;
        return Ok(format!("python: {}", built.display()));
    }
    if !succeeds(&mut lint(root, &python)?)? {
        return Err("python: a script of bench/ has an error".into());
    }
    let built = wheel(root, &python, "dev", &target.join("wheels"))?;
    let installed = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"];
    if !succeeds(Command::new(&python).current_dir(root).args(installed).arg(&built))? {
        return Err(format!("python: {} cannot be installed", built.display()));
    }
    let marker = if with_ray { "ray" } else { "not ray" };
    let tested = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-m", marker];
    match succeeds(Command::new(&python).current_dir(root.join("python")).args(tested))? {
        true => Ok("python: built and tested".into()),
        false => Err("python: a test failed".into()),
    }
}

/// Builds the wheel in a folder, and returns its path. Wheels of earlier builds leave the folder.
fn wheel(root: &Path, python: &Path, profile: &str, into: &Path) -> Result<PathBuf, String> {
    for old in wheels(into) {
        std::fs::remove_file(&old).map_err(|why| format!("{}: {why}", old.display()))?;
    }
    let mut build = Command::new(python);
    build.current_dir(root).args(["-m", "maturin", "build", "--quiet", "--locked", "--profile", profile]);
    build.args(["--manifest-path", "python/Cargo.toml", "--out"]).arg(into);
    if !succeeds(build.env("PATH", path_with(python)))? {
        return Err("python: the package cannot be built".into());
    }
    match wheels(into).as_slice() {
        [one] => Ok(one.clone()),
        found => Err(format!("python: {} wheels in {}, not one", found.len(), into.display())),
    }
}

/// Returns the package's wheels in a folder.
fn wheels(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| is_wheel(path)).collect()
}

fn is_wheel(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    name.starts_with("shoal-") && name.ends_with(".whl")
}

/// Finds what would fail only after minutes of a bench: names and arguments that are not there,
/// also those of the scripts' own modules. What a bench imports beside the standard library it asks
/// for itself.
fn lint(root: &Path, python: &Path) -> Result<Command, String> {
    let folder = root.join("bench");
    let mut command = Command::new(python);
    command.args(["-B", "-m", "pylint", "--errors-only", "--disable=import-error", "--score=n"]);
    for entry in std::fs::read_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))? {
        let path = entry.map_err(|why| format!("{}: {why}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            command.arg(path);
        }
    }
    command.current_dir(folder);
    Ok(command)
}

/// The search path with the environment's programs first: pip calls maturin by its name.
fn path_with(python: &Path) -> std::ffi::OsString {
    let mut path = python.parent().unwrap_or(Path::new("")).as_os_str().to_owned();
    if let Some(before) = std::env::var_os("PATH") {
        path.push(":");
        path.push(before);
    }
    path
}

fn skipped(why: &str) -> String {
    format!("python: SKIPPED, {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_refused() {
        assert!(run(Path::new("."), &["--spark"]).is_err_and(|why| why.contains("--spark")));
    }

    #[test]
    fn only_own_wheels_are_replaced() {
        assert!(is_wheel(Path::new("packages/shoal-0.1.0-cp310-abi3-linux_x86_64.whl")));
        for other in ["numpy-2.0.whl", "shoal_0.1.0_amd64.deb", "shoal-0.1.0-chart.tar.gz", ""] {
            assert!(!is_wheel(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn the_environments_programs_come_first() {
        let path = path_with(Path::new("venv/bin/python"));
        assert!(path.to_string_lossy().starts_with("venv/bin:"), "{path:?}");
    }
}
