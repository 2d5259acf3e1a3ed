//! Objects that are not on the disk yet: bodies that grow, and what waits to be written.

use super::format::{
    ContentsItem, METADATA_MAX, PIECE_BYTES, PieceLocation, RecordHead, RecordKind, UNIT_BYTES, encode_table,
    payload_check, table_bytes,
};
use super::stripes::{StripePin, StripePins};
use crate::architectures::seal::Seal;
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_core::{Key, ObjectKey};
use shoal_policy::reinsertion::HITS_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A body that is written in pieces.
pub(super) struct GrowingBody {
    /// Of the object.
    pub(super) id: u64,
    state: Mutex<GrowingState>,
}

struct GrowingState {
    pieces: Vec<Piece>,
    /// What has been appended since the last whole piece.
    rest: Vec<u8>,
    /// Keeps the stripes where pieces are.
    pin: Option<StripePin>,
    /// Bytes of the last piece, once that is known to be a short one.
    short: Option<usize>,
    /// A piece could not be written.
    failed: bool,
}

enum Piece {
    /// Still in RAM, and perhaps about to be written somewhere.
    Waiting(Bytes, Option<PieceLocation>),
    At(PieceLocation),
}

/// Where bytes of a growing body are.
pub(super) enum ByteLocation {
    Memory(Bytes),
    /// In the piece of this index; the read begins so far into it.
    Disk {
        place: PieceLocation,
        index: u32,
        skip: usize,
        piece_bytes: usize,
    },
    /// Behind the end.
    End,
    Lost,
}

impl GrowingBody {
    pub(super) fn new(id: u64) -> Arc<Self> {
        let state =
            GrowingState { pieces: Vec::new(), rest: Vec::new(), pin: None, short: None, failed: false };
        Arc::new(Self { id, state: Mutex::new(state) })
    }

    /// Appends to the body. What makes a piece whole is returned, with its index, to be queued.
    pub(super) fn append(&self, mut bytes: &[u8]) -> Vec<(u32, Bytes)> {
        let mut state = self.state.lock();
        let mut whole = Vec::new();
        while !bytes.is_empty() {
            // A body of one piece stays here until it is known to have more.
            if state.rest.len() == PIECE_BYTES {
                whole.push(state.close_piece());
            }
            let count = (PIECE_BYTES - state.rest.len()).min(bytes.len());
            state.rest.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
        }
        state.invariants();
        whole
    }

    /// The last piece of a body that has others.
    pub(super) fn finish(&self) -> Option<(u32, Bytes)> {
        let mut state = self.state.lock();
        let has_more = !state.rest.is_empty() && !state.pieces.is_empty();
        has_more.then(|| state.close_piece())
    }

    /// The body, when it is of one piece at most.
    pub(super) fn whole(&self) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.pieces.is_empty().then(|| state.rest.clone())
    }

    /// Bytes appended so far.
    pub(super) fn length(&self) -> u64 {
        let state = self.state.lock();
        state.pieces_bytes() + state.rest.len() as u64
    }

    /// A piece is about to be written here.
    pub(super) fn assign(&self, index: u32, place: PieceLocation) {
        assert!(place.position.is_multiple_of(UNIT_BYTES));
        if let Some(Piece::Waiting(_, assigned)) = self.state.lock().pieces.get_mut(index as usize) {
            *assigned = Some(place);
        }
    }

    /// A piece is on the disk, where it was assigned.
    pub(super) fn written(&self, index: u32, stripe: u32, stripes: &Arc<StripePins>) {
        let mut state = self.state.lock();
        match &mut state.pin {
            // The stripe that is being written to is never the one being taken.
            Some(pin) => assert!(pin.add([stripe])),
            none => *none = Some(stripes.pin([stripe]).expect("the log's own stripe is not taken")),
        }
        assert!((index as usize) < state.pieces.len(), "a piece that was never closed");
        if let Some(piece) = state.pieces.get_mut(index as usize)
            && let Piece::Waiting(_, Some(place)) = piece
        {
            *piece = Piece::At(*place);
        }
    }

    /// A piece could not be written.
    pub(super) fn lose(&self) {
        let mut state = self.state.lock();
        state.failed = true;
        state.pieces.iter_mut().for_each(|piece| {
            if let Piece::Waiting(bytes, _) = piece {
                *bytes = Bytes::new();
            }
        });
    }

    /// Whether a piece has been lost.
    pub(super) fn has_failed(&self) -> bool {
        self.state.lock().failed
    }

    /// Where all pieces are or are about to be; `None` while that is not known of some.
    pub(super) fn places(&self) -> Option<Vec<PieceLocation>> {
        let state = self.state.lock();
        let place = |piece: &Piece| match piece {
            Piece::At(place) => Some(*place),
            Piece::Waiting(_, assigned) => *assigned,
        };
        if state.failed { None } else { state.pieces.iter().map(place).collect() }
    }

    /// Where the byte at `offset` is.
    pub(super) fn find(&self, offset: u64) -> ByteLocation {
        let state = self.state.lock();
        let (index, skip) = ((offset / PIECE_BYTES as u64) as usize, (offset % PIECE_BYTES as u64) as usize);
        match state.pieces.get(index) {
            _ if state.failed => ByteLocation::Lost,
            Some(Piece::Waiting(bytes, _)) if skip < bytes.len() => ByteLocation::Memory(bytes.slice(skip..)),
            Some(Piece::At(place)) => {
                let piece_bytes = state.piece_bytes(index);
                if skip >= piece_bytes {
                    return ByteLocation::End;
                }
                ByteLocation::Disk { place: *place, index: index as u32, skip, piece_bytes }
            }
            None if index == state.pieces.len() && skip < state.rest.len() => {
                ByteLocation::Memory(Bytes::copy_from_slice(&state.rest[skip..]))
            }
            _ => ByteLocation::End,
        }
    }
}

