//! Store on the papers' machine: transfers of an object, and agreement with the paper's order of
//! magnitude.

use crate::{BlockKind, Machine, Report, Ufs1999};
use shoal_core::{ObjectKey, Timestamp};
use shoal_store::architectures::{ARCHITECTURES, ArchitectureOptions, SegmentPolicy, SegmentSettings};
use shoal_store::architectures::{StoreEnv, open_store};
use shoal_store::fs::FileSystem;
use shoal_store::{Error, Store};
use std::sync::Arc;

/// Returns the number of transfers of one kind and direction.
fn count(report: &Report, is_write: bool, kind: BlockKind) -> u64 {
    report.sum(|traffic| traffic.is_write == is_write && traffic.kind == kind).count
}

fn open(architecture: &str) -> (Arc<Ufs1999>, Arc<dyn Store>) {
    let door = Ufs1999::new(Machine::infinite());
    let settings = ArchitectureOptions {
        disk_bytes: 2 << 30,
        max_objects: 64 * 256,
        files_per_folder: 256,
        segments: SegmentSettings {
            bytes: 64 << 20,
            policy: SegmentPolicy::Fbc { c_max: 3, a_max: 100 },
            ..SegmentSettings::default()
        },
        now: Timestamp::from_seconds(900_000_000),
        ..ArchitectureOptions::default()
    };
    let parts = StoreEnv::in_memory(door.clone());
    let store = open_store(architecture, &settings, parts).expect("the store opens");
    door.sync().expect("a model's disk does not fail");
    (door, store)
}

fn key(n: u64) -> ObjectKey {
    ObjectKey::new(format!("http://host{}.example/{n}", n % 5).into_bytes())
}

/// Returns a body that only the object's number and version determine.
fn body(n: u64, version: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (n * 31 + version * 7 + at * 13 + at / 251) as u8).collect()
}

fn put(store: &dyn Store, n: u64, version: u64, length: usize) -> Result<(), Error> {
    let mut insert = store.insert(&key(n), b"metadata", Some(length as u64))?;
    insert.append(&body(n, version, length))?;
    insert.commit(None)
}

fn matches(store: &dyn Store, n: u64, version: u64, length: usize) -> bool {
    let Some(object) = store.open(&key(n)).expect("a model's disk does not fail") else { return false };
    let mut read = Vec::new();
    while let Ok(bytes) = object.body.read(read.len() as u64, 64 << 10)
        && !bytes.is_empty()
    {
        read.extend_from_slice(&bytes);
    }
    read == body(n, version, length)
}

#[test]
fn object_costs_two_writes_and_cached_hit_none() {
    let (door, store) = open("squid");
    let objects = 2000;
    let before = door.report();
    (0..objects).for_each(|n| put(&*store, n, 1, 3000).unwrap());
    let written = door.report() - &before;
    assert_eq!(count(&written, true, BlockKind::Directory), objects);
    // One for each object, one for a directory in a new chunk of 25 entries, and those of the
    // cleaning every 30 seconds.
    let inodes = count(&written, true, BlockKind::Inode);
    assert!((objects + 64..objects * 3 / 2).contains(&inodes), "{inodes}");
    assert!(written.now.as_secs() < 60, "{:?}", written.now);

    door.sync().unwrap();
    let before = door.report();
    (0..objects).for_each(|n| assert!(matches(&*store, n, 1, 3000)));
    let read = door.report() - &before;
    assert_eq!(read.sum(|traffic| !traffic.is_write).count, 0);
    assert_eq!(count(&read, true, BlockKind::Directory), 0);

    door.sync().unwrap();
    let before = door.report();
    (0..objects).for_each(|n| assert!(store.remove(&key(n)).unwrap()));
    let removed = door.report() - &before;
    assert_eq!(
        (count(&removed, true, BlockKind::Directory), count(&removed, false, BlockKind::Data)),
        (objects, 0)
    );
    assert!(count(&removed, true, BlockKind::Inode) >= objects);
}

#[test]
fn modelled_transfers_are_repeatable_and_bounded() {
    for architecture in ARCHITECTURES {
        let report = || {
            let (door, store) = open(architecture.name);
            for n in 0..600 {
                put(&*store, n % 400, n, (n * 97 % 40_000) as usize).unwrap();
                assert!(matches(&*store, n % 400, n, (n * 97 % 40_000) as usize), "{}", architecture.name);
            }
            store.close().unwrap();
            door.report()
        };
        let once = report();
        assert_eq!(once, report());
        let each = once.file_system().count as f64 / 600.0;
        assert!((0.2..30.0).contains(&each), "{}: {each} transfers an object", architecture.name);
    }
}
