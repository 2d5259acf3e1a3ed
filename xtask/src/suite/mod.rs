//! `cargo xtask tests`: every test of the workspace, two test programs at a time.
//!
//! Many tests wait for sockets and disks, others compute. A program of each sort runs beside one of
//! the other, so that the machine is never idle. The longest begin first, by their times in the run
//! before ([`times`]), so that no lane ends much later than the other. A failed test runs again by itself, when all
//! others have ended: it must pass twice in a row. A test that does so is reported as unsteady and
//! deserves mending; `--strict` counts it as failed.

mod lanes;
mod program;
mod results;
mod times;

use crate::{Outcome, workspace};
use results::Results;
use std::path::Path;
use std::time::{Duration, Instant};

/// Builds and runs all tests, then the examples of the documentation.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let strict = match options {
        [] => false,
        ["--strict"] => true,
        other => return Err(format!("tests knows --strict, not {other:?}")),
    };
    let built = Instant::now();
    if !workspace::cargo(root, &["build", "--package", "shoal", "--locked"], &[])? {
        return Err("tests: the binary does not build".into());
    }
    let programs = program::build_all(root)?;
    println!("tests: {} programs built in {:.0} s", programs.len(), built.elapsed().as_secs_f64());
    let mut lines = Vec::new();
    let mut failed = Vec::new();
    let known = times::read(root);
    let all = lanes::run_all(times::longest_first(programs, &known));
    times::write(root, &known, &all);
    lines.push(slowest(&all));
    for results in all.iter().filter(|results| !results.passed) {
        for (name, steady) in again(results) {
            match steady && !strict {
                true => lines.push(format!("UNSTEADY: {name} failed once, then passed twice by itself")),
                false => failed.push(name),
            }
        }
    }
    if !workspace::cargo(root, &["test", "--workspace", "--locked", "--doc", "--quiet"], &[])? {
        failed.push("examples of the documentation".into());
    }
    if failed.is_empty() {
        let count: usize = all.iter().map(|results| results.passed_tests).sum();
        lines.push(format!("tests: {count} passed"));
        return Ok(lines.join("\n"));
    }
    lines.extend(failed.iter().map(|name| format!("FAILED: {name}")));
    Err(lines.join("\n"))
}

/// Runs the failed tests of a program again, one by one. Gives each with its steadiness.
fn again(results: &Results) -> Vec<(String, bool)> {
    let program = &results.program;
    if results.failed_tests.is_empty() {
        // The program broke off, or has a harness of its own.
        return vec![(program.name.clone(), (0..RERUNS).all(|_| show(program.run(&[])).passed))];
    }
    let rerun = |test: &String| {
        println!("\n==> again: {} {test}", program.name);
        let passes = (0..RERUNS).all(|_| show(program.run(&["--exact", test, "--nocapture"])).passed);
        (format!("{}: {test}", program.name), passes)
    };
    results.failed_tests.iter().map(rerun).collect()
}

fn show(results: Results) -> Results {
    println!("{}", results.output);
    results
}

/// A line with the programs that took longest.
fn slowest(all: &[Results]) -> String {
    let mut times: Vec<(Duration, &str)> =
        all.iter().map(|results| (results.took, results.program.name.as_str())).collect();
    times.sort_by(|a, b| b.cmp(a));
    let longest: Vec<String> =
        times.iter().take(SHOWN).map(|(took, name)| format!("{name} {:.0} s", took.as_secs_f64())).collect();
    format!("tests: longest: {}", longest.join(", "))
}

/// Runs that a failed test must pass by itself, one after the other.
const RERUNS: u32 = 2;
/// Programs named with their times.
const SHOWN: usize = 8;
