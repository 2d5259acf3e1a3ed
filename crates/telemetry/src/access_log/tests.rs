//! The access log from its readers' side: lines in each format, escapes, rotation, a disk that
//! refuses.

use super::*;
use crate::record::{AccessRecord, CacheResult, NextHop};
use http::{HeaderValue, Method};
use proptest::prelude::*;
use shoal_core::Timestamp;
use std::path::Path;

fn record() -> AccessRecord {
    AccessRecord {
        is_for_peer: false,
        carries_requests: false,
        key: None,
        is_stored: false,
        time: Timestamp::from_millis(971_186_136_004),
        duration_us: 1_234_567,
        client: Some(([192, 0, 2, 7], 40_000).into()),
        user: Some("al ice".into()),
        method: Some(Method::GET),
        url: "http://example.org/a b".into(),
        version: "1.1",
        status: 200,
        body_bytes: 1000,
        head_bytes: 234,
        aborted: false,
        outcome: CacheResult::MemoryHit,
        upstream: None,
        referer: None,
        user_agent: Some(HeaderValue::from_static("curl/8 \"x\"")),
        content_type: Some(HeaderValue::from_static("text/html; charset=utf-8")),
        cache_status: "shoal; hit".into(),
        coding: "",
        failed: false,
        site: None,
        trace: None,
    }
}

fn name(upstream: &str) -> Option<NextHop> {
    Some(NextHop::Name(upstream.into()))
}

fn line(format: LogFormat, record: &AccessRecord) -> String {
    let mut line = Vec::new();
    format::append(format, &LogEntry::from(record), &mut line);
    String::from_utf8(line).expect("UTF-8")
}

#[test]
fn squid_lines() {
    let hit = "971186137.238   1234 192.0.2.7 TCP_MEM_HIT/200 1234 GET http://example.org/a%20b al%20ice HIER_NONE/- text/html\n";
    assert_eq!(line(LogFormat::Squid, &record()), hit);
    let tunnel = AccessRecord {
        duration_us: 12_000,
        client: Some("[::ffff:10.0.0.1]:80".parse().expect("an address")),
        user: None,
        method: Some(Method::CONNECT),
        url: "example.org:443".into(),
        aborted: true,
        outcome: CacheResult::Tunnel,
        upstream: name("203.0.113.9"),
        content_type: None,
        ..record()
    };
    let expected = "971186136.016     12 10.0.0.1 TCP_TUNNEL_ABORTED/200 1234 CONNECT example.org:443 - HIER_DIRECT/203.0.113.9 -\n";
    assert_eq!(line(LogFormat::Squid, &tunnel), expected);
    for (upstream, shown) in [
        ("origin.example:8080", "HIER_DIRECT/origin.example"),
        ("10.20.30.40:8080", "HIER_DIRECT/10.20.30.40"),
        ("[2001:db8::1]:80", "HIER_DIRECT/[2001:db8::1]"),
        ("2001:db8::1", "HIER_DIRECT/2001:db8::1"),
    ] {
        let direct = AccessRecord { upstream: name(upstream), ..record() };
        assert!(line(LogFormat::Squid, &direct).contains(&format!(" {shown} ")), "{upstream}");
        // An address is logged like its text.
        let Ok(address) = upstream.parse() else { continue };
        let by_address = AccessRecord { upstream: Some(NextHop::Address(address)), ..record() };
        for format in [LogFormat::Squid, LogFormat::Json] {
            assert_eq!(line(format, &by_address), line(format, &direct));
        }
    }
    let parent = AccessRecord { upstream: name("FIRSTUP_PARENT/10.0.0.2"), ..record() };
    assert!(line(LogFormat::Squid, &parent).contains(" FIRSTUP_PARENT/10.0.0.2 "));
}

#[test]
fn combined_lines() {
    let expected = concat!(
        r#"192.0.2.7 - al%20ice [10/Oct/2000:13:55:36 +0000] "GET http://example.org/a b HTTP/1.1" 200 1000 "-" "#,
        r#""curl/8 \"x\"" "shoal; hit""#,
        "\n"
    );
    assert_eq!(line(LogFormat::Combined, &record()), expected);
}

