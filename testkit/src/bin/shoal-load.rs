//! Requests at given rates and what became of them: the open-loop load generator of `shoal_testkit::load` as a program,
//! for the benches.
//!
//! ```text
//! shoal-load ADDRESS SECONDS SEED '{"rate":50000,"path":"/1024","connections":64}' \
//!                                 '{"rate":300,"path":"/o/{}","objects":2000,"connections":16,"fields":["Accept: */*"]}'
//! shoal-load in-turn ADDRESS,ADDRESS,… SLICE_MS TURNS '{"rate":0,"path":"/1024","connections":64}'
//! ```
//!
//! `in-turn` loads several servers by one closed loop each, for so many milliseconds at a time, and prints a line for each. A stream is a JSON object; prints one for each: requests answered and failed, latencies in microseconds from when a request was due, and how
//! late the generator itself was. A rate of 0 makes a stream a closed loop. A tenth of the time, before the rest, is not counted.

#![forbid(unsafe_code)]

use serde_json::json;
use shoal_testkit::load::{Outcome, Stream, in_turn, run};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match told(&arguments) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("shoal-load: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what the arguments say; a line for each stream.
fn told(arguments: &[String]) -> Result<Vec<String>, String> {
    if let [word, addresses, slice, turns, text] = arguments
        && word == "in-turn"
    {
        return told_in_turn(addresses, slice, turns, text);
    }
    let [address, seconds, seed, streams @ ..] = arguments else {
        return Err(
            "usage: shoal-load ADDRESS SECONDS SEED '{\"rate\":R,\"path\":\"P\",\"connections\":N}' …, or: shoal-load \
            in-turn ADDRESS,… SLICE_MS TURNS '{\"rate\":0,…}'"
                .into(),
        );
    };
    let address: SocketAddr = number(address)?;
    let seconds: f64 = number(seconds)?;
    let streams = streams.iter().map(|text| stream(text)).collect::<Result<Vec<_>, _>>()?;
    let time = (Duration::from_secs_f64(seconds / 10.0), Duration::from_secs_f64(seconds));
    let outcomes = run(address, &streams, time, number(seed)?).map_err(|error| error.to_string())?;
    Ok(outcomes.iter().map(|outcome| line(outcome, seconds)).collect())
}

/// The same for servers in turn: a line for each.
fn told_in_turn(addresses: &str, slice: &str, turns: &str, text: &str) -> Result<Vec<String>, String> {
    let addresses = addresses.split(',').map(number).collect::<Result<Vec<SocketAddr>, _>>()?;
    let (slice, turns) = (Duration::from_millis(number(slice)?), number(turns)?);
    let outcomes = in_turn(&addresses, &stream(text)?, slice, turns).map_err(|error| error.to_string())?;
    Ok(outcomes.iter().map(|(outcome, loaded)| line(outcome, loaded.as_secs_f64())).collect())
}

/// A stream, of JSON.
fn stream(text: &str) -> Result<Stream, String> {
    serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text}: not understood"))
}

/// One stream's outcome as JSON.
fn line(outcome: &Outcome, seconds: f64) -> String {
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
    let latency = |share: f64| microseconds(outcome.latency_ns(share));
    json!({
        "answered": outcome.latencies_ns.len(),
        "answered_in_all": outcome.answered_in_all,
        "failed": outcome.failed,
        "rate": outcome.latencies_ns.len() as f64 / seconds,
        "p50_us": latency(0.50),
        "p90_us": latency(0.90),
        "p99_us": latency(0.99),
        "p999_us": latency(0.999),
        "late_p99_us": microseconds(outcome.late_ns(0.99)),
    })
    .to_string()
}
