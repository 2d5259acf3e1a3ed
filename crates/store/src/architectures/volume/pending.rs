//! Objects that are not yet on disk: growing bodies, and records that wait to be written.

use super::PinTest;
use super::format::{
    ContentsItem, METADATA_MAX, PIECE_BYTES, PieceLocation, RecordHead, RecordKind, UNIT_BYTES, encode_table,
    payload_check, table_bytes,
};
use super::pages::PagePool;
use super::piece::PieceBuilder;
use super::stripes::{StripePin, StripePins};
use crate::architectures::seal::Seal;
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_core::{Key, ObjectKey};
use shoal_policy::reinsertion::HITS_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Body that is written in pieces.
pub(super) struct GrowingBody {
    /// Id of the object.
    pub(super) id: u64,
    is_pinned: bool,
    pool: Arc<PagePool>,
    state: Mutex<GrowingState>,
}

#[derive(Default)]
struct GrowingState {
    pieces: Vec<BodyPiece>,
    /// Bytes appended since the last whole piece.
    rest: PieceBuilder,
    /// Pins the stripes of the written pieces.
    pin: Option<StripePin>,
    /// Bytes of the last piece, once it is known to be a short one.
    short: Option<usize>,
    /// Set when a piece could not be written.
    failed: bool,
}

enum BodyPiece {
    /// In RAM; the place is known once the piece is about to be written.
    Waiting(Bytes, Option<PieceLocation>),
    At(PieceLocation),
}

/// Place of bytes of a growing body.
pub(super) enum ByteLocation {
    Memory(Bytes),
    /// In the piece `index`, `skip` bytes after its beginning.
    Disk {
        place: PieceLocation,
        index: u32,
        skip: usize,
        piece_bytes: usize,
    },
    /// Past the end.
    End,
    Lost,
}

impl GrowingBody {
    /// Creates an empty body. Its pieces take their memory from `pool`.
    pub(super) fn new(id: u64, is_pinned: bool, pool: &Arc<PagePool>) -> Arc<Self> {
        let state = GrowingState::default();
        Arc::new(Self { id, is_pinned, pool: Arc::clone(pool), state: Mutex::new(state) })
    }

    /// Returns the body for the table of this one.
    pub(super) fn for_table(&self) -> Arc<Self> {
        Self::new(!self.id, self.is_pinned, &self.pool)
    }

    /// Appends bytes to the body. Returns each piece that becomes whole, with its index, to be
    /// queued.
    pub(super) fn append(&self, mut bytes: &[u8]) -> Vec<(u32, Bytes)> {
        let mut state = self.state.lock();
        let mut whole = Vec::new();
        while !bytes.is_empty() {
            // A body of one piece stays here until more bytes arrive.
            if state.rest.bytes().len() == PIECE_BYTES {
                whole.push(state.close_piece());
            }
            let count = (PIECE_BYTES - state.rest.bytes().len()).min(bytes.len());
            state.rest.extend(&bytes[..count], &self.pool);
            bytes = &bytes[count..];
        }
        state.invariants();
        whole
    }

    /// Returns the last piece of a body that has others.
    pub(super) fn finish(&self) -> Option<(u32, Bytes)> {
        let mut state = self.state.lock();
        let has_more = !state.rest.bytes().is_empty() && !state.pieces.is_empty();
        has_more.then(|| state.close_piece())
    }

