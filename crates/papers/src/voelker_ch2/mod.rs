//! Chapter 2 of Voelker, *Cooperative Caching in Local-Area and Wide-Area Networks* (dissertation,
//! University of Washington, 2000), repeated: the systems it compares, on one trace.
//!
//! | file | sections |
//! |---|---|
//! | `systems` | every system on the same requests, and the findings of Dahlin et al. 1994 |
//! | `receivers` | N-chance by the blocks that a receiver searches |
//! | `uneven` | GMS beside N-chance by the unevenness of idle memory |
//! | `distribution` | a front end's policies by the number of back-ends (Pai et al. 1998) |
//! | `pagers` | costs of safe pages, effects of a lost server (Markatos and Dramitinos 1996) |
//! | `regions` | Dodo by local memory and by the size of regions (Koussih et al. 1999) |

mod distribution;
mod pagers;
mod receivers;
mod regions;
mod systems;
mod uneven;

#[cfg(test)]
mod tests;

use super::drawing::{curve, dotted, plot};
use super::{Experiment, Inputs, LabError, Progress};
use shoal_lab::cluster::{
    Access, ClusterCounts, ClusterScheme, ClusterSize, RunPlan, SchemeOptions, named, simulate, simulate_with,
};
use shoal_lab::figure::{Axis, Unit};
use shoal_lab::global_memory::Application;
use shoal_lab::report::{Claim, Finding, Report};
use shoal_trace::Random;
use shoal_trace::generate::Traffic;

/// The row in the table of experiments.
pub const EXPERIMENT: Experiment = Experiment {
    name: "voelker-ch2",
    question: "what does each way of sharing memories or handing out requests in a cluster come to, on the same requests?",
    needs: "nothing; a trace that names its clients and traces of page references, one file a program, are used instead of made ones",
    run,
};

fn run(inputs: &Inputs, progress: &mut dyn Progress) -> Result<Report, LabError> {
    let effort = if inputs.is_small { SchemeEffort::SMALL } else { SchemeEffort::FULL };
    let web = WebRequests::of(inputs, &effort)?;
    let programs = programs(inputs, &effort)?;
    let mut sections = systems::sections(&web, progress);
    sections.push(receivers::section(&web, progress));
    sections.push(uneven::section(&web, &effort, progress));
    sections.push(distribution::section(&web, &effort, progress));
    sections.extend(pagers::sections(&programs, progress));
    sections.push(regions::section(&programs, &effort, progress));
    Ok(Report {
        name: EXPERIMENT.name.into(),
        title:
            "Sharing a cluster's memories and handing out its requests: Voelker 2000, chapter 2, asked again"
                .into(),
        question: QUESTION.into(),
        command: inputs.command.clone(),
        seed: inputs.seed,
        facts: facts(&web, &programs),
        columns: vec!["ours".into()],
        sections,
        ..Report::default()
    })
}

const QUESTION: &str = "Nodes of a cluster can use each other's memory, with more or less coordination, or have requests handed to them by who holds what and who has time. What does each way come to on \
                        the same requests, and does each paper's finding hold there?";

/// Amounts of simulation.
struct SchemeEffort {
    /// Largest number of requests of the web trace.
    requests: usize,
    /// Largest number of references of each program.
    references: usize,
    /// Numbers of back-ends.
    back_ends: &'static [usize],
    /// Number of points of other curves.
    points: u32,
}

impl SchemeEffort {
    const SMALL: Self = Self { requests: 6_000, references: 3_000, back_ends: &[1, 4, 16], points: 3 };
    const FULL: Self =
        Self { requests: usize::MAX, references: 200_000, back_ends: &[1, 2, 4, 6, 8, 12, 16], points: 9 };
}

/// Web requests, as pairs of node and object.
struct WebRequests {
    source: String,
    requests: Vec<(usize, u32)>,
    objects: usize,
    seed: u64,
}

impl WebRequests {
    /// Takes the first trace that names its clients, or makes proxy traffic.
    fn of(inputs: &Inputs, effort: &SchemeEffort) -> Result<Self, LabError> {
        let given = inputs.applications.iter().find(|one| !one.clients.is_empty());
        let (source, application) = match given {
            Some(given) => (given.name.clone(), given.clone()),
            None if inputs.applications.is_empty() && inputs.trace.clients().len() > 1 => {
                (inputs.source.clone(), Application::of("traffic", &inputs.trace))
            }
            None => {
                let requests = effort.requests.min(MADE_REQUESTS);
                let traffic = Traffic { seed: inputs.seed, requests, clients: 200, ..Traffic::default() };
                let made = traffic.make().map_err(|error| LabError::Model { reason: error.to_string() })?;
                (format!("made proxy traffic, {requests} requests"), Application::of("traffic", &made))
            }
        };
        let asks = application.clients.iter().zip(&application.references);
        let requests: Vec<(usize, u32)> =
            asks.take(effort.requests).map(|(client, object)| (*client as usize, *object)).collect();
        if requests.len() < LEAST_REQUESTS {
            return Err(LabError::TooFewRequests { found: requests.len(), least: LEAST_REQUESTS });
        }
        let objects = requests.iter().map(|request| request.1 as usize + 1).max().unwrap_or(0);
        Ok(Self { source, requests, objects, seed: inputs.seed })
    }

