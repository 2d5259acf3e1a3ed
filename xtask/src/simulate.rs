//! `cargo xtask simulate`: the long form of the simulated cluster, which may be stopped and continued.

use crate::Outcome;
use std::path::Path;
use std::process::Command;

/// Runs the long form in an optimized build. The options become the variables of
/// `crates/simulation/tests/long.rs`.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let variables = variables(options)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).envs(variables);
    cargo.args(["test", "--release", "--package", "shoal-simulation", "--test", "long", "--"]);
    cargo.args(["--ignored", "--nocapture"]);
    match cargo.status() {
        Ok(status) if status.success() => Ok("no invariant was broken".into()),
        Ok(_) => Err("the simulation failed, or was stopped; the same command continues it".into()),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

/// Reads the options.
fn variables(options: &[&str]) -> Result<Vec<(&'static str, String)>, String> {
    let (mut left, mut variables) = (options.iter(), Vec::new());
    while let Some(option) = left.next() {
        if *option == "--levels" {
            variables.push(("SHOAL_LEVELS", "1".to_owned()));
            continue;
        }
        let (_, name) = OPTIONS.iter().find(|(known, _)| known == option).ok_or_else(|| {
            let known: Vec<_> = OPTIONS.iter().map(|(option, _)| *option).collect();
            format!("{option} is none of {}, --levels", known.join(", "))
        })?;
        let value = left.next().ok_or_else(|| format!("{option} needs a value"))?;
        variables.push((*name, (*value).to_owned()));
    }
    Ok(variables)
}

const OPTIONS: [(&str, &str); 7] = [
    ("--seeds", "SHOAL_SEEDS"),
    ("--first", "SHOAL_SEED"),
    ("--events", "SHOAL_EVENTS"),
    ("--nodes", "SHOAL_NODES"),
    ("--fault", "SHOAL_FAULT"),
    ("--threads", "SHOAL_THREADS"),
    ("--state", "SHOAL_STATE"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_variables() {
        let read = variables(&["--seeds", "10", "--levels", "--state", "a.tsv"]).expect("known options");
        let expected = [("SHOAL_SEEDS", "10"), ("SHOAL_LEVELS", "1"), ("SHOAL_STATE", "a.tsv")];
        assert_eq!(read, expected.map(|(name, value)| (name, value.to_owned())));
        for bad in [&["--seed", "1"][..], &["--seeds"], &["10"]] {
            assert!(variables(bad).is_err(), "{bad:?}");
        }
    }
}
