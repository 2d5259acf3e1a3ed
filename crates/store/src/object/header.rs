//! Head of an object file: its fixed header, the full key, the metadata.

use super::{BLOCK_BYTES, CHECK_BYTES};
use crate::fs::File;
use bytes::Bytes;
use shoal_core::{Key, ObjectKey};
use std::io;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Fixed part of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ObjectHeader {
    pub(crate) key: Key,
    /// Sequence number; later objects have greater ones.
    pub(crate) sequence: u64,
    pub(crate) number: u32,
    pub(crate) key_bytes: u32,
    pub(crate) metadata_bytes: u32,
    /// Room for metadata, slack included.
    pub(crate) metadata_room: u32,
    pub(crate) body_bytes: u64,
}

/// Head that passed its checks.
pub(crate) struct ObjectHead {
    pub(crate) header: ObjectHeader,
    pub(crate) metadata: Bytes,
    /// Bytes of the file from its beginning, as far as read.
    pub(crate) lead: Bytes,
}

/// Reason why a file is not the object wanted.
#[derive(Debug)]
pub(crate) enum ObjectMismatch {
    /// Another object has the same hash.
    OtherKey,
    /// The file is damaged, incomplete, or of another version.
    Corrupt(&'static str),
    /// The disk failed.
    Disk(io::Error),
}

impl ObjectHeader {
    /// Returns the room for metadata of `metadata_bytes` bytes. Some more headers, and later ones,
    /// fit without a rewrite.
    pub(crate) fn room_for(key_bytes: u32, metadata_bytes: u32) -> u32 {
        let wanted = metadata_bytes + (metadata_bytes / 8).max(SLACK_MIN);
        let end = (HEADER_BYTES as u32 + key_bytes + wanted).next_multiple_of(BODY_ALIGN);
        let room = end - HEADER_BYTES as u32 - key_bytes;
        debug_assert!(room >= wanted, "less room than was asked for");
        room
    }

    /// Returns the offset of the body.
    pub(crate) fn body_at(&self) -> u64 {
        Self::body_at_after(self.key_bytes, self.metadata_room)
    }

    /// Returns the offset of a body after a key and room for metadata of these lengths.
    pub(crate) fn body_at_after(key_bytes: u32, metadata_room: u32) -> u64 {
        HEADER_BYTES as u64 + u64::from(key_bytes) + u64::from(metadata_room)
    }

    /// Returns the offset of the checksums.
    pub(crate) fn checks_at(&self) -> u64 {
        self.body_at() + self.body_bytes
    }

    /// Returns the number of the body's blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.body_bytes.div_ceil(BLOCK_BYTES as u64)
    }

    /// Returns the length of the whole file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.checks_at() + self.blocks() * CHECK_BYTES as u64
    }

    /// Returns the head's bytes up to the end of the metadata, marked complete.
    pub(crate) fn encode(&self, full_key: &[u8], metadata: &[u8]) -> Vec<u8> {
        assert_eq!(full_key.len(), self.key_bytes as usize);
        assert_eq!(metadata.len(), self.metadata_bytes as usize);
        let mut head = Vec::with_capacity(HEADER_BYTES + full_key.len() + metadata.len());
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&COMPLETE.to_le_bytes());
        head.extend_from_slice(&self.key_bytes.to_le_bytes());
        head.extend_from_slice(&self.key.to_bytes());
        head.extend_from_slice(&self.sequence.to_le_bytes());
        head.extend_from_slice(&self.body_bytes.to_le_bytes());
        head.extend_from_slice(&self.metadata_bytes.to_le_bytes());
        head.extend_from_slice(&self.metadata_room.to_le_bytes());
        head.extend_from_slice(&self.number.to_le_bytes());
        head.extend_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
        head.extend_from_slice(&xxh3_64_with_seed(metadata, self.sequence).to_le_bytes());
        debug_assert_eq!(head.len(), CHECKED_BYTES);
        let check = xxh3_64_with_seed(full_key, xxh3_64(&head));
        head.extend_from_slice(&check.to_le_bytes());
        debug_assert_eq!(head.len(), HEADER_BYTES);
        head.extend_from_slice(full_key);
        head.extend_from_slice(metadata);
        assert!(self.metadata_bytes <= self.metadata_room, "metadata over the body");
        assert!(self.is_plausible(), "a head that would not be read");
        head
    }

    /// Returns `true` if a head may have such lengths.
    fn is_plausible(&self) -> bool {
        self.key_bytes <= KEY_MAX
            && self.metadata_bytes <= self.metadata_room
            && self.metadata_room <= ROOM_MAX
            && self.body_bytes <= BODY_MAX
    }

    /// Reads the fixed part. Its check covers the key too, and is compared once the key is read.
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, ObjectMismatch> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let header = Self {
            key: Key::from_bytes(bytes[16..32].try_into().expect("sixteen bytes")),
            sequence: u64_at(32),
            number: u32_at(56),
            key_bytes: u32_at(12),
            metadata_bytes: u32_at(48),
            metadata_room: u32_at(52),
            body_bytes: u64_at(40),
        };
        let is_ours = &bytes[..8] == MAGIC && bytes[8..10] == VERSION.to_le_bytes();
        let is_plausible = header.is_plausible() && u32_at(60) == BLOCK_BYTES as u32;
        match (is_ours, bytes[10..12] == COMPLETE.to_le_bytes()) {
            (false, _) => Err(ObjectMismatch::Corrupt("object header")),
            (true, false) => Err(ObjectMismatch::Corrupt("object that was never completed")),
            (true, true) if !is_plausible => Err(ObjectMismatch::Corrupt("object header")),
            (true, true) => Ok(header),
        }
    }
}

