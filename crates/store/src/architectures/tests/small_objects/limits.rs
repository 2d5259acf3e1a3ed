//! Finite mapped file: its victims, its survivors, and its limits (section 3).

use super::*;
use crate::StoreView;
use crate::fs::{Faults, FaultyFs};
use crate::{Error, InsertRefusal};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

for_each_with_segments! {
    bytes_stay_under_limit_and_bodies_are_right,
    newest_object_is_there_in_full_store,
    requested_objects_stay,
    an_object_replaces_one_of_its_own_segment_size,
    a_size_that_has_no_segment_goes_to_files,
    a_body_that_is_being_read_is_not_overwritten,
    removed_objects_make_room,
    threads_never_see_a_wrong_body,
    a_failing_disk_costs_misses_and_declines_only,
    the_number_of_objects_is_limited_too,
}

/// Fills the store with objects of one length, from `first` on, until it evicts others. Returns the
/// next number.
fn fill(store: &dyn Store, first: u64, length: usize) -> u64 {
    let before = store.usage().evictions;
    let last = (first..first + 5_000).find(|n| {
        put(store, *n, 1, length).unwrap();
        store.usage().evictions > before
    });
    last.expect("it is full in the end") + 1
}

fn bytes_stay_under_limit_and_bodies_are_right(architecture: &str) {
    let world = tight(architecture);
    let store = world.open();
    let mut random = Random(1);
    let mut versions: HashMap<u64, (u64, usize)> = HashMap::new();
    let mut served = 0;
    for version in 0..4_000 {
        let n = random.below(1_500);
        if let Some(found) = fetch(&store, n) {
            let (version, length) = versions[&n];
            assert_eq!(found, (metadata_of(n, version, length), body_of(n, version, length)));
            served += 1;
            continue;
        }
        let length = some_length(&mut random);
        match put(&store, n, version, length) {
            Ok(()) => drop(versions.insert(n, (version, length))),
            Err(Error::Declined(InsertRefusal::NoSpace)) => {}
            Err(error) => panic!("{error}"),
        }
        let usage = store.usage();
        assert!(usage.bytes <= usage.bytes_max);
    }
    let usage = store.usage();
    assert!(usage.evictions > 500 && served > 200, "{usage:?}, {served} served");
    assert_eq!(usage.corrupt, 0);
    assert!(world.files.most_used() <= usage.bytes_max);
    let found = (0..1_500).filter(|n| fetch(&store, *n).is_some()).count();
    assert_eq!(found as u64, usage.objects);
}

fn newest_object_is_there_in_full_store(architecture: &str) {
    for segment in SEGMENTS {
        let world = tight(architecture);
        let store = world.open();
        let length = fitting(99_999, segment);
        let next = fill(&store, 0, length);
        for n in next..next + 100 {
            put(&store, n, 1, length).unwrap();
            assert!(matches(&store, n, 1, length), "{segment}");
        }
    }
}

fn requested_objects_stay(architecture: &str) {
    let world = tight(architecture);
    let store = world.open();
    let length = fitting(99_999, 1024);
    for n in 0..10 {
        put(&store, n, 1, length).unwrap();
        (0..5).for_each(|_| assert!(matches(&store, n, 1, length)));
    }
    let full = fill(&store, 10, length);
    for n in full..full + 1_000 {
        put(&store, n, 1, length).unwrap();
        for popular in 0..10 {
            assert!(store.open(&key(popular)).unwrap().is_some(), "{popular} after {n}");
        }
    }
    assert!(store.usage().evictions > 900);
}

fn an_object_replaces_one_of_its_own_segment_size(architecture: &str) {
    let world = tight(architecture);
    let store = world.open();
    let (short, long) = (fitting(99_999, 512), fitting(99_999, 4096));
    (0..100).for_each(|n| put(&store, n, 1, short).unwrap());
    let full = fill(&store, 100, long);
    (full..full + 500).for_each(|n| put(&store, n, 1, long).unwrap());
    assert!((0..100).all(|n| matches(&store, n, 1, short)), "no long object took a short one's segment");
    let longs = (100..full + 500).filter(|n| store.may_contain(&key(*n))).count();
    (20_000..20_500).for_each(|n| put(&store, n, 1, short).unwrap());
    let left = (100..full + 500).filter(|n| store.may_contain(&key(*n))).count();
    assert_eq!(left, longs, "nor the other way round");
}

fn a_size_that_has_no_segment_goes_to_files(architecture: &str) {
    let world = tight(architecture);
    let store = world.open();
    let mapped = mapped_file(architecture);
    fill(&store, 0, fitting(99_999, 8192));
    let before = large_objects(&world, &mapped).len();
    for n in 10_000..10_020 {
        put(&store, n, 1, 300).unwrap();
        assert!(matches(&store, n, 1, 300));
    }
    assert!(large_objects(&world, &mapped).len() > before, "there is no segment for them");
    let usage = store.usage();
    assert!(usage.bytes <= usage.bytes_max);
}

