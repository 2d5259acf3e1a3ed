//! Chapter 3 of Voelker, *Cooperative Caching in Local-Area and Wide-Area Networks* (dissertation,
//! University of Washington, 2000), repeated.
//!
//! Figures 3.2, 3.3, 3.4 and 3.8 come from the queueing model, beside a simulated cluster; Figures
//! 3.5 to 3.7 from the page references of programs. Section 3.6.3 leaves the choice of a good load
//! balancing rate to the future. A simulation of replacement and waiting together answers it.

mod joining;
mod local;
mod model;
mod rate;
mod stacks;

#[cfg(test)]
mod tests;

use super::drawing::{curve, dotted, plot};
use super::{Experiment, Inputs, LabError, Progress, seeds};
use shoal_lab::figure::{Axis, Mark, Series, Unit};
use shoal_lab::global_memory::Application;
use shoal_lab::report::{Report, Section};

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "voelker-ch3",
    question: "when many nodes use the memory of few, what does load cost, and what does balancing it?",
    needs: "nothing; traces of page references, one file a program, are used beside made programs",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let effort = if inputs.is_small { Effort::SMALL } else { Effort::FULL };
    let sections = seeds::over(inputs.seed, effort.seeds, progress, |seed, progress| {
        let programs = programs(inputs, seed, &effort)?;
        Ok(sections(&programs, seed, &effort, progress))
    })?;
    let programs = programs(inputs, inputs.seed, &effort)?;
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title: "Load balancing in a global memory system: Voelker 2000, chapter 3, asked again".into(),
        question: QUESTION.into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: facts(inputs, &programs),
        columns: vec!["ours".into()],
        sections,
        ..Report::default()
    })
}

/// Returns the sections of one seed.
fn sections(
    programs: &[Application],
    seed: u64,
    effort: &Effort,
    progress: &mut dyn Progress,
) -> Vec<Section> {
    progress.begin("queueing model", 5);
    let mut sections = model::sections(seed, effort, progress);
    progress.begin("programs", 3 * programs.len() as u64);
    sections.push(stacks::positions_section(programs, progress));
    sections.push(stacks::suboptimal_section(programs, progress));
    sections.push(joining::section(programs, progress));
    sections.extend(rate::sections(programs, seed, effort, progress));
    sections
}

const QUESTION: &str = "Memory servers are chosen by the ages of their pages. What does it cost when ages are uneven and few servers bear most of the load, what \
                        does it cost to choose by load instead, and how much of each is best?";

/// Amounts of simulation.
struct Effort {
    /// Number of getpages of a simulated cluster of the model.
    getpages: u64,
    /// Number of references of each made program.
    made: usize,
    /// Number of references of a program when many nodes run it at once.
    references: usize,
    /// Numbers of global nodes beside eleven idle ones.
    global_nodes: &'static [usize],
    /// Load balancing rates.
    rates: &'static [f64],
    /// Number of seeds.
    seeds: u64,
}

impl Effort {
    const SMALL: Self = Self {
        getpages: 4_000,
        made: 8_000,
        references: 4_000,
        global_nodes: &[12, 60],
        rates: &[0.0, 0.5, 1.0],
        seeds: 3,
    };
    const FULL: Self = Self {
        getpages: 400_000,
        made: 200_000,
        references: 50_000,
        global_nodes: &[12, 24, 36, 48, 60],
        rates: &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
        seeds: 5,
    };
}

/// Returns the given programs and the made ones.
fn programs(inputs: &Inputs, seed: u64, effort: &Effort) -> Result<Vec<Application>, LabError> {
    let mut programs = inputs.applications.clone();
    if let Some(short) = programs.iter().find(|one| one.references.len() < LEAST_REFERENCES) {
        return Err(LabError::TooFewRequests { found: short.references.len(), least: LEAST_REFERENCES });
    }
    for program in &mut programs {
        program.name = program.short_name();
    }
    programs.extend(Application::made(effort.made, seed));
    Ok(programs)
}

fn facts(inputs: &Inputs, programs: &[Application]) -> Vec<(String, String)> {
    let read = if inputs.applications.is_empty() { "none".into() } else { inputs.source.clone() };
    let told = |one: &Application| {
        let count = |number: usize| Unit::Count.shown(number as f64);
        (
            format!("program {}", one.name),
            format!("{} references to {} pages", count(one.references.len()), count(one.pages)),
        )
    };
    let mut facts = vec![("traces".into(), read)];
    facts.extend(programs.iter().map(told));
    facts
}

/// Least references of a program: with fewer, it says little about memory.
const LEAST_REFERENCES: usize = 1000;
