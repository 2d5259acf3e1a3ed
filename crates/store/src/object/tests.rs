//! Tests of the format: the written object is read back, and no damage passes.

use super::*;
use crate::fs::{Access, File, FileSystem, MemoryFs, write_full};
use crate::{Error, StoredBody};
use parking_lot::Mutex;
use proptest::prelude::*;
use shoal_core::ObjectKey;
use std::sync::Arc;

/// Target without limits, under one path.
struct Free(Arc<MemoryFs>);

impl InsertTarget for Free {
    fn reserve(&self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn create(&self) -> Result<Box<dyn File>, Error> {
        Ok(self.0.create("object").unwrap())
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Disk { action: "write", source }
    }
}

/// Owner that remembers the reports it gets.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<&'static str>>>);

impl BodyOwner for Reports {
    fn found_corrupt(&self, part: &'static str) {
        self.0.lock().push(part);
    }

    fn failed(&self, _: &std::io::Error) {
        self.0.lock().push("disk");
    }
}

fn key() -> ObjectKey {
    ObjectKey::new(&b"GET http://example.org/"[..])
}

fn body(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 % 251) as u8).collect()
}

fn written(length: usize) -> Arc<MemoryFs> {
    let files = Arc::new(MemoryFs::new(1 << 30));
    let writing = ObjectWriter::new(key(), 77, 5, 3, Free(Arc::clone(&files)));
    writing.append(&body(length)).unwrap();
    writing.complete(b"old metadata").unwrap();
    files
}

/// Opens and reads the whole object; `None` for all cases that count as a miss.
fn read_back(files: &MemoryFs) -> Option<(Vec<u8>, Vec<u8>)> {
    let file = files.open("object", Access::Read).ok()?;
    let length = files.length("object").ok()?.next_multiple_of(4096);
    let head = read_head(&*file, 5, length, Some(&key())).ok()?;
    let metadata = head.metadata.to_vec();
    let opened = OpenBody::new(&head, file, Reports::default());
    Some((metadata, opened.read(0, usize::MAX).ok()?.to_vec()))
}

#[test]
fn bodies_of_all_lengths_round_trip() {
    for length in [0, 1, 4096, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES, 300_001] {
        let files = written(length);
        let header = ObjectHeader { body_bytes: length as u64, ..header_of(&files) };
        assert_eq!(files.length("object").unwrap(), header.file_bytes(), "{length}");
        assert_eq!(read_back(&files), Some((b"old metadata".to_vec(), body(length))), "{length}");
    }
}

fn header_of(files: &MemoryFs) -> ObjectHeader {
    let file = files.open("object", Access::Read).unwrap();
    read_head(&*file, 5, 1 << 20, Some(&key())).unwrap().header
}

#[test]
fn parts_of_a_body_are_read_where_asked() {
    let files = written(200_000);
    let file = files.open("object", Access::Read).unwrap();
    let head = read_head(&*file, 5, 1 << 20, None).unwrap();
    let opened = OpenBody::new(&head, file, Reports::default());
    let expected = body(200_000);
    for (offset, limit) in
        [(0, 1), (65_535, 2), (65_536, 65_536), (131_000, 69_000), (199_999, 9), (200_000, 9)]
    {
        let end = (offset + limit).min(200_000);
        assert_eq!(opened.read(offset as u64, limit).unwrap(), &expected[offset..end], "{offset}");
    }
    assert_eq!(opened.read(u64::MAX, usize::MAX).unwrap().len(), 0);
}

#[test]
fn a_body_is_readable_while_it_is_written() {
    let files = Arc::new(MemoryFs::new(1 << 30));
    let writing = ObjectWriter::new(key(), 77, 5, 3, Free(files));
    let expected = body(200_000);
    for part in expected.chunks(7_001) {
        writing.append(part).unwrap();
        let length = writing.length() as usize;
        assert_eq!(writing.read(0, usize::MAX).unwrap(), &expected[..length]);
        assert_eq!(
            writing.read(length as u64 / 2, 1000).unwrap(),
            expected[length / 2..length][..1000.min(length - length / 2)]
        );
    }
}

