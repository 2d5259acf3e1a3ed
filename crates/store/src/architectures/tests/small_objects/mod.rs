//! Stores that keep small objects in segments of a memory-mapped file (Maltzahn 1999, 2.4.2 to
//! 2.4.4), tried from outside: nothing here knows how a record looks or where it stands, only what
//! the contract promises.

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

/// Makes tests of functions that take an architecture's name: one for each that has segments, and
/// function.
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

/// The sizes of segments (2.4.2).
const SEGMENTS: [usize; 5] = [512, 1024, 2048, 4096, 8192];
/// What a record takes beside its key, its metadata and its body: its header, and the checksum of
/// one block behind it.
const RECORD_OVERHEAD: usize = HEADER_BYTES + 8;
const HEADER_BYTES: usize = 80;

/// A disk of which the mapped file takes so many bytes.
fn world(architecture: &str, disk_bytes: u64, mapped_bytes: u64, max_objects: u64) -> World {
    let mut world = World::new(architecture, disk_bytes, max_objects);
    world.settings.segments.bytes = mapped_bytes;
    world
}

/// A store with room for everything that a test puts into it.
fn roomy(architecture: &str) -> World {
    world(architecture, 16 << 20, 4 << 20, 2_000)
}

/// A store whose segments are all taken after some hundreds of objects.
fn tight(architecture: &str) -> World {
    world(architecture, 2 << 20, 256 << 10, 4_000)
}

/// The path of the mapped file: the one that a new store has beside its signature.
fn mapped_file(architecture: &str) -> String {
    let world = roomy(architecture);
    let _store = world.open();
    let mut files = world.files.files();
    files.retain(|path| path != signature::PATH);
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// The files that hold one object each.
fn large_objects(world: &World, mapped: &str) -> Vec<String> {
    world.object_files().into_iter().filter(|path| path != mapped).collect()
}

/// Inserts a version of an object whose length is told beforehand.
fn put_announced(store: &dyn Store, n: u64, version: u64, length: usize) -> Result<(), Error> {
    let mut insert = store.insert(&key(n), &metadata_of(n, version, length), Some(length as u64))?;
    for part in body_of(n, version, length).chunks(3_000) {
        insert.append(part)?;
    }
    insert.commit(None)
}

/// The longest body of object `n`, version 1, with which a record fits a segment of so many bytes.
fn fitting(n: u64, segment: usize) -> usize {
    segment - RECORD_OVERHEAD - key(n).full().len() - metadata_of(n, 1, segment).len()
}

/// A length about the border of some segment, or any, or one that needs a file.
fn some_length(random: &mut Random) -> usize {
    let border = SEGMENTS[random.below(5) as usize];
    match random.below(6) {
        0 => random.below(8_192) as usize,
        1 => 8_000 + random.below(30_000) as usize,
        2 => random.below(300) as usize,
        _ => border - random.below(200) as usize,
    }
}
