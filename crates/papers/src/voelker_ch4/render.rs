//! Figures 4.4 to 4.7: Render with each kind of prefetching switched on in turn: its fetches, its
//! time, and the reasons for the fetches.

use super::{
    Axis, Bench, LabError, MOST_NODES, Unit, dotted, finding, nodes, nodes_axis, plot, speedup_axis,
};
use crate::Progress;
use shoal_lab::figure::{Bar, Bars, Chart, Figure, Mark};
use shoal_lab::prefetching::{PrefetchKinds, PrefetchSetup, Program, ProgramResult};
use shoal_lab::report::{Claim, Finding, Section};

/// Render under one kind of system, by nodes from one up.
struct RenderSeries {
    name: &'static str,
    runs: Vec<ProgramResult>,
}

/// All kinds, the fastest first, and the time on one node without hints.
struct RenderRuns {
    kinds: Vec<RenderSeries>,
    alone: f64,
}

pub(super) fn sections(bench: &Bench, progress: &mut dyn Progress) -> Result<Vec<Section>, LabError> {
    progress.begin("Render, by kind of prefetching", KINDS.len() as u64);
    let runs = runs(bench, progress)?;
    Ok(vec![kinds_section(&runs), fetches_section(&runs), time_section(&runs), causes_section(&runs)])
}

/// The systems of Figure 4.4, from its top: disk to local, global to local, disk to global.
const KINDS: [(&str, (bool, bool, bool)); 5] = [
    ("PGMS", (true, true, true)),
    ("without g→l", (true, false, true)),
    ("without d→g", (true, true, false)),
    ("d→l alone", (true, false, false)),
    ("GMS", (false, false, false)),
];

fn runs(bench: &Bench, progress: &mut dyn Progress) -> Result<RenderRuns, LabError> {
    let program = bench.render();
    let mut kinds = Vec::new();
    for (name, (disk_to_local, global_to_local, disk_to_global)) in KINDS {
        let prefetching = PrefetchKinds { disk_to_local, global_to_local, disk_to_global };
        let told = if prefetching == PrefetchKinds::NONE { program.unhinted() } else { program.clone() };
        // Full PGMS runs on more nodes too, to show its limit.
        let most = if prefetching == PrefetchKinds::ALL { MOST_RENDER } else { MOST_NODES };
        let runs: Result<Vec<ProgramResult>, LabError> =
            (0..most).map(|idle| run(bench, &told, idle, prefetching)).collect();
        kinds.push(RenderSeries { name, runs: runs? });
        progress.done(1);
    }
    Ok(RenderRuns { alone: bench.alone(&program)?, kinds })
}

fn run(
    bench: &Bench,
    program: &Program,
    idle: usize,
    prefetching: PrefetchKinds,
) -> Result<ProgramResult, LabError> {
    bench.run(program, &PrefetchSetup { prefetching, ..bench.setting(idle) })
}

impl RenderRuns {
    /// Returns the speedup of a kind, the fastest being 0, on `nodes` nodes.
    fn speedup(&self, kind: usize, nodes: usize) -> f64 {
        self.alone / self.kinds[kind].runs[nodes - 1].elapsed_seconds
    }
}

fn kinds_section(runs: &RenderRuns) -> Section {
    let series = runs.kinds.iter().enumerate().map(|(kind, of)| {
        let points = (1..=MOST_NODES).map(|nodes| (nodes as f64, runs.speedup(kind, nodes)));
        dotted(of.name, points.collect())
    });
    let marks = [(1.0, 1.6), (5.0, 4.9)];
    let marks = marks.map(|at| Mark::Point { at, label: format!("printed, {}", at.1) });
    Section {
        anchor: "figure-4-4".into(),
        title: "Render, by kind of prefetching (Figure 4.4)".into(),
        question: "Which kind of prefetching is it that helps?".into(),
        figures: vec![plot(
            "figure-4-4",
            "Speedup of Render; d→l is from the own disk, g→l from global memory, d→g from other nodes' disks",
            "With prefetching to global memory speedup grows to over five; without it stays at two and a half, without any below two.",
            (nodes_axis(MOST_NODES), speedup_axis()),
            series.collect(),
            marks.to_vec(),
        )],
        findings: kinds_findings(runs),
        notes: NOTES_OF_KINDS.iter().map(|note| note.to_string()).collect(),
        ..Section::default()
    }
}

