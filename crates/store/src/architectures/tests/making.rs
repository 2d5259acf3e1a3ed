//! Making of stores, and opening of stores that another architecture has made.

use super::super::{ARCHITECTURES, StoreEnv, open_store};
use super::*;
use crate::fs::{Access, FileSystem, MemoryFs, read_full};
use crate::index::{MemoryHome, Words};
use std::collections::BTreeMap;

for_each_architecture! {
    store_of_other_architecture_is_refused_untouched,
    a_lost_index_does_not_make_the_store_anothers,
}

/// Returns all files of a disk.
fn contents(files: &MemoryFs) -> BTreeMap<String, Vec<u8>> {
    let read = |path: &String| {
        let mut bytes = vec![0; 1 << 20];
        let length = read_full(&*files.open(path, Access::Read).unwrap(), &mut bytes, 0).unwrap();
        bytes.truncate(length);
        bytes
    };
    files.files().into_iter().map(|path| (path.clone(), read(&path))).collect()
}

fn refused(world: &World, others: &str) -> String {
    let before = contents(&world.files);
    let words = |world: &World| -> Option<Vec<u64>> {
        let words = world.home.words()?;
        Some((0..words.count()).map(|at| words.load(at)).collect())
    };
    let index = words(world);
    let parts = StoreEnv {
        files: world.files.clone(),
        index: Box::new(world.home.clone()),
        boot: world.boot,
        lock: None,
        transient: None,
        background: true,
    };
    let message = open_store(others, &world.settings, parts).err().expect("refused").to_string();
    assert_eq!((contents(&world.files), words(world)), (before, index), "nothing is touched");
    message
}

fn filled(architecture: &str) -> World {
    let world = World::new(architecture, 20 << 20, 500);
    let store = world.open();
    (0..20).for_each(|n| put(&store, n, 1, 4_000).unwrap());
    world
}

fn store_of_other_architecture_is_refused_untouched(architecture: &str) {
    let world = filled(architecture);
    for row in ARCHITECTURES.iter().filter(|row| row.name != architecture) {
        let message = refused(&world, row.name);
        assert!(message.contains(architecture) && message.contains(row.name), "{message}");
    }
    let store = world.open();
    assert!((0..20).all(|n| matches(&store, n, 1, 4_000)));
}

fn a_lost_index_does_not_make_the_store_anothers(architecture: &str) {
    let mut world = filled(architecture);
    let damaged = crate::index::RamWords::new(1000);
    for home in [MemoryHome::default(), MemoryHome::with(Some(damaged))] {
        world.home = home;
        for row in ARCHITECTURES.iter().filter(|row| row.name != architecture) {
            let message = refused(&world, row.name);
            assert!(message.contains(&format!("by the architecture {architecture}")), "{message}");
        }
    }
}

#[test]
fn stores_older_than_signatures_are_squids() {
    let mut world = filled("squid");
    world.files.unlink("architecture").unwrap();
    assert!((0..20).all(|n| matches(&world.open(), n, 1, 4_000)), "with its index");
    world.home = MemoryHome::default();
    let message = refused(&world, "squidl");
    assert!(message.contains("by the architecture squid,"), "{message}");
    let store = world.open();
    world::maintain(&store.core);
    assert!((0..20).all(|n| matches(&store, n, 1, 4_000)), "rebuilt");
    drop(store);
    world.home = MemoryHome::default();
    assert!(refused(&world, "squid_lowest").contains("by the architecture squid,"), "and signed now");
}

#[test]
fn folder_size_follows_setting() {
    for (wanted, k) in [(0, 384), (7, 7)] {
        let mut world = World::new("squid_monotonic", 20 << 20, 500);
        world.settings.files_per_folder = wanted;
        let store = world.open();
        (0..20).for_each(|n| put(&store, n, 1, 10).unwrap());
        assert_eq!(store.core.naming.parameters()[2], k);
        let in_first = world.object_files().iter().filter(|path| path.starts_with("00/00/")).count();
        assert_eq!(in_first, 20.min(k as usize));
        drop(store);
        world.settings.files_per_folder = 99;
        assert!((0..20).all(|n| matches(&world.open(), n, 1, 10)), "fixed when the store is made");
    }
}
