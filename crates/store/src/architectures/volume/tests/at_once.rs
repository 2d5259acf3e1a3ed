//! Calls without the device: they make no call to the disk, and have the result of the calls that
//! may wait.

use super::*;
use crate::TryInsert;
use crate::fs::CountingFs;
use crate::{PromptStore, StoreUpkeep};
use bytes::Bytes;
use std::collections::HashMap;

fn offer(store: &VolumeStore, number: u32, version: u32, length: usize) -> Result<TryInsert, Error> {
    let body = Bytes::from(body_of(number, version, length));
    store.try_insert(&key(number), &metadata_of(version, length), &body, &|| true)
}

/// Returns the version that is found without the device.
fn at_hand(store: &VolumeStore, number: u32) -> Option<u32> {
    let stored = store.try_open(&key(number))?;
    let length = stored.body.length() as usize;
    let body = stored.body.read(0, length).expect("it is at hand");
    let version = (0..100).find(|version| *stored.metadata == metadata_of(*version, length));
    let version = version.expect("metadata as it was written");
    assert!(body == body_of(number, version, length), "object {number} has another's bytes");
    Some(version)
}

#[test]
fn queued_and_windowed_objects_need_no_call() {
    let world = World::new(16 << 20);
    let counted = Arc::new(CountingFs::new(world.files.clone()));
    let store = world.try_open(counted.clone()).unwrap();
    counted.take();
    for number in 0..100 {
        assert_eq!(offer(&store, number, 1, 1500).unwrap(), TryInsert::Inserted);
        assert_eq!((at_hand(&store, number), version_of(&store, number)), (Some(1), Some(1)));
    }
    let calls = counted.take();
    assert_eq!((calls.reads, calls.writes), (0, 0), "{calls:?}");
    store.write_all();
    assert!((0..100).all(|number| at_hand(&store, number).is_none()), "they are on the disk only");
    let mut from_windows = 0;
    for number in 0..100 {
        counted.take();
        if at_hand(&store, number) == Some(1) {
            from_windows += 1;
            assert_eq!(counted.take().reads, 0);
        } else {
            assert_eq!(version_of(&store, number), Some(1));
        }
    }
    assert!(from_windows >= 80, "{from_windows} of 100 that were missed one after the other");
    assert_eq!(at_hand(&store, 1000), None);
}

#[test]
fn body_from_window_can_be_detached() {
    let world = World::new(16 << 20);
    let store = world.open();
    offer(&store, 1, 1, 1500).unwrap();
    let waiting = store.open(&key(1)).unwrap().expect("it waits to be written");
    assert!(waiting.body.detached().is_none(), "it keeps nothing else in memory");
    store.write_all();
    let read = store.open(&key(1)).unwrap().expect("it is on the disk");
    let alone = read.body.detached().expect("it was read with what stands around it");
    assert_eq!((alone.length(), alone.read(0, 2000).unwrap()), (1500, read.body.read(0, 2000).unwrap()));
    assert!(alone.detached().is_none());
}

#[test]
fn try_insert_reports_due_once_then_would_block() {
    let world = World::new(16 << 20);
    let store = world.open();
    let mut answers = HashMap::new();
    let mut number = 0;
    loop {
        let answer = offer(&store, number, 1, 10_000).unwrap();
        *answers.entry(format!("{answer:?}")).or_insert(0) += 1;
        if answer == TryInsert::WouldBlock {
            break;
        }
        number += 1;
        assert!(number < 1000, "the queue has an end");
    }
    assert_eq!(answers["InsertedFlushDue"], 1);
    assert_eq!(version_of(&store, number), None, "nothing has been done");
    store.flush_due(key(0).hash()).unwrap();
    assert_ne!(offer(&store, number, 1, 10_000).unwrap(), TryInsert::WouldBlock, "there is room again");
    assert!((0..=number).all(|number| version_of(&store, number) == Some(1)));
}

