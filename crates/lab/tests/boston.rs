//! Figures of the Boston University trace beside those that an independent check counted
//! (docs/experiments/checked.md).
//!
//! The trace is looked for in the folder that `SHOAL_TRACES` names, or in `shared/traces` beside
//! the checkout. Without it the tests print a note and pass.

use shoal_lab::cluster::{ClusterCounts, ClusterSize, SchemeOptions, named, simulate};
use shoal_trace::{Filter, Input, ReadOptions, Trace};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn boston(filter: &Filter, most: usize) -> Option<Trace> {
    let told = std::env::var_os("SHOAL_TRACES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let path = told.unwrap_or(beside).join("bu95-client-nov94-mar95.tsv.zst");
    if !path.is_file() {
        eprintln!("skipped: {} is not here; SHOAL_TRACES may name its folder", path.display());
        return None;
    }
    let read = Trace::read(Input::open(&path).expect("it opens"), &ReadOptions::default(), filter, most, 8192);
    Some(read.expect("it reads").0)
}

#[test]
fn servers_are_counted_by_names_in_lower_case() {
    // The print of the check: 3,031 names as written, 3,009 in lower case.
    let Some(trace) = boston(&Filter::paper(), usize::MAX) else { return };
    assert_eq!((trace.requests().len(), trace.objects().len()), (169_264, 58_390));
    assert_eq!(trace.hosts().len(), 3009);
    let name = |url: &str| {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        rest.split(['/', ':']).next().unwrap_or_default().to_owned()
    };
    let written: BTreeSet<String> = trace.requests().iter().map(|request| name(trace.url(request))).collect();
    assert_eq!(written.len(), 3031);
}

#[test]
fn scratch() {
    for (filter, most) in [(Filter::default(), 100_000), (Filter::paper(), 100_000), (Filter::paper(), usize::MAX)] {
        let Some(trace) = boston(&filter, most) else { return };
        for part in [64, 100, 128] {
            for uneven in [false, true] {
            let objects = trace.objects().len();
            let frames = (objects / part).max(2);
            let nodes = if uneven { [vec![frames; 12], vec![frames * 4 * 4; 4]].concat() } else { vec![frames; 16] };
            let size = ClusterSize { nodes, server: frames, objects };
            for system in ["n_chance", "weighted_lru", "greedy", "gms"] {
                let options = SchemeOptions { idle: 4, ..SchemeOptions::default() };
                let mut made = named(system, &size, &options).expect("known");
                let requests = trace.requests().iter().map(|r| (r.client as usize % 12, r.object));
                let found: ClusterCounts = simulate(made.as_mut(), &size, requests, trace.requests().len() as u64 / 2);
                println!("{} {most} 1/{part} uneven {uneven} {system}: local {:.1} disk {:.1} ms {:.3} load {:.2}", if filter == Filter::default() { "none" } else { "paper" }, found.local as f64 / found.requests as f64 * 100.0, found.disk as f64 / found.requests as f64 * 100.0, found.mean_ms(), found.load_per_request());
            }}
        }
    }
}