    /// Runs a system of cooperative caching without queues, over requests of the active nodes. The
    /// first half warms up.
    fn shared_by(&self, system: &str, size: &ClusterSize) -> ClusterCounts {
        self.shared_with(system, size, self.options())
    }

    fn shared_with(&self, system: &str, size: &ClusterSize, options: SchemeOptions) -> ClusterCounts {
        named(system, size, &options)
            .map_or_else(ClusterCounts::default, |mut system| self.shared_by_system(system.as_mut(), size))
    }

    fn shared_by_system(&self, system: &mut dyn ClusterScheme, size: &ClusterSize) -> ClusterCounts {
        simulate(system, size, self.of_workstations(), self.requests.len() as u64 / 2)
    }

    fn of_workstations(&self) -> impl Iterator<Item = (usize, u32)> {
        self.requests.iter().map(|(client, object)| (client % ACTIVE, *object))
    }

    fn options(&self) -> SchemeOptions {
        // Objects of a web trace have no neighbours, so that a region is one object.
        SchemeOptions { idle: IDLE, region: 1, seed: self.seed, ..SchemeOptions::default() }
    }
}

/// A program's references, some of which change their page.
struct ProgramReferences {
    name: String,
    references: Vec<(u32, bool)>,
    pages: usize,
}

/// Returns the given programs and the made ones.
fn programs(inputs: &Inputs, effort: &SchemeEffort) -> Result<Vec<ProgramReferences>, LabError> {
    let given = inputs.applications.iter().filter(|one| one.clients.is_empty()).cloned();
    let mut random = Random::of(inputs.seed, 2);
    let mut programs = Vec::new();
    for one in given.chain(Application::made(effort.references.min(MADE_REFERENCES), inputs.seed)) {
        if one.references.len() < LEAST_REQUESTS {
            return Err(LabError::TooFewRequests { found: one.references.len(), least: LEAST_REQUESTS });
        }
        // Not all page traces tell loads from stores: one reference in four changes its page.
        let references: Vec<(u32, bool)> = one
            .references
            .iter()
            .take(effort.references)
            .map(|page| (*page, random.below(REFERENCES_A_WRITE) == 0))
            .collect();
        let pages = references.iter().map(|reference| reference.0 as usize + 1).max().unwrap_or(1);
        assert!(references.len() <= effort.references, "no program is longer than the effort");
        programs.push(ProgramReferences { name: one.short_name(), references, pages });
    }
    Ok(programs)
}

impl ProgramReferences {
    fn run(
        &self,
        system: &str,
        size: &ClusterSize,
        region: usize,
        writes: bool,
        plan: RunPlan,
    ) -> ClusterCounts {
        let options =
            SchemeOptions { idle: size.nodes.len().saturating_sub(1), region, ..SchemeOptions::default() };
        assert!(self.pages <= size.objects, "{}: the cluster knows all pages", self.name);
        let access = |reference: &(u32, bool)| Access {
            node: 0,
            object: reference.0,
            is_write: writes && reference.1,
        };
        named(system, size, &options).map_or_else(ClusterCounts::default, |mut system| {
            simulate_with(system.as_mut(), size, self.references.iter().map(access), plan)
        })
    }
}

fn facts(web: &WebRequests, programs: &[ProgramReferences]) -> Vec<(String, String)> {
    let count = |number: usize| Unit::Count.shown(number as f64);
    let mut facts = vec![
        ("web requests".into(), web.source.clone()),
        ("of them".into(), format!("{} for {} objects", count(web.requests.len()), count(web.objects))),
    ];
    let told = |one: &ProgramReferences| {
        let text = format!("{} references to {} pages", count(one.references.len()), count(one.pages));
        (format!("program {}", one.name), text)
    };
    facts.extend(programs.iter().map(told));
    facts
}

fn ratio(key: &str, what: &str, claim: &str, found: f64) -> Finding {
    Finding::new(key, what, Unit::Ratio, Claim::Words(claim.into())).found(&[Some(found)])
}

/// Numbers of nodes with active clients, and of nodes that lend their memory.
const ACTIVE: usize = 12;
const IDLE: usize = 4;
const MADE_REQUESTS: usize = 200_000;
const MADE_REFERENCES: usize = 100_000;
const REFERENCES_A_WRITE: u64 = 4;
/// Least requests of a web trace.
const LEAST_REQUESTS: usize = 1000;
