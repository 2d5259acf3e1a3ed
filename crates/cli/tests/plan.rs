//! `shoal plan` as a user runs it: text, JSON, page, settings that `shoal check` accepts, bad
//! options.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

fn done(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Writes a log of 3,000 requests for 400 objects, with an occasional 304 and POST.
fn log(folder: &TempDir) -> PathBuf {
    let mut text = String::new();
    let mut state = 7u64;
    for step in 0..3000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let object = ((state >> 33) % 400).min((state >> 45) % 400);
        let (method, status) = match step % 20 {
            7 => ("GET", 304),
            13 => ("POST", 200),
            _ => ("GET", 200),
        };
        let bytes = if status == 304 { 0 } else { 300 + object * object % 20_000 };
        let (second, minute) = (step % 60, step / 60 % 60);
        text += &format!(
            "10.0.0.{} - - [10/Oct/2024:13:{minute:02}:{second:02} +0000] \"{method} /o/{object}.html HTTP/1.1\" {status} {bytes} \"-\" \"curl/8\" {}\n",
            step % 30,
            if step % 3 == 0 { "MISS" } else { "HIT" }
        );
    }
    let path = folder.path().join("access.log");
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn plan_answers_first_in_ten_lines() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder);
    let output = run(&["plan", name(&log)]);
    let text = done(&output);
    let starts = [
        ("log", "access.log: 3,000 requests, 95.0% of them storable; 375 objects, "),
        ("hits today", "66.7% of 3,000 requests whose outcome the log tells"),
        ("possible", ""),
        ("lost to", "room "),
        ("buy", "16 MiB of RAM, "),
        ("hits then", ""),
        ("forecast", ""),
        ("drive", ""),
        ("in doubt", ""),
        ("more", "--all prints the details"),
    ];
    assert_eq!(text.lines().count(), starts.len(), "{text}");
    for (line, (word, answer)) in text.lines().zip(starts) {
        assert!(line.starts_with(&format!("{word:<12}{answer}")), "{line}");
    }
    let [today, possible, then] = ["hits today", "possible", "hits then"].map(|word| {
        let line = text.lines().find(|line| line.starts_with(word)).expect("a line");
        line[12..].split('%').next().and_then(|ratio| ratio.parse::<f64>().ok()).expect("a ratio")
    });
    assert!(today < possible && today < then, "{text}");
}

#[test]
fn a_log_becomes_a_plan_and_settings_that_check_takes() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder);
    let (settings, page) = (folder.path().join("shoal.toml"), folder.path().join("report"));
    let alone = folder.path().join("plan.html");
    let more = ["--settings", name(&settings), "--report", name(&page), "--drive-years", "3"];
    let output = run(&[&["plan", name(&log), "--all", "--html", name(&alone)], &more[..]].concat());
    let text = done(&output);
    for part in [
        "Today\n  66.7% hit, of the 3,000 requests whose outcome the log tells\n",
        "  room              requested before; the log names no reason",
        "format common (by its beginning)",
        "left out                  150 with a method that does not count",
        "3,000 requests, 95.0% of them storable",
        "95% of the throughput",
        "squidmla",
        "Cooperation\n  No: ",
        "if every repeat of another size is a new version, and a miss",
        "Recommended: 16 MiB of RAM",
        "  of the next 2,850 requests, as many again: ",
        "  the same tried within the log, from its first quarter ",
        "shoal.toml\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_eq!(stderr(&output), "");
    let check = run(&["check", name(&settings)]);
    assert_eq!(check.status.code(), Some(0), "{}", stderr(&check));
    for file in [page.join("index.html"), alone.clone()] {
        let html = std::fs::read_to_string(file).expect("a page");
        assert!(html.contains("A cache for access.log") && html.matches("<svg").count() >= 5);
        assert!(html.contains("shoal plan access.log --drive-years 3<"), "the command can be given again");
        assert!(!html.contains(name(folder.path())), "folders are nobody's business");
    }
    let html = std::fs::read_to_string(alone).expect("a page");
    assert!(!html.contains(".csv\"") && !html.contains(".svg\""), "no file lies beside it");
    assert!(page.join("hit-ratio.csv").exists() && page.join("summary.json").exists());
}

