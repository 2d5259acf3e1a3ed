//! Format on disk, byte by byte; `docs/FORMATS.md` has the tables.
//!
//! ```text
//! 0        64 KiB                                                                   end
//! ┌────────┬──────────────┬──────────────┬──────────────┬─────────────┬ ─ ─ ─ ─ ─ ─┐
//! │ super- │ stripe 0     │ stripe 1     │ stripe 2     │ stripe 3    │
//! │ block  │              │              │ ← cursor     │             │
//! └────────┴──────────────┴──────────────┴──────────────┴─────────────┴ ─ ─ ─ ─ ─ ─┘
//!           a stripe: ┌ chunk ──────────────────────────┬ chunk ─┬ chunk ──────────┐
//!           a chunk:  │ head │ record │ record │ … │ contents │ tail │  whole pages
//!           a record: │ head │ key │ metadata, room │ body, or table of its pieces │  whole units
//! ```
//!
//! Every structure carries its own position and sequence, so that bytes from the wrong place or an
//! earlier lap never pass the checks.

mod geometry;
mod layout;
mod table;
#[cfg(test)]
mod tests;

pub(super) use geometry::VolumeGeometry;
pub(super) use table::{PieceLocation, decode_table, encode_table, pieces, table_bytes};

use crate::architectures::seal::Seal;
use crate::fs::PAGE_BYTES;
use shoal_core::Key;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Chunk as both of its ends describe it. Between the ends stand the records and, before the tail,
/// the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// One more than the previous chunk's.
    pub(super) sequence: u64,
    /// Position of the chunk's first byte.
    pub(super) position: u64,
    pub(super) bytes: u32,
    /// Entries of the contents. A chunk that ends a stripe lists the whole stripe.
    pub(super) entries: u32,
    /// Check of the contents.
    pub(super) check: u64,
}

/// End of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkEnd {
    Head,
    Tail,
}

impl Chunk {
    pub(super) fn encode(&self, end: ChunkEnd, id: u64) -> [u8; END_BYTES] {
        assert!(u64::from(self.bytes) <= STRIPE_MAX);
        assert!(u64::from(self.entries) * ITEM_BYTES as u64 <= u64::from(self.bytes));
        let mut bytes = [0; END_BYTES];
        bytes[..8].copy_from_slice(end.magic());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.entries.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.check.to_le_bytes());
        let check = xxh3_64_with_seed(&bytes[..END_CHECKED], id);
        bytes[END_CHECKED..].copy_from_slice(&check.to_le_bytes());
        debug_assert_eq!(Self::decode(end, &bytes, id), Some(*self));
        bytes
    }

    /// Decodes an end. Returns `None` when these bytes are no such end.
    pub(super) fn decode(end: ChunkEnd, bytes: &[u8], id: u64) -> Option<Self> {
        let bytes = bytes.get(..END_BYTES)?;
        let is_whole = &bytes[..8] == end.magic()
            && xxh3_64_with_seed(&bytes[..END_CHECKED], id) == u64_at(bytes, END_CHECKED);
        is_whole.then(|| Self {
            sequence: u64_at(bytes, 8),
            position: u64_at(bytes, 16),
            bytes: u32_at(bytes, 24),
            entries: u32_at(bytes, 28),
            check: u64_at(bytes, 32),
        })
    }

    /// Returns the position after the chunk.
    pub(super) fn end(&self) -> u64 {
        self.position + u64::from(self.bytes)
    }
}

impl ChunkEnd {
    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Head => b"SHOALchk",
            Self::Tail => b"SHOALend",
        }
    }
}

/// Line of the contents: a record's place in the stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentsItem {
    pub(super) key: Key,
    /// Id of the object. Pieces carry the id of their object.
    pub(super) id: u64,
    /// Offset from the stripe's beginning, in units.
    pub(super) at: u32,
    pub(super) class: u8,
    pub(super) kind: RecordKind,
    /// Set if a group begins here: the records before belong to another site or another body.
    pub(super) begins: bool,
    /// Set if the operator has pinned the object.
    pub(super) is_pinned: bool,
}

/// Kind of a record or of a line of the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// Object with its body.
    Whole,
    /// Object with a table of the places of its body's pieces.
    Large,
    /// Piece of a body.
    Piece,
    /// Piece of a table that is too long for one record.
    TablePiece,
    /// Removal of an object. There is no record.
    Removed,
}

