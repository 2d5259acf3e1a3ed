//! `shoal trace` as a user runs it: each command, pipes, bad input, exit codes; and our own access
//! logs as traces.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Squid's native log: two hosts, one repeat, one 304, one bad line.
const LOG: &str = "\
1066036250.603    310 192.0.2.30 TCP_MISS/200 1234 GET http://a.example/x/1.gif - HIER_DIRECT/192.0.2.1 image/gif
1066036251.000     10 192.0.2.31 TCP_HIT/200 1234 GET http://a.example/x/1.gif - HIER_NONE/- image/gif
what is this
1066036252.000     10 192.0.2.30 TCP_MISS/200 5000 GET http://b.example/y?q=1 - HIER_DIRECT/192.0.2.1 text/html
1066036253.000     10 192.0.2.30 TCP_MISS/304 200 GET http://a.example/x/1.gif - HIER_DIRECT/192.0.2.1 -
1066036254.000     10 192.0.2.30 TCP_MISS/503 99 POST http://b.example/form - HIER_DIRECT/192.0.2.1 -
";

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shoal"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

fn trace(arguments: &[&str]) -> Output {
    run(&[&["trace"], arguments].concat())
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

fn done(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

fn name(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn log(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("access.log");
    std::fs::write(&path, text).expect("written");
    path
}

#[test]
fn info_tells_the_character() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder, LOG);
    let output = trace(&["info", name(&log), "--filter", "cacheable"]);
    let text = done(&output);
    for part in [
        "format squid (by its beginning)\n",
        "bad lines                 1 of 6\n",
        "line 3: a native log line has seven fields at least: \"what is this\"\n",
        "left out                  1 with a method that does not count\n",
        "statuses                  2xx 3, 3xx 1, 5xx 1; 304 1\n",
        "requests                  4 in 2 s, ",
        "an infinite cache hits    50.0% of requests, 28.4% of bytes\n",
        "hits, as logged           20.0%\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_eq!(stderr(&output), "", "no bar where stderr is no terminal");
    let report = folder.path().join("report");
    let output = trace(&["info", name(&log), "--json", "--html", name(&report)]);
    let json: Value = serde_json::from_str(done(&output)).expect("JSON");
    assert_eq!((&json["requests"], &json["census"]["dynamic"]), (&5.into(), &1.into()));
    let page = std::fs::read_to_string(report.join("index.html")).expect("a page");
    assert!(page.contains("What access.log is like") && page.contains("<svg"));
    let rate = json["requests_per_second"].as_f64().expect("a number");
    assert!((rate - 5.0 / 3.397).abs() < 0.01, "{rate}");
}

#[test]
fn traces_come_through_every_format() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder, LOG);
    let path = |name: &str| folder.path().join(name);
    for (first, second) in [("a.shoal", "b.csv"), ("a.csv.gz", "b.csv"), ("a.shoal.zst", "b.csv")] {
        done(&trace(&["convert", name(&log), "--out", name(&path(first))]));
        done(&trace(&["convert", name(&path(first)), "--out", name(&path(second))]));
        let direct = trace(&["convert", name(&log)]);
        assert_eq!(std::fs::read_to_string(path(second)).expect("written"), done(&direct), "{first}");
    }
    done(&trace(&["convert", name(&log), "-o", name(&path("a.oracleGeneral"))]));
    let shown = trace(&["head", "-n", "1", "--json", name(&path("a.oracleGeneral"))]);
    assert_eq!(serde_json::from_str::<Value>(done(&shown)).expect("JSON")["time_ms"], 1_066_036_250_000u64);
    done(&trace(&["convert", name(&log), "-o", name(&path("a.parquet"))]));
    assert!(std::fs::read(path("a.parquet")).expect("written").starts_with(b"PAR1"));
    let unknown = trace(&["convert", name(&log), "-o", name(&path("a.what"))]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("the name does not tell the format"), "{}", stderr(&unknown));
}

