//! Calls of a store's users.

use super::world::{fetch, metadata_of, objects_on_disk};
use super::*;
use crate::StoreView;
use crate::index::Numbers;
use crate::{Error, InsertRefusal, Store};

for_each_architecture! {
    objects_come_back_as_they_were_stored,
    the_newer_object_replaces_the_older_at_commit,
    body_stays_readable_during_and_after_write,
    body_of_unannounced_length_is_not_stored,
    too_large_object_is_declined,
    a_store_is_warm_after_reopening_and_after_a_kill,
    store_used_after_close_counts_as_open,
}

for_each_architecture_of_files! {
    uncommitted_insert_is_invisible_and_leaves_nothing,
    number_in_use_is_not_reused_and_stays_charged,
    metadata_update_in_place_or_by_rewrite,
    final_metadata_may_exceed_announced_length,
}

const LENGTHS: [usize; 6] = [0, 1, 5_000, 65_536, 65_537, 400_000];

fn objects_come_back_as_they_were_stored(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    for (n, length) in (0..).zip(LENGTHS) {
        put(&store, n, 1, length).unwrap();
        assert!(matches(&store, n, 1, length), "{length}");
        assert!(store.may_contain(&key(n)));
    }
    assert!(fetch(&store, 99).is_none());
    assert!(!store.may_contain(&key(99)));
    assert_eq!(store.usage().objects, LENGTHS.len() as u64);
    assert_eq!(store.usage().corrupt, 0);
}

fn uncommitted_insert_is_invisible_and_leaves_nothing(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    let before = store.usage();
    for length in LENGTHS {
        let mut insert = store.insert(&key(1), b"m", None).unwrap();
        insert.append(&body_of(1, 1, length)).unwrap();
        assert!(fetch(&store, 1).is_none());
        drop(insert);
        assert!(fetch(&store, 1).is_none());
        assert_eq!(store.usage(), before, "{length}");
        assert_eq!(world.object_files(), Vec::<String>::new());
    }
}

fn the_newer_object_replaces_the_older_at_commit(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    put(&store, 1, 1, 100_000).unwrap();
    let mut insert = store.insert(&key(1), &metadata_of(1, 2, 10), None).unwrap();
    insert.append(&body_of(1, 2, 10)).unwrap();
    assert!(matches(&store, 1, 1, 100_000));
    insert.commit(None).unwrap();
    assert!(matches(&store, 1, 2, 10));
    assert_eq!(store.usage().objects, 1);
    assert_eq!(objects_on_disk(&world, &store), 1);
}

fn body_stays_readable_during_and_after_write(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    for commit in [true, false] {
        let mut insert = store.insert(&key(1), b"m", None).unwrap();
        let body = insert.body();
        let expected = body_of(1, 1, 300_000);
        for (n, part) in expected.chunks(33_333).enumerate() {
            insert.append(part).unwrap();
            assert_eq!(body.length(), ((n + 1) * 33_333).min(300_000) as u64);
            assert_eq!(body.read(0, usize::MAX).unwrap(), &expected[..body.length() as usize]);
        }
        if commit {
            insert.commit(None).unwrap();
        } else {
            drop(insert);
        }
        assert_eq!(body.read(100_000, 150_000).unwrap(), &expected[100_000..250_000]);
        assert_eq!(body.read(299_990, 100).unwrap(), &expected[299_990..]);
    }
    let reader = store.open(&key(1)).unwrap().unwrap().body;
    assert!(store.remove(&key(1)).unwrap());
    assert!(!store.remove(&key(1)).unwrap());
    put(&store, 1, 2, 10).unwrap();
    assert_eq!(reader.read(0, usize::MAX).unwrap(), body_of(1, 1, 300_000));
    assert!(matches(&store, 1, 2, 10));
}

fn number_in_use_is_not_reused_and_stays_charged(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    put(&store, 1, 1, 1_000_000).unwrap();
    let charged = store.usage().bytes;
    let reader = store.open(&key(1)).unwrap().unwrap().body;
    store.remove(&key(1)).unwrap();
    assert_eq!(store.usage().bytes, charged);
    assert_eq!(store.usage().objects, 0);
    put(&store, 2, 1, 10).unwrap();
    let path = |number, n| store.core.naming.path(number, store.core.naming.side(key(n).full()));
    assert_eq!(world.object_files(), [path(1, 2)], "number 0 is still being read");
    drop(reader);
    assert!(store.usage().bytes < charged);
    put(&store, 3, 1, 10).unwrap();
    let number = if store.core.naming.numbers() == Numbers::Next { 2 } else { 0 };
    assert!(world.object_files().contains(&path(number, 3)));
}

