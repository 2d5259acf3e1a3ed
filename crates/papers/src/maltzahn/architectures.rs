//! Figures 4 and 5: the architectures' disk I/O and time.

use super::httpd;
use super::outcome::{Outcomes, RunResult};
use super::paper;
use shoal_lab::figure::{Axis, Bar, Bars, Chart, Figure, Unit};
use shoal_lab::report::{Claim, Finding, Section, Table};

/// Returns CERN and Squid side by side, split into reads and writes, on UFS and on a machine that
/// logs its metadata.
pub fn cern_section(infinite: &Outcomes, logged: Vec<RunResult>) -> Section {
    let shown = CERN_AND_SQUID.map(|name| infinite.modelled.iter().find(|outcome| outcome.name == name));
    let shown: Vec<RunResult> = shown.into_iter().flatten().cloned().chain(logged).collect();
    let outcomes = &Outcomes { modelled: shown, real: infinite.real.clone() };
    let bars = outcomes.modelled.iter().map(|outcome| {
        let reads = outcome.files.reads + outcome.mapped.reads;
        assert!(reads <= outcome.ios(), "{}: reads are I/Os", outcome.name);
        Bar::new(&outcome.name, &[reads as f64, (outcome.ios() - reads) as f64])
    });
    let bars = Bars {
        axis: Axis::linear("disk I/Os in the measured part", Unit::Count),
        parts: vec!["reads".into(), "writes".into()],
        bars: bars.collect(),
        claimant: "paper".into(),
    };
    let reads = |name: &str| outcomes.of([name], |[outcome]| Some(outcome.read_share()));
    let [cern_logged, httpd_logged, squid_logged] = CERN_AND_SQUID.map(logged_name);
    let similar = || Claim::Words("surprisingly similar".into());
    Section {
        anchor: "figure-4".into(),
        title: "Figure 4 (in print 3): CERN and Squid side by side".into(),
        question: "CERN keeps all state on disk, Squid an index in memory. Does that show, and how many of the I/Os are reads?".into(),
        figures: vec![Figure::new(
            "figure-4",
            "Disk I/O of cern, of the files that CERN httpd itself kept, and of squid, on UFS and with logged metadata: reads and writes",
            "Their reads and writes, one bar each.",
            Chart::Bars(bars),
        )],
        findings: vec![
            Finding::new("squid_reads", "squid: share of I/Os that read", Unit::Share, Claim::Is(paper::READS)).found(&reads("squid")),
            Finding::new("cern_reads", "cern: share of I/Os that read", Unit::Share, Claim::Is(paper::READS)).found(&reads("cern")),
            Finding::new("cern_over_squid", "cern's I/Os over squid's", Unit::Ratio, similar())
                .found(&ratio(outcomes, "cern", "squid", ios)),
            Finding::new("httpd_over_squid", "those of CERN httpd's own files over squid's", Unit::Ratio, similar())
                .found(&ratio(outcomes, httpd::NAME, "squid", ios)),
            Finding::new("httpd_reads", "CERN httpd's own files: share of I/Os that read", Unit::Share, Claim::Is(paper::READS))
                .found(&reads(httpd::NAME)),
            Finding::new("cern_over_squid_logged", "logged: cern's I/Os over squid's", Unit::Ratio, similar())
                .found(&ratio(outcomes, &cern_logged, &squid_logged, ios)),
            Finding::new("httpd_over_squid_logged", "logged: those of CERN httpd's own files over squid's", Unit::Ratio, similar())
                .found(&ratio(outcomes, &httpd_logged, &squid_logged, ios)),
            Finding::new("squid_reads_logged", "logged: squid: share of I/Os that read", Unit::Share, Claim::Is(paper::READS))
                .found(&reads(&squid_logged)),
            Finding::new("cern_reads_logged", "logged: cern: share of I/Os that read", Unit::Share, Claim::Is(paper::READS))
                .found(&reads(&cern_logged)),
            Finding::new("hit_ratio", "hit ratio meanwhile", Unit::Share, Claim::Is(paper::HIT_RATIO))
                .found(&outcomes.of(["squid"], |[squid]| Some(squid.hit_ratio()))),
        ],
        notes: vec![
            "Our cern keeps a folder, a metadata file and an object file for each URL, and makes a lock file beside them, so that a crash leaves nothing \
             half done. CERN httpd itself shared folders and metadata files among the URLs of a directory, and its lock file became the object; \
             httpd is a run of those calls. The paper compared on AdvFS, which logs its metadata: the machine of the logged runs does so, with AdvFS's 7% of \
             memory for metadata, and is UFS in all else."
                .into(),
        ],
        ..Section::default()
    }
}

