//! The speed of the replacement policies beside libCacheSim's, as a table.
//!
//! `cargo bench -p shoal-lab --bench policies`; see docs/experiments/policies.md. With `-- --trace
//! FILE` it writes the trace instead, 8 bytes a request (the object's number, little-endian), for
//! other simulators.

use rustix::time::{ClockId, clock_gettime};
use shoal_lab::simulator::speed::{SpeedSetup, measure, table};
use std::io::Write;
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let mut setting = SpeedSetup::REFERENCE;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {}
        ["--rounds", rounds] => setting.rounds = rounds.parse().expect("a number of rounds"),
        ["--trace", path] => return write_trace(&setting, path),
        other => panic!("--rounds N or --trace FILE, not {other:?}"),
    }
    print!("{}", table(&measure(&setting, &cpu_time)));
    Ok(())
}

/// Returns the CPU time that the process has taken.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn write_trace(setting: &SpeedSetup, path: &str) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for request in setting.trace() {
        file.write_all(&request.object.to_le_bytes())?;
    }
    file.flush()
}
