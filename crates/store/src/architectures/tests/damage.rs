//! Damaged indexes and files: misses, a repair that ends, and never a wrong body.

use super::world::{Random, check_books, fetch, maintain, metadata_of};
use super::*;
use crate::Store;
use crate::StoreView;
use crate::index::{MemoryHome, RamWords, Words};
use proptest::prelude::*;

for_each_architecture! {
    corrupt_object_is_missed_counted_and_dropped,
}

for_each_architecture_of_files! {
    a_lost_index_is_rebuilt_from_the_files,
    lookups_and_inserts_work_during_rebuild,
    foreign_index_is_set_aside_and_rebuilt,
    foreign_and_misplaced_files_do_no_harm,
}

/// Makes a closed store of 60 objects of two versions.
fn filled(architecture: &str) -> World {
    let world = World::new(architecture, 20 << 20, 100);
    let store = world.open();
    for n in 0..60 {
        put(&store, n, 0, 500).unwrap();
        put(&store, n, 1, length_of(n)).unwrap();
    }
    store.close().unwrap();
    world
}

fn length_of(n: u64) -> usize {
    (n as usize * 3_001) % 90_000
}

fn served(store: &dyn Store) -> usize {
    (0..60)
        .filter(|n| {
            let Some(found) = fetch(store, *n) else { return false };
            assert_eq!(found, (metadata_of(*n, 1, length_of(*n)), body_of(*n, 1, length_of(*n))), "{n}");
            true
        })
        .count()
}

/// Opens, uses and repairs a damaged store, and checks that it serves nothing wrong. Returns the
/// number of remaining objects.
fn survive(world: &World) -> usize {
    let store = world.open();
    served(&store);
    for n in 100..110 {
        drop(put(&store, n, 1, 5_000));
        drop(store.remove(&key(n - 1)));
    }
    served(&store);
    maintain(&store.core);
    let remaining = served(&store);
    // The lookups may have found more damage.
    maintain(&store.core);
    put(&store, 200, 1, 5_000).unwrap();
    assert!(matches(&store, 200, 1, 5_000));
    remaining
}

fn a_lost_index_is_rebuilt_from_the_files(architecture: &str) {
    let mut world = filled(architecture);
    world.home = MemoryHome::default();
    let store = world.open();
    assert!(store.core.index.audit_step().is_some());
    assert_eq!(store.usage().objects, 0);
    maintain(&store.core);
    assert_eq!(served(&store), 60);
    check_books(&world, &store);
    drop(store);
    assert_eq!(survive(&world.after_kill()), 60, "the rebuilt index is as good as the first");
}

fn lookups_and_inserts_work_during_rebuild(architecture: &str) {
    let mut world = filled(architecture);
    world.home = MemoryHome::default();
    let store = world.open();
    // An insert before the audit finds all space charged.
    assert!(put(&store, 0, 9, 500).is_err());
    assert!(fetch(&store, 1).is_none());
    maintain(&store.core);
    put(&store, 0, 9, 500).unwrap();
    assert!(matches(&store, 0, 9, 500));
    assert_eq!((1..60).filter(|n| matches(&store, *n, 1, length_of(*n))).count(), 59);
}

fn foreign_index_is_set_aside_and_rebuilt(architecture: &str) {
    let lengths = |world: &World| world.home.words().unwrap().count();
    for (words, seed) in [(512, 1), (0, 2), (5_000, 3)] {
        let mut world = filled(architecture);
        let plain = RamWords::new(if words == 0 { lengths(&world) } else { words });
        let mut random = Random(seed);
        (0..plain.count()).for_each(|at| plain.store(at, random.below(u64::MAX)));
        world.home = MemoryHome::with(Some(plain));
        assert_eq!(survive(&world), 60);
    }
}

fn foreign_and_misplaced_files_do_no_harm(architecture: &str) {
    use crate::fs::FileSystem;
    let mut world = filled(architecture);
    world.home = MemoryHome::default();
    let stray = if architecture.starts_with("squid_") { "00/00/0AF" } else { "00/00/FFFFFFF0" };
    world.files.create("00/00/readme.txt").unwrap();
    world.files.create(stray).unwrap();
    let store = world.open();
    maintain(&store.core);
    assert_eq!(served(&store), 60);
    let files = world.object_files();
    assert!(files.contains(&"00/00/readme.txt".to_owned()), "not ours to remove");
    assert!(!files.contains(&stray.to_owned()));
}

fn corrupt_object_is_missed_counted_and_dropped(architecture: &str) {
    let world = filled(architecture);
    let store = world.open();
    let found = store.core.index.peek(key(25).hash(), |_| {}).unwrap();
    world.files.tamper(&store.core.path(found.number), |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    let stored = store.open(&key(25)).unwrap().expect("its head is sound");
    assert!(matches!(stored.body.read(0, usize::MAX), Err(crate::Error::Corrupt { .. })));
    drop(stored);
    assert!(!store.may_contain(&key(25)));
    assert_eq!(store.usage().corrupt, 1);
    check_books(&world, &store);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_index_with_random_damage_costs_misses_only(
        seed: u64,
        changes in 1_u64..200,
        clean: bool,
        row in 0..INDEXED.len(),
    ) {
        let world = filled(INDEXED[row]).after_kill();
        let words = world.home.words().unwrap();
        let mut random = Random(seed);
        for _ in 0..changes {
            // Another test covers the header's fixed part: damage there means a rebuild.
            let at = 8 + random.below(words.count() as u64 - 8) as usize;
            let value = match random.below(3) {
                0 => 0,
                1 => words.load(at) ^ 1 << random.below(64),
                _ => random.below(u64::MAX),
            };
            words.store(at, value);
        }
        if !clean {
            // As a killed process leaves it.
            words.store(9, 0);
        }
        survive(&world);
    }

    #[test]
    fn files_with_random_damage_are_misses(
        seed: u64,
        changes in 1_u64..60,
        row in 0..INDEXED.len(),
    ) {
        let world = filled(INDEXED[row]);
        let mut random = Random(seed);
        let files = world.object_files();
        for _ in 0..changes {
            let path = &files[random.below(files.len() as u64) as usize];
            world.files.tamper(path, |bytes| {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                match random.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes.resize(at * 2, 7),
                    _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                    _ => {}
                }
            });
        }
        prop_assert!(survive(&world) >= 60_usize.saturating_sub(changes as usize));
    }
}
