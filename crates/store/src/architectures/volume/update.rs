//! Metadata updates of stored objects: in the queue, in place on disk, or by rewriting the object.
//! Also marks removed objects.

use super::Volume;
use super::format::{HEAD_BYTES, METADATA_MAX, RecordHead, RecordKind};
use super::index::VolumeEntry;
use super::pages::AlignedPages;
use super::pending::{MetadataChange, PendingBody, PendingObject, QueuedRecord};
use super::queue::WriteQueue;
use super::read::FoundRecord;
use super::volume_file::VolumeFile;
use crate::Error;
use crate::fs::{PAGE_BYTES, write_full};
use bytes::Bytes;
use shoal_core::{Key, ObjectKey};
use std::sync::Arc;

impl Volume {
    pub(super) fn update_metadata(
        self: &Arc<Self>,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        if metadata.len() > METADATA_MAX as usize {
            return Ok(false);
        }
        // The check and the replacement are one step: of two concurrent updates, the second sees
        // the result of the first.
        let _turn = self.update_turns[key.hash().low() as usize % UPDATE_TURNS].lock();
        let waiting = self.queue.lock().find(key.hash()).map(Arc::clone);
        if let Some(object) = waiting.filter(|object| object.key == *key) {
            match object.change(metadata, replaces) {
                MetadataChange::Done => return Ok(true),
                MetadataChange::Refused => return Ok(false),
                MetadataChange::TooLate if self.queue_anew(&object, metadata)? => return Ok(true),
                // The record is on disk, or will be in a moment.
                MetadataChange::TooLate => drop(self.flush(true)?),
            }
        }
        let Some(found) = self.find(key)? else { return Ok(false) };
        let Some((_, old)) = found.head.key_and_metadata(&found.record) else { return Ok(false) };
        if !replaces(old) {
            return Ok(false);
        }
        // The contents of the stripe tell whether it is pinned, and stay as they are.
        let is_other = self.pins.holds(old) != self.pins.holds(metadata);
        let moves = is_other && found.head.kind == RecordKind::Whole;
        if metadata.len() <= found.head.room as usize && !moves {
            return self.replace_in_place(key, &found, metadata);
        }
        self.write_anew(key, &found, metadata)
    }

    /// Queues an object that is waiting or being written once more, with new metadata. Returns
    /// `false` when the object is large, or no longer waits.
    fn queue_anew(&self, object: &Arc<PendingObject>, metadata: &[u8]) -> Result<bool, Error> {
        let PendingBody::Whole(body) = &object.body else { return Ok(false) };
        if self.check_lengths(&object.key, metadata, body.len() as u64).is_err() {
            return Ok(false);
        }
        let (body, metadata) = (PendingBody::Whole(body.clone()), Bytes::copy_from_slice(metadata));
        let anew = PendingObject::new(object.key.clone(), object.id, object.hits, metadata, body);
        let is_it = |queue: &WriteQueue| {
            queue.find(object.key.hash()).is_some_and(|waiting| Arc::ptr_eq(waiting, object))
        };
        self.append_if(QueuedRecord::Object(anew), is_it)
    }

    /// Writes head, key and metadata over the present ones, unless the object was removed
    /// meanwhile.
    fn replace_in_place(&self, key: &ObjectKey, found: &FoundRecord, metadata: &[u8]) -> Result<bool, Error> {
        let _updating = self.reader.updating.lock();
        let position = found.entry.position();
        if self.directory.table.entry_at(key.hash(), position).is_none() {
            return Ok(false);
        }
        let head = RecordHead { metadata_bytes: metadata.len() as u32, ..found.head };
        let mut bytes = vec![0; found.head.payload_at()];
        assert!(metadata.len() <= head.room as usize, "metadata over the body");
        assert_eq!(head.position, position);
        head.encode(self.file.seal, key.full(), metadata, &mut bytes);
        let outcome = self.file.write_over(position, &bytes);
        self.reader.windows.forget(position..position + bytes.len() as u64);
        outcome.map(|()| true)
    }

