//! The open question: the best load balancing rate b, by load and skew.

use super::{Application, Axis, Effort, Progress, Unit, curve, dotted, plot};
use shoal_lab::global_memory::contention::{
    BalancingRate, ContentionResult, ContentionSetup, Targets, simulate, simulate_parts,
};
use shoal_lab::report::{Section, Table};

/// Returns sections on skews, the best rate, the newcomer's transient, and tuning.
pub(super) fn sections(
    programs: &[Application],
    seed: u64,
    effort: &Effort,
    progress: &mut dyn Progress,
) -> Vec<Section> {
    // One definition for all sections: a name means the same references everywhere.
    let programs: Vec<Application> = programs.iter().map(|one| cut(one, effort.references)).collect();
    let used: Vec<&Application> =
        programs.iter().filter(|one| ["phases", "database"].contains(&one.name.as_str())).collect();
    let mut grids = Vec::new();
    for program in &used {
        progress.begin(
            &format!("balancing, {}", program.name),
            (effort.global_nodes.len() * SHARES.len()) as u64,
        );
        grids.push(Grid::of(program, seed, effort, progress));
    }
    progress.begin("tuning and bounds", programs.len() as u64 + 2);
    let ways = ways_section(&programs, &used, seed, effort, progress);
    let local = super::local::section(&used, seed, effort, progress);
    vec![rates_section(&grids, effort), ways, local]
}

/// One program at all loads, skews and rates.
struct Grid {
    program: String,
    /// Results of the steady part, by global nodes, then the newcomer's share, then the rate.
    steady: Vec<Vec<Vec<ContentionResult>>>,
    /// Results of the first part after the newcomer came, in the same order.
    joining: Vec<Vec<Vec<ContentionResult>>>,
}

impl Grid {
    fn of(program: &Application, seed: u64, effort: &Effort, progress: &mut dyn Progress) -> Self {
        let programs = std::slice::from_ref(program);
        let mut grid = Self { program: program.name.clone(), steady: Vec::new(), joining: Vec::new() };
        for nodes in effort.global_nodes {
            let (mut steady, mut joining) = (Vec::new(), Vec::new());
            for share in SHARES {
                let whole = ContentionSetup::eleven(programs, *nodes, share);
                let ends = [whole.measured / JOINING, whole.measured];
                let at = |b: &f64| {
                    let balancing = BalancingRate::Fixed(*b);
                    let setup = ContentionSetup { balancing, seed, ..whole.clone() };
                    <[ContentionResult; 2]>::try_from(simulate_parts(programs, &setup, &ends))
                        .map(|[first, all]| (first, all))
                        .expect("a result for each end")
                };
                let (first, all): (Vec<_>, Vec<_>) = effort.rates.iter().map(at).unzip();
                steady.push(all);
                joining.push(first);
                progress.done(1);
            }
            grid.steady.push(steady);
            grid.joining.push(joining);
        }
        assert_eq!(grid.steady.len(), effort.global_nodes.len(), "a row for each number of nodes");
        assert!(grid.steady.iter().flatten().all(|rates| rates.len() == effort.rates.len()), "all rates");
        grid
    }
}

fn rates_section(grids: &[Grid], effort: &Effort) -> Section {
    let mut section = Section {
        anchor: "rate".into(),
        title: "Which load balancing rate (left open in section 3.6.3)".into(),
        question: "How long do programs take by b, when servers are waited for and pages are replaced by age and load? Eleven idle nodes, of which one becomes idle \
                   when measuring begins."
            .into(),
        notes: vec![
            "b = 0 chooses by ages alone (GMS), b = 1 by memory alone. What is plotted is the time for all references over the time with b = 0 at the same load.".into(),
            "With one or two global nodes for each server, and the newcomer with a third of the memory, b moves the time by less than one percent in either direction: nobody \
             waits, and nearly any old page is as good as the oldest. With more nodes greater rates are better: ages send every page to the newcomer, and waiting there costs more than \
             the few faults that balancing adds. While it fills, that is where most of the time goes. So a rate of 0.8 or more loses little anywhere and spares much under load."
                .into(),
            "That is no contradiction to Figure 3.7. Naive balancing there fills two thirds of the memory with one third of the pages; target weights give a node the share of pages that it has of the \
             memory."
                .into(),
            "No b helps where one node has most of the memory: target weights are in proportion to memory (section 3.6.1), so that b = 1 sends it as large a share as ages do in \
             the long run. Equal target weights do, at the price of memory left unused (below)."
                .into(),
        ],
        ..Section::default()
    };
    for grid in grids {
        for (part, outcomes, words) in [
            ("steady", &grid.steady, "over the whole run"),
            ("joining", &grid.joining, "while the newcomer fills"),
        ] {
            let series = effort.global_nodes.iter().zip(outcomes).map(|(nodes, by_share)| {
                let base = by_share[1][0].seconds;
                let points =
                    effort.rates.iter().zip(&by_share[1]).map(|(b, found)| (*b, found.seconds / base - 1.0));
                dotted(format!("{nodes} nodes"), points.collect())
            });
            section.figures.push(plot(
                &format!("rate-{part}-{}", grid.program),
                &format!(
                    "Time by load balancing rate, {words}: {}, the newcomer with a third of the idle memory",
                    grid.program
                ),
                "Flat at light load, falling towards greater rates at heavy load.",
                (
                    Axis::linear("load balancing rate b", Unit::Ratio).over(0.0, 1.0),
                    Axis::linear("time, beside b = 0", Unit::Share),
                ),
                series.collect(),
                Vec::new(),
            ));
        }
        section.tables.push(best_table(grid, effort));
    }
    section
}

