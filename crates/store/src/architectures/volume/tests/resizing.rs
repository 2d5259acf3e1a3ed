//! Volumes that are made larger and smaller, and crashes meanwhile.

use super::*;
use crate::architectures::volume::resizing::{NEXT, stripes_within};
use crate::fs::{CrashPoint, Faults, FaultyFs};
use crate::{Peek, StoreUpkeep, StoreView};

/// Limits of the volume in these tests.
const SMALL: u64 = 8 << 20;
const LARGE: u64 = 16 << 20;
const LENGTH: usize = 9000;

impl World {
    fn sized(&self, disk_bytes: u64) -> Self {
        let mut world = self.same();
        world.settings.disk_bytes = disk_bytes;
        world
    }
}

/// Returns the objects that are found, each with its right bytes.
fn found(store: &VolumeStore, numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    numbers.filter(|number| version_of(store, *number).is_some()).collect()
}

/// Returns the objects that would be found, without a hit on them.
fn present(store: &VolumeStore, numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    numbers.filter(|number| store.peek(&key(*number)).expect("a sound disk").is_some()).collect()
}

/// Stores an object also where objects with hits are in its way: a search gives up after some.
fn put_at_last(store: &VolumeStore, number: u32, version: u32) {
    let is_stored =
        (0..200).any(|_| put(store, number, version, LENGTH).is_ok() && store.volume.flush(true).is_ok());
    assert!(is_stored, "{number} finds no place");
}

/// Copies a world, all of which is on disk.
fn copy_of(world: &World) -> World {
    world.files.sync().expect("in RAM");
    world.after_power_loss(1)
}

fn filled(disk_bytes: u64, objects: u32) -> World {
    let world = World::new(disk_bytes);
    let store = world.open();
    for number in 0..objects {
        put(&store, number, 1, LENGTH).expect("there is room");
        if number % 20 == 19 {
            store.write_all();
        }
    }
    store.close().expect("a disk in RAM takes all");
    world
}

#[test]
fn larger_volume_keeps_its_objects_and_takes_more() {
    // Half full, full, and in the second lap.
    for objects in [300, 800, 1300] {
        let world = filled(SMALL, objects);
        let before = found(&world.open(), 0..objects);
        assert!(before.len() > 250, "{} of {objects}", before.len());
        let store = world.sized(LARGE).open();
        assert!(store.volume.geometry.volume_bytes() > LARGE - (1 << 20));
        assert_eq!(found(&store, 0..objects), before, "{objects} objects");
        // All of them stay while the new part is filled.
        for number in 2000..2600 {
            put(&store, number, 1, LENGTH).expect("there is room");
        }
        store.write_all();
        assert_eq!(found(&store, 0..objects), before, "{objects} objects, and as many more");
        drop(store);
        let store = world.sized(LARGE).open();
        assert_eq!(found(&store, 0..objects), before, "after a kill");
        assert_eq!(found(&store, 2000..2600).len(), 600);
        store.close().expect("closed");
    }
}

#[test]
fn smaller_volume_keeps_objects_before_its_end() {
    for objects in [300, 800, 1500, 2400] {
        let world = filled(LARGE, objects);
        let store = world.open();
        let end = end_within(&store, SMALL);
        let place = |number: u32| store.volume.directory.table.candidates(key(number).hash()).next();
        let before: Vec<u32> = found(&store, 0..objects)
            .into_iter()
            .filter(|number| place(*number).is_some_and(|entry| entry.position() < end))
            .collect();
        assert!(before.len() > 100, "{} of {objects}", before.len());
        store.close().expect("closed");
        drop(store);
        let store = world.sized(SMALL).open();
        assert_eq!(store.volume.geometry.volume_bytes(), end);
        assert_eq!(found(&store, 0..objects), before, "{objects} objects");
        for number in 3000..5000 {
            put_at_last(&store, number, 1);
        }
        assert!(found(&store, 3000..5000).len() > 500);
        store.close().expect("closed");
        drop(store);
        // The next opening gives the space back.
        let store = world.sized(SMALL).open();
        assert_eq!(world.files.length(DATA).expect("there"), end);
        assert!(found(&store, 3000..5000).len() > 500);
    }
}

fn end_within(store: &VolumeStore, bytes: u64) -> u64 {
    let geometry = store.volume.geometry;
    geometry.stripe_at(stripes_within(&geometry, bytes, 0).expect("smaller"))
}

