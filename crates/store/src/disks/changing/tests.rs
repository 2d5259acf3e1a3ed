//! Disks that come, go and change their size, with readers and writers meanwhile.

use super::*;
use crate::{OpenOptions, Peek, PromptStore, Store, StoreView, TryInsert};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

const MIB: u64 = 1 << 20;

fn disk(folder: &Path, name: &str, bytes: u64) -> (DiskSpec, DiskOpener) {
    let volume = crate::architectures::VolumeSettings {
        stripe_bytes: 256 << 10,
        window_bytes: 1 << 20,
        ..Default::default()
    };
    let options = OpenOptions {
        architecture: "volume".into(),
        directory: folder.join(name),
        disk_bytes: bytes,
        volume,
        ..OpenOptions::default()
    };
    let opener: DiskOpener = Arc::new(move || crate::open(&options));
    (DiskSpec { path: name.into(), bytes }, opener)
}

fn ready() -> Ready {
    Arc::new(|| Ok(()))
}

fn add(disks: &Disks, folder: &Path, name: &str, bytes: u64) {
    let (spec, opener) = disk(folder, name, bytes);
    disks.add(spec, opener, &ready(), &|_| Ok(())).expect("it can be opened");
}

fn key(number: u32) -> ObjectKey {
    ObjectKey::new(format!("http://host-{}.example/{number}", number % 5).into_bytes())
}

fn body(number: u32, version: u32) -> Vec<u8> {
    format!("{version} of {number} ").into_bytes().repeat(200 + number as usize % 900)
}

fn put(disks: &Disks, number: u32, version: u32) -> Result<(), Error> {
    let (body, metadata) = (body(number, version), format!("version {version}"));
    let mut insert = disks.insert(&key(number), metadata.as_bytes(), Some(body.len() as u64))?;
    insert.append(&body)?;
    insert.commit(None)
}

/// Returns the version that is found, which must be whole.
fn found(disks: &Disks, number: u32) -> Option<u32> {
    let stored = disks.open(&key(number)).expect("a sound disk")?;
    let mut read = Vec::new();
    while (read.len() as u64) < stored.body.length() {
        read.extend_from_slice(&stored.body.read(read.len() as u64, 50_000).expect("a body that was found"));
    }
    let text = String::from_utf8(stored.metadata.to_vec()).expect("as written");
    let version = text.strip_prefix("version ").expect("as written").parse().expect("as written");
    assert_eq!(read, body(number, version), "{number} has another's bytes");
    Some(version)
}

fn drain(disks: &Disks, path: &str, mut place: u64) {
    loop {
        let step = disks.drain_step(path, place).expect("a sound disk");
        match step.next {
            Some(next) => place = next,
            None => return,
        }
    }
}

fn remove(disks: &Disks, path: &str) {
    disks.begin_leaving(path).expect("known");
    drain(disks, path, 0);
    disks.end_leaving(path).expect("nobody reads");
}

fn paths(disks: &Disks) -> Vec<String> {
    disks.states().into_iter().map(|state| state.path).collect()
}

#[test]
fn added_disk_takes_its_share_and_moves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open([disk(folder.path(), "one", 64 * MIB)]);
    (0..300).for_each(|number| put(&disks, number, 1).expect("stored"));
    add(&disks, folder.path(), "two", 64 * MIB);
    assert!((0..300).all(|number| found(&disks, number) == Some(1)), "objects are found where they lie");
    assert!(
        (0..300).all(|number| disks.may_contain(&key(number)) && disks.peek(&key(number)).unwrap().is_some())
    );
    (300..600).for_each(|number| put(&disks, number, 1).expect("stored"));
    disks.close().expect("written");
    let objects: Vec<u64> = disks.states().iter().map(|state| state.usage.objects).collect();
    assert_eq!(objects.iter().sum::<u64>(), 600);
    assert!((90..210).contains(&objects[1]), "half of the later objects: {objects:?}");
    // A new version goes to the disk of its key, and the old one is gone.
    (0..300).for_each(|number| put(&disks, number, 2).expect("stored"));
    assert!((0..300).all(|number| found(&disks, number) == Some(2)));
    disks.close().expect("written");
    assert_eq!(disks.states().iter().map(|state| state.usage.objects).sum::<u64>(), 600);
    for number in 0..300 {
        assert!(disks.remove(&key(number)).expect("removed") && found(&disks, number).is_none());
    }
}

#[test]
fn metadata_is_replaced_where_the_object_lies() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open([disk(folder.path(), "one", 64 * MIB)]);
    (0..100).for_each(|number| put(&disks, number, 1).expect("stored"));
    add(&disks, folder.path(), "two", 64 * MIB);
    for number in 0..100 {
        assert!(
            disks.update_metadata(&key(number), b"version 1", &|old| old == b"version 1").expect("sound")
        );
    }
    assert!((0..100).all(|number| found(&disks, number) == Some(1)));
}

