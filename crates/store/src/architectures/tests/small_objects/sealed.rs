//! Forged records are refused wherever the index leads; records of earlier versions are migrated.

use super::*;
use crate::architectures::files::FileStore;
use crate::architectures::segments::{self, SegmentLocation};
use crate::fs::{Access, File, FileSystem, Mapping, read_full};
use crate::index::{IndexedObject, NumberState};
use crate::object::{HEADER_CHECK, read_head};
use shoal_policy::SegmentClass;

for_each_with_segments! {
    a_record_in_the_body_of_another_is_none,
    a_file_of_an_earlier_version_is_taken_over,
    earlier_file_is_migrated_after_interrupted_try,
    earlier_objects_are_misses_after_power_loss,
}

/// Name of the mapped file in earlier versions.
const UNSEALED: &str = "segments";

/// Returns the index entries of objects in segments.
fn small(store: &FileStore) -> Vec<(IndexedObject, SegmentLocation)> {
    let numbers = 0..store.core.index.geometry().max_objects;
    let seen = numbers.filter_map(|number| match store.core.index.examine(number) {
        NumberState::Stored(found, _) => {
            store.core.place_of_side(found.side).map(|(_, place)| (found, place))
        }
        _ => None,
    });
    seen.collect()
}

fn mapping(world: &World, path: &str) -> Box<dyn Mapping> {
    world.files.map(path, world.files.length(path).unwrap()).unwrap()
}

/// Returns the object file in a segment, as it is specified.
fn record(store: &FileStore, found: IndexedObject) -> Vec<u8> {
    let file = store.core.open_bytes(found.number, found.side, Access::Read).unwrap();
    let mut bytes = vec![0; 8192];
    let length = read_full(&*file, &mut bytes, 0).unwrap();
    bytes.truncate(length);
    bytes
}

/// Returns the position of the needle.
fn position(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|bytes| bytes == needle)
}

/// File of these bytes, as a forger sees the forgery.
struct Plain(Vec<u8>);

impl File for Plain {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> std::io::Result<usize> {
        unreachable!("it is only read")
    }

    fn set_length(&self, _: u64) -> std::io::Result<()> {
        unreachable!("it is only read")
    }

    fn sync(&self) -> std::io::Result<()> {
        unreachable!("it is only read")
    }
}

/// The forger even knows the victim's record byte by byte, except for its sealed check on disk.
fn a_record_in_the_body_of_another_is_none(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    put(&store, 1, 1, 100).unwrap();
    let (victim, own_place) = small(&store)[0];
    assert_eq!(own_place.bytes(), 512);
    let forged = record(&store, victim);
    let forge = |padding: usize| {
        let body = [vec![7; padding], forged.clone(), vec![7; 2000 - padding]].concat();
        let mut insert = store.insert(&key(2), b"of the forger", Some(body.len() as u64)).unwrap();
        insert.append(&body).unwrap();
        insert.commit(None).unwrap();
        let (found, place) =
            small(&store).into_iter().find(|(found, _)| found.number != victim.number).unwrap();
        place.offset() + position(&record(&store, found), &forged).unwrap() as u64
    };
    // Aligned like a segment.
    let at = forge((512 - forge(0) % 512) as usize);
    assert_eq!(at % 512, 0);
    read_head(&Plain(forged.clone()), victim.number, 512, Some(&key(1)))
        .expect("it is a record by its looks");
    let mut on_disk = vec![0; 512];
    mapping(&world, segments::PATH).read(&mut on_disk, at).unwrap();
    assert_eq!(on_disk, forged);
    assert!(matches(&store, 1, 1, 100));
    let astray = SegmentLocation::at(at, SegmentClass::ALL[0]).unwrap();
    store.core.index.update_side(victim, astray.side());
    assert_eq!(fetch(&store, 1), None);
}

/// Converts the store to an earlier version's, but one record in `sealed_one_in` stays sealed.
fn as_of_earlier_version(world: &World, store: &FileStore, sealed_one_in: u32) {
    for (found, place) in small(store) {
        if found.number % sealed_one_in != 0 || sealed_one_in == 1 {
            let plain = record(store, found);
            let at = place.offset() + HEADER_CHECK.start as u64;
            mapping(world, segments::PATH).write(&plain[HEADER_CHECK], at).unwrap();
        }
    }
    world.files.rename(segments::PATH, UNSEALED).unwrap();
}

/// Makes a closed store of fifty objects as an earlier version leaves it.
fn left(architecture: &str, sealed_one_in: u32) -> World {
    let world = roomy(architecture);
    let store = world.open();
    (0..50).for_each(|n| put(&store, n, 1, n as usize * 150).unwrap());
    assert!(small(&store).len() > 40);
    store.close().unwrap();
    as_of_earlier_version(&world, &store, sealed_one_in);
    world
}

fn is_taken_over(world: &World) {
    for _ in 0..2 {
        let store = world.open();
        assert!((0..50).all(|n| matches(&store, n, 1, n as usize * 150)));
        assert!(world.files.length(UNSEALED).is_err(), "it has its new name");
        for (found, place) in small(&store) {
            let mut on_disk = vec![0; 512];
            mapping(world, segments::PATH).read(&mut on_disk, place.offset()).unwrap();
            assert_ne!(on_disk[HEADER_CHECK], record(&store, found)[HEADER_CHECK], "it is sealed");
        }
        store.close().unwrap();
    }
}

fn a_file_of_an_earlier_version_is_taken_over(architecture: &str) {
    is_taken_over(&left(architecture, 1));
}

fn earlier_file_is_migrated_after_interrupted_try(architecture: &str) {
    is_taken_over(&left(architecture, 3));
}

fn earlier_objects_are_misses_after_power_loss(architecture: &str) {
    let mut world = left(architecture, 1);
    // Used, and not closed.
    let store = world.open();
    put(&store, 60, 1, 30_000).unwrap();
    as_of_earlier_version(&world, &store, 1);
    drop(store);
    world.boot += 1;
    let store = world.open();
    assert!(world.files.length(UNSEALED).is_err(), "it is gone");
    assert!((0..50).all(|n| fetch(&store, n).is_none_or(|_| n * 150 > 7_000)));
    put(&store, 3, 2, 500).unwrap();
    maintain(&store.core);
    put(&store, 4, 2, 500).unwrap();
    assert!(matches(&store, 3, 2, 500) && matches(&store, 4, 2, 500));
}
