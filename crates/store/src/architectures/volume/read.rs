//! Read path from disk to caller: finds a record, reads it with its neighbourhood, and checks it.

use super::Volume;
use super::body::{LargeBody, UnwrittenBody, WholeBody, WindowBody};
use super::format::{
    ContentsItem, PIECE_BYTES, PieceLocation, RecordHead, RecordKind, decode_table, pieces, table_bytes,
};
use super::index::{VolumeEntry, VolumeIndex};
use super::pending::{PendingBody, PendingObject};
use super::reader::Reader;
use super::stripes::StripePin;
use super::windows::ReadDirection;
use super::writer::SKIPPED_MAX;
use crate::fs::PAGE_BYTES;
use crate::{Error, ObjectSummary, OpenObject, StoredBody};
use bytes::Bytes;
use shoal_core::ObjectKey;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use tracing::warn;

/// Record that passed its checks.
pub(super) struct FoundRecord {
    pub(super) entry: VolumeEntry,
    pub(super) head: RecordHead,
    /// Bytes of the record from its beginning: all of it, or up to its table's end.
    pub(super) record: Bytes,
    pub(super) pin: StripePin,
}

/// Reason why a record is not the wanted object.
enum RecordMismatch {
    /// The object of a key that looks alike.
    OtherKey,
    /// The place was overwritten since.
    Stale,
    Corrupt(&'static str),
    Disk(Error),
}

impl Volume {
    pub(super) fn open(self: &Arc<Self>, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        // Twice: a carried object moves from the table to the queue, a written one from the queue
        // to the table.
        for _ in 0..2 {
            let waiting = self.queue.lock().find(key.hash()).map(Arc::clone);
            if let Some(object) = waiting.filter(|object| object.key == *key) {
                return Ok(Some(self.reader.stored_of(object)));
            }
            if let Some(found) = self.find(key)? {
                self.directory.count_hit(key.hash(), found.entry);
                let stored = self.reader.stored(key, found);
                if let Ok(Some(_)) | Err(_) = stored {
                    return stored;
                }
            }
        }
        Ok(None)
    }

    /// Returns the object, and counts a hit, if no device is needed: the object waits to be
    /// written, or a window has all of it.
    pub(super) fn try_open(self: &Arc<Self>, key: &ObjectKey) -> Option<OpenObject> {
        let waiting = self.queue.lock().find(key.hash()).map(Arc::clone);
        if let Some(object) = waiting.filter(|object| object.key == *key) {
            // Pieces may be on disk already.
            return matches!(object.body, PendingBody::Whole(_)).then(|| self.reader.stored_of(object));
        }
        let may_be_overruled =
            || !self.directory.is_followed.load(Acquire) && self.directory.changed.may_have(key.hash());
        if self.file.check_service().is_err() || may_be_overruled() {
            return None;
        }
        self.directory.table.candidates(key.hash()).find_map(|entry| {
            let length = entry.bytes().min(self.reader.left_in_stripe(entry.position()));
            let record = self.reader.windows.try_find(&self.geometry, entry.position(), length)?;
            // A caller that may read the device looks again at a record that fails its checks.
            let (head, record) = self.reader.check_record(key, entry, record).ok()?;
            let (_, metadata) = head.key_and_metadata(&record)?;
            let payload =
                head.payload(&record).filter(|_| head.kind == RecordKind::Whole && !may_be_overruled())?;
            self.directory.count_hit(key.hash(), entry);
            Some(whole(&record, metadata, payload))
        })
    }