impl GrowingState {
    fn close_piece(&mut self) -> (u32, Bytes) {
        let bytes = Bytes::from(std::mem::take(&mut self.rest));
        // Only the last piece is short: nothing is appended once it is finished.
        assert!(self.short.is_none(), "a piece behind the last");
        assert!(!bytes.is_empty());
        assert!(bytes.len() <= PIECE_BYTES);
        self.short = (bytes.len() < PIECE_BYTES).then_some(bytes.len());
        self.pieces.push(Piece::Waiting(bytes.clone(), None));
        (self.pieces.len() as u32 - 1, bytes)
    }

    /// Checks all that is said of the fields.
    fn invariants(&self) {
        assert!(self.rest.len() <= PIECE_BYTES);
        assert!(self.short.is_none() || self.rest.is_empty(), "bytes behind the last piece");
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

/// An object that is complete and waits to be written.
pub(super) struct PendingObject {
    pub(super) key: ObjectKey,
    pub(super) id: u64,
    /// Counted before it was carried over.
    pub(super) hits: u8,
    pub(super) body: PendingBody,
    state: Mutex<PendingState>,
    dead: AtomicBool,
}

/// The body of an object that waits.
pub(super) enum PendingBody {
    Whole(Bytes),
    /// Its pieces were queued before it. A table that is too long for one record has pieces of its
    /// own.
    Large {
        body: Arc<GrowingBody>,
        bytes: u64,
        table: Option<Arc<GrowingBody>>,
    },
}

struct PendingState {
    metadata: Bytes,
    /// It is too late to change the metadata here.
    is_encoded: bool,
}

/// What becomes of an attempt to change metadata before it is written.
pub(super) enum MetadataChange {
    Done,
    /// Somebody's metadata, but not that which was to be replaced.
    Refused,
    /// It is being written.
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

    /// Changes the metadata if `replaces` says so of what is there.
    pub(super) fn change(&self, metadata: &[u8], replaces: &dyn Fn(&[u8]) -> bool) -> MetadataChange {
        let mut state = self.state.lock();
        if !replaces(&state.metadata) {
            return MetadataChange::Refused;
        }
        // A record's place has been counted with the room that it has.
        if state.is_encoded || self.room(metadata.len()) != self.room(state.metadata.len()) {
            return MetadataChange::TooLate;
        }
        state.metadata = Bytes::copy_from_slice(metadata);
        MetadataChange::Done
    }

    /// It has been replaced or removed: it is not written, or written in vain.
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

    /// Bytes of its record.
    pub(super) fn record_bytes(&self) -> u64 {
        let payload = match &self.body {
            PendingBody::Whole(body) => body.len() as u64,
            PendingBody::Large { bytes, .. } => table_bytes(*bytes),
        };
        let room = self.room(self.state.lock().metadata.len());
        (super::format::HEAD_BYTES + self.key.full().len()) as u64 + u64::from(room) + payload
    }

    /// Writes the record to `out`, which has its length. `None` when a piece of its body has been
    /// lost.
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

/// Where and when a record is written.
#[derive(Clone, Copy)]
pub(super) struct RecordPosition {
    pub(super) position: u64,
    /// Of the chunk.
    pub(super) sequence: u64,
    pub(super) seal: Seal,
}

/// Something to be written.
pub(super) enum QueuedRecord {
    Object(Arc<PendingObject>),
    Piece { growing: Arc<GrowingBody>, key: ObjectKey, kind: RecordKind, index: u32, bytes: Bytes },
    Removed(Key),
}

impl QueuedRecord {
    /// Bytes of its record; 0 for what has none.
    pub(super) fn record_bytes(&self) -> u64 {
        match self {
            Self::Object(object) => object.record_bytes(),
            Self::Piece { bytes, .. } => (super::format::HEAD_BYTES + bytes.len()) as u64,
            Self::Removed(_) => 0,
        }
    }

    /// The object it belongs to, or the complement for pieces of that one's table.
    pub(super) fn id(&self) -> u64 {
        match self {
            Self::Object(object) => object.id,
            Self::Piece { growing, .. } => growing.id,
            Self::Removed(_) => 0,
        }
    }

    /// The object it belongs to.
    pub(super) fn object_id(&self) -> u64 {
        match self {
            Self::Piece { growing, kind: RecordKind::TablePiece, .. } => !growing.id,
            _ => self.id(),
        }
    }

    /// Nobody would ever read it.
    pub(super) fn is_dead(&self) -> bool {
        match self {
            Self::Object(object) => object.is_dead(),
            Self::Piece { growing, .. } => growing.has_failed(),
            Self::Removed(_) => false,
        }
    }

    /// Its line in the contents, for a record at `at` units from the stripe's beginning, which
    /// begins a group or does not.
    pub(super) fn item(&self, at: u32, begins: bool) -> ContentsItem {
        let (key, kind) = match self {
            Self::Object(object) => (object.key.hash(), object.kind()),
            Self::Piece { key, kind, .. } => (key.hash(), *kind),
            Self::Removed(key) => (*key, RecordKind::Removed),
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
        }
    }

    /// Writes the record to `out`, which has its length. `None` when it is not worth it any more.
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