#[test]
fn invalidated_insert_is_removed_for_good() {
    let world = World::new(16 << 20);
    let store = world.open();
    put(&store, 1, 1, 3000).unwrap();
    store.write_all();
    let body = Bytes::from(body_of(1, 2, 3000));
    let seen = std::cell::Cell::new(None);
    let still = || {
        seen.set(version_of(&store, 1));
        false
    };
    store.try_insert(&key(1), &metadata_of(2, 3000), &body, &still).unwrap();
    assert_eq!(seen.get(), Some(2), "it is asked for what can be seen");
    assert_eq!(version_of(&store, 1), None, "nor does the older one come back");
    store.write_all();
    drop(store);
    assert_eq!(version_of(&world.open(), 1), None);
}

#[test]
fn large_body_or_lone_store_would_block() {
    let world = World::new(16 << 20);
    let store = world.open();
    assert_eq!(offer(&store, 1, 1, 65_536).unwrap(), TryInsert::Inserted);
    assert_eq!(offer(&store, 2, 1, 65_537).unwrap(), TryInsert::WouldBlock);
    put(&store, 2, 1, 100_000).unwrap();
    assert_eq!((at_hand(&store, 2), version_of(&store, 2)), (None, Some(1)), "its pieces may be on the disk");
    let store = super::super::open("volume", &world.settings, alone()).unwrap();
    assert_eq!(offer(&store, 1, 1, 100).unwrap(), TryInsert::WouldBlock);
}

fn alone() -> StoreEnv {
    let files = Arc::new(MemoryFs::new(1 << 40));
    StoreEnv {
        files,
        index: Box::new(MemoryHome::default()),
        boot: 7,
        lock: None,
        transient: None,
        background: false,
    }
}

#[test]
fn probation_is_the_same() {
    let mut world = World::new(4 << 20);
    world.settings.volume.admission = Admission::Probation;
    let store = world.open();
    let mut number = 0;
    while !store.volume.directory.is_full() {
        put(&store, number, 1, 10_000).unwrap();
        number += 1;
    }
    store.write_all();
    let declined = |answer| matches!(answer, Err(Error::Declined(crate::InsertRefusal::OnProbation)));
    assert!(declined(offer(&store, 5000, 1, 10_000)));
    assert_eq!(version_of(&store, 5000), None);
    assert_eq!(offer(&store, 5000, 1, 10_000).unwrap(), TryInsert::Inserted, "asked for again");
    assert_eq!(version_of(&store, 5000), Some(1));
}

/// Runs random calls of both kinds, against a map of the latest versions.
#[test]
fn both_ways_mixed_give_the_latest_or_nothing() {
    let mut random = Random(11);
    let world = World::new(6 << 20);
    let mut store = world.open();
    let mut latest: HashMap<u32, u32> = HashMap::new();
    let mut found = 0;
    for turn in 0..20_000_u32 {
        let number = random.below(400) as u32;
        match random.below(20) {
            0..6 => {
                let (version, length) = (turn % 100, random.length());
                if matches!(offer(&store, number, version, length).unwrap(), TryInsert::WouldBlock) {
                    put(&store, number, version, length).unwrap();
                }
                latest.insert(number, version);
            }
            6..8 => {
                let (version, length) = (turn % 100, random.length());
                put(&store, number, version, length).unwrap();
                latest.insert(number, version);
            }
            8 => {
                store.remove(&key(number)).unwrap();
                latest.remove(&number);
            }
            9 if random.below(40) == 0 => store.write_all(),
            9 if random.below(200) == 0 => {
                store.close().unwrap();
                drop(store);
                store = world.open();
            }
            10..15 => {
                if let Some(version) = at_hand(&store, number) {
                    assert_eq!(latest.get(&number), Some(&version), "turn {turn}");
                    found += 1;
                }
            }
            _ => {
                if let Some(version) = version_of(&store, number) {
                    assert_eq!(latest.get(&number), Some(&version), "turn {turn}");
                    found += 1;
                }
            }
        }
    }
    assert!(found > 5000, "{found} hits");
}

/// A stripe is not read before its first write.
#[test]
fn a_new_volume_is_filled_without_reading() {
    let world = World::new(8 << 20);
    let counted = Arc::new(CountingFs::new(world.files.clone()));
    let store = world.try_open(counted.clone()).unwrap();
    counted.take();
    let mut number = 0;
    while store.volume.directory.written_stripes.load(Relaxed) < 20 {
        put(&store, number, 1, 10_000).unwrap();
        number += 1;
    }
    assert_eq!(counted.take().reads, 0);
}