#[test]
fn json_lines() {
    let value: serde_json::Value =
        serde_json::from_str(&line(LogFormat::Json, &record())).expect("a JSON object");
    assert_eq!(value["time"], "2000-10-10T13:55:36.004Z");
    assert_eq!(value["client"], "192.0.2.7");
    assert_eq!(value["client_port"], 40_000);
    assert_eq!(value["outcome"], "memory_hit");
    assert_eq!(value["user_agent"], "curl/8 \"x\"");
    assert_eq!(value["duration_us"], 1_234_567);
    assert_eq!(value.get("referer"), None);
}

proptest! {
    /// For any client data, a record is one line with the fields in their places.
    #[test]
    fn no_client_can_forge_a_line_or_a_field(
        texts in prop::collection::vec(any::<String>(), 3),
        method in "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}",
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 3),
    ) {
        let [user, url, upstream] = texts.try_into().expect("three");
        // values that the transports accept in a field
        let mut values = values.iter().map(|bytes| HeaderValue::from_bytes(bytes).ok());
        let record = AccessRecord {
            user: Some(user), url: url.into(), upstream: name(&upstream),
            method: Some(Method::from_bytes(method.as_bytes()).expect("a token")),
            referer: values.next().flatten(), user_agent: values.next().flatten(),
            content_type: values.next().flatten(), ..record()
        };
        let squid = line(LogFormat::Squid, &record);
        prop_assert_eq!(squid.matches('\n').count(), 1);
        prop_assert_eq!(squid.split_ascii_whitespace().count(), 10);
        let combined = line(LogFormat::Combined, &record);
        prop_assert!(combined.trim_end_matches('\n').bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let mut bytes = combined.bytes();
        let mut quotes = 0;
        while let Some(byte) = bytes.next() {
            match byte {
                // within quotes a backslash takes the next byte with it
                b'\\' if quotes % 2 == 1 => drop(bytes.next()),
                b'"' => quotes += 1,
                _ => {}
            }
        }
        prop_assert_eq!(quotes, 8);
        let json = line(LogFormat::Json, &record);
        prop_assert_eq!(json.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&json).expect("a JSON object");
        prop_assert_eq!(value["status"].as_u64(), Some(200));
    }
}

fn open(path: &Path) -> (AccessLog, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    let settings = Log { access: path.display().to_string(), ..Log::default() };
    (AccessLog::open(&settings, metrics.clone()).expect("opened"), metrics)
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).map_or(0, |text| text.lines().count())
}

fn wait_for(what: impl Fn() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !what() {
        assert!(std::time::Instant::now() < until, "waited in vain");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn every_line_is_written_and_a_moved_file_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let (log, metrics) = open(&path);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| log.log(&LogEntry::from(&record()))));
        }
    });
    wait_for(|| lines(&path) == 400);
    std::fs::rename(&path, &moved).expect("moved");
    log.log(&LogEntry::from(&record()));
    log.reopen();
    wait_for(|| path.exists());
    log.log(&LogEntry::from(&record()));
    log.close();
    assert_eq!((lines(&moved), lines(&path)), (401, 1));
    assert_eq!(metrics.log_lines_dropped.value(), 0);
    log.log(&LogEntry::from(&record()));
    assert_eq!(metrics.log_lines_dropped.value(), 1, "closed");
}

/// The writer uses several pieces. A piece ends with a whole line unless the line is longer than a
/// piece. All lines may be pending at once if the writer is late.
#[test]
fn many_lines_and_long_ones_come_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let (log, metrics) = open(&path);
    let urls: Vec<_> =
        (0..200).map(|number| format!("http://example.org/{}", "x".repeat(number * 41))).collect();
    for url in &urls {
        log.log(&LogEntry::from(&AccessRecord { url: url.as_str().into(), ..record() }));
    }
    log.close();
    let text = std::fs::read_to_string(&path).expect("lines");
    assert!((1 << 18..1 << 20).contains(&text.len()) && text.ends_with('\n'));
    assert_eq!(text.lines().count(), urls.len());
    for (line, url) in text.lines().zip(&urls) {
        assert!(line.contains(&format!(" {url} ")), "{line}");
    }
    assert_eq!(metrics.log_lines_dropped.value(), 0);
}