fn a_body_that_is_being_read_is_not_overwritten(architecture: &str) {
    let world = tight(architecture);
    let store = world.open();
    let length = fitting(99_999, 2048);
    let full = fill(&store, 0, length);
    let held: Vec<_> = (0..full)
        .filter_map(|n| Some((n, store.open(&key(n)).unwrap()?.body)))
        .filter(|(n, _)| n % 3 == 0)
        .collect();
    assert!(held.len() > 30, "{}", held.len());
    for n in full..full + 2_000 {
        put(&store, n, 1, length).unwrap();
        if n % 50 == 0 {
            for (n, body) in &held {
                assert_eq!(body.read(0, usize::MAX).unwrap(), body_of(*n, 1, length), "{n}");
            }
        }
    }
    for (n, body) in &held {
        assert_eq!(body.read(100, 500).unwrap(), &body_of(*n, 1, length)[100..600], "{n}");
    }
    assert_eq!(store.usage().corrupt, 0);
}

fn removed_objects_make_room(architecture: &str) {
    let world = tight(architecture);
    let store = world.open();
    let length = fitting(99_999, 2048);
    let full = fill(&store, 0, length);
    let stored: Vec<u64> = (0..full).filter(|n| store.may_contain(&key(*n))).collect();
    for n in stored.iter().step_by(3) {
        assert!(store.remove(&key(*n)).unwrap());
    }
    let before = store.usage().evictions;
    for n in (0..).map(|n| 30_000 + n).take(stored.len() / 3) {
        put(&store, n, 1, length).unwrap();
    }
    assert_eq!(store.usage().evictions, before, "what was removed has made room enough");
    assert!(stored.iter().skip(1).step_by(3).all(|n| matches(&store, *n, 1, length)));
}

fn threads_never_see_a_wrong_body(architecture: &str) {
    let world = world(architecture, 1 << 20, 256 << 10, 1_000);
    let store = world.open();
    let (served, declined) = (AtomicU64::new(0), AtomicU64::new(0));
    let length = |n: u64| (n as usize * 7_919) % 11_000;
    thread::scope(|scope| {
        for worker in 0..6_u64 {
            let (store, served, declined) = (&store, &served, &declined);
            scope.spawn(move || {
                let mut random = Random(worker + 100);
                for _ in 0..1_500 {
                    let n = random.below(400);
                    match random.below(10) {
                        0..5 => match put(store, n, n, length(n)) {
                            Ok(()) => {}
                            Err(Error::Declined(_)) => drop(declined.fetch_add(1, Relaxed)),
                            Err(error) => panic!("{error}"),
                        },
                        5 => {
                            let metadata = vec![b'm'; random.below(3_000) as usize];
                            drop(store.update_metadata(&key(n), &metadata, &|_| true));
                        }
                        6 if random.below(4) == 0 => drop(store.remove(&key(n)).unwrap()),
                        _ => {
                            if let Some(stored) = store.open(&key(n)).unwrap() {
                                assert_eq!(
                                    stored.body.read(0, usize::MAX).unwrap(),
                                    body_of(n, n, length(n))
                                );
                                served.fetch_add(1, Relaxed);
                            }
                        }
                    }
                    let usage = store.usage();
                    assert!(usage.bytes <= usage.bytes_max);
                }
            });
        }
    });
    let (served, declined) = (served.into_inner(), declined.into_inner());
    assert!(served > 500 && declined < 2_000, "{served} served, {declined} declined");
    let usage = store.usage();
    assert!(usage.evictions > 100, "{usage:?}");
    assert_eq!(usage.corrupt, 0);
    let found = (0..400).filter(|n| fetch(&store, *n).is_some()).count();
    assert_eq!(found as u64, usage.objects);
}

fn a_failing_disk_costs_misses_and_declines_only(architecture: &str) {
    let mut served = 0;
    for seed in 0..20 {
        let world = world(architecture, 1 << 20, 256 << 10, 1_000);
        drop(world.open());
        let faults = Faults::new(seed).errors(60).full(30).torn(60);
        let faulty = Arc::new(FaultyFs::new(world.files.clone(), faults));
        let opened = (0..99).find_map(|_| world.try_open_through(faulty.clone()).ok());
        let store = opened.expect("not every try fails");
        let mut random = Random(seed);
        let mut versions = HashMap::new();
        for version in 0..800 {
            let n = random.below(200);
            match random.below(4) {
                0..2 => {
                    let length = some_length(&mut random);
                    if put(&store, n, version, length).is_ok() {
                        versions.insert(n, (version, length));
                    }
                }
                2 if version % 5 == 0 => {
                    if store.remove(&key(n)).is_ok() {
                        versions.remove(&n);
                    }
                }
                _ => {
                    if let Some(found) = fetch(&store, n) {
                        let (version, length) = versions[&n];
                        let right = (metadata_of(n, version, length), body_of(n, version, length));
                        assert_eq!(found, right, "seed {seed}: {n}");
                        served += 1;
                    }
                }
            }
            let usage = store.usage();
            assert!(usage.bytes <= usage.bytes_max, "seed {seed}");
        }
    }
    assert!(served > 400, "{served}");
}

fn the_number_of_objects_is_limited_too(architecture: &str) {
    let world = world(architecture, 16 << 20, 4 << 20, 40);
    let store = world.open();
    for n in 0..300 {
        put(&store, n, 1, n as usize * 37 % 9_500).unwrap();
        assert!(matches(&store, n, 1, n as usize * 37 % 9_500));
        assert!(store.usage().objects <= 40);
    }
    let found = (0..300).filter(|n| fetch(&store, *n).is_some()).count();
    assert_eq!(found, 40);
}
