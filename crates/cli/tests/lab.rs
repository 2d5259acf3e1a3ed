//! `shoal lab run` as a user runs it: a report from a small trace, with results of replays beside
//! it.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// 600 requests for objects of 12 hosts, small and large, most of them repeats.
fn trace() -> String {
    let mut trace = String::from("time_s,bytes,url\n");
    for n in 0..600_u64 {
        let object = n * n * 7 % 331 % (1 + n / 2);
        let bytes = 200 + object * object * 97 % 20_000;
        writeln!(trace, "{},{bytes},http://h{}.example/{object}", n * 40, object % 12)
            .expect("a string takes all");
    }
    trace
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Returns a replay's report as if it had a disk of its own. Not every test machine has one.
fn measured(folder: &Path, architecture: &str, more: &[&str]) -> String {
    let store = format!("store-{architecture}-{}", more.len());
    std::fs::create_dir(folder.join(&store)).expect("made");
    let arguments = ["replay", "trace.csv", "--dir", &store, "--architecture", architecture, "--json"];
    let output = run(folder, &[&arguments, more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["parts"]["measured"]["device"] =
        json!({"reads": 700, "writes": 300, "bytes_read": 4_000_000, "bytes_written": 2_000_000});
    let file = format!("{store}.json");
    std::fs::write(folder.join(&file), report.to_string()).expect("written");
    file
}

#[test]
fn report_has_small_trace_and_measured_runs() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("trace.csv"), trace()).expect("written");
    let small = ["--size-max", "8192", "--segments", "64KB", "--segment-policy", "lru"];
    let files = [measured(folder.path(), "squid", &[]), measured(folder.path(), "squidmla", &small)];
    let arguments =
        ["lab", "run", "maltzahn", "--trace", "trace.csv", "--out", "report", "--json", "--measured"];
    let output = run(folder.path(), &[&arguments[..], &[&files[0], &files[1]]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(summary, serde_json::from_str::<Value>(&read(folder.path(), "summary.json")).expect("JSON"));
    let page = read(folder.path(), "index.html");
    for number in 1..=7 {
        let is_there = [":", " (in print"].iter().any(|end| page.contains(&format!("Figure {number}{end}")));
        assert!(is_there, "figure {number}");
    }
    // One report has Figure 5, of architectures, and one Figure 7, of policies in a finite file.
    assert_eq!(page.matches("<h3>The runs on a real disk").count(), 2);
    let names = |ending: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(folder.path().join("report")).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
        names.filter_map(|name| Some(name.strip_suffix(ending)?.to_owned())).collect()
    };
    assert_eq!(names(".svg").len(), 17, "{:?}", names(".svg"));
    assert!(names(".csv").is_superset(&names(".svg")), "each figure has its numbers");
    for name in ["figure-7a", "figure-5c", "figure-7-today"] {
        assert!(names(".svg").contains(name), "{name}");
    }
    let tables = summary["tables"].as_array().expect("tables");
    for table in tables {
        let file = table["file"].as_str().and_then(|file| file.strip_suffix(".csv")).expect("a file");
        assert!(names(".csv").contains(file), "{file}");
    }
    let findings = names(".csv").iter().filter(|name| name.ends_with("-findings")).count();
    assert_eq!(names(".csv").len(), 17 + tables.len() + findings, "{:?}", names(".csv"));
    assert!(tables.len() > 5 && findings > 5, "{:?}", names(".csv"));
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join("report").join(name)).expect("it was written")
}

#[test]
fn impossible_experiment_is_refused() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("short.csv"), "time_s,bytes,url\n1,100,http://a/\n").expect("written");
    std::fs::write(folder.path().join("no.json"), "{}").expect("written");
    for (arguments, code, told) in [
        (&["lab", "run", "nothing"][..], 2, "no experiment is called"),
        (&["lab", "run", "maltzahn", "--trace", "short.csv"], 1, "at least 200"),
        (&["lab", "run", "maltzahn", "--trace", "absent.csv"], 1, "absent.csv"),
        (
            &["lab", "run", "maltzahn", "--scale", "small", "--measured", "no.json"],
            1,
            "no.json: names no architecture",
        ),
        (&["lab", "run", "maltzahn", "--warm-up", "1.5"], 2, "--warm-up"),
    ] {
        let output = run(folder.path(), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(told), "{arguments:?}: {said}");
        assert!(!folder.path().join("shoal-maltzahn").exists());
    }
}

#[test]
fn unread_requests_are_in_report() {
    let folder = TempDir::new().expect("a folder");
    let mut log = String::from("time_s,client,status,bytes,url\n");
    for at in 0..3000_u64 {
        let status = if at % 10 == 0 { 404 } else { 200 };
        writeln!(log, "{at},c{},{status},{},http://a.example/{}", at % 5, 100 + at % 90, at * at % 97)
            .expect("a string");
    }
    log += "a line that is none\n";
    std::fs::write(folder.path().join("trace.csv"), &log).expect("written");
    let output = run(folder.path(), &["lab", "run", "policies", "--trace", "trace.csv", "--out", "report"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for told in ["bad lines                 1 of 3,002", "300 with a status that does not count"] {
        assert!(text(&output.stderr).contains(told), "{told}: {}", text(&output.stderr));
    }
    let summary: Value = serde_json::from_str(&read(folder.path(), "summary.json")).expect("JSON");
    let source = summary["facts"]["trace"].as_str().expect("a text");
    assert!(
        source.starts_with("trace.csv (1 of 3002 lines are bad, the first of them line 3002: "),
        "{source}"
    );
    assert!(source.ends_with("; 300 left out with a status that does not count)"), "{source}");
    assert!(text(&output.stdout).contains("miss-ratio.csv"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).ends_with("report: report/index.html\n"));
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let output =
        run(folder.path(), &["lab", "run", "policies", "--trace", "trace.csv", "--out", "file/report"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!text(&output.stderr).contains("policies\n"), "told before anything is computed");
}

#[test]
fn clients_are_kept_where_traces_are_joined() {
    let folder = TempDir::new().expect("a folder");
    for part in 0..2 {
        let mut log = String::from("time_s,client,bytes,url\n");
        for at in 0..2000_u64 {
            writeln!(log, "{},p{part}c{},500,http://a.example/{}", part * 2000 + at, at % 50, at * at % 397)
                .expect("a string");
        }
        std::fs::write(folder.path().join(format!("{part}.csv")), log).expect("written");
    }
    let arguments =
        ["lab", "run", "voelker-ch5", "--scale", "small", "--out", "report", "--trace", "0.csv", "1.csv"];
    let output = run(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_str(&read(folder.path(), "summary.json")).expect("JSON");
    assert_eq!(summary["facts"]["clients"], "100");
}