fn best_table(grid: &Grid, effort: &Effort) -> Table {
    let mut table = Table::new(
        &format!("The best rate, {}", grid.program),
        &[
            "newcomer's memory, global nodes",
            "getpage, b = 0",
            "best b",
            "getpage there",
            "time spared",
            "disk faults added",
            "spared while joining",
        ],
    );
    for (index, share) in SHARES.iter().enumerate() {
        for (at, nodes) in effort.global_nodes.iter().enumerate() {
            let (steady, joining) = (&grid.steady[at][index], &grid.joining[at][index]);
            let best = best_of(steady);
            let shown = |found: &ContentionResult| Unit::Milliseconds.shown(found.getpage_seconds * 1e3);
            let spared = |of: &[ContentionResult]| 1.0 - of[best_of(of)].seconds / of[0].seconds;
            let added = steady[best].faults.disk as f64 / steady[0].faults.disk.max(1) as f64 - 1.0;
            table.row(&[
                &format!("{:.0}%, {nodes}", share * 100.0),
                &shown(&steady[0]),
                &Unit::Ratio.tick(effort.rates[best]),
                &shown(&steady[best]),
                &Unit::Share.shown(spared(steady)),
                &Unit::Share.shown(added),
                &Unit::Share.shown(spared(joining)),
            ]);
        }
    }
    table
}

/// Returns fixed, tuned, bounded and equal targets, for each program under heavy load.
fn ways_section(
    programs: &[Application],
    skewed: &[&Application],
    seed: u64,
    effort: &Effort,
    progress: &mut dyn Progress,
) -> Section {
    let nodes = effort.global_nodes.last().copied().unwrap_or(1);
    let mut table = Table::new(
        &format!("Time beside b = 0 with {nodes} global nodes, the newcomer with a third of the idle memory"),
        &[
            "program",
            "b = 0.5",
            "b = 1",
            "tuned",
            "b = 0, bounded",
            "tuned, bounded",
            "b = 1, equal targets",
            "last b",
        ],
    );
    let mut tuned_rates = Vec::new();
    for program in programs {
        let programs = std::slice::from_ref(program);
        let base = ContentionSetup { seed, ..ContentionSetup::eleven(programs, nodes, SHARES[1]) };
        let at = |balancing, bounded, targets| {
            simulate(programs, &ContentionSetup { balancing, bounded, targets, ..base.clone() })
        };
        let gms = at(BalancingRate::Fixed(0.0), false, Targets::Memory).seconds;
        let tuned = at(BalancingRate::Tuned(0.5), false, Targets::Memory);
        let found = [
            at(BalancingRate::Fixed(0.5), false, Targets::Memory).seconds,
            at(BalancingRate::Fixed(1.0), false, Targets::Memory).seconds,
            tuned.seconds,
            at(BalancingRate::Fixed(0.0), true, Targets::Memory).seconds,
            at(BalancingRate::Tuned(0.5), true, Targets::Memory).seconds,
            at(BalancingRate::Fixed(1.0), false, Targets::Equal).seconds,
        ];
        assert!(gms > 0.0 && found.iter().all(|seconds| *seconds > 0.0), "references take time");
        let mut row = vec![program.name.clone()];
        row.extend(found.iter().map(|seconds| Unit::Share.shown(seconds / gms - 1.0)));
        row.push(Unit::Ratio.tick(tuned.rates.last().copied().unwrap_or(0.0)));
        table.rows.push(row);
        let points = tuned.rates.iter().enumerate().map(|(epoch, b)| (epoch as f64, *b));
        tuned_rates.push(curve(program.name.clone(), points.take(SHOWN_EPOCHS).collect()));
        progress.done(1);
    }
    let skew = skew_table(skewed, seed, nodes);
    progress.done(2);
    Section {
        anchor: "tuned".into(),
        title: "Tuned at run time, and what bounds do".into(),
        question: "Does a node that measures how long its faults take find a good b by itself?".into(),
        figures: vec![plot(
            "tuned",
            "The tuner's rate by epoch",
            "Steps up and down from one half, resting where no step helps.",
            (
                Axis::linear("epoch", Unit::Count),
                Axis::linear("load balancing rate b", Unit::Ratio).over(0.0, 1.0),
            ),
            tuned_rates,
            Vec::new(),
        )],
        tables: vec![table, skew],
        notes: vec![OF_TUNING.into(), OF_BOUNDS.into()],
        ..Section::default()
    }
}

