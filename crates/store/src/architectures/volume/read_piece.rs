//! Reads of pieces of large bodies and of their tables, each checked.

use super::format::{HEAD_BYTES, PIECE_BYTES, PieceLocation, payload_check};
use super::reader::Reader;
use super::windows::ReadDirection;
use crate::Error;
use bytes::Bytes;

impl Reader {
    /// Reads and checks a piece of a body or table.
    pub(super) fn read_piece(
        &self,
        place: PieceLocation,
        index: u32,
        piece_bytes: usize,
        id: u64,
    ) -> Result<Bytes, Error> {
        assert!(piece_bytes <= PIECE_BYTES);
        let at = HEAD_BYTES as u64;
        let check = |bytes: &Bytes| payload_check(id, index, bytes) == place.check;
        let piece = self.read_span(place.position + at, piece_bytes as u64, Some(ReadDirection::Onward))?;
        if piece.len() == piece_bytes && check(&piece) {
            return Ok(piece);
        }
        self.windows.forget(place.position..place.position + at + piece_bytes as u64);
        let piece = self.read_span(place.position + at, piece_bytes as u64, None)?;
        if piece.len() == piece_bytes && check(&piece) {
            Ok(piece)
        } else {
            Err(Error::Corrupt { part: "body" })
        }
    }

    /// Returns a piece that a window has, checked. `None` if no window has it, or has it wrong.
    pub(super) fn piece_in_window(
        &self,
        place: PieceLocation,
        index: u32,
        piece_bytes: usize,
        id: u64,
    ) -> Option<Bytes> {
        let at = place.position + HEAD_BYTES as u64;
        let piece = self.windows.try_find(&self.geometry, at, piece_bytes as u64)?;
        (payload_check(id, index, &piece) == place.check).then_some(piece)
    }
}
