//! Looks at the meters at the borders of a part.
//!
//! Before each look the file system is synced, so that every part pays for its own dirty pages; how
//! long that took is told apart.

use super::Options;
use super::device::{Activity, Device};
use super::report::PartReadings;
use super::usage::Usage;
use crate::failure::Failure;
use shoal_lab::replay::{Clock, TimingFs};
use std::fs::File;
use std::time::Instant;

/// The clock of the calls that are measured.
pub struct Stopwatch(Instant);

impl Default for Stopwatch {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Stopwatch {
    fn nanos(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// The meters when a part began.
pub struct PartStart {
    at: Instant,
    usage: Usage,
    activity: Option<Activity>,
    evictions: u64,
}

/// Looks at the meters before a part.
pub fn begin(
    options: &Options,
    door: &TimingFs,
    device: Option<&Device>,
    evictions: u64,
) -> Result<PartStart, Failure> {
    sync(options)?;
    door.take();
    let activity = activity(device)?;
    Ok(PartStart { activity, usage: Usage::now(), at: Instant::now(), evictions })
}

/// Looks at them after it.
pub fn end(
    options: &Options,
    begun: &PartStart,
    door: &TimingFs,
    device: Option<&Device>,
    evictions: u64,
) -> Result<PartReadings, Failure> {
    let seconds = begun.at.elapsed().as_secs_f64();
    let usage = Usage::now().since(&begun.usage);
    let calls = door.take();
    let synced = Instant::now();
    sync(options)?;
    let sync_seconds = synced.elapsed().as_secs_f64();
    let activity = activity(device)?.zip(begun.activity).map(|(now, then)| now.since(&then));
    Ok(PartReadings { seconds, sync_seconds, usage, calls, activity, evictions: evictions - begun.evictions })
}

/// Has the kernel give up its caches of files, folders and inodes.
pub fn drop_caches() -> Result<(), Failure> {
    let path = "/proc/sys/vm/drop_caches";
    std::fs::write(path, "3\n")
        .map_err(|error| Failure::Runtime(format!("cannot drop caches: {path}: {error}")))
}

fn sync(options: &Options) -> Result<(), Failure> {
    let folder = &options.dir;
    let failed =
        |error: std::io::Error| Failure::Runtime(format!("{}: cannot sync: {error}", folder.display()));
    let handle = File::open(folder).map_err(failed)?;
    rustix::fs::syncfs(&handle).map_err(|error| failed(error.into()))
}

fn activity(device: Option<&Device>) -> Result<Option<Activity>, Failure> {
    device.map(Device::activity).transpose().map_err(Failure::Runtime)
}
