//! Volumes as disks of a store: a removal also reaches a disk that still follows its log after a
//! crash.

use super::*;
use crate::disks::{DiskOpener, DiskSpec, Disks};
use crate::fs::{CrashPoint, Faults, FaultyFs};
use crate::{PromptStore, StoreView};
use bytes::Bytes;
use parking_lot::Mutex;

/// Disk with a store that finds the end of its log only on request.
struct Follower {
    world: World,
    /// Crash point; after it all calls to this disk fail.
    crash: Arc<Mutex<Arc<CrashPoint>>>,
    opened: Arc<Mutex<Option<Arc<Volume>>>>,
}

impl Follower {
    /// Makes a volume after a kill, with objects 0 to 49 in the log and none of them in the index.
    fn new() -> Self {
        let world = World::new(16 << 20);
        let store = world.open();
        (0..50).for_each(|number| put(&store, number, 1, 9000).unwrap());
        store.write_all();
        Self { world, crash: Arc::new(Mutex::new(CrashPoint::never())), opened: Arc::default() }
    }

    fn share(&self, path: &str) -> (DiskSpec, DiskOpener) {
        let world = self.world.same();
        let (crash, opened) = (Arc::clone(&self.crash), Arc::clone(&self.opened));
        let opener: DiskOpener = Arc::new(move || {
            let faults = Faults::new(1).crash_at(Arc::clone(&crash.lock()));
            let door = Arc::new(FaultyFs::new(world.files.clone(), faults));
            let store = world.try_open_unrecovered(door)?;
            *opened.lock() = Some(Arc::clone(&store.volume));
            Ok(Arc::new(store) as Arc<dyn Store>)
        });
        (DiskSpec { path: path.into(), bytes: 16 << 20 }, opener)
    }

    /// Follows the log to its end.
    fn follow(&self) {
        self.opened.lock().as_ref().expect("it was opened").recover();
    }
}

#[test]
fn removal_before_recovery_hides_logged_object() {
    let disk = Follower::new();
    let disks = Disks::open([disk.share("a")]);
    for number in 0..10 {
        disks.remove(&key(number)).unwrap();
    }
    disk.follow();
    for number in 0..50 {
        assert_eq!(version_of(&disks, number).is_none(), number < 10, "{number}");
    }
}

#[test]
fn object_moved_to_other_disk_is_not_recovered() {
    let (first, second) = (Follower::new(), Follower::new());
    let disks = Disks::open([first.share("a"), second.share("b")]);
    second.follow();
    let late = Bytes::from_static(b"late");
    for number in 0..50 {
        match disks.disk_index(key(number).hash()) {
            1 if number % 2 == 0 => put(&disks, number, 2, 5000).unwrap(),
            1 => {
                let offered = disks.try_insert(&key(number), b"meta", &late, &|| true).unwrap();
                assert_eq!(offered, crate::TryInsert::WouldBlock, "the first disk may have an older one");
            }
            _ => {}
        }
    }
    first.follow();
    let home: Vec<usize> = (0..50).map(|number| disks.disk_index(key(number).hash())).collect();
    disks.take_offline("b").unwrap();
    let older = |number: &u32| home[*number as usize] == 1 && number.is_multiple_of(2);
    for number in (0..50).filter(older) {
        assert_eq!(version_of(&disks, number), None, "{number} has been replaced");
    }
}

#[test]
fn returning_disk_drops_removed_objects_of_its_log() {
    let (first, second) = (Follower::new(), Follower::new());
    first.crash.lock().come();
    let disks = Disks::open([first.share("a"), second.share("b")]);
    second.follow();
    for number in 0..50 {
        disks.remove(&key(number)).unwrap();
    }
    *first.crash.lock() = CrashPoint::never();
    assert!(disks.bring_online("a").unwrap());
    first.follow();
    for number in 0..50 {
        assert_eq!(version_of(&disks, number), None, "{number}");
    }
}

#[test]
fn disk_with_unread_log_does_not_count_as_empty() {
    let (first, second) = (Follower::new(), Follower::new());
    first.crash.lock().come();
    let disks = Disks::open([first.share("a"), second.share("b")]);
    second.follow();
    for number in 0..200_u32 {
        let long = [&number.to_le_bytes()[..], &[b'x'; 60_000]].concat();
        disks.remove(&ObjectKey::new(long)).unwrap();
    }
    disks.remove(&key(1)).unwrap();
    *first.crash.lock() = CrashPoint::never();
    assert!(disks.bring_online("a").is_err(), "what was removed is not remembered");
}

/// The record could not be marked, and the log's line with the removal was lost with the queue.
#[test]
fn removal_on_failing_disk_lasts_after_its_return() {
    let disk = Follower::new();
    let disks = Disks::open([disk.share("a")]);
    disk.follow();
    disk.crash.lock().come();
    (0..10).for_each(|number| drop(disks.remove(&key(number))));
    while disks.states()[0].service.name() == "in_service" {
        (10..50).for_each(|number| drop(disks.open(&key(number))));
    }
    *disk.crash.lock() = CrashPoint::never();
    assert!(disks.bring_online("a").unwrap());
    disk.follow();
    for number in 0..10 {
        assert_eq!(version_of(&disks, number), None, "{number}");
    }
}
