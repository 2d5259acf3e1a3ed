//! The Remote Memory Pager: costs of safe pages, with little and with much memory, and effects of a
//! lost server.

use super::{Axis, ProgramReferences, Progress, Unit, ratio};
use shoal_lab::cluster::{ClusterCounts, ClusterSize, RunPlan};
use shoal_lab::figure::{Bar, Bars, Chart, Figure};
use shoal_lab::report::{Finding, Section, Table};

pub(super) fn sections(programs: &[ProgramReferences], progress: &mut dyn Progress) -> Vec<Section> {
    progress.begin("pagers", (programs.len() * PAGERS.len() * 3) as u64);
    vec![cost(programs, progress), loss(programs, progress)]
}

fn cost(programs: &[ProgramReferences], progress: &mut dyn Progress) -> Section {
    let (mut figures, mut tables, mut findings) = (Vec::new(), Vec::new(), Vec::new());
    for (name, title, quarters) in ROOM {
        let mut bars = Vec::new();
        let heading = [
            "program",
            "redundancy",
            "mean with page-outs",
            "page-ins from disk",
            "page-outs to disk",
            "blocks sent",
            "over unprotected",
        ];
        let mut table = Table::new(title, &heading);
        let mut beside = Vec::new();
        for program in programs {
            let size = size(program, quarters);
            let ran = PAGERS.map(|(key, _)| {
                progress.done(1);
                program.run(key, &size, 1, true, RunPlan::default())
            });
            beside.push(ran);
            for (counts, (_, redundancy)) in ran.iter().zip(PAGERS) {
                bars.push(Bar::new(&format!("{}: {redundancy}", program.name), &parts(counts)));
                table.row(&row(program, redundancy, counts, &ran[0]).each_ref().map(String::as_str));
            }
        }
        let axis = Axis::linear("mean time of a reference", Unit::Milliseconds);
        let names = ["references", "page-outs"].map(String::from).to_vec();
        figures.push(Figure::new(
            name,
            title,
            "Mirroring takes longest, above all where memory is scarce; parity logging is nearest to no redundancy, but for two programs where its cleaner is busy.",
            Chart::Bars(Bars { axis, parts: names, bars, claimant: String::new() }),
        ));
        tables.push(table);
        findings.extend(claims(name, &beside));
    }
    Section {
        anchor: "pagers".into(),
        title: "Keeping pages safe".into(),
        question: "What does each redundancy of the Remote Memory Pager cost a program?".into(),
        figures,
        findings,
        tables,
        notes: vec![
            "One program with an eighth of its pages in local memory, and five servers, of which one keeps parity. A page-out takes 600 µs a block on the network, 14.8 ms to disk. A quarter of the references changes \
             its page."
                .into(),
            "\"The cleaner was never used, so its impact on parity logging performance is unknown\" (section 2.1.4). It is used here: where little room is left for old versions and any page may be written \
             next, groups seldom become inactive as a whole, and the cleaner sends more than parity logging spares; where pages are written in runs, or there is room, it has little to do."
                .into(),
        ],
        ..Section::default()
    }
}

/// Returns the mean times of a reference and of the blocks it sent away, in milliseconds.
fn parts(counts: &ClusterCounts) -> [f64; 2] {
    let pageouts = counts.mean_ms_with_pageouts() - counts.mean_ms();
    assert!(pageouts >= 0.0, "page-outs take {pageouts} ms");
    [counts.mean_ms(), pageouts]
}

fn row(
    program: &ProgramReferences,
    redundancy: &str,
    counts: &ClusterCounts,
    unprotected: &ClusterCounts,
) -> [String; 7] {
    let count = |count: u64| Unit::Count.shown(count as f64);
    [
        program.name.clone(),
        redundancy.into(),
        Unit::Milliseconds.shown(counts.mean_ms_with_pageouts()),
        count(counts.disk),
        count(counts.disk_writes),
        count(counts.forwarded),
        Unit::Ratio.shown(counts.mean_ms_with_pageouts() / unprotected.mean_ms_with_pageouts()),
    ]
}

fn claims(name: &str, ran: &[[ClusterCounts; PAGERS.len()]]) -> Vec<Finding> {
    let mean = |which: usize| {
        let over = |ran: &[ClusterCounts; PAGERS.len()]| {
            ran[which].mean_ms_with_pageouts() / ran[0].mean_ms_with_pageouts()
        };
        ran.iter().map(over).sum::<f64>() / ran.len().max(1) as f64
    };
    let key = |what: &str| format!("{}_{what}", name.replace('-', "_"));
    let room = if name == ROOM[0].0 { "little room" } else { "much room" };
    let what = |redundancy: &str| format!("{room}: time with {redundancy} over none, mean of programs");
    vec![
        ratio(&key("mirroring"), &what("mirroring"), "worst", mean(1)),
        ratio(&key("parity"), &what("parity"), "between", mean(2)),
        ratio(&key("logging"), &what("parity logging"), "best", mean(3)),
    ]
}

fn loss(programs: &[ProgramReferences], progress: &mut dyn Progress) -> Section {
    let heading = ["program", "redundancy", "pages lost", "blocks sent to rebuild", "blocks sent otherwise"];
    let mut table = Table::new("A server is lost half-way", &heading);
    for program in programs {
        let size = size(program, ROOM[1].2);
        let plan = RunPlan { warm_up: 0, failure: Some((program.references.len() as u64 / 2, 2)) };
        for (key, redundancy) in PAGERS {
            let counts = program.run(key, &size, 1, true, plan);
            let count = |count: u64| Unit::Count.shown(count as f64);
            table.row(&[
                &program.name,
                redundancy,
                &count(counts.lost),
                &count(counts.rebuilt),
                &count(counts.forwarded),
            ]);
            assert!(counts.lost == 0 || redundancy == "none", "{redundancy} loses no page");
            progress.done(1);
        }
    }
    Section {
        anchor: "lost-server".into(),
        title: "A lost server".into(),
        question: "What becomes of pages when a server is lost, and what does it take to make them again?".into(),
        tables: vec![table],
        notes: vec!["Pages have contents here, and parity is computed of them: a page counts as lost when what is read is not what was written last. \"They did not measure the cost of recovering from \
                     failure\" (section 2.1.4): mirroring copies each page once, parity and parity logging read the rest of its stripe or group for each."
            .into()],
        ..Section::default()
    }
}

/// Returns a cluster for a program with an eighth of its pages in local memory, and five servers.
/// The servers hold `quarters` quarters of its pages beside a fifth for parity.
fn size(program: &ProgramReferences, quarters: usize) -> ClusterSize {
    let server = (program.pages * quarters / 4 / 4).max(8);
    ClusterSize {
        nodes: [vec![(program.pages / 8).max(1)], vec![server; 5]].concat(),
        server: 0,
        objects: program.pages,
    }
}

const PAGERS: [(&str, &str); 4] = [
    ("pager", "none"),
    ("pager_mirroring", "mirroring"),
    ("pager_parity", "parity"),
    ("pager_parity_logging", "parity logging"),
];
/// Names, and quarters of the pages that servers hold beside parity.
const ROOM: [(&str, &str, usize); 2] = [
    ("pagers-scarce", "Room for a quarter more than all pages", 5),
    ("pagers-ample", "Room for twice as many as all pages", 8),
];