#[test]
fn removed_disk_leaves_its_objects_to_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open(["one", "two", "three"].map(|name| disk(folder.path(), name, 48 * MIB)));
    (0..900).for_each(|number| put(&disks, number, 1).expect("stored"));
    remove(&disks, "two");
    assert_eq!(paths(&disks), ["one", "three"]);
    crate::inspect::empty(&folder.path().join("two")).expect("nobody has it");
    assert!((0..900).all(|number| found(&disks, number) == Some(1)));
    assert!(disks.removals_last(), "the removed disk is no part any more");
    disks.close().expect("closed");
    drop(disks);
    let disks = Disks::open(["one", "three"].map(|name| disk(folder.path(), name, 48 * MIB)));
    assert!((0..900).all(|number| found(&disks, number) == Some(1)), "after a restart");
    // The disk comes again, empty.
    add(&disks, folder.path(), "two", 48 * MIB);
    assert_eq!(disks.states().iter().map(|state| state.usage.objects).collect::<Vec<_>>()[2], 0);
}

#[test]
fn moved_disk_keeps_large_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open([disk(folder.path(), "old", 64 * MIB)]);
    (0..200).for_each(|number| put(&disks, number, 1).expect("stored"));
    let large = vec![7; 3 << 20];
    let mut insert = disks.insert(&key(1000), b"large", Some(large.len() as u64)).expect("taken");
    large.chunks(100_000).for_each(|part| insert.append(part).expect("taken"));
    insert.commit(None).expect("stored");
    for (from, to) in [("old", "new"), ("new", "old"), ("old", "new")] {
        add(&disks, folder.path(), to, 64 * MIB);
        remove(&disks, from);
        crate::inspect::empty(&folder.path().join(from)).expect("nobody has it");
        assert_eq!(paths(&disks), [to]);
        assert!((0..200).all(|number| found(&disks, number) == Some(1)), "{from} to {to}");
        let stored = disks.open(&key(1000)).expect("sound").expect("a large object moves too");
        assert_eq!(
            (stored.body.length(), stored.body.read(1 << 20, 10).unwrap()),
            (3 << 20, vec![7; 10].into())
        );
        put(&disks, 1, 1).expect("it takes objects");
    }
}

#[test]
fn full_disks_take_only_wanted_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open(["one", "two"].map(|name| disk(folder.path(), name, 10 * MIB)));
    // Twice, since a full volume takes an object at its second request.
    (0..3000).for_each(|number| drop(put(&disks, number, 1)));
    let on_two: Vec<u32> = (0..3000)
        .filter(|number| disks.shared.holder(&key(*number)).is_some_and(|(at, _)| at == 1))
        .collect();
    let there: Vec<u32> =
        on_two.into_iter().filter(|number| disks.peek(&key(*number)).unwrap().is_some()).collect();
    let wanted: Vec<u32> = there.iter().copied().step_by(10).collect();
    for number in wanted.iter().chain(&wanted).chain(&wanted) {
        assert_eq!(found(&disks, *number), Some(1));
    }
    disks.begin_leaving("two").expect("known");
    drain(&disks, "two", 0);
    let change = disks.states()[1].change.expect("under way");
    assert_eq!((change.kind, change.percent), (ChangeKind::Leaving, 100));
    assert!(change.dropped > 0 && change.copied > 0, "{change:?}");
    disks.end_leaving("two").expect("nobody reads");
    let kept = wanted.iter().filter(|number| found(&disks, **number).is_some()).count();
    assert!(kept * 10 > wanted.len() * 8, "{kept} of {} objects with hits are left", wanted.len());
}

#[test]
fn disk_with_a_slow_reader_closes_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open([disk(folder.path(), "old", 32 * MIB)]);
    put(&disks, 1, 1).expect("stored");
    let reading = disks.open(&key(1)).expect("sound").expect("there");
    add(&disks, folder.path(), "new", 32 * MIB);
    disks.begin_leaving("old").expect("known");
    drain(&disks, "old", 0);
    assert!(disks.end_leaving("old").is_err(), "a client reads");
    assert_eq!(reading.body.read(0, 1 << 20).expect("still readable"), body(1, 1));
    drop(reading);
    disks.end_leaving("old").expect("nobody reads");
    assert_eq!(found(&disks, 1), Some(1));
}

#[test]
fn unknown_disks_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open([disk(folder.path(), "one", 32 * MIB)]);
    assert!(disks.begin_leaving("two").is_err() && disks.end_leaving("two").is_err());
    assert!(disks.drain_step("two", 0).is_err() && disks.begin_shrinking("two", MIB).is_err());
    assert!(disks.begin_shrinking("one", MIB / 4).is_err(), "its index is larger");
}