const KINDS: [RecordKind; 5] =
    [RecordKind::Whole, RecordKind::Large, RecordKind::Piece, RecordKind::TablePiece, RecordKind::Removed];

impl RecordKind {
    fn code(self) -> u8 {
        self as u8 + 1
    }

    fn of(code: u8) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.code() == code)
    }
}

impl ContentsItem {
    /// Returns the offset in the stripe of a group that begins with this record; `None` if none
    /// does.
    pub(super) fn group_at(&self) -> Option<u64> {
        self.begins.then_some(u64::from(self.at) * UNIT_BYTES)
    }

    /// Returns an upper bound of the offset after the record.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.at) * UNIT_BYTES + class_bytes(self.class)
    }

    fn encode(&self, out: &mut [u8]) {
        debug_assert!(self.class < CLASSES);
        debug_assert_eq!(out.len(), ITEM_BYTES);
        out[..16].copy_from_slice(&self.key.to_bytes());
        out[16..24].copy_from_slice(&self.id.to_le_bytes());
        out[24..28].copy_from_slice(&self.at.to_le_bytes());
        out[28] = self.class;
        out[29] = self.kind.code();
        out[30] = u8::from(self.begins) | u8::from(self.is_pinned) << 1;
        out[31] = 0;
        debug_assert_eq!(Self::decode(out), Some(*self));
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            key: Key::from_bytes(bytes[..16].try_into().ok()?),
            id: u64_at(bytes, 16),
            at: u32_at(bytes, 24),
            class: Some(bytes[28]).filter(|class| *class < CLASSES)?,
            kind: RecordKind::of(bytes[29])?,
            begins: bytes[30] & 1 != 0,
            is_pinned: bytes[30] & 2 != 0,
        })
    }
}

/// Encodes the contents.
pub(super) fn encode_contents(items: &[ContentsItem], out: &mut [u8]) {
    assert!(items.len() * ITEM_BYTES <= out.len(), "contents that are cut off");
    for (item, out) in items.iter().zip(out.chunks_exact_mut(ITEM_BYTES)) {
        item.encode(out);
    }
}

/// Decodes contents that end at a tail. Returns `None` when the contents fail the tail's check.
/// Items that lie outside of their stripe are left out.
pub(super) fn decode_contents(bytes: &[u8], chunk: &Chunk, stripe_bytes: u64) -> Option<Vec<ContentsItem>> {
    let is_in_stripe = |item: &ContentsItem| u64::from(item.at) * UNIT_BYTES < stripe_bytes;
    (xxh3_64(bytes) == chunk.check).then(|| {
        bytes.chunks_exact(ITEM_BYTES).filter_map(ContentsItem::decode).filter(is_in_stripe).collect()
    })
}

/// Head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) kind: RecordKind,
    pub(super) key: Key,
    /// Position of the record's first byte.
    pub(super) position: u64,
    pub(super) id: u64,
    /// Bytes of the object's body, or of the piece.
    pub(super) body_bytes: u64,
    pub(super) key_bytes: u32,
    pub(super) metadata_bytes: u32,
    /// Room for metadata.
    pub(super) room: u32,
    /// Index of the piece; 0 for objects.
    pub(super) index: u32,
    /// Sequence number of the chunk that the record was written with.
    pub(super) sequence: u64,
    /// Check of the bytes after the metadata's room: body, piece or table.
    pub(super) check: u64,
}

impl RecordHead {
    /// Returns the room for `metadata_bytes` bytes of metadata. Slightly longer metadata still fits
    /// after a validation. A large object gets more room, since it is not rewritten for longer
    /// metadata.
    pub(super) fn room_for(kind: RecordKind, metadata_bytes: usize) -> u32 {
        let step = if kind == RecordKind::Large { LARGE_ROOM_STEP } else { ROOM_STEP };
        metadata_bytes.next_multiple_of(step) as u32
    }

    /// Returns the offset of the payload in the record.
    pub(super) fn payload_at(&self) -> usize {
        HEAD_BYTES + self.key_bytes as usize + self.room as usize
    }

    /// Returns the bytes of body or table in the record.
    pub(super) fn payload_bytes(&self) -> u64 {
        match self.kind {
            RecordKind::Large => table_bytes(self.body_bytes),
            _ => self.body_bytes,
        }
    }

