//! Number of calls to the disk, compared with the promise.

use super::world::fetch;
use super::*;
use crate::Store;
use crate::StoreView;
use crate::fs::{Calls, CountingFs};
use std::sync::Arc;

for_each_architecture! {
    a_miss_makes_no_call,
    a_longer_hit_reads_head_body_and_checksums,
}

for_each_architecture_of_files! {
    hit_up_to_64_kib_is_one_open_and_one_read,
    an_insert_writes_whole_buffers,
    eviction_costs_an_unlink_and_nothing_else,
    updates_and_removals_touch_the_head_only,
    opening_reads_nothing_however_much_is_stored,
}

fn counted(world: &World) -> (super::super::files::FileStore, Arc<CountingFs>) {
    let door = Arc::new(CountingFs::new(world.files.clone()));
    let store = world.open_through(door.clone());
    door.take();
    (store, door)
}

/// Returns the calls without the bytes.
fn calls(door: &CountingFs) -> Calls {
    Calls { bytes_read: 0, bytes_written: 0, ..door.take() }
}

fn a_miss_makes_no_call(architecture: &str) {
    let (store, door) = counted(&World::new(architecture, 100 << 20, 1000));
    for n in 0..100 {
        assert!(!store.may_contain(&key(n)));
        assert!(store.open(&key(n)).unwrap().is_none());
    }
    assert_eq!(door.take(), Calls::default());
}

fn hit_up_to_64_kib_is_one_open_and_one_read(architecture: &str) {
    let (store, door) = counted(&World::new(architecture, 100 << 20, 1000));
    for length in [0, 1, 8_000, 65_536] {
        put(&store, 1, 1, length).unwrap();
        door.take();
        assert!(matches(&store, 1, 1, length));
        assert_eq!(calls(&door), Calls { opens: 1, reads: 1, ..Calls::default() }, "{length}");
    }
}

fn a_longer_hit_reads_head_body_and_checksums(architecture: &str) {
    let (store, door) = counted(&World::new(architecture, 100 << 20, 1000));
    put(&store, 1, 1, 1_000_000).unwrap();
    door.take();
    assert!(matches(&store, 1, 1, 1_000_000));
    assert_eq!(calls(&door), Calls { opens: 1, reads: 3, ..Calls::default() });
    let body = store.open(&key(1)).unwrap().unwrap().body;
    body.read(0, 65_536).unwrap();
    door.take();
    body.read(65_536, 65_536).unwrap();
    let calls = door.take();
    assert_eq!((calls.reads, calls.bytes_read), (1, 65_536), "then one read for each part");
}

fn an_insert_writes_whole_buffers(architecture: &str) {
    let (store, door) = counted(&World::new(architecture, 100 << 20, 1000));
    // After this, folders that are made on demand exist.
    (100..120).for_each(|n| put(&store, n, 1, 10).unwrap());
    door.take();
    let block = 65_536;
    for (length, writes) in
        [(0, 1), (8_000, 1), (block, 1), (block + 1, 3), (4 * block, 5), (4 * block + 1, 6)]
    {
        put(&store, length as u64, 1, length).unwrap();
        assert_eq!(calls(&door), Calls { creates: 1, writes, ..Calls::default() }, "{length}");
    }
    put(&store, 0, 2, 10).unwrap();
    let unlinks = u64::from(store.core.released.is_none());
    assert_eq!(calls(&door), Calls { creates: 1, writes: 1, unlinks, ..Calls::default() }, "a replacement");
    store.insert(&key(1), b"m", None).unwrap().append(&[1; 9000]).unwrap();
    assert_eq!(calls(&door), Calls::default(), "given up before it was long");
}

fn eviction_costs_an_unlink_and_nothing_else(architecture: &str) {
    let (store, door) = counted(&World::new(architecture, 100 << 20, 50));
    (0..50).for_each(|n| put(&store, n, 1, 100).unwrap());
    door.take();
    put(&store, 50, 1, 100).unwrap();
    let expected = match store.core.released {
        None => Calls { creates: 1, writes: 1, unlinks: 1, ..Calls::default() },
        // Opened, written, truncated.
        Some(_) => Calls { opens: 1, writes: 1, others: 1, ..Calls::default() },
    };
    assert_eq!(calls(&door), expected);
}

fn updates_and_removals_touch_the_head_only(architecture: &str) {
    let (store, door) = counted(&World::new(architecture, 100 << 20, 1000));
    put(&store, 1, 1, 1_000_000).unwrap();
    door.take();
    store.update_metadata(&key(1), b"fresh again", &|_| true).unwrap();
    let update = door.take();
    assert_eq!((update.opens, update.reads, update.writes, update.creates), (1, 1, 1, 0));
    assert!(update.bytes_written < 4096);
    store.remove(&key(1)).unwrap();
    assert_eq!(calls(&door), Calls { unlinks: 1, ..Calls::default() });
}

fn opening_reads_nothing_however_much_is_stored(architecture: &str) {
    let world = World::new(architecture, 100 << 20, 2000);
    let store = world.open();
    (0..1500).for_each(|n| put(&store, n, 1, 100).unwrap());
    drop(store);
    let door = Arc::new(CountingFs::new(world.files.clone()));
    let store = world.open_through(door.clone());
    assert_eq!(door.take(), Calls { others: 1, ..Calls::default() }, "the question for the block size");
    assert!(fetch(&store, 700).is_some());
}
