//! `shoal lab sweep` as a user runs it: the example computed, killed and resumed; mistakes
//! reported.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn shoal(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    shoal(folder, arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn summary(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "no bar where there is no terminal: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_example_is_computed_once() {
    let folder = TempDir::new().expect("a folder");
    let example = run(folder.path(), &["lab", "sweep", "--example"]).stdout;
    assert_eq!(example, std::fs::read(docs("sweep.toml")).expect("the example"));
    std::fs::write(folder.path().join("mine.toml"), example).expect("written");
    let checked = run(folder.path(), &["lab", "sweep", "mine.toml", "--check", "--json"]);
    let told = summary(&checked);
    assert_eq!(told["kinds"]["policy"], 32);
    let cells = told["cells"].as_u64().expect("a number");
    let first = summary(&run(folder.path(), &["lab", "sweep", "mine.toml", "--json"]));
    assert_eq!(
        (&first["cells"], &first["computed"], &first["refused"]),
        (&cells.into(), &cells.into(), &0.into())
    );
    let files = first["files"].as_array().expect("a list");
    assert_eq!(files.len(), 6);
    let file = |name: &str| std::fs::read(folder.path().join("mine-results").join(name)).expect("written");
    assert!(file("wan.parquet").starts_with(b"PAR1") && file("policy.parquet").ends_with(b"PAR1"));
    let before = file("policy.parquet");
    let again = summary(&run(folder.path(), &["lab", "sweep", "mine.toml", "--json", "--jobs", "1"]));
    assert_eq!((&again["computed"], file("policy.parquet")), (&0.into(), before));
}

/// A sweep that is killed while it computes keeps its finished combinations. The next sweep
/// computes only the rest.
#[test]
fn a_killed_sweep_goes_on() {
    let folder = TempDir::new().expect("a folder");
    let spec = "[[gms]]\nglobal_nodes = { from = 1, to = 200, step = 1 }\nidle = 8\nsimulate = 10000\n";
    std::fs::write(folder.path().join("s.toml"), spec).expect("written");
    let arguments = ["lab", "sweep", "s.toml", "--json", "--jobs", "1"];
    let mut child = shoal(folder.path(), &arguments).stdout(Stdio::null()).spawn().expect("it starts");
    let journal = folder.path().join("s-results/journal");
    let lines =
        || std::fs::read(&journal).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count());
    let patience = Instant::now() + Duration::from_secs(60);
    while lines() < 3 {
        assert!(Instant::now() < patience, "nothing was computed in a minute");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    let done = lines() as u64 - 1;
    assert!(done < 200, "it was killed before its end");
    let rest = summary(&run(folder.path(), &arguments));
    assert_eq!((rest["cells"].as_u64(), rest["computed"].as_u64()), (Some(200), Some(200 - done)));
    assert_eq!(lines(), 201, "each cell once");
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    let folder = TempDir::new().expect("a folder");
    let spec = "[[policy]]\ntrace = \"a\"\npolicy = \"lru\"\ncahce = \"1 MB\"\n";
    std::fs::write(folder.path().join("s.toml"), spec).expect("written");
    for (arguments, code, told) in [
        (&["lab", "sweep", "s.toml"][..], 2, "s.toml:4:1: cahce: [[policy]] has no such parameter"),
        (&["lab", "sweep", "s.toml"], 2, "s.toml:2:9: trace: \"a\" is no trace"),
        (&["lab", "sweep", "absent.toml"], 1, "absent.toml"),
        (&["lab", "sweep"], 2, "SPEC"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(text(&output.stderr).contains(told), "{}", text(&output.stderr));
    }
    assert!(!folder.path().join("s-results").exists());
}

#[test]
fn the_page_has_the_reference_that_is_printed() {
    let printed = run(Path::new("."), &["lab", "sweep", "--reference"]).stdout;
    let page = std::fs::read_to_string(docs("SWEEPS.md")).expect("the page");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words(&page).contains(&words(text(&printed))),
        "put the output of `shoal lab sweep --reference` into docs/SWEEPS.md"
    );
}

#[test]
fn unread_requests_are_reported() {
    let folder = TempDir::new().expect("a folder");
    let log: String = (0..500)
        .map(|at| format!("{at},http://a.example/{},{}\n", at % 9, if at % 5 == 0 { "x" } else { "-" }))
        .collect();
    std::fs::write(folder.path().join("t.csv"), format!("time_s,url,size\n{log}")).expect("written");
    let spec = "[trace.t]\nfile = \"t.csv\"\n[[policy]]\ntrace = \"t\"\npolicy = \"lru\"\ncache = 0.5\n";
    std::fs::write(folder.path().join("s.toml"), spec).expect("written");
    let output = run(folder.path(), &["lab", "sweep", "s.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for told in [
        "trace t: 100 of 501 lines are bad, the first of them line 2: ",
        "trace t: 400 without a size count as 8192",
    ] {
        assert!(text(&output.stdout).contains(told), "{}", text(&output.stdout));
    }
}
