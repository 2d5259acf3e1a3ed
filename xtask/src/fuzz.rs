//! `cargo xtask fuzz`: each fuzz target for so many seconds, from the committed seeds.
//!
//! The targets are functions of the crate in `fuzz/`, which says what each must withstand; its
//! tests replay the seeds on any toolchain. Here libFuzzer drives them with the compiler's coverage
//! counters. That needs a C++ compiler and nothing else: cargo-fuzz works too, on the same folder,
//! and adds the sanitizers of a nightly compiler.

use crate::{Outcome, workspace};
use std::path::Path;
use std::process::Command;

/// Coverage for libFuzzer: counters at every edge, comparisons traced, and debug assertions on.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions=on";
/// Coverage symbols are found only when code for one target is built apart from build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const SECONDS: u32 = 20;

/// Runs the targets named, or all.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let (seconds, named) = read(options)?;
    let known = targets(root)?;
    let chosen: Vec<&String> =
        known.iter().filter(|name| named.is_empty() || named.contains(&name.as_str())).collect();
    if let Some(unknown) = named.iter().find(|name| !known.iter().any(|known| known == *name)) {
        return Err(format!("there is no fuzz target {unknown:?}; there are {}", known.join(", ")));
    }
    if Command::new("c++").arg("--version").output().is_err() {
        return Ok("fuzz: skipped, since libFuzzer needs a C++ compiler and there is no `c++`; the seeds are replayed by `cargo test -p shoal-fuzz`".into());
    }
    let folder = root.join("target/fuzz");
    let folder =
        std::env::var_os("CARGO_TARGET_DIR").map_or(folder, |target| Path::new(&target).join("fuzz"));
    build(root, &folder)?;
    for name in &chosen {
        fuzz_one(root, &folder, name, seconds)?;
    }
    Ok(format!("fuzz: {} targets for {seconds} s each, nothing found", chosen.len()))
}

/// The seconds and the targets' names.
fn read<'a>(options: &[&'a str]) -> Result<(u32, Vec<&'a str>), String> {
    match options {
        ["--seconds", seconds, named @ ..] => {
            let seconds =
                seconds.parse().map_err(|_| format!("--seconds takes a whole number, not {seconds:?}"))?;
            Ok((seconds, named.to_vec()))
        }
        [option, ..] if option.starts_with('-') => Err(format!("fuzz knows --seconds N, not {option:?}")),
        named => Ok((SECONDS, named.to_vec())),
    }
}

/// The targets: one file each.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().strip_suffix(".rs").map(str::to_string));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

fn build(root: &Path, folder: &Path) -> Result<(), String> {
    let folder = folder.to_string_lossy();
    let arguments = [
        "build",
        "--package",
        "shoal-fuzz",
        "--features",
        "libfuzzer",
        "--bins",
        "--profile",
        "fuzz",
        "--target",
        TARGET,
        "--target-dir",
        &folder,
    ];
    match workspace::cargo(root, &arguments, &[("RUSTFLAGS", RUSTFLAGS)])? {
        true => Ok(()),
        false => Err("fuzz: the targets do not build".into()),
    }
}

fn fuzz_one(root: &Path, folder: &Path, name: &str, seconds: u32) -> Result<(), String> {
    let corpus = root.join("fuzz/corpus").join(name);
    let artifacts = root.join("fuzz/artifacts").join(name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    }
    let output = Command::new(folder.join(TARGET).join("fuzz").join(name))
        .arg(&corpus)
        .arg(root.join("fuzz/seeds").join(name))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-timeout=10", "-rss_limit_mb=2048"])
        .output()
        .map_err(|why| format!("fuzz: cannot run {name}: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!(
            "{name:<16} {:>10} inputs in {seconds} s, coverage {}",
            after(&said, "stat::number_of_executed_units:"),
            after(&said, " cov:")
        );
        return Ok(());
    }
    eprintln!("{said}");
    Err(format!(
        "fuzz: {name} failed; the input is in fuzz/artifacts/{name}. Put it into fuzz/seeds/{name}, where \
         `cargo test -p shoal-fuzz` replays it, and mend the code"
    ))
}

/// The word after the last `mark` in what libFuzzer said.
fn after<'a>(said: &'a str, mark: &str) -> &'a str {
    said.rsplit_once(mark).and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        assert_eq!(read(&[]), Ok((SECONDS, vec![])));
        assert_eq!(read(&["--seconds", "5", "head"]), Ok((5, vec!["head"])));
        assert_eq!(read(&["head"]), Ok((SECONDS, vec!["head"])));
        assert!(read(&["--seconds", "long"]).is_err());
        assert!(read(&["--hours"]).is_err());
    }

    #[test]
    fn the_last_figure_is_read() {
        let said = "#1 NEW cov: 10 ft: 3\n#2 DONE cov: 25 ft: 9\nstat::number_of_executed_units: 300\n";
        assert_eq!(after(said, " cov:"), "25");
        assert_eq!(after(said, "stat::number_of_executed_units:"), "300");
        assert_eq!(after(said, "absent"), "unknown");
    }
}
