//! Clustered numbers while files are evicted: squid, squidl and Kroonmaa's two ideas with room for
//! a part of the objects, and the times of calls beside those that Kroonmaa measured.
//!
//! The paper's disks never fill. Andres Kroonmaa ("Clustered Store", squid-dev, 1998) wrote of a
//! full cache: runs of free numbers are gone, and unlinks are the dearest calls. The machine's
//! memory matters too, since the metadata of few objects fit into it. So each room is tried twice:
//! with the memory of the infinite caches, and with memory smaller by the same part.

use super::architectures::{ios, ratio, table};
use super::outcome::{Outcomes, RunResult};
use shoal_lab::figure::{Axis, Bar, Bars, Chart, Figure, Unit};
use shoal_lab::report::{Claim, Finding, Section, Table};
use shoal_machine1999::CallTime;

/// Room of a store, and the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Objects that the store holds, in percent of all.
    pub percent: u64,
    /// `true` if memory is smaller by the same part.
    pub is_memory_scaled: bool,
}

impl Room {
    /// Rooms of the section; with room for all they are the infinite caches.
    pub const ALL: [Self; 4] =
        [Self::of(30, false), Self::of(10, false), Self::of(30, true), Self::of(10, true)];

    const fn of(percent: u64, is_memory_scaled: bool) -> Self {
        assert!(percent > 0 && percent < 100, "a part of the objects");
        Self { percent, is_memory_scaled }
    }

    /// Returns the name of an architecture's run with this room.
    pub fn run(self, architecture: &str) -> String {
        let memory = if self.is_memory_scaled { ", and memory" } else { "" };
        format!("{architecture}, {}%{memory}", self.percent)
    }

    fn key(self) -> String {
        format!("{}{}", self.percent, if self.is_memory_scaled { "_memory" } else { "" })
    }

    fn name(self) -> String {
        let memory = if self.is_memory_scaled { " and as small a memory" } else { "" };
        format!("room for {}% of the objects{memory}", self.percent)
    }
}

/// Returns the section from the infinite caches and the runs with less room.
pub fn section(infinite: &Outcomes, finite: Vec<RunResult>) -> Section {
    let of_all =
        ARCHITECTURES.iter().filter_map(|name| infinite.modelled.iter().find(|run| run.name == *name));
    let all = Outcomes { modelled: of_all.cloned().chain(finite).collect(), real: Vec::new() };
    let mut findings: Vec<Finding> = Room::ALL.iter().flat_map(|room| ratios(*room, &all)).collect();
    findings.extend(times(&all));
    Section {
        anchor: "finite-disks".into(),
        title: "Extension: clustered numbers on a disk that is full".into(),
        question: "Kroonmaa's two ideas (next number, lowest number with files overwritten) save as much as squidl while nothing is evicted. What is left \
                   of each saving when files come and go?"
            .into(),
        figures: vec![
            figure("finite-disks", "Disk I/Os with room for all objects, for 30% and for 10%: reads and writes", &all, false),
            figure(
                "finite-disks-memory",
                "The same with the machine's memory smaller by the same part",
                &all,
                true,
            ),
        ],
        findings,
        tables: vec![table("The runs", &all.modelled), calls(&all.modelled)],
        notes: vec![
            "The store evicts by clock, and its folders are made for the objects that it has room for. Kroonmaa's cache was full: 14 GB, a million \
             objects, 50,000 requests an hour, squid_lowest with files truncated. His 12 ms are for open(WR), which made a file or truncated one; \
             before his cache was full, both opens took 4 ms. His disks are not known."
                .into(),
        ],
        ..Section::default()
    }
}

fn ratios(room: Room, all: &Outcomes) -> Vec<Finding> {
    let over = |name: &&str| {
        let found = ratio(all, &room.run(name), &room.run("squid"), ios);
        let what = format!("{}: {name}'s I/Os over squid's", room.name());
        let claim = Claim::Words("–".into());
        Finding::new(&format!("{name}_over_squid_{}", room.key()), &what, Unit::Ratio, claim).found(&found)
    };
    ARCHITECTURES[1..].iter().map(over).collect()
}

/// Returns Kroonmaa's three times beside the model's, of the full disk that is most like his.
fn times(all: &Outcomes) -> Vec<Finding> {
    let room = Room::of(30, true);
    let time = |name: &str, calls: fn(&RunResult) -> CallTime| {
        all.of([&room.run(name)], |[run]| calls(run).mean_seconds().map(|seconds| seconds * 1e3))
    };
    let finding = |key: &str, what: &str, claim: f64, found: [Option<f64>; 2]| {
        let what = format!("{}, {what}", room.name());
        Finding::new(key, &what, Unit::Milliseconds, Claim::Is(claim)).found(&found)
    };
    let written = |run: &RunResult| run.calls.creates.and(run.calls.opens_to_write);
    vec![
        finding(
            "open_read_ms",
            "squid_lowest: open to read",
            6.4,
            time("squid_lowest", |run| run.calls.opens_to_read),
        ),
        finding("open_write_ms", "squid_lowest: open to overwrite", 12.0, time("squid_lowest", written)),
        finding("create_ms", "squid_monotonic: create", 12.0, time("squid_monotonic", written)),
        finding(
            "unlink_ms",
            "squid_monotonic: unlink",
            40.0,
            time("squid_monotonic", |run| run.calls.unlinks),
        ),
        finding("unlink_ms_squid", "squid: unlink", 40.0, time("squid", |run| run.calls.unlinks)),
    ]
}

/// Returns the mean times of the calls of every run.
fn calls(runs: &[RunResult]) -> Table {
    let heading = ["run", "open to read", "open to overwrite", "create", "unlink"];
    let mut table = Table::new("Mean time of a call, with the number of calls", &heading);
    for run in runs {
        let shown = |calls: CallTime| match calls.mean_seconds() {
            Some(seconds) => format!("{:.2} ms ({})", seconds * 1e3, Unit::Count.shown(calls.count as f64)),
            None => "–".into(),
        };
        let calls = run.calls;
        let cells = [calls.opens_to_read, calls.opens_to_write, calls.creates, calls.unlinks].map(shown);
        table.row(&[&run.name, &cells[0], &cells[1], &cells[2], &cells[3]]);
    }
    table
}

fn figure(name: &str, title: &str, all: &Outcomes, is_memory_scaled: bool) -> Figure {
    let rooms = Room::ALL.iter().filter(|room| room.is_memory_scaled == is_memory_scaled);
    let names = ARCHITECTURES.map(String::from).into_iter();
    let names = names.chain(rooms.flat_map(|room| ARCHITECTURES.map(|name| room.run(name))));
    let runs = names.filter_map(|name| all.modelled.iter().find(|run| run.name == name));
    let bars = Bars {
        axis: Axis::linear("disk I/Os in the measured part", Unit::Count),
        parts: vec!["reads".into(), "writes".into()],
        bars: runs
            .map(|run| Bar::new(&run.name, &[run.files.reads as f64, run.files.writes as f64]))
            .collect(),
        claimant: "paper".into(),
    };
    Figure::new(name, title, "One bar a run.", Chart::Bars(bars))
}

/// squid, and the three ways of keeping together objects that are stored together.
pub const ARCHITECTURES: [&str; 4] = ["squid", "squidl", "squid_monotonic", "squid_lowest"];
