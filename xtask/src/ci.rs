//! `cargo xtask ci`: every check in order of its cost, each with its time, and a summary.
//!
//! What a step prints is passed on as it comes; the tests run last, so that their results stand at
//! the end.

use crate::{Outcome, deps, instructions, python, suite, tidy, workspace};
use std::path::Path;
use std::time::{Duration, Instant};

/// One check.
struct Step {
    name: &'static str,
    does: Does,
    /// What to do when it fails.
    remedy: &'static str,
}

/// How a step is done.
enum Does {
    /// By a task of this crate.
    Task(fn(&Path) -> Outcome),
    /// By cargo, with these arguments and environment.
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
}

const STEPS: &[Step] = &[
    Step {
        name: "format",
        does: Does::Cargo(&["fmt", "--all", "--check"], &[]),
        remedy: "run `cargo fmt --all`",
    },
    Step {
        name: "tidy",
        does: Does::Task(tidy::run),
        remedy: "each line above says where and what to do instead",
    },
    Step {
        name: "deps",
        does: Does::Task(deps::run),
        remedy: "each line above says where and what to do instead",
    },
    Step {
        name: "clippy",
        does: Does::Cargo(
            &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
            &[],
        ),
        remedy: "put right what clippy says; `cargo clippy --fix` does some of it",
    },
    Step {
        name: "docs",
        does: Does::Cargo(
            &["doc", "--workspace", "--no-deps", "--locked"],
            &[("RUSTDOCFLAGS", "-D warnings")],
        ),
        remedy: "put right what rustdoc says",
    },
    Step {
        name: "binary",
        does: Does::Cargo(&["build", "--package", "shoal", "--locked"], &[]),
        remedy: "put right what the compiler says",
    },
    Step {
        name: "instructions",
        does: Does::Task(|root| instructions::run(root, &[])),
        remedy: "look with callgrind where they went; `cargo xtask instructions --renew` when they are worth it",
    },
    Step {
        name: "python",
        does: Does::Task(|root| python::run(root, &[])),
        remedy: "run `cargo xtask python`, or `pip install ./python` and pytest in an environment of your own",
    },
    Step {
        name: "tests",
        does: Does::Task(|root| suite::run(root, &[])),
        remedy: "run the failing package alone: `cargo test -p PACKAGE NAME`",
    },
];

/// Runs every step; stops at the first that fails unless the options say `--keep-going`.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let keep_going = match options {
        [] => false,
        ["--keep-going"] => true,
        other => return Err(format!("ci knows --keep-going, not {other:?}")),
    };
    let started = Instant::now();
    let mut results: Vec<(&Step, bool, Duration)> = Vec::new();
    for step in STEPS {
        println!("\n==> {}", describe(step));
        let begun = Instant::now();
        let passed = step.passes(root)?;
        println!("<== {}: {} in {:.1} s", step.name, verdict(passed), begun.elapsed().as_secs_f64());
        results.push((step, passed, begun.elapsed()));
        if !passed && !keep_going {
            break;
        }
    }
    summary(&results, started.elapsed())
}

impl Step {
    fn passes(&self, root: &Path) -> Result<bool, String> {
        match self.does {
            Does::Cargo(arguments, environment) => workspace::cargo(root, arguments, environment),
            Does::Task(task) => Ok(match task(root) {
                Ok(said) => {
                    println!("{said}");
                    true
                }
                Err(why) => {
                    println!("{why}");
                    false
                }
            }),
        }
    }
}

fn describe(step: &Step) -> String {
    match step.does {
        Does::Cargo(arguments, _) => format!("{}: cargo {}", step.name, arguments.join(" ")),
        Does::Task(_) => format!("{0}: cargo xtask {0}", step.name),
    }
}

fn verdict(passed: bool) -> &'static str {
    if passed { "ok" } else { "FAILED" }
}

fn summary(results: &[(&Step, bool, Duration)], total: Duration) -> Outcome {
    let mut lines = vec![String::new()];
    for (step, passed, took) in results {
        lines.push(format!("{:<12} {:<7} {:>7.1} s", step.name, verdict(*passed), took.as_secs_f64()));
    }
    for step in &STEPS[results.len()..] {
        lines.push(format!("{:<12} not run", step.name));
    }
    let failed: Vec<&Step> =
        results.iter().filter(|(_, passed, _)| !passed).map(|(step, ..)| *step).collect();
    if failed.is_empty() {
        lines.push(format!("ci: all {} steps passed in {:.0} s", results.len(), total.as_secs_f64()));
        return Ok(lines.join("\n"));
    }
    lines.extend(failed.iter().map(|step| format!("ci: {} failed: {}", step.name, step.remedy)));
    Err(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_what_failed_and_what_was_not_run() {
        let took = Duration::from_millis(1500);
        let all: Vec<_> = STEPS.iter().map(|step| (step, true, took)).collect();
        assert!(summary(&all, took).is_ok_and(|text| text.contains("all 9 steps passed")));
        let broken = [(&STEPS[0], true, took), (&STEPS[1], false, took)];
        let text = summary(&broken, took).expect_err("a failure");
        assert!(text.contains("tidy         FAILED      1.5 s"), "{text}");
        assert!(text.contains("tests        not run"), "{text}");
    }

    #[test]
    fn unknown_options_are_refused() {
        assert!(run(Path::new("."), &["--fast"]).is_err());
    }

    #[test]
    fn tests_come_last() {
        assert_eq!(STEPS.last().map(|step| step.name), Some("tests"));
    }
}
