//! Long form of the simulation: each fault over many seeds, which may be stopped and continued.
//!
//! ```sh
//! cargo xtask simulate --seeds 1000 --events 1000000
//! ```
//!
//! Each fault gets the number of events, spread over the seeds, and a million events by default.
//! Each seed runs twice, and must give the same trace. A file has a line for each run that is done:
//! a command that is started again does the rest. Delete the file after a change of the code.
//! Progress is told a hundred times; the table at the end is of all lines of the file.
//!
//! | variable | meaning |
//! |---|---|
//! | `SHOAL_SEEDS`, `SHOAL_SEED` | number of seeds, and the first one |
//! | `SHOAL_EVENTS` | events of each fault, over all seeds |
//! | `SHOAL_NODES` | nodes of each run |
//! | `SHOAL_FAULT` | one fault alone |
//! | `SHOAL_GOSSIP=0` | nodes are told of each other instead |
//! | `SHOAL_LEVELS=1` | nodes are in three levels of a hierarchy |
//! | `SHOAL_THREADS` | runs at a time |
//! | `SHOAL_STATE` | the file |

use shoal_simulation::{FaultKind, Settings, run};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Numbers of one run, or of all runs of a fault.
#[derive(Clone, Copy, Default)]
struct Row([u64; 8]);

const COLUMNS: [&str; 8] =
    ["seeds", "events", "virtual s", "requests", "fetches", "second fetches", "purges", "broken"];

/// Runs that are done, by their settings.
type Done = BTreeMap<String, Row>;

#[test]
#[ignore = "runs for minutes or hours"]
fn all_faults_for_long() {
    let (seeds, events) = (number("SHOAL_SEEDS", 1_000), number("SHOAL_EVENTS", 1_000_000));
    let (first, threads) = (number("SHOAL_SEED", 1), number("SHOAL_THREADS", 1) as usize);
    let chosen = std::env::var("SHOAL_FAULT").ok();
    let is_chosen = |fault: &FaultKind| chosen.as_ref().is_none_or(|name| *name == format!("{fault:?}"));
    let faults: Vec<_> = FaultKind::ALL.into_iter().filter(is_chosen).collect();
    assert!(!faults.is_empty(), "no fault has the name {chosen:?}");
    let settings = |(seed, fault): (u64, &FaultKind)| Settings {
        seed,
        fault: *fault,
        nodes: number("SHOAL_NODES", 5) as usize,
        events: (events / seeds).max(1),
        mutation: None,
        levels: number("SHOAL_LEVELS", 0) == 1,
        gossips: number("SHOAL_GOSSIP", 1) == 1,
    };
    let state = state_file();
    let done = read(&state);
    let wanted = (first..first + seeds).flat_map(|seed| faults.iter().map(move |fault| (seed, fault)));
    let all: Vec<_> = wanted.map(settings).collect();
    let left: Vec<_> = all.iter().copied().filter(|settings| !done.contains_key(&name(settings))).collect();
    println!("{} of {} runs are left; {} has the others", left.len(), all.len(), state.display());
    run_all(&left, threads.max(1), &state);
    let done = read(&state);
    print_table(&faults, &all, &done);
    let broken: u64 = all.iter().filter_map(|settings| done.get(&name(settings))).map(|row| row.0[7]).sum();
    assert_eq!(broken, 0, "invariants were broken; the lines say which runs");
}

/// Makes the runs that are left, several at a time, and notes each run in the file.
fn run_all(left: &[Settings], threads: usize, state: &Path) {
    let file = std::fs::OpenOptions::new().create(true).append(true).open(state).expect("the file of state");
    let (file, next, done) = (Mutex::new(file), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(settings) = left.get(next.fetch_add(1, Relaxed)) {
                    let row = Row::of(*settings);
                    let numbers: Vec<_> = row.0.iter().map(u64::to_string).collect();
                    let line = format!("{}\t{}\n", name(settings), numbers.join("\t"));
                    file.lock().expect("no panic").write_all(line.as_bytes()).expect("the file takes lines");
                    let count = done.fetch_add(1, Relaxed) + 1;
                    if count.is_multiple_of((left.len() / 100).max(1)) {
                        println!("{count} of {} runs", left.len());
                    }
                }
            });
        }
    });
}

impl Row {
    fn of(settings: Settings) -> Self {
        let outcome = run(settings);
        let again = run(settings);
        assert_eq!((outcome.trace, outcome.events), (again.trace, again.events), "{settings:?}");
        if let Some((_, text)) = &outcome.violation {
            println!("{text}");
        }
        let counts = outcome.counts;
        Self([
            1,
            outcome.events,
            outcome.lasted.as_secs(),
            counts.requests,
            counts.fetches,
            counts.excused,
            counts.purges,
            u64::from(outcome.violation.is_some()),
        ])
    }
}

/// Returns the settings of a run as one word.
fn name(settings: &Settings) -> String {
    let Settings { seed, fault, nodes, events, levels, gossips, .. } = settings;
    format!("{fault:?}/{nodes}/{events}/levels={levels}/gossip={gossips}/{seed}")
}

fn state_file() -> PathBuf {
    let default = || Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulation.tsv");
    std::env::var_os("SHOAL_STATE").map_or_else(default, PathBuf::from)
}

/// Reads the runs that are done. A line that was cut off counts as none.
fn read(state: &Path) -> Done {
    let text = std::fs::read_to_string(state).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let line = |line: &str| {
        let mut parts = line.trim_end().split('\t');
        let name = parts.next()?.to_owned();
        let numbers: Vec<u64> = parts.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some((name, Row(numbers.try_into().ok()?)))
    };
    whole.filter_map(line).collect()
}

fn print_table(faults: &[FaultKind], all: &[Settings], done: &Done) {
    println!("| fault | {} |\n|---{}|", COLUMNS.join(" | "), "|---".repeat(COLUMNS.len()));
    for fault in faults {
        let of_fault = all.iter().filter(|settings| settings.fault == *fault);
        let mut sum = Row::default();
        for row in of_fault.filter_map(|settings| done.get(&name(settings))) {
            sum.0.iter_mut().zip(row.0).for_each(|(sum, number)| *sum += number);
        }
        println!("| {fault:?} | {} |", sum.0.map(|number| number.to_string()).join(" | "));
    }
}

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
