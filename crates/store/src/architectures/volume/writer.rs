//! Write path at the log's end: batches become chunks, chunks fill stripes, and the cursor moves
//! on.

use super::checkpoint::CheckpointHeader;
use super::directory::Directory;
use super::format::{
    Chunk, ChunkEnd, ContentsItem, END_BYTES, ITEM_BYTES, UNIT_BYTES, VolumeGeometry, class_of,
    decode_contents, encode_contents,
};
use super::index::VolumeEntry;
use super::pages::AlignedPages;
use super::pending::{PendingObject, QueuedRecord, RecordPosition};
use super::queue::{Batch, FlushTarget, RecordGroup, WriteQueue, cost};
use super::recovery::RECOVERED_AT_ONCE;
use super::{PinSettings, PinTest, Volume};
use crate::architectures::seal::Seal;
use crate::fs::{PAGE_BYTES, write_full};
use crate::{Error, InsertRefusal};
use shoal_policy::PinLedger;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::xxh3_64;

/// End of the log.
pub(super) struct LogWriter {
    pub(super) stripe: u32,
    /// Offset of the next chunk in the stripe, a multiple of a page. In a full stripe, its length.
    pub(super) offset: u64,
    /// Sequence number of the last chunk.
    pub(super) sequence: u64,
    /// Contents of the stripe.
    pub(super) items: Vec<ContentsItem>,
    /// Stripes behind this one that were examined for room in vain; the search goes on after them.
    examined: u32,
    /// Pinned bytes that were spared.
    pub(super) pinned: PinLedger,
    is_pinned: PinTest,
    /// Buffer reused for each chunk.
    buffer: AlignedPages,
}

/// Queued record with its place in a chunk.
struct PlacedRecord {
    record: QueuedRecord,
    position: u64,
}

impl LogWriter {
    /// Makes the writer at the log's end according to an index header.
    pub(super) fn at_end(header: &CheckpointHeader, stripe_bytes: u64, pins: PinSettings) -> Self {
        Self {
            stripe: header.stripe as u32,
            offset: header.offset,
            sequence: header.sequence,
            items: Vec::new(),
            examined: 0,
            pinned: PinLedger::new(pins.bytes_max),
            is_pinned: pins.is_pinned,
            buffer: AlignedPages::in_one_piece(stripe_bytes as usize),
        }
    }

    /// Checks all that is said of the fields.
    pub(super) fn invariants(&self, geometry: &VolumeGeometry) {
        assert!(self.stripe < geometry.stripes, "the cursor left the volume");
        assert!(self.offset <= geometry.stripe_bytes, "the cursor left its stripe");
        assert!(self.offset.is_multiple_of(PAGE_BYTES as u64));
        assert_eq!(self.buffer.as_ref().len() as u64, geometry.stripe_bytes);
        assert!(self.offset > 0 || self.items.is_empty(), "items in front of the stripe's first chunk");
        self.pinned.invariants();
    }

    /// Returns the stripes that a search has passed in vain, and begins it anew.
    #[cfg(test)]
    pub(super) fn take_examined(&mut self) -> u32 {
        std::mem::take(&mut self.examined)
    }

    /// Returns the bytes for records and their lines in the rest of the stripe, for a chunk that
    /// ends it.
    fn room(&self, stripe_bytes: u64) -> u64 {
        assert!(self.offset <= stripe_bytes);
        let ends = 2 * END_BYTES as u64 + (self.items.len() * ITEM_BYTES) as u64 + UNIT_BYTES;
        (stripe_bytes - self.offset).saturating_sub(ends)
    }
}

impl Volume {
    /// Queues a record, and writes when a stripe can be filled. A caller that finds a long queue
    /// waits for the disk. A queue that does not become shorter takes no more records.
    pub(super) fn append(&self, record: QueuedRecord) -> Result<(), Error> {
        self.append_if(record, |_| true).map(drop)
    }

