//! Sensitivity of the modelled machine's answers to its assumptions: two architectures over one
//! trace, one assumption changed at a time.
//!
//! The papers leave some facts about their machine open, and these had to be filled in ([`Machine`]
//! marks them). An answer that stays when such a value is halved or switched off does not depend on
//! it. An answer that moves shows the value to look up first.

use super::{Experiment, Inputs, LabError, Progress};
use shoal_core::Timestamp;
use shoal_lab::replay::{Driver, End, ReplayPlan, SizeMeaning, TracePart};
use shoal_lab::report::{Report, Section, Table};
use shoal_machine1999::{
    BlockKind, DirectoryPreference, Machine, MetadataWrites, Report as Transfers, Ufs1999,
};
use shoal_store::architectures::{ArchitectureOptions, StoreEnv, open_store};
use shoal_trace::{SizeChange, Trace};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "machine",
    question: "how much do the results on the modelled machine hang on its assumptions?",
    needs: "a trace with URLs and sizes",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let measured = inputs.workload.measured().len();
    if measured < LEAST_REQUESTS {
        return Err(LabError::TooFewRequests {
            found: inputs.workload.requests.len(),
            least: 2 * LEAST_REQUESTS,
        });
    }
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "What the modelled machine's answers hang on".into(),
        question: "The papers' machine is modelled with values of which some had to be assumed. How do transfers and time \
                   of squid and squidl, and what the one saves over the other, change with each of them?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: vec![("trace".into(), inputs.source.clone()), ("measured requests".into(), measured.to_string())],
        columns: Vec::new(),
        sections: vec![section(inputs, &machines(), progress)?],
        ..Report::default()
    })
}

fn section(
    inputs: &Inputs,
    machines: &[(&str, Machine)],
    progress: &mut dyn Progress,
) -> Result<Section, LabError> {
    let (trace, warm_up) = (&inputs.trace, inputs.workload.warm_up);
    let measured = inputs.workload.measured().len();
    progress.begin("machines", machines.len() as u64);
    let (mut kinds, mut shares) = (Vec::new(), Vec::new());
    for (name, machine) in machines {
        let squid = drive(ARCHITECTURES[0], machine, trace, warm_up)?;
        let squidl = drive(ARCHITECTURES[1], machine, trace, warm_up)?;
        if kinds.is_empty() {
            kinds = vec![by_kind(ARCHITECTURES[0], &squid), by_kind(ARCHITECTURES[1], &squidl)];
        }
        shares.push(beside(name, &squid, &squidl, measured));
        progress.done(1);
    }
    assert_eq!(shares.len(), machines.len(), "a row for each machine");
    Ok(layout(kinds, shares))
}

fn layout(kinds: Vec<Vec<String>>, shares: Vec<Vec<String>>) -> Section {
    let heading = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let kinds = Table {
        title: "Transfers by kind, reads + writes, as assumed".into(),
        heading: heading(&[
            "architecture",
            "data",
            "directories",
            "inodes",
            "addresses",
            "groups",
            "log",
            "mean KB",
            "seconds",
            "names found",
            "metadata found",
        ]),
        rows: kinds,
    };
    assert!(kinds.rows.iter().all(|row| row.len() == kinds.heading.len()), "a cell for each kind");
    let shares = Table {
        title: "Transfers a request, and squidl's beside squid's".into(),
        heading: heading(&["machine", "squid", "reads", "squidl", "reads", "transfers", "time"]),
        rows: shares,
    };
    Section {
        anchor: "machine".into(),
        title: "One assumption at a time".into(),
        question: "Which assumptions matter?".into(),
        tables: vec![kinds, shares],
        ..Section::default()
    }
}

/// Returns the machine as assumed, and others that differ from it in one thing.
fn machines() -> Vec<(&'static str, Machine)> {
    let with = |change: fn(&mut Machine)| {
        let mut machine = Machine::infinite();
        change(&mut machine);
        machine
    };
    vec![
        ("as assumed", Machine::infinite()),
        ("1029 names", with(|machine| machine.memory.names = 1029)),
        ("100,000 names", with(|machine| machine.memory.names = 100_000)),
        ("5000 inodes in memory", with(|machine| machine.memory.inodes = 5000)),
        ("inodes leave their pages", with(|machine| machine.memory.inodes_take_pages = false)),
        ("metadata in 2 MB", with(|machine| machine.memory.metadata = 2 << 20)),
        ("metadata in 5 MB", with(|machine| machine.memory.metadata = 5 << 20)),
        ("metadata in 50 MB", with(|machine| machine.memory.metadata = 50 << 20)),
        ("128 MB for pages", Machine::infinite().with_shared_memory(128 << 20)),
        (
            "folders beside parents",
            with(|machine| {
                machine.file_system.directory_preference = DirectoryPreference::WithParent;
            }),
        ),
        ("no access times", with(|machine| machine.file_system.access_times = false)),
        ("tails join clusters", with(|machine| machine.transfers.cluster_tails = true)),
        (
            "logged metadata",
            with(|machine| {
                machine.file_system.metadata_writes = MetadataWrites::Logged { change_bytes: 512 };
            }),
        ),
        ("no clusters", with(|machine| machine.transfers.cluster_blocks = 1)),
    ]
}

