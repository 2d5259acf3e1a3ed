//! Calls with small objects, and with objects that grow out of the segments and return.

use super::*;
use crate::StoreView;
use proptest::prelude::*;
use std::collections::HashMap;

for_each_with_segments! {
    small_objects_take_no_file_of_their_own,
    record_above_8192_bytes_is_a_file,
    an_object_moves_from_a_segment_to_a_file_and_back,
    body_is_read_while_written_across_border,
    body_stays_readable_after_removal_or_replacement,
    metadata_update_in_segment_larger_one_or_file,
    metadata_of_another_object_is_left_alone,
    uncommitted_insert_is_invisible_and_leaves_nothing,
    body_of_unannounced_length_is_not_stored,
    a_store_is_warm_after_a_kill_and_after_a_clean_end,
}

fn small_objects_take_no_file_of_their_own(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    let mapped = mapped_file(architecture);
    let lengths: Vec<usize> = (0..fitting(999, 8192)).step_by(97).chain([1, 2, 3]).collect();
    for (n, length) in (0..).zip(&lengths) {
        let put = if n % 2 == 0 { put } else { put_announced };
        put(&store, n, 1, *length).unwrap();
        assert!(matches(&store, n, 1, *length), "{length}");
    }
    assert_eq!(large_objects(&world, &mapped), Vec::<String>::new());
    assert!((0..).zip(&lengths).all(|(n, length)| matches(&store, n, 1, *length)), "none has harmed another");
    let usage = store.usage();
    assert_eq!((usage.objects, usage.corrupt, usage.evictions), (lengths.len() as u64, 0, 0));
}

fn record_above_8192_bytes_is_a_file(architecture: &str) {
    let mapped = mapped_file(architecture);
    for put in [put, put_announced] {
        let world = roomy(architecture);
        let store = world.open();
        let is_in_file = |length: usize| {
            put(&store, 1, 1, length).unwrap();
            assert!(matches(&store, 1, 1, length), "{length}");
            !large_objects(&world, &mapped).is_empty()
        };
        let fits = fitting(1, 8192);
        // The printed lengths have equally many digits there.
        assert!((fits - 20..=fits).all(|length| !is_in_file(length)));
        assert!((fits + 1..fits + 20).all(is_in_file));
        assert!(!is_in_file(fits), "back in a segment, and the file is gone");
        assert_eq!(store.usage().objects, 1);
    }
}

fn an_object_moves_from_a_segment_to_a_file_and_back(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    let mapped = mapped_file(architecture);
    for version in 0..40 {
        let length = if version % 2 == 0 { 200 * version as usize } else { 20_000 };
        put(&store, 1, version, length).unwrap();
        assert!(matches(&store, 1, version, length));
        assert_eq!(large_objects(&world, &mapped).len(), version as usize % 2, "{version}");
        assert_eq!(store.usage().objects, 1);
    }
    assert!(store.remove(&key(1)).unwrap());
    assert!(!store.remove(&key(1)).unwrap());
    assert_eq!((fetch(&store, 1), store.usage().objects), (None, 0));
}

fn body_is_read_while_written_across_border(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    for (length, is_committed) in
        [(700, true), (8_000, false), (8_300, true), (30_000, true), (30_000, false)]
    {
        let mut insert = store.insert(&key(1), b"m", None).unwrap();
        let body = insert.body();
        let expected = body_of(1, 1, length);
        for (part, end) in expected.chunks(777).zip((777..).step_by(777)) {
            insert.append(part).unwrap();
            let so_far = end.min(length);
            assert_eq!(body.length(), so_far as u64);
            assert_eq!(body.read(0, usize::MAX).unwrap(), &expected[..so_far], "{so_far} of {length}");
            assert_eq!(body.read(100, 50).unwrap(), &expected[100..150]);
        }
        if is_committed {
            insert.commit(None).unwrap();
        } else {
            drop(insert);
        }
        assert_eq!(body.read(0, usize::MAX).unwrap(), &expected[..], "{length}");
        assert!(body.read(length as u64, 10).unwrap().is_empty());
    }
}

fn body_stays_readable_after_removal_or_replacement(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    for length in [0, 300, 3_000, 7_900] {
        put(&store, 1, 1, length).unwrap();
        let reader = store.open(&key(1)).unwrap().unwrap().body;
        put(&store, 1, 2, length).unwrap();
        let second = store.open(&key(1)).unwrap().unwrap().body;
        assert!(store.remove(&key(1)).unwrap());
        // Objects that take these places, if the places were freed too early.
        (10..60).for_each(|n| put(&store, n, length as u64, length).unwrap());
        assert_eq!(reader.read(0, usize::MAX).unwrap(), body_of(1, 1, length), "{length}");
        assert_eq!(second.read(0, usize::MAX).unwrap(), body_of(1, 2, length), "{length}");
    }
}

fn metadata_update_in_segment_larger_one_or_file(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    let mapped = mapped_file(architecture);
    for (n, length) in (0..).zip([0, 200, 400, 1_900, 7_000]) {
        put(&store, n, 1, length).unwrap();
        put(&store, 100 + n, 1, length).unwrap();
        for metadata in [10, 60, 500, 900, 5_000, 9_000, 30, 100_000, 0] {
            let metadata = vec![b'a' + metadata as u8 % 26; metadata];
            assert!(store.update_metadata(&key(n), &metadata, &|_| true).unwrap());
            assert_eq!(fetch(&store, n), Some((metadata, body_of(n, 1, length))), "{length}");
            assert!(matches(&store, 100 + n, 1, length), "a neighbour of {length} bytes");
        }
    }
    assert_eq!(store.usage().objects, 10);
    // An object that moved to a file because of its metadata may stay there.
    assert!(large_objects(&world, &mapped).len() <= 5);
}

