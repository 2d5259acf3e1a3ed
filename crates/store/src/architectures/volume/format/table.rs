//! Tables of the pieces that a large body stands in.

use super::{PIECE_BYTES, PLACE_BYTES, u64_at};

/// Line of a table: the place of a piece of a body or table, and its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct PieceLocation {
    /// Position of the piece's record.
    pub(in super::super) position: u64,
    pub(in super::super) check: u64,
}

/// Encodes a table.
pub(in super::super) fn encode_table(places: &[PieceLocation]) -> Vec<u8> {
    let line = |place: &PieceLocation| [place.position.to_le_bytes(), place.check.to_le_bytes()];
    let table: Vec<u8> = places.iter().flat_map(line).flatten().collect();
    assert_eq!(table.len(), places.len() * PLACE_BYTES);
    debug_assert_eq!(decode_table(&table), places);
    table
}

/// Decodes a table.
pub(in super::super) fn decode_table(bytes: &[u8]) -> Vec<PieceLocation> {
    let line = |line: &[u8]| PieceLocation { position: u64_at(line, 0), check: u64_at(line, 8) };
    bytes.chunks_exact(PLACE_BYTES).map(line).collect()
}

/// Returns the number of pieces for `bytes` bytes.
pub(in super::super) fn pieces(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE_BYTES as u64)
}

/// Returns the bytes of the table in the record of a large object. When the table of its pieces
/// exceeds one piece, that table is stored in pieces itself. The record then holds the table of
/// these pieces.
pub(in super::super) fn table_bytes(body_bytes: u64) -> u64 {
    let direct = pieces(body_bytes) * PLACE_BYTES as u64;
    if direct <= PIECE_BYTES as u64 { direct } else { pieces(direct) * PLACE_BYTES as u64 }
}
