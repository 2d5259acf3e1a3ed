//! Calls that the proxy makes to a store.

use super::*;
use crate::StoreView;

#[test]
fn objects_are_found_before_and_after_write() {
    let world = World::new(8 << 20);
    let store = world.open();
    for (number, length) in [0, 1, 100, 65_536, 65_537, 131_072, 300_000].into_iter().enumerate() {
        let number = number as u32;
        put(&store, number, 1, length).unwrap();
        assert_eq!(version_of(&store, number), Some(1), "{length} bytes, waiting");
        store.write_all();
        assert_eq!(version_of(&store, number), Some(1), "{length} bytes, written");
    }
    assert_eq!(store.usage().objects, 7);
    assert_eq!(version_of(&store, 7), None);
    store.close().unwrap();
    drop(store);
    let store = world.open();
    for number in 0..7 {
        assert_eq!(version_of(&store, number), Some(1), "object {number} after a restart");
    }
    assert_eq!(store.usage().corrupt, 0);
}

#[test]
fn a_read_begins_where_its_object_is_said_to_be() {
    let world = World::new(8 << 20);
    let store = world.open();
    let lengths = [(0, 3000), (1, 700), (2, 200_000), (3, 5000)];
    for (number, length) in lengths {
        put(&store, number, 1, length).unwrap();
        assert_eq!(store.position(&key(number)), None, "it waits and is nowhere");
    }
    store.write_all();
    let mut places: Vec<u64> =
        lengths.iter().map(|(number, _)| store.position(&key(*number)).expect("on the disk")).collect();
    let large = store.open(&key(2)).unwrap().expect("it is there").body;
    places.extend([0, 70_000, 140_000].map(|offset| large.position(offset).expect("a piece's place")));
    assert!(places.iter().all(|place| *place < 8 << 20), "{places:?}");
    places.sort_unstable();
    assert!(places.windows(2).all(|two| two[0] < two[1]), "each has a place of its own: {places:?}");
    assert_eq!((store.position(&key(9)), large.position(1 << 30)), (None, None));
}

#[test]
fn the_newest_version_is_served() {
    let world = World::new(8 << 20);
    let store = world.open();
    for version in 1..20 {
        put(&store, 1, version, 5000).unwrap();
        if version % 3 == 0 {
            store.write_all();
        }
        assert_eq!(version_of(&store, 1), Some(version));
    }
    store.write_all();
    assert_eq!((version_of(&store, 1), store.usage().objects), (Some(19), 1));
}

#[test]
fn removed_object_is_gone_for_good() {
    let world = World::new(8 << 20);
    let store = world.open();
    put(&store, 1, 1, 5000).unwrap();
    put(&store, 2, 1, 200_000).unwrap();
    put(&store, 3, 1, 700).unwrap();
    store.write_all();
    put(&store, 4, 1, 700).unwrap();
    for number in [1, 2, 4] {
        assert!(store.remove(&key(number)).unwrap());
        assert!(!store.remove(&key(number)).unwrap());
        assert_eq!(version_of(&store, number), None);
    }
    store.write_all();
    // Without an orderly close: the index on disk knows none of these objects.
    drop(store);
    let store = world.open();
    assert_eq!([1, 2, 3, 4].map(|number| version_of(&store, number)), [None, None, Some(1), None]);
}

#[test]
fn bodies_that_are_open_stay_readable() {
    let world = World::new(8 << 20);
    let store = world.open();
    put(&store, 1, 1, 300_000).unwrap();
    store.write_all();
    let stored = store.open(&key(1)).unwrap().expect("it is there");
    store.remove(&key(1)).unwrap();
    for number in 10..400 {
        put(&store, number, 1, 30_000).unwrap();
    }
    store.write_all();
    let body = body_of(1, 1, 300_000);
    for offset in [0, 65_536, 299_999, 100_000] {
        let read = stored.body.read(offset as u64, 1000).expect("its stripes are kept");
        assert!(body[offset..].starts_with(&read) && !read.is_empty());
    }
}

#[test]
fn body_is_readable_while_growing_and_after_drop() {
    let world = World::new(8 << 20);
    let store = world.open();
    let body = body_of(1, 1, 400_000);
    let mut insert = store.insert(&key(1), b"m", None).unwrap();
    let view = insert.body();
    assert!(view.read(0, 10).unwrap().is_empty());
    for (count, part) in body.chunks(7000).enumerate() {
        insert.append(part).unwrap();
        let length = ((count + 1) * 7000).min(body.len());
        assert_eq!(view.length(), length as u64);
        let offset = length.saturating_sub(100_000);
        let read = view.read(offset as u64, 100_000).unwrap();
        assert!(body[offset..length].starts_with(&read) && !read.is_empty());
        if count % 10 == 0 {
            store.write_all();
        }
    }
    assert_eq!(version_of_bytes(&store), None, "nothing is visible before it is complete");
    drop(insert);
    store.write_all();
    let read = view.read(200_000, 1000).unwrap();
    assert!(body[200_000..].starts_with(&read) && !read.is_empty());
    assert_eq!(store.usage().objects, 0);
}