fn metadata_update_in_place_or_by_rewrite(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    for (n, length) in (0..).zip(LENGTHS) {
        put(&store, n, 1, length).unwrap();
        for metadata in [vec![b'a'; 100], vec![b'b'; 5_000], vec![b'c'; 40]] {
            assert!(store.update_metadata(&key(n), &metadata, &|_| true).unwrap());
            assert_eq!(fetch(&store, n), Some((metadata, body_of(n, 1, length))), "{length}");
        }
    }
    assert!(!store.update_metadata(&key(99), b"m", &|_| true).unwrap());
    let stored = fetch(&store, 0);
    assert!(!store.update_metadata(&key(0), b"m", &|held| held == b"of another object").unwrap());
    assert_eq!(fetch(&store, 0), stored, "metadata of another object is left alone");
    assert_eq!(store.usage().objects, LENGTHS.len() as u64);
    assert_eq!(objects_on_disk(&world, &store), LENGTHS.len());
}

fn final_metadata_may_exceed_announced_length(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    for (n, length) in (0..).zip(LENGTHS) {
        let mut insert = store.insert(&key(n), b"short", Some(length as u64)).unwrap();
        insert.append(&body_of(n, 1, length)).unwrap();
        let metadata = vec![b'x'; 9_000];
        insert.commit(Some(&metadata)).unwrap();
        assert_eq!(fetch(&store, n), Some((metadata, body_of(n, 1, length))), "{length}");
    }
    assert_eq!(objects_on_disk(&world, &store), LENGTHS.len());
}

fn body_of_unannounced_length_is_not_stored(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    let mut short = store.insert(&key(1), b"m", Some(10)).unwrap();
    short.append(b"nine byte").unwrap();
    assert!(matches!(short.commit(None), Err(Error::Corrupt { .. })));
    let mut long = store.insert(&key(1), b"m", Some(10)).unwrap();
    assert!(long.append(b"eleven byte").is_err());
    drop(long);
    assert!(fetch(&store, 1).is_none());
    assert_eq!(store.usage().objects, 0);
}

fn too_large_object_is_declined(architecture: &str) {
    let mut world = World::new(architecture, 10 << 20, 100);
    world.settings.object_max_bytes = 1 << 20;
    let store = world.open();
    let is_too_large = |result| matches!(result, Err(Error::Declined(InsertRefusal::TooLarge)));
    assert!(is_too_large(store.insert(&key(1), b"m", Some((1 << 20) + 1)).map(drop)));
    assert!(is_too_large(store.insert(&key(1), &vec![0; 2 << 20], None).map(drop)));
    let mut insert = store.insert(&key(1), b"m", None).unwrap();
    assert!(is_too_large(insert.append(&vec![0; (1 << 20) + 1])));
    world.settings.object_max_bytes = 1 << 40;
    drop(insert);
    drop(store);
    let store = world.open();
    assert!(is_too_large(store.insert(&key(1), b"m", Some(11 << 20)).map(drop)));
}

fn a_store_is_warm_after_reopening_and_after_a_kill(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    for n in 0..100 {
        put(&store, n, n, 3_000).unwrap();
    }
    let usage = store.usage();
    let killed = world.after_kill().open();
    assert_eq!(killed.core.index.audit_step(), None, "nothing is to be repaired");
    store.close().unwrap();
    drop(store);
    let mut rebooted = world.after_kill();
    rebooted.boot += 1;
    let reopened = rebooted.open();
    assert_eq!(reopened.core.index.audit_step(), None, "it was closed in order");
    for store in [killed, reopened] {
        assert_eq!(store.usage(), usage);
        assert!((0..100).all(|n| matches(&store, n, n, 3_000)));
    }
}

fn store_used_after_close_counts_as_open(architecture: &str) {
    let mut world = World::new(architecture, 100 << 20, 1000);
    let store = world.open();
    put(&store, 1, 1, 10).unwrap();
    store.close().unwrap();
    put(&store, 2, 1, 10).unwrap();
    assert!(matches(&store, 1, 1, 10) && matches(&store, 2, 1, 10));
    world = world.after_kill();
    world.boot += 1;
    assert!(world.open().core.index.audit_step().is_some(), "it was not closed in order");
}

#[test]
fn unknown_architecture_error_lists_known_names() {
    let message = match super::super::opening::open(&crate::OpenOptions {
        directory: "unused".into(),
        disk_bytes: 1 << 30,
        object_max_bytes: 1 << 20,
        architecture: "varnish".into(),
        ..crate::OpenOptions::default()
    }) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("opened"),
    };
    assert!(message.contains("squid") && message.contains("varnish"), "{message}");
}
