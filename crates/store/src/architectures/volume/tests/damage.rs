//! Flipped bits and failing disks: misses, never a wrong byte, and the store continues.

use super::*;
use crate::StoreView;
use crate::architectures::volume::format::VolumeGeometry;
use crate::architectures::volume::opening::plan;
use crate::fs::{Faults, FaultyFs, PAGE_BYTES};

#[test]
fn flipped_bits_are_misses() {
    for seed in 0..60 {
        let world = World::new(4 << 20);
        let store = world.open();
        for number in 0..150 {
            put(&store, number, 1, (number as usize * 97) % 9000).unwrap();
        }
        put(&store, 150, 1, 200_000).unwrap();
        if seed % 2 == 0 {
            store.close().unwrap()
        } else {
            store.write_all()
        }
        drop(store);
        let mut random = Random(seed);
        for path in [DATA, INDEX] {
            // Opening checks the superblock and refuses a damaged one.
            let from = if path == DATA { 4096 } else { 0 };
            world.files.tamper(path, |bytes| {
                for _ in 0..200 {
                    let at = from + random.below((bytes.len() - from) as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
            });
        }
        let store = world.open();
        let found = (0..150).filter(|number| version_of(&store, *number).is_some()).count();
        assert!(found > 50, "seed {seed}: {found} of 150 are left");
        if let Ok(Some(large)) = store.open(&key(150)) {
            let body = body_of(150, 1, 200_000);
            for piece in 0..4_usize {
                if let Ok(read) = large.body.read(piece as u64 * 65_536, 65_536) {
                    assert!(body[piece * 65_536..].starts_with(&read), "seed {seed}");
                }
            }
        }
        for number in 500..600 {
            put(&store, number, 1, 5000).unwrap();
        }
        store.write_all();
        assert!((500..600).all(|number| version_of(&store, number) == Some(1)), "seed {seed}");
    }
}

/// After a kill the last writes may be partial, which is no damage; older records must be intact.
#[test]
fn damage_is_counted_after_a_kill_too() {
    let mut world = World::new(48 << 20);
    world.settings.max_objects = 50_000;
    let store = world.open();
    (0..4000).for_each(|number| put(&store, number, 1, 9000).unwrap());
    store.write_all();
    let position = |number: u32| store.position(&key(number)).expect("on the disk") as usize;
    let (early, late) = (position(2000), position(3999));
    drop(store);
    let flip = |at: usize| world.files.tamper(DATA, |bytes| bytes[at + 4000] ^= 4);
    flip(early);
    flip(late);
    let store = world.open();
    for (number, corrupt) in [(3999, 0), (2000, 1)] {
        assert_eq!((version_of(&store, number), store.usage().corrupt), (None, corrupt), "{number}");
    }
    // Records of this process are in no doubt, anywhere.
    put(&store, 3999, 2, 9000).unwrap();
    let volume = &store.volume;
    let end = volume.writer.lock().stripe;
    while volume.writer.lock().stripe == end {
        put(&store, 5000 + store.usage().objects as u32, 1, 9000).unwrap();
    }
    put(&store, 3999, 3, 9000).unwrap();
    store.write_all();
    flip(store.position(&key(3999)).expect("on the disk") as usize);
    volume.reader.windows.forget(0..u64::MAX);
    assert_eq!((version_of(&store, 3999), store.usage().corrupt), (None, 2));
}

/// As after a power loss that kept the last writes to the log and lost those to the index.
#[test]
fn older_record_in_newer_place_is_refused() {
    let world = World::new(4 << 20);
    let store = world.open();
    put(&store, 1, 1, 4000).unwrap();
    store.write_all();
    let hash = key(1).hash();
    let place = |store: &VolumeStore| {
        store.volume.directory.table.candidates(hash).next().map(|entry| entry.position())
    };
    let first = place(&store).expect("it is there");
    let (last, stripe_bytes) = (store.volume.geometry.stripes - 1, store.volume.geometry.stripe_bytes);
    for number in (100..).take_while(|_| store.volume.writer.lock().stripe < last) {
        put(&store, number, 1, 8000).unwrap();
        store.write_all();
    }
    // The next stripe is the first, which begins again.
    store.volume.writer.lock().offset = stripe_bytes;
    let mut before = Vec::new();
    world.files.tamper(DATA, |bytes| before.clone_from(bytes));
    put(&store, 1, 2, 4000).unwrap();
    store.write_all();
    assert_eq!((place(&store), version_of(&store, 1)), (Some(first), Some(2)));
    store.volume.write_checkpoint().unwrap();
    drop(store);
    world.files.tamper(DATA, |bytes| bytes.clone_from(&before));
    assert_eq!(version_of(&world.open(), 1), None);
}

#[test]
fn a_superblock_that_makes_no_sense_is_refused() {
    let sound = World::new(4 << 20).open().volume.geometry;
    for geometry in [
        VolumeGeometry { stripe_bytes: 0, ..sound },
        VolumeGeometry { stripe_bytes: sound.stripe_bytes + 8, ..sound },
        VolumeGeometry { stripe_bytes: 1 << 63, ..sound },
        VolumeGeometry { stripes: 0, ..sound },
        VolumeGeometry { stripes: u32::MAX, ..sound },
        VolumeGeometry { buckets: 0, ..sound },
        VolumeGeometry { buckets: u64::MAX / 8, ..sound },
    ] {
        let world = World::new(4 << 20);
        drop(world.open());
        world.files.tamper(DATA, |bytes| {
            bytes[..4096].copy_from_slice(&geometry.encode());
            bytes[4096..8192].copy_from_slice(&geometry.encode());
        });
        let refusal = world.try_open(world.files.clone()).err().expect("refused").to_string();
        assert!(refusal.contains("no size that a volume may have"), "{geometry:?}: {refusal}");
    }
}

#[test]
fn a_volume_takes_four_tebibytes_of_a_larger_disk() {
    let mut world = World::new(4 << 20);
    world.settings.disk_bytes = 9 << 40;
    let geometry = plan(&world.settings, 9 << 40, 1).expect("a plan");
    assert!(geometry.volume_bytes() <= 4 << 40 && geometry.volume_bytes() > (4 << 40) - (1 << 20));
    assert_eq!(VolumeGeometry::decode(&geometry.encode()), Ok(geometry));
}

#[test]
fn a_damaged_superblock_is_refused_with_the_way_out() {
    let world = World::new(4 << 20);
    let store = world.open();
    put(&store, 1, 1, 5000).unwrap();
    store.close().unwrap();
    drop(store);
    world.files.tamper(DATA, |bytes| bytes[20] ^= 4);
    assert_eq!(version_of(&world.open(), 1), Some(1), "the other copy is whole");
    world.files.tamper(DATA, |bytes| bytes[4096 + 20] ^= 4);
    let outcome = world.try_open(world.files.clone()).err().expect("it is damaged");
    assert!(outcome.to_string().contains("remove it"), "{outcome}");
}

#[test]
fn index_with_torn_header_uses_previous_one() {
    for page in 0..2 {
        let world = World::new(4 << 20);
        for number in 0..5 {
            let store = world.open();
            put(&store, number, 1, 5000).unwrap();
            store.close().unwrap();
        }
        world.files.tamper(INDEX, |bytes| bytes[page * 4096 + 20] ^= 4);
        let store = world.open();
        assert!((0..5).all(|number| version_of(&store, number) == Some(1)), "page {page}");
        assert!(store.volume.directory.table.objects() >= 4, "the index was made anew");
    }
}

#[test]
fn a_disk_that_fails_now_and_then_costs_misses() {
    for seed in 0..30 {
        let world = World::new(4 << 20);
        drop(world.open());
        let faults = Faults::new(seed).errors(20).torn(20);
        let Ok(store) = world.try_open_unrecovered(Arc::new(FaultyFs::new(world.files.clone(), faults)))
        else {
            continue;
        };
        store.volume.recover_step(100);
        let mut random = Random(seed);
        for step in 0..800 {
            let number = random.below(100) as u32;
            if random.below(2) == 0 {
                drop(put(&store, number, step, random.length() / 4));
            } else if let Ok(Some(stored)) = store.open(&key(number)) {
                let length = stored.body.length();
                if let Ok(read) = stored.body.read(0, length as usize) {
                    let text = String::from_utf8(stored.metadata.to_vec()).unwrap();
                    let version = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap();
                    assert!(body_of(number, version, length as usize).starts_with(&read), "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn reads_that_come_in_parts_are_put_together() {
    let world = World::new(4 << 20);
    drop(world.open());
    let faults = Faults::new(3).short(700);
    let door = Arc::new(FaultyFs::new(world.files.clone(), faults));
    let store = world.try_open(door.clone()).unwrap();
    for number in 0..100 {
        put(&store, number, 1, (number as usize * 197) % 90_000).unwrap();
    }
    store.write_all();
    assert!((0..100).all(|number| version_of(&store, number) == Some(1)));
    drop(store);
    let store = world.try_open(door).unwrap();
    assert!((0..100).all(|number| version_of(&store, number) == Some(1)), "and so is the log after a crash");
}

/// Disks with a false size are sold: writes past their end go to their beginning, or nowhere.
#[test]
fn disk_smaller_than_reported_serves_nothing_wrong() {
    for pages in [300, 517, 700] {
        let world = World::new(4 << 20);
        drop(world.open());
        let faults = || Faults::new(1).wraps_at(pages * PAGE_BYTES as u64);
        let door = Arc::new(FaultyFs::new(world.files.clone(), faults()));
        let store = world.try_open(door.clone()).unwrap();
        let mut hits = 0;
        for number in 0..1000 {
            put(&store, number, 1, (number as usize * 97) % 20_000).unwrap();
            if number % 9 == 0 {
                // Each hit has been compared.
                hits += (0..=number)
                    .rev()
                    .take(200)
                    .filter(|number| version_of(&store, *number).is_some())
                    .count();
            }
        }
        assert!(hits > 3_000, "{pages} pages: what is there is served: {hits}");
        drop(store);
        let outcome = world.try_open(door);
        let Ok(store) = outcome else {
            // The superblock may have been overwritten.
            continue;
        };
        let found = (0..1000).filter(|number| version_of(&store, *number).is_some()).count();
        assert!(found > 20, "{pages} pages: {found} of the last are left");
    }
}

#[test]
fn truncation_in_use_costs_misses() {
    let world = World::new(4 << 20);
    let store = world.open();
    for number in 0..200 {
        put(&store, number, 1, 9000).unwrap();
    }
    store.write_all();
    world.files.tamper(DATA, |bytes| bytes.truncate(1 << 20));
    let found = (0..200).filter(|number| version_of(&store, *number).is_some()).count();
    assert!((50..200).contains(&found), "{found} of 200 are left");
}

#[test]
fn disk_without_space_is_refused_with_advice() {
    for seed in 0..20 {
        let world = World::new(4 << 20);
        let door = Arc::new(FaultyFs::new(world.files.clone(), Faults::new(seed).full(1000)));
        let outcome = world.try_open(door).err().expect("there is no space");
        assert!(matches!(outcome, Error::Unusable(_)), "{outcome}");
        let store = world.open();
        put(&store, 1, 1, 100).unwrap();
        assert_eq!(version_of(&store, 1), Some(1), "what was left of the attempt does no harm");
    }
}

#[test]
fn a_disk_that_goes_on_failing_is_left_alone() {
    let world = World::new(4 << 20);
    drop(world.open());
    let store = world.try_open(world.files.clone()).unwrap();
    store.close().unwrap();
    drop(store);
    let store = world.try_open_unrecovered(world.files.clone()).unwrap();
    store.volume.recover_step(1);
    for _ in 0..super::super::FAILURES_MAX {
        store.volume.file.failed("read from the volume", std::io::ErrorKind::TimedOut.into());
    }
    let outcome = put(&store, 1, 1, 100);
    assert!(matches!(outcome, Err(Error::Declined(crate::InsertRefusal::OutOfService))));
}
