//! `shoal replay`: the disk workload generator on a real disk.

mod device;
mod interrupt;
mod measure;
mod options;
mod progress;
mod report;
mod source;
mod usage;

pub use options::{FilterRules, FormatName, ReplayOptions, SeparatorName};

use crate::failure::Failure;
use crate::show::print;
use device::Device;
use interrupt::Interrupt;
use measure::Stopwatch;
use progress::Progress;
use report::{PartReadings, Report};
use shoal_core::Timestamp;
use shoal_lab::replay::{Driver, DriverReplacement, End, ReplayResult, TimingFs, TracePart};
use shoal_policy::ReplacementPolicy;
use shoal_store::{OpenOptions, Store};
use source::ReplaySource;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

/// Runs a replay and prints the results, even if the replay ended early.
fn run(options: &ReplayOptions) -> Result<(), Failure> {
    let (wanted, policy) = (options.architecture()?, options.policy()?);
    options.check_directory()?;
    let source = source::load(options)?;
    let device = Device::of(&options.dir);
    let disk_bytes = options.disk_bytes.map_or_else(|| source::room_for_all(&source.trace), |bytes| bytes.0);
    let door = OnceLock::new();
    let store = open(options, wanted, disk_bytes, &source, &door)?;
    let door: &TimingFs = door.get().ok_or_else(|| Failure::Runtime("the store has no door".into()))?;
    let driver = Driver {
        store: &*store,
        trace: &source.trace,
        plan: options.plan(source.trace.requests().len()),
        keeper: policy.map(|policy| keeper(policy, options, &*store, &source)).transpose()?.map(Mutex::new),
        door: Some(door),
    };
    let held = store.usage();
    let mut sides = Vec::new();
    let outcome = drive(options, &driver, door, device.as_ref().ok(), &mut sides)?;
    let closed = store.close();
    let report = Report::new(report::ReportInput {
        options,
        source: &source,
        device: &device,
        store: &*store,
        held: &held,
        plan: &driver.plan,
        outcome: &outcome,
        sides,
    });
    print(&if options.json { report.json()? } else { report.text() })?;
    ending(options, &outcome, closed.err())
}

/// Returns the result that determines the exit code.
fn ending(
    options: &ReplayOptions,
    outcome: &ReplayResult,
    unclosed: Option<shoal_store::Error>,
) -> Result<(), Failure> {
    let folder = options.dir.display();
    let done = outcome.warm_up.requests + outcome.measured.requests;
    match &outcome.end {
        End::Failed(why) => Err(Failure::Runtime(format!(
            "{folder}: {why}; the figures are those of the first {done} requests"
        ))),
        End::Stopped => {
            Err(Failure::Runtime(format!("stopped; the figures are those of the first {done} requests")))
        }
        End::Done => match unclosed {
            Some(error) => Err(Failure::Runtime(format!("{folder}: {error}"))),
            None if outcome.warm_up.wrong + outcome.measured.wrong > 0 => {
                Err(Failure::Runtime(format!("{folder}: hits were not what had been written")))
            }
            None => Ok(()),
        },
    }
}

fn open(
    options: &ReplayOptions,
    architecture: &str,
    disk_bytes: u64,
    source: &ReplaySource,
    door: &OnceLock<TimingFs>,
) -> Result<Arc<dyn Store>, Failure> {
    let objects = source.trace.objects().len() as u64 + SPARE_OBJECTS;
    let open_options = OpenOptions {
        directory: options.dir.clone(),
        disk_bytes,
        // No disk holds more objects than it has segments of the smallest size.
        max_objects: options.max_objects.unwrap_or(objects.min(disk_bytes / SEGMENT_BYTES_MIN).max(1)),
        object_max_bytes: options.object_max.0,
        files_per_folder: options.files_per_folder,
        segments: options.segment_settings(),
        architecture: architecture.into(),
        now: Timestamp::from_system(SystemTime::now()),
        // The replacement is the architecture's own; the driver applies other policies.
        ..OpenOptions::default()
    };
    let wrapped = shoal_store::architectures::open_through(&open_options, |files| {
        let timed = TimingFs::new(files, Box::new(Stopwatch::default()));
        Arc::new(door.get_or_init(|| timed).clone())
    });
    wrapped.map_err(|error| match error {
        // These errors name the folder themselves, or concern the architecture.
        shoal_store::Error::Unusable(why) => Failure::Runtime(format!("{}: {why}", options.dir.display())),
        error => Failure::Runtime(format!("{}: {error}", options.dir.display())),
    })
}

/// Returns the driver's replacement, limited to the store's room for objects.
fn keeper(
    policy: &ReplacementPolicy<u64>,
    options: &ReplayOptions,
    store: &dyn Store,
    source: &ReplaySource,
) -> Result<DriverReplacement, Failure> {
    let usage = store.usage();
    if usage.objects > 0 {
        let folder = options.dir.display();
        return Err(Failure::Usage(format!("{folder} holds objects already; --policy needs a new store")));
    }
    let room = usage.bytes_max.saturating_sub(usage.bytes);
    // A new object is charged before the object that it replaces is released.
    let limit = room - room / ROOM_SPARED;
    assert!(limit <= room, "the driver keeps to the store's room");
    Ok(DriverReplacement::new((policy.construct)(), source.trace.objects().len(), limit, BLOCK_BYTES))
}

fn drive(
    options: &ReplayOptions,
    driver: &Driver<'_>,
    door: &TimingFs,
    device: Option<&Device>,
    sides: &mut Vec<PartReadings>,
) -> Result<ReplayResult, Failure> {
    let interrupt =
        Interrupt::watch().map_err(|error| Failure::Runtime(format!("cannot take signals: {error}")))?;
    let progress = Progress::new(driver.trace.requests().len());
    let mut begun = measure::begin(options, door, device, driver.store.usage().evictions)?;
    let mut failed = None;
    let outcome = driver.run(
        |part| {
            let evictions = driver.store.usage().evictions;
            let side = measure::end(options, &begun, door, device, evictions);
            let drop_caches = options.drop_caches && part == TracePart::WarmUp;
            let next = side.and_then(|side| {
                sides.push(side);
                if drop_caches {
                    measure::drop_caches()?
                }
                measure::begin(options, door, device, evictions)
            });
            match next {
                Ok(next) => begun = next,
                Err(error) => failed = Some(error),
            }
        },
        |at| {
            progress.at(at);
            !interrupt.is_raised()
        },
    );
    progress.finish();
    assert!(failed.is_some() || sides.len() <= 2, "a replay has a warm-up and a measured part");
    match failed {
        // A disk that fails during the run also fails at its end. The first failure is reported.
        Some(error) if outcome.end == End::Done => Err(error),
        _ => Ok(outcome),
    }
}

/// Numbers beyond the trace's objects, for versions that are replaced while they are read.
const SPARE_OBJECTS: u64 = 64;
/// Smallest unit in which stores account for space.
const BLOCK_BYTES: u64 = 4096;
/// Smallest space of an object, in a mapped file.
const SEGMENT_BYTES_MIN: u64 = 512;
/// One part in `ROOM_SPARED` of the room stays free for objects being written.
const ROOM_SPARED: u64 = 50;
