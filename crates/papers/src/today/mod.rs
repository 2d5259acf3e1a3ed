//! Voelker's rules on today's hardware, and the frontier where shared memory stops paying.
//!
//! Each rule of the dissertation runs twice in the lab's simulators, with the same requests. One
//! run has the costs of its time, the other NVMe, 25 Gbit/s and faster processors. Assumptions of
//! today are in [`Hardware::TODAY`]; the frontiers say at which values a rule changes.

mod rules;

#[cfg(test)]
mod tests;

use super::drawing::{curve, plot};
use super::{Experiment, Inputs, LabError, Progress};
use shoal_lab::figure::{Axis, Mark, Unit};
use shoal_lab::global_memory::hardware::Hardware;
use shoal_lab::report::{Claim, Finding, Report, Section, Table};

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "today",
    question: "what would Voelker's rules be worth on today's hardware, and where does shared memory stop paying?",
    needs: "nothing; its programs and requests are made",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let mut sections = vec![rules::section(inputs.seed, inputs.is_small, progress)?];
    sections.extend([time_section(), money_section()]);
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Voelker's rules on today's hardware".into(),
        question: "Global memory was worth it since a disk took 13 ms and the network 0.37. A flash drive takes 0.08 ms and reads many pages at once. What is each rule worth now, and at \
                   which sizes, links and prices does another node's memory stop paying?"
            .into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: [Hardware::DISSERTATION, Hardware::TODAY].into_iter().map(fact).collect(),
        columns: vec!["ours".into()],
        sections,
        ..Report::default()
    })
}

fn fact(hardware: Hardware) -> (String, String) {
    let milliseconds = |seconds: f64| Unit::Milliseconds.shown(seconds * 1e3);
    let words = format!(
        "8 KB from disk in {}, from another node in {}; {} reads a second of a drive for {} $; RAM at {} $ a GB; {} times the computing",
        milliseconds(hardware.disk_seconds(PAGE)),
        milliseconds(hardware.remote_seconds(PAGE)),
        Unit::Count.shown(hardware.disk_reads_per_second),
        Unit::Count.shown(hardware.disk_dollars),
        Unit::Count.shown(hardware.ram_dollars_per_gb),
        Unit::Ratio.tick(hardware.computing),
    );
    (hardware.name.into(), words)
}

fn finding(key: &str, what: &str, unit: Unit, found: f64) -> Finding {
    Finding::new(key, what, unit, Claim::Words("not asked".into())).found(&[Some(found)])
}

fn links() -> [Hardware; 4] {
    [
        Hardware::TODAY.with_link("10 Gbit/s", 10.0),
        Hardware::TODAY,
        Hardware::TODAY.with_link("NVMe, 100 Gbit/s", 100.0),
        Hardware { network_seconds: 5e-6, ..Hardware::TODAY.with_link("25 Gbit/s without the kernel", 25.0) },
    ]
}

/// Returns sizes from 1 KiB to 64 MiB.
fn sizes() -> impl Iterator<Item = f64> {
    (10..=26).map(|power| f64::from(1u32 << power))
}

