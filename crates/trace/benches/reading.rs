//! Measures how fast logs are read: megabytes a CPU-second, from the page cache to records.
//!
//! `cargo bench -p shoal-trace --bench reading`; see docs/experiments/reading.md. The benchmark
//! makes traffic and writes it as lines of each format into a temporary file. A reader then reads
//! that file like any other file. The benchmark keeps only a sum of the records, so that it
//! measures reading alone.

use rustix::time::{ClockId, clock_gettime};
use shoal_trace::generate::Traffic;
use shoal_trace::{Input, ReadOptions, Reader, Request, Target, Trace, Writer};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

type Line = fn(&Trace, &Request) -> String;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let trace = Traffic { requests: 200_000, ..Traffic::default() }.make()?;
    println!("| format | bytes a line | MB a CPU-second | million lines a CPU-second |");
    println!("|---|--:|--:|--:|");
    let lines: [(&str, Line); 5] =
        [("squid", squid), ("common", common), ("combined", combined), ("json", json), ("w3c", w3c)];
    for (name, line) in lines {
        let path = folder.path().join(name);
        let head = if name == "w3c" { W3C_HEAD } else { "" };
        let text: String = trace.requests().iter().map(|request| line(&trace, request)).collect();
        let mut file = std::fs::File::create(&path)?;
        file.write_all(head.as_bytes())?;
        (0..BYTES / text.len()).try_for_each(|_| file.write_all(text.as_bytes()))?;
        measure(name, &path)?;
    }
    for (target, name) in
        [(Target::Csv, "csv"), (Target::OracleGeneral, "oracle_general"), (Target::Shoal, "shoal")]
    {
        let path = folder.path().join(name);
        write(&trace, target, &path)?;
        measure(name, &path)?;
    }
    Ok(())
}

/// Measures `ROUNDS` rounds and prints the best.
fn measure(name: &str, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut best: Option<(Duration, u64)> = None;
    let mut sum = 0;
    for _ in 0..ROUNDS {
        let before = cpu_time();
        let mut reader = Reader::of(Input::open(path)?, &ReadOptions::default())?;
        while let Some(bytes) = reader.next(|record| record.url.len() as u64 + record.bytes.unwrap_or(0))? {
            sum += bytes;
        }
        let taken = cpu_time() - before;
        assert_eq!(reader.reading().bad, 0, "{name}: {:?}", reader.reading().problems);
        if best.is_none_or(|(least, _)| taken < least) {
            best = Some((taken, reader.reading().lines));
        }
    }
    assert!(sum > 0);
    let (taken, lines) = best.ok_or("no round was run")?;
    let (seconds, bytes) = (taken.as_secs_f64(), std::fs::metadata(path)?.len() as f64);
    let (speed, rate) = (bytes / seconds / 1e6, lines as f64 / seconds / 1e6);
    println!("| {name} | {:.0} | {speed:.0} | {rate:.1} |", bytes / lines as f64);
    Ok(())
}

fn write(trace: &Trace, target: Target, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut writer = Writer::new(target, std::io::BufWriter::new(std::fs::File::create(path)?), 0)?;
    for request in trace.requests().iter().cycle().take(BYTES / 60) {
        writer.put(&shoal_trace::Record {
            time_ms: Some(request.time_ms),
            client: Some(client(request).into()),
            method: Some("GET".into()),
            status: Some(200),
            url: trace.url(request).into(),
            bytes: Some(request.bytes),
            ..shoal_trace::Record::default()
        })?;
    }
    writer.finish()?;
    Ok(())
}

fn client(request: &Request) -> String {
    format!("10.0.{}.{}", request.client / 250, request.client % 250)
}

fn squid(trace: &Trace, request: &Request) -> String {
    let (seconds, millis) = (request.time_ms / 1000 + EPOCH, request.time_ms % 1000);
    let (client, bytes, url) = (client(request), request.bytes, trace.url(request));
    format!(
        "{seconds}.{millis:03}    120 {client} TCP_MISS/200 {bytes} GET {url} - HIER_DIRECT/192.0.2.1 text/html\n"
    )
}

fn common(trace: &Trace, request: &Request) -> String {
    let second = request.time_ms / 1000;
    let time =
        format!("10/Oct/2000:{:02}:{:02}:{:02} +0000", second / 3600 % 24, second / 60 % 60, second % 60);
    format!(
        "{} - - [{time}] \"GET {} HTTP/1.1\" 200 {}\n",
        client(request),
        trace.url(request),
        request.bytes
    )
}

fn combined(trace: &Trace, request: &Request) -> String {
    let line = common(trace, request);
    format!("{} \"http://h1.example/from.html\" \"{AGENT}\" MISS\n", line.trim_end())
}

fn json(trace: &Trace, request: &Request) -> String {
    let (client, url, bytes) = (client(request), trace.url(request), request.bytes);
    format!(
        "{{\"time\":\"2000-10-10T13:55:36.004Z\",\"duration_us\":120,\"client\":\"{client}\",\"client_port\":4000,\
         \"method\":\"GET\",\"url\":\"{url}\",\"version\":\"1.1\",\"status\":200,\"head_bytes\":234,\"body_bytes\":{bytes},\
         \"aborted\":false,\"outcome\":\"miss\",\"user_agent\":\"{AGENT}\",\"cache_status\":\"shoal; fwd=uri-miss\"}}\n"
    )
}

fn w3c(trace: &Trace, request: &Request) -> String {
    let (client, url, bytes) = (client(request), trace.url(request), request.bytes);
    format!("2000-10-10 13:55:36 {client} GET {url} 200 {bytes} {}\n", AGENT.replace(' ', "+"))
}

/// Returns the CPU time that the process has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const W3C_HEAD: &str = "#Fields: date time c-ip cs-method cs-uri sc-status sc-bytes cs(User-Agent)\n";
const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
/// Approximate size of each file.
const BYTES: usize = 200 << 20;
const ROUNDS: usize = 3;
/// Start of the made logs, in seconds since 1970. Any time would do.
const EPOCH: u64 = 971_186_136;