    /// Encodes and seals the head with key and metadata, as at the record's beginning.
    pub(super) fn encode(&self, seal: Seal, full_key: &[u8], metadata: &[u8], out: &mut [u8]) {
        assert!(self.position.is_multiple_of(UNIT_BYTES));
        assert!(self.position >= DATA_AT);
        assert_eq!(self.key_bytes as usize, full_key.len());
        assert_eq!(self.metadata_bytes as usize, metadata.len());
        assert!(self.is_plausible(), "a record that would not be read");
        debug_assert!(out.len() >= self.payload_at());
        out[..4].copy_from_slice(RECORD_MAGIC);
        out[4..6].copy_from_slice(&[SEALED, self.kind.code()]);
        out[6..8].fill(0);
        out[8..24].copy_from_slice(&self.key.to_bytes());
        out[24..32].copy_from_slice(&self.position.to_le_bytes());
        out[32..40].copy_from_slice(&self.id.to_le_bytes());
        out[40..48].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[48..52].copy_from_slice(&self.key_bytes.to_le_bytes());
        out[52..56].copy_from_slice(&self.metadata_bytes.to_le_bytes());
        out[56..60].copy_from_slice(&self.room.to_le_bytes());
        out[60..64].copy_from_slice(&self.index.to_le_bytes());
        out[64..72].copy_from_slice(&self.sequence.to_le_bytes());
        out[72..80].copy_from_slice(&self.check.to_le_bytes());
        let check = seal.check(head_check(&out[..HEAD_CHECKED], full_key, metadata));
        out[HEAD_CHECKED..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
        out[HEAD_BYTES..HEAD_BYTES + full_key.len()].copy_from_slice(full_key);
        let metadata_at = HEAD_BYTES + full_key.len();
        out[metadata_at..metadata_at + metadata.len()].copy_from_slice(metadata);
        out[metadata_at + metadata.len()..metadata_at + self.room as usize].fill(0);
        debug_assert_eq!(Self::decode(out, self.position, seal, || false), Ok(*self));
    }

    /// Returns `true` if a record may have such lengths.
    fn is_plausible(&self) -> bool {
        self.key_bytes <= KEY_MAX
            && self.metadata_bytes <= self.room
            && self.room <= METADATA_MAX
            && self.body_bytes <= BODY_MAX
    }

    /// Decodes the head of the record that begins these bytes, for a record at `position`, and
    /// checks it with key and metadata. A record without a seal, of an earlier version, passes only
    /// if `takes_unsealed` allows it at this place: anyone can forge such a record. The error names
    /// the fault.
    pub(super) fn decode(
        bytes: &[u8],
        position: u64,
        seal: Seal,
        takes_unsealed: impl FnOnce() -> bool,
    ) -> Result<Self, &'static str> {
        let fields = bytes.get(..HEAD_BYTES).ok_or("record that is cut off")?;
        let is_sealed = match fields[4] {
            _ if &fields[..4] != RECORD_MAGIC => return Err("record's beginning"),
            SEALED => true,
            UNSEALED => false,
            _ => return Err("record's beginning"),
        };
        let head = Self {
            kind: RecordKind::of(fields[5]).ok_or("kind of record")?,
            key: Key::from_bytes(fields[8..24].try_into().map_err(|_| "key")?),
            position: u64_at(fields, 24),
            id: u64_at(fields, 32),
            body_bytes: u64_at(fields, 40),
            key_bytes: u32_at(fields, 48),
            metadata_bytes: u32_at(fields, 52),
            room: u32_at(fields, 56),
            index: u32_at(fields, 60),
            sequence: u64_at(fields, 64),
            check: u64_at(fields, 72),
        };
        if head.position != position {
            return Err("record's position");
        }
        if !head.is_plausible() {
            return Err("record's lengths");
        }
        let (key, metadata) = head.key_and_metadata(bytes).ok_or("record that is cut off")?;
        let check = head_check(&fields[..HEAD_CHECKED], key, metadata);
        let check = if is_sealed { seal.check(check) } else { check };
        if check != u64_at(fields, HEAD_CHECKED) {
            return Err("record's head");
        }
        if is_sealed || takes_unsealed() { Ok(head) } else { Err("record's seal") }
    }

