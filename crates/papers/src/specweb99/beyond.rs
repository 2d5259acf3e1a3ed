//! Questions that the paper leaves open: other policies, several threads, the POSTlog, and other
//! populations than SPECweb99's.

use super::{Inputs, Progress, Set, lengths, steady};
use shoal_lab::figure::Unit;
use shoal_lab::model::specweb99::analytic::{Analytic, REUSE};
use shoal_lab::model::specweb99::postlog::{LogMode, serialized_throughput};
use shoal_lab::model::specweb99::threads::{self, ThreadSetup};
use shoal_lab::model::specweb99::{FileCacheResult, PathLength, Population, RateDerivation, che};
use shoal_lab::report::{Section, Table};
use shoal_lab::simulator::{Capacity, Request, Simulator};
use shoal_policy::{Lru, ReplacementPolicy};

/// Runs every policy on the smallest file set.
pub(super) fn policies(inputs: &Inputs, progress: &mut dyn Progress) -> Section {
    let set = Set::of(THROUGHPUT);
    let all = set.ranked.total_bytes();
    let mut heading = vec!["policy".to_string()];
    for fraction in FRACTIONS {
        let percent = fraction * 100.0;
        heading.extend([format!("hits, {percent}%"), format!("left, {percent}%")]);
    }
    let mut table =
        Table { title: "Hit ratio and throughput left, by cached share".into(), heading, rows: vec![] };
    progress.begin("policies", ReplacementPolicy::<u64>::ALL.len() as u64);
    for policy in ReplacementPolicy::<u64>::ALL {
        let mut row = vec![policy.name.to_string()];
        for fraction in FRACTIONS {
            let found = steady(&set.population, (policy.construct)(), (fraction * all, THROUGHPUT), inputs);
            row.extend([percent(found.outcome.hit_ratio), left(&found.outcome)]);
        }
        assert_eq!(row.len(), table.heading.len(), "{}: two cells a size", policy.name);
        table.rows.push(row);
        progress.done(1);
    }
    let mut row = vec!["lru, characteristic time".to_string()];
    for fraction in FRACTIONS {
        let outcome = che::outcome(&set.population, fraction * all);
        row.extend([percent(outcome.hit_ratio), left(&outcome)]);
    }
    table.rows.push(row);
    Section {
        anchor: "policies".into(),
        title: "Other policies than LRU".into(),
        question: "\u{201c}LRU is not necessarily optimal, and other replacement policies should be evaluated\u{201d}: which is, on SPECweb99?".into(),
        tables: vec![table],
        notes: vec![format!("{} operations a second, 525 directories. Simulated.", Unit::Count.shown(THROUGHPUT))],
        ..Section::default()
    }
}

/// Runs the LRU cache under threads.
pub(super) fn threads(inputs: &Inputs, progress: &mut dyn Progress) -> Section {
    let set = Set::of(THROUGHPUT);
    let heading = [
        "threads",
        "hit ratio",
        "waited for another's read",
        "transfers an operation",
        "operations a second",
        "most being read, KB",
    ];
    let mut table = Table::new("LRU, 2.5% cached, 5 ms a transfer", &heading);
    let cache_bytes = FRACTIONS[0] * set.ranked.total_bytes();
    let (warm_up, requests) = lengths(&set.population, cache_bytes, inputs);
    progress.begin("threads", THREADS.len() as u64);
    for threads in THREADS {
        let setting = ThreadSetup {
            cache_bytes: cache_bytes as u64,
            threads,
            transfer_seconds: 0.005,
            full_rate: THROUGHPUT,
            path: PathLength::default(),
            warm_up,
            requests,
            seed: inputs.seed,
        };
        let found = threads::simulate(&set.population, Box::new(Lru::default()), &setting);
        assert!((0.0..=1.0).contains(&found.shared), "those that wait for a read are requests");
        table.rows.push(vec![
            threads.to_string(),
            percent(found.outcome.hit_ratio),
            format!("{:.2}%", found.shared * 100.0),
            format!("{:.3}", found.outcome.transfers),
            Unit::Count.shown(found.throughput),
            Unit::Count.shown(found.reading_bytes_max as f64 / 1e3),
        ]);
        progress.done(1);
    }
    Section {
        anchor: "threads".into(),
        title: "Several threads".into(),
        question: "\u{201c}With multiple threads, file cache performance could be worse\u{201d}: how much?".into(),
        tables: vec![table],
        notes: vec![
            "Files that are being read take room in the cache and answer nobody yet. Who asks for one meanwhile waits, which counts as a \
             miss here and costs the disk nothing. The disk is an array whose transfers do not queue."
                .into(),
        ],
        ..Section::default()
    }
}