/// Returns the architectures' I/O, split by kind of traffic, and time. `small` is the share of
/// references to objects of at most 8 KB.
pub fn section(outcomes: &Outcomes, small: f64) -> Section {
    let squid = outcomes.modelled.iter().find(|outcome| outcome.name == "squid");
    // cern's bar would be so long that the others could not be read. Figure 4 has it, as in the
    // paper.
    let all = || {
        ARCHITECTURES[1..]
            .iter()
            .filter_map(|name| outcomes.modelled.iter().find(|outcome| outcome.name == *name))
    };
    let io_bars = all().map(|outcome| {
        let bar = Bar::new(&outcome.name, &[outcome.files.count() as f64, outcome.mapped.count() as f64]);
        match (squid, claimed_share(&outcome.name)) {
            (Some(squid), Some(claimed)) => bar.claimed(claimed * squid.ios() as f64),
            _ => bar,
        }
    });
    let io = Bars {
        axis: Axis::linear("disk I/Os in the measured part", Unit::Count),
        parts: vec!["file system".into(), "memory-mapped file".into()],
        bars: io_bars.collect(),
        claimant: "paper, as a share of squid's".into(),
    };
    let time = Bars {
        axis: Axis::linear("time that the measured part takes", Unit::Seconds),
        parts: vec!["modelled machine".into()],
        bars: all().map(|outcome| Bar::new(&outcome.name, &[outcome.seconds])).collect(),
        claimant: "paper".into(),
    };
    let figure = |name: &str, title: &str, bars| {
        Figure::new(name, title, "One bar an architecture.", Chart::Bars(bars))
    };
    Section {
        anchor: "figure-5".into(),
        title: "Figure 5 (in print 4): disk I/O and time of the paper's six architectures and Kroonmaa's two".into(),
        question: "What do folders by server save, what folders filled one after the other, what a memory-mapped file for small objects, and what alignment to pages?".into(),
        figures: [
            figure("figure-5a", "Disk I/Os by architecture on the modelled machine: file system and memory-mapped file", io),
            figure("figure-5b", "Duration of the measured part by architecture on the modelled machine", time),
        ]
        .into_iter()
        .chain(real_figure("figure-5c", "architecture", &outcomes.real, |name| ARCHITECTURES.contains(&name)))
        .collect(),
        findings: findings(outcomes, small),
        tables: vec![table("The runs on the modelled machine", &outcomes.modelled), real_table(&outcomes.real, |name| ARCHITECTURES.contains(&name))]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .collect(),
        ..Section::default()
    }
}

/// Returns every run with its counts.
pub fn table(title: &str, outcomes: &[RunResult]) -> Table {
    let heading = [
        "run",
        "hits",
        "reads",
        "writes",
        "mapped reads",
        "mapped writes",
        "mean file I/O",
        "mean mapped I/O",
        "time",
    ];
    let mut table = Table::new(title, &heading);
    for outcome in outcomes {
        assert!((0.0..=1.0).contains(&outcome.hit_ratio()), "{}: hits are requests", outcome.name);
        let count = |number: u64| Unit::Count.shown(number as f64);
        let mean = |mean: Option<f64>| mean.map_or("–".into(), |mean| Unit::Bytes.shown(mean));
        table.row(&[
            &outcome.name,
            &Unit::Share.shown(outcome.hit_ratio()),
            &count(outcome.files.reads),
            &count(outcome.files.writes),
            &count(outcome.mapped.reads),
            &count(outcome.mapped.writes),
            &mean(outcome.files.mean_bytes()),
            &mean(outcome.mapped.mean_bytes()),
            &Unit::Seconds.shown(outcome.seconds),
        ]);
    }
    table
}

/// Returns the runs on a real disk with `wanted` names. Transfers on a real disk do not tell their
/// kind of traffic.
pub fn real_table(outcomes: &[RunResult], wanted: impl Fn(&str) -> bool) -> Table {
    let mut table =
        Table::new("The runs on a real disk", &["run", "hits", "reads", "writes", "mean I/O", "time"]);
    for outcome in outcomes.iter().filter(|outcome| wanted(&outcome.name)) {
        let count = |number: u64| Unit::Count.shown(number as f64);
        table.row(&[
            &outcome.name,
            &Unit::Share.shown(outcome.hit_ratio()),
            &count(outcome.files.reads),
            &count(outcome.files.writes),
            &outcome.files.mean_bytes().map_or("–".into(), |mean| Unit::Bytes.shown(mean)),
            &Unit::Seconds.shown(outcome.seconds),
        ]);
    }
    table
}

