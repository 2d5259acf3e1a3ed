//! Stores that keep small objects in segments of a memory-mapped file (Maltzahn 1999, 2.4.2 to
//! 2.4.4), tested from outside. The tests use only the contract, not the layout or the place of a
//! record.

mod budget;
mod crash;
mod damage;
mod limits;
mod notes;
mod power;
mod sealed;
mod use_cases;

use super::world::{Random, fetch, maintain, metadata_of};
use super::{World, body_of, key, matches, put};
use crate::architectures::signature;
use crate::{Error, Store};

/// Makes tests from functions that take an architecture's name: one for each function and
/// architecture with segments.
macro_rules! for_each_with_segments {
    ($($test:ident,)*) => {
        for_each_with_segments!(@ squidm $($test,)*);
        for_each_with_segments!(@ squidml $($test,)*);
        for_each_with_segments!(@ squidmla $($test,)*);
    };
    (@ $architecture:ident $($test:ident,)*) => {
        mod $architecture {
            $(#[test]
            fn $test() {
                super::$test(stringify!($architecture));
            })*
        }
    };
}
use for_each_with_segments;

/// Sizes of segments (2.4.2).
const SEGMENTS: [usize; 5] = [512, 1024, 2048, 4096, 8192];
/// Bytes of a record beside its key, metadata and body: its header, and the checksum of one block
/// behind it.
const RECORD_OVERHEAD: usize = HEADER_BYTES + 8;
const HEADER_BYTES: usize = 80;

/// Makes a disk with a mapped file of `mapped_bytes` bytes.
fn world(architecture: &str, disk_bytes: u64, mapped_bytes: u64, max_objects: u64) -> World {
    let mut world = World::new(architecture, disk_bytes, max_objects);
    world.settings.segments.bytes = mapped_bytes;
    world
}

/// Makes a store with room for all objects of a test.
fn roomy(architecture: &str) -> World {
    world(architecture, 16 << 20, 4 << 20, 2_000)
}

/// Makes a store in which some hundreds of objects take all segments.
fn tight(architecture: &str) -> World {
    world(architecture, 2 << 20, 256 << 10, 4_000)
}

/// Returns the path of the mapped file: a new store's only file beside the signature.
fn mapped_file(architecture: &str) -> String {
    let world = roomy(architecture);
    let _store = world.open();
    let mut files = world.files.files();
    files.retain(|path| path != signature::PATH);
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// Returns the files that hold one object each.
fn large_objects(world: &World, mapped: &str) -> Vec<String> {
    world.object_files().into_iter().filter(|path| path != mapped).collect()
}

/// Inserts a version of an object with its length announced.
fn put_announced(store: &dyn Store, n: u64, version: u64, length: usize) -> Result<(), Error> {
    let mut insert = store.insert(&key(n), &metadata_of(n, version, length), Some(length as u64))?;
    for part in body_of(n, version, length).chunks(3_000) {
        insert.append(part)?;
    }
    insert.commit(None)
}

/// Returns the longest body of object `n`, version 1, with a record that fits a segment of
/// `segment` bytes.
fn fitting(n: u64, segment: usize) -> usize {
    segment - RECORD_OVERHEAD - key(n).full().len() - metadata_of(n, 1, segment).len()
}

/// Returns a length near a segment's border, or any length, or one that needs a file.
fn some_length(random: &mut Random) -> usize {
    let border = SEGMENTS[random.below(5) as usize];
    match random.below(6) {
        0 => random.below(8_192) as usize,
        1 => 8_000 + random.below(30_000) as usize,
        2 => random.below(300) as usize,
        _ => border - random.below(200) as usize,
    }
}