/// Returns the section on the POSTlog.
pub(super) fn log() -> Section {
    let set = Set::of(THROUGHPUT);
    let heading =
        ["the log is", "reads an operation", "writes an operation", "cache taken, MB", "hit ratio", "left"];
    let mut table = Table::new("A million operations into the run, 2.5% cached", &heading);
    let cache_bytes = FRACTIONS[0] * set.ranked.total_bytes();
    for keeping in LogMode::ALL {
        let cost = keeping.cost(POSTS);
        assert!(cost.reads >= 0.0 && cost.writes >= 0.0 && cost.cache_bytes >= 0.0, "a log costs");
        let mut outcome = che::outcome(&set.population, (cache_bytes - cost.cache_bytes).max(0.0));
        outcome.transfers += cost.reads + cost.writes;
        table.rows.push(vec![
            keeping.name().into(),
            format!("{:.4}", cost.reads),
            format!("{:.4}", cost.writes),
            format!("{:.3}", cost.cache_bytes / 1e6),
            percent(outcome.hit_ratio),
            left(&outcome),
        ]);
    }
    let mut queue =
        Table::new("Writers wait for one another", &["the log is held for", "operations a second at most"]);
    for milliseconds in [0.02, 0.1, 1.0, 10.0] {
        let most = serialized_throughput(milliseconds / 1e3);
        queue.rows.push(vec![format!("{milliseconds} ms"), Unit::Count.shown(most)]);
    }
    Section {
        anchor: "postlog".into(),
        title: "The POSTlog".into(),
        question: "What do the 4.8% of operations that append to one file cost?".into(),
        tables: vec![table, queue],
        notes: vec![
            "By the characteristic time of the cache that is left, with the log's transfers at ζ_D each. GETs and POSTs are not told apart in the \
             path length. The lock is what binds: with a disk write of 10 ms under it no server passes some 2,100 operations a second."
                .into(),
        ],
        ..Section::default()
    }
}

/// Returns the section on the trace's population, with a cache over the trace itself.
pub(super) fn trace(inputs: &Inputs, progress: &mut dyn Progress) -> Section {
    let population = Population::of_trace(&inputs.workload);
    let all = population.bytes();
    let heading = [
        "cached",
        "model",
        "characteristic time",
        "independent accesses, simulated",
        "the trace itself",
        "left, characteristic time",
    ];
    let mut table = Table::new("LRU file hit ratio", &heading);
    progress.begin("trace", FRACTIONS.len() as u64);
    for fraction in FRACTIONS {
        let bytes = fraction * all;
        let model = Analytic::of(&population, bytes, REUSE).outcome(RateDerivation::Restored);
        let time = che::outcome(&population, bytes);
        let drawn = steady(&population, Box::new(Lru::default()), (bytes, THROUGHPUT), inputs).outcome;
        table.rows.push(vec![
            format!("{}%", fraction * 100.0),
            percent(model.hit_ratio),
            percent(time.hit_ratio),
            percent(drawn.hit_ratio),
            percent(replayed(inputs, bytes as u64)),
            left(&time),
        ]);
        progress.done(1);
    }
    Section {
        anchor: "trace".into(),
        title: "Any other workload".into(),
        question: "What do model and estimate say of popularity and sizes that are not SPECweb99's?".into(),
        tables: vec![table],
        notes: vec![
            format!(
                "{}: {} objects of {} asked for in its measured part.",
                inputs.source,
                Unit::Count.shown(population.items().len() as f64),
                Unit::Bytes.shown(all)
            ),
            "The model's fitted f_r is SPECweb99's and means nothing here; where its two kinds of file differ much in size it says 0. Model and \
             estimate take accesses for independent. A real trace asks for many objects only once, of which a cache misses the first access, and for \
             others in bursts: the last column but one shows what that makes together."
                .into(),
        ],
        ..Section::default()
    }
}

/// Returns the hit ratio of LRU over the trace's measured part; the rest warms the cache.
fn replayed(inputs: &Inputs, cache_bytes: u64) -> f64 {
    let workload = &inputs.workload;
    let sizes = workload.sizes();
    let requests = workload.requests.iter();
    let mut requests = requests
        .map(|request| Request { object: request.object.into(), bytes: sizes[request.object as usize] });
    let mut cache = Simulator::new(Lru::default(), Capacity::Bytes(cache_bytes));
    let warm = cache.run(requests.by_ref().take(workload.warm_up));
    let misses = cache.run(requests).since(&warm).miss_ratio();
    assert!((0.0..=1.0).contains(&misses), "{misses} is no miss ratio");
    1.0 - misses
}

fn percent(share: f64) -> String {
    Unit::Share.shown(share)
}

fn left(outcome: &FileCacheResult) -> String {
    percent(PathLength::default().throughput(outcome))
}

/// The smallest of the paper's target throughputs.
const THROUGHPUT: f64 = 2500.0;
const FRACTIONS: [f64; 3] = [0.025, 0.05, 0.1];
const THREADS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// POSTs among a million operations.
const POSTS: u64 = 48_000;