#[cfg(unix)]
#[test]
fn hostile_names_and_lines_stay_text() {
    let folder = TempDir::new().expect("a folder");
    let hostile = folder.path().join("<img src=x onerror=alert(1)>\u{202e}\"&.log");
    let mut text = std::fs::read_to_string(log(&folder)).expect("it was written");
    for at in 0..40 {
        text += &format!("\"><script>alert({at})</script>\u{202e}\u{7}\n");
    }
    std::fs::write(&hostile, text).expect("written");
    let page = folder.path().join("plan.html");
    let output = run(&["plan", name(&hostile), "--html", name(&page)]);
    assert!(!done(&output).contains('\u{202e}'), "{}", done(&output));
    let html = std::fs::read_to_string(page).expect("a page");
    assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;\\u{202E}"), "the name is shown");
    assert!(!html.contains("<img") && !html.contains("<script>alert") && !html.contains('\u{202e}'));
}

#[test]
fn wishes_change_the_plan() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder);
    let plan = |more: &[&str]| -> Value {
        let output = run(&[&["plan", name(&log), "--json"], more].concat());
        serde_json::from_str(done(&output)).expect("JSON")
    };
    let plain = plan(&[]);
    assert_eq!(
        (&plain["demand"]["storable_requests"], &plain["ram"]["sampling_rate"]),
        (&2850.into(), &1.0.into())
    );
    assert_eq!(plain["ram"]["curves"]["s3_fifo"].as_array().map(Vec::len), Some(20));
    assert_eq!(plain["cooperation"]["pays"], false);
    let forecast = &plain["choice"]["forecast"];
    assert_eq!(
        (&forecast["requests"], forecast["back_tests"].as_array().map(Vec::len)),
        (&2850.into(), Some(3))
    );
    assert!(forecast["hit_ratio_error"].as_f64() > Some(0.0), "{forecast}");
    let dear = plan(&["--ram-price", "1000000", "--disk-price", "1000000", "--egress-price", "0.01"]);
    assert_eq!(dear["choice"]["disk_bytes"], 0);
    let settings = folder.path().join("shoal.toml");
    std::fs::write(&settings, dear["shoal.toml"].as_str().expect("text")).expect("written");
    assert_eq!(run(&["check", name(&settings)]).status.code(), Some(0));
    let told = plan(&["--disk", "1 GB", "--filter", "get"]);
    assert_eq!(
        (&told["choice"]["disk_bytes"], &told["disk"]["bytes"]),
        (&1_000_000_000.into(), &1_000_000_000.into())
    );
    assert_eq!(plan(&["--limit", "2000"])["demand"]["storable_requests"], 2000);
}

#[test]
fn impossible_plan_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder);
    for (more, told) in [
        (&["--warm-up", "1"][..], "--warm-up: a share from 0 to 0.9"),
        (&["--miss-cost", "0.5"], "--miss-cost: a miss costs"),
        (&["--ram", "1 MiB"], "--ram: a cache has 4 MiB"),
        (&["--disk", "1 KB"], "--disk: a store has 4 MB"),
        (&["--head", "1000000"], "--head: no origin"),
        (&["--ram-price", "5"], "--ram-price and --egress-price go together"),
        (&["--ram-price", "nan", "--egress-price", "1"], "numbers from 0 on"),
    ] {
        let output = run(&[&["plan", name(&log)], more].concat());
        assert_eq!(output.status.code(), Some(2), "{told}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
    let few = run(&["plan", name(&log), "--limit", "500"]);
    assert!(stderr(&few).contains("500 usable requests where at least 1000 are needed"), "{}", stderr(&few));
    let pages = folder.path().join("pages");
    std::fs::write(&pages, (0..2000).map(|page| format!("{}\n", page % 300)).collect::<String>())
        .expect("written");
    let output = run(&["plan", name(&pages)]);
    assert_eq!((output.status.code(), stderr(&output).contains("no request has a size")), (Some(1), true));
    let told = run(&["plan", name(&pages), "--size-unknown", "4 KiB", "--json"]);
    let told: Value = serde_json::from_str(done(&told)).expect("JSON");
    assert_eq!((&told["demand"]["mean_bytes"], &told["demand"]["objects"]), (&4096.0.into(), &300.into()));
}

#[test]
fn plan_reports_used_part_of_log() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder);
    let mut text = std::fs::read_to_string(&log).expect("it was written");
    text += "a line that is none\n";
    std::fs::write(&log, text).expect("written");
    let page = folder.path().join("page");
    let arguments =
        ["plan", name(&log), "--json", "--drive", "100 GB", "--filter", "get", "--report", name(&page)];
    let told: Value = serde_json::from_str(done(&run(&arguments))).expect("JSON");
    assert_eq!((told["reading"]["bad"].as_u64(), told["reading"]["lines"].as_u64()), (Some(1), Some(3001)));
    let page = std::fs::read_to_string(page.join("index.html")).expect("it was written");
    for part in
        ["1 of 3001 lines are bad", "150 left out with a method", "--drive 100000000000", "--filter get"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn log_that_may_not_be_stored_has_an_account() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("access.json");
    let line = |at: u64| {
        let said = "shoal;fwd=uri-miss;detail=never-reusable";
        format!(
            "{{\"time\":{at},\"method\":\"GET\",\"url\":\"http://a.example/{}\",\"status\":200,\"body_bytes\":5000,\"cache_status\":\"{said}\"}}\n",
            at % 90
        )
    };
    std::fs::write(&path, (1..=3000).map(line).collect::<String>()).expect("written");
    let output = run(&["plan", name(&path)]);
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "there is nothing to plan");
    for part in ["0.0% hit", "0.0% could, with room for everything", "97.0%  never-reusable", "--filter get"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(stderr(&output).contains("3,000 that the log says no cache may store"), "{}", stderr(&output));
    let as_if = run(&["plan", name(&path), "--filter", "get", "--json"]);
    let as_if: Value = serde_json::from_str(done(&as_if)).expect("JSON");
    assert_eq!(as_if["cache_that_logged"]["lost"][0]["to"], "never-reusable");
    assert!(as_if["demand"]["achievable_hit_ratio"].as_f64() > Some(0.9), "{as_if}");
}

