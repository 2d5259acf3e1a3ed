//! Serves hits from RAM, or misses, to a client in memory, for the counter of instructions (see
//! [`rig`]).
//!
//! `cargo xtask instructions` builds the program with the profile `counted` and runs it under
//! callgrind with these arguments:
//!
//! ```text
//! REQUEST_FILE TIMES BODY_BYTES LOG_FILE CACHE_CONTROL PROTOCOL RULES_FILE
//! ```
//!
//! The protocol is `http1`, `http2`, or `waiting`, which is HTTP/1 on a socket. With `put` and
//! `get` another node puts and gets pages of 8 KiB instead, one in a message; with `puts` and
//! `gets` there are [`TOGETHER`] in each ([`pages`]). The rules file has the operator's rules as in
//! a settings file; `none` stands for no rules. The request file holds one request with LF line
//! ends. Its target is the target of `bare.txt`, which comes first and is a miss. All later
//! requests except the second must be hits. They must be misses if the origin says `no-store`, or
//! `max-age=0`, which makes the proxy ask the origin each time. Without arguments, among the other
//! tests, the program serves a few requests.

mod pages;
mod rig;

use pages::PageRig;
use rig::Rig;
use shoal_settings::{Log, LogFormat, Settings};

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [_, times, _, _, _, protocol, _] if PAGE_PROTOCOLS.contains(&&**protocol) => {
            let times = times.parse().map_err(|error| format!("{times}: {error}"))?;
            serve_pages(times, protocol);
            Ok(())
        }
        [file, times, body_bytes, log, cache_control, protocol, rules] if !file.starts_with('-') => {
            let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
            let read = |file| std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
            let rules = if rules == "none" { String::new() } else { read(rules)? };
            let answer = (number(body_bytes)? as usize, &**cache_control);
            serve(&read(file)?, number(times)?, answer, (log, protocol), &rules)
        }
        _ => {
            for protocol in ["http1", "http2"] {
                for rules in ["", include_str!("rules.toml")] {
                    serve(include_str!("browser.txt"), 100, (1024, FRESH), ("none", protocol), rules)?;
                    serve(include_str!("browser.txt"), 100, (1024, NO_STORE), ("none", protocol), rules)?;
                }
            }
            serve(include_str!("browser.txt"), 100, (1024, FRESH), ("none", "waiting"), "")?;
            PAGE_PROTOCOLS.into_iter().for_each(|protocol| serve_pages(100, protocol));
            for request in
                [include_str!("part.txt"), include_str!("revalidation.txt"), include_str!("head.txt")]
            {
                serve(request, 100, (1024, FRESH), ("none", "http1"), "")?;
            }
            Ok(())
        }
    }
}

/// Puts or gets pages. The node holds the same number of pages before, however many are counted.
fn serve_pages(times: u64, protocol: &str) {
    let rig = PageRig::start();
    rig.put(PAGES_BEFORE, TOGETHER);
    match protocol {
        "put" => rig.put(times, 1),
        "puts" => rig.put(times, TOGETHER),
        "get" => rig.get(times, 1),
        _ => rig.get(times, TOGETHER),
    }
    println!("{times} pages by {protocol}");
}

fn serve(
    request: &str,
    times: u64,
    answer: (usize, &str),
    (log, protocol): (&str, &str),
    rules: &str,
) -> Result<(), String> {
    let [first, request] = [include_str!("bare.txt"), request].map(|text| text.replace('\n', "\r\n"));
    let log = Log { access: log.into(), format: LogFormat::Squid, ..Log::default() };
    let rules = Settings::parse(rules, "the rules").map_err(|mistakes| format!("{mistakes:?}"))?.rule;
    let rig = Rig::start(log, answer, rules);
    // The second request may store a further copy of the response.
    let first = rig.ask(first.as_bytes(), 1) + rig.ask(request.as_bytes(), 1);
    let metrics = &rig.metrics;
    let counts =
        || [&metrics.hits_memory, &metrics.misses, &metrics.refresh_modified].map(|each| each.value());
    let before = counts();
    let bytes = match protocol {
        "http2" => rig.ask_http2(&request, times),
        "waiting" => rig.ask_waiting(request.as_bytes(), times),
        _ => rig.ask(request.as_bytes(), times),
    };
    let after = counts();
    let [hits, misses, refreshed] = std::array::from_fn(|each| after[each] - before[each]);
    println!(
        "{hits} hits, {misses} misses and {refreshed} refreshed of {times} requests, \
         {bytes} bytes after {first} of the first two"
    );
    let counted = match answer.1 {
        NO_STORE => misses,
        // Each new response replaces the stored one.
        STALE => refreshed,
        _ => hits,
    };
    if counted == times { Ok(()) } else { Err("not what was to be counted".into()) }
}

/// Pages that a holder has before it is counted.
const PAGES_BEFORE: u64 = 3000;

const PAGE_PROTOCOLS: [&str; 4] = ["put", "puts", "get", "gets"];

/// Pages of a message with several.
const TOGETHER: usize = 10;

const FRESH: &str = "max-age=86400";
const NO_STORE: &str = "no-store";
const STALE: &str = "max-age=0";
