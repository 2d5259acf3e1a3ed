//! Curves against the simulator, samples against the whole.

use super::*;
use crate::simulator::{Capacity, Request, Simulator, ZipfTrace};
use shoal_policy::{Lru, ReplacementPolicy};

/// Returns requests; each object has its own size.
fn stream(requests: usize, objects: u32) -> Vec<Request> {
    let sized = |request: Request| Request { bytes: 100 + mixed(request.object, 7) % 2000, ..request };
    ZipfTrace::new(objects, 0.8, 1, 11).take(requests).map(sized).collect()
}

fn shards(mut shards: Shards, stream: &[Request]) -> SampledDistances {
    stream.iter().for_each(|request| shards.request(request.object, request.bytes));
    shards.finish()
}

#[test]
fn exact_distances_by_objects_are_lru_to_the_request() {
    let stream = stream(60_000, 5000);
    let sampled = shards(Shards::exact(), &stream);
    let sizes = [1, 10, 31, 63, 127, 511, 1023, 2047, 4095];
    for point in sampled.curve_by_objects(&sizes).points {
        let mut simulator = Simulator::new(Lru::default(), Capacity::Objects(point.size));
        let counts = simulator.run(stream.iter().copied());
        let off = 1.0 - counts.miss_ratio() - point.hit_ratio;
        assert!(off.abs() < 1e-9 && point.error == 0.0, "{off} at {} objects", point.size);
    }
}

#[test]
fn exact_distances_by_bytes_are_lru_within_an_object() {
    let stream = stream(60_000, 5000);
    let sizes = sizes_between(100_000, 6_000_000, 12);
    let sampled = shards(Shards::exact(), &stream);
    for point in sampled.curve(&sizes).points {
        let mut simulator = Simulator::new(Lru::default(), Capacity::Bytes(point.size));
        let counts = simulator.run(stream.iter().copied());
        let (requests, bytes) = (1.0 - counts.miss_ratio(), 1.0 - counts.byte_miss_ratio());
        // The histogram's cells are 3% wide, and a cache may have up to one object's room unused.
        assert!((requests - point.hit_ratio).abs() < 0.006, "{requests} {point:?}");
        assert!((bytes - point.byte_hit_ratio).abs() < 0.006, "{bytes} {point:?}");
    }
}

#[test]
fn samples_estimate_the_whole_within_their_error() {
    let stream = stream(1_000_000, 200_000);
    // The smallest size fits some hundred watched objects.
    let sizes = sizes_between(4_000_000, 200_000_000, 20);
    let exact = shards(Shards::exact(), &stream).curve(&sizes);
    for sampler in [
        Shards::fixed_rate(0.05, 1),
        Shards::fixed_rate(0.05, 2),
        Shards::fixed_size(8000, 3),
        Shards::fixed_size(8000, 4),
    ] {
        let sampled = shards(sampler, &stream);
        let curve = sampled.curve(&sizes);
        assert!(sampled.rate < 0.06 && sampled.watched < 12_000, "{} {}", sampled.rate, sampled.watched);
        let off = |a: &Point, b: &Point| (a.hit_ratio - b.hit_ratio).abs();
        let mean: f64 = curve.points.iter().zip(&exact.points).map(|(a, b)| off(a, b)).sum::<f64>() / 20.0;
        assert!(mean < 0.012, "{mean}");
        let within = curve.points.iter().zip(&exact.points).filter(|(a, b)| off(a, b) <= a.error + 0.005);
        assert!(within.count() >= 18);
        assert!(curve.points.iter().all(|point| point.error < 0.05 && point.byte_error < 0.06));
        assert!(curve.points.is_sorted_by(|a, b| a.hit_ratio <= b.hit_ratio));
    }
}

#[test]
fn fixed_size_bounds_the_memory() {
    let mut sampler = Shards::fixed_size(1000, 5);
    for object in 0..500_000u64 {
        sampler.request(object, 1000);
        sampler.request(object / 3, 1000);
    }
    assert!(sampler.memory_bytes() < 1_000_000, "{}", sampler.memory_bytes());
    let sampled = sampler.finish();
    assert_eq!((sampled.watched, sampled.requests), (1000, 1_000_000));
}

#[test]
fn small_caches_match_large_ones_for_every_policy() {
    let stream = stream(400_000, 60_000);
    let sizes = sizes_between(2_000_000, 60_000_000, 5);
    for policy in ReplacementPolicy::<u64>::ALL {
        let curve = |rate| {
            let mut simulation = MiniSimulation::new(policy.construct, &sizes, rate, 1);
            for (at, request) in stream.iter().enumerate() {
                if at == stream.len() / 4 {
                    simulation.end_warm_up();
                }
                simulation.request(request.object, request.bytes);
            }
            simulation.curve()
        };
        let (whole, small) = (curve(1.0), curve(0.1));
        for (whole, small) in whole.points.iter().zip(&small.points) {
            let off = (whole.hit_ratio - small.hit_ratio).abs();
            assert!(off < 0.03, "{}: {off} at {}", policy.name, whole.size);
            assert!(whole.error == 0.0 && small.error > 0.0 && small.error < 0.06, "{small:?}");
        }
    }
}

