//! Lookups before the log has been followed: they serve only objects that the log cannot overrule.

use super::super::changed::ChangedKeys;
use super::super::checkpoint::CheckpointHeader;
use super::scripted::{Fate, Kind, Scripted};
use super::*;
use crate::PromptStore;
use shoal_core::Key;

impl World {
    /// Returns the version that a newly started process finds without following the log, and
    /// whether it followed the log.
    fn found_at_once(&self, number: u32) -> (Option<u32>, bool) {
        let store = self.try_open_unrecovered(self.files.clone()).unwrap();
        (version_of(&store, number), store.volume.directory.is_followed.load(Relaxed))
    }
}

/// Objects 0 to 99 are in the index. Since then, 0 to 19 are replaced, 20 to 29 removed, and 100 to
/// 149 are new.
fn changed_since() -> World {
    let world = World::new(24 << 20);
    let store = world.open();
    (0..100).for_each(|number| put(&store, number, 1, 5000).unwrap());
    store.write_all();
    store.write_index();
    (0..20).for_each(|number| put(&store, number, 2, 5000).unwrap());
    (100..150).for_each(|number| put(&store, number, 1, 5000).unwrap());
    store.write_all();
    (20..30).for_each(|number| assert!(store.remove(&key(number)).unwrap()));
    world
}

fn expected(number: u32) -> Option<u32> {
    match number {
        0..20 => Some(2),
        20..30 => None,
        _ => Some(1),
    }
}

#[test]
fn unchanged_objects_are_served_before_recovery() {
    let world = changed_since();
    for number in 0..150 {
        let (found, is_followed) = world.found_at_once(number);
        assert_eq!((number, found), (number, expected(number)));
        assert_eq!(is_followed, !(30..100).contains(&number), "{number}");
    }
    let store = world.try_open_unrecovered(world.files.clone()).unwrap();
    let at_hand = |number| store.try_open(&key(number)).is_some();
    (30..100).for_each(|number| assert_eq!(version_of(&store, number), Some(1)));
    assert!(
        (30..100).all(at_hand) && !(0..30).any(at_hand) && !store.volume.directory.is_followed.load(Relaxed)
    );
}

type Damage<'a> = &'a dyn Fn(&World, &MemoryFs);

/// The marks are lost in a power loss, belong to another index, or are damaged.
#[test]
fn objects_without_marks_wait_for_log_end() {
    let names = |world: &World| world.transient.list("", 10).unwrap();
    let lost = |world: &World, marks: &MemoryFs| {
        names(world).iter().for_each(|name| drop(marks.unlink(name)));
    };
    let cut = |world: &World, marks: &MemoryFs| {
        names(world).iter().for_each(|name| marks.tamper(name, |bytes| bytes.truncate(20_000)));
    };
    let flipped = |world: &World, marks: &MemoryFs| {
        names(world).iter().for_each(|name| marks.tamper(name, |bytes| bytes[20] ^= 1));
    };
    for damage in [&lost as Damage, &cut, &flipped] {
        let world = changed_since();
        assert_eq!(names(&world).len(), 1);
        damage(&world, &world.transient);
        for number in 0..150 {
            let (found, is_followed) = world.found_at_once(number);
            assert_eq!((number, found, is_followed), (number, expected(number), true));
        }
    }
}

/// Both copies continue from one place, and reach equal generations.
#[test]
fn marks_of_a_copy_of_the_volume_do_not_count() {
    let world = changed_since();
    let mut copy = World { files: Arc::new(world.files.after_power_loss(|_| 0)), ..world.same() };
    copy.settings.now = Timestamp::from_seconds(1_000_001);
    for path in ["architecture", DATA, INDEX] {
        let mut bytes = Vec::new();
        world.files.tamper(path, |there| bytes.clone_from(there));
        copy.files.tamper(path, |there| *there = bytes);
    }
    for (one, other) in [(&world, &copy), (&copy, &world)] {
        let (mine, others) = (one.open(), other.open());
        put(&mine, 50, 3, 5000).unwrap();
        mine.write_all();
        assert!(mine.remove(&key(50)).unwrap());
        put(&others, 200, 3, 5000).unwrap();
        others.write_all();
        drop((mine, others));
        assert_eq!(one.found_at_once(50).0, None);
    }
}

