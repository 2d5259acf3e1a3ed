//! Single calls that fail at the worst moment: lost objects are misses, and acknowledged removals
//! last.

use super::scripted::{Fate, Kind, Scripted};
use super::*;
use crate::{StoreUpkeep, StoreView};

fn opened(world: &World) -> (VolumeStore, Arc<Scripted>) {
    let door = Scripted::new(&world.files);
    (world.try_open(door.clone()).expect("the volume opens"), door)
}

#[test]
fn older_version_stays_away_after_failed_write() {
    let world = World::new(8 << 20);
    let (store, door) = opened(&world);
    for (number, length) in [(1, 3000), (2, 150_000)] {
        put(&store, number, 1, length).unwrap();
        store.write_all();
        put(&store, number, 2, length).unwrap();
        door.writes(DATA, Fate::Fails);
        assert!(store.volume.flush_and_sync().is_err());
        door.writes(DATA, Fate::Passes);
        assert_eq!(version_of(&store, number), None, "{number}");
    }
    store.write_all();
    drop(store);
    let store = world.open();
    assert!((1..3).all(|number| version_of(&store, number).is_none()), "nor after a crash");
}

#[test]
fn body_with_lost_piece_stays_invisible() {
    let world = World::new(8 << 20);
    let (store, door) = opened(&world);
    // The first chunk is preceded by other writes, which pass here.
    put(&store, 2, 1, 3000).unwrap();
    store.write_all();
    let mut insert = store.insert(&key(1), &metadata_of(1, 300_000), None).unwrap();
    insert.append(&body_of(1, 1, 300_000)).unwrap();
    door.writes(DATA, Fate::Fails);
    assert!(store.volume.flush_and_sync().is_err());
    door.writes(DATA, Fate::Passes);
    assert!(insert.commit(None).is_err());
    assert_eq!(version_of(&store, 1), None);
}

#[test]
fn unwritten_removal_is_written_next_round() {
    let world = World::new(8 << 20);
    let (store, door) = opened(&world);
    put(&store, 1, 1, 3000).unwrap();
    store.write_all();
    door.writes(DATA, Fate::Fails);
    assert!(store.remove(&key(1)).is_err(), "the record could not be marked");
    assert!(store.volume.flush_and_sync().is_err());
    assert_eq!(version_of(&store, 1), None);
    door.writes(DATA, Fate::Passes);
    store.write_all();
    drop(store);
    assert_eq!(version_of(&world.open(), 1), None);
}

#[test]
fn falsely_failed_write_hides_no_later_chunk() {
    let world = World::new(8 << 20);
    let (store, door) = opened(&world);
    put(&store, 1, 1, 3000).unwrap();
    door.writes(DATA, Fate::FailsAfterwards);
    assert!(store.volume.flush_and_sync().is_err());
    door.writes(DATA, Fate::Passes);
    (2..10).for_each(|number| put(&store, number, 1, 3000).unwrap());
    store.write_all();
    drop(store);
    let store = world.open();
    assert!((2..10).all(|number| version_of(&store, number) == Some(1)));
}

#[test]
fn failed_header_write_loses_no_queued_object() {
    let world = World::new(8 << 20);
    let (store, door) = opened(&world);
    door.writes(INDEX, Fate::Fails);
    (1..10).for_each(|number| put(&store, number, 1, 3000).unwrap());
    put(&store, 10, 1, 150_000).unwrap();
    assert!(store.volume.flush_and_sync().is_err());
    assert!((1..11).all(|number| version_of(&store, number) == Some(1)), "they wait");
    door.writes(INDEX, Fate::Passes);
    store.write_all();
    assert_eq!(store.volume.queue.lock().objects(), 0, "nothing is left in memory");
    drop(store);
    let store = world.open();
    assert!((1..11).all(|number| version_of(&store, number) == Some(1)), "they were written");
}

/// The stripe's end still lists its contents of the previous lap.
#[test]
fn objects_of_unfilled_stripe_are_evicted_with_it() {
    let world = World::new(4 << 20);
    let (store, door) = opened(&world);
    let told = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    store.on_evicted(Arc::new(move |key| listener.lock().push(key)));
    let mut number = 0;
    for lap in 0..4 {
        for chunk in 0..100 {
            // Different lengths, so that no lap equals the previous one.
            put(&store, number, 1, 9000 + 64 * (number as usize % 37)).unwrap();
            number += 1;
            let fails = lap == 1 && chunk % 20 == 10;
            door.writes(DATA, if fails { Fate::Fails } else { Fate::Passes });
            assert_eq!(store.volume.flush_and_sync().is_err(), fails);
        }
        door.writes(DATA, Fate::Passes);
        while !store.volume.writer.lock().stripe.is_multiple_of(13) {
            put(&store, number, 1, 9000 + 64 * (number as usize % 37)).unwrap();
            store.write_all();
            number += 1;
        }
    }
    let told: std::collections::HashSet<_> = told.lock().iter().copied().collect();
    let entries = store.usage().objects as usize;
    let left = (0..number).filter(|number| version_of(&store, *number).is_some()).count();
    assert_eq!(entries, left, "the index has nothing else");
    let kept = (0..number).filter(|number| !told.contains(&key(*number).hash())).count();
    assert_eq!(
        kept, left,
        "who has a copy elsewhere was told of all others, those that could not be written too"
    );
}