#[test]
fn parts_are_filtered_sampled_and_merged() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder, LOG);
    let urls = |output: &Output| {
        let lines =
            done(output).lines().skip(1).map(|line| line.rsplit(',').next().unwrap_or_default().to_owned());
        lines.collect::<Vec<_>>()
    };
    let filter = |more: &[&str]| urls(&trace(&[&["filter", name(&log)], more].concat()));
    assert_eq!(filter(&["--rules", "get,status200,no-query"]), ["http://a.example/x/1.gif"; 2]);
    assert_eq!(filter(&["--host", ".example", "--client", "192.0.2.31"]).len(), 1);
    assert_eq!(filter(&["--status", "304,503"]).len(), 2);
    assert_eq!(
        filter(&["--after", "1066036252", "--before", "2003-10-13T09:10:53Z"]),
        ["http://b.example/y?q=1"]
    );
    assert_eq!(filter(&["--size-min", "2 KB"]).len(), 1);
    let sample = |more: &[&str]| urls(&trace(&[&["sample", name(&log)], more].concat())).len();
    assert_eq!((sample(&["--rate", "1"]), sample(&["--rate", "0"])), (5, 0));
    assert_eq!(trace(&["sample", name(&log), "--rate", "2"]).status.code(), Some(2));
    let later = folder.path().join("later.csv");
    std::fs::write(&later, "time_s,url\n1066036250.8,http://c.example/\n1066036259,http://d.example/\n")
        .expect("written");
    let merged = urls(&trace(&["merge", name(&later), name(&log)]));
    assert_eq!(
        (merged.len(), merged[1].as_str(), merged[6].as_str()),
        (7, "http://c.example/", "http://d.example/")
    );
}

#[test]
fn names_are_hidden_by_a_key() {
    let folder = TempDir::new().expect("a folder");
    let log = log(&folder, LOG);
    let key = folder.path().join("key");
    std::fs::write(&key, "sixteen bytes and more").expect("written");
    let hidden = |more: &[&str]| done(&trace(&[&["anonymize", name(&log)], more].concat())).to_owned();
    let text = hidden(&["--key-file", name(&key)]);
    assert_eq!(text, hidden(&["--key-file", name(&key)]));
    assert_ne!(hidden(&[]), hidden(&[]), "a key that is drawn is another each time");
    for secret in ["192.0.2", "a.example", "1.gif", "q=1", "?"] {
        assert!(!text.contains(secret), "{secret}\n{text}");
    }
    assert!(text.contains(".example/") && text.contains(".gif\n"), "{text}");
    std::fs::write(&key, "short").expect("written");
    let told = |more: &[&str]| stderr(&trace(&[&["anonymize", name(&log)], more].concat())).to_owned();
    assert!(told(&[]).contains("1 request lost their queries"), "{}", told(&[]));
    assert!(!told(&["--hash-queries"]).contains("queries"));
    let short = trace(&["anonymize", name(&log), "--key-file", name(&key)]);
    assert_eq!((short.status.code(), stderr(&short).contains("16 bytes")), (Some(1), true));
}