/// Either index may be on disk after a kill, so a key that changes while one is written belongs to
/// both.
#[test]
fn key_changed_during_checkpoint_is_marked_in_both() {
    let files: Arc<MemoryFs> = Arc::new(MemoryFs::new(1 << 30));
    let header = |sequence| CheckpointHeader { sequence, is_clean: sequence == 1, ..some_header() };
    let open = |header: &CheckpointHeader| ChangedKeys::open(Some(files.clone()), (7, 1000, 5), Some(header));
    let keys: Vec<Key> = (0..4).map(|number| key(number).hash()).collect();
    let known = |changed: &ChangedKeys| keys.iter().map(|key| changed.may_have(*key)).collect::<Vec<_>>();
    let add = |changed: &ChangedKeys, number: usize| changed.add([keys[number]].into_iter());
    let changed = open(&header(1));
    add(&changed, 0);
    changed.begin(&header(2));
    add(&changed, 1);
    changed.end(&header(2));
    add(&changed, 2);
    changed.begin(&header(3));
    add(&changed, 3);
    // Killed before the index is on disk.
    assert_eq!(known(&open(&header(2))), [false, true, true, true]);
    let changed = open(&header(2));
    changed.begin(&header(3));
    changed.abandon();
    add(&changed, 0);
    assert_eq!(known(&open(&header(3))), [true; 4], "it may be on disk, and lacks what came then");
    assert_eq!(known(&open(&header(2))), [true; 4]);
    let changed = open(&header(2));
    changed.rename(&CheckpointHeader { generation: 5, ..header(2) });
    assert_eq!(known(&open(&header(2))), [true; 4]);
}

/// An object crowded out of the table, or evicted for another, stays in the index on disk until the
/// next checkpoint.
#[test]
fn object_lost_from_table_is_removed_for_good() {
    let mut world = World::new(24 << 20);
    world.settings.max_objects = 100;
    for kept in [100, 300, 500] {
        let world = World { files: Arc::new(MemoryFs::new(1 << 40)), ..world.same() };
        let store = world.open();
        (0..kept).for_each(|number| put(&store, number, 1, 700).unwrap());
        store.write_all();
        store.write_index();
        // The victims depend on the hits, which are lost with the process.
        (0..kept).step_by(2).for_each(|number| assert_eq!(version_of(&store, number), Some(1)));
        (1000..1900).for_each(|number| put(&store, number, 1, 700).unwrap());
        store.write_all();
        let lost: Vec<u32> = (0..kept).filter(|number| version_of(&store, *number).is_none()).collect();
        assert!(lost.len() > 10);
        for number in &lost {
            store.remove(&key(*number)).unwrap();
        }
        drop(store);
        let store = world.open();
        let back = lost.iter().filter(|number| version_of(&store, **number).is_some()).count();
        assert_eq!(back, 0, "of {} that were crowded out and removed", lost.len());
    }
}

/// The stripe was reclaimed and partly overwritten; the part with the object was not.
#[test]
fn object_in_half_overwritten_stripe_stays_removed() {
    let world = World::new(6 << 20);
    let store = world.open();
    let mut number = 0;
    while !store.volume.directory.is_full() {
        put(&store, number, 1, 9000).unwrap();
        number += 1;
    }
    store.write_all();
    store.write_index();
    let stored = |number: &u32| version_of(&store, *number).is_some();
    let before: Vec<u32> = (0..number).filter(stored).collect();
    let stripe = store.volume.writer.lock().stripe;
    for extra in 0.. {
        put(&store, 10_000 + extra, 1, 9000).unwrap();
        store.volume.flush(true).unwrap();
        if store.volume.writer.lock().stripe != stripe {
            break;
        }
    }
    let given_up: Vec<u32> = before.into_iter().filter(|number| !stored(number)).collect();
    assert!(given_up.len() > 10);
    for number in &given_up {
        assert!(!store.remove(&key(*number)).unwrap());
    }
    drop(store);
    let back = given_up.iter().filter(|number| world.found_at_once(**number).0.is_some()).count();
    assert_eq!(back, 0, "of {} that were given up and removed", given_up.len());
}

