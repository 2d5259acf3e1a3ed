//! Folders of SquidL: the side word names them, not the number, and may be wrong.

use super::world::{Random, check_books, fetch, maintain};
use super::*;
use crate::Store;
use crate::architectures::files::FileStore;
use crate::index::{MemoryHome, Words};
use shoal_core::ObjectKey;
use std::collections::HashSet;

/// Many hosts, so that all eight folders are used.
const HOSTS: u64 = 40;

fn world() -> World {
    World::new("squidl", 40 << 20, 2000)
}

fn host_key(n: u64) -> ObjectKey {
    ObjectKey::new(format!("http://www{}.example/page/{n}", n % HOSTS).into_bytes())
}

fn put_at_host(store: &FileStore, n: u64) {
    let mut insert = store.insert(&host_key(n), b"m", None).unwrap();
    insert.append(&body_of(n, 1, 3_000)).unwrap();
    insert.commit(None).unwrap();
}

fn is_there(store: &FileStore, n: u64) -> bool {
    let Some(stored) = store.open(&host_key(n)).unwrap() else { return false };
    assert_eq!(stored.body.read(0, usize::MAX).unwrap(), body_of(n, 1, 3_000), "{n}");
    true
}

fn folder_of(path: &str) -> String {
    path.rsplit_once('/').expect("two levels").0.to_owned()
}

#[test]
fn the_objects_of_a_host_share_a_folder() {
    let world = world();
    let store = world.open();
    (0..200).for_each(|n| put_at_host(&store, n));
    let all: HashSet<String> = world.object_files().iter().map(|path| folder_of(path)).collect();
    assert_eq!(all.len(), 8);
    for host in 0..HOSTS {
        let paths = (0..200).filter(|n| n % HOSTS == host).map(|n| {
            let found = store.core.index.peek(host_key(n).hash(), |_| {}).unwrap();
            folder_of(&store.core.path(found.number))
        });
        assert_eq!(paths.collect::<HashSet<_>>().len(), 1, "host {host}");
    }
}

#[test]
fn repair_finds_files_of_damaged_side_words() {
    for seed in 0..20 {
        let world = world();
        let store = world.open();
        (0..200).for_each(|n| put_at_host(&store, n));
        store.close().unwrap();
        drop(store);
        let words = world.home.words().unwrap();
        let store = world.open();
        let mut random = Random(seed);
        let side_of = |number| words.count() - words_after(&store) + number as usize;
        for _ in 0..50 {
            let number = random.below(200) as u32;
            words.store(side_of(number), random.below(u64::MAX));
        }
        let before = (0..200).filter(|n| is_there(&store, *n)).count();
        assert!((140..200).contains(&before), "{before}");
        maintain(&store.core);
        check_books(&world, &store);
        // The entries were dropped; the repair has found their files.
        assert_eq!((0..200).filter(|n| is_there(&store, *n)).count(), 200);
    }
}

#[test]
fn repair_finds_unrequested_objects_in_their_folder() {
    let world = world();
    let store = world.open();
    (0..200).for_each(|n| put_at_host(&store, n));
    let words = world.home.words().unwrap();
    let first = words.count() - words_after(&store);
    (0..200).for_each(|number| words.store(first + number, words.load(first + number) ^ 5));
    store.core.index.report_damage();
    maintain(&store.core);
    assert_eq!((0..200).filter(|n| is_there(&store, *n)).count(), 200);
    check_books(&world, &store);
}

/// Returns the words of the index from the first side word on.
fn words_after(store: &FileStore) -> usize {
    let geometry = store.core.index.geometry();
    geometry.words() - geometry.side(0).expect("this naming has them")
}

#[test]
fn a_lost_index_is_rebuilt_with_the_folders() {
    let mut world = world();
    let store = world.open();
    (0..200).for_each(|n| put_at_host(&store, n));
    drop(store);
    world.home = MemoryHome::default();
    let store = world.open();
    maintain(&store.core);
    assert_eq!((0..200).filter(|n| is_there(&store, *n)).count(), 200);
    check_books(&world, &store);
    drop(store);
    let store = world.open();
    assert_eq!(store.core.index.audit_step(), None);
    assert_eq!((0..200).filter(|n| is_there(&store, *n)).count(), 200);
}

#[test]
fn repair_removes_misplaced_files_and_frees_space() {
    let world = world();
    let store = world.open();
    (0..50).for_each(|n| put_at_host(&store, n));
    // Copies of numbers in use and of free ones, in every folder.
    let here = world.object_files();
    for (number, folder) in (0..100_u32).flat_map(|number| (0..8).map(move |folder| (number, folder))) {
        use crate::fs::FileSystem;
        let path = store.core.naming.path(number, folder);
        world.files.make_folder(&folder_of(&path)).unwrap();
        drop(world.files.create(&path));
    }
    store.core.index.report_damage();
    maintain(&store.core);
    assert_eq!(world.object_files(), here);
    assert_eq!((0..50).filter(|n| is_there(&store, *n)).count(), 50);
    check_books(&world, &store);
    assert!(fetch(&store, 1).is_none());
}