/// The stripe's sequence number is at its end too.
#[test]
fn stripe_with_unreadable_start_is_followed() {
    let world = World::new(8 << 20);
    let store = world.open();
    (0..100).for_each(|number| put(&store, number, 1, 9000).unwrap());
    store.write_all();
    store.volume.write_checkpoint().unwrap();
    let from = store.volume.writer.lock().stripe;
    (0..100).for_each(|number| put(&store, number, 2, 9000).unwrap());
    store.write_all();
    let geometry = store.volume.geometry;
    assert!(store.volume.writer.lock().stripe > from + 2);
    drop(store);
    let bad = geometry.stripe_at(from + 1);
    let door = Scripted::new(&world.files);
    door.play(move |call| match call.path == DATA && call.kind == Kind::Read && call.offset == bad {
        true => Fate::Fails,
        false => Fate::Passes,
    });
    let store = world.try_open(door).unwrap();
    let versions: Vec<_> = (0..100).map(|number| version_of(&store, number)).collect();
    assert!(!versions.contains(&Some(1)), "an older version: {versions:?}");
    assert!(versions.iter().filter(|version| **version == Some(2)).count() > 90);
}

/// A kernel that could not write pages reports this once, and then counts them as written.
#[test]
fn unsynced_index_is_rewritten_whole() {
    let world = World::new(8 << 20);
    let (store, door) = opened(&world);
    (1..50).for_each(|number| put(&store, number, 1, 3000).unwrap());
    store.write_all();
    let written = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let checkpoint_with = |fate: Fate| {
        let blocks = Arc::clone(&written);
        written.lock().clear();
        door.play(move |call| {
            if call.path == INDEX && call.kind == Kind::Write && call.offset >= 8192 {
                blocks.lock().push(call.offset);
            }
            if call.path == INDEX && call.kind == Kind::Sync { fate } else { Fate::Passes }
        });
        (store.volume.write_checkpoint().is_ok(), written.lock().clone())
    };
    let (is_done, blocks) = checkpoint_with(Fate::Fails);
    assert!(!is_done && !blocks.is_empty());
    assert_eq!(checkpoint_with(Fate::Passes), (true, blocks));
    assert!(store.remove(&key(1)).unwrap());
    store.write_all();
    assert_eq!(checkpoint_with(Fate::Passes).1.len(), 1);
}

/// A failure without a waiting caller is otherwise invisible.
#[test]
fn failures_in_the_background_are_counted() {
    let world = World::new(8 << 20);
    let (store, door) = opened(&world);
    put(&store, 1, 1, 3000).unwrap();
    door.writes(DATA, Fate::Fails);
    let clock = std::sync::atomic::AtomicU64::new(0);
    // A second passes with each read of the clock.
    let rounds = |count| {
        (0..count).for_each(|_| {
            store.volume.sync_if_due(&|| std::time::Duration::from_secs(clock.fetch_add(1, Relaxed)));
        });
    };
    rounds(2);
    assert_eq!(store.usage().failures, 1);
    store.volume.checkpoint_if_due().unwrap();
    door.play(|call| if call.path == DATA && call.kind == Kind::Read { Fate::Fails } else { Fate::Passes });
    assert!(store.volume.reader.contents(0).is_none());
    assert_eq!(store.usage().failures, 3, "its end and its beginning");
}

/// Counts the logged errors.
#[derive(Clone, Default)]
struct Listener(Arc<std::sync::atomic::AtomicU32>);

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_disk_that_fails_now_and_then_is_said_to_once() {
    let world = World::new(8 << 20);
    let (store, door) = opened(&world);
    let listener = Listener::default();
    tracing::subscriber::with_default(listener.clone(), || {
        for number in 0..20 {
            put(&store, number, 1, 3000).unwrap();
            door.writes(DATA, if number % 2 == 0 { Fate::Fails } else { Fate::Passes });
            assert_eq!(store.volume.flush_and_sync().is_err(), number % 2 == 0);
        }
    });
    assert_eq!(listener.0.load(Relaxed), 1);
}

#[test]
fn object_hit_during_reclaim_is_carried_over() {
    let world = World::new(4 << 20);
    let (store, door) = opened(&world);
    put(&store, 1, 1, 4000).unwrap();
    store.write_all();
    assert_eq!(version_of(&store, 1), Some(1));
    let hash = key(1).hash();
    let entry = store.volume.directory.table.candidates(hash).next().expect("it was written");
    assert_eq!(entry.hits(), 1);
    let (volume, reads) = (Arc::downgrade(&store.volume), Arc::new(std::sync::atomic::AtomicU32::new(0)));
    let counter = Arc::clone(&reads);
    door.play(move |call| {
        let range = call.offset..call.offset + call.length;
        if call.path == DATA && call.kind == Kind::Read && range.contains(&entry.position()) {
            counter.fetch_add(1, Relaxed);
            volume.upgrade().expect("it calls").directory.table.count_hit(hash, entry);
        }
        Fate::Passes
    });
    for number in 100..3000 {
        if reads.load(Relaxed) > 0 {
            break;
        }
        put(&store, number, 1, 8000).unwrap();
        store.write_all();
    }
    assert!(reads.load(Relaxed) > 0, "the cursor came by");
    assert_eq!(version_of(&store, 1), Some(1));
}
