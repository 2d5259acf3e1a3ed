//! Times of test programs in the run before, kept in the target folder.

use super::program::Program;
use super::results::Results;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Seconds by the name of a program.
pub type Times = BTreeMap<String, f64>;

/// Returns the times of the run before; none without one.
pub fn read(root: &Path) -> Times {
    let text = std::fs::read_to_string(file(root)).unwrap_or_default();
    text.lines().filter_map(line).collect()
}

/// Writes the times of this run. A program that did not run keeps its earlier time. Times only
/// order the programs, so that a folder which cannot be written is no failure.
pub fn write(root: &Path, known: &Times, all: &[Results]) {
    let mut times = known.clone();
    times.extend(all.iter().map(|results| (results.program.name.clone(), results.took.as_secs_f64())));
    let text: String = times.iter().map(|(name, seconds)| format!("{seconds:.1}\t{name}\n")).collect();
    if let Err(why) = std::fs::write(file(root), text) {
        println!("tests: their times are not kept: {why}");
    }
}

/// Orders programs by their known times. Programs without one come first: they may be long.
pub fn longest_first(mut programs: Vec<Arc<Program>>, known: &Times) -> Vec<Arc<Program>> {
    let seconds = |program: &Program| known.get(&program.name).copied().unwrap_or(f64::INFINITY);
    programs.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    programs
}

fn line(text: &str) -> Option<(String, f64)> {
    let (seconds, name) = text.split_once('\t')?;
    Some((name.into(), seconds.parse().ok().filter(|seconds: &f64| seconds.is_finite())?))
}

fn file(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(target).join("test-times.tsv")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str) -> Arc<Program> {
        Arc::new(Program { name: name.into(), path: PathBuf::new(), folder: PathBuf::new() })
    }

    #[test]
    fn long_and_unknown_programs_begin_first() {
        let known: Times =
            ["12.5\tstore lib", "3\tcore lib", "nan\tx", "y"].into_iter().filter_map(line).collect();
        assert_eq!(known.len(), 2);
        let programs = ["core lib", "new lib", "store lib"].map(program);
        let order = longest_first(programs.into(), &known);
        let names: Vec<&str> = order.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["new lib", "store lib", "core lib"]);
    }
}