    /// Returns the body, if it has at most one piece.
    pub(super) fn whole(&self) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.pieces.is_empty().then(|| state.rest.bytes().to_vec())
    }

    /// Returns the number of bytes appended so far.
    pub(super) fn length(&self) -> u64 {
        let state = self.state.lock();
        state.pieces_bytes() + state.rest.bytes().len() as u64
    }

    /// Assigns a place to a piece that is about to be written.
    pub(super) fn assign(&self, index: u32, place: PieceLocation) {
        assert!(place.position.is_multiple_of(UNIT_BYTES));
        if let Some(BodyPiece::Waiting(_, assigned)) = self.state.lock().pieces.get_mut(index as usize) {
            *assigned = Some(place);
        }
    }

    /// Records that a piece is on disk at its assigned place.
    pub(super) fn written(&self, index: u32, stripe: u32, stripes: &Arc<StripePins>) {
        let mut state = self.state.lock();
        match &mut state.pin {
            // The stripe that is being written is never the one being reclaimed.
            Some(pin) => assert!(pin.add([stripe])),
            none => *none = Some(stripes.pin([stripe]).expect("the log's own stripe is not taken")),
        }
        assert!((index as usize) < state.pieces.len(), "a piece that was never closed");
        if let Some(piece) = state.pieces.get_mut(index as usize)
            && let BodyPiece::Waiting(_, Some(place)) = piece
        {
            *piece = BodyPiece::At(*place);
        }
    }

    /// Records that a piece could not be written.
    pub(super) fn lose(&self) {
        let mut state = self.state.lock();
        state.failed = true;
        state.pieces.iter_mut().for_each(|piece| {
            if let BodyPiece::Waiting(bytes, _) = piece {
                *bytes = Bytes::new();
            }
        });
    }

    /// Returns `true` if a piece has been lost.
    pub(super) fn has_failed(&self) -> bool {
        self.state.lock().failed
    }

    /// Returns the present or assigned places of all pieces; `None` while some have no place.
    pub(super) fn places(&self) -> Option<Vec<PieceLocation>> {
        let state = self.state.lock();
        let place = |piece: &BodyPiece| match piece {
            BodyPiece::At(place) => Some(*place),
            BodyPiece::Waiting(_, assigned) => *assigned,
        };
        if state.failed { None } else { state.pieces.iter().map(place).collect() }
    }

    /// Returns the place of the byte at `offset`.
    pub(super) fn find(&self, offset: u64) -> ByteLocation {
        let state = self.state.lock();
        let (index, skip) = ((offset / PIECE_BYTES as u64) as usize, (offset % PIECE_BYTES as u64) as usize);
        match state.pieces.get(index) {
            _ if state.failed => ByteLocation::Lost,
            Some(BodyPiece::Waiting(bytes, _)) if skip < bytes.len() => {
                ByteLocation::Memory(bytes.slice(skip..))
            }
            Some(BodyPiece::At(place)) => {
                let piece_bytes = state.piece_bytes(index);
                if skip >= piece_bytes {
                    return ByteLocation::End;
                }
                ByteLocation::Disk { place: *place, index: index as u32, skip, piece_bytes }
            }
            None if index == state.pieces.len() && skip < state.rest.bytes().len() => {
                ByteLocation::Memory(Bytes::copy_from_slice(&state.rest.bytes()[skip..]))
            }
            _ => ByteLocation::End,
        }
    }
}

impl GrowingState {
    fn close_piece(&mut self) -> (u32, Bytes) {
        let bytes = std::mem::take(&mut self.rest).into_bytes();
        // Only the last piece is short: no bytes are appended after it is finished.
        assert!(self.short.is_none(), "a piece behind the last");
        assert!(!bytes.is_empty());
        assert!(bytes.len() <= PIECE_BYTES);
        self.short = (bytes.len() < PIECE_BYTES).then_some(bytes.len());
        self.pieces.push(BodyPiece::Waiting(bytes.clone(), None));
        (self.pieces.len() as u32 - 1, bytes)
    }

    /// Checks all that is said of the fields.
    fn invariants(&self) {
        assert!(self.rest.bytes().len() <= PIECE_BYTES);
        assert!(self.short.is_none() || self.rest.bytes().is_empty(), "bytes behind the last piece");
        debug_assert!(self.pieces_bytes().is_multiple_of(PIECE_BYTES as u64) || self.short.is_some());
    }

    fn piece_bytes(&self, index: usize) -> usize {
        debug_assert!(index < self.pieces.len());
        match self.short {
            Some(short) if index + 1 == self.pieces.len() => short,
            _ => PIECE_BYTES,
        }
    }

    fn pieces_bytes(&self) -> u64 {
        match self.pieces.len().checked_sub(1) {
            Some(last) => (last * PIECE_BYTES + self.piece_bytes(last)) as u64,
            None => 0,
        }
    }
}

/// Complete object that waits to be written.
pub(super) struct PendingObject {
    pub(super) key: ObjectKey,
    pub(super) id: u64,
    /// Hits counted before the object was carried over.
    pub(super) hits: u8,
    pub(super) body: PendingBody,
    state: Mutex<PendingState>,
    dead: AtomicBool,
}

