//! Objects that come too late for a released disk: the process that has the disk stores them.
//!
//! Objects that requests fetch while the disks change hands would be lost. Each complete object is
//! therefore given to an [`Heir`], which passes it on. An arriving body is gathered in RAM, up to a
//! limit.

use super::{DisksState, may_come};
use crate::{Error, Insert, InsertRefusal, StoredBody, TryInsert};
use bytes::Bytes;
use parking_lot::RwLock;
use shoal_core::ObjectKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Receiver of objects for the process that has the disks. No call may block.
pub trait Heir: Send + Sync {
    /// Passes an object on. Returns `false` if too many wait already.
    fn insert(&self, object: LateObject) -> bool;

    /// Passes the removal of an object on.
    fn remove(&self, key: &ObjectKey);
}

/// Complete object for another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateObject {
    /// Key of the object.
    pub key: ObjectKey,
    /// Metadata of the object.
    pub metadata: Bytes,
    /// Body of the object.
    pub body: Bytes,
}

/// Insert of an object for another process.
struct LateInsert {
    shared: Arc<DisksState>,
    key: ObjectKey,
    metadata: Bytes,
    body: Arc<LateBody>,
}

/// Body that is gathered in RAM.
#[derive(Default)]
struct LateBody {
    bytes: RwLock<Vec<u8>>,
    /// Bytes gathered for all bodies, for the limit.
    gathered: Arc<AtomicU64>,
}

impl DisksState {
    /// Gives a complete object to the other process, unless it has become invalid.
    pub(super) fn bequeath_if(
        &self,
        (key, metadata, body): (&ObjectKey, &[u8], &Bytes),
        still: &dyn Fn() -> bool,
    ) -> Result<TryInsert, Error> {
        if !still() {
            return Ok(TryInsert::Inserted);
        }
        let metadata = Bytes::copy_from_slice(metadata);
        self.bequeath(LateObject { key: key.clone(), metadata, body: body.clone() })?;
        Ok(TryInsert::Inserted)
    }

    fn bequeath(&self, object: LateObject) -> Result<(), Error> {
        let heir = self.heir.read().clone();
        // An older object of the key on a released disk is hidden from now on. Another disk may be
        // in service still, or again; the caller removes an older object there.
        let refused = self.declined(&object.key);
        let is_older_found =
            self.holder(&object.key).is_some_and(|(_, store)| may_come(&**store, &object.key));
        match heir {
            Some(heir)
                if !is_older_found && object.body.len() as u64 <= LATE_BODY_MAX && heir.insert(object) =>
            {
                Ok(())
            }
            _ => Err(refused),
        }
    }

    /// Begins to gather an object for the other process.
    pub(super) fn begin_late(
        self: &Arc<Self>,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        if self.heir.read().is_none() || body_bytes.is_some_and(|bytes| bytes > LATE_BODY_MAX) {
            return Err(self.declined(key));
        }
        debug_assert!(body_bytes.is_none_or(|bytes| bytes <= LATE_BODY_MAX));
        let body = LateBody { bytes: RwLock::default(), gathered: Arc::clone(&self.gathered) };
        let metadata = Bytes::copy_from_slice(metadata);
        Ok(Box::new(LateInsert {
            shared: Arc::clone(self),
            key: key.clone(),
            metadata,
            body: Arc::new(body),
        }))
    }

    /// Tells the other process of a removal. Returns `false` if there is no other process.
    pub(super) fn remove_late(&self, key: &ObjectKey) -> bool {
        let heir = self.heir.read();
        heir.as_ref().map(|heir| heir.remove(key)).is_some()
    }
}

impl Insert for LateInsert {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut gathered = self.body.bytes.write();
        let more = bytes.len() as u64;
        let all = self.body.gathered.fetch_add(more, Relaxed) + more;
        if gathered.len() as u64 + more > LATE_BODY_MAX || all > LATE_BYTES_MAX {
            self.body.gathered.fetch_sub(more, Relaxed);
            return Err(Error::Declined(InsertRefusal::TooLarge));
        }
        gathered.extend_from_slice(bytes);
        assert!(gathered.len() as u64 <= LATE_BODY_MAX);
        Ok(())
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        Arc::clone(&self.body) as Arc<dyn StoredBody>
    }

    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error> {
        let body = Bytes::copy_from_slice(&self.body.bytes.read());
        assert!(body.len() as u64 <= LATE_BODY_MAX, "more than was gathered");
        let metadata = metadata.map_or_else(|| self.metadata.clone(), Bytes::copy_from_slice);
        self.shared.bequeath(LateObject { key: self.key.clone(), metadata, body })
    }
}

impl StoredBody for LateBody {
    fn length(&self) -> u64 {
        self.bytes.read().len() as u64
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        let bytes = self.bytes.read();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(limit).min(bytes.len());
        assert!(start <= end && end <= bytes.len());
        Ok(Bytes::copy_from_slice(&bytes[start..end]))
    }
}

impl Drop for LateBody {
    fn drop(&mut self) {
        let bytes = self.bytes.get_mut().len() as u64;
        let before = self.gathered.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "bytes that were not gathered");
    }
}

/// Largest body that is passed on.
pub const LATE_BODY_MAX: u64 = 8 << 20;

/// Most bytes of all bodies that are gathered at a time.
const LATE_BYTES_MAX: u64 = 64 << 20;

const _: () = assert!(LATE_BODY_MAX <= LATE_BYTES_MAX);