/// Returns the I/Os of the runs on a real disk with `wanted` names, reads and writes; `None` where
/// no run was measured.
pub fn real_figure(
    figure: &str,
    varied: &str,
    outcomes: &[RunResult],
    wanted: impl Fn(&str) -> bool,
) -> Option<Figure> {
    let runs = outcomes.iter().filter(|outcome| wanted(&outcome.name));
    let bars = runs
        .map(|outcome| Bar::new(&outcome.name, &[outcome.files.reads as f64, outcome.files.writes as f64]));
    let bars = Bars {
        axis: Axis::linear("disk I/Os in the measured part", Unit::Count),
        parts: vec!["reads".into(), "writes".into()],
        bars: bars.collect(),
        claimant: "paper".into(),
    };
    let title = format!("Disk I/Os by {varied} on today's disk: reads and writes");
    (!bars.bars.is_empty()).then(|| Figure::new(figure, &title, "One bar a run.", Chart::Bars(bars)))
}

/// Returns a quantity of one run over that of another.
pub fn ratio(outcomes: &Outcomes, of: &str, to: &str, quantity: fn(&RunResult) -> f64) -> [Option<f64>; 2] {
    outcomes.of([of, to], |[of, to]| {
        let whole = quantity(to);
        (whole != 0.0).then(|| quantity(of) / whole)
    })
}

/// Returns a run's transfers.
pub fn ios(outcome: &RunResult) -> f64 {
    outcome.ios() as f64
}

/// Returns a run's time, in seconds.
pub fn seconds(outcome: &RunResult) -> f64 {
    outcome.seconds
}

fn findings(outcomes: &Outcomes, small: f64) -> Vec<Finding> {
    let over = |of: &str, to: &str, claim| {
        Finding::new(&format!("{of}_over_{to}"), &format!("{of}'s I/Os over {to}'s"), Unit::Ratio, claim)
            .found(&ratio(outcomes, of, to, ios))
    };
    let mut findings = vec![
        over("squidl", "squid", Claim::Is(0.5)),
        over("squid_monotonic", "squid", Claim::Words("not in the paper".into())),
        over("squid_lowest", "squid", Claim::Words("not in the paper".into())),
        over("squidm", "squid", Claim::Is(0.4)),
        over("squidml", "squid", Claim::AtMost(0.3)),
        over("squidmla", "squid", Claim::AtMost(0.3)),
        over("squidmla", "squidml", Claim::Words("no discernible difference".into())),
    ];
    // The paper's calculation: all savings are on small objects, which have their share of the I/O.
    for (of, to, claim) in [("squidm", "squid", 0.85), ("squidml", "squidl", 0.63)] {
        let saved = ratio(outcomes, of, to, ios).map(|ratio| ratio.map(|ratio| (1.0 - ratio) / small));
        let what =
            format!("part of {to}'s I/Os for small objects that {of} saves, reckoned as the paper does");
        findings.push(
            Finding::new(&format!("{of}_saves_small"), &what, Unit::Share, Claim::Is(claim)).found(&saved),
        );
    }
    for (name, bytes) in [("squidm", 21.0), ("squidml", 21.0)] {
        let found = outcomes.of([name], |[outcome]| outcome.mapped.mean_bytes());
        findings.push(
            mean_transfer(
                &format!("{name}_mapped_transfer"),
                &format!("{name}: mean transfer, memory-mapped file"),
                bytes,
            )
            .found(&found),
        );
    }
    for (name, bytes) in [("squid", 8.0), ("squidl", 10.0)] {
        let found = outcomes.of([name], |[outcome]| outcome.files.mean_bytes());
        findings.push(
            mean_transfer(&format!("{name}_transfer"), &format!("{name}: mean transfer, files"), bytes)
                .found(&found),
        );
    }
    for name in ARCHITECTURES.iter().filter(|name| !["cern", "squid"].contains(name)) {
        let what = format!("{name}'s time over squid's");
        let found = ratio(outcomes, name, "squid", seconds);
        findings.push(
            Finding::new(
                &format!("{name}_time"),
                &what,
                Unit::Ratio,
                Claim::Words("as a figure only".into()),
            )
            .found(&found),
        );
    }
    findings
}

fn mean_transfer(key: &str, what: &str, kilobytes: f64) -> Finding {
    Finding::new(key, what, Unit::Bytes, Claim::Is(kilobytes * 1024.0))
}

/// Returns an architecture's I/O in the paper, as a share of squid's.
fn claimed_share(name: &str) -> Option<f64> {
    match name {
        "squidl" => Some(0.5),
        "squidm" => Some(0.4),
        "squidml" | "squidmla" => Some(0.3),
        _ => None,
    }
}

/// Returns the name of a run on the machine that logs its metadata.
pub fn logged_name(name: &str) -> String {
    format!("{name}, logged")
}

/// The runs of Figure 4.
pub const CERN_AND_SQUID: [&str; 3] = ["cern", httpd::NAME, "squid"];
/// The architectures in the paper's order, with Kroonmaa's two behind squidl: it keeps objects of a
/// server together, and they keep objects of one time together.
pub const ARCHITECTURES: [&str; 8] =
    ["cern", "squid", "squidl", "squid_monotonic", "squid_lowest", "squidm", "squidml", "squidmla"];
