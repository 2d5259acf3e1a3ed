//! Inserts: admission of an object, and its way into the queue.

use super::Volume;
use super::body::UnwrittenBody;
use super::format::{
    BODY_MAX, HEAD_BYTES, KEY_MAX, METADATA_MAX, PIECE_BYTES, RecordKind, encode_table, table_bytes,
};
use super::pending::{GrowingBody, PendingBody, PendingObject, QueuedRecord};
use super::queue::enough_for;
use super::writer::QUEUED_STRIPES;
use crate::{Error, Insert, InsertRefusal, StoredBody, TryInsert};
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
    /// The object is pinned and replaces none.
    is_pin_newcomer: bool,
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
        let is_pinned = self.pins.holds(metadata);
        let is_spared = is_pinned && self.would_spare(self.pin_bytes(key, metadata, body_bytes.unwrap_or(0)));
        if !self.admits(key, body_bytes, is_spared) {
            return Err(Error::Declined(InsertRefusal::OnProbation));
        }
        let is_pin_newcomer = is_pinned && !self.may_contain(key.hash());
        let body =
            GrowingBody::new(self.directory.next_id.fetch_add(1, Relaxed), is_pinned, &self.reader.used);
        let (volume, key) = (Arc::clone(self), key.clone());
        Ok(Box::new(VolumeInsert {
            volume,
            key,
            metadata: Bytes::copy_from_slice(metadata),
            body,
            length: 0,
            is_pin_newcomer,
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
        let is_pinned = self.pins.holds(metadata);
        let pin_bytes = self.pin_bytes(key, metadata, body.len() as u64);
        let is_spared = is_pinned && self.would_spare(pin_bytes);
        if !self.admits(key, Some(body.len() as u64), is_spared) {
            return Err(Error::Declined(InsertRefusal::OnProbation));
        }
        let is_pin_newcomer = is_pinned && !self.may_contain(key.hash());
        let (id, metadata) = (self.directory.next_id.fetch_add(1, Relaxed), Bytes::copy_from_slice(metadata));
        assert!(body.len() <= PIECE_BYTES);
        let object = PendingObject::new(key.clone(), id, 0, metadata, PendingBody::Whole(body.clone()));
        // The queue may have grown meanwhile; `append` leaves room for that.
        let limit_bytes = 2 * QUEUED_STRIPES * self.geometry.stripe_bytes;
        let waiting = self.queue_up(QueuedRecord::Object(object), limit_bytes)?;
        if is_pin_newcomer {
            self.pin_newcomers.lock().add(pin_bytes);
        }
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
    /// A pinned object that replacement spares is admitted too.
    fn admits(&self, key: &ObjectKey, body_bytes: Option<u64>, is_spared: bool) -> bool {
        let is_admitted = is_spared || self.judges_worth(key, body_bytes);
        self.directory.ring.count_offer(is_admitted);
        is_admitted
    }

    fn judges_worth(&self, key: &ObjectKey, body_bytes: Option<u64>) -> bool {
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

    /// Returns `true` if replacement would spare a pinned object that takes this room. An object
    /// beyond the budget is admitted like others.
    fn would_spare(&self, bytes: u64) -> bool {
        self.pin_newcomers.lock().has_room(bytes)
    }

    /// Returns the room that a pinned object takes of the budget. A large one keeps whole stripes.
    fn pin_bytes(&self, key: &ObjectKey, metadata: &[u8], body_bytes: u64) -> u64 {
        let stripe_bytes = self.geometry.stripe_bytes;
        match body_bytes > PIECE_BYTES as u64 {
            true => (body_bytes / stripe_bytes + 1) * stripe_bytes,
            false => (HEAD_BYTES + key.full().len() + metadata.len()) as u64 + body_bytes,
        }
    }

    /// Records that the writer has looked at a stripe, which now holds its new records if
    /// `is_taken`, and that the ledger spares `spared_bytes`.
    pub(super) fn note_reclaimed(&self, stripe: u32, is_taken: bool, spared_bytes: u64) {
        if self.pins.bytes_max == 0 {
            return;
        }
        let mut newcomers = self.pin_newcomers.lock();
        newcomers.looked_at(stripe, spared_bytes);
        if is_taken {
            newcomers.write_to(stripe);
        }
        if cfg!(debug_assertions) {
            newcomers.invariants();
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
        if is_too_large { Err(Error::Declined(InsertRefusal::TooLarge)) } else { Ok(()) }
    }
}

impl Insert for VolumeInsert {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let length = self.length + bytes.len() as u64;
        self.volume.check_lengths(&self.key, &self.metadata, length)?;
        self.length = length;
        let whole = self.body.append(bytes);
        debug_assert_eq!(self.body.length(), self.length);
        self.queue_pieces(&self.body, RecordKind::Piece, whole)
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        Arc::new(UnwrittenBody::new(Arc::clone(&self.volume.reader), Arc::clone(&self.body)))
    }

    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error> {
        let metadata = metadata.map_or_else(|| self.metadata.clone(), Bytes::copy_from_slice);
        self.volume.check_lengths(&self.key, &metadata, self.length)?;
        if self.body.has_failed() {
            return Err(Error::Declined(InsertRefusal::NoSpace));
        }
        assert_eq!(self.body.length(), self.length, "all that was appended");
        let body = match self.body.whole() {
            Some(body) => {
                assert!(body.len() <= PIECE_BYTES);
                PendingBody::Whole(body.into())
            }
            None => self.finish_large()?,
        };
        let object = PendingObject::new(self.key.clone(), self.body.id, 0, metadata, body);
        self.volume.append(QueuedRecord::Object(object))?;
        if self.is_pin_newcomer {
            let bytes = self.volume.pin_bytes(&self.key, &self.metadata, self.length);
            self.volume.pin_newcomers.lock().add(bytes);
        }
        Ok(())
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
        let places = self.body.places().ok_or(Error::Declined(InsertRefusal::NoSpace))?;
        assert_eq!(places.len() as u64, super::format::pieces(self.length));
        let table = self.body.for_table();
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

const _: () = assert!(ALWAYS_BYTES <= PIECE_BYTES as u64);
