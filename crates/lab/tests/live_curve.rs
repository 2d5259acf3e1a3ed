//! The curve of a running node beside the exact one: within two points.
//!
//! Runs on made traffic, and on the shared traces where they are present: in the folder that
//! `SHOAL_TRACES` names, or in `shared/traces` beside the checkout. The node's curve is
//! `shoal_dashboard::LiveCurve`, which watches 8,192 objects by [`Shards::hashed`].

use shoal_lab::curve::{Point, Shards, sizes_between};
use shoal_policy::curve::mixed;
use shoal_trace::generate::Traffic;
use shoal_trace::{Filter, Input, ReadOptions, Trace};
use std::path::{Path, PathBuf};

/// Objects that a node watches.
const OBJECTS: usize = 8192;

/// Largest difference of hit ratios.
const TWO_POINTS: f64 = 0.02;

fn check(name: &str, trace: &Trace) {
    for seed in 1..4 {
        let (mut live, mut exact) = (Shards::hashed(OBJECTS), Shards::exact());
        for request in trace.requests() {
            let object = u64::from(request.object);
            live.watch(mixed(object, seed), request.bytes);
            live.note_all(1, request.bytes);
            exact.request(object, request.bytes);
        }
        let (live, exact) = (live.distances(), exact.finish());
        let reaches = exact.distances().quantiles(&[1.0])[0].expect("objects come back");
        let sizes = sizes_between(reaches / 100, reaches, 24);
        let (live_curve, exact) = (live.curve(&sizes), exact.curve(&sizes));
        let off = |(live, exact): (&Point, &Point)| (live.hit_ratio - exact.hit_ratio).abs();

        let sees = |largest: f64| eprintln!("{name}, seed {seed}: {largest:.4}");
        let largest = live_curve.points.iter().zip(&exact.points).map(off).fold(0.0, f64::max);
        sees(largest);
        assert!(largest < TWO_POINTS, "{name}, seed {seed}: {largest} at a rate of {}", live.rate);
        assert!(live.watched <= OBJECTS);
    }
}

fn shared(file: &str) -> Option<PathBuf> {
    let told = std::env::var_os("SHOAL_TRACES").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let path = told.unwrap_or(beside).join(file);
    if !path.is_file() {
        eprintln!("skipped: {file} is not here; SHOAL_TRACES may name its folder");
    }
    path.is_file().then_some(path)
}

#[test]
fn made_traffic_is_within_two_points() {
    let traffic = Traffic { requests: 300_000, clients: 200, hit_ratio: 0.6, ..Traffic::default() };
    check("made", &traffic.make().expect("traffic"));
}

#[test]
fn shared_traces_are_within_two_points() {
    for file in [
        "nasa-http-1995-08-01.tsv.zst",
        "bu95-client-nov94-mar95.tsv.zst",
        "ibm-docker-registry-725k.txt.zst",
    ] {
        let Some(path) = shared(file) else { continue };
        let input = Input::open(&path).expect("it opens");
        let read = Trace::read(input, &ReadOptions::default(), &Filter::default(), usize::MAX, 8192);
        check(file, &read.expect("it reads").0);
    }
}