/// Returns the results of one node with two thirds of the memory, by each way.
fn skew_table(programs: &[&Application], seed: u64, nodes: usize) -> Table {
    let mut table = Table::new(
        &format!("One node with two thirds of the idle memory, {nodes} global nodes"),
        &["program, way", "getpage", "disk faults", "busiest server", "time beside b = 0"],
    );
    for program in programs {
        let programs = std::slice::from_ref(*program);
        let base = ContentionSetup { seed, ..ContentionSetup::eleven(programs, nodes, SHARES[2]) };
        let at = |b, bounded, targets| {
            simulate(
                programs,
                &ContentionSetup { balancing: BalancingRate::Fixed(b), bounded, targets, ..base.clone() },
            )
        };
        let gms = at(0.0, false, Targets::Memory);
        let ways = [
            ("b = 0", at(0.0, false, Targets::Memory)),
            ("b = 1", at(1.0, false, Targets::Memory)),
            ("b = 0, bounded", at(0.0, true, Targets::Memory)),
            ("b = 0.5, equal targets", at(0.5, false, Targets::Equal)),
            ("b = 1, equal targets", at(1.0, false, Targets::Equal)),
        ];
        for (way, found) in ways {
            let busiest = found.utilizations.iter().copied().fold(0.0, f64::max);
            assert!(busiest <= 1.0 + 1e-9, "{way}: a server is busy for {busiest} of the time");
            table.row(&[
                &format!("{}, {way}", program.name),
                &Unit::Milliseconds.shown(found.getpage_seconds * 1e3),
                &Unit::Count.shown(found.faults.disk as f64),
                &Unit::Share.shown(busiest),
                &Unit::Share.shown(found.seconds / gms.seconds - 1.0),
            ]);
        }
    }
    table
}

/// Returns the first references of a program.
fn cut(program: &Application, references: usize) -> Application {
    let references: Vec<u32> = program.references.iter().copied().take(references).collect();
    let pages = references.iter().max().map_or(0, |last| *last as usize + 1);
    assert!(pages <= program.pages, "a part has no more pages than the whole");
    Application { name: program.name.clone(), references, pages, clients: Vec::new() }
}

fn best_of(outcomes: &[ContentionResult]) -> usize {
    assert!(!outcomes.is_empty(), "the best of some");
    (0..outcomes.len()).min_by(|a, b| outcomes[*a].seconds.total_cmp(&outcomes[*b].seconds)).unwrap_or(0)
}

const OF_TUNING: &str = "The tuner goes the right way and stops short: from one epoch to the next the time of a fault varies by more than a step of b changes it, and it moves only on what it can \
             tell from noise. Who knows that servers are waited for sets b to 0.8 or more.";

const OF_BOUNDS: &str = "Bounds (Equation 3.3) drop pages that a busy server could not serve soon: a fault from disk in place of a long wait. They know capacity, which b does not, and add to \
             whatever b does.";

/// Shares of the newcomer in all idle memory.
const SHARES: [f64; 3] = [1.0 / 11.0, 1.0 / 3.0, 2.0 / 3.0];
/// Divisor of the references: the part measured while the newcomer fills.
const JOINING: usize = 16;
/// Number of the tuner's epochs that are drawn.
const SHOWN_EPOCHS: usize = 400;
