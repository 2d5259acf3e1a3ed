//! Recovery after a crash when the log did not continue in order: rebuilt index, skipped stripes,
//! half-written stripes.

use super::scripted::{Fate, Kind, Scripted};
use super::*;
use crate::StoreView;

/// Returns how many objects of `numbers` are found.
fn found(store: &VolumeStore, numbers: std::ops::Range<u32>) -> usize {
    numbers.filter(|number| version_of(store, *number) == Some(1)).count()
}

/// Makes a volume with its cursor at this stripe in the second lap, and returns the number of
/// objects inserted.
fn lapped(disk_bytes: u64, object_bytes: usize, stripe_wanted: u32) -> (World, u32) {
    let world = World::new(disk_bytes);
    let store = world.open();
    let mut number = 0;
    let cursor = || store.volume.writer.lock().stripe;
    while !store.volume.directory.is_full() || cursor() < stripe_wanted || cursor() > stripe_wanted + 20 {
        put(&store, number, 1, object_bytes).unwrap();
        number += 1;
    }
    store.write_all();
    (world, number)
}

#[test]
fn rebuilt_index_survives_its_process() {
    for steps in [1, 3, 40] {
        let (world, count) = lapped(8 << 20, 9000, 4);
        let all = found(&world.open(), 0..count);
        world.files.tamper(INDEX, Vec::clear);
        let store = world.try_open_unrecovered(world.files.clone()).unwrap();
        store.volume.recover_step(steps);
        if steps == 40 {
            store.volume.recover();
            put(&store, count, 1, 9000).unwrap();
            store.write_all();
        }
        drop(store);
        let store = world.open();
        let left = found(&store, 0..count);
        assert!(left + 30 >= all, "{left} of {all} are left when it was killed after {steps} steps");
    }
}

#[test]
fn an_index_that_was_made_anew_is_written_before_long() {
    let (world, count) = lapped(8 << 20, 9000, 4);
    world.files.tamper(INDEX, Vec::clear);
    let store = world.open();
    store.volume.checkpoint_if_due().unwrap();
    drop(store);
    let store = world.try_open_unrecovered(world.files.clone()).unwrap();
    assert!(found(&store, 0..count) > 700, "they are served at once");
}

/// Clients continue to store meanwhile. Their objects wait in the queue. With a long queue, the
/// inserting caller looks for the log's end itself.
#[test]
fn inserts_before_log_end_is_found_are_written_later() {
    for count in [50, 1000] {
        let mut world = World::new(64 << 20);
        world.settings.max_objects = 50_000;
        let store = world.open();
        (0..4000).for_each(|number| put(&store, number, 1, 9000).unwrap());
        store.write_all();
        drop(store);
        let store = world.try_open_unrecovered(world.files.clone()).unwrap();
        let stripe_bytes = store.volume.geometry.stripe_bytes;
        for number in 5000..5000 + count {
            put(&store, number, 1, 9000).unwrap();
            assert_eq!(version_of(&store, number), Some(1), "it waits in memory");
            assert!(store.volume.queue.lock().bytes() < 6 * stripe_bytes);
        }
        assert_eq!(store.volume.directory.is_recovered.load(Relaxed), count > 50);
        store.volume.recover();
        store.write_all();
        drop(store);
        let store = world.open();
        assert_eq!((found(&store, 0..4000), found(&store, 5000..5000 + count)), (4000, count as usize));
    }
}

/// Readers may pin any number of stripes, such as a slow client of a long body.
#[test]
fn cursor_skips_any_number_of_pinned_stripes() {
    for pinned in [63, 64, 65, 200] {
        let mut world = World::new(64 << 20);
        world.settings.max_objects = 50_000;
        let store = world.open();
        put(&store, 0, 1, 9000).unwrap();
        store.write_all();
        let volume = &store.volume;
        assert!(volume.geometry.stripes > 230);
        let next = volume.writer.lock().stripe + 1;
        let pin = volume.reader.stripes.pin(next..next + pinned).unwrap();
        for number in 1..100 {
            put(&store, number, 1, 9000).unwrap_or_else(|error| panic!("{pinned} are read: {error}"));
        }
        volume.flush_and_sync().unwrap_or_else(|error| panic!("{pinned} are read: {error}"));
        assert!(volume.writer.lock().stripe >= next + pinned);
        drop(pin);
        drop(store);
        let store = world.open();
        assert_eq!(found(&store, 0..100), 100, "{pinned} were read");
    }
}

