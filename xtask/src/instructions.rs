//! `cargo xtask instructions`: how many instructions a hit in RAM takes, a miss, and a page of
//! another node that is put or returned, compared with the record in `bench/instructions.txt`.
//!
//! Wall time on a shared machine moves by more than a change worth noticing; a count of
//! instructions hardly moves at all. The test binary `hits` of `crates/proxy` drives the product's
//! connection loop from memory; a miss has sockets to an origin on another thread, whose few
//! instructions count along; callgrind counts a short and a long run of it, so that starting,
//! filling the cache and ending cancel out.
//!
//! What keeps the count the same everywhere: the profile `counted` (which needs no link-time
//! optimisation), the compiler's default target CPU, and valgrind's own CPU, which is one and the
//! same for every host with AVX2, so that memcpy and the tokenizer choose the same variants. Other
//! hosts are skipped, and so is a machine without valgrind unless `CI` is set. A compiler's new
//! version may change the count: then the record is renewed by `cargo xtask instructions --renew`,
//! in a commit that says why.

use crate::Outcome;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One thing that is counted.
struct Point {
    name: &'static str,
    request: &'static str,
    body_bytes: u32,
    logged: bool,
    /// What the origin says: with `no-store`, misses are counted.
    cache_control: &'static str,
    /// `http1`, `http2`, or `waiting`: HTTP/1 on a socket, whose client's instructions count along.
    /// Pages of another node: `put` and `get`, or `puts` and `gets` with ten in a message.
    protocol: &'static str,
    /// Rules in force: a file beside the requests, or `none`.
    rules: &'static str,
    /// It may take so much more than the record says, in percent.
    growth_max: f64,
}

const POINTS: &[Point] = &[
    Point { name: "bare-1k", request: "bare.txt", ..HIT },
    Point { name: "browser-1k", ..HIT },
    Point { name: "browser-1k-log", logged: true, ..HIT },
    Point { name: "bare-1k-rules", request: "bare.txt", rules: "rules.toml", ..HIT },
    Point { name: "browser-1k-log-rules", logged: true, rules: "rules.toml", ..HIT },
    Point { name: "bare-8k", request: "bare.txt", body_bytes: 8192, ..HIT },
    Point { name: "put-8k", protocol: "put", ..PAGE },
    Point { name: "puts-8k", protocol: "puts", ..PAGE },
    Point { name: "get-8k", protocol: "get", ..PAGE },
    Point { name: "gets-8k", protocol: "gets", ..PAGE },
    Point { name: "browser-64k-log", body_bytes: 65536, logged: true, ..HIT },
    Point { name: "waiting-bare-1k", request: "bare.txt", protocol: "waiting", ..HIT },
    Point { name: "waiting-browser-1k-log", logged: true, protocol: "waiting", ..HIT },
    Point { name: "h2-browser-1k-log", logged: true, protocol: "http2", ..HIT },
    Point { name: "h2-browser-64k-log", body_bytes: 65536, logged: true, protocol: "http2", ..HIT },
    Point { name: "part-64k-log", request: "part.txt", body_bytes: 65536, logged: true, ..HIT },
    Point { name: "revalidation-1k-log", request: "revalidation.txt", logged: true, ..HIT },
    Point { name: "head-1k-log", request: "head.txt", logged: true, ..HIT },
    Point { name: "varied-1k-log", logged: true, cache_control: VARIED, ..HIT },
    Point { name: "miss-8k-log", request: "bare.txt", ..MISS },
    Point { name: "miss-browser-8k-log", ..MISS },
    Point { name: "stored-miss-8k-log", request: "bare.txt", cache_control: STALE, ..MISS },
];

/// What most points have.
const HIT: Point = Point {
    name: "",
    request: "browser.txt",
    body_bytes: 1024,
    logged: false,
    cache_control: FRESH,
    protocol: "http1",
    rules: "none",
    growth_max: 5.0,
};

/// What pages have. Their order of age depends on the time that the run takes: ten runs differ by
/// some 15%.
const PAGE: Point = Point { growth_max: 30.0, ..HIT };

/// What misses have.
const MISS: Point = Point { body_bytes: 8192, logged: true, cache_control: "no-store", ..HIT };

const FRESH: &str = "public, max-age=86400";

/// Stored, and asked for anew by the next request.
const STALE: &str = "max-age=0";

/// With another field behind it.
const VARIED: &str = "public, max-age=86400\r\nVary: Accept-Encoding";

/// Counts all points and compares them with the record, or writes a new one.
pub fn run(root: &Path, options: &[&str]) -> Outcome {
    let renew = match options {
        [] => false,
        ["--renew"] => true,
        other => return Err(format!("instructions knows --renew, not {other:?}")),
    };
    let in_ci = std::env::var_os("CI").is_some();
    if let Some(skipped) = skipped(has_valgrind(), has_avx2(), in_ci) {
        return skipped;
    }
    let binary = build(root)?;
    let record = root.join(RECORD);
    let known = std::fs::read_to_string(&record).map_err(|why| format!("{RECORD}: {why}"))?;
    let mut counts = Vec::new();
    for point in POINTS {
        let (few, many) = (count(root, &binary, point, FEW)?, count(root, &binary, point, MANY)?);
        counts.push(((point.name, point.growth_max), many.saturating_sub(few) / (MANY - FEW)));
    }
    if renew {
        std::fs::write(&record, written(&known, &counts)).map_err(|why| format!("{RECORD}: {why}"))?;
        return Ok(format!("instructions: {RECORD} renewed"));
    }
    compare(&known, &counts)
}

