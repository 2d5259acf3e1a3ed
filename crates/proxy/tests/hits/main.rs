//! Serves hits out of RAM to a client in memory: what the counter of instructions runs ([`rig`] says how).
//!
//! `cargo xtask instructions` builds it with the profile `counted` and runs it under callgrind with these arguments:
//!
//! ```text
//! REQUEST_FILE TIMES BODY_BYTES LOG_FILE
//! ```
//!
//! The request file holds one request with LF line ends. A miss comes first; all that follows must be hits. Without these
//! arguments, among the other tests, it serves a few.

mod rig;

use rig::Rig;
use shoal_settings::{Log, LogFormat};

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [file, times, body_bytes, log] if !file.starts_with('-') => {
            let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            serve(&text, number(times)?, number(body_bytes)? as usize, log)
        }
        _ => serve(include_str!("browser.txt"), 100, 1024, "none"),
    }
}

fn serve(request: &str, times: u64, body_bytes: usize, log: &str) -> Result<(), String> {
    let request = request.replace('\n', "\r\n").into_bytes();
    let rig = Rig::start(Log { access: log.into(), format: LogFormat::Squid, ..Log::default() }, body_bytes);
    let first = rig.ask(&request, 1);
    let bytes = rig.ask(&request, times);
    let hits = rig.metrics.hits_memory.value();
    println!("{hits} hits of {times} requests, {bytes} bytes after {first} of the miss");
    if hits == times { Ok(()) } else { Err("not only hits".into()) }
}
