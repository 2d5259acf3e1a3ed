//! Files of another time of the volume or of another volume, and forged records.

use super::super::format::{RecordHead, RecordKind, class_of, payload_check};
use super::super::state::VolumeState;
use super::*;
use crate::architectures::seal::Seal;
use shoal_core::KeySecret;

fn bytes_of(world: &World, path: &str) -> Vec<u8> {
    let mut copy = Vec::new();
    world.files.tamper(path, |bytes| copy = bytes.clone());
    copy
}

fn fill(store: &VolumeStore, numbers: std::ops::Range<u32>, version: u32) {
    numbers.for_each(|number| put(store, number, version, 3000).unwrap());
    store.write_all();
}

/// Returns how many objects are found in this version, and none in another.
fn found(store: &VolumeStore, numbers: std::ops::Range<u32>, version: u32) -> usize {
    let versions = numbers.filter_map(|number| version_of(store, number));
    versions.inspect(|found| assert_eq!(*found, version)).count()
}

/// Keeps the index of the first version, applies `change`, and puts the index back.
fn with_older_index(is_closed: bool, change: impl Fn(&VolumeStore)) -> VolumeStore {
    let world = World::new(16 << 20);
    let store = world.open();
    fill(&store, 0..OBJECTS, 1);
    match is_closed {
        true => store.close().unwrap(),
        false => store.write_index(),
    }
    let older = bytes_of(&world, INDEX);
    drop(store);
    let store = world.open();
    change(&store);
    drop(store);
    world.files.tamper(INDEX, |bytes| *bytes = older);
    world.open()
}

#[test]
fn older_index_is_refused_after_any_close() {
    for is_closed in [true, false] {
        for laps in [0, 1, 2] {
            for ends_in_order in [true, false] {
                let store = with_older_index(is_closed, |store| {
                    fill(store, 0..OBJECTS, 2);
                    // Other objects go through the log.
                    let mut number = OBJECTS;
                    while store.volume.writer.lock().sequence < laps * 150 {
                        put(store, number, 2, 60_000).unwrap();
                        number += 1;
                    }
                    store.write_all();
                    if ends_in_order {
                        store.close().unwrap();
                    }
                });
                let left = found(&store, 0..OBJECTS, 2);
                let case = format!("closed {is_closed}, {laps} laps, in order {ends_in_order}");
                assert!(laps > 0 || left == OBJECTS as usize, "{case}: {left} are found");
            }
        }
    }
}

/// Also applies to an index of the killed process itself, if the log has passed the end of that
/// index.
#[test]
fn an_index_that_is_older_than_a_lap_is_made_anew() {
    let world = World::new(16 << 20);
    let store = world.open();
    let mut number = 0;
    let mut put_until = |sequence: u64| {
        while store.volume.writer.lock().sequence < sequence {
            put(&store, number, 1, 30_000).unwrap();
            number += 1;
        }
        store.write_all();
        number
    };
    put_until(20);
    store.write_index();
    let older = bytes_of(&world, INDEX);
    let count = put_until(90);
    let all = found(&store, 0..count, 1);
    drop(store);
    world.files.tamper(INDEX, |bytes| *bytes = older);
    let left = found(&world.open(), 0..count, 1);
    assert!(left + 30 >= all, "{left} of {all} are found");
}

#[test]
fn an_index_of_another_volume_is_none() {
    let (world, other) = (World::new(16 << 20), World::new(16 << 20));
    for (world, version, seconds) in [(&world, 2, 5), (&other, 1, 6)] {
        let mut world = world.same();
        world.settings.now = Timestamp::from_seconds(seconds);
        let store = world.open();
        fill(&store, 0..OBJECTS, version);
        store.close().unwrap();
    }
    let foreign = bytes_of(&other, INDEX);
    world.files.tamper(INDEX, |bytes| *bytes = foreign);
    assert_eq!(found(&world.open(), 0..OBJECTS, 2), OBJECTS as usize);
}

#[test]
fn damaged_state_loses_no_object() {
    let world = World::new(16 << 20);
    for version in 1..3 {
        let store = world.open();
        fill(&store, 0..OBJECTS, version);
        store.close().unwrap();
    }
    for places in [&[8192][..], &[12_288], &[8192, 12_288]] {
        let copy = bytes_of(&world, DATA);
        world.files.tamper(DATA, |bytes| places.iter().for_each(|at| bytes[at + 30] ^= 1));
        assert_eq!(found(&world.open(), 0..OBJECTS, 2), OBJECTS as usize, "{places:?}");
        world.files.tamper(DATA, |bytes| *bytes = copy);
    }
}