    /// Appends a record if `is_wanted` accepts the queue. Returns `true` if it did.
    pub(super) fn append_if(
        &self,
        record: QueuedRecord,
        is_wanted: impl FnOnce(&WriteQueue) -> bool,
    ) -> Result<bool, Error> {
        self.file.check_service()?;
        if self.file.gate.is_closed() {
            return Err(Error::Declined(InsertRefusal::OutOfService));
        }
        let limit_bytes = 2 * QUEUED_STRIPES * self.geometry.stripe_bytes;
        let Some(waiting) = self.queue_up_if(record, limit_bytes, is_wanted)? else { return Ok(false) };
        self.flush_full_stripes(waiting).map(|()| true)
    }

    /// Writes when `waiting` bytes suffice to fill a stripe.
    fn flush_full_stripes(&self, waiting: u64) -> Result<(), Error> {
        let stripe_bytes = self.geometry.stripe_bytes;
        if waiting >= QUEUED_STRIPES * stripe_bytes {
            if !self.directory.is_recovered.load(Relaxed) {
                self.recover_step(RECOVERED_AT_ONCE);
            }
            return self.flush(false).map(drop);
        }
        if waiting >= stripe_bytes
            && self.directory.is_recovered.load(Relaxed)
            && let Some(mut writer) = self.writer.try_lock()
        {
            // Otherwise the thread that is writing also writes these records.
            let due = self.queue.lock().due(false);
            self.write_due(&mut writer, due)?;
        }
        if self.is_alone { self.checkpoint_if_due() } else { Ok(()) }
    }

    /// Queues a record, unless `limit_bytes` bytes already wait. Returns the bytes that wait then.
    pub(super) fn queue_up(&self, record: QueuedRecord, limit_bytes: u64) -> Result<u64, Error> {
        self.queue_up_if(record, limit_bytes, |_| true).map(Option::unwrap_or_default)
    }

    /// Queues a record if `is_wanted` accepts the queue; returns `None` if it does not.
    fn queue_up_if(
        &self,
        record: QueuedRecord,
        limit_bytes: u64,
        is_wanted: impl FnOnce(&WriteQueue) -> bool,
    ) -> Result<Option<u64>, Error> {
        let mut queue = self.queue.lock();
        if !is_wanted(&queue) {
            return Ok(None);
        }
        if queue.bytes() >= limit_bytes {
            return Err(Error::Declined(InsertRefusal::NoSpace));
        }
        let is_first = queue.push(record);
        let bytes = queue.bytes();
        drop(queue);
        if is_first {
            self.sync_bell.ring();
        }
        Ok(Some(bytes))
    }

    /// Writes the records that fill stripes, or all that wait. Returns `true` if any record was
    /// written.
    pub(super) fn flush(&self, all: bool) -> Result<bool, Error> {
        if !self.directory.is_recovered.load(Relaxed) {
            return Ok(false);
        }
        let due = self.queue.lock().due(all);
        self.write_due(&mut self.writer.lock(), due)
    }

    /// Writes the due records and none that came since, so that the caller does not wait for
    /// others.
    pub(super) fn write_due(&self, writer: &mut LogWriter, due: FlushTarget) -> Result<bool, Error> {
        // A caller told from here on writes records that may be too late for this call.
        self.is_write_due.store(false, Relaxed);
        let stripe_bytes = self.geometry.stripe_bytes;
        let mut has_written = false;
        loop {
            writer.invariants(&self.geometry);
            if writer.offset >= stripe_bytes {
                if self.queue.lock().is_done(due, stripe_bytes) {
                    return Ok(has_written);
                }
                self.checkpoint_before_more(writer)?;
                // A removal or a close needs the disk, so its search is longer than an insert's.
                let limit = if due.in_part { SKIPPED_MAX * PATIENCE } else { SKIPPED_MAX };
                self.advance_stripe(writer, limit)?;
                assert_eq!(writer.offset, 0);
            }
            let room = writer.room(stripe_bytes);
            if !self.queue.lock().is_done(due, room) {
                // Before records are taken from the queue: no other thread would write them after a
                // failure.
                self.directory.leave_clean()?;
            }
            let Some(batch) = self.queue.lock().take(room, due) else { return Ok(has_written) };
            self.write_chunk(writer, batch)?;
            has_written = true;
        }
    }