/// The frontier in time.
fn time_section() -> Section {
    let mut table = Table::new(
        "Size up to which another node's memory is faster than the own drive",
        &["link", "idle", "busy half of the time", "busy 90%", "8 KB: times as fast"],
    );
    let shown = |bytes: f64| if bytes.is_finite() { Unit::Bytes.shown(bytes) } else { "any".into() };
    let mut all = vec![Hardware::DISSERTATION];
    all.extend(links());
    for hardware in &all {
        let [idle, half, most] = [0.0, 0.5, 0.9].map(|busy| shown(hardware.frontier_bytes(busy)));
        table.row(&[hardware.name, &idle, &half, &most, &Unit::Ratio.shown(1.0 / hardware.ratio(PAGE))]);
    }
    let series = all.iter().map(|hardware| {
        let points =
            sizes().map(|bytes| (bytes, hardware.disk_seconds(bytes) / hardware.remote_seconds(bytes)));
        curve(hardware.name, points.collect())
    });
    let frontier = Hardware::TODAY.frontier_bytes(0.0);
    Section {
        anchor: "time".into(),
        title: "The frontier in time".into(),
        question: "Up to which size does a page come sooner from another node's memory than from the own drive?".into(),
        findings: vec![
            finding("frontier_idle", "frontier with 25 Gbit/s, nobody waits", Unit::Bytes, frontier),
            finding("frontier_busy", "the same with links that are busy 90% of the time", Unit::Bytes, Hardware::TODAY.frontier_bytes(0.9)),
            finding("worth_then", "8 KB: times as fast as disk, the dissertation's hardware", Unit::Ratio, 1.0 / Hardware::DISSERTATION.ratio(PAGE)),
            finding("worth_now", "the same with NVMe and 25 Gbit/s", Unit::Ratio, 1.0 / Hardware::TODAY.ratio(PAGE)),
        ],
        figures: vec![plot(
            "frontier-time",
            "Time of a page from the own drive over that from another node's memory, by size",
            "For the dissertation's hardware far above one at all sizes; for today's near three at small sizes, falling to one at a megabyte or so.",
            (Axis::log2("size of the page", Unit::Bytes), Axis::log10("times as fast as the drive", Unit::Ratio)),
            series.collect(),
            vec![Mark::Level { y: 1.0, label: "equal".into() }],
        )],
        tables: vec![table],
        notes: vec!["A drive is taken as idle, and reads ahead at 3.5 GB/s. A server's processor is not counted here; a node that is asked for a hundred thousand pages a second gives half a core for it.".into()],
        ..Section::default()
    }
}

/// The frontier in money.
fn money_section() -> Section {
    let prices = [2.0, 5.0, 10.0, 20.0];
    let dear = |dollars: f64| Hardware { ram_dollars_per_gb: dollars, ..Hardware::TODAY };
    let mut table = Table::new(
        "Interval between two reads of a page at which RAM costs what the drive's reads cost",
        &["RAM, $ a GB", "4 KB", "64 KB", "1 MB"],
    );
    let mut rows =
        vec![(format!("{} (Gray and Graefe 1997)", Unit::Count.shown(15_360.0)), Hardware::DISSERTATION)];
    rows.extend(prices.map(|dollars| (Unit::Count.shown(dollars), dear(dollars))));
    for (name, hardware) in &rows {
        let [small, middle, large] = [4096.0, 65_536.0, 1_048_576.0]
            .map(|bytes| Unit::Seconds.shown(hardware.break_even_seconds(bytes)));
        table.row(&[name, &small, &middle, &large]);
    }
    let mut series = vec![curve(
        "1997",
        sizes().map(|bytes| (bytes, Hardware::DISSERTATION.break_even_seconds(bytes))).collect(),
    )];
    series.extend(prices.map(|dollars| {
        let points = sizes().map(|bytes| (bytes, dear(dollars).break_even_seconds(bytes)));
        curve(format!("{} $ a GB", Unit::Count.shown(dollars)), points.collect())
    }));
    Section {
        anchor: "money".into(),
        title: "The frontier in money".into(),
        question: "How often must a page be read that RAM is bought for it, in any node?".into(),
        findings: vec![
            finding("interval_then", "8 KB: break-even interval at the prices of 1997", Unit::Seconds, Hardware::DISSERTATION.break_even_seconds(PAGE)),
            finding("interval_now", "8 KB: the same with a drive at 400 $ and RAM at 5 $ a GB", Unit::Seconds, Hardware::TODAY.break_even_seconds(PAGE)),
        ],
        figures: vec![plot(
            "frontier-money",
            "Break-even interval by size and price of RAM",
            "Minutes in 1997; today seconds, the fewer the dearer RAM is, and flat from the size on at which the drive's bytes bind and not its reads.",
            (Axis::log2("size of the page", Unit::Bytes), Axis::log10("interval between two reads", Unit::Seconds)),
            series,
            Vec::new(),
        )],
        tables: vec![table],
        notes: vec!["Idle RAM of other nodes costs nothing more, so that this frontier is for RAM that is bought. Prices of RAM have doubled and halved within a year lately: read the row of your offer.".into()],
        ..Section::default()
    }
}

/// Size of a page, in bytes.
const PAGE: f64 = 8192.0;
