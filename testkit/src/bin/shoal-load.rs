//! Requests at given rates and what became of them: the load generator `shoal_testkit::load` as a
//! program, for the benches.
//!
//! ```text
//! shoal-load SLICE_MS TURNS SEED '{"address":"127.0.0.1:80","streams":[{"rate":50000,"path":"/1024","connections":64}]}' \
//!                                '{"address":"127.0.0.1:81","streams":[
//!                                    {"rate":300,"path":"/o/{}","objects":2000,"connections":16,"fields":["Accept: */*"]}]}'
//! ```
//!
//! Each argument in JSON is a server with streams of requests. They are loaded for so many
//! milliseconds at a time, in turn, until each had so many turns. Prints a line for each: a list
//! with an object for each stream, of the requests answered and failed, latencies in microseconds
//! from when a request was due, what of them was the server's, and how late the generator itself
//! was. A rate of 0 makes a stream a closed loop.

#![forbid(unsafe_code)]

use serde_json::{Value, json};
use shoal_testkit::load::{Case, Outcome, Turns, in_turn};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run_cases(&arguments) {
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

/// Runs what the arguments say; a line for each server.
fn run_cases(arguments: &[String]) -> Result<Vec<String>, String> {
    let [slice, turns, seed, cases @ ..] = arguments else {
        return Err(USAGE.into());
    };
    let cases: Vec<Case> = cases.iter().map(|text| parsed_case(text)).collect::<Result<_, _>>()?;
    let slice = Duration::from_millis(number(slice)?);
    let turns = in_turn(&cases, slice, number(turns)?, number(seed)?).map_err(|error| error.to_string())?;
    Ok(turns.iter().map(line).collect())
}

const USAGE: &str = "usage: shoal-load SLICE_MS TURNS SEED '{\"address\":\"A\",\"streams\":[{\"rate\":R,\"path\":\"P\",\"connections\":N}]}' …";

fn parsed_case(text: &str) -> Result<Case, String> {
    serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text}: not understood"))
}

/// What came of a server's streams.
fn line(turns: &Turns) -> String {
    let seconds = turns.loaded.as_secs_f64();
    turns.outcomes.iter().map(|outcome| object(outcome, seconds)).collect::<Value>().to_string()
}

/// One stream's outcome.
fn object(outcome: &Outcome, seconds: f64) -> Value {
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
    let latency = |share: f64| microseconds(outcome.latency_ns(share));
    json!({
        "answered": outcome.latencies_ns.len(),
        "failed": outcome.failed,
        "rate": outcome.latencies_ns.len() as f64 / seconds,
        "p50_us": latency(0.50),
        "p90_us": latency(0.90),
        "p99_us": latency(0.99),
        "p999_us": latency(0.999),
        "turn_p99_us": microseconds(outcome.middle_turn_p99_ns()),
        "server_p99_us": microseconds(outcome.server_ns(0.99)),
        "turn_server_p99_us": microseconds(outcome.middle_turn_server_p99_ns()),
        "late_p99_us": microseconds(outcome.late_ns(0.99)),
    })
}