#[test]
fn warm_up_is_not_counted_and_blocks_add_error() {
    let stream = stream(60_000, 5000);
    let sizes = [2_000_000];
    let lru = ReplacementPolicy::<u64>::named("lru").expect("it is there").construct;
    let mut simulation = MiniSimulation::new(lru, &sizes, 1.0, 1);
    let mut sampler = Shards::exact();
    let mut tiers = TwoTiers::new(lru, &disk, &[(2_000_000, 0)], 1.0, 1);
    let mut simulator = Simulator::new(Lru::default(), Capacity::Bytes(2_000_000));
    let warm = simulator.run(stream[..20_000].iter().copied());
    let counts = simulator.run(stream[20_000..].iter().copied()).since(&warm);
    for (at, request) in stream.iter().enumerate() {
        if at == 20_000 {
            simulation.end_warm_up();
            sampler.end_warm_up();
            tiers.end_warm_up();
        } else if at > 20_000 && at % 4000 == 0 {
            simulation.end_block();
            tiers.end_block();
        }
        simulation.request(request.object, request.bytes);
        sampler.request(request.object, request.bytes);
        tiers.request(request.object, Weights::plain(request.bytes));
    }
    simulation.end_block();
    let point = simulation.curve().points[0];
    assert!((point.hit_ratio - (1.0 - counts.miss_ratio())).abs() < 1e-9, "{point:?}");
    assert!(point.error > 0.0 && point.error < 0.03, "{point:?}");
    assert!((tiers.points()[0].ram_hit_ratio - point.hit_ratio).abs() < 1e-9);
    assert!((sampler.finish().curve(&sizes).points[0].hit_ratio - point.hit_ratio).abs() < 0.006);
}

#[test]
fn two_tiers_are_two_caches_in_a_row() {
    let stream = stream(100_000, 10_000);
    let lru = ReplacementPolicy::<u64>::named("lru").expect("it is there").construct;
    let pairs = [(1_000_000, 0), (1_000_000, 5_000_000), (5_000_000, 5_000_000), (0, 5_000_000)];
    let run = |rate: f64| {
        let mut tiers = TwoTiers::new(lru, &disk, &pairs, rate, 3);
        stream.iter().for_each(|request| {
            tiers.request(request.object, Weights::plain(request.bytes));
        });
        tiers.points()
    };
    let points = run(1.0);
    let alone = |bytes| {
        let mut simulator = Simulator::new(Lru::default(), Capacity::Bytes(bytes));
        1.0 - simulator.run(stream.iter().copied()).miss_ratio()
    };
    let (small, large) = (alone(1_000_000), alone(5_000_000));
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(points[0].ram_hit_ratio, small) && points[0].disk_hit_ratio == 0.0, "{points:?}");
    assert_eq!(points[0].write_ratio, 0.0);
    assert!(close(points[1].ram_hit_ratio, small) && points[1].disk_hit_ratio > 0.05);
    assert!(points[1].ram_hit_ratio + points[1].disk_hit_ratio > large - 0.01, "{points:?} {large}");
    // Two equal caches see the same requests: the second holds the first one's objects, or fewer.
    assert!(close(points[2].ram_hit_ratio, large) && points[2].disk_hit_ratio < 0.05, "{points:?}");
    assert!(close(points[3].disk_hit_ratio, large) && close(points[3].write_ratio, 1.0 - large));
    for (whole, sampled) in points.iter().zip(run(0.3)) {
        assert!((whole.ram_hit_ratio - sampled.ram_hit_ratio).abs() < 0.05, "{whole:?} {sampled:?}");
    }
}

#[test]
fn sizes_knees_and_targets_are_found() {
    assert_eq!(sizes_between(1, 1000, 4), [1, 10, 100, 1000]);
    assert_eq!(sizes_between(5, 5, 3), [5]);
    let point =
        |size, hit_ratio| Point { size, hit_ratio, byte_hit_ratio: hit_ratio / 2.0, ..Point::default() };
    let curve = Curve { points: vec![point(1, 0.1), point(10, 0.6), point(100, 0.7), point(1000, 0.72)] };
    assert_eq!(curve.knee().map(|knee| knee.size), Some(10));
    assert_eq!((curve.size_for(0.65), curve.size_for(0.05), curve.size_for(0.8)), (Some(31), Some(1), None));
    assert!((curve.at(10).0 - 0.6).abs() < 1e-9 && (curve.at(31).1 - 0.3246).abs() < 0.001);
    assert_eq!((curve.at(5000), Curve::default().at(5)), ((0.72, 0.36), (0.0, 0.0)));
    assert_eq!(Curve { points: vec![point(1, 0.5); 3] }.knee(), None);
}

/// Creates a disk with LRU replacement, for a share of the objects.
fn disk(bytes: u64, rate: f64) -> Box<dyn DiskTier> {
    let lru: Box<dyn shoal_policy::Replacement<u64>> = Box::new(Lru::default());
    Box::new(Simulator::new(lru, Capacity::Bytes((bytes as f64 * rate).ceil() as u64)))
}