fn metadata_of_another_object_is_left_alone(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    put(&store, 1, 1, 300).unwrap();
    assert!(!store.update_metadata(&key(2), b"m", &|_| true).unwrap());
    assert!(!store.update_metadata(&key(1), b"m", &|held| held == b"of another").unwrap());
    assert!(!store.update_metadata(&key(1), &[b'm'; 5_000], &|held| held == b"of another").unwrap());
    assert!(matches(&store, 1, 1, 300));
    let is_held = |held: &[u8]| held == metadata_of(1, 1, 300);
    assert!(store.update_metadata(&key(1), b"m", &is_held).unwrap());
    assert_eq!(fetch(&store, 1), Some((b"m".to_vec(), body_of(1, 1, 300))));
}

fn uncommitted_insert_is_invisible_and_leaves_nothing(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    let (before, files) = (store.usage(), world.files.files());
    for length in [0, 500, 8_000, 8_500, 100_000] {
        for announced in [None, Some(length as u64)] {
            let mut insert = store.insert(&key(1), b"m", announced).unwrap();
            insert.append(&body_of(1, 1, length)).unwrap();
            assert_eq!(fetch(&store, 1), None);
            drop(insert);
            assert_eq!((fetch(&store, 1), store.usage()), (None, before), "{length}");
            assert_eq!(world.files.files(), files, "{length}");
        }
    }
    put(&store, 1, 1, 300).unwrap();
    let mut insert = store.insert(&key(1), b"m", None).unwrap();
    insert.append(b"newer").unwrap();
    drop(insert);
    assert!(matches(&store, 1, 1, 300), "what was there stays");
}

fn body_of_unannounced_length_is_not_stored(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    for (announced, real) in [(10, 9), (10, 11), (400, 0), (5_000, 9_000), (9_000, 5_000)] {
        let mut insert = store.insert(&key(1), b"m", Some(announced)).unwrap();
        let stored = insert.append(&body_of(1, 1, real)).and_then(|()| insert.commit(None));
        assert!(stored.is_err(), "{real} for {announced}");
        assert_eq!((fetch(&store, 1), store.usage().objects), (None, 0));
    }
    let mut insert = store.insert(&key(1), b"short", Some(300)).unwrap();
    insert.append(&body_of(1, 1, 300)).unwrap();
    let metadata = vec![b'x'; 9_000];
    insert.commit(Some(&metadata)).unwrap();
    assert_eq!(fetch(&store, 1), Some((metadata, body_of(1, 1, 300))), "metadata may be another");
}

fn a_store_is_warm_after_a_kill_and_after_a_clean_end(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    let length = |n: u64| n as usize * 131 % 12_000;
    (0..200).for_each(|n| put(&store, n, n, length(n)).unwrap());
    let usage = store.usage();
    let killed = world.after_kill().open();
    assert_eq!(killed.usage(), usage);
    assert!((0..200).all(|n| matches(&killed, n, n, length(n))));
    drop(killed);
    store.close().unwrap();
    drop(store);
    let mut rebooted = world.after_kill();
    rebooted.boot += 1;
    let store = rebooted.open();
    assert_eq!(store.usage(), usage);
    assert!((0..200).all(|n| matches(&store, n, n, length(n))));
    // New objects are placed beside the others and not over them.
    (200..400).for_each(|n| put(&store, n, n, length(n)).unwrap());
    assert!((0..400).all(|n| matches(&store, n, n, length(n))));
    assert_eq!(store.usage().corrupt, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// With enough room nothing is evicted: the store is a map.
    #[test]
    fn agrees_with_a_map(seed: u64, which in 0..3_usize) {
        let world = roomy(["squidm", "squidml", "squidmla"][which]);
        let mut store = world.open();
        let mut model: HashMap<u64, (Vec<u8>, Vec<u8>)> = HashMap::new();
        let mut readers = Vec::new();
        let mut random = Random(seed);
        for version in 0..300 {
            let n = random.below(40);
            match random.below(12) {
                0..5 => {
                    let length = some_length(&mut random);
                    let put = if random.below(2) == 0 { put } else { put_announced };
                    put(&store, n, version, length).unwrap();
                    model.insert(n, (metadata_of(n, version, length), body_of(n, version, length)));
                }
                5 => {
                    let metadata = vec![b'm'; some_length(&mut random)];
                    let is_there = store.update_metadata(&key(n), &metadata, &|_| true).unwrap();
                    prop_assert_eq!(is_there, model.contains_key(&n));
                    model.entry(n).and_modify(|object| object.0 = metadata);
                }
                6 => prop_assert_eq!(store.remove(&key(n)).unwrap(), model.remove(&n).is_some()),
                7 => {
                    if let Some(stored) = store.open(&key(n)).unwrap() {
                        readers.push((stored.body, model[&n].1.clone()));
                    }
                }
                8 if random.below(4) == 0 => readers.clear(),
                9 if random.below(8) == 0 => {
                    readers.clear();
                    drop(store);
                    store = world.open();
                }
                _ => prop_assert_eq!(fetch(&store, n), model.get(&n).cloned(), "object {}", n),
            }
        }
        for (body, expected) in readers {
            prop_assert_eq!(body.read(0, usize::MAX).unwrap(), expected);
        }
        for n in 0..40 {
            prop_assert_eq!(fetch(&store, n), model.get(&n).cloned(), "object {}", n);
        }
        let usage = store.usage();
        prop_assert_eq!((usage.objects, usage.corrupt, usage.evictions), (model.len() as u64, 0, 0));
    }
}