/// Puts a record for another key into a stored body, as its origin could with the `seal`, and makes
/// the index lead to it.
fn forge(store: &VolumeStore, version: u8, seal: Seal) -> Option<u32> {
    let volume = &store.volume;
    put(store, 1, 1, 30_000).unwrap();
    store.write_all();
    let entry = volume.directory.table.candidates(key(1).hash()).next().expect("it was entered");
    let stripe_at = |position: u64| position.next_multiple_of(64);
    let position = stripe_at(entry.position() + 4096);
    let body = body_of(2, 666, 1000);
    let metadata = metadata_of(666, 1000);
    let head = RecordHead {
        kind: RecordKind::Whole,
        key: key(2).hash(),
        position,
        id: 7,
        body_bytes: body.len() as u64,
        key_bytes: key(2).full().len() as u32,
        metadata_bytes: metadata.len() as u32,
        room: metadata.len() as u32,
        index: 0,
        sequence: u64::MAX / 2,
        check: payload_check(7, 0, &body),
    };
    let mut record = vec![0; head.payload_at()];
    head.encode(seal, key(2).full(), &metadata, &mut record);
    if version == 1 {
        record[4] = 1;
        let unsealed = head.unsealed_check(&record);
        record[80..88].copy_from_slice(&unsealed.to_le_bytes());
    }
    record.extend_from_slice(&body);
    let page = position / 4096 * 4096;
    let mut pages = vec![0; 64 << 10];
    volume.file.data.read_at(&mut pages, page).expect("it is there");
    let at = (position - page) as usize;
    pages[at..at + record.len()].copy_from_slice(&record);
    crate::fs::write_full(&*volume.file.data, &pages, page).expect("it is taken");
    volume.reader.windows.forget(page..page + (64 << 10));
    volume.directory.table.put(key(2).hash(), position, class_of(record.len() as u64), 0);
    version_of(store, 2)
}

#[test]
fn a_record_that_somebody_else_made_is_a_miss() {
    let sealed_by = |bytes: [u8; 16]| Seal::new(KeySecret::new(bytes));
    for version in [1, 2] {
        let store = World::new(16 << 20).open();
        assert_eq!(forge(&store, version, sealed_by([7; 16])), None, "version {version}");
    }
    // The forgery passes if its maker knows the secret.
    let store = World::new(16 << 20).open();
    assert_eq!(forge(&store, 2, store.volume.file.seal), Some(666));
}

/// Converts the files to an earlier version's: records without a seal, an index without a
/// generation, and no state.
fn as_earlier_version(world: &World, store: &VolumeStore) {
    let volume = &store.volume;
    for entry in volume.directory.table.entries().collect::<Vec<_>>() {
        world.files.tamper(DATA, |bytes| {
            let record = &mut bytes[entry.position() as usize..];
            let head = volume.reader.decode_head(record, entry.position()).expect("sound");
            record[4] = 1;
            let unsealed = head.unsealed_check(record);
            record[80..88].copy_from_slice(&unsealed.to_le_bytes());
        });
    }
    world.files.tamper(DATA, |bytes| bytes[8192..16_384].fill(0));
    world.files.tamper(INDEX, |bytes| {
        for page in bytes[..8192].chunks_mut(4096).filter(|page| page.starts_with(b"SHOALix4")) {
            page[..8].copy_from_slice(b"SHOALix2");
            let check = xxhash_rust::xxh3::xxh3_64(&page[..88]);
            page[88..96].copy_from_slice(&check.to_le_bytes());
            page[96..].fill(0);
        }
    });
}

#[test]
fn earlier_volume_is_served_and_continues_sealed() {
    for is_closed in [true, false] {
        let world = World::new(16 << 20);
        let store = world.open();
        fill(&store, 0..OBJECTS, 1);
        match is_closed {
            true => store.close().unwrap(),
            false => store.write_index(),
        }
        as_earlier_version(&world, &store);
        drop(store);
        for round in 0..3 {
            let store = world.open();
            assert_eq!(found(&store, 0..OBJECTS, 1), OBJECTS as usize, "closed {is_closed}, round {round}");
            fill(&store, 1000..1000 + 50 * (round + 1), 1);
            assert_eq!(found(&store, 1000..1200, 1), 50 * (round as usize + 1));
            let is_forged = forge_unsealed_beside(&store, 1000 + 50 * round);
            assert_eq!(is_forged, None, "in what was written since");
            store.close().unwrap();
        }
    }
}

/// Writes a record without a seal over a new object's own.
fn forge_unsealed_beside(store: &VolumeStore, number: u32) -> Option<u32> {
    let volume = &store.volume;
    let entry = volume.directory.table.candidates(key(number).hash()).next().expect("it was entered");
    let page = entry.position() / 4096 * 4096;
    let mut pages = vec![0; 8192];
    volume.file.data.read_at(&mut pages, page).expect("it is there");
    let record = &mut pages[(entry.position() - page) as usize..];
    let head = volume.reader.decode_head(record, entry.position()).expect("sound");
    record[4] = 1;
    let unsealed = head.unsealed_check(record);
    record[80..88].copy_from_slice(&unsealed.to_le_bytes());
    crate::fs::write_full(&*volume.file.data, &pages, page).expect("it is taken");
    volume.reader.windows.forget(page..page + 8192);
    let found = version_of(store, number);
    put(store, number, 1, 3000).unwrap();
    store.write_all();
    found
}

#[test]
fn the_state_is_whole_or_the_one_before_at_each_crash() {
    let world = World::new(16 << 20);
    let store = world.open();
    fill(&store, 0..OBJECTS, 1);
    let state =
        |world: &World| VolumeState::latest(&bytes_of(world, DATA)[8192..16_384], store.volume.geometry.id);
    let first = state(&world);
    store.close().unwrap();
    fill(&store, 0..10, 1);
    assert_eq!(
        state(&world).generation,
        first.generation + 1,
        "a generation ends with what is written after a close"
    );
    for seed in 0..40 {
        let left = world.after_power_loss(seed);
        let generation = state(&left).generation;
        assert!([first.generation, first.generation + 1].contains(&generation), "{generation}");
        assert_eq!(found(&left.open(), 10..OBJECTS, 1), OBJECTS as usize - 10);
    }
}

const OBJECTS: u32 = 500;
