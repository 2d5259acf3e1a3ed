//! Bodies as their readers see them: whole in RAM, in pieces on disk, or still growing.

use super::format::{PIECE_BYTES, PieceLocation, RecordHead, RecordKind, pieces};
use super::index::VolumeEntry;
use super::pending::{ByteLocation, GrowingBody};
use super::reader::Reader;
use super::stripes::StripePin;
use crate::{Error, StoredBody};
use bytes::Bytes;
use shoal_core::ObjectKey;
use std::sync::Arc;

/// Checked body of at most one piece.
pub(super) struct WholeBody(pub(super) Bytes);

impl StoredBody for WholeBody {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        Ok(part(&self.0, offset, limit))
    }

    fn read_at_once(&self, offset: u64, limit: usize) -> Option<Bytes> {
        Some(part(&self.0, offset, limit))
    }
}

/// Checked body inside a larger read; all bytes of the read stay in memory while this is used.
pub(super) struct WindowBody(pub(super) Bytes);

impl StoredBody for WindowBody {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        Ok(part(&self.0, offset, limit))
    }

    fn read_at_once(&self, offset: u64, limit: usize) -> Option<Bytes> {
        Some(part(&self.0, offset, limit))
    }

    fn detached(&self) -> Option<Arc<dyn StoredBody>> {
        Some(Arc::new(WholeBody(Bytes::copy_from_slice(&self.0))))
    }
}

fn part(bytes: &Bytes, offset: u64, limit: usize) -> Bytes {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    bytes.slice(from..from.saturating_add(limit).min(bytes.len()))
}

/// Body in pieces on disk. The stripes of the body are pinned while it is read.
pub(super) struct LargeBody {
    reader: Arc<Reader>,
    key: ObjectKey,
    entry: VolumeEntry,
    head: RecordHead,
    places: Vec<PieceLocation>,
    _pin: StripePin,
}

impl LargeBody {
    pub(super) fn new(
        reader: Arc<Reader>,
        key: ObjectKey,
        (entry, head): (VolumeEntry, RecordHead),
        places: Vec<PieceLocation>,
        pin: StripePin,
    ) -> Self {
        assert_eq!(head.key, key.hash());
        assert_eq!(head.kind, RecordKind::Large);
        assert_eq!(head.position, entry.position());
        assert_eq!(places.len() as u64, pieces(head.body_bytes));
        Self { reader, key, entry, head, places, _pin: pin }
    }

    /// Returns the piece that holds `offset`: its place, its number, the bytes of it before
    /// `offset`, and its length. `None` at the body's end.
    fn piece_of(&self, offset: u64) -> Option<(PieceLocation, u32, usize, usize)> {
        let (index, skip) = (offset / PIECE_BYTES as u64, (offset % PIECE_BYTES as u64) as usize);
        if offset >= self.head.body_bytes {
            return None;
        }
        let left = self.head.body_bytes - index * PIECE_BYTES as u64;
        let place = self.places.get(index as usize)?;
        Some((*place, index as u32, skip, left.min(PIECE_BYTES as u64) as usize))
    }
}

impl StoredBody for LargeBody {
    fn length(&self) -> u64 {
        self.head.body_bytes
    }

    fn position(&self, offset: u64) -> Option<u64> {
        self.places.get((offset / PIECE_BYTES as u64) as usize).map(|place| place.position)
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        if offset >= self.head.body_bytes {
            return Ok(Bytes::new());
        }
        let Some((place, index, skip, piece_bytes)) = self.piece_of(offset) else {
            return Err(Error::Corrupt { part: "table of pieces" });
        };
        match self.reader.read_piece(place, index, piece_bytes, self.head.id) {
            Ok(piece) => {
                debug_assert!(skip < piece.len());
                Ok(cut(piece, skip, limit))
            }
            Err(error) => {
                if let Error::Corrupt { part } = error {
                    self.reader.drop_corrupt(&self.key, self.entry, part);
                }
                Err(error)
            }
        }
    }

    fn read_near(&self, offset: u64, limit: usize) -> Option<Bytes> {
        let (place, index, skip, piece_bytes) = self.piece_of(offset)?;
        let piece = self.reader.piece_in_window(place, index, piece_bytes, self.head.id)?;
        Some(cut(piece, skip, limit))
    }
}

/// Body that is being written, or was until a moment ago.
pub(super) struct UnwrittenBody {
    reader: Arc<Reader>,
    growing: Arc<GrowingBody>,
}

impl UnwrittenBody {
    pub(super) fn new(reader: Arc<Reader>, growing: Arc<GrowingBody>) -> Self {
        Self { reader, growing }
    }
}

impl StoredBody for UnwrittenBody {
    fn length(&self) -> u64 {
        self.growing.length()
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        match self.growing.find(offset) {
            ByteLocation::Memory(bytes) => Ok(cut(bytes, 0, limit)),
            ByteLocation::Disk { place, index, skip, piece_bytes } => {
                let piece = self.reader.read_piece(place, index, piece_bytes, self.growing.id)?;
                assert_eq!(piece.len(), piece_bytes);
                assert!(skip < piece_bytes);
                Ok(cut(piece, skip, limit))
            }
            ByteLocation::End => Ok(Bytes::new()),
            ByteLocation::Lost => Err(Error::Corrupt { part: "body that could not be written" }),
        }
    }
}

fn cut(piece: Bytes, skip: usize, limit: usize) -> Bytes {
    let to = skip.saturating_add(limit).min(piece.len());
    piece.slice(skip.min(to)..to)
}