fn version_of_bytes(store: &VolumeStore) -> Option<usize> {
    store.open(&key(1)).unwrap().map(|stored| stored.metadata.len())
}

#[test]
fn metadata_update_in_queue_in_place_or_by_rewrite() {
    let world = World::new(8 << 20);
    let store = world.open();
    let accept = |_: &[u8]| true;
    let found = |store: &VolumeStore, number| {
        let stored = store.open(&key(number)).unwrap().expect("it is there");
        let body = stored.body.read(0, 100_000).unwrap();
        assert!(body_of(number, 1, 9000).starts_with(&body) && body.len() == 9000);
        String::from_utf8(stored.metadata.to_vec()).unwrap()
    };
    for (number, is_written) in [(1, false), (2, true)] {
        put(&store, number, 1, 9000).unwrap();
        if is_written {
            store.write_all();
        }
        assert!(store.update_metadata(&key(number), b"version 1 length 9001", &accept).unwrap());
        assert_eq!(found(&store, number), "version 1 length 9001");
        let longer = "x".repeat(500);
        assert!(store.update_metadata(&key(number), longer.as_bytes(), &accept).unwrap());
        assert_eq!(found(&store, number), longer);
        assert!(!store.update_metadata(&key(number), b"never", &|old| old.is_empty()).unwrap());
        assert_eq!(found(&store, number), longer);
    }
    assert!(!store.update_metadata(&key(3), b"absent", &accept).unwrap());
    store.write_all();
    drop(store);
    let store = world.open();
    assert_eq!(found(&store, 1), "x".repeat(500));
    assert_eq!(store.usage().corrupt, 0);
}

/// Neither a hit in RAM nor a validation is a reason to keep an object on disk.
#[test]
fn new_metadata_is_no_hit() {
    let world = World::new(8 << 20);
    let store = world.open();
    put(&store, 1, 1, 9000).unwrap();
    store.write_all();
    let hits = || store.volume.directory.table.candidates(key(1).hash()).next().expect("an entry").hits();
    assert!(store.update_metadata(&key(1), b"version 1 length 9000 ", &|_| true).unwrap());
    assert_eq!(hits(), 0);
    assert_eq!((version_of(&store, 1), hits()), (Some(1), 1));
}

/// Nothing is written before its time, and while the log's end is unknown nothing could be.
#[test]
fn queued_object_stays_queued_with_longer_metadata() {
    let world = World::new(8 << 20);
    let store = world.try_open_unrecovered(world.files.clone()).unwrap();
    let longer = [metadata_of(1, 9000), vec![b' '; 500]].concat();
    for is_recovered in [false, true] {
        put(&store, 1, 1, 9000).unwrap();
        let sequence = store.volume.writer.lock().sequence;
        assert!(store.update_metadata(&key(1), &longer, &|_| true).unwrap());
        assert_eq!(store.volume.writer.lock().sequence, sequence, "nothing was written");
        assert_eq!(store.usage().objects, 1);
        assert_eq!(store.volume.queue.lock().objects(), 1);
        store.volume.recover();
        store.write_all();
        let stored = store.open(&key(1)).unwrap().expect("it is there");
        assert_eq!(stored.metadata, longer, "{is_recovered}");
        assert_eq!((version_of(&store, 1), store.usage().objects), (Some(1), 1));
        store.remove(&key(1)).unwrap();
    }
}

#[test]
fn too_large_object_is_declined() {
    let world = World::new(8 << 20);
    let store = world.open();
    let most = store.object_max_bytes();
    assert!(store.insert(&key(1), b"", Some(most)).is_ok());
    let outcome = store.insert(&key(1), b"", Some(most + 1)).err();
    assert!(matches!(outcome, Some(Error::Declined(crate::InsertRefusal::TooLarge))));
    let outcome = store.insert(&key(1), &vec![0; 200_000], Some(1)).err();
    assert!(matches!(outcome, Some(Error::Declined(crate::InsertRefusal::TooLarge))));
    let mut insert = store.insert(&key(1), b"", None).unwrap();
    let outcome = (0..10_000).try_for_each(|_| insert.append(&[0; 10_000]));
    assert!(matches!(outcome, Err(Error::Declined(crate::InsertRefusal::TooLarge))));
}

