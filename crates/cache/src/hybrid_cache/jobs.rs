//! Jobs with the disk store that run on a pool's thread.

use super::super::invalidations::ValiditySnapshot;
use super::super::metadata::ObjectMetadata;
use super::MemoryEntry;
use bytes::Bytes;
use shoal_core::ObjectKey;
use shoal_memory::{BodyBuilder, MemoryBudget, MemoryTier, Reservation};
use shoal_store::{Error, Insert, OpenObject, Store, StoredBody};
use std::sync::Arc;

/// Writes an object in RAM to the disk. Removes it again if RAM no longer has the object: it may
/// have been purged.
pub(super) fn write_resident(
    store: &dyn Store,
    memory: &MemoryTier<MemoryEntry>,
    resident: &Arc<MemoryEntry>,
) -> Result<(), Error> {
    let key = &resident.key;
    let mut insert = store.insert(key, &resident.record.encode(), Some(resident.body.len() as u64))?;
    insert.append(&resident.body)?;
    insert.commit(None)?;
    if !memory.peek(key.hash()).is_some_and(|now| now.is_same(resident)) {
        store.remove(key)?;
    }
    Ok(())
}

/// An object on disk.
pub(super) struct LoadedObject {
    pub record: ObjectMetadata,
    pub body: Arc<dyn StoredBody>,
    /// The whole body with its charge, if it is small and the ledger has room.
    pub whole: Option<(Bytes, Reservation)>,
}

/// Opens an object, and reads it whole if it is small.
pub(super) fn open(
    store: &dyn Store,
    key: &ObjectKey,
    small: u64,
    ledger: &Arc<MemoryBudget>,
) -> Result<Option<LoadedObject>, Error> {
    let Some(stored) = store.open(key)? else { return Ok(None) };
    let Some(record) = ObjectMetadata::decode(&stored.metadata) else {
        store.remove(key)?;
        return Err(Error::Corrupt { part: "metadata" });
    };
    if !record.is_for_everybody() {
        store.remove(key)?;
        return Ok(None);
    }
    // A client may take the body late, and should not keep the whole neighbourhood read with it.
    let body = stored.body.detached().unwrap_or(stored.body);
    read(OpenObject { body, metadata: stored.metadata }, record, small, ledger).map(Some)
}

/// Reads an object whole if it is small. The bytes are reserved first: many clients may ask for the
/// same object at once. Without room they read it in pieces.
pub(super) fn read(
    stored: OpenObject,
    record: ObjectMetadata,
    small: u64,
    ledger: &Arc<MemoryBudget>,
) -> Result<LoadedObject, Error> {
    let length = stored.body.length();
    let reserved = if length <= small { ledger.try_reserve(length) } else { None };
    let whole = match reserved {
        Some(reservation) => Some((read_whole(&*stored.body, length as usize)?, reservation)),
        None => None,
    };
    Ok(LoadedObject { record, body: stored.body, whole })
}

fn read_whole(body: &dyn StoredBody, length: usize) -> Result<Bytes, Error> {
    let first = body.read(0, length)?;
    if first.len() == length {
        return Ok(first);
    }
    let mut whole = BodyBuilder::with_capacity(length);
    whole.push(&first);
    while whole.length() < length {
        let next = body.read(whole.length() as u64, length - whole.length())?;
        if next.is_empty() {
            return Err(Error::Corrupt { part: "body" });
        }
        whole.push(&next);
    }
    Ok(whole.into_bytes())
}

/// Completes an insert unless it is not valid. Removes the object again if it became invalid
/// meanwhile.
pub fn commit_valid(
    store: &dyn Store,
    insert: Box<dyn Insert>,
    key: &ObjectKey,
    validity: &ValiditySnapshot,
) -> Result<(), Error> {
    if !validity.is_unchanged() {
        return Ok(());
    }
    insert.commit(None)?;
    if !validity.is_unchanged() {
        store.remove(key)?;
    }
    Ok(())
}