#[test]
fn lines_that_the_disk_refuses_are_counted() {
    let (log, metrics) = open(Path::new("/dev/full"));
    for _ in 0..3 {
        log.log(&LogEntry::from(&record()));
    }
    log.close();
    assert_eq!(metrics.log_lines_dropped.value(), 3);
}

#[test]
fn no_log_is_no_error_and_a_bad_path_is_one() {
    let metrics = Arc::new(Metrics::default());
    let none = AccessLog::open(&Log::default(), metrics.clone()).expect("no log");
    none.log(&LogEntry::from(&record()));
    none.reopen();
    let settings = Log { access: "/absent/folder/access.log".into(), ..Log::default() };
    let error = AccessLog::open(&settings, metrics).err().expect("refused");
    assert!(
        error.to_string().starts_with("cannot open the access log /absent/folder/access.log: "),
        "{error}"
    );
}

/// A named pipe, for readers that take the lines elsewhere.
fn pipe(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("there is mkfifo");
    assert!(made.success());
    path
}

/// Returns the result of `work` if it finishes in time.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(work()));
    heard.recv_timeout(std::time::Duration::from_secs(8)).ok()
}

#[test]
fn a_pipe_without_a_reader_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Log { access: pipe(&folder).display().to_string(), ..Log::default() };
    let opened = in_time(move || AccessLog::open(&settings, Arc::default()).err());
    let error = opened.expect("it does not wait for a reader").expect("refused");
    assert!(error.to_string().contains("No such device or address"), "{error}");
}

#[test]
fn a_pipe_with_a_reader_is_written_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = pipe(&folder);
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("both ends");
    let (log, metrics) = open(&path);
    let reading = std::thread::spawn(move || {
        let lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
        lines.take(5000).map(|line| line.expect("readable").len()).sum::<usize>()
    });
    // More than a pipe holds, in pieces that fit into the buffers.
    let bytes = line(LogFormat::Squid, &record()).len() - 1;
    for _ in 0..50 {
        (0..100).for_each(|_| log.log(&LogEntry::from(&record())));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    log.close();
    assert_eq!(reading.join().expect("no panic"), 5000 * bytes);
    assert_eq!(metrics.log_lines_dropped.value(), 0);
}

/// A line without room is dropped as a whole. The other lines arrive in order, and whole.
#[test]
fn lines_that_find_no_room_are_dropped_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = pipe(&folder);
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("both ends");
    let (log, metrics) = open(&path);
    let numbered =
        |number: usize| AccessRecord { url: format!("http://example.org/{number}").into(), ..record() };
    // The lines fill the pipe and the buffers several times over.
    (0..50_000).for_each(|number| log.log(&LogEntry::from(&numbered(number))));
    let dropped = metrics.log_lines_dropped.value() as usize;
    assert!((10_000..45_000).contains(&dropped), "{dropped} lines were dropped");
    let reading = std::thread::spawn(move || {
        let lines = std::io::BufRead::lines(std::io::BufReader::new(reader));
        let number = |line: String| line.split(['/', ' ']).filter_map(|part| part.parse().ok()).next_back();
        let numbers = lines.take(50_000 - dropped).map(|line| number(line.expect("readable")));
        numbers.collect::<Vec<Option<usize>>>()
    });
    log.close();
    let numbers = reading.join().expect("no panic");
    assert!(numbers.iter().all(Option::is_some) && numbers.is_sorted(), "lines are torn or out of order");
    assert_eq!(metrics.log_lines_dropped.value() as usize, dropped, "what was taken is written");
}

#[test]
fn close_returns_despite_stopped_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = pipe(&folder);
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).expect("both ends");
    let (log, _) = open(&path);
    (0..2000).for_each(|_| log.log(&LogEntry::from(&record())));
    assert!(in_time(move || log.close()).is_some(), "it waits for the reader");
    drop(reader);
}
