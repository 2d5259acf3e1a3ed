//! Hosts of `shoal_testkit::hosts` as a program, for the benches, and what tests run on hosts.
//!
//! ```text
//! shoal-hosts serve 4                       makes four hosts, tells them as JSON, takes commands
//! shoal-hosts answer 198.18.0.10:9000       answers fetches over TCP and echoes datagrams
//! shoal-hosts fetch 198.18.0.10:9000 1000   fetches a body; prints microseconds
//! shoal-hosts ping 198.18.0.10:9000 50      sends datagrams; prints what became of them
//! ```
//!
//! Commands are lines on standard input; each is answered by a line that begins with `ok` or
//! `error`. At the end of input the hosts are removed with all that runs on them.

#![forbid(unsafe_code)]

mod commands;
mod probe;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["serve", count] => number(count).and_then(commands::serve),
        ["answer", address] => number(address).and_then(probe::answer),
        ["fetch", address, bytes] => {
            number(address).and_then(|address| probe::fetch(address, number(bytes)?))
        }
        ["ping", address, count] => number(address).and_then(|address| probe::ping(address, number(count)?)),
        _ => {
            Err("usage: shoal-hosts serve COUNT | answer ADDRESS | fetch ADDRESS BYTES | ping ADDRESS COUNT"
                .into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("shoal-hosts: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Reads a number or an address.
fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text}: not understood"))
}