/// Drives one architecture on one machine and returns the transfers of the measured part.
fn drive(
    architecture: &str,
    machine: &Machine,
    trace: &Trace,
    warm_up: usize,
) -> Result<Transfers, LabError> {
    let failed = |reason: String| LabError::Store { run: architecture.into(), reason };
    let door = Ufs1999::new(machine.clone());
    let settings = ArchitectureOptions {
        disk_bytes: door_bytes(machine),
        max_objects: FOLDERS * FILES_PER_FOLDER,
        now: Timestamp::from_seconds(900_000_000),
        ..ArchitectureOptions::default()
    };
    let parts = StoreEnv::in_memory(door.clone());
    let store = open_store(architecture, &settings, parts).map_err(|error| failed(error.to_string()))?;
    let plan = ReplayPlan {
        warm_up,
        in_flight: 1,
        sizes: SizeMeaning::Stored,
        size_change: SizeChange::Identity,
        verify: false,
    };
    let mut reports = Vec::new();
    let driver = Driver { store: &*store, trace, plan, keeper: None, door: None };
    let outcome = driver.run(|_: TracePart| reports.push(door.report()), |_| true);
    match (outcome.end, reports.as_slice()) {
        (End::Done, [warm, all]) => {
            assert!(warm.now <= all.now, "the warm-up comes first");
            Ok(all.clone() - warm)
        }
        (end, _) => Err(failed(format!("{end:?}"))),
    }
}

/// Returns the bytes that a store may take: the disks without the file systems' reserve.
fn door_bytes(machine: &Machine) -> u64 {
    let all: u64 = machine.disks.iter().map(|disk| disk.model.bytes()).sum();
    all / 100 * 85
}

fn by_kind(architecture: &str, run: &Transfers) -> Vec<String> {
    let count =
        |is_write, kind| run.sum(|traffic| traffic.is_write == is_write && traffic.kind == kind).count;
    let mut row = vec![architecture.to_owned()];
    row.extend(BlockKind::ALL.map(|kind| format!("{} + {}", count(false, kind), count(true, kind))));
    row.push(format!("{:.1}", run.total().mean_bytes() / 1024.0));
    row.push(format!("{:.0}", run.now.as_secs_f64()));
    row.push(percent(run.names.hit_ratio()));
    row.push(percent(run.metadata.hit_ratio()));
    row
}

fn beside(name: &str, squid: &Transfers, squidl: &Transfers, requests: usize) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    for run in [squid, squidl] {
        let reads = run.sum(|traffic| !traffic.is_write).count;
        assert!(reads <= run.total().count, "{name}: reads are transfers");
        row.push(format!("{:.2}", run.total().count as f64 / requests as f64));
        row.push(percent(reads as f64 / run.total().count.max(1) as f64));
    }
    row.push(percent(squidl.total().count as f64 / squid.total().count.max(1) as f64));
    row.push(percent(squidl.now.as_secs_f64() / squid.now.as_secs_f64().max(f64::MIN_POSITIVE)));
    row
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

const ARCHITECTURES: [&str; 2] = ["squid", "squidl"];
/// 16 first-level folders with 256 each (Maltzahn 1999, section 4).
const FOLDERS: u64 = 16 * 256;
/// Files in each folder: with this number, `squid` makes `FOLDERS` folders.
const FILES_PER_FOLDER: u64 = 256;
/// Least measured requests: fewer make no distribution.
const LEAST_REQUESTS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_lab::workload::trace_of;

    struct Quiet;

    impl Progress for Quiet {
        fn begin(&mut self, _: &str, _: u64) {}
        fn done(&mut self, _: u64) {}
    }

    #[test]
    fn every_machine_has_its_row() {
        let urls: Vec<String> = (0..150).map(|n| format!("http://h{}.example/{n}", n % 9)).collect();
        let requests = (0..300u64).map(|n| (urls[(n * n % 150) as usize].as_str(), n, 3000 + n % 9));
        let inputs = Inputs::new(trace_of(requests), 0.5);
        let two = &machines()[..2];
        let tables = section(&inputs, two, &mut Quiet).expect("the trace suffices").tables;
        assert_eq!((tables[0].rows.len(), tables[1].rows.len()), (2, two.len()));
        assert!(tables.iter().all(|table| table.rows.iter().all(|row| row.len() == table.heading.len())));
        let too_few = Inputs::new(trace_of([("a", 0, 1)]), 0.5);
        assert!(matches!(run(&too_few, &mut Quiet), Err(LabError::TooFewRequests { .. })));
    }
}
