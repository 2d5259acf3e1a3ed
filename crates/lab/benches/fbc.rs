//! Hit ratios of replacement in a memory-mapped file of small objects, over a trace: the table of
//! docs/experiments/fbc.md.
//!
//! `cargo bench -p shoal-lab --bench fbc -- TRACE`. Objects of at most a page count; the first half
//! warms the cache.

use shoal_lab::simulator::{Counts, MappedCache, MappedPolicy, Request, foreseen};
use shoal_policy::SegmentClass;
use shoal_trace::{Filter, Input, ReadOptions, Trace};
use std::collections::HashMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without a trace there is nothing to ask, as when all benches are run.
    let Some(path) = std::env::args_os().skip(1).find(|argument| argument != "--bench") else {
        return Ok(());
    };
    let input = Input::open(std::path::Path::new(&path))?;
    let (trace, _, _) = Trace::read(input, &ReadOptions::default(), &Filter::default(), usize::MAX, 0)?;
    let requests = small(&trace);
    let segments = segment_bytes(&requests);
    let files = SHARES.map(|share| (segments / share).next_multiple_of(8192));
    println!(
        "{} requests for objects of at most 8 KB, whose segments take {segments} bytes.\n",
        requests.len()
    );
    let heads: Vec<String> = SHARES.iter().map(|share| format!("1/{share}")).collect();
    println!("| hit ratio, %; file of all segments over | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(files.len()));
    row("lru", files.map(|bytes| replayed(MappedPolicy::Lru, &requests, bytes)));
    let mut aging = Vec::new();
    for (c_max, a_max) in BOUNDS {
        let name = format!("fbc, C_max {c_max}, A_max {a_max}");
        row(&name, files.map(|bytes| replayed(MappedPolicy::Fbc { c_max, a_max }, &requests, bytes)));
        let one = MappedPolicy::FbcOnePointer { c_max, a_max };
        row(&format!("{name}, one pointer"), files.map(|bytes| replayed(one, &requests, bytes)));
        aging.push((name, files.map(|bytes| aged(MappedPolicy::Fbc { c_max, a_max }, &requests, bytes))));
    }
    row("future", files.map(|bytes| foreseen(&requests, bytes, requests.len() / 2)));
    row("endless file", [replayed(MappedPolicy::Lru, &requests, u64::MAX / 2); SHARES.len()]);
    println!("\n| halvings, and mean count at the end | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(files.len()));
    for (name, aged) in aging {
        let cells = aged.map(|(halvings, mean)| format!("{halvings}, {mean:.1}"));
        println!("| {name} | {} |", cells.join(" | "));
    }
    Ok(())
}

/// Returns requests for objects that never exceed a page. Each has its object's largest size, so
/// that all policies see the same objects.
fn small(trace: &Trace) -> Vec<Request> {
    let mut largest: HashMap<u32, u64> = HashMap::new();
    for request in trace.requests() {
        let bytes = largest.entry(request.object).or_default();
        *bytes = request.bytes.max(*bytes);
    }
    let sized =
        trace.requests().iter().map(|of| Request { object: of.object.into(), bytes: largest[&of.object] });
    sized.filter(|request| SegmentClass::for_bytes(request.bytes).is_some()).collect()
}

/// Returns the bytes of all objects' segments.
fn segment_bytes(requests: &[Request]) -> u64 {
    let objects: HashMap<u64, u64> = requests.iter().map(|request| (request.object, request.bytes)).collect();
    objects.values().filter_map(|bytes| SegmentClass::for_bytes(*bytes)).map(SegmentClass::bytes).sum()
}

/// Replays all requests under FBC. Returns the halvings, and the mean count at the end.
fn aged(policy: MappedPolicy, requests: &[Request], file_bytes: u64) -> (u64, f64) {
    let mut cache = MappedCache::new(policy, file_bytes);
    cache.run(requests.iter().copied());
    cache.aging().expect("FBC counts references")
}

/// Replays the second half, with the first as warm-up.
fn replayed(policy: MappedPolicy, requests: &[Request], file_bytes: u64) -> Counts {
    let (warm_up, measured) = requests.split_at(requests.len() / 2);
    let mut cache = MappedCache::new(policy, file_bytes);
    let before = cache.run(warm_up.iter().copied());
    cache.run(measured.iter().copied()).since(&before)
}

fn row(name: &str, counts: [Counts; SHARES.len()]) {
    let percent = |counts: &Counts| format!("{:.2}", 100.0 * (1.0 - counts.miss_ratio()));
    println!("| {name} | {} |", counts.iter().map(percent).collect::<Vec<String>>().join(" | "));
}

/// Lengths of the file: all objects' segments over these.
const SHARES: [u64; 4] = [32, 16, 8, 4];
/// C_max and A_max; the paper's are 3 and 100.
const BOUNDS: [(u32, u32); 9] =
    [(2, 100), (3, 100), (5, 100), (10, 100), (2, 2), (3, 2), (3, 5), (3, 10), (10, 10)];