#[test]
fn confined_volume_moves_its_tail_before_the_end() {
    for objects in [500, 1000, 1600, 2500] {
        let world = filled(LARGE, objects);
        let store = world.open();
        let all = present(&store, 0..objects);
        let tail = store.confine(SMALL).expect("it can be as small").expect("a tail");
        let (mut place, mut copied) = (tail, 0);
        while let Some(part) = store.walk(place).expect("a sound disk") {
            for object in part.objects.iter().filter(|object| object.is_wanted || part.is_young) {
                let stored = store.open(&object.key).expect("sound").expect("walked");
                let body = stored.body.read(0, 1 << 20).expect("sound");
                let mut insert =
                    store.insert(&object.key, &stored.metadata, Some(body.len() as u64)).expect("admitted");
                insert.append(&body).expect("taken");
                insert.commit(None).expect("taken");
                copied += 1;
            }
            place = part.next;
        }
        store.close().expect("closed");
        let end = end_within(&store, SMALL);
        assert!(store.volume.geometry.stripe_at(store.volume.writer.lock().stripe) < end);
        drop(store);
        let store = world.sized(SMALL).open();
        let kept = found(&store, 0..objects);
        let newest = all.iter().rev().take(500).filter(|number| kept.contains(number)).count();
        assert!(
            newest > 400,
            "{objects} objects, {copied} copied: {newest} of the newest 500 are left of {}",
            kept.len()
        );
        store.close().expect("closed");
    }
}

/// Removals and latest versions lay behind the end: a rebuild of the index finds neither the
/// removed objects nor earlier versions.
#[test]
fn rebuild_after_shrinking_brings_nothing_back() {
    let world = World::new(LARGE);
    let store = world.open();
    for number in 0..1000 {
        put(&store, number, 1, LENGTH).expect("there is room");
    }
    for number in (0..1000).step_by(7) {
        store.remove(&key(number)).expect("removed");
    }
    for number in (1..1000).step_by(7) {
        put(&store, number, 2, LENGTH).expect("there is room");
    }
    store.close().expect("closed");
    drop(store);
    let shrunk = world.sized(SMALL);
    let store = shrunk.open();
    assert!(found(&store, (1..1000).step_by(7)).is_empty(), "the second versions lay behind the end");
    for number in 5000..5050 {
        put(&store, number, 1, LENGTH).expect("there is room");
    }
    store.close().expect("closed");
    drop(store);
    shrunk.files.unlink(INDEX).expect("it was there");
    let store = shrunk.open();
    for number in 0..1000 {
        let version = version_of(&store, number);
        assert!(number % 7 > 1 || version.is_none(), "{number} came back as {version:?}");
    }
    assert!(found(&store, 5000..5050).len() > 20, "objects written since are found");
}

#[test]
fn resize_survives_a_kill_at_any_call() {
    for (from, to, objects) in [(SMALL, LARGE, 1300), (LARGE, SMALL, 1500), (SMALL, LARGE, 300)] {
        let base = filled(from, objects);
        let expected = {
            let world = copy_of(&base);
            let store = world.sized(to).open();
            found(&store, 0..objects)
        };
        for calls in 0.. {
            let world = copy_of(&base);
            let crash = CrashPoint::after(calls);
            let faults = Faults::new(calls).crash_at(Arc::clone(&crash));
            let door = Arc::new(FaultyFs::new(world.files.clone(), faults));
            let opened = world.sized(to).try_open_unrecovered(door);
            let is_through = opened.is_ok() && !crash.has_come();
            drop(opened);
            let what = format!("{from} to {to}, {calls} calls");
            // The old settings may come back, and the new ones again.
            if calls % 3 == 0 && to > from {
                check_after(&world.sized(from), objects, None, &what);
            }
            check_after(&world.sized(to), objects, Some(&expected), &what);
            if is_through {
                assert!(calls > 10, "{what}: no write was stopped");
                break;
            }
        }
    }
}