#[test]
fn standard_input_is_a_trace_too_and_a_reader_may_go() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shoal"))
        .args(["trace", "head", "-", "-n", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("piped").write_all(LOG.as_bytes()).expect("read");
    let output = child.wait_with_output().expect("it ends");
    assert!(done(&output).contains("http://a.example/x/1.gif"), "{}", stdout(&output));
    let folder = TempDir::new().expect("a folder");
    let many = log(&folder, &LOG.repeat(20_000));
    let mut child = Command::new(env!("CARGO_BIN_EXE_shoal"))
        .args(["trace", "convert", name(&many)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn bad_input_is_told_and_never_a_crash() {
    let folder = TempDir::new().expect("a folder");
    for (text, told) in [
        (&b""[..], "there is no line with a request"),
        (&b"three words here\n"[..], "the format is not one of those known"),
        (&b"\x28\xB5\x2F\xFD cut"[..], "cannot be read"),
        (&b"SHOALTRC cut"[..], "the header is damaged"),
    ] {
        let path = folder.path().join("bad");
        std::fs::write(&path, text).expect("written");
        let output = trace(&["info", name(&path)]);
        assert_eq!(output.status.code(), Some(1), "{told}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{told}: {}", stderr(&output));
    }
    let log = log(&folder, LOG);
    let strict = trace(&["info", "--strict", name(&log)]);
    assert_eq!(strict.status.code(), Some(1));
    assert!(stderr(&strict).contains("access.log: line 3: a native log line"), "{}", stderr(&strict));
    let missing = trace(&["info", "nowhere.log"]);
    assert_eq!((missing.status.code(), stderr(&missing).lines().count()), (Some(1), 1));
    let long = [LOG.as_bytes(), &vec![b'x'; 10 << 20], b"\n\xFF\xFE nonsense\n", LOG.as_bytes()].concat();
    std::fs::write(&log, long).expect("written");
    let refused = trace(&["info", name(&log)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("4 of 14 lines are bad for the format squid"), "{}", stderr(&refused));
    let output = trace(&["info", "--json", "--bad-lines", "0.5", name(&log)]);
    let json: Value = serde_json::from_str(done(&output)).expect("JSON");
    assert_eq!((&json["requests"], &json["reading"]["bad"]), (&10.into(), &4.into()));
    assert_eq!(json["reading"]["problems"][1], "line 7: the line is too long");
}

/// Output of a running node for each `log.format`: the same three requests.
const OURS: [(&str, &str); 3] = [
    (
        "squid",
        "971186137.238   1234 192.0.2.7 TCP_MISS/200 1234 GET http://example.org/a - HIER_DIRECT/example.org text/html\n\
         971186138.238   1234 192.0.2.7 TCP_MEM_HIT/200 1234 GET http://example.org/a al%20ice HIER_NONE/- text/html\n\
         971186139.016     12 10.0.0.1 TCP_TUNNEL_ABORTED/200 1234 CONNECT example.org:443 - HIER_DIRECT/203.0.113.9 -\n",
    ),
    (
        "common",
        "192.0.2.7 - - [10/Oct/2000:13:55:37 +0000] \"GET http://example.org/a HTTP/1.1\" 200 1234 \"-\" \"curl/8 \\\"x\\\"\" \"shoal; fwd=uri-miss; stored\"\n\
         192.0.2.7 - al%20ice [10/Oct/2000:13:55:38 +0000] \"GET http://example.org/a HTTP/1.1\" 200 1234 \"-\" \"curl/8\" \"shoal; hit\"\n\
         10.0.0.1 - - [10/Oct/2000:13:55:39 +0000] \"CONNECT example.org:443 HTTP/1.1\" 200 1234 \"-\" \"-\" \"\"\n",
    ),
    (
        "json",
        "{\"time\":\"2000-10-10T13:55:37.004Z\",\"duration_us\":1234567,\"client\":\"192.0.2.7\",\"client_port\":40000,\"method\":\"GET\",\"url\":\"http://example.org/a\",\"version\":\"1.1\",\"status\":200,\"head_bytes\":234,\"body_bytes\":1234,\"aborted\":false,\"outcome\":\"miss\",\"upstream\":\"203.0.113.9:80\",\"cache_status\":\"shoal; fwd=uri-miss\"}\n\
         {\"time\":\"2000-10-10T13:55:38.004Z\",\"duration_us\":12,\"client\":\"192.0.2.7\",\"client_port\":40000,\"method\":\"GET\",\"url\":\"http://example.org/a\",\"version\":\"1.1\",\"status\":200,\"head_bytes\":234,\"body_bytes\":1234,\"aborted\":false,\"outcome\":\"memory_hit\",\"cache_status\":\"shoal; hit\"}\n\
         {\"time\":\"2000-10-10T13:55:39.004Z\",\"duration_us\":12,\"client\":\"10.0.0.1\",\"client_port\":1,\"method\":\"CONNECT\",\"url\":\"example.org:443\",\"version\":\"1.1\",\"status\":200,\"head_bytes\":0,\"body_bytes\":1234,\"aborted\":true,\"outcome\":\"tunnel\",\"cache_status\":\"\"}\n",
    ),
];

#[test]
fn our_own_logs_are_traces_and_can_be_replayed() {
    for (format, text) in OURS {
        let folder = TempDir::new().expect("a folder");
        let log = log(&folder, text);
        let info = trace(&["info", "--json", "--filter", "get", name(&log)]);
        let json: Value = serde_json::from_str(done(&info)).expect("JSON");
        assert_eq!((&json["reading"]["format"], &json["reading"]["bad"]), (&format.into(), &0.into()));
        assert_eq!((&json["requests"], &json["objects"]), (&2.into(), &1.into()), "{format}");
        let hits = json["cache_that_logged"]["hit_ratio"].as_f64().expect("a number");
        assert!((0.3..=0.5).contains(&hits), "{format}: {hits}");
        let store = folder.path().join("store");
        std::fs::create_dir(&store).expect("made");
        let replay = run(&["replay", name(&log), "--dir", name(&store), "--warm-up", "0", "--json"]);
        let json: Value = serde_json::from_str(done(&replay)).expect("JSON");
        let measured = &json["parts"]["measured"];
        assert_eq!((&measured["requests"], &measured["hits"]), (&2.into(), &1.into()), "{format}");
    }
}

#[test]
fn specweb99_is_a_trace_a_file_set_and_a_model() {
    let values = "specweb99:throughput=50,requests=500,seed=2";
    let (first, again) = (trace(&["convert", values]), trace(&["convert", values]));
    assert_eq!(done(&first), done(&again));
    let posts = done(&first).lines().filter(|line| line.contains("POST")).count();
    assert!((5..60).contains(&posts), "{posts} POSTs of 500");
    assert!(done(&first).contains("/file_set/dir00000/class1_4"));
    assert_eq!(trace(&["convert", "specweb99:throughput=0"]).status.code(), Some(2));

    let folder = TempDir::new().expect("a folder");
    let set = folder.path().join("set");
    let set = set.to_str().expect("UTF-8");
    done(&run(&["lab", "files", set, "--directories", "1"]));
    let bytes =
        |name: &str| std::fs::metadata(format!("{set}/dir00000/{name}")).expect("it was written").len();
    assert_eq!((bytes("class0_0"), bytes("class1_4"), bytes("class3_8")), (102, 5120, 921_600));
    let refused = run(&["lab", "files", set, "--directories", "1"]);
    assert_eq!(refused.status.code(), Some(2), "what is there is not written over");

    let told = run(&[
        "model",
        "specweb99",
        "--directories",
        "50",
        "--cache",
        "12.8MB",
        "--requests",
        "20000",
        "--json",
    ]);
    let answers: Value = serde_json::from_str(done(&told)).expect("JSON");
    let hit_ratio = |index: usize| answers[index]["hit_ratio"].as_f64().expect("a number");
    assert!((hit_ratio(1) - hit_ratio(2)).abs() < 0.02, "{answers}");
    let left = answers[0]["throughput_left"].as_f64().expect("T / T0");
    assert!((0.8..1.0).contains(&left) && told.stderr.is_empty(), "{answers}");
    let cold = run(&["model", "specweb99", "--cache", "268MB", "--warm-up", "1000", "--requests", "1000"]);
    let warning = String::from_utf8_lossy(&cold.stderr);
    assert!(warning.contains("warning: 1000 accesses do not bring"), "{warning}");
    assert!(done(&cold).contains("T / T0"));
    assert_eq!(run(&["model", "specweb99", "--policy", "x"]).status.code(), Some(2));
}

#[test]
fn trace_overwrites_itself_completely() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("a.csv");
    let name = file.to_str().expect("UTF-8");
    // The input is longer than one read before the first write.
    let log: String =
        (0..20_000).map(|at| format!("{at},http://a.example/{},{}\n", at % 99, at % 7)).collect();
    std::fs::write(&file, format!("time_s,url,bytes\n{log}")).expect("written");
    done(&trace(&["filter", name, "--size-min", "1", "--out", name]));
    let kept = std::fs::read_to_string(&file).expect("it is there");
    assert_eq!(kept.lines().count(), 1 + (0..20_000).filter(|at| at % 7 > 0).count());
    std::fs::write(folder.path().join("bad.log"), format!("{LOG}no line\n")).expect("written");
    let bad = folder.path().join("bad.log");
    let refused = trace(&["convert", bad.to_str().expect("UTF-8"), "--strict", "--out", name]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), kept, "what was there is left alone");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2, "and nothing is beside it");
}

#[test]
fn a_trace_without_a_request_is_none() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let millis = file("ms.csv", "timestamp,url,size\n1700000000000,http://a/,5\n");
    let words = file("words.log", "these are no requests\nnor are these two\n");
    let log = file("access.log", LOG);
    for (arguments, told) in [
        (
            vec!["info", &millis],
            "no request is left: 2 lines, 1 of them bad (line 2: the time is no number of seconds",
        ),
        (vec!["info", &words], "not one of those known: \"these are no requests\"; --format"),
        (
            vec!["info", &log, "--filter", "get,status200,no-query,no-cgi", "--limit", "0"],
            "no request is left: 1 lines",
        ),
    ] {
        let output = trace(&arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    }
    let read = trace(&["info", &millis, "--columns", "time_ms,url,size"]);
    assert!(done(&read).contains("requests                  1"), "{}", stdout(&read));
}

#[test]
fn a_clock_that_was_not_set_does_not_stretch_a_log() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("a.log");
    let line = |seconds: u64| {
        format!("{seconds}.000 5 c TCP_MISS/200 100 GET http://a.example/{} - - -\n", seconds % 9)
    };
    let mut log: String = (0..99).map(|at| line(1_700_000_000 + at)).collect();
    log.insert_str(0, &line(12));
    std::fs::write(&path, log).expect("written");
    let info = trace(&["info", path.to_str().expect("UTF-8"), "--limit", "100"]);
    assert!(done(&info).contains("100 in 1 min 38 s"), "{}", stdout(&info));
    assert!(stdout(&info).contains("wrong times               1 requests"), "{}", stdout(&info));
    let part = trace(&["info", path.to_str().expect("UTF-8"), "--limit", "50"]);
    assert!(
        done(&part).contains("GET 50, HEAD 0"),
        "what is behind the limit counts nowhere: {}",
        stdout(&part)
    );
}