/// The reasons that the product writes are those that the planner reads.
#[test]
fn every_reason_of_the_product_is_read() {
    let output = run(&["config", "reasons"]);
    let reasons = done(&output).split("## `error`").next().expect("a page").to_owned();
    let tokens: Vec<&str> =
        reasons.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(tokens.len() > 40, "{tokens:?}");
    let details = reasons.split("## `fwd`").next().expect("details").lines();
    let details = details.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for token in details.filter(|token| *token != "detail") {
        assert!(shoal_trace::Outcome::named(token).is_some(), "{token}");
    }
}

/// Writes the logs of four nodes, the first of which gets four of five requests.
fn logs_of_nodes(folder: &TempDir) -> Vec<PathBuf> {
    let mut texts = vec![String::new(); 4];
    let mut state = 7u64;
    for step in 0..8000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 33) as f64 / (1u64 << 31) as f64;
        let object = 2000f64.powf(unit) as u64;
        let node = if step % 5 < 4 { 0 } else { 1 + step % 3 };
        let (second, minute, hour) = (step / 10 % 60, step / 600 % 60, step / 36_000);
        texts[node as usize] += &format!(
            "10.0.0.1 - - [10/Oct/2024:{hour:02}:{minute:02}:{second:02} +0000] \"GET /o/{object} HTTP/1.1\" 200 16000 \"-\" \"curl/8\"\n"
        );
    }
    let path = |(node, text): (usize, &String)| {
        let path = folder.path().join(format!("node{node}.log"));
        std::fs::write(&path, text).expect("written");
        path
    };
    texts.iter().enumerate().map(path).collect()
}

#[test]
fn plan_of_nodes_tells_shared_memory() {
    let folder = TempDir::new().expect("a folder");
    let logs = logs_of_nodes(&folder);
    let nodes: Vec<&str> = logs[1..].iter().flat_map(|log| ["--node", name(log)]).collect();
    let command = [&["plan", name(&logs[0]), "--ram", "4 MiB"][..], &nodes].concat();
    let output = run(&command);
    let text = done(&output);
    assert!(
        text.starts_with("Shared memory of 4 nodes, 3.6 MiB of RAM each; 5600 requests counted"),
        "{text}"
    );
    assert!(text.contains("Worth a try: "), "{text}");
    let output = run(&[&command[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(done(&output)).expect("JSON");
    let of = |form: &str, what: &str| told[form][what].as_f64().expect("a number");
    assert!(of("shared", "disk_reads") * 2.0 <= of("apart", "disk_reads"), "{told}");
    assert!(of("one_node", "ram_hit_ratio") - of("shared", "ram_hit_ratio") <= 0.02, "{told}");
    let output = run(&["plan", name(&logs[0]), "--node", name(&logs[1])]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--ram"), "{}", stderr(&output));
}
