//! Long form of the simulation: a table of events, seeds and violations by fault.
//!
//! ```sh
//! SHOAL_SEEDS=1000 SHOAL_EVENTS=1000000 cargo test --release -p shoal-simulation --test long -- \
//!     --ignored --nocapture
//! ```
//!
//! Each fault gets the number of events, spread over the seeds. Each seed runs twice, and must give
//! the same trace. Nodes learn of each other by gossip; `SHOAL_GOSSIP=0` tells them instead. The
//! table is printed 20 times on the way, so that a run may be ended early. `SHOAL_FAULT` picks one
//! fault, `SHOAL_NODES` the number of nodes, and `SHOAL_SEED` the first seed.

use shoal_simulation::{FaultKind, Settings, run};

#[derive(Clone, Copy, Default)]
struct Row {
    seeds: u64,
    events: u64,
    virtual_seconds: u64,
    requests: u64,
    fetches: u64,
    excused: u64,
    purges: u64,
    broken: u64,
}

#[test]
#[ignore = "runs for minutes"]
fn all_faults_for_long() {
    let seeds = number("SHOAL_SEEDS", 1_000);
    let events = number("SHOAL_EVENTS", 1_000_000);
    let nodes = number("SHOAL_NODES", 5) as usize;
    let first = number("SHOAL_SEED", 1);
    let gossips = number("SHOAL_GOSSIP", 1) == 1;
    let chosen = std::env::var("SHOAL_FAULT").ok();
    let is_chosen = |fault: &FaultKind| chosen.as_ref().is_none_or(|name| *name == format!("{fault:?}"));
    let faults: Vec<_> = FaultKind::ALL.into_iter().filter(is_chosen).collect();
    assert!(!faults.is_empty(), "no fault has the name {chosen:?}");
    let mut rows = vec![Row::default(); faults.len()];
    for seed in first..first + seeds {
        for (row, fault) in rows.iter_mut().zip(&faults) {
            let events = (events / seeds).max(1);
            row.add(Settings { seed, fault: *fault, nodes, events, mutation: None, gossips });
        }
        let done = seed - first + 1;
        if done == seeds || done.is_multiple_of((seeds / 20).max(1)) {
            print_table(&faults, &rows);
        }
    }
    assert!(rows.iter().all(|row| row.broken == 0), "invariants were broken");
}

impl Row {
    fn add(&mut self, settings: Settings) {
        let outcome = run(settings);
        let again = run(settings);
        assert_eq!((outcome.trace, outcome.events), (again.trace, again.events), "{settings:?}");
        self.seeds += 1;
        self.events += outcome.events;
        self.virtual_seconds += outcome.lasted.as_secs();
        self.requests += outcome.counts.requests;
        self.fetches += outcome.counts.fetches;
        self.excused += outcome.counts.excused;
        self.purges += outcome.counts.purges;
        if let Some((_, text)) = outcome.violation {
            self.broken += 1;
            println!("{text}");
        }
    }
}

fn print_table(faults: &[FaultKind], rows: &[Row]) {
    println!(
        "| fault | seeds | events | virtual s | requests | fetches | second fetches | purges | broken |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (fault, row) in faults.iter().zip(rows) {
        let Row { seeds, events, virtual_seconds, requests, fetches, excused, purges, broken } = row;
        println!(
            "| {fault:?} | {seeds} | {events} | {virtual_seconds} | {requests} | {fetches} | {excused} | {purges} | {broken} |"
        );
    }
}

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
