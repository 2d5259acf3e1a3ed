//! Inserts: admission of an object, and its way into the queue.

use super::Volume;
use super::body::UnwrittenBody;
use super::format::{
    BODY_MAX, HEAD_BYTES, KEY_MAX, METADATA_MAX, PIECE_BYTES, RecordKind, encode_table, table_bytes,
};
use super::pending::{GrowingBody, PendingBody, PendingObject, QueuedRecord};
use super::queue::enough_for;
use super::writer::QUEUED_STRIPES;
use crate::{Declined, Error, Insert, StoredBody, TryInsert};
use bytes::Bytes;
use shoal_core::ObjectKey;
use shoal_policy::Admission;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Object that is being written.
struct VolumeInsert {
    volume: Arc<Volume>,
    key: ObjectKey,
    metadata: Bytes,
    body: Arc<GrowingBody>,
    length: u64,
}

impl Volume {
    pub(super) fn insert(
        self: &Arc<Self>,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        self.file.check_service()?;
        self.check_lengths(key, metadata, body_bytes.unwrap_or(0))?;
        if !self.admits(key, body_bytes) {
            return Err(Error::Declined(Declined::OnProbation));
        }
        let body = GrowingBody::new(self.directory.next_id.fetch_add(1, Relaxed));
        let (volume, key) = (Arc::clone(self), key.clone());
        Ok(Box::new(VolumeInsert {
            volume,
            key,
            metadata: Bytes::copy_from_slice(metadata),
            body,
            length: 0,
        }))
    }

    /// Queues an object with a complete body, unless the queue is so long that a caller has to wait
    /// for the disk.
    pub(super) fn try_insert(
        self: &Arc<Self>,
        key: &ObjectKey,
        metadata: &[u8],
        body: &Bytes,
        still: &dyn Fn() -> bool,
    ) -> Result<TryInsert, Error> {
        self.check_lengths(key, metadata, body.len() as u64)?;
        // Without background work the caller writes everything itself, and waits.
        let must_wait = self.is_alone
            || body.len() > PIECE_BYTES
            || self.file.check_service().is_err()
            || self.queue.lock().bytes() >= QUEUED_STRIPES * self.geometry.stripe_bytes;
        if must_wait {
            return Ok(TryInsert::WouldBlock);
        }
        if !self.admits(key, Some(body.len() as u64)) {
            return Err(Error::Declined(Declined::OnProbation));
        }
        let (id, metadata) = (self.directory.next_id.fetch_add(1, Relaxed), Bytes::copy_from_slice(metadata));
        let object = PendingObject::new(key.clone(), id, 0, metadata, PendingBody::Whole(body.clone()));
        // The queue may have grown meanwhile; `append` leaves room for that.
        let limit_bytes = 2 * QUEUED_STRIPES * self.geometry.stripe_bytes;
        let waiting = self.queue_up(QueuedRecord::Object(object), limit_bytes)?;
        if !still() {
            self.remove_later(key);
        }
        let is_due = waiting >= enough_for(self.geometry.stripe_bytes)
            && self.directory.is_recovered.load(Relaxed)
            && !self.is_write_due.swap(true, Relaxed);
        Ok(if is_due { TryInsert::InsertedFlushDue } else { TryInsert::Inserted })
    }

    /// Returns `true` if an object is admitted. All objects are admitted while there is unused
    /// space. The smallest are always admitted: hundreds of them cost as much as one that is
    /// declined. A replacement of a stored object is admitted, since its request is a second one.
    fn admits(&self, key: &ObjectKey, body_bytes: Option<u64>) -> bool {
        match self.admission {
            Admission::Always => true,
            Admission::Probation => {
                let is_small = body_bytes.is_some_and(|bytes| bytes <= ALWAYS_BYTES);
                is_small || !self.directory.is_full() || self.may_contain(key.hash()) || {
                    let remembered = self.directory.table.objects().max(REMEMBERED_MIN) as usize;
                    self.probation.lock().admits(key.hash(), remembered)
                }
            }
        }
    }

    pub(super) fn check_lengths(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: u64,
    ) -> Result<(), Error> {
        let record = (HEAD_BYTES + key.full().len() + metadata.len()) as u64;
        let payload = body_bytes.min(PIECE_BYTES as u64).max(table_bytes(body_bytes));
        let is_too_large = key.full().len() > KEY_MAX as usize
            || metadata.len() > METADATA_MAX as usize
            || body_bytes > self.object_max_bytes.min(BODY_MAX)
            // With half a stripe, two records always fit.
            || record + payload > self.geometry.stripe_bytes / 2;
        if is_too_large { Err(Error::Declined(Declined::TooLarge)) } else { Ok(()) }
    }
}

impl Insert for VolumeInsert {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let length = self.length + bytes.len() as u64;
        self.volume.check_lengths(&self.key, &self.metadata, length)?;
        self.length = length;
        let whole = self.body.append(bytes);
        self.queue_pieces(&self.body, RecordKind::Piece, whole)
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        Arc::new(UnwrittenBody::new(Arc::clone(&self.volume.reader), Arc::clone(&self.body)))
    }

    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error> {
        let metadata = metadata.map_or_else(|| self.metadata.clone(), Bytes::copy_from_slice);
        self.volume.check_lengths(&self.key, &metadata, self.length)?;
        if self.body.has_failed() {
            return Err(Error::Declined(Declined::NoSpace));
        }
        let body = match self.body.whole() {
            Some(body) => PendingBody::Whole(body.into()),
            None => self.finish_large()?,
        };
        let object = PendingObject::new(self.key.clone(), self.body.id, 0, metadata, body);
        self.volume.append(QueuedRecord::Object(object))
    }
}

impl VolumeInsert {
    fn queue_pieces(
        &self,
        growing: &Arc<GrowingBody>,
        kind: RecordKind,
        pieces: impl IntoIterator<Item = (u32, Bytes)>,
    ) -> Result<(), Error> {
        for (index, bytes) in pieces {
            let (growing, key) = (Arc::clone(growing), self.key.clone());
            self.volume.append(QueuedRecord::Piece { growing, key, kind, index, bytes })?;
        }
        Ok(())
    }

    /// Queues the last piece, and the table's pieces when the table is stored in pieces.
    fn finish_large(&self) -> Result<PendingBody, Error> {
        self.queue_pieces(&self.body, RecordKind::Piece, self.body.finish())?;
        let direct = super::format::pieces(self.length) * 16;
        let table = if direct > table_bytes(self.length) { Some(self.write_table()?) } else { None };
        Ok(PendingBody::Large { body: Arc::clone(&self.body), bytes: self.length, table })
    }

    /// Queues the pieces of the table. The table can be written when all pieces that it names are.
    fn write_table(&self) -> Result<Arc<GrowingBody>, Error> {
        self.volume.flush(true)?;
        let places = self.body.places().ok_or(Error::Declined(Declined::NoSpace))?;
        let table = GrowingBody::new(!self.body.id);
        let whole = table.append(&encode_table(&places));
        self.queue_pieces(&table, RecordKind::TablePiece, whole)?;
        self.queue_pieces(&table, RecordKind::TablePiece, table.finish())?;
        Ok(table)
    }
}

/// Largest body that needs no probation.
const ALWAYS_BYTES: u64 = 512;
/// Least number of keys remembered while few objects are stored.
const REMEMBERED_MIN: u64 = 1024;
