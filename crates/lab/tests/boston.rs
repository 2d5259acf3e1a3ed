//! Figures of the Boston University trace beside those that an independent check counted
//! (docs/experiments/checked.md).
//!
//! The trace is looked for in the folder that `SHOAL_TRACES` names, or in `shared/traces` beside
//! the checkout. Without it the tests print a note and pass.

use shoal_lab::cluster::{ClusterSize, NChance, SchemeOptions, simulate};
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
    let read =
        Trace::read(Input::open(&path).expect("it opens"), &ReadOptions::default(), filter, most, 8192);
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
fn n_chance_on_boston_is_near_the_check() {
    // 18.4% from the own memory, a load of 3.05, where receivers look at all duplicates. The memory
    // is not told; with a 128th of the objects in each node both are nearest.
    let Some(trace) = boston(&Filter::paper(), usize::MAX) else { return };
    let objects = trace.objects().len();
    let frames = objects / 128;
    let size = ClusterSize { nodes: vec![frames; 16], server: frames, objects };
    let mut system = NChance::new(2, SchemeOptions::default().seed);
    let requests = trace.requests().iter().map(|request| (request.client as usize % 12, request.object));
    let found = simulate(&mut system, &size, requests, trace.requests().len() as u64 / 2);
    let local = found.local as f64 / found.requests as f64;
    assert!((local - 0.184).abs() < 0.006, "{local}");
    assert!((found.load_per_request() - 3.05).abs() < 0.02, "{}", found.load_per_request());
}