fn kinds_findings(runs: &RenderRuns) -> Vec<Finding> {
    let (full, without_network, without_global, local, gms) = (0, 1, 2, 3, 4);
    let at = |kind, nodes| runs.speedup(kind, nodes);
    let is = |key, what, printed, found| finding(key, what, Unit::Ratio, Claim::Is(printed), found);
    let share = |key, what, claim, found| finding(key, what, Unit::Share, claim, found);
    vec![
        is("render_1", "speedup on 1 node: local-disk prefetching", 1.6, at(full, 1)),
        is("render_5", "speedup on 5 nodes", 4.9, at(full, 5)),
        is("render_7", "speedup on 7 nodes, where it levels off", 5.6, at(full, 7)),
        is("over_local", "PGMS on 5 nodes over local-disk prefetching", 3.1, at(full, 5) / at(full, 1)),
        is("over_gms", "PGMS over GMS, 5 nodes", 2.8, at(full, 5) / at(gms, 5)),
        share("worth_dl", "worth of d→l on one node", Claim::Is(0.57), at(local, 1) / at(gms, 1) - 1.0),
        share(
            "worth_gl",
            "worth of g→l, 5 nodes",
            Claim::Is(0.05),
            at(full, 5) / at(without_network, 5) - 1.0,
        ),
        share(
            "worth_gl_alone",
            "worth of g→l without d→g, 5 nodes",
            Claim::Words("slight".into()),
            at(without_global, 5) / at(local, 5) - 1.0,
        ),
        share(
            "worth_dg",
            "worth of d→g without g→l, 5 nodes",
            Claim::Words("large".into()),
            at(without_network, 5) / at(local, 5) - 1.0,
        ),
    ]
}

fn fetches_section(runs: &RenderRuns) -> Section {
    let bar = |kind: &RenderSeries, count: usize| {
        let ProgramResult { disk_to_local, global_to_local, disk_to_global, .. } = &kind.runs[count - 1];
        let parts = [
            disk_to_global.in_time,
            disk_to_global.stalls,
            global_to_local.in_time,
            global_to_local.stalls,
            disk_to_local.in_time,
            disk_to_local.stalls,
        ];
        Bar::new(&nodes(count), &parts.map(|part| part as f64))
    };
    let parts = ["d→g", "d→g late", "g→l", "g→l late", "d→l", "d→l late"];
    let figures = runs.kinds.iter().enumerate().map(|(index, kind)| {
        let bars = Bars {
            axis: Axis::linear("fetches", Unit::Count),
            parts: parts.map(String::from).to_vec(),
            bars: (1..=MOST_NODES).map(|count| bar(kind, count)).collect(),
            claimant: String::new(),
        };
        Figure::new(
            &format!("figure-4-5{}", ["a", "b", "c", "d", "e"][index]),
            &format!("Fetches of Render: {}", kind.name),
            "With more nodes fetches from the own disk give way to those of other disks, and hardly any is waited for.",
            Chart::Bars(bars),
        )
    });
    let of = |kind: usize, count: usize| &runs.kinds[kind].runs[count - 1];
    let counts = |key, what, claim: &str, found: u64| {
        finding(key, what, Unit::Count, Claim::Words(claim.into()), found as f64)
    };
    Section {
        anchor: "figure-4-5".into(),
        title: "Fetches and stalls (Figure 4.5)".into(),
        question: "Where do pages come from, and how many of them are waited for?".into(),
        findings: vec![
            counts("stalls_5", "fetches that are waited for, PGMS on 5 nodes", "all but a few", waited(of(0, 5))),
            counts("hits_gms_2", "GMS: pages from global memory, 2 nodes", "none", of(4, 2).global_to_local.all()),
            counts("hits_gms_3", "GMS: pages from global memory, 3 nodes", "some", of(4, 3).global_to_local.all()),
        ],
        figures: figures.collect(),
        notes: vec![
            "*Late* are those that the program waited for, prefetched or not. A page that another node prefetches counts twice, once into global memory and once into local. In print the fetches into local memory are as many under d→l as under GMS; here they are \
             fewer, since hints also choose better what to evict. So the prototype's hints did not serve replacement as much as they could (see below)."
                .into(),
        ],
        ..Section::default()
    }
}

/// Returns the fetches that a program waited for at the end of their way.
fn waited(run: &ProgramResult) -> u64 {
    run.disk_to_local.stalls + run.global_to_local.stalls
}

