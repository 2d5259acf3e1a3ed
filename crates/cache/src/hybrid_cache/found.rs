//! A found object, and the place of its body.

use super::super::body::BodySegment;
use super::super::metadata::ObjectMetadata;
use bytes::Bytes;
use shoal_store::StoredBody;
use std::sync::Arc;

/// An object found by a lookup.
pub struct CachedObject {
    /// Metadata of the object.
    pub record: ObjectMetadata,
    /// Body of the object.
    pub body: CachedBody,
    /// `true` if the object was already in RAM.
    pub in_memory: bool,
}

/// Place of a found body.
#[derive(Clone)]
pub enum CachedBody {
    /// In RAM.
    Memory(Bytes),
    /// On disk.
    Disk(Arc<dyn StoredBody>),
}

impl CachedBody {
    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk(body) => body.length(),
        }
    }

    /// Returns bytes `start..end` as a segment of a reply.
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
