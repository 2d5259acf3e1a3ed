//! Dodo: speedup over disk by a program's own memory, by replacement, and by the size of regions.

use super::{Axis, ProgramReferences, Progress, SchemeEffort, Unit, curve, plot, ratio};
use shoal_lab::cluster::{ClusterCounts, ClusterSize, RunPlan};
use shoal_lab::report::{Section, Table};

pub(super) fn section(
    programs: &[ProgramReferences],
    effort: &SchemeEffort,
    progress: &mut dyn Progress,
) -> Section {
    let sizes = programs.len() * REGIONS.len() * 2;
    progress.begin("regions", (programs.len() as u32 * effort.points) as u64 + sizes as u64);
    let mut series = Vec::new();
    let mut best: f64 = 0.0;
    for program in programs {
        let point = |at: u32| {
            progress.done(1);
            let local =
                LEAST_LOCAL + (MOST_LOCAL - LEAST_LOCAL) * f64::from(at) / f64::from(effort.points - 1);
            (local, speedup(program, "dodo", local, REGION))
        };
        let points: Vec<(f64, f64)> = (0..effort.points).map(point).collect();
        best = points.iter().map(|point| point.1).fold(best, f64::max);
        series.push(curve(program.name.clone(), points));
    }
    let enough = series.iter().filter_map(|series| series.points.last()).map(|point| point.1);
    let enough = enough.fold(0.0, f64::max);
    let figure = plot(
        "regions-speedup",
        "Speedup over reading regions from disk, by the share of its pages that a program's own memory holds",
        "Speedups are up to several times where the own memory holds part of the pages, and one where it holds all.",
        (Axis::share("pages in the own memory"), Axis::linear("speedup", Unit::Ratio)),
        series,
        Vec::new(),
    );
    Section {
        anchor: "regions".into(),
        title: "Regions in idle memory".into(),
        question: "What is idle memory worth when it is used a region at a time?".into(),
        figures: vec![figure],
        findings: vec![
            ratio("regions_best", "the best speedup of any program", "between 2 and 3 (Koussih et al.)", best),
            ratio("regions_enough", "the best speedup where the own memory holds all pages", "1", enough),
        ],
        tables: vec![by_region(programs, progress), by_writes(programs)],
        notes: vec![
            "Four idle nodes that together hold all pages; programs read only; the first half of the references warms up. Without idle nodes whatever is missed comes from disk, a region at a time, with one \
             seek."
                .into(),
            "Writes go through: to the idle node of a region that is open and to disk, and bring nothing in (section 2.1.5, \"no write allocate\"). A write needs no page, so that its time is that of memory; \
             what it sends is counted with page-outs."
                .into(),
            "The paper's speedups of 2 to 3 are of whole applications, which also compute. Here only the time of references counts, so that a program that goes round its pages gains more.".into(),
        ],
        ..Section::default()
    }
}

fn by_region(programs: &[ProgramReferences], progress: &mut dyn Progress) -> Table {
    let sized = |pages: usize, keep: &str| format!("{pages} pages, {keep}");
    let columns = REGIONS.iter().flat_map(|pages| [sized(*pages, "LRU"), sized(*pages, "first-in")]);
    let heading: Vec<String> = std::iter::once("program".to_owned()).chain(columns).collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let mut table =
        Table::new("Mean time of a reference, a quarter of the pages in the own memory", &heading);
    for program in programs {
        let mut row = vec![program.name.clone()];
        for pages in REGIONS {
            for system in ["dodo", "dodo_first_in"] {
                row.push(Unit::Milliseconds.shown(mean_ms(program, system, 0.25, pages, true)));
                progress.done(1);
            }
        }
        table.rows.push(row);
    }
    table
}

/// Returns the places that serve programs of which a quarter of the references writes.
fn by_writes(programs: &[ProgramReferences]) -> Table {
    let heading =
        ["program", "own memory", "idle node", "disk", "written through", "mean", "mean with page-outs"];
    let mut table = Table::new("A quarter of the references writes; regions of 4 pages, LRU", &heading);
    for program in programs {
        let counts = run(program, "dodo", 0.25, REGION, true, true);
        let share = |count: u64| Unit::Share.shown(count as f64 / counts.requests.max(1) as f64);
        table.row(&[
            &program.name,
            &share(counts.local),
            &share(counts.remote),
            &share(counts.disk),
            &share(counts.written_through),
            &Unit::Milliseconds.shown(counts.mean_ms()),
            &Unit::Milliseconds.shown(counts.mean_ms_with_pageouts()),
        ]);
    }
    table
}

fn speedup(program: &ProgramReferences, system: &str, local: f64, region: usize) -> f64 {
    let with = mean_ms(program, system, local, region, true);
    if with > 0.0 { mean_ms(program, system, local, region, false) / with } else { 1.0 }
}

/// Returns the mean time of a reference, with idle nodes or without.
fn mean_ms(program: &ProgramReferences, system: &str, local: f64, region: usize, has_idle: bool) -> f64 {
    run(program, system, local, region, has_idle, false).mean_ms()
}

fn run(
    program: &ProgramReferences,
    system: &str,
    local: f64,
    region: usize,
    has_idle: bool,
    writes: bool,
) -> ClusterCounts {
    let own = ((program.pages as f64 * local) as usize).max(region);
    let idle = if has_idle { vec![program.pages / IDLE + region; IDLE] } else { Vec::new() };
    let size = ClusterSize { nodes: [vec![own], idle].concat(), server: 0, objects: program.pages };
    let plan = RunPlan { warm_up: program.references.len() as u64 / 2, failure: None };
    program.run(system, &size, region, writes, plan)
}

const IDLE: usize = 4;
/// Pages of a region in the figure.
const REGION: usize = 4;
const REGIONS: [usize; 3] = [1, 4, 16];
const LEAST_LOCAL: f64 = 0.1;
const MOST_LOCAL: f64 = 1.05;