fn time_section(runs: &RenderRuns) -> Section {
    let bars = |kind: usize| {
        let bar = |count: usize| {
            let run = &runs.kinds[kind].runs[count - 1];
            Bar::new(&nodes(count), &[run.user_seconds, run.system_seconds, run.stall_seconds()])
        };
        Bars {
            axis: Axis::linear("elapsed time", Unit::Seconds),
            parts: ["user", "system", "stall"].map(String::from).to_vec(),
            bars: (1..=MOST_NODES).map(bar).collect(),
            claimant: String::new(),
        }
    };
    let figure = |name: &str, title: &str, kind| {
        let alternative =
            "User time is the same everywhere, system time a little more with more nodes, stalls vanish.";
        Figure::new(name, title, alternative, Chart::Bars(bars(kind)))
    };
    let share = |count: usize| {
        let run = &runs.kinds[0].runs[count - 1];
        run.stall_seconds() / run.elapsed_seconds
    };
    let system = |count: usize| runs.kinds[0].runs[count - 1].system_seconds;
    Section {
        anchor: "figure-4-6".into(),
        title: "Where time goes (Figure 4.6)".into(),
        question: "What of Render's time is computing, what is work of the system, and what is waiting?"
            .into(),
        figures: vec![
            figure("figure-4-6", "Elapsed time of Render under PGMS", 0),
            figure("figure-4-6-gms", "The same under GMS", 4),
        ],
        findings: vec![
            finding(
                "stall_1",
                "share of stalls, 1 node",
                Unit::Share,
                Claim::Words("substantial".into()),
                share(1),
            ),
            finding(
                "stall_5",
                "share of stalls, 5 nodes",
                Unit::Share,
                Claim::Words("enormously reduced".into()),
                share(5),
            ),
            finding(
                "system_5",
                "system time on 5 nodes over that on one",
                Unit::Ratio,
                Claim::Words("a small increase".into()),
                system(5) / system(1),
            ),
        ],
        ..Section::default()
    }
}

fn causes_section(runs: &RenderRuns) -> Section {
    let bar = |count: usize| {
        let ProgramResult { disk_to_local, disk_to_global, global_to_local, .. } =
            &runs.kinds[0].runs[count - 1];
        let parts = [disk_to_local, disk_to_global, global_to_local].map(|of| [of.cold, of.capacity()]);
        Bar::new(&nodes(count), &parts.as_flattened().iter().map(|part| *part as f64).collect::<Vec<f64>>())
    };
    let parts = ["d→l cold", "d→l capacity", "d→g cold", "d→g capacity", "g→l cold", "g→l capacity"];
    let capacity = |count: usize| {
        let run = &runs.kinds[0].runs[count - 1];
        (run.disk_to_local.capacity() + run.disk_to_global.capacity()) as f64
    };
    Section {
        anchor: "figure-4-7".into(),
        title: "Cold and capacity misses (Figure 4.7)".into(),
        question: "Is a page fetched for the first time, or because it had to leave?".into(),
        figures: vec![Figure::new(
            "figure-4-7",
            "Fetches of Render under PGMS, by cause",
            "Cold reads move from the own disk to others; reads of what had to leave vanish as memory grows, and come over the network instead.",
            Chart::Bars(Bars {
                axis: Axis::linear("fetches", Unit::Count),
                parts: parts.map(String::from).to_vec(),
                bars: (1..=MOST_NODES).map(bar).collect(),
                claimant: String::new(),
            }),
        )],
        findings: vec![
            finding(
                "capacity_2",
                "disk reads of pages that had to leave, 2 nodes over 1",
                Unit::Ratio,
                Claim::Words("unchanged".into()),
                capacity(2) / capacity(1).max(1.0),
            ),
            finding(
                "capacity_5",
                "the same, 5 nodes over 1",
                Unit::Ratio,
                Claim::Words("reduced".into()),
                capacity(5) / capacity(1).max(1.0),
            ),
        ],
        notes: vec![
            "*Cold* is the first read of a page from any disk, and, from global memory, the first time that it is local. That a second node leaves capacity misses unchanged is where the \
             prototype differs most from what its algorithm can do: with the future known, 64 MB keep a large part of 72 MB that are gone over again and again, where LRU keeps nothing."
                .into(),
        ],
        ..Section::default()
    }
}

const NOTES_OF_KINDS: &[&str] = &[
    "Render itself is not to be had. Its stand-in has its computing and its repetition from three printed numbers (5.6 on seven nodes, 4.9 over 2.8 for GMS, no hits within 64 MB); all others \
     are results.",
    "The level of 5.6 is reached on five nodes here and on seven in the prototype. At that level the program has the processor all the time, so that no policy can do better; in between, the prototype \
     waits more. Variants that come nearer to it are tried below.",
];

/// Largest number of nodes for Render under full PGMS, as in the text.
const MOST_RENDER: usize = 7;
