//! Object file: a header with the full key, metadata with room to grow, the body, its checksums.
//!
//! ```text
//! 0          80         80+k                  body_at               body_at+b
//! ┌──────────┬──────────┬──────────┬──────────┬─────────────────────┬───────────────┐
//! │ header   │ full key │ metadata │ slack    │ body                │ 8 bytes for   │
//! │ 80 bytes │ k bytes  │ m bytes  │          │ b bytes             │ each 64 KiB   │
//! └──────────┴──────────┴──────────┴──────────┴─────────────────────┴───────────────┘
//! ```
//! `docs/FORMATS.md` has the layout byte by byte. The header says *complete*, and is written last.
//! A body that fits into one write buffer goes out in one write with everything else. The file's
//! length then tells a torn write from a whole one. Checksums of metadata and blocks are seeded
//! with the object's sequence number, so that bytes of another object never pass.

mod body;
mod header;
#[cfg(test)]
mod tests;
mod writing;

pub(crate) use body::{BodyOwner, OpenBody};
pub(crate) use header::{
    HEADER_CHECK, KEY_MAX, METADATA_MAX, ObjectHead, ObjectHeader, ObjectMismatch, read_head,
};
pub(crate) use writing::{InsertTarget, ObjectWriter};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Returns the checksum of a block of the body.
pub(crate) fn block_check(sequence: u64, block: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, sequence.wrapping_add(block))
}

/// Returns the largest body of an object file of at most `file_bytes` bytes; 0 if the other parts
/// take more.
pub(crate) fn body_within(file_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
    let room = ObjectHeader::room_for(key_bytes, metadata_bytes);
    let body_at = ObjectHeader::body_at_after(key_bytes, room);
    let rest = file_bytes.saturating_sub(body_at);
    rest.saturating_sub(rest.div_ceil((BLOCK_BYTES + CHECK_BYTES) as u64) * CHECK_BYTES as u64)
}

/// Returns the largest body of a record of at most one block without room for more metadata.
pub(crate) fn body_within_tight(file_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
    let head = header::HEADER_BYTES as u64 + u64::from(key_bytes) + u64::from(metadata_bytes);
    file_bytes.saturating_sub(head + CHECK_BYTES as u64)
}

/// Bytes of body under one checksum, and of one write.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;
/// Bytes of a checksum.
const CHECK_BYTES: usize = 8;