    /// Returns the check that a record with this head had in earlier versions.
    #[cfg(test)]
    pub(super) fn unsealed_check(&self, record: &[u8]) -> u64 {
        let (key, metadata) = self.key_and_metadata(record).expect("it is whole");
        head_check(&record[..HEAD_CHECKED], key, metadata)
    }

    /// Returns the full key and the metadata of a record that begins these bytes.
    pub(super) fn key_and_metadata<'a>(&self, record: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let key_end = HEAD_BYTES + self.key_bytes as usize;
        let metadata_end = key_end + self.metadata_bytes as usize;
        Some((record.get(HEAD_BYTES..key_end)?, record.get(key_end..metadata_end)?))
    }

    /// Returns the payload of a record that begins these bytes, if the payload is complete and
    /// passes its check.
    pub(super) fn payload<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        let at = self.payload_at();
        let end = at.checked_add(usize::try_from(self.payload_bytes()).ok()?)?;
        record.get(at..end).filter(|payload| payload_check(self.id, self.index, payload) == self.check)
    }
}

/// Returns the check of a payload; bytes of another object or another piece do not pass.
pub(super) fn payload_check(id: u64, index: u32, payload: &[u8]) -> u64 {
    xxh3_64_with_seed(payload, id ^ u64::from(index).rotate_left(32))
}

fn head_check(fields: &[u8], full_key: &[u8], metadata: &[u8]) -> u64 {
    xxh3_64_with_seed(metadata, xxh3_64_with_seed(full_key, xxh3_64(fields)))
}

/// Returns the size class of a record: the smallest class that is at least as large.
pub(super) fn class_of(bytes: u64) -> u8 {
    debug_assert!(bytes <= class_bytes(CLASSES - 1), "a record above all classes");
    (0..CLASSES).find(|class| class_bytes(*class) >= bytes).unwrap_or(CLASSES - 1)
}

/// Returns the bytes of a class: four classes to a doubling, from 64 bytes up.
pub(super) fn class_bytes(class: u8) -> u64 {
    debug_assert!(class < CLASSES);
    (u64::from(4 + class % 4) << (class / 4)) * 16
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(super) const STRIPE_MAX: u64 = 64 << 20;
/// More than an index of the most objects that a volume can have.
const BUCKETS_MAX: u64 = 1 << 40;
/// Bound of positions, 4 TiB: the range of 36 bits of an index entry.
pub(super) const POSITION_MAX: u64 = UNIT_BYTES << 36;
/// Position of the two pages of the volume's state.
pub(super) const STATE_AT: u64 = 2 * SUPERBLOCK_BYTES as u64;
/// Position of the first stripe.
pub(super) const DATA_AT: u64 = 64 << 10;
/// Alignment of records.
pub(super) const UNIT_BYTES: u64 = 64;
/// Largest body inside its object's record; a larger body is in pieces of this size.
pub(super) const PIECE_BYTES: usize = 64 << 10;
pub(super) const SUPERBLOCK_BYTES: usize = 4096;
/// Message for a superblock that fails its check.
pub(super) const DAMAGED: &str = "damaged in its first block";
pub(super) const END_BYTES: usize = 48;
pub(super) const ITEM_BYTES: usize = 32;
pub(super) const HEAD_BYTES: usize = 88;
/// Longest key.
pub(super) const KEY_MAX: u32 = 64 << 10;
/// Longest metadata.
pub(super) const METADATA_MAX: u32 = 256 << 10;
/// Largest body that a table of pieces of tables can list.
pub(super) const BODY_MAX: u64 =
    ((PIECE_BYTES / PLACE_BYTES) * (PIECE_BYTES / PLACE_BYTES) * PIECE_BYTES) as u64;
const PLACE_BYTES: usize = 16;
const ROOM_STEP: usize = 16;
const LARGE_ROOM_STEP: usize = 1024;
const CLASSES: u8 = 64;
const SUPERBLOCK_MAGIC: &[u8; 8] = b"SHOALvol";
const RECORD_MAGIC: &[u8; 4] = b"SHOr";
const VERSION: u32 = 1;
/// Versions of records.
const UNSEALED: u8 = 1;
const SEALED: u8 = 2;
const SUPERBLOCK_CHECKED: usize = 40;
/// Place of the number behind the check.
const OLDEST_AT: usize = SUPERBLOCK_CHECKED + 8;
const END_CHECKED: usize = END_BYTES - 8;
const HEAD_CHECKED: usize = HEAD_BYTES - 8;