    /// Looks at the object: reads its record alone, past the windows.
    pub(super) fn peek(self: &Arc<Self>, key: &ObjectKey) -> Result<Option<ObjectSummary>, Error> {
        for _ in 0..2 {
            let waiting = self.queue.lock().find(key.hash()).map(Arc::clone);
            if let Some(object) = waiting.filter(|object| object.key == *key) {
                return Ok(Some(self.reader.stored_of(object).into()));
            }
            if !self.is_followed() {
                return Ok(None);
            }
            for entry in self.directory.table.candidates(key.hash()).collect::<Vec<_>>() {
                self.file.check_service()?;
                let stripe = self.geometry.stripe_of(entry.position());
                let Some(_pin) = stripe.and_then(|stripe| self.reader.stripes.pin([stripe])) else {
                    continue;
                };
                let found = match self.reader.try_record(key, entry, None) {
                    Err(RecordMismatch::Corrupt(_)) => {
                        // The read may have met a metadata update half way.
                        let _updating = self.reader.updating.lock();
                        self.reader.try_record(key, entry, None)
                    }
                    outcome => outcome,
                };
                match found {
                    Ok((head, record)) => {
                        let metadata = head.key_and_metadata(&record).map(|(_, metadata)| metadata);
                        let metadata = Bytes::copy_from_slice(metadata.unwrap_or_default());
                        return Ok(Some(ObjectSummary { metadata, body_bytes: head.body_bytes }));
                    }
                    Err(RecordMismatch::Disk(error)) => return Err(error),
                    Err(_) => {}
                }
            }
        }
        Ok(None)
    }

