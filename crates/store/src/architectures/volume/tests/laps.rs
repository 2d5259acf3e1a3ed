//! Laps of the cursor: contents stay right, popular objects stay, and no reader sees a stripe
//! overwritten.

use super::super::index::VolumeIndex;
use super::*;
use crate::architectures::maintenance::BackgroundWork;
use crate::{StoreUpkeep, StoreView};

#[test]
fn many_laps_serve_nothing_wrong() {
    for seed in 0..4 {
        let world = World::new(6 << 20);
        let mut store = world.open();
        let mut random = Random(seed);
        let mut latest = std::collections::HashMap::new();
        let mut hits = 0;
        for step in 0..6000 {
            let number = random.below(700) as u32;
            match random.below(20) {
                0 => {
                    store.remove(&key(number)).unwrap();
                    latest.remove(&number);
                }
                1..10 => {
                    let length = random.length();
                    put(&store, number, step, length).unwrap();
                    latest.insert(number, step);
                }
                10 if random.below(20) == 0 => store.write_all(),
                11 if random.below(200) == 0 => {
                    store.close().unwrap();
                    drop(store);
                    store = world.open();
                }
                _ => {
                    let version = version_of(&store, number);
                    hits += u32::from(version.is_some());
                    assert!(version.is_none() || version == latest.get(&number).copied(), "an older version");
                }
            }
        }
        assert!(hits > 500, "{hits} hits");
        assert_eq!(store.usage().corrupt, 0, "seed {seed}");
        assert!(store.usage().bytes <= world.settings.disk_bytes);
        assert!(world.files.most_used() <= world.settings.disk_bytes, "{} bytes", world.files.most_used());
    }
}

#[test]
fn popular_object_is_carried_over() {
    let world = World::new(4 << 20);
    let store = world.open();
    for number in 0..20 {
        put(&store, number, 1, 4000).unwrap();
    }
    store.write_all();
    for number in 100..3000 {
        put(&store, number, 1, 8000).unwrap();
        if number % 50 == 0 {
            store.write_all();
            for popular in 0..10 {
                version_of(&store, popular);
            }
        }
    }
    for number in 0..10 {
        assert_eq!(version_of(&store, number), Some(1), "popular object {number}");
    }
    let left = (10..20).filter(|number| version_of(&store, *number).is_some()).count();
    assert_eq!(left, 0, "nobody asked for these");
    assert!(store.usage().evictions > 2000);
}

/// Without a setting, the index has a place for every object that the space can hold.
#[test]
fn objects_of_common_sizes_fit_default_index() {
    let mut world = World::new(24 << 20);
    world.settings.max_objects = 0;
    let store = world.open();
    let mut random = Random(1);
    for number in 0..8000 {
        put(&store, number, 1, 500 + random.below(13_000) as usize).unwrap();
    }
    let volume = &store.volume;
    assert!(volume.directory.is_full() && volume.directory.counts.evictions.load(Relaxed) > 1000);
    assert!(volume.directory.table.objects() > 2500, "{} objects", volume.directory.table.objects());
    assert!(
        volume.directory.table.crowded_out() < 5,
        "{} were crowded out",
        volume.directory.table.crowded_out()
    );
}

#[test]
fn evicted_objects_are_reported() {
    let mut world = World::new(4 << 20);
    world.settings.max_objects = 5000;
    let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let store = world.open();
    store.on_evicted(Arc::new(move |key| listener.lock().push(key)));
    for number in 0..1000 {
        put(&store, number, 1, 8000).unwrap();
    }
    store.write_all();
    let told: std::collections::HashSet<_> = told.lock().iter().copied().collect();
    for number in 0..1000 {
        let is_there = version_of(&store, number).is_some();
        assert_eq!(is_there, !told.contains(&key(number).hash()), "object {number}");
    }
}

/// There is space for the objects, but the index has places for a quarter of them.
#[test]
fn objects_without_index_place_are_reported() {
    let mut world = World::new(16 << 20);
    world.settings.max_objects = 400;
    let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let store = world.open();
    store.on_evicted(Arc::new(move |key| listener.lock().push(key)));
    // The index cannot tell two objects with alike keys apart.
    let mut numbers: Vec<u32> = Vec::new();
    for number in 0..1600 {
        if !numbers.iter().any(|known| VolumeIndex::are_alike(key(*known).hash(), key(number).hash())) {
            numbers.push(number);
        }
    }
    for number in numbers.iter().copied() {
        put(&store, number, 1, 1000).unwrap();
        if number % 8 == 0 {
            store.write_all();
            store.volume.maintain();
        }
    }
    store.write_all();
    for _ in 0..100 {
        store.volume.maintain();
    }
    let told = told.lock();
    for number in numbers {
        let is_there = version_of(&store, number).is_some();
        assert_eq!(is_there, !told.contains(&key(number).hash()), "object {number}");
    }
    let usage = store.usage();
    assert_eq!((usage.crowded_out, usage.evictions), (told.len() as u64, told.len() as u64));
    assert!(told.len() > 1000 && store.volume.directory.has_said_crowded.load(Relaxed));
}

#[test]
fn threads_read_objects_that_others_write() {
    let world = World::new(6 << 20);
    let store = world.open();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                let mut random = Random(thread);
                for step in 0..1500 {
                    let number = random.below(300) as u32;
                    match random.below(4) {
                        0 => drop(put(store, number, step, random.length())),
                        1 if random.below(30) == 0 => drop(store.volume.flush(true)),
                        2 if random.below(10) == 0 => drop(store.remove(&key(number))),
                        _ => drop(version_of(store, number)),
                    }
                }
            });
        }
    });
    assert_eq!(store.usage().corrupt, 0);
}
