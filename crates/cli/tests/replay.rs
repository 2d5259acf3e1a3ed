//! `shoal replay` as a user runs it: figures, bad traces, bad folders, exit codes.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Five objects on two hosts: ten requests, of which five are repeats, one of them of another size;
/// two lines are bad.
const TRACE: &str = "\
http://a.example/ 5000
http://a.example/1.gif 1200
http://a.example/ 5000
http://b.example/ 70000
http://b.example/ many
http://a.example/1.gif 1200
http://b.example/ 71000
http://b.example/x 300
this line has too many words
http://a.example/ 5000
http://b.example/y 300
http://b.example/x 300
";

fn replay(trace: &str, folder: &Path, more: &[&str]) -> Output {
    let file = folder.join("trace.txt");
    std::fs::write(&file, trace).expect("written");
    let store = folder.join("store");
    let _ = std::fs::create_dir(&store);
    run(&[&["replay", name(&file), "--dir", name(&store)], more].concat())
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn the_figures_are_those_of_the_trace() {
    let folder = TempDir::new().expect("a folder");
    let output = replay(TRACE, folder.path(), &["--json", "--warm-up", "4", "--verify"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let report = json(&output);
    let part = |part: &str, what: &str| report["parts"][part][what].as_u64().expect("a number");
    let counts = |name: &str| ["requests", "hits", "written", "wrong", "bytes"].map(|what| part(name, what));
    assert_eq!(counts("warm_up"), [4, 1, 3, 0, 81_200]);
    assert_eq!(counts("measured"), [6, 4, 2, 0, 78_100]);
    assert_eq!(part("measured", "hit_bytes"), 77_500);
    let calls = |name: &str, call: &str| report["parts"][name]["system_calls"][call]["calls"].as_u64();
    assert_eq!(["create", "open", "close"].map(|call| calls("measured", call)), [Some(2), Some(4), Some(6)]);
    assert_eq!(calls("measured", "unlink"), Some(0));
    // Sizes are those of whole files. A large file has a gap after its head.
    let gap = 76_200 - part("warm_up", "file_bytes_written");
    assert!(gap < 512, "{gap}");
    assert_eq!((&report["end"], &report["error"]), (&"done".into(), &Value::Null));
    assert_eq!(report["store"]["objects"], 5);
    assert_eq!(report["trace"]["hosts"], 2);
}

#[test]
fn all_architectures_hit_alike_if_all_fits() {
    for row in shoal_architectures() {
        for policy in ["own", "lru", "s3_fifo"] {
            let folder = TempDir::new().expect("a folder");
            let more = ["--json", "--architecture", &row, "--policy", policy, "--in-flight", "1"];
            let output = replay(TRACE, folder.path(), &more);
            assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{row} {policy}");
            let report = json(&output);
            assert_eq!(report["architecture"], row);
            let hits = |part: &str| report["parts"][part]["hits"].as_u64();
            assert_eq!((hits("warm_up"), hits("measured")), (Some(2), Some(3)), "{row} {policy}");
        }
    }
}

/// Returns the architectures that the command itself names.
fn shoal_architectures() -> Vec<String> {
    let folder = TempDir::new().expect("a folder");
    let output = replay(TRACE, folder.path(), &["--architecture", "pyramid"]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output).trim_end();
    assert!(told.starts_with("shoal: no cache architecture is called \"pyramid\"; known are: "), "{told}");
    let (_, known) = told.rsplit_once(": ").expect("a list");
    known.split(", ").map(str::to_owned).collect()
}

#[test]
fn bad_lines_are_counted_and_shown() {
    let folder = TempDir::new().expect("a folder");
    let output = replay(TRACE, folder.path(), &[]);
    let text = stdout(&output);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    for part in [
        "bad lines  2 of 12\n",
        "line 5: the size is not a whole number: \"http://b.example/ many\"\n",
        "line 9: there are more than a URL and a size: \"this line has too many words\"\n",
        "format url_size (by its beginning)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let strict = replay(TRACE, folder.path(), &["--strict"]);
    assert_eq!((strict.status.code(), stdout(&strict)), (Some(1), ""));
    let told = stderr(&strict);
    assert!(
        told.ends_with("trace.txt: line 5: the size is not a whole number: \"http://b.example/ many\"\n"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1);
}

#[test]
fn the_rules_for_sizes_and_requests_are_kept() {
    let figure = |more: &[&str], what: &str| {
        let folder = TempDir::new().expect("a folder");
        let output = replay(TRACE, folder.path(), &[&["--json", "--warm-up", "0"], more].concat());
        json(&output)["parts"]["measured"][what].as_u64().expect("a number")
    };
    assert_eq!(figure(&[], "hits"), 5);
    assert_eq!(figure(&["--size-change", "version"], "hits"), 4);
    assert_eq!(figure(&["--size-change", "version"], "changed"), 1);
    assert_eq!(figure(&["--size-max", "10 KB"], "requests"), 8);
    assert_eq!(figure(&["--size-min", "1 KB"], "requests"), 7);
    assert_eq!(figure(&["--limit", "3"], "requests"), 3);
    let body = figure(&["--sizes", "body"], "body_bytes_written");
    assert_eq!(body, 5000 + 1200 + 70_000 + 300 + 300);
    assert!(figure(&["--sizes", "stored"], "body_bytes_written") < body);
    assert!(figure(&["--sizes", "body"], "file_bytes_written") > body);
}

#[test]
fn a_finite_store_gives_objects_up() {
    let trace: String = (0..3000).map(|n| format!("http://h{}.example/{n} 8000\n", n % 5)).collect();
    let folder = TempDir::new().expect("a folder");
    let output = replay(&trace, folder.path(), &["--json", "--disk-bytes", "8 MiB", "--max-objects", "2000"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let own = json(&output);
    let evicted = |part: &str| own["parts"][part]["evicted_by_store"].as_u64().expect("a number");
    let held = own["store"]["objects"].as_u64().expect("a number");
    assert_eq!(evicted("warm_up") + evicted("measured") + held, 3000);
    assert!(own["store"]["bytes"].as_u64() <= own["store"]["bytes_max"].as_u64());

    let folder = TempDir::new().expect("a folder");
    let more = ["--json", "--disk-bytes", "8 MiB", "--max-objects", "2000", "--policy", "fifo"];
    let report = json(&replay(&trace, folder.path(), &more));
    assert_eq!(report["parts"]["measured"]["evicted_by_driver"], 1500);
    assert_eq!(report["parts"]["measured"]["evicted_by_store"], 0);
}

#[test]
fn a_trace_may_come_compressed_and_through_a_pipe() {
    let folder = TempDir::new().expect("a folder");
    let store = folder.path().join("store");
    std::fs::create_dir(&store).expect("made");
    let mut child = Command::new(env!("CARGO_BIN_EXE_shoal"))
        .args(["replay", "-", "--dir", name(&store), "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // Two lines of "http://a.example/ 10\n", compressed by gzip.
    std::io::Write::write_all(&mut stdin, GZIP).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    let report = json(&output);
    assert_eq!(report["trace"]["reading"]["compression"], "gzip");
    assert_eq!(report["parts"]["measured"]["hits"], 1);
}

const GZIP: &[u8] = include_bytes!("replay.gz");

#[test]
fn wrong_folders_are_told_and_left_alone() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("trace.txt");
    std::fs::write(&file, TRACE).expect("written");
    let absent = folder.path().join("absent");
    let output = run(&["replay", name(&file), "--dir", name(&absent)]);
    let told = format!(
        "shoal: {}: No such file or directory (os error 2); the folder for the store has to be there\n",
        absent.display()
    );
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), &*told));
    assert!(!absent.exists());
    let output = run(&["replay", name(&file), "--dir", name(&file)]);
    assert!(stderr(&output).ends_with("trace.txt: this is not a folder\n"), "{}", stderr(&output));

    replay(TRACE, folder.path(), &["--architecture", "squid"]);
    let before = files(&folder.path().join("store"));
    let other = replay(TRACE, folder.path(), &["--architecture", "squidl"]);
    assert_eq!((other.status.code(), stdout(&other)), (Some(1), ""));
    let told = stderr(&other);
    assert!(told.contains("squidl") && told.contains("store: ") && told.lines().count() == 1, "{told}");
    assert_eq!(files(&folder.path().join("store")), before);
}

fn files(folder: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((name(&path).to_owned(), path.metadata().expect("there").len())),
        }
    }
    found.sort();
    found
}

#[test]
fn disk_failure_keeps_measurements() {
    let folder = TempDir::new().expect("a folder");
    let trace: String = (0..2000).map(|n| format!("http://a.example/{n} 1000\n")).collect();
    let one: String = trace.lines().take(1).map(|line| format!("{line}\n")).collect();
    replay(&one, folder.path(), &["--max-objects", "2000"]);
    // One of the folders for the next few new files.
    let spoiled = folder.path().join("store/00/05");
    std::fs::remove_dir_all(&spoiled).expect("removed");
    std::fs::write(&spoiled, "no folder").expect("written");
    let output = replay(&trace, folder.path(), &["--json", "--warm-up", "2"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    let last = told.lines().last().expect("a line");
    assert!(last.contains("store: could not create 00/05/") && last.contains("Not a directory"), "{told}");
    let report = json(&output);
    assert_eq!(report["end"], "failed");
    assert_eq!(report["parts"]["warm_up"]["requests"].as_u64(), Some(2));
    let measured = report["parts"]["measured"]["requests"].as_u64().expect("a number");
    assert!((1..1000).contains(&measured), "{measured}");
    assert!(
        last.ends_with(&format!("the figures are those of the first {} requests", measured + 2)),
        "{last}"
    );
}

#[test]
fn impossible_replay_is_refused() {
    let folder = TempDir::new().expect("a folder");
    for (trace, more, code, told) in [
        ("", &[][..], 1, "there is no line with a request"),
        (
            "http://a/?q 1\n",
            &[],
            1,
            "no request is left to replay: 1 lines, 0 of them bad; left out: 1 with ?",
        ),
        (TRACE, &["--policy", "magic"], 2, "no policy is called \"magic\"; known are: own, fifo, clock"),
        (TRACE, &["--filter", "paper,none-such"], 2, "there is no rule \"none-such\""),
        (TRACE, &["--warm-up", "1.5"], 2, "it is a share from 0.0 to 1.0, or a whole number of requests"),
        (TRACE, &["--disk-bytes", "5000"], 1, "5000 bytes of disk are too few"),
        (
            TRACE,
            &["--format", "squid"],
            1,
            "12 of 12 lines are bad for the format squid, and 10 of them fit the format url_size",
        ),
    ] {
        let output = replay(trace, folder.path(), more);
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), ""), "{told}");
        assert!(stderr(&output).contains(told), "{told}: {}", stderr(&output));
    }
}

#[test]
fn traffic_can_be_made() {
    let folder = TempDir::new().expect("a folder");
    let made = "synthetic:requests=2000,seed=4,hit-ratio=0.5,tail=0,clients=20";
    let output = run(&["replay", made, "--dir", name(folder.path()), "--json", "--warm-up", "0"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let hit_ratio = json(&output)["parts"]["measured"]["hit_ratio"].as_f64().expect("a number");
    assert!((hit_ratio - 0.5).abs() <= 0.005, "{hit_ratio}");
    let output = run(&["replay", "synthetic:alpha=9", "--dir", name(folder.path())]);
    assert_eq!(stderr(&output), "shoal: synthetic:alpha=9: alpha is 9 and must be from 0 to 2\n");
    assert_eq!(output.status.code(), Some(2));
}