    /// Marks a removed object's record on disk. An index on disk may still name the object. After a
    /// crash such objects are served before the log has been followed to the line with the removal.
    pub(super) fn mark_removed(&self, key: Key, entry: VolumeEntry) -> Result<(), Error> {
        let position = entry.position();
        let stripe = self.geometry.stripe_of(position);
        let pinned = stripe.and_then(|stripe| Some((stripe, self.reader.stripes.pin([stripe])?)));
        // An unpinned stripe is being overwritten.
        let Some((stripe, _pin)) = pinned else { return Ok(()) };
        let _updating = self.reader.updating.lock();
        let record = self.reader.read_span(position, entry.bytes(), None)?;
        // A record older than its stripe is being overwritten too, and the rest of its pages with
        // it.
        let is_it = |head: &RecordHead| {
            head.key == key && head.sequence >= self.directory.table.stripe_sequence(stripe)
        };
        let Some(head) = self.reader.decode_head(&record, position).ok().filter(is_it) else { return Ok(()) };
        let removed = RecordHead {
            kind: RecordKind::Removed,
            body_bytes: 0,
            key_bytes: 0,
            metadata_bytes: 0,
            room: 0,
            ..head
        };
        assert_eq!(removed.position, position);
        assert_eq!(removed.payload_at(), HEAD_BYTES);
        let mut mark = [0; HEAD_BYTES];
        removed.encode(self.file.seal, &[], &[], &mut mark);
        let outcome = self.file.write_over(position, &mark);
        self.reader.windows.forget(position..position + HEAD_BYTES as u64);
        // A sync meanwhile may have covered the waiting records but not this mark.
        if self.queue.lock().leave_unsynced() {
            self.sync_bell.ring();
        }
        outcome
    }

    /// Queues the object with its new metadata. A large object keeps its metadata and is validated
    /// again.
    fn write_anew(
        self: &Arc<Self>,
        key: &ObjectKey,
        found: &FoundRecord,
        metadata: &[u8],
    ) -> Result<bool, Error> {
        if found.head.kind != RecordKind::Whole
            || metadata.len() + HEAD_BYTES > self.geometry.stripe_bytes as usize / 4
        {
            return Ok(false);
        }
        let Some(body) = found.head.payload(&found.record) else { return Ok(false) };
        let body = PendingBody::Whole(Bytes::copy_from_slice(body));
        let metadata = Bytes::copy_from_slice(metadata);
        let hits = found.entry.hits();
        assert_eq!(found.head.key, key.hash());
        let object = PendingObject::new(key.clone(), found.head.id, hits, metadata, body);
        // An object removed or replaced meanwhile stays so.
        let is_current = |queue: &WriteQueue| {
            let entry = self.directory.table.entry_at(key.hash(), found.entry.position());
            queue.find(key.hash()).is_none() && entry.is_some()
        };
        self.append_if(QueuedRecord::Object(object), is_current)
    }
}

impl VolumeFile {
    /// Writes bytes with the rest of their pages.
    fn write_over(&self, position: u64, bytes: &[u8]) -> Result<(), Error> {
        let page = PAGE_BYTES as u64;
        let from = position / page * page;
        let to = (position + bytes.len() as u64).next_multiple_of(page);
        let mut pages = AlignedPages::zeroed((to - from) as usize);
        self.read_pages(&mut pages, from)
            .map_err(|source| self.failed("read what stands beside metadata", source))?;
        let at = (position - from) as usize;
        assert!(at + bytes.len() <= pages.as_ref().len());
        assert!(to <= self.geometry.volume_bytes());
        pages.as_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        let written = write_full(&*self.data, pages.as_ref(), from);
        written.map_err(|source| self.failed("write metadata to the volume", source))
    }
}

/// Limit of concurrent updates. Updates of two keys that share a turn wait for each other.
pub(super) const UPDATE_TURNS: usize = 16;
