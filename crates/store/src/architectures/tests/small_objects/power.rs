//! Power losses: pages of the mapped file, of object files and of the index then differ in age.

use super::*;
use crate::StoreView;
use crate::fs::FileSystem;
use crate::index::MemoryHome;
use std::collections::HashMap;

for_each_with_segments! {
    nothing_wrong_is_served_and_the_repair_ends,
    full_store_after_power_loss_serves_nothing_wrong,
    power_lost_after_an_orderly_close_loses_nothing,
    object_replaced_after_power_loss_stays_away,
    a_lost_index_costs_misses_and_the_store_goes_on,
    lost_mapped_file_costs_misses_only,
}

/// Metadata and body of every version that a key has had.
type Versions = HashMap<u64, Vec<(Vec<u8>, Vec<u8>)>>;

/// Runs random inserts, updates, removals and closes.
fn live(store: &dyn Store, random: &mut Random, first: u64, operations: u64, versions: &mut Versions) {
    for version in first..first + operations {
        let n = random.below(60);
        let length = some_length(random);
        match random.below(14) {
            0 => drop(store.remove(&key(n))),
            1 if random.below(3) == 0 => store.close().unwrap(),
            2 => {
                let metadata = format!("updated {version}").into_bytes();
                if let Some((_, body)) = fetch(store, n)
                    && store.update_metadata(&key(n), &metadata, &|_| true).unwrap()
                {
                    versions.entry(n).or_default().push((metadata, body));
                }
            }
            _ => {
                if put(store, n, version, length).is_ok() {
                    let object = (metadata_of(n, version, length), body_of(n, version, length));
                    versions.entry(n).or_default().push(object);
                }
            }
        }
    }
}

/// Looks up all objects; each one found must have been stored once. Returns their number.
fn look(store: &dyn Store, versions: &Versions, what: &str) -> u64 {
    let mut found = 0;
    for (n, versions) in versions {
        let Some(object) = fetch(store, *n) else { continue };
        assert!(versions.contains(&object), "{what}: {n} is a version that never was");
        found += 1;
    }
    found
}

fn nothing_wrong_is_served_and_the_repair_ends(architecture: &str) {
    let mut survived = 0;
    for seed in 0..40 {
        let world = world(architecture, 3 << 20, 512 << 10, 400);
        let mut versions = Versions::new();
        let mut random = Random(seed);
        let store = world.open();
        let operations = random.below(250);
        live(&store, &mut random, 0, operations, &mut versions);
        let what = format!("seed {seed}");
        let lost = world.after_power_loss(seed);
        let after = lost.open();
        survived += look(&after, &versions, &what);
        put(&after, 77, 1, 3_000).ok();
        maintain(&after.core);
        let found = look(&after, &versions, &what) + u64::from(fetch(&after, 77).is_some());
        let usage = after.usage();
        assert!(usage.bytes <= usage.bytes_max, "{what}");
        assert_eq!(usage.objects, found, "{what}");
        put(&after, 78, 1, 3_000).unwrap();
        assert!(matches(&after, 78, 1, 3_000), "{what}");
    }
    assert!(survived > 300, "{survived}");
}

/// Entries of different age may name one place: a later record there must not be taken for another
/// object.
fn full_store_after_power_loss_serves_nothing_wrong(architecture: &str) {
    for seed in 0..12 {
        let mut world = world(architecture, 512 << 10, 64 << 10, 200);
        let mut versions = Versions::new();
        let mut random = Random(seed);
        for loss in 0..4 {
            let store = world.open();
            let what = format!("seed {seed}, loss {loss}");
            if random.below(2) == 0 {
                maintain(&store.core);
            }
            live(&store, &mut random, loss * 1_000, 200, &mut versions);
            look(&store, &versions, &what);
            maintain(&store.core);
            let found = look(&store, &versions, &what);
            let usage = store.usage();
            assert!(usage.bytes <= usage.bytes_max, "{what}: {usage:?}");
            assert_eq!(usage.objects, found, "{what}");
            world = world.after_power_loss(seed * 100 + loss);
        }
    }
}

fn power_lost_after_an_orderly_close_loses_nothing(architecture: &str) {
    for seed in 0..20 {
        let world = roomy(architecture);
        let length = |n: u64| n as usize * 331 % 12_000;
        let store = world.open();
        (0..60).for_each(|n| put(&store, n, n, length(n)).unwrap());
        store.close().unwrap();
        let after = world.after_power_loss(seed).open();
        assert!((0..60).all(|n| matches(&after, n, n, length(n))));
        assert_eq!(after.usage(), store.usage());
    }
}

fn object_replaced_after_power_loss_stays_away(architecture: &str) {
    for seed in 0..20 {
        let world = roomy(architecture);
        let store = world.open();
        (0..20).for_each(|n| put(&store, n, 1, 900).unwrap());
        store.close().unwrap();
        // To a segment of the same size, of another size, and to a file.
        (0..20).for_each(|n| put(&store, n, 2, [900, 3_000, 9_000][n as usize % 3]).unwrap());
        let lost = world.after_power_loss(seed);
        let after = lost.open();
        (0..10).for_each(|n| put(&after, n, 3, 900).unwrap());
        maintain(&after.core);
        assert!((0..10).all(|n| matches(&after, n, 3, 900)), "seed {seed}");
        let found = (0..20).filter(|n| fetch(&after, *n).is_some()).count();
        assert_eq!(after.usage().objects, found as u64, "seed {seed}");
    }
}

fn a_lost_index_costs_misses_and_the_store_goes_on(architecture: &str) {
    let mut world = roomy(architecture);
    let length = |n: u64| n as usize * 331 % 12_000;
    let store = world.open();
    (0..100).for_each(|n| put(&store, n, 1, length(n)).unwrap());
    store.close().unwrap();
    drop(store);
    world.home = MemoryHome::default();
    let store = world.open();
    maintain(&store.core);
    let right = |n: u64| fetch(&store, n).is_none_or(|object| object.1 == body_of(n, 1, length(n)));
    assert!((0..100).all(right));
    for n in 0..200 {
        put(&store, n, 2, length(n)).unwrap();
        assert!(matches(&store, n, 2, length(n)), "{n}");
    }
    assert!((0..200).all(|n| matches(&store, n, 2, length(n))));
    assert_eq!(store.usage().objects, 200);
}

fn lost_mapped_file_costs_misses_only(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    (0..100).for_each(|n| put(&store, n, 1, n as usize * 200).unwrap());
    store.close().unwrap();
    drop(store);
    world.files.unlink(&mapped_file(architecture)).unwrap();
    let store = world.open();
    let mut large = 0;
    for n in 0..100 {
        if let Some(object) = fetch(&store, n) {
            assert_eq!(object.1, body_of(n, 1, n as usize * 200));
            large += 1;
        }
    }
    assert!((50..65).contains(&large), "{large} of those in files are there");
    maintain(&store.core);
    assert_eq!(store.usage().objects, large);
    (0..100).for_each(|n| put(&store, n, 2, 700).unwrap());
    assert!((0..100).all(|n| matches(&store, n, 2, 700)));
}
