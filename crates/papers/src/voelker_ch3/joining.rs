//! Figure 3.7: a new idle node, filled at once or at a steady rate.

use super::{Application, Axis, Progress, Unit};
use shoal_lab::figure::{Bar, Bars, Chart, Figure};
use shoal_lab::global_memory::FaultCosts;
use shoal_lab::global_memory::joining::{MemorySplit, Policy, faults};
use shoal_lab::report::{Section, Table};

/// The memories of a configuration for a program.
type Configuration = fn(&Application) -> MemorySplit;

pub(super) fn section(programs: &[Application], progress: &mut dyn Progress) -> Section {
    let configurations: [(&str, &str, Configuration); 2] = [
        (
            "figure-3-7a",
            "a third local, a sixth on each of two idle nodes, a third on the new one",
            MemorySplit::first_of_figure_3_7,
        ),
        (
            "figure-3-7b",
            "a ninth local and on each of two idle nodes, two thirds on the new one",
            MemorySplit::second_of_figure_3_7,
        ),
    ];
    let mut table = Table::new(
        "Disk faults",
        &["program", "first, strict LRU", "first, naive", "second, strict LRU", "second, naive"],
    );
    table.rows = programs.iter().map(|program| vec![program.name.clone()]).collect();
    let mut figures = Vec::new();
    for (name, words, memories) in configurations {
        let mut bars = Vec::new();
        for (program, row) in programs.iter().zip(&mut table.rows) {
            let at = |policy| faults(program, memories(program), policy);
            let (strict, naive) = (at(Policy::StrictLru), at(Policy::Naive));
            let computing = FaultCosts::OO7.computing(program);
            let elapsed = |faults| (computing + FaultCosts::OO7.stall(faults)).max(f64::MIN_POSITIVE);
            bars.push(Bar::new(&program.name, &[elapsed(&naive) / elapsed(&strict) - 1.0]));
            row.extend([strict, naive].map(|faults| Unit::Count.shown(faults.disk as f64)));
        }
        let axis = Axis::linear("increase in execution time", Unit::Share);
        let bars = Bars { axis, parts: vec!["naive balancing".into()], bars, claimant: String::new() };
        figures.push(Figure::new(
            name,
            &format!("Naive balancing beside strict LRU when a node becomes idle: {words}"),
            "Most programs are slower, and by more where the new node has most of the memory.",
            Chart::Bars(bars),
        ));
    }
    progress.done(programs.len() as u64);
    Section {
        anchor: "figure-3-7".into(),
        title: "A new idle node (Figure 3.7)".into(),
        question: "How much slower is a program when each third evicted page goes to a new idle node, instead of all until it is full?".into(),
        figures,
        tables: vec![table],
        notes: vec![
            "The third idle node joins after a third of the references. As in the dissertation nobody waits for a server, so that the cost of naive balancing is an upper bound. Bars \
             below zero are programs for which LRU replaces the wrong pages: what keeps it from using memory helps them."
                .into(),
        ],
        ..Section::default()
    }
}
