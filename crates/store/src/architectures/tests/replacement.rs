//! Choice of the victim when room is needed, for every policy in the settings.

use super::super::REPLACEMENTS;
use super::world::{Random, check_books, fetch, maintain};
use super::*;
use crate::StoreView;
use crate::architectures::files::FileStore;
use crate::{OpenOptions, Store};

for_each_architecture! {}

for_each_architecture_of_files! {
    limits_hold_and_order_matches_store,
}

fn world(architecture: &str, replacement: &'static str, disk_bytes: u64, max_objects: u64) -> World {
    let mut world = World::new(architecture, disk_bytes, max_objects);
    world.settings.replacement = replacement;
    world
}

/// Returns the number of objects that a policy in RAM knows, or of all objects where the hand
/// decides.
fn known(store: &FileStore) -> u64 {
    store.core.order.as_ref().map_or(store.usage().objects, |order| order.len() as u64)
}

fn limits_hold_and_order_matches_store(architecture: &str) {
    for replacement in REPLACEMENTS {
        let world = world(architecture, replacement, 2 << 20, 150);
        let mut random = Random(7);
        for _ in 0..2 {
            let store = world.open();
            maintain(&store.core);
            for version in 0..500 {
                let n = random.below(300);
                match random.below(8) {
                    0 => drop(store.remove(&key(n)).unwrap()),
                    1..4 => drop(fetch(&store, n)),
                    _ => put(&store, n, version, random.below(30_000) as usize).unwrap(),
                }
                assert!(store.usage().bytes <= store.usage().bytes_max, "{replacement}");
            }
            assert_eq!(known(&store), store.usage().objects, "{replacement}");
            assert!(store.usage().evictions > 20, "{replacement}");
            check_books(&world, &store);
        }
    }
}

#[test]
fn peek_keeps_no_object() {
    for replacement in REPLACEMENTS {
        let evicted = |is_peeked: bool| {
            let world = world("squid", replacement, 100 << 20, 100);
            let store = world.open();
            for n in 0..300 {
                put(&store, n, 1, 100).unwrap();
                if is_peeked {
                    let found = crate::Peek::peek(&store, &key(n / 2)).unwrap();
                    assert!(found.is_none_or(|found| found.body_bytes == 100));
                }
            }
            (0..300).filter(|n| !store.may_contain(&key(*n))).collect::<Vec<_>>()
        };
        assert_eq!(evicted(true), evicted(false), "{replacement}");
    }
}

#[test]
fn requested_objects_stay_longest_except_fifo() {
    for replacement in REPLACEMENTS.iter().filter(|name| **name != "fifo") {
        let world = world("squid", replacement, 100 << 20, 100);
        let store = world.open();
        for n in 0..1000 {
            put(&store, n, 1, 100).unwrap();
            for popular in 0..10.min(n) {
                assert!(store.open(&key(popular)).unwrap().is_some(), "{replacement}: {popular} after {n}");
            }
        }
    }
}

#[test]
fn fifo_evicts_by_arrival_and_lru_by_last_request() {
    for (replacement, gone) in [("fifo", [0, 1, 2]), ("lru", [1, 2, 4])] {
        let world = world("squid_monotonic", replacement, 100 << 20, 10);
        let store = world.open();
        (0..10).for_each(|n| put(&store, n, 1, 100).unwrap());
        for n in [3, 0] {
            assert!(fetch(&store, n).is_some());
        }
        (10..13).for_each(|n| put(&store, n, 1, 100).unwrap());
        let missing: Vec<u64> = (0..10).filter(|n| !store.may_contain(&key(*n))).collect();
        assert_eq!(missing, gone, "{replacement}");
    }
}

#[test]
fn object_in_use_is_not_evicted() {
    for replacement in REPLACEMENTS {
        let world = world("squid", replacement, 100 << 20, 10);
        let store = world.open();
        (0..10).for_each(|n| put(&store, n, 1, 100).unwrap());
        let held: Vec<_> = (0..9).map(|n| store.open(&key(n)).unwrap().unwrap()).collect();
        (10..30).for_each(|n| put(&store, n, 1, 100).unwrap());
        assert!((0..9).all(|n| matches(&store, n, 1, 100)), "{replacement}");
        drop(held);
        assert_eq!(known(&store), 10, "{replacement}");
    }
}

#[test]
fn order_is_filled_in_background_after_reopening() {
    let world = world("squid", "lru", 100 << 20, 5000);
    let store = world.open();
    (0..3000).for_each(|n| put(&store, n, 1, 10).unwrap());
    drop(store);
    let store = world.open();
    assert_eq!(known(&store), 0);
    put(&store, 4000, 1, 10).unwrap();
    assert!(fetch(&store, 77).is_some(), "before it is known");
    maintain(&store.core);
    assert_eq!((known(&store), store.usage().objects), (3001, 3001));
}

#[test]
fn before_anything_is_known_the_hand_chooses() {
    let world = world("squid", "s3_fifo", 100 << 20, 20);
    let store = world.open();
    (0..20).for_each(|n| put(&store, n, 1, 10).unwrap());
    drop(store);
    let store = world.open();
    (100..140).for_each(|n| put(&store, n, 1, 10).unwrap());
    assert_eq!(store.usage().objects, 20);
    assert!(matches(&store, 139, 1, 10));
}

#[test]
fn unknown_policy_error_lists_known_names() {
    let options = OpenOptions {
        directory: "unused".into(),
        disk_bytes: 1 << 30,
        object_max_bytes: 1 << 20,
        replacement: "optimal".into(),
        architecture: "squid".into(),
        ..OpenOptions::default()
    };
    let message = crate::open(&options).err().expect("refused").to_string();
    assert!(message.contains("optimal") && message.contains("sieve"), "{message}");
    assert!(!options.directory.exists());
}