#[test]
fn an_object_that_is_not_complete_is_none() {
    let files = Arc::new(MemoryFs::new(1 << 30));
    let writing = ObjectWriter::new(key(), 77, 5, 3, Free(Arc::clone(&files)));
    writing.append(&body(200_000)).unwrap();
    assert!(writing.has_file());
    assert_eq!(read_back(&files), None);
}

#[test]
fn other_keys_and_other_numbers_are_told_apart() {
    let files = written(10);
    let file = files.open("object", Access::Read).unwrap();
    let other = ObjectKey::new(&b"GET http://example.org/other"[..]);
    assert!(matches!(read_head(&*file, 5, 4096, Some(&other)), Err(ObjectMismatch::Corrupt(_))));
    assert!(matches!(read_head(&*file, 6, 4096, Some(&key())), Err(ObjectMismatch::Corrupt(_))));
}

#[test]
fn metadata_change_in_place_torn_is_noticed() {
    let files = written(100_000);
    let header = header_of(&files);
    let metadata = vec![b'n'; header.metadata_room as usize];
    let head =
        ObjectHeader { metadata_bytes: metadata.len() as u32, ..header }.encode(key().full(), &metadata);
    let file = files.open("object", Access::Write).unwrap();
    for torn in [79, 90, head.len() - 1] {
        write_full(&*file, &head[..torn], 0).unwrap();
        assert_eq!(read_back(&files), None, "{torn}");
    }
    write_full(&*file, &head, 0).unwrap();
    assert_eq!(read_back(&files), Some((metadata, body(100_000))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_passes(
        length in 0_usize..140_000,
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let files = written(length);
        let before = read_back(&files);
        files.tamper("object", |bytes| {
            for (at, flip) in changes {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
        });
        // Damage in the slack, or that undoes itself, does no harm; other damage is a miss.
        let after = read_back(&files);
        prop_assert!(after.is_none() || after == before);
    }

    #[test]
    fn arbitrary_files_are_misses(bytes in prop::collection::vec(any::<u8>(), 0..300), ours in any::<bool>()) {
        let files = written(10);
        files.tamper("object", |content| {
            *content = bytes;
            if ours && content.len() > 12 {
                content[..12].copy_from_slice(b"SHOALOBJ\x01\x00\x01\x00");
            }
        });
        prop_assert!(read_back(&files).is_none());
    }
}

#[test]
fn the_largest_body_fills_a_file_to_the_byte() {
    for file_bytes in [0u64, 100, 4096, 4097, 65_536, 65_800, 65_900, 131_300, 5_000_000] {
        for (key_bytes, metadata_bytes) in [(1, 0), (60, 0), (60, 300), (2000, 900)] {
            let body_bytes = body_within(file_bytes, key_bytes, metadata_bytes);
            let metadata_room = ObjectHeader::room_for(key_bytes, metadata_bytes);
            let file = |body_bytes| {
                let key = shoal_core::Key::of(b"");
                let header = ObjectHeader {
                    key,
                    sequence: 1,
                    number: 1,
                    key_bytes,
                    metadata_bytes,
                    metadata_room,
                    body_bytes,
                };
                header.file_bytes()
            };
            assert!(body_bytes == 0 || file(body_bytes) <= file_bytes, "{file_bytes} {key_bytes}");
            assert!(file(body_bytes + 1) > file_bytes, "{file_bytes} {key_bytes} {metadata_bytes}");
        }
    }
}

#[test]
fn record_without_slack_takes_stated_bytes() {
    for (stored, key_bytes, metadata_bytes) in [(512, 40, 0), (1024, 99, 300), (8192, 1, 0), (300, 100, 12)] {
        let header = ObjectHeader {
            key: shoal_core::Key::of(b"key"),
            sequence: 1,
            number: 0,
            key_bytes,
            metadata_bytes,
            metadata_room: metadata_bytes,
            body_bytes: body_within_tight(stored, key_bytes, metadata_bytes),
        };
        assert_eq!(header.file_bytes(), stored);
    }
    assert_eq!(body_within_tight(100, 100, 0), 0);
}
