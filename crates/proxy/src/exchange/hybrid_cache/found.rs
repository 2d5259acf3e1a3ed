//! What a lookup finds, and where its body is.

use super::super::body::BodySegment;
use super::super::metadata::ObjectMetadata;
use bytes::Bytes;
use shoal_store::StoredBody;
use std::sync::Arc;

/// An object that was found.
pub struct CachedObject {
    /// What its metadata says.
    pub record: ObjectMetadata,
    /// Its body.
    pub body: CachedBody,
    /// Whether it was in RAM already.
    pub in_memory: bool,
}

/// Where a found body is.
#[derive(Clone)]
pub enum CachedBody {
    /// In RAM.
    Memory(Bytes),
    /// On disk.
    Disk(Arc<dyn StoredBody>),
}

impl CachedBody {
    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk(body) => body.length(),
        }
    }

    /// Bytes `start..end` of it as a stretch of a reply.
    pub fn segment(&self, start: u64, end: u64) -> BodySegment {
        debug_assert!(start <= end && end <= self.length(), "a range within the body");
        match self {
            Self::Memory(bytes) => BodySegment::Memory(bytes.slice(start as usize..end as usize)),
            Self::Disk(body) => {
                BodySegment::Stored { body: Arc::clone(body), offset: start, length: end - start }
            }
        }
    }
}