/// A removal or a new version between the walk and the copy.
#[test]
fn copies_never_bring_back_removed_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open([disk(folder.path(), "old", 64 * MIB)]);
    (0..400).for_each(|number| put(&disks, number, 1).expect("stored"));
    add(&disks, folder.path(), "new", 64 * MIB);
    disks.begin_leaving("old").expect("known");
    let changed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| drain(&disks, "old", 0));
        for number in 0..400 {
            match number % 3 {
                0 => drop(disks.remove(&key(number)).expect("removed")),
                1 => match put(&disks, number, 2) {
                    Ok(()) => {}
                    Err(error) => panic!("{number}: {error}"),
                },
                _ => continue,
            }
            changed.fetch_add(1, SeqCst);
            // A copy that met the new version may have cost both, never the order.
            let now = found(&disks, number);
            assert!(now.is_none() || (number % 3 == 1 && now == Some(2)), "{number}: {now:?}");
        }
        drained.join().expect("copied");
    });
    for number in 0..400 {
        let now = found(&disks, number);
        match number % 3 {
            0 => assert_eq!(now, None, "{number} came back"),
            1 => assert!(now.is_none_or(|version| version == 2), "{number}: {now:?}"),
            _ => assert_eq!(now, Some(1)),
        }
    }
}

/// Readers and writers go on through each kind of change.
#[test]
fn readers_and_writers_notice_no_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open([disk(folder.path(), "one", 32 * MIB)]);
    (0..200).for_each(|number| put(&disks, number, 1).expect("stored"));
    let (is_over, reads, misses) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (disks, is_over, reads, misses) = (&disks, &is_over, &reads, &misses);
            scope.spawn(move || {
                let mut own: HashMap<u32, u32> = HashMap::new();
                for turn in 0.. {
                    if is_over.load(SeqCst) {
                        return;
                    }
                    let number = (turn * 7 + thread * 3) % 200;
                    reads.fetch_add(1, SeqCst);
                    misses.fetch_add(u32::from(found(disks, number).is_none()), SeqCst);
                    // Objects of this thread alone.
                    let mine = 10_000 + thread * 1000 + turn % 50;
                    let version = own.get(&mine).copied().unwrap_or(0);
                    let now = found(disks, mine);
                    assert!(now.is_none_or(|now| now == version), "{mine}: {now:?} for {version}");
                    match put(disks, mine, version + 1) {
                        Ok(()) => drop(own.insert(mine, version + 1)),
                        // A disk that is opened again declines.
                        Err(Error::Declined(_)) => {
                            // As the cache does: the older one must not be found again.
                            let _ = disks.remove(&key(mine));
                            own.insert(mine, version + 1);
                        }
                        Err(error) => panic!("{error}"),
                    }
                    std::thread::yield_now();
                }
            });
        }
        let resize = |name: &str, bytes: u64| {
            let (spec, opener) = disk(folder.path(), name, bytes);
            disks.resize(&spec, opener, &ready()).expect("resized");
        };
        resize("one", 48 * MIB);
        add(&disks, folder.path(), "two", 32 * MIB);
        let tail = disks.begin_shrinking("one", 24 * MIB).expect("it can be smaller");
        if let Some(tail) = tail {
            drain(&disks, "one", tail);
        }
        resize("one", 24 * MIB);
        disks.begin_leaving("one").expect("known");
        drain(&disks, "one", 0);
        while disks.end_leaving("one").is_err() {}
        add(&disks, folder.path(), "three", 32 * MIB);
        // On a busy machine the readers may have hardly run.
        while reads.load(SeqCst) <= 20 {
            std::thread::yield_now();
        }
        is_over.store(true, SeqCst);
    });
    let (reads, misses) = (reads.load(SeqCst), misses.load(SeqCst));
    assert!(misses == 0, "{misses} of {reads} reads found nothing");
    assert!((0..200).all(|number| found(&disks, number) == Some(1)));
    assert_eq!(paths(&disks), ["two", "three"]);
}

#[test]
fn insert_at_once_goes_round_a_leaving_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open(["one", "two"].map(|name| disk(folder.path(), name, 32 * MIB)));
    disks.begin_leaving("one").expect("known");
    for number in 0..50 {
        let body = Bytes::from(body(number, 4));
        let made = disks.try_insert(&key(number), b"version 4", &body, &|| true).expect("taken");
        assert_ne!(made, TryInsert::WouldBlock);
        assert_eq!((found(&disks, number), disks.disk_index(key(number).hash())), (Some(4), 1));
    }
    assert_eq!(disks.states()[0].usage.objects, 0);
}

#[test]
fn insert_beside_a_copy_stays_unless_it_is_of_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let disks = Disks::open(["one", "two"].map(|name| disk(folder.path(), name, 32 * MIB)));
    for (copied, expected) in [(2, Some(4)), (1, None)] {
        let turn = || disks.shared.carrying.announce(key(copied).hash()).take(|| ()).is_some();
        let made = disks.try_insert(&key(1), b"version 4", &Bytes::from(body(1, 4)), &turn);
        assert_ne!(made.expect("taken"), TryInsert::WouldBlock);
        assert_eq!(found(&disks, 1), expected, "a copy of {copied} became visible meanwhile");
    }
}
