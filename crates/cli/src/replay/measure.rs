//! Reads the meters at the borders of a part.
//!
//! The file system is synced before each reading, so that every part pays for its own dirty pages.
//! The report shows the time of the sync separately.

use super::ReplayOptions;
use super::device::{Activity, Device};
use super::report::PartReadings;
use super::usage::Usage;
use crate::failure::Failure;
use shoal_lab::replay::{Clock, TimingFs};
use std::fs::File;
use std::time::Instant;

/// Clock for the measured calls.
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

/// Meters at the beginning of a part.
pub struct PartStart {
    at: Instant,
    usage: Usage,
    activity: Option<Activity>,
    evictions: u64,
}

/// Reads the meters before a part.
pub fn begin(
    options: &ReplayOptions,
    door: &TimingFs,
    device: Option<&Device>,
    evictions: u64,
) -> Result<PartStart, Failure> {
    sync(options)?;
    door.take();
    let activity = activity(device)?;
    Ok(PartStart { activity, usage: Usage::now(), at: Instant::now(), evictions })
}

/// Reads the meters after a part.
pub fn end(
    options: &ReplayOptions,
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

/// Drops the kernel's caches of files, folders and inodes.
pub fn drop_caches() -> Result<(), Failure> {
    let path = "/proc/sys/vm/drop_caches";
    std::fs::write(path, "3\n")
        .map_err(|error| Failure::Runtime(format!("cannot drop caches: {path}: {error}")))
}

fn sync(options: &ReplayOptions) -> Result<(), Failure> {
    let folder = &options.dir;
    let failed =
        |error: std::io::Error| Failure::Runtime(format!("{}: cannot sync: {error}", folder.display()));
    let handle = File::open(folder).map_err(failed)?;
    rustix::fs::syncfs(&handle).map_err(|error| failed(error.into()))
}

fn activity(device: Option<&Device>) -> Result<Option<Activity>, Failure> {
    device.map(Device::activity).transpose().map_err(Failure::Runtime)
}
