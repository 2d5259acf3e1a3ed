//! Number of calls to the disk for small objects: the purpose of the memory-mapped file (2.4.2).

use super::*;
use crate::StoreView;
use crate::architectures::files::FileStore;
use crate::fs::{Calls, CountingFs};
use std::sync::Arc;

for_each_with_segments! {
    a_miss_makes_no_call,
    hit_is_one_read_of_mapped_file,
    an_insert_is_one_write_to_the_mapped_file,
    replacement_in_full_store_touches_no_file,
    an_insert_given_up_while_it_is_small_makes_no_call,
    a_removal_makes_no_call,
    metadata_is_updated_with_one_read_and_one_write,
    opening_reads_nothing_however_much_is_stored,
}

fn counted(world: &World) -> (FileStore, Arc<CountingFs>) {
    let door = Arc::new(CountingFs::new(world.files.clone()));
    let store = world.open_through(door.clone());
    door.take();
    (store, door)
}

/// Returns the calls without the bytes.
fn calls(door: &CountingFs) -> Calls {
    Calls { bytes_read: 0, bytes_written: 0, ..door.take() }
}

fn one_read() -> Calls {
    Calls { map_reads: 1, ..Calls::default() }
}

fn one_write() -> Calls {
    Calls { map_writes: 1, ..Calls::default() }
}

fn a_miss_makes_no_call(architecture: &str) {
    let (store, door) = counted(&roomy(architecture));
    (0..50).for_each(|n| put(&store, n, 1, 100).unwrap());
    door.take();
    for n in 100..200 {
        assert!(!store.may_contain(&key(n)));
        assert!(store.open(&key(n)).unwrap().is_none());
    }
    assert_eq!(door.take(), Calls::default());
}

fn hit_is_one_read_of_mapped_file(architecture: &str) {
    let (store, door) = counted(&roomy(architecture));
    for segment in SEGMENTS {
        let length = fitting(1, segment);
        put(&store, 1, 1, length).unwrap();
        door.take();
        assert!(matches(&store, 1, 1, length));
        let made = door.take();
        assert!(made.bytes_read <= segment as u64, "{} bytes read of {segment}", made.bytes_read);
        assert_eq!(Calls { bytes_read: 0, ..made }, one_read(), "{segment}");
    }
}

fn an_insert_is_one_write_to_the_mapped_file(architecture: &str) {
    let (store, door) = counted(&roomy(architecture));
    // The first insert may raise the index's ceiling, which is not a call to the files.
    for (n, segment) in (0..).zip(SEGMENTS.repeat(3)) {
        let put = if n % 2 == 0 { put } else { put_announced };
        put(&store, n, 1, fitting(n, segment)).unwrap();
        let made = door.take();
        assert!(made.bytes_written <= segment as u64, "{} bytes written for {segment}", made.bytes_written);
        assert_eq!(Calls { bytes_written: 0, ..made }, one_write(), "{segment}");
    }
}

fn replacement_in_full_store_touches_no_file(architecture: &str) {
    let (store, door) = counted(&tight(architecture));
    let length = fitting(99_999, 2048);
    let first = (0..3_000).find(|n| {
        put(&store, *n, 1, length).unwrap();
        store.usage().evictions > 20
    });
    let first = first.expect("it is full in the end") + 1;
    door.take();
    for n in first..first + 200 {
        put(&store, n, 1, length).unwrap();
        assert_eq!(calls(&door), one_write());
        assert!(matches(&store, n, 1, length));
        assert_eq!(calls(&door), one_read());
    }
    assert!(store.usage().evictions > 200);
}

fn an_insert_given_up_while_it_is_small_makes_no_call(architecture: &str) {
    let (store, door) = counted(&roomy(architecture));
    for announced in [None, Some(3_000)] {
        store.insert(&key(1), b"m", announced).unwrap().append(&[1; 3_000]).unwrap();
        assert_eq!(calls(&door), Calls::default());
    }
}

fn a_removal_makes_no_call(architecture: &str) {
    let (store, door) = counted(&roomy(architecture));
    put(&store, 1, 1, 3_000).unwrap();
    door.take();
    assert!(store.remove(&key(1)).unwrap());
    assert_eq!(calls(&door), Calls::default());
}

fn metadata_is_updated_with_one_read_and_one_write(architecture: &str) {
    let (store, door) = counted(&roomy(architecture));
    put(&store, 1, 1, 3_000).unwrap();
    door.take();
    assert!(store.update_metadata(&key(1), b"fresh again", &|_| true).unwrap());
    assert_eq!(calls(&door), Calls { map_reads: 1, map_writes: 1, ..Calls::default() });
}

fn opening_reads_nothing_however_much_is_stored(architecture: &str) {
    let world = roomy(architecture);
    let store = world.open();
    let door = Arc::new(CountingFs::new(world.files.clone()));
    drop(store);
    drop(world.open_through(door.clone()));
    let when_empty = calls(&door);
    let store = world.open();
    (0..1_500).for_each(|n| put(&store, n, 1, 100).unwrap());
    drop(store);
    let store = world.open_through(door.clone());
    let when_full = calls(&door);
    assert_eq!(when_full, when_empty);
    // The reads of the secret in the signature, in one file.
    assert_eq!((when_full.map_reads, when_full.reads, when_full.opens), (0, 2, 1));
    assert!(fetch(&store, 700).is_some());
}