    /// Finds the object's record. An object that a later, not yet entered record may overrule is
    /// not found. After a kill, the index may have an object that was replaced since, and then
    /// removed.
    pub(super) fn find(&self, key: &ObjectKey) -> Result<Option<FoundRecord>, Error> {
        if !self.directory.is_followed.load(Acquire) {
            if let Some(found) = self.reader.find_unchanged(key)? {
                return Ok(Some(found));
            }
            if !self.is_followed() {
                return Ok(None);
            }
        }
        for entry in self.directory.table.candidates(key.hash()).collect::<Vec<_>>() {
            self.file.check_service()?;
            let Some(stripe) = self.geometry.stripe_of(entry.position()) else {
                self.directory.table.remove(key.hash(), entry);
                continue;
            };
            let Some(pin) = self.reader.stripes.pin([stripe]) else { continue };
            match self.reader.read_record(key, entry) {
                Ok((head, record)) => {
                    assert_eq!(head.position, entry.position());
                    return Ok(Some(FoundRecord { entry, head, record, pin }));
                }
                Err(RecordMismatch::OtherKey) => {}
                Err(RecordMismatch::Stale) => drop(self.directory.table.remove(key.hash(), entry)),
                Err(RecordMismatch::Corrupt(part)) => self.reader.drop_corrupt(key, entry, part),
                Err(RecordMismatch::Disk(error)) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Reader {
    /// Finds the object's record before the log has been followed, if the log does not mention the
    /// object since the index was written. Objects in pieces are excluded, since pieces may have
    /// been overwritten.
    fn find_unchanged(&self, key: &ObjectKey) -> Result<Option<FoundRecord>, Error> {
        let is_changed = || self.directory.changed.may_have(key.hash());
        if is_changed() {
            return Ok(None);
        }
        for entry in self.directory.table.candidates(key.hash()).collect::<Vec<_>>() {
            self.file.check_service()?;
            let stripe = self.geometry.stripe_of(entry.position());
            let Some(pin) = stripe.and_then(|stripe| self.stripes.pin([stripe])) else { continue };
            match self.read_record(key, entry) {
                // Checked again: a rebuild of the index may be about to begin.
                Ok((head, record)) if head.kind == RecordKind::Whole && !is_changed() => {
                    return Ok(Some(FoundRecord { entry, head, record, pin }));
                }
                Err(RecordMismatch::Disk(error)) => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    fn read_record(
        &self,
        key: &ObjectKey,
        entry: VolumeEntry,
    ) -> Result<(RecordHead, Bytes), RecordMismatch> {
        let outcome = self.try_record(key, entry, Some(ReadDirection::Around));
        if !matches!(outcome, Err(RecordMismatch::Corrupt(_))) {
            return outcome;
        }
        // A window may be older than the disk, and the read may have met a metadata update half
        // way.
        let _updating = self.updating.lock();
        let position = entry.position();
        self.windows.forget(position..position + entry.bytes());
        self.try_record(key, entry, None)
    }

    fn try_record(
        &self,
        key: &ObjectKey,
        entry: VolumeEntry,
        reach: Option<ReadDirection>,
    ) -> Result<(RecordHead, Bytes), RecordMismatch> {
        let record = self.read_span(entry.position(), entry.bytes(), reach).map_err(RecordMismatch::Disk)?;
        self.check_record(key, entry, record)
    }

    /// Checks that these bytes, read at the entry's place, are the object's record.
    fn check_record(
        &self,
        key: &ObjectKey,
        entry: VolumeEntry,
        record: Bytes,
    ) -> Result<(RecordHead, Bytes), RecordMismatch> {
        let head = self.decode_head(&record, entry.position()).map_err(RecordMismatch::Corrupt)?;
        // A record older than its stripe precedes a chunk that has been lost.
        let stripe = self.geometry.stripe_of(entry.position());
        let is_older =
            stripe.is_none_or(|stripe| head.sequence < self.directory.table.stripe_sequence(stripe));
        if head.kind == RecordKind::Removed || is_older {
            return Err(RecordMismatch::Stale);
        }
        let stored_key = head.key_and_metadata(&record).map(|(key, _)| key);
        if head.key != key.hash() || stored_key != Some(key.full()) {
            let is_alike = VolumeIndex::are_alike(head.key, key.hash());
            return Err(if is_alike { RecordMismatch::OtherKey } else { RecordMismatch::Stale });
        }
        if !matches!(head.kind, RecordKind::Whole | RecordKind::Large) {
            return Err(RecordMismatch::Corrupt("kind of record"));
        }
        match head.payload(&record) {
            Some(payload) => {
                assert_eq!(head.key, key.hash());
                assert_eq!(head.position, entry.position(), "a record of another place");
                assert_eq!(payload.len() as u64, head.payload_bytes());
                assert!(record.len() as u64 <= entry.bytes(), "more than the entry names");
                Ok((head, record))
            }
            None => Err(RecordMismatch::Corrupt("body")),
        }
    }

    /// Decodes the head of the record that begins these bytes, for a record at `position`.
    pub(super) fn decode_head(&self, record: &[u8], position: u64) -> Result<RecordHead, &'static str> {
        RecordHead::decode(record, position, self.file.seal, || self.takes_unsealed(position))
    }

    /// Reads bytes of the disk, from a window or by a read of whole pages; fewer at the stripe's
    /// end. Without `reach` the bytes alone are read from the disk.
    pub(super) fn read_span(
        &self,
        position: u64,
        length: u64,
        reach: Option<ReadDirection>,
    ) -> Result<Bytes, Error> {
        let left = self.left_in_stripe(position);
        let (length, end) = (length.min(left), position + left);
        if reach.is_some() {
            self.learn_borders(position);
        }
        let reading = match reach.map(|reach| self.windows.find(&self.geometry, (position, length), reach)) {
            Some(Ok(found)) => return Ok(found),
            Some(Err(reading)) => Some(reading),
            None => None,
        };
        let page = PAGE_BYTES as u64;
        let range = reading.as_ref().map_or_else(
            || position / page * page..(position + length).next_multiple_of(page).min(end),
            |reading| reading.range.clone(),
        );
        assert!(range.start <= position, "a read that begins too late");
        assert!(position + length <= range.end, "a read that ends too early");
        assert!(range.end <= end, "a read across its stripe's end");
        let mut pages = self.used.pages((range.end - range.start) as usize);
        self.file
            .read_pages(&mut pages, range.start)
            .map_err(|source| self.file.failed("read from the volume", source))?;
        self.file.succeeded();
        let bytes = Bytes::from_owner(pages);
        if let Some(reading) = reading {
            reading.done(&bytes);
        }
        let skip = (position - range.start) as usize;
        Ok(bytes.slice(skip..skip + length as usize))
    }

    /// Learns once where the groups begin in a stripe that another process wrote.
    pub(super) fn learn_borders(&self, position: u64) {
        let Some(stripe) = self.geometry.stripe_of(position) else { return };
        if !self.windows.wants_borders(stripe) {
            return;
        }
        let last = self.last_chunk(stripe);
        let current =
            last.filter(|(chunk, _)| chunk.sequence >= self.directory.table.stripe_sequence(stripe));
        let items = current.map_or_else(Vec::new, |(_, items)| items);
        let mut offsets: Vec<u64> = items.iter().filter_map(ContentsItem::group_at).collect();
        if let (false, Some(last)) = (offsets.is_empty(), items.last()) {
            offsets.push(last.end());
        }
        self.windows.learn_borders(stripe, &offsets);
    }

    /// Returns the bytes from `position` to its stripe's end; 0 outside of all stripes.
    fn left_in_stripe(&self, position: u64) -> u64 {
        let end = self.geometry.stripe_of(position).map_or(0, |stripe| self.geometry.stripe_at(stripe + 1));
        let left = end.saturating_sub(position);
        debug_assert!(left <= self.geometry.stripe_bytes);
        left
    }

    pub(super) fn drop_corrupt(&self, key: &ObjectKey, entry: VolumeEntry, part: &'static str) {
        // An object that was replaced meanwhile was not corrupt.
        let is_removed = self.directory.table.remove(key.hash(), entry);
        self.directory.counts.dropped.fetch_add(u64::from(is_removed), Relaxed);
        let is_damage = is_removed && !self.is_in_doubt(entry.position());
        if is_damage && self.directory.counts.corrupt.fetch_add(1, Relaxed) == 0 {
            let position = entry.position();
            warn!(
                part,
                position, "a stored object is damaged and has been dropped; further ones are counted"
            );
        }
    }

    /// Returns `true` if an unclean end of the last process may explain wrong bytes at this place.
    /// The place may hold other bytes than the index says, or a part of them.
    fn is_in_doubt(&self, position: u64) -> bool {
        if !self.may_be_stale {
            return false;
        }
        let stripe = self.geometry.stripe_of(position);
        let Some(stripe) = stripe.filter(|_| self.directory.is_recovered.load(Relaxed)) else { return true };
        let doubts = self.doubts.lock();
        let stripes = self.geometry.stripes;
        assert!(doubts.end < stripes);
        let is_near_end = (doubts.end + stripes - stripe) % stripes < SKIPPED_MAX;
        // Stripes written since hold their intended contents.
        self.directory.table.stripe_sequence(stripe) <= doubts.until
            && (is_near_end || doubts.stripes.contains(&stripe))
    }

    fn stored_of(self: &Arc<Self>, object: Arc<PendingObject>) -> OpenObject {
        let metadata = object.metadata();
        let body: Arc<dyn StoredBody> = match &object.body {
            PendingBody::Whole(body) => Arc::new(WholeBody(body.clone())),
            PendingBody::Large { body, .. } => {
                Arc::new(UnwrittenBody::new(Arc::clone(self), Arc::clone(body)))
            }
        };
        OpenObject { metadata, body }
    }

    /// Returns the object of a record. Returns `None` when the object has been evicted meanwhile.
    pub(super) fn stored(
        self: &Arc<Self>,
        key: &ObjectKey,
        found: FoundRecord,
    ) -> Result<Option<OpenObject>, Error> {
        let FoundRecord { entry, head, record, pin } = found;
        assert_eq!(head.key, key.hash());
        let parts = head.key_and_metadata(&record).zip(head.payload(&record));
        let Some(((_, metadata), payload)) = parts else { return Ok(None) };
        if head.kind == RecordKind::Whole {
            return Ok(Some(whole(&record, metadata, payload)));
        }
        let metadata = Bytes::copy_from_slice(metadata);
        let (places, pin) = match self.pieces_of(&head, payload, pin) {
            Ok(Some(pieces)) => pieces,
            Ok(None) => {
                self.directory.table.remove(key.hash(), entry);
                return Ok(None);
            }
            Err(Error::Corrupt { part }) => {
                self.drop_corrupt(key, entry, part);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // Pinned before this check: an object that is still in the table has all its pieces.
        if self.directory.table.entry_at(key.hash(), entry.position()).is_none() {
            return Ok(None);
        }
        let body = LargeBody::new(Arc::clone(self), key.clone(), (entry, head), places, pin);
        Ok(Some(OpenObject { metadata, body: Arc::new(body) }))
    }

    /// Returns the places of a large object's pieces, with all their stripes pinned. Returns `None`
    /// when some are gone; [`Error::Corrupt`] when a piece of their table is damaged.
    pub(super) fn pieces_of(
        &self,
        head: &RecordHead,
        table: &[u8],
        mut pin: StripePin,
    ) -> Result<Option<(Vec<PieceLocation>, StripePin)>, Error> {
        // A stripe overwritten since holds other records.
        let is_as_it_was = |stripe: u32| self.directory.table.stripe_sequence(stripe) <= head.sequence;
        let pin_all = |pin: &mut StripePin, places: &[PieceLocation]| {
            let stripes = places.iter().map(|place| self.geometry.stripe_of(place.position));
            let stripes: Option<Vec<u32>> = stripes.collect();
            stripes.is_some_and(|stripes| {
                pin.add(stripes.iter().copied()) && stripes.into_iter().all(is_as_it_was)
            })
        };
        let direct_bytes = pieces(head.body_bytes) * 16;
        let mut places = decode_table(table);
        if !pin_all(&mut pin, &places) {
            return Ok(None);
        }
        if direct_bytes > table_bytes(head.body_bytes) {
            let mut listed = Vec::with_capacity(direct_bytes as usize);
            for (index, place) in places.iter().enumerate() {
                let length = (direct_bytes as usize - listed.len()).min(PIECE_BYTES);
                match self.read_piece(*place, index as u32, length, !head.id) {
                    Ok(piece) => listed.extend_from_slice(&piece),
                    Err(Error::Corrupt { .. }) if self.is_in_doubt(place.position) => return Ok(None),
                    Err(Error::Corrupt { .. }) => return Err(Error::Corrupt { part: "table of pieces" }),
                    Err(error) => return Err(error),
                }
            }
            places = decode_table(&listed);
            if !pin_all(&mut pin, &places) {
                return Ok(None);
            }
        }
        assert_eq!(places.len() as u64, pieces(head.body_bytes), "a place for each piece");
        Ok(self.verified(head, &places)?.then_some((places, pin)))
    }

    /// Returns `true` if the pieces in doubt are there. Pieces are in doubt if the end of the last
    /// process may have lost or half overwritten them.
    fn verified(&self, head: &RecordHead, places: &[PieceLocation]) -> Result<bool, Error> {
        let in_doubt: Vec<usize> = {
            let doubts = self.doubts.lock();
            if doubts.settled.contains(&head.id) {
                return Ok(true);
            }
            let is_recent = (doubts.from + 1..=doubts.until).contains(&head.sequence);
            let is_doubtful = |place: &PieceLocation| {
                let stripe = self.geometry.stripe_of(place.position);
                is_recent || stripe.is_some_and(|stripe| doubts.stripes.contains(&stripe))
            };
            (0..places.len()).filter(|index| is_doubtful(&places[*index])).collect()
        };
        for index in &in_doubt {
            let left = head.body_bytes - (index * PIECE_BYTES) as u64;
            let length = left.min(PIECE_BYTES as u64) as usize;
            match self.read_piece(places[*index], *index as u32, length, head.id) {
                Ok(_) => {}
                Err(Error::Corrupt { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let mut doubts = self.doubts.lock();
        if !in_doubt.is_empty() && doubts.settled.len() < SETTLED_MAX {
            doubts.settled.insert(head.id);
        }
        assert!(doubts.settled.len() <= SETTLED_MAX);
        Ok(true)
    }
}

/// Returns an object of one piece, as a slice of the bytes read.
fn whole(record: &Bytes, metadata: &[u8], payload: &[u8]) -> OpenObject {
    OpenObject { metadata: record.slice_ref(metadata), body: Arc::new(WindowBody(record.slice_ref(payload))) }
}

/// Limit of objects remembered as whole; others are verified at each read.
const SETTLED_MAX: usize = 100_000;