    /// Moves to the next stripe that can be overwritten. Examines no more than `limit` stripes that
    /// are worth keeping; the next search goes on behind them.
    fn advance_stripe(&self, writer: &mut LogWriter, limit: u32) -> Result<(), Error> {
        let mut kept = 0;
        let ring = self.ring_end.load(Relaxed);
        assert!((1..=self.geometry.stripes).contains(&ring), "a ring beyond the volume");
        // From behind the ring's end the log goes on at its beginning.
        let base = u64::from(writer.stripe.min(ring - 1));
        let first = writer.examined % ring + 1;
        for step in first..=ring {
            let stripe = ((base + u64::from(step)) % u64::from(ring)) as u32;
            if !self.reader.stripes.take(stripe) {
                continue;
            }
            self.is_reclaiming.store(true, Relaxed);
            let is_ours = self.reclaim(stripe, &mut writer.pinned);
            self.note_reclaimed(stripe, is_ours, writer.pinned.total_bytes());
            if is_ours {
                // Set before the stripe can be pinned again: its older records are gone.
                self.directory.table.set_stripe_sequence(stripe, writer.sequence + 1);
            }
            self.reader.stripes.release();
            if is_ours {
                let (to, from, all) =
                    (u64::from(stripe), u64::from(writer.stripe), u64::from(self.geometry.stripes));
                // Recovery counts the stripes of the whole volume.
                let steps = (to + all - from - 1) % all + 1;
                return self.continue_in(writer, stripe, steps as u32);
            }
            kept += 1;
            if kept >= limit {
                writer.examined = step;
                return Err(Error::Declined(InsertRefusal::NoSpace));
            }
        }
        writer.examined = 0;
        Err(Error::Declined(InsertRefusal::NoSpace))
    }

    /// Continues the log in a stripe without old records, `steps` stripes ahead.
    fn continue_in(&self, writer: &mut LogWriter, stripe: u32, steps: u32) -> Result<(), Error> {
        self.reader.doubts.lock().stripes.remove(&stripe);
        assert!(stripe < self.geometry.stripes);
        assert!((1..=self.geometry.stripes).contains(&steps));
        let before = std::mem::replace(&mut writer.stripe, stripe);
        self.directory.ring.advance(stripe, steps);
        writer.offset = 0;
        writer.examined = 0;
        writer.items.clear();
        if steps <= SKIPPED_MAX {
            return Ok(());
        }
        // After a crash, recovery does not search so far ahead, unless the index on disk says where
        // the log continues.
        self.directory
            .write_index_as(&mut self.directory.checkpoint.lock(), self.directory.header(writer, false))
            .inspect_err(|_| {
                (writer.stripe, writer.offset) = (before, self.geometry.stripe_bytes);
            })
    }

    fn write_chunk(&self, writer: &mut LogWriter, batch: Batch) -> Result<(), Error> {
        let stripe_at = self.geometry.stripe_at(writer.stripe);
        let chunk_at = writer.offset;
        let listed = writer.items.len();
        let (placed, lost) = lay_out(writer, stripe_at, self.file.seal, batch.records);
        lost.into_iter().for_each(|record| self.fail_record(record));
        let records_end = writer.offset;
        let chunk = finish(writer, &self.geometry, (chunk_at, listed), batch.is_full);
        let length = chunk.bytes as usize;
        let position = stripe_at + chunk_at;
        assert_eq!(chunk.position, position);
        assert_eq!(chunk.sequence, writer.sequence + 1, "sequences rise by one");
        assert!(chunk.end() <= stripe_at + self.geometry.stripe_bytes, "a chunk across its stripe's end");
        assert!(length.is_multiple_of(PAGE_BYTES));
        assert_eq!(writer.items.len() - listed, placed.len(), "an item for each record");
        debug_assert!(placed.iter().is_sorted_by_key(|placed| placed.position));
        let bytes = &writer.buffer.as_ref()[..length];
        self.directory.changed.add(writer.items[listed..].iter().map(|item| item.key));
        let outcome = write_full(&*self.file.data, bytes, position);
        self.reader.windows.forget(position..position + length as u64);
        if chunk_at == 0 {
            self.reader.windows.clear_borders(writer.stripe);
        }
        let begin = writer.items[listed..].iter().filter_map(ContentsItem::group_at);
        // Bytes after the last record belong to no group.
        self.reader.windows.mark_borders(writer.stripe, begin.chain([records_end]));
        writer.offset = chunk_at + length as u64;
        // Counts failed chunks too: such a chunk may stand on disk and must not share its number.
        writer.sequence = chunk.sequence;
        writer.invariants(&self.geometry);
        match outcome {
            Ok(()) => {
                self.file.succeeded();
                self.is_reclaiming.store(false, Relaxed);
                self.directory.written_stripes.fetch_max(writer.stripe + 1, Relaxed);
                placed.into_iter().for_each(|placed| self.publish(placed, writer.stripe));
                Ok(())
            }
            Err(source) => {
                // Lost objects are fetched again; the rest of the stripe is left unused.
                writer.offset = self.geometry.stripe_bytes;
                // The stripe's old records may still be there.
                self.directory.counts.dropped.fetch_add(1, Relaxed);
                placed.into_iter().for_each(|placed| self.fail_record(placed.record));
                Err(self.file.failed("write to the volume", source))
            }
        }
    }