/// Body of a waiting object.
pub(super) enum PendingBody {
    Whole(Bytes),
    /// Body in pieces that were queued before the object. A table that is too long for one record
    /// has pieces of its own.
    Large {
        body: Arc<GrowingBody>,
        bytes: u64,
        table: Option<Arc<GrowingBody>>,
    },
}

struct PendingState {
    metadata: Bytes,
    /// Set when it is too late to change the metadata here.
    is_encoded: bool,
}

/// Outcome of an attempt to change metadata before it is written.
pub(super) enum MetadataChange {
    Done,
    /// The present metadata is not the one to be replaced.
    Refused,
    /// The record is being written.
    TooLate,
}

impl PendingObject {
    pub(super) fn new(key: ObjectKey, id: u64, hits: u8, metadata: Bytes, body: PendingBody) -> Arc<Self> {
        assert!(hits <= HITS_MAX);
        assert!(metadata.len() <= METADATA_MAX as usize);
        let state = Mutex::new(PendingState { metadata, is_encoded: false });
        Arc::new(Self { key, id, hits, body, state, dead: AtomicBool::new(false) })
    }

    pub(super) fn metadata(&self) -> Bytes {
        self.state.lock().metadata.clone()
    }

    /// Changes the metadata if `replaces` accepts the present metadata.
    pub(super) fn change(&self, metadata: &[u8], replaces: &dyn Fn(&[u8]) -> bool) -> MetadataChange {
        let mut state = self.state.lock();
        if !replaces(&state.metadata) {
            return MetadataChange::Refused;
        }
        // The record's size has been counted with its present room.
        if state.is_encoded || self.room(metadata.len()) != self.room(state.metadata.len()) {
            return MetadataChange::TooLate;
        }
        state.metadata = Bytes::copy_from_slice(metadata);
        MetadataChange::Done
    }

    /// Marks the object as replaced or removed: its record is skipped, or written for nothing.
    pub(super) fn kill(&self) {
        self.dead.store(true, Relaxed);
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    pub(super) fn kind(&self) -> RecordKind {
        match &self.body {
            PendingBody::Whole(_) => RecordKind::Whole,
            PendingBody::Large { .. } => RecordKind::Large,
        }
    }

    pub(super) fn body_bytes(&self) -> u64 {
        match &self.body {
            PendingBody::Whole(body) => body.len() as u64,
            PendingBody::Large { bytes, .. } => *bytes,
        }
    }

    fn room(&self, metadata_bytes: usize) -> u32 {
        RecordHead::room_for(self.kind(), metadata_bytes)
    }

    /// Returns the bytes of the object's record.
    pub(super) fn record_bytes(&self) -> u64 {
        let payload = match &self.body {
            PendingBody::Whole(body) => body.len() as u64,
            PendingBody::Large { bytes, .. } => table_bytes(*bytes),
        };
        let room = self.room(self.state.lock().metadata.len());
        (super::format::HEAD_BYTES + self.key.full().len()) as u64 + u64::from(room) + payload
    }

    /// Writes the record to `out`, which has its length. Returns `None` when a piece of the body
    /// has been lost.
    pub(super) fn encode(&self, at: RecordPosition, out: &mut [u8]) -> Option<()> {
        let mut state = self.state.lock();
        assert!(!state.is_encoded, "a record that is written twice");
        state.is_encoded = true;
        let payload = match &self.body {
            PendingBody::Whole(body) => body.clone(),
            PendingBody::Large { body, table, .. } => {
                encode_table(&table.as_ref().unwrap_or(body).places()?).into()
            }
        };
        let head = RecordHead {
            kind: self.kind(),
            key: self.key.hash(),
            position: at.position,
            sequence: at.sequence,
            id: self.id,
            body_bytes: self.body_bytes(),
            key_bytes: self.key.full().len() as u32,
            metadata_bytes: state.metadata.len() as u32,
            room: self.room(state.metadata.len()),
            index: 0,
            check: payload_check(self.id, 0, &payload),
        };
        assert_eq!(head.payload_bytes(), payload.len() as u64);
        assert_eq!(head.payload_at() + payload.len(), out.len(), "room that was not counted");
        head.encode(at.seal, self.key.full(), &state.metadata, out);
        out[head.payload_at()..].copy_from_slice(&payload);
        debug_assert_eq!(head.payload(out), Some(&payload[..]));
        debug_assert_eq!(head.key_and_metadata(out), Some((self.key.full(), &state.metadata[..])));
        Some(())
    }
}

/// Place and chunk of a record that is being written.
#[derive(Clone, Copy)]
pub(super) struct RecordPosition {
    pub(super) position: u64,
    /// Sequence number of the chunk.
    pub(super) sequence: u64,
    pub(super) seal: Seal,
}

/// Record that waits to be written.
pub(super) enum QueuedRecord {
    Object(Arc<PendingObject>),
    Piece { growing: Arc<GrowingBody>, key: ObjectKey, kind: RecordKind, index: u32, bytes: Bytes },
    Removed(Key),
}

impl QueuedRecord {
    /// Returns the bytes of the record; 0 for a removal, which has none.
    pub(super) fn record_bytes(&self) -> u64 {
        match self {
            Self::Object(object) => object.record_bytes(),
            Self::Piece { bytes, .. } => (super::format::HEAD_BYTES + bytes.len()) as u64,
            Self::Removed(_) => 0,
        }
    }

