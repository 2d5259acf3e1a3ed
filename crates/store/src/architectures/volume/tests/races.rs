//! Calls that interleave at places that a test chooses.

use super::scripted::{Fate, Kind, Scripted};
use super::*;
use crate::StoreView;
use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;
use std::time::Duration;

/// Makes a full volume of objects from 0 up. Returns also the next number and its scripted files.
fn full() -> (VolumeStore, u32, Arc<Scripted>) {
    let world = World::new(4 << 20);
    let door = Scripted::new(&world.files);
    let store = world.try_open(door.clone()).unwrap();
    let mut number = 0;
    while !store.volume.directory.is_full() {
        put(&store, number, 1, 9000).unwrap();
        number += 1;
    }
    store.write_all();
    (store, number, door)
}

fn position_of(store: &VolumeStore, number: u32) -> Option<u64> {
    store.position(&key(number))
}

/// The mark of a removed object is written with the rest of its page, which may belong to another
/// object by then.
#[test]
fn late_removal_mark_spares_newer_records() {
    let (store, mut number, door) = full();
    let volume = Arc::clone(&store.volume);
    let next_stripe = (volume.writer.lock().stripe + 1) % volume.geometry.stripes;
    let in_next = |number: &u32| {
        position_of(&store, *number).is_some_and(|at| volume.geometry.stripe_of(at) == Some(next_stripe))
    };
    let last = (0..number).filter(in_next).max_by_key(|number| position_of(&store, *number));
    let last = last.expect("the stripe that is written over next is full");
    let position = position_of(&store, last).expect("it is on the disk");
    let taken = volume.take_out(&key(last), u64::MAX);
    while volume.writer.lock().stripe != next_stripe {
        put(&store, number, 1, 9000).unwrap();
        store.write_all();
        number += 1;
    }
    let from = number;
    let fill = move |volume: &Arc<Volume>| {
        let store = VolumeStore { _maintenance: Vec::new(), volume: Arc::clone(volume) };
        (from..from + 27).for_each(|number| put(&store, number, 1, 9000).unwrap());
        volume.flush(true).unwrap();
    };
    // While the page of the mark is read, the log overwrites it.
    let (other, reads) = (Arc::clone(&volume), Arc::new(AtomicU32::new(0)));
    let seen = Arc::clone(&reads);
    door.play(move |call| {
        let is_page = call.kind == Kind::Read && (call.offset..call.offset + call.length).contains(&position);
        if is_page && seen.fetch_add(1, Relaxed) == 1 {
            fill(&other);
        }
        Fate::Passes
    });
    for entry in taken.entries {
        volume.mark_removed(key(last).hash(), entry).unwrap();
    }
    door.play(|_| Fate::Passes);
    match reads.load(Relaxed) {
        0 => panic!("the record is looked at"),
        1 => fill(&volume),
        _ => {}
    }
    assert_eq!(volume.geometry.stripe_of(position), Some(next_stripe));
    for number in from..from + 27 {
        assert_eq!(version_of(&store, number), Some(1), "{number}");
    }
    assert_eq!(store.usage().corrupt, 0);
}

/// The longer metadata exceeds the room, so the object is rewritten.
#[test]
fn object_removed_during_rewrite_stays_away() {
    let world = World::new(8 << 20);
    let store = world.open();
    for number in 0..2 {
        put(&store, number, 1, 3000).unwrap();
    }
    store.write_all();
    let longer = [metadata_of(1, 3000), vec![b' '; 400]].concat();
    let removed = |_: &[u8]| store.remove(&key(0)).unwrap();
    assert!(!store.update_metadata(&key(0), &longer, &removed).unwrap());
    assert_eq!(version_of(&store, 0), None, "it was removed meanwhile");
    let replaced = |_: &[u8]| put(&store, 1, 2, 3000).is_ok();
    assert!(!store.update_metadata(&key(1), &longer, &replaced).unwrap());
    assert_eq!(version_of(&store, 1), Some(2), "it was replaced meanwhile");
    store.write_all();
    assert_eq!((version_of(&store, 0), version_of(&store, 1)), (None, Some(2)));
}

/// Runs two updates of the object's first metadata; the second begins when the first has read it.
/// Returns which of them took effect.
fn both_updated(store: &VolumeStore, (first, second): (&[u8], &[u8])) -> [bool; 2] {
    let (done, is_done) = mpsc::channel();
    std::thread::scope(|scope| {
        let handle = Cell::new(None);
        let is_begun = Cell::new(false);
        let other = || {
            let is_made = store.update_metadata(&key(0), second, &|stored| stored == metadata_of(1, 3000));
            let _ = done.send(());
            is_made.unwrap()
        };
        let replaces = |stored: &[u8]| {
            if !is_begun.replace(true) {
                handle.set(Some(scope.spawn(other)));
                // The other update may have to wait for this one.
                let _ = is_done.recv_timeout(Duration::from_millis(100));
            }
            stored == metadata_of(1, 3000)
        };
        let is_made = store.update_metadata(&key(0), first, &replaces).unwrap();
        [is_made, handle.take().expect("it was begun").join().expect("no panic")]
    })
}

#[test]
fn of_two_updates_of_the_same_metadata_one_is_made() {
    let texts = |length: usize| [b'1', b'2'].map(|digit| vec![digit; length]);
    let ([short_first, short_second], [long_first, long_second]) = (texts(20), texts(600));
    let pairs = [
        (&short_first, &short_second),
        (&long_first, &short_second),
        (&short_first, &long_second),
        (&long_first, &long_second),
    ];
    for is_written in [false, true] {
        for (first, second) in pairs {
            let world = World::new(8 << 20);
            let store = world.open();
            put(&store, 0, 1, 3000).unwrap();
            if is_written {
                store.write_all();
            }
            let made = both_updated(&store, (first, second));
            let what = (is_written, first.len(), second.len());
            assert!(made[0] ^ made[1], "{what:?}: {made:?}");
            for is_brought_to_disk in [false, true] {
                if is_brought_to_disk {
                    store.write_all();
                }
                let stored = store.open(&key(0)).unwrap().expect("it is there").metadata;
                assert_eq!(stored, if made[0] { first } else { second }, "{what:?}");
            }
        }
    }
}

/// An upgrade and a change of size release the volume while clients insert.
#[test]
fn released_volume_keeps_each_acknowledged_insert() {
    let world = World::new(4 << 20);
    let door = Scripted::new(&world.files);
    let store = world.try_open(door.clone()).unwrap();
    put(&store, 1, 1, 900).unwrap();
    *store.volume.lock.lock() = Some(tempfile::tempfile().expect("a file").into());
    // During each write of the release another thread replaces the object.
    let (volume, version) = (Arc::clone(&store.volume), Arc::new(AtomicU32::new(1)));
    let acknowledged = Arc::clone(&version);
    door.play(move |call| {
        if call.kind != Kind::Read {
            let store = VolumeStore { _maintenance: Vec::new(), volume: Arc::clone(&volume) };
            let next = acknowledged.load(Relaxed) + 1;
            let replace = move || put(&store, 1, next, 900);
            if std::thread::spawn(replace).join().expect("no panic").is_ok() {
                acknowledged.store(next, Relaxed);
            }
        }
        Fate::Passes
    });
    store.volume.release().unwrap();
    door.play(|_| Fate::Passes);
    let last = version.load(Relaxed);
    let reopened = world.same().open();
    assert_eq!(version_of(&reopened, 1), Some(last), "another process finds it");
    assert!(put(&store, 1, last + 1, 900).is_err(), "nothing is taken any more");
}
