//! Local nodes as memory servers: U* below one, given or estimated, and N_g counted by servers.
//!
//! Section 3.6.1 bounds the requests that a node with jobs of its own gets (Equation 3.2). Section
//! 3.6.3 leaves it to future research to find U* and N_g at run time. Here five of ten servers work
//! for themselves for a part of their time. Their own work queues with the requests of others, so
//! that its wait is the harm that the bound is to prevent.

use super::{Application, Effort, Progress, Unit};
use shoal_lab::global_memory::contention::{
    BalancingRate, CAP, ContentionResult, ContentionSetup, UtilizationLimits, simulate,
};
use shoal_lab::report::{Claim, Finding, Section, Table};

pub(super) fn section(
    programs: &[&Application],
    seed: u64,
    effort: &Effort,
    progress: &mut dyn Progress,
) -> Section {
    let nodes = effort.global_nodes.last().copied().unwrap_or(1);
    let mut table = Table::new(
        &format!(
            "Ten servers, five of which work for themselves {:.0}% of the time; {nodes} global nodes",
            OWN * 100.0
        ),
        &["program, bound", "N_g", "own work waits", "busy for others, local", "disk faults", "time"],
    );
    let mut findings = Vec::new();
    progress.begin("local nodes", programs.len() as u64);
    for program in programs {
        let found = WAYS.map(|(_, bounded, limits)| run(program, nodes, seed, bounded, limits));
        let free = &found[0];
        for ((way, ..), one) in WAYS.iter().zip(&found) {
            let busy = one.utilizations.iter().take(LOCAL).sum::<f64>() / LOCAL as f64;
            assert!(busy <= 1.0 + 1e-9, "{way}: local nodes are busy for others for {busy} of the time");
            table.row(&[
                &format!("{}, {way}", program.name),
                &Unit::Count.shown(f64::from(one.global_nodes)),
                &Unit::Milliseconds.shown(one.own_wait_seconds * 1e3),
                &Unit::Share.shown(busy),
                &Unit::Count.shown(one.faults.disk as f64),
                &Unit::Share.shown(one.seconds / free.seconds - 1.0),
            ]);
        }
        findings.extend(findings_of(&program.name, nodes, &found));
        progress.done(1);
    }
    Section {
        anchor: "local".into(),
        title: "Local nodes, and estimates of N_g and U* (left open in section 3.6.3)".into(),
        question: "What do bounds save the jobs of nodes that have some, and are estimates as good as the true numbers?".into(),
        findings,
        tables: vec![table],
        notes: vec![format!(
            "Own work comes in pieces of a millisecond, evenly spaced, and takes its turn among the requests of others. U* given is {CAP} less the node's own share; idle nodes have 1. Estimated, a server \
             measures its own work over an epoch and counts the nodes that asked it; an asker takes the largest count. A count over one epoch misses nodes that asked nobody meanwhile, and never counts one twice."
        )],
        ..Section::default()
    }
}

/// Returns the findings on a program, from the results of all ways.
fn findings_of(name: &str, nodes: usize, found: &[ContentionResult; 4]) -> Vec<Finding> {
    let [free, _, given, estimated] = found;
    let mut findings = Vec::new();
    let mut add = |key: &str, what: &str, unit, value| {
        let words = Claim::Words("not asked".into());
        let finding = Finding::new(&format!("{key}_{name}"), &format!("{name}: {what}"), unit, words);
        findings.push(finding.found(&[Some(value)]));
    };
    let wait = |one: &ContentionResult| one.own_wait_seconds / free.own_wait_seconds.max(f64::MIN_POSITIVE);
    let what = "wait of own work with bounds, U* and N_g given, over without bounds";
    add("local_wait_given", what, Unit::Ratio, wait(given));
    add("local_wait_told", "the same, U* and N_g estimated", Unit::Ratio, wait(estimated));
    let what = "time with estimates over time with both given";
    add("local_time", what, Unit::Ratio, estimated.seconds / given.seconds);
    let counted = f64::from(estimated.global_nodes) / nodes as f64;
    add("local_askers", "N_g as servers count it, over the true number", Unit::Ratio, counted);
    findings
}

fn run(
    program: &Application,
    nodes: usize,
    seed: u64,
    bounded: bool,
    limits: UtilizationLimits,
) -> ContentionResult {
    let programs = std::slice::from_ref(program);
    let whole = ContentionSetup::eleven(programs, nodes, 0.0);
    let setting = ContentionSetup {
        newcomer_pages: None,
        own_work: vec![OWN; LOCAL],
        balancing: BalancingRate::Fixed(RATE),
        bounded,
        limits,
        seed,
        ..whole
    };
    simulate(programs, &setting)
}

/// The ways of bounding, from none.
const WAYS: [(&str, bool, UtilizationLimits); 4] = [
    ("none", false, UtilizationLimits::AllIdle),
    ("as if all were idle", true, UtilizationLimits::AllIdle),
    ("U* and N_g given", true, UtilizationLimits::Given),
    ("U* and N_g estimated", true, UtilizationLimits::Estimated),
];
/// Share of its time that a local node works for itself.
const OWN: f64 = 0.6;
/// Number of local nodes.
const LOCAL: usize = 5;
/// Load balancing rate.
const RATE: f64 = 0.8;