/// A stripe was reclaimed, and the write over it failed.
#[test]
fn object_under_failed_write_stays_removed() {
    let world = World::new(6 << 20);
    let door = Scripted::new(&world.files);
    let store = world.try_open(door.clone()).unwrap();
    let mut number = 0;
    while !store.volume.directory.is_full() {
        put(&store, number, 1, 9000).unwrap();
        number += 1;
    }
    store.write_all();
    store.write_index();
    door.play(|call| match call.path == DATA && call.kind == Kind::Write {
        true => Fate::Fails,
        false => Fate::Passes,
    });
    let stored = |number: &u32| version_of(&store, *number).is_some();
    let before: Vec<u32> = (0..number).filter(stored).collect();
    for extra in 0..60 {
        let _ = put(&store, 10_000 + extra, 1, 9000);
    }
    let _ = store.volume.flush_and_sync();
    door.play(|_| Fate::Passes);
    let given_up: Vec<u32> = before.into_iter().filter(|number| !stored(number)).collect();
    assert!(!given_up.is_empty());
    for number in &given_up {
        store.remove(&key(*number)).unwrap();
    }
    drop(store);
    let store = world.open();
    let back = given_up.iter().filter(|number| version_of(&store, **number).is_some()).count();
    assert_eq!(back, 0, "of {} that were given up and removed", given_up.len());
}

/// Runs all changing calls in any order, with kills at any time: removed objects stay away, and
/// durable ones remain.
#[test]
fn kill_after_any_history_serves_nothing_older() {
    for seed in 0..super::crash::budget(24) {
        let mut random = Random(seed);
        let mut world = World::new([3 << 20, 6 << 20, 24 << 20][seed as usize % 3]);
        world.settings.max_objects = [60, 2000][seed as usize / 3 % 2];
        // Oldest allowed version, by object.
        let mut oldest: Vec<u32> = vec![0; 400];
        let mut version = 0;
        for _ in 0..3 {
            let store = world.try_open_unrecovered(world.files.clone()).unwrap();
            let mut unwritten: Vec<(u32, u32)> = Vec::new();
            for _ in 0..random.below(1200) {
                let number = random.below(400) as u32;
                version += 1;
                match random.below(40) {
                    0..8 => {
                        if store.remove(&key(number)).is_ok() {
                            oldest[number as usize] = version + 1;
                            unwritten.retain(|(other, _)| *other != number);
                        }
                    }
                    8 => {
                        store.volume.recover();
                        store.write_all();
                        unwritten.drain(..).for_each(|(number, version)| oldest[number as usize] = version);
                    }
                    9 if store.volume.directory.is_recovered.load(Relaxed) => store.write_index(),
                    10..14 => drop(version_of(&store, number)),
                    _ => {
                        put(&store, number, version, random.length() / 4).unwrap();
                        unwritten.push((number, version));
                    }
                }
            }
            drop(store);
            for _ in 0..40 {
                let number = random.below(400) as u32;
                let (found, _) = world.found_at_once(number);
                let oldest = oldest[number as usize];
                assert!(
                    found.is_none_or(|found| found >= oldest),
                    "seed {seed}: {number} is {found:?}, not {oldest}"
                );
            }
        }
    }
}

fn some_header() -> CheckpointHeader {
    let store = World::new(8 << 20).open();
    store.volume.directory.header(&store.volume.writer.lock(), false)
}