    /// Makes a written record visible to lookups.
    fn publish(&self, placed: PlacedRecord, stripe: u32) {
        assert_eq!(self.geometry.stripe_of(placed.position), Some(stripe));
        match placed.record {
            QueuedRecord::Object(object) => {
                let mut queue = self.queue.lock();
                // Under the queue's lock, so that a removal finds the object in one place or the
                // other.
                let is_dead = object.is_dead();
                if !is_dead {
                    self.directory.enter(&object, placed.position);
                }
                queue.remove_written(&object);
                let key = object.key.hash();
                if is_dead && queue.find(key).is_none() {
                    let entry = VolumeEntry::new(key, placed.position, class_of(object.record_bytes()), 0);
                    // The removal that killed it has rung the bell.
                    queue.mark_later(key, [entry]);
                }
            }
            QueuedRecord::Piece { growing, index, .. } => {
                growing.written(index, stripe, &self.reader.stripes)
            }
            QueuedRecord::Removed(_) => {}
        }
    }

    /// Handles a record that was not written. An object loses its older version too. A removal is
    /// written with the next round.
    fn fail_record(&self, record: QueuedRecord) {
        let is_first = match record {
            QueuedRecord::Object(object) => self.fail_with_older(&object),
            QueuedRecord::Piece { growing, key, .. } => {
                growing.lose();
                let object = self.queue.lock().find(key.hash()).map(Arc::clone);
                // The object may already be queued.
                let its = object.filter(|object| [growing.id, !growing.id].contains(&object.id));
                its.is_some_and(|object| self.fail_with_older(&object))
            }
            QueuedRecord::Removed(key) => {
                let mut queue = self.queue.lock();
                queue.push_front(vec![QueuedRecord::Removed(key)]);
                queue.leave_unsynced()
            }
        };
        if is_first {
            self.sync_bell.ring();
        }
    }

    /// Drops an unwritten object and its older version. Returns `true` if the removal is the first
    /// record that has to be brought to disk.
    fn fail_with_older(&self, object: &Arc<PendingObject>) -> bool {
        let key = object.key.hash();
        let is_first = {
            let mut queue = self.queue.lock();
            if !queue.remove_written(object) {
                return false;
            }
            let mut older: Vec<VolumeEntry> = self.directory.table.candidates(key).collect();
            older.retain(|entry| self.directory.table.remove(key, *entry));
            // Also without an older version: the unwritten record may stand on disk, and a later
            // record may be lost too.
            let is_first = queue.push(QueuedRecord::Removed(key));
            queue.mark_later(key, older) || is_first
        };
        self.directory.report_evicted(key);
        is_first
    }
}

impl Directory {
    pub(super) fn enter(&self, object: &Arc<PendingObject>, position: u64) {
        self.table.put(object.key.hash(), position, class_of(object.record_bytes()), object.hits);
    }
}