#[test]
fn resize_survives_a_power_loss_at_any_call() {
    for (from, to, objects) in [(SMALL, LARGE, 1300), (LARGE, SMALL, 1500)] {
        let base = filled(from, objects);
        let expected = {
            let world = copy_of(&base);
            let store = world.sized(to).open();
            found(&store, 0..objects)
        };
        for calls in 0..200 {
            let world = copy_of(&base);
            let crash = CrashPoint::after(calls);
            let faults = Faults::new(calls).crash_at(Arc::clone(&crash));
            let door = Arc::new(FaultyFs::new(world.files.clone(), faults));
            let opened = world.sized(to).try_open_unrecovered(door);
            let is_through = opened.is_ok() && !crash.has_come();
            drop(opened);
            let after = world.sized(to).after_power_loss(calls * 7 + 1);
            check_after(
                &after,
                objects,
                Some(&expected),
                &format!("{from} to {to}, power lost after {calls} calls"),
            );
            if is_through {
                break;
            }
        }
    }
}

/// Opens the remains. Nothing wrong is found, and with the size of the settings all that fits.
fn check_after(world: &World, objects: u32, expected: Option<&[u32]>, what: &str) {
    let store = world.try_open(world.files.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let now = found(&store, 0..objects);
    if let Some(expected) = expected {
        assert_eq!(now, expected, "{what}");
    }
    assert!(world.files.length(NEXT).is_err(), "{what}: a copy of the index stays behind");
    put_at_last(&store, 9000, 3);
    store.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(store);
    assert_eq!(version_of(&world.open(), 9000), Some(3), "{what}");
}

#[test]
fn killed_volume_is_recovered_before_resize() {
    for (from, to) in [(SMALL, LARGE), (LARGE, SMALL)] {
        let world = World::new(from);
        let store = world.open();
        for number in 0..600 {
            put(&store, number, 1, LENGTH).expect("there is room");
        }
        store.write_index();
        for number in 0..600 {
            if number % 5 == 0 {
                store.remove(&key(number)).expect("removed");
            }
        }
        for number in 600..1400 {
            put(&store, number, 1, LENGTH).expect("there is room");
        }
        store.write_all();
        drop(store);
        let store = world.sized(to).open();
        assert!(found(&store, 0..1400).len() > 300);
        assert!(found(&store, (0..600).step_by(5)).is_empty(), "removed objects came back");
        store.close().expect("closed");
    }
}

#[test]
fn volume_that_cannot_grow_keeps_its_size() {
    let world = filled(SMALL, 300);
    let before = found(&world.open(), 0..300);
    let door = Arc::new(FaultyFs::new(world.files.clone(), Faults::new(1).full(1000)));
    let store = world.sized(LARGE).try_open(door).expect("it opens as it was");
    assert_eq!(found(&store, 0..300), before);
    assert!(store.volume.geometry.volume_bytes() < SMALL);
}

#[test]
fn volume_smaller_than_its_index_is_refused() {
    let world = filled(SMALL, 10);
    let refusal = world.sized(100 << 10).try_open(world.files.clone()).err().expect("too small").to_string();
    assert!(refusal.contains("too few for the volume there"), "{refusal}");
    let store = world.open();
    assert!(store.confine(100 << 10).is_err() && store.confine(SMALL).expect("it fits").is_none());
    assert_eq!(store.usage().bytes_max, SMALL);
}

#[test]
fn emptied_volume_begins_anew() {
    let world = filled(SMALL, 100);
    assert!(crate::architectures::volume::size(&*world.files).is_some_and(|bytes| bytes <= SMALL));
    crate::architectures::volume::empty(&*world.files).expect("files in RAM");
    assert_eq!(crate::architectures::volume::size(&*world.files), None);
    let store = world.open();
    assert!(found(&store, 0..100).is_empty());
    put(&store, 1, 2, LENGTH).expect("there is room");
    assert_eq!(version_of(&store, 1), Some(2));
}

#[test]
fn growth_beyond_the_index_makes_it_anew() {
    let mut world = World::new(SMALL);
    world.settings.max_objects = 0;
    let store = world.open();
    // More objects than the index would have places for.
    for number in 0..1100 {
        put(&store, number, 1, 4000).expect("there is room");
    }
    store.close().expect("closed");
    let buckets = store.volume.geometry.buckets;
    let before = found(&store, 0..1100);
    drop(store);
    let larger = world.sized(4 * SMALL);
    let store = larger.open();
    assert!(store.volume.geometry.buckets > buckets, "{buckets} buckets");
    assert_eq!(found(&store, 0..1100), before);
    store.close().expect("closed");
}