/// A power loss may leave the last of several unsynced stripes whole and the earlier ones not.
#[test]
fn object_in_half_written_stripe_is_not_served() {
    let world = World::new(40 << 20);
    let store = world.open();
    let cursor = || store.volume.writer.lock().stripe;
    let mut number = 1;
    let mut put_until = |has_come: &dyn Fn() -> bool| {
        while !has_come() {
            put(&store, number, 1, 9000).unwrap();
            store.volume.flush(true).unwrap();
            number += 1;
        }
    };
    put_until(&|| cursor() == 10);
    // The first pieces and the end are some stripes apart, as in a body that arrives slowly.
    let body = body_of(0, 1, 300_000);
    let mut insert = store.insert(&key(0), &metadata_of(1, 300_000), None).unwrap();
    insert.append(&body[..140_000]).unwrap();
    store.write_all();
    let torn = cursor();
    put_until(&|| cursor() == torn + 4);
    insert.append(&body[140_000..]).unwrap();
    insert.commit(None).unwrap();
    put_until(&|| store.volume.directory.is_full() && cursor() == torn - 1);
    store.volume.write_checkpoint().unwrap();
    assert_eq!(version_of(&store, 0), Some(1));
    let mut before = Vec::new();
    world.files.tamper(DATA, |bytes| before.clone_from(bytes));
    put_until(&|| cursor() == torn + 2);
    // The beginning of one stripe is not on disk, and the rest is.
    let from = store.volume.geometry.stripe_at(torn) as usize;
    drop(store);
    world.files.tamper(DATA, |bytes| bytes[from..from + 4096].copy_from_slice(&before[from..from + 4096]));
    let store = world.open();
    assert_eq!(version_of(&store, 0), None, "a part of it has been written over");
}

#[test]
fn count_is_right_after_crash_in_checkpoint() {
    let world = World::new(8 << 20);
    let door = Scripted::new(&world.files);
    let store = world.try_open(door.clone()).unwrap();
    (0..300).for_each(|number| put(&store, number, 1, 3000).unwrap());
    store.write_all();
    // All of the index except for the header that completes it.
    door.play(|call| match call.path == INDEX && call.kind == Kind::Write && call.offset < 8192 {
        true => Fate::Fails,
        false => Fate::Passes,
    });
    assert!(store.volume.write_checkpoint().is_err());
    drop(store);
    let store = world.open();
    assert_eq!(store.usage().objects, 300);
    for number in 0..300 {
        store.remove(&key(number)).unwrap();
    }
    assert_eq!(store.usage().objects, 0);
    put(&store, 1, 2, 3000).unwrap();
    store.write_all();
    assert_eq!(store.usage().objects, 1);
}

/// Entries of records overwritten since the last checkpoint would occupy the index for ever.
#[test]
fn crashes_leave_no_dead_entries_in_the_index() {
    let (world, mut count) = lapped(8 << 20, 9000, 4);
    for round in 0..8 {
        let store = world.open();
        let from = count;
        while count < from + 250 {
            put(&store, count, 1, 9000).unwrap();
            count += 1;
        }
        store.write_all();
        if round == 3 {
            store.volume.write_checkpoint().unwrap();
        }
    }
    let store = world.open();
    let objects = store.usage().objects as usize;
    let found = found(&store, 0..count);
    assert!(found > 700 && objects <= found + 30, "{objects} entries, of which {found} are objects");
    assert_eq!(
        store.volume.directory.table.objects() as usize,
        store.volume.directory.table.entries().count()
    );
}