#[test]
fn newcomers_to_a_full_volume_are_on_probation() {
    let mut world = World::new(4 << 20);
    world.settings.volume.admission = Admission::Probation;
    let store = world.open();
    let mut number = 0;
    while !store.volume.directory.is_full() {
        put(&store, number, 1, 20_000).expect("there is unused space");
        number += 1;
    }
    let outcome = put(&store, 1_000_000, 1, 20_000);
    assert!(matches!(outcome, Err(Error::Declined(crate::InsertRefusal::OnProbation))));
    put(&store, 1_000_000, 1, 20_000).expect("the second time it is wanted");
    assert_eq!(version_of(&store, 1_000_000), Some(1));
    put(&store, 1_000_000, 2, 20_000).expect("what is stored may be replaced");
    assert_eq!(version_of(&store, 1_000_000), Some(2));
}

#[test]
fn store_of_other_architecture_is_left_alone() {
    let world = World::new(8 << 20);
    world.open().close().unwrap();
    let parts = || {
        let files: Arc<dyn FileSystem> = world.files.clone();
        StoreEnv {
            files,
            index: Box::new(MemoryHome::default()),
            boot: 7,
            lock: None,
            transient: None,
            background: true,
        }
    };
    let before = world.files.files();
    let outcome = crate::architectures::open_store("squid", &world.settings, parts());
    assert!(outcome.is_err_and(|error| error.to_string().contains("volume")));
    assert_eq!(world.files.files(), before);
    assert_eq!(before, ["architecture", DATA, INDEX]);
}

#[test]
fn volume_of_other_size_is_refused_with_advice() {
    let mut world = World::new(8 << 20);
    let store = world.open();
    put(&store, 1, 1, 5000).unwrap();
    store.close().unwrap();
    drop(store);
    world.settings.disk_bytes = 1 << 20;
    let outcome = world.try_open(world.files.clone()).err().expect("it does not fit");
    assert!(outcome.to_string().contains("raise the limit"), "{outcome}");
    world.settings.disk_bytes = 64 << 20;
    assert_eq!(version_of(&world.open(), 1), Some(1), "a larger limit costs no object");
    world.files.tamper(DATA, |bytes| bytes.truncate(1 << 20));
    let outcome = world.try_open(world.files.clone()).err().expect("it is cut off");
    assert!(outcome.to_string().contains("cut off"), "{outcome}");
}

#[test]
fn volume_of_other_version_is_refused_with_advice() {
    let world = World::new(8 << 20);
    drop(world.open());
    world.files.tamper(DATA, |bytes| [8, 4096 + 8].into_iter().for_each(|at: usize| bytes[at] += 1));
    let outcome = world.try_open(world.files.clone()).err().expect("nobody knows what is in it").to_string();
    assert!(outcome.contains("of another version; remove it"), "{outcome}");
}

/// A stream of unsafe requests while the disk takes nothing: here the log's end has not been found.
#[test]
fn queued_removals_are_bounded_and_unique() {
    let world = World::new(8 << 20);
    drop(world.open());
    let store = world.try_open_unrecovered(world.files.clone()).unwrap();
    let bytes = || store.volume.queue.lock().bytes();
    for _ in 0..100 {
        store.remove(&key(1)).unwrap();
    }
    assert_eq!(bytes(), 32, "one line says it all");
    put(&store, 1, 1, 500).unwrap();
    store.remove(&key(1)).unwrap();
    assert!(bytes() >= 500 + 3 * 32, "what came behind it has a line of its own");
    let limit_bytes = 2 * super::super::writer::QUEUED_STRIPES * store.volume.geometry.stripe_bytes;
    assert!(!store.volume.directory.is_recovered.load(Relaxed));
    for number in 0..100_000 {
        store.remove(&key(number)).unwrap();
        assert!(bytes() <= limit_bytes, "{} bytes wait", bytes());
    }
    assert!(
        store.volume.directory.is_recovered.load(Relaxed),
        "who found so much waiting has looked for the log's end"
    );
    assert!(store.volume.removed_early.lock().is_empty());
}

/// People look at a node that serves clients.
#[test]
fn peek_finds_and_counts_nothing() {
    let world = World::new(8 << 20);
    let store = world.open();
    for (number, length) in [(1, 700), (2, 300_000)] {
        put(&store, number, 1, length).unwrap();
    }
    let hits = |number| {
        let entries = store.volume.directory.table.candidates(key(number).hash());
        entries.map(|entry| entry.hits()).collect::<Vec<_>>()
    };
    for is_written in [false, true] {
        if is_written {
            store.write_all();
        }
        let before = (store.usage(), hits(1), hits(2));
        for (number, length) in [(1, 700), (2, 300_000)] {
            let found = crate::Peek::peek(&store, &key(number)).unwrap().expect("it is there");
            assert_eq!((found.metadata.to_vec(), found.body_bytes), (metadata_of(1, length), length as u64));
        }
        assert_eq!(crate::Peek::peek(&store, &key(3)).unwrap(), None);
        assert_eq!((store.usage(), hits(1), hits(2)), before);
    }
    assert_eq!(version_of(&store, 1), Some(1));
    assert_eq!(hits(1), [1], "a real look counts");
}
