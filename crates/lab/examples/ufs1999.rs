//! How much the results of the modelled machine hang on its assumptions: one trace, one architecture after the other, one
//! assumption changed at a time. Prints the table of docs/experiments/ufs1999.md.
//!
//! `cargo run --release -p shoal-lab --example ufs1999 -- TRACE [REQUESTS [ARCHITECTURE ...]]`

use shoal_core::Timestamp;
use shoal_lab::replay::{Driver, End, Outcome, Part, Plan, Sizes};
use shoal_store::arch::{Parts, Settings, open_store};
use shoal_store::door::ufs1999::{DirectoryPreference, Kind, Machine, Report, Ufs1999};
use shoal_store::index::MemoryHome;
use shoal_trace::{Filter, Input, ReadOptions, SizeChange, Trace};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which trace?")?;
    let requests = arguments.next().map_or(Ok(usize::MAX), |number| number.parse())?;
    let mut architectures: Vec<String> = arguments.collect();
    if architectures.is_empty() {
        architectures = ["squid", "squidl"].map(String::from).to_vec();
    }
    let input = Input::open(Path::new(&path))?;
    let (trace, ..) = Trace::read(input, &ReadOptions::default(), &Filter::paper(), requests, 0)?;
    println!(
        "{} requests for {} objects, the second half measured\n",
        trace.requests().len(),
        trace.objects().len()
    );
    let (mut kinds, mut shares) = (String::new(), String::new());
    for (name, machine) in machines() {
        shares += &format!("| {name} ");
        let mut first: Option<Report> = None;
        for architecture in &architectures {
            let (outcome, report) = run(architecture, machine.clone(), &trace)?;
            if name == AS_ASSUMED {
                kinds += &by_kind(architecture, &outcome, &report);
            }
            shares += &beside(first.as_ref().unwrap_or(&report), &report, outcome.measured.requests);
            first.get_or_insert(report);
        }
        shares += "|\n";
    }
    println!("{kinds}\n{shares}");
    Ok(())
}

/// The paper's machine, and others that differ in one assumption.
fn machines() -> Vec<(&'static str, Machine)> {
    let changed = |change: fn(&mut Machine)| {
        let mut machine = Machine::infinite();
        change(&mut machine);
        machine
    };
    vec![
        (AS_ASSUMED, changed(|_| ())),
        ("1029 names", changed(|machine| machine.memory.names = 1029)),
        ("100,000 names", changed(|machine| machine.memory.names = 100_000)),
        ("5000 inodes in memory", changed(|machine| machine.memory.inodes = 5000)),
        ("inodes leave their pages", changed(|machine| machine.memory.inodes_take_pages = false)),
        ("metadata in 5 MB", changed(|machine| machine.memory.metadata = 5 << 20)),
        ("metadata in 2 MB", changed(|machine| machine.memory.metadata = 2 << 20)),
        ("metadata in 50 MB", changed(|machine| machine.memory.metadata = 50 << 20)),
        ("128 MB for pages", changed(|machine| *machine = machine.clone().with_shared_memory(128 << 20))),
        (
            "folders beside their parents",
            changed(|machine| {
                machine.file_system.directory_preference = DirectoryPreference::WithParent;
            }),
        ),
        ("no access times", changed(|machine| machine.file_system.access_times = false)),
        ("tails join clusters", changed(|machine| machine.transfers.cluster_tails = true)),
        (
            "no clusters, no reading ahead",
            changed(|machine| {
                machine.transfers.cluster_blocks = 1;
                machine.transfers.read_ahead = false;
            }),
        ),
    ]
}

fn run(architecture: &str, machine: Machine, trace: &Trace) -> Result<(Outcome, Report), Box<dyn Error>> {
    let door = Ufs1999::new(machine);
    let settings = Settings {
        disk_bytes: 9 << 30,
        // 16 × 256 folders, of 256 files each.
        max_objects: 1 << 20,
        object_max_bytes: 1 << 30,
        files_per_folder: 0,
        now: Timestamp::from_seconds(900_000_000),
    };
    let parts = Parts { files: door.clone(), index: Box::new(MemoryHome::default()), boot: 1, lock: None };
    let store = open_store(architecture, &settings, parts)?;
    let plan = Plan {
        warm_up: trace.requests().len() / 2,
        in_flight: 1,
        sizes: Sizes::Stored,
        size_change: SizeChange::Identity,
        verify: true,
    };
    let mut reports = Vec::new();
    let driver = Driver { store: &*store, trace, plan, keeper: None, door: None };
    let outcome = driver.run(|_: Part| reports.push(door.report()), |_| true);
    match (&outcome.end, reports.as_slice()) {
        (End::Done, [warm, all]) if outcome.measured.wrong == 0 => Ok((outcome, all.clone() - warm)),
        (end, _) => Err(format!("{end:?}, {} wrong", outcome.measured.wrong).into()),
    }
}

/// A row of what the transfers were for.
fn by_kind(architecture: &str, outcome: &Outcome, report: &Report) -> String {
    let measured = &outcome.measured;
    let count =
        |is_write, kind| report.sum(|traffic| traffic.is_write == is_write && traffic.kind == kind).count;
    let kinds = Kind::ALL.map(|kind| format!("{} + {}", count(false, kind), count(true, kind)));
    format!(
        "| {architecture} | {:.1}% | {} | {:.1} | {:.0} | {:.0} | {:.0}% | {:.0}% |\n",
        100.0 * measured.hits as f64 / measured.requests.max(1) as f64,
        kinds.join(" | "),
        report.total().mean_bytes() / 1024.0,
        report.now.as_secs_f64(),
        report.busy().as_secs_f64(),
        100.0 * report.names.hit_ratio(),
        100.0 * report.metadata.hit_ratio(),
    )
}

/// Transfers a request, and both transfers and time as shares of the first architecture's.
fn beside(first: &Report, report: &Report, requests: u64) -> String {
    let a_request = report.total().count as f64 / requests.max(1) as f64;
    let transfers = 100.0 * report.total().count as f64 / first.total().count.max(1) as f64;
    let time = 100.0 * report.now.as_secs_f64() / first.now.as_secs_f64();
    format!("| {a_request:.2} | {transfers:.0}% | {time:.0}% ")
}

const AS_ASSUMED: &str = "as assumed";