    /// Returns the id of the record's object, or the complement for pieces of the object's table.
    pub(super) fn id(&self) -> u64 {
        match self {
            Self::Object(object) => object.id,
            Self::Piece { growing, .. } => growing.id,
            Self::Removed(_) => 0,
        }
    }

    /// Returns the id of the record's object.
    pub(super) fn object_id(&self) -> u64 {
        match self {
            Self::Piece { growing, kind: RecordKind::TablePiece, .. } => !growing.id,
            _ => self.id(),
        }
    }

    /// Returns `true` if no reader would ever find the record.
    pub(super) fn is_dead(&self) -> bool {
        match self {
            Self::Object(object) => object.is_dead(),
            Self::Piece { growing, .. } => growing.has_failed(),
            Self::Removed(_) => false,
        }
    }

    /// Returns the line in the contents of a record at `at` units from the stripe's beginning.
    /// `begins` tells whether a group begins with the record, and `is_pinned` tests metadata.
    pub(super) fn item(&self, at: u32, begins: bool, is_pinned: PinTest) -> ContentsItem {
        let (key, kind) = match self {
            Self::Object(object) => (object.key.hash(), object.kind()),
            Self::Piece { key, kind, .. } => (key.hash(), *kind),
            Self::Removed(key) => (*key, RecordKind::Removed),
        };
        let is_pinned = match self {
            Self::Object(object) => is_pinned(&object.metadata()),
            Self::Piece { growing, .. } => growing.is_pinned,
            Self::Removed(_) => false,
        };
        let is_table = kind == RecordKind::TablePiece;
        debug_assert_eq!(self.object_id() == self.id(), !is_table, "a table has the complement");
        ContentsItem {
            key,
            id: self.id(),
            at,
            class: super::format::class_of(self.record_bytes()),
            kind,
            begins,
            is_pinned,
        }
    }

    /// Writes the record to `out`, which has its length. Returns `None` when the record is no
    /// longer needed.
    pub(super) fn encode(&self, at: RecordPosition, out: &mut [u8]) -> Option<()> {
        match self {
            Self::Object(object) => object.encode(at, out),
            Self::Piece { growing, key, kind, index, bytes } => {
                assert!(matches!(kind, RecordKind::Piece | RecordKind::TablePiece));
                assert!(bytes.len() <= PIECE_BYTES);
                let check = payload_check(growing.id, *index, bytes);
                let head = RecordHead {
                    kind: *kind,
                    key: key.hash(),
                    position: at.position,
                    sequence: at.sequence,
                    id: growing.id,
                    body_bytes: bytes.len() as u64,
                    key_bytes: 0,
                    metadata_bytes: 0,
                    room: 0,
                    index: *index,
                    check,
                };
                assert_eq!(head.payload_at() + bytes.len(), out.len());
                head.encode(at.seal, &[], &[], out);
                out[head.payload_at()..].copy_from_slice(bytes);
                debug_assert_eq!(head.payload(out), Some(&bytes[..]));
                growing.assign(*index, PieceLocation { position: at.position, check });
                Some(())
            }
            Self::Removed(_) => Some(()),
        }
    }
}