/// Lays out records in the buffer, behind the chunk's head. Returns the placed records, and those
/// that are no longer needed.
fn lay_out(
    writer: &mut LogWriter,
    stripe_at: u64,
    seal: Seal,
    records: Vec<QueuedRecord>,
) -> (Vec<PlacedRecord>, Vec<QueuedRecord>) {
    let chunk_at = writer.offset;
    let mut at = (chunk_at + END_BYTES as u64).next_multiple_of(UNIT_BYTES);
    let (mut placed, mut lost) = (Vec::with_capacity(records.len()), Vec::new());
    let mut group = RecordGroup::None;
    writer.buffer.as_mut()[..(at - chunk_at) as usize].fill(0);
    for record in records {
        let length = record.record_bytes();
        let from = (at - chunk_at) as usize;
        let end = (cost(&record) - ITEM_BYTES as u64) as usize + from;
        let out = &mut writer.buffer.as_mut()[from..end];
        let (used, slack) = out.split_at_mut(length as usize);
        assert!(slack.len() < UNIT_BYTES as usize);
        let position = stripe_at + at;
        assert!(position.is_multiple_of(UNIT_BYTES));
        if record.encode(RecordPosition { position, sequence: writer.sequence + 1, seal }, used).is_none() {
            lost.push(record);
            continue;
        }
        slack.fill(0);
        let before = std::mem::replace(&mut group, RecordGroup::of(&record));
        writer.items.push(record.item((at / UNIT_BYTES) as u32, group != before, writer.is_pinned));
        at += (end - from) as u64;
        placed.push(PlacedRecord { record, position });
    }
    assert!(at - chunk_at <= writer.buffer.as_ref().len() as u64);
    writer.offset = at;
    (placed, lost)
}

/// Adds contents and both ends to the chunk in the buffer. A chunk that fills the stripe lists all
/// of it, at its very end.
fn finish(
    writer: &mut LogWriter,
    geometry: &VolumeGeometry,
    (chunk_at, listed): (u64, usize),
    is_full: bool,
) -> Chunk {
    let stripe_bytes = geometry.stripe_bytes;
    let stripe_at = geometry.stripe_at(writer.stripe);
    let records_end = (writer.offset - chunk_at) as usize;
    let ends = |items: usize| items * ITEM_BYTES + END_BYTES;
    let short = (records_end + ends(writer.items.len() - listed)).next_multiple_of(PAGE_BYTES);
    // Room must remain for another chunk that ends the stripe.
    let after = stripe_bytes.saturating_sub(chunk_at + short as u64);
    let least = (2 * END_BYTES + (writer.items.len() + 1) * ITEM_BYTES + PAGE_BYTES) as u64;
    let ends_stripe = is_full || after < least;
    let (items, length) = match ends_stripe {
        true => (&writer.items[..], (stripe_bytes - chunk_at) as usize),
        false => (&writer.items[listed..], short),
    };
    let contents_at = length - ends(items.len());
    assert!(records_end <= contents_at, "contents over records");
    assert!(chunk_at + length as u64 <= stripe_bytes);
    debug_assert!(items[items.len() - (writer.items.len() - listed)..].is_sorted_by_key(|item| item.at));
    let buffer = writer.buffer.as_mut();
    buffer[records_end..contents_at].fill(0);
    encode_contents(items, &mut buffer[contents_at..]);
    let chunk = Chunk {
        sequence: writer.sequence + 1,
        position: stripe_at + chunk_at,
        bytes: length as u32,
        entries: items.len() as u32,
        check: xxh3_64(&buffer[contents_at..length - END_BYTES]),
    };
    buffer[..END_BYTES].copy_from_slice(&chunk.encode(ChunkEnd::Head, geometry.id));
    buffer[length - END_BYTES..length].copy_from_slice(&chunk.encode(ChunkEnd::Tail, geometry.id));
    debug_assert_eq!(
        decode_contents(&buffer[contents_at..length - END_BYTES], &chunk, stripe_bytes).as_deref(),
        Some(items)
    );
    chunk
}

/// Stripes of records that may wait before a caller has to wait.
pub(super) const QUEUED_STRIPES: u64 = 4;
/// Factor to `SKIPPED_MAX` for searches on behalf of callers that need the disk.
const PATIENCE: u32 = 64;

/// Stripes in a row that the log may skip without a new index on disk, because they were read or
/// worth keeping. Recovery searches no further for the log's continuation. Also the limit of
/// stripes examined for being worth keeping.
pub(super) const SKIPPED_MAX: u32 = 64;

const _: () = assert!(QUEUED_STRIPES > 1);