/// What is said where nothing can be counted. A host is what it is, but a program can be installed:
/// continuous integration fails without it.
fn skipped(has_valgrind: bool, has_avx2: bool, in_ci: bool) -> Option<Outcome> {
    match (has_valgrind, has_avx2) {
        (false, _) if in_ci => {
            Some(Err("instructions: there is no valgrind, and with CI set nothing may be skipped".into()))
        }
        (false, _) => Some(Ok("instructions: SKIPPED, since there is no valgrind".into())),
        (_, false) => Some(Ok(
            "instructions: SKIPPED, since valgrind's CPU is another one on hosts without AVX2".into(),
        )),
        _ => None,
    }
}

fn has_valgrind() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success())
}

fn has_avx2() -> bool {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    flags.split_ascii_whitespace().any(|flag| flag == "avx2")
}

/// Builds the binary and says where it is.
fn build(root: &Path) -> Result<PathBuf, String> {
    let arguments = ["test", "--package", "shoal-proxy", "--test", "hits", "--profile", "counted"];
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(arguments)
        .args(["--locked", "--no-run", "--message-format", "json"])
        // What a developer has set for builds of their own would change the count.
        .env_remove("RUSTFLAGS")
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| format!("cargo: {why}"))?;
    if !output.status.success() {
        return Err("instructions: the binary does not build".into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let named = messages.lines().filter(|line| line.contains("\"name\":\"hits\""));
    let mut paths = named
        .filter_map(|line| line.split_once("\"executable\":\""))
        .filter_map(|(_, rest)| rest.split('"').next());
    paths.next_back().map(PathBuf::from).ok_or_else(|| "instructions: cargo names no binary".into())
}

/// Instructions of one run that serves `times` requests.
fn count(root: &Path, binary: &Path, point: &Point, times: u64) -> Result<u64, String> {
    let log = if point.logged { "/dev/null" } else { "none" };
    let folder = root.join("crates/proxy/tests/hits");
    let rules = if point.rules == "none" { PathBuf::from("none") } else { folder.join(point.rules) };
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(binary)
        .arg(folder.join(point.request))
        .args([times.to_string(), point.body_bytes.to_string(), log.into(), point.cache_control.into()])
        .arg(point.protocol)
        .arg(rules)
        .output()
        .map_err(|why| format!("valgrind: {why}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    let number = collected.and_then(|(_, number)| number.trim().parse().ok());
    number
        .filter(|_| output.status.success())
        .ok_or_else(|| format!("{} failed under valgrind:\n{said}", point.name))
}

/// What grew too much, or a line for each point.
fn compare(known: &str, counts: &[((&str, f64), u64)]) -> Outcome {
    let mut lines = Vec::new();
    let mut grown = false;
    for ((name, growth_max), count) in counts {
        let recorded = recorded(known, name).ok_or_else(|| format!("{RECORD} has no line for {name}"))?;
        let percent = (*count as f64 - recorded as f64) * 100.0 / recorded as f64;
        let verdict = match percent {
            _ if percent > *growth_max => "TOO MANY",
            _ if percent < -growth_max => "fewer: renew the record, so that it holds",
            _ => "as before",
        };
        grown |= percent > *growth_max;
        lines.push(format!("{name}: {count} instructions, {percent:+.1}% of {recorded}: {verdict}"));
    }
    let text = format!("instructions:\n  {}", lines.join("\n  "));
    if grown { Err(text) } else { Ok(text) }
}

/// The count that the record gives for `name`.
fn recorded(known: &str, name: &str) -> Option<u64> {
    let mut lines = known.lines().filter(|line| !line.starts_with('#'));
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The record with these counts, under the remarks that it had.
fn written(known: &str, counts: &[((&str, f64), u64)]) -> String {
    let remarks = known.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n"));
    remarks.chain(counts.iter().map(|((name, _), count)| format!("{name} {count}\n"))).collect()
}

const RECORD: &str = "bench/instructions.txt";

/// Hits of the short run: enough that everything is warm.
const FEW: u64 = 500;

/// Hits of the long run.
const MANY: u64 = 2500;

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "# remark\nbare-1k 1000\nbrowser-1k 2000\n";

    #[test]
    fn growth_beyond_the_limit_fails() {
        assert!(compare(KNOWN, &[(("bare-1k", 5.0), 1050), (("browser-1k", 5.0), 1000)]).is_ok());
        let why = compare(KNOWN, &[(("bare-1k", 5.0), 1051)]).expect_err("5.1% more");
        assert!(why.contains("+5.1%"), "{why}");
        assert!(compare(KNOWN, &[(("bare-1k", 30.0), 1051)]).is_ok(), "a point of its own");
        assert!(compare(KNOWN, &[(("bare", 5.0), 1)]).is_err(), "no such line");
    }

    #[test]
    fn continuous_integration_counts_or_fails() {
        assert!(skipped(true, true, true).is_none());
        assert!(skipped(false, true, true).is_some_and(|outcome| outcome.is_err()));
        for (valgrind, avx2, in_ci) in [(false, true, false), (true, false, true), (true, false, false)] {
            let said = skipped(valgrind, avx2, in_ci).expect("nothing to count with").expect("no failure");
            assert!(said.contains("SKIPPED"), "{said}");
        }
    }

    #[test]
    fn a_renewed_record_keeps_its_remarks() {
        let renewed = written(KNOWN, &[(("bare-1k", 5.0), 7)]);
        assert_eq!(renewed, "# remark\nbare-1k 7\n");
        assert_eq!(recorded(&renewed, "bare-1k"), Some(7));
    }
}