/// Reads and checks the head of file `number`. `file_bytes_max` bounds the file's length from
/// above, so that one read fetches a small object whole. With `wanted`, the object's key must equal
/// it.
pub(crate) fn read_head(
    file: &dyn File,
    number: u32,
    file_bytes_max: u64,
    wanted: Option<&ObjectKey>,
) -> Result<ObjectHead, ObjectMismatch> {
    let first = if file_bytes_max <= WHOLE_MAX { file_bytes_max as usize } else { HEAD_READ };
    let mut lead = Vec::new();
    read_to(file, &mut lead, HEADER_BYTES, first)?;
    let fixed: &[u8; HEADER_BYTES] = lead[..HEADER_BYTES].try_into().expect("so much has been read");
    let header = ObjectHeader::decode(fixed)?;
    let key_end = HEADER_BYTES + header.key_bytes as usize;
    let metadata_end = key_end + header.metadata_bytes as usize;
    // A file that fits into the first read is needed whole, though the read may have been cut
    // short.
    let needed =
        if header.file_bytes() <= first as u64 { header.file_bytes() as usize } else { metadata_end };
    read_to(file, &mut lead, needed, first)?;
    let full_key = &lead[HEADER_BYTES..key_end];
    let check = xxh3_64_with_seed(full_key, xxh3_64(&lead[..CHECKED_BYTES]));
    if lead[HEADER_CHECK] != check.to_le_bytes() || header.number != number {
        return Err(ObjectMismatch::Corrupt("object header"));
    }
    match wanted {
        Some(key) if key.full() != full_key && key.hash() == header.key => {
            return Err(ObjectMismatch::OtherKey);
        }
        Some(key) if key.full() != full_key => return Err(ObjectMismatch::Corrupt("object of another key")),
        _ => {}
    }
    let metadata = &lead[key_end..metadata_end];
    if lead[METADATA_CHECK] != xxh3_64_with_seed(metadata, header.sequence).to_le_bytes() {
        return Err(ObjectMismatch::Corrupt("metadata"));
    }
    let lead = Bytes::from(lead);
    assert_eq!(header.number, number);
    assert!(metadata_end <= lead.len());
    Ok(ObjectHead { header, metadata: lead.slice(key_end..metadata_end), lead })
}

/// Reads on until `lead` holds `needed` bytes, asking for `wanted` at once.
fn read_to(file: &dyn File, lead: &mut Vec<u8>, needed: usize, wanted: usize) -> Result<(), ObjectMismatch> {
    while lead.len() < needed {
        let done = lead.len();
        // The allocator provides zeros faster than a loop.
        match done {
            0 => *lead = vec![0; needed.max(wanted)],
            _ => lead.resize(needed.max(wanted), 0),
        }
        let read = file.read_at(&mut lead[done..], done as u64);
        lead.truncate(done + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Err(ObjectMismatch::Corrupt("object file, which is too short")),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(ObjectMismatch::Disk(error)),
        }
    }
    Ok(())
}

const MAGIC: &[u8; 8] = b"SHOALOBJ";
const VERSION: u16 = 1;
const COMPLETE: u16 = 1;
/// Size of the fixed part.
pub(crate) const HEADER_BYTES: usize = 80;
/// Bytes of the fixed part that its check covers; the check follows them.
const CHECKED_BYTES: usize = 72;
/// Offsets of the check of header and key.
pub(crate) const HEADER_CHECK: std::ops::Range<usize> = CHECKED_BYTES..HEADER_BYTES;
/// Offsets of the metadata's check.
const METADATA_CHECK: std::ops::Range<usize> = 64..72;
/// Longest full key, in bytes.
pub(crate) const KEY_MAX: u32 = 65_535;
/// Most metadata of one object, in bytes.
pub(crate) const METADATA_MAX: u32 = 1 << 20;
const ROOM_MAX: u32 = 2 * METADATA_MAX;
/// Longest body, in bytes: sums of offsets stay far from overflow.
pub(crate) const BODY_MAX: u64 = 1 << 44;
/// Least slack behind the metadata, in bytes: a field or two more after a validation.
const SLACK_MIN: u32 = 192;
const BODY_ALIGN: u32 = 64;
/// Length of the longest file read whole when opened: a 64 KiB body with a usual head.
const WHOLE_MAX: u64 = 72 * 1024;
/// Bytes read first of larger files.
const HEAD_READ: usize = 4096;

const _: () = {
    assert!(HEADER_BYTES == CHECKED_BYTES + 8);
    assert!(METADATA_CHECK.end == CHECKED_BYTES && METADATA_CHECK.start + 8 == METADATA_CHECK.end);
    assert!(HEADER_CHECK.end - HEADER_CHECK.start == 8);
    assert!(BODY_ALIGN.is_power_of_two());
    // The most metadata has room that is read back.
    assert!(METADATA_MAX + METADATA_MAX / 8 + BODY_ALIGN <= ROOM_MAX);
    assert!(HEADER_BYTES < HEAD_READ && (HEAD_READ as u64) < WHOLE_MAX);
};
