//! Files that are overwritten instead of removed.

use super::world::{Random, check_books, fetch, maintain};
use super::*;
use crate::Store;
use crate::StoreView;
use crate::architectures::files::FileStore;
use crate::architectures::maintenance::BackgroundWork;
use crate::architectures::space::EvictionReason;
use crate::fs::{Calls, CountingFs};
use std::sync::Arc;

fn counted(disk_bytes: u64, max_objects: u64) -> (World, FileStore, Arc<CountingFs>) {
    let world = World::new("squid_lowest", disk_bytes, max_objects);
    let door = Arc::new(CountingFs::new(world.files.clone()));
    let store = world.open_through(door.clone());
    (world, store, door)
}

fn waiting(store: &FileStore) -> usize {
    store.core.released.as_ref().expect("this architecture overwrites").len()
}

/// Returns a length of up to 20,000 bytes, and a large one now and then. A large body empties many
/// files at once, and so leaves free numbers below those that wait.
fn length(random: &mut Random) -> usize {
    match random.below(40) {
        0 => 400_000,
        _ => random.below(20_000) as usize,
    }
}

/// Calls of a full store for 1,500 inserts, with a step of background work after each where
/// `is_maintained`.
fn calls_when_full(by_space: bool, is_maintained: bool) -> Calls {
    let (world, store, door) = if by_space { counted(6 << 20, 10_000) } else { counted(1 << 30, 60) };
    let mut random = Random(3);
    let mut total = Calls::default();
    for n in 0..3000 {
        let length = length(&mut random);
        put(&store, n, 1, length).unwrap();
        if is_maintained {
            store.core.maintain();
        }
        assert!(matches(&store, n, 1, length));
        assert!(store.usage().bytes <= store.usage().bytes_max);
        let calls = door.take();
        if n >= 1500 {
            total.creates += calls.creates;
            total.unlinks += calls.unlinks;
            total.others += calls.others;
        }
    }
    check_books(&world, &store);
    assert!(world.files.most_used() <= World::file_bytes(&store));
    assert!(store.usage().evictions > 1000);
    total
}

#[test]
fn a_full_store_makes_and_removes_no_files() {
    for (by_space, is_maintained) in [(true, false), (false, false), (true, true), (false, true)] {
        let calls = calls_when_full(by_space, is_maintained);
        let spared = calls.creates + calls.unlinks;
        assert!(spared < 15, "{spared} of 1500 inserts; by space: {by_space}, maintained: {is_maintained}");
    }
}

#[test]
fn object_in_an_emptied_file_cuts_nothing_off() {
    let (world, store, door) = counted(1 << 30, 100);
    put(&store, 1, 1, 50_000).unwrap();
    put(&store, 1, 2, 50_000).unwrap();
    assert_eq!(waiting(&store), 1);
    store.core.give_up_one(&mut 0, EvictionReason::Space).unwrap();
    assert_eq!((waiting(&store), store.usage().objects), (1, 1), "a file is emptied, and no object goes");
    door.take();
    put(&store, 2, 1, 3000).unwrap();
    let calls = door.take();
    assert_eq!((calls.opens, calls.creates, calls.unlinks, calls.others), (1, 0, 0, 0), "{calls:?}");
    assert!(matches(&store, 2, 1, 3000));
    check_books(&world, &store);
}

#[test]
fn a_reader_keeps_its_body_while_others_come_and_go() {
    let (world, store, _) = counted(1 << 30, 20);
    (0..20).for_each(|n| put(&store, n, 1, 200_000).unwrap());
    let readers: Vec<_> = (0..5).map(|n| store.open(&key(n)).unwrap().unwrap().body).collect();
    for n in 0..5 {
        put(&store, n, 2, 1_000).unwrap();
    }
    for n in 100..200 {
        put(&store, n, 1, 150_000 + n as usize).unwrap();
    }
    for (n, body) in (0..).zip(&readers) {
        assert_eq!(body.read(0, usize::MAX).unwrap(), body_of(n, 1, 200_000), "{n}");
    }
    let kept = world.object_files().len();
    drop(readers);
    assert_eq!(world.object_files().len(), kept, "their files wait now");
    assert!(waiting(&store) >= 5);
    check_books(&world, &store);
}

#[test]
fn overwritten_file_keeps_no_old_bytes() {
    let (world, store, _) = counted(1 << 30, 2);
    let lengths = [200_000, 10, 65_536, 65_537, 0, 5_000, 300_000, 4_000, 4_100, 131_072];
    for (version, (before, after)) in
        lengths.iter().flat_map(|before| lengths.iter().map(move |after| (*before, *after))).enumerate()
    {
        for (step, length) in [before, after].into_iter().enumerate() {
            let n = version as u64 * 2 + step as u64;
            put(&store, n, n, length).unwrap();
            assert!(matches(&store, n, n, length), "{before}, then {after}");
            assert_eq!(store.usage().corrupt, 0);
        }
        check_books(&world, &store);
    }
}

#[test]
fn lingering_released_files_are_removed() {
    let (world, store, _) = counted(1 << 30, 100);
    (0..20).for_each(|n| put(&store, n, 1, 10_000).unwrap());
    (0..5).for_each(|n| put(&store, n, 2, 10_000).unwrap());
    assert!(waiting(&store) > 0);
    maintain(&store.core);
    assert!(waiting(&store) > 0, "not at once");
    maintain(&store.core);
    assert_eq!((waiting(&store), world.object_files().len()), (0, 20));
    (0..5).for_each(|n| put(&store, n, 3, 10_000).unwrap());
    store.close().unwrap();
    assert_eq!((waiting(&store), world.object_files().len()), (0, 20));
    check_books(&world, &store);
}

#[test]
fn files_released_before_kill_are_removed_on_open() {
    let (world, store, _) = counted(1 << 30, 100);
    (0..20).for_each(|n| put(&store, n, 1, 10_000).unwrap());
    (0..5).for_each(|n| put(&store, n, 2, 10_000).unwrap());
    let released = waiting(&store);
    assert!(released > 0);
    let left = world.after_kill();
    let again = left.open();
    assert_eq!(left.object_files().len(), 20);
    check_books(&left, &again);
    assert!((0..5).all(|n| matches(&again, n, 2, 10_000)));
}

#[test]
fn a_removed_object_does_not_wait_on_disk() {
    let (world, store, _) = counted(1 << 30, 100);
    put(&store, 1, 1, 10_000).unwrap();
    store.remove(&key(1)).unwrap();
    assert_eq!(world.object_files(), Vec::<String>::new());
    assert!(fetch(&store, 1).is_none());
}

#[test]
fn unwritten_insert_leaves_released_file_waiting() {
    let (world, store, door) = counted(1 << 30, 100);
    put(&store, 1, 1, 50_000).unwrap();
    put(&store, 1, 2, 50_000).unwrap();
    door.take();
    drop(store.insert(&key(2), b"m", Some(90_000)).unwrap());
    assert_eq!((door.take(), waiting(&store)), (Calls::default(), 1));
    check_books(&world, &store);
    // An insert that has written takes the file with it.
    let mut insert = store.insert(&key(2), b"m", None).unwrap();
    insert.append(&body_of(2, 1, 150_000)).unwrap();
    drop(insert);
    assert_eq!((waiting(&store), world.object_files().len()), (0, 1));
    check_books(&world, &store);
}
