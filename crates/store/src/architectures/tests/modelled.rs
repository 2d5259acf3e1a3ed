//! Store on the papers' machine: transfers of an object, and agreement with the paper's order of
//! magnitude.

use super::super::{StoreEnv, open_store};
use super::*;
use crate::Store;
use crate::fs::FileSystem;
use crate::fs::ufs1999::{Kind, Machine, Report, Ufs1999};
use std::sync::Arc;

/// Returns the number of transfers of one kind and direction.
fn count(report: &Report, is_write: bool, kind: Kind) -> u64 {
    report.sum(|traffic| traffic.is_write == is_write && traffic.kind == kind).count
}

fn open(architecture: &str) -> (Arc<Ufs1999>, Arc<dyn Store>) {
    let door = Ufs1999::new(Machine::infinite());
    let World { home, settings, boot, .. } = World::new("squid", 2 << 30, 64 * 256);
    let parts = StoreEnv {
        files: door.clone(),
        index: Box::new(home),
        boot,
        lock: None,
        transient: None,
        background: false,
    };
    let store = open_store(architecture, &settings, parts).expect("the store opens");
    door.sync().expect("a model's disk does not fail");
    (door, store)
}

#[test]
fn an_object_costs_two_writes_at_once_and_a_hit_in_memory_none() {
    let (door, store) = open("squid");
    let objects = 2000;
    let before = door.report();
    (0..objects).for_each(|n| put(&*store, n, 1, 3000).unwrap());
    let written = door.report() - &before;
    assert_eq!(count(&written, true, Kind::Directory), objects);
    // One for each object, one for a directory in a new chunk of 25 entries, and those of the
    // cleaning every 30 seconds.
    let inodes = count(&written, true, Kind::Inode);
    assert!((objects + 64..objects * 3 / 2).contains(&inodes), "{inodes}");
    assert!(written.now.as_secs() < 60, "{:?}", written.now);

    door.sync().unwrap();
    let before = door.report();
    (0..objects).for_each(|n| assert!(matches(&*store, n, 1, 3000)));
    let read = door.report() - &before;
    assert_eq!(read.sum(|traffic| !traffic.is_write).count, 0);
    assert_eq!(count(&read, true, Kind::Directory), 0);

    door.sync().unwrap();
    let before = door.report();
    (0..objects).for_each(|n| assert!(store.remove(&key(n)).unwrap()));
    let removed = door.report() - &before;
    assert_eq!((count(&removed, true, Kind::Directory), count(&removed, false, Kind::Data)), (objects, 0));
    assert!(count(&removed, true, Kind::Inode) >= objects);
}

#[test]
fn a_store_behaves_on_every_architecture_and_the_same_each_time() {
    for architecture in super::super::ARCHITECTURES {
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
