//! The end of the log: batches become chunks, chunks fill stripes, and the cursor moves on.

use super::Volume;
use super::checkpoint::Header;
use super::directory::Directory;
use super::format::{
    Chunk, ChunkEnd, ContentsItem, END_BYTES, Geometry, ITEM_BYTES, UNIT_BYTES, class_of, decode_contents,
    encode_contents,
};
use super::index::VolumeEntry;
use super::pages::AlignedPages;
use super::pending::{PendingObject, QueuedRecord, RecordPosition};
use super::queue::{Batch, FlushTarget, RecordGroup, WriteQueue, cost};
use super::recovery::RECOVERED_AT_ONCE;
use crate::architectures::seal::Seal;
use crate::fs::{PAGE_BYTES, write_full};
use crate::{Declined, Error};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::xxh3_64;

/// Where the log ends.
pub(super) struct LogWriter {
    pub(super) stripe: u32,
    /// From the stripe's beginning: where the next chunk begins, a whole page. A full stripe's is
    /// its length.
    pub(super) offset: u64,
    /// Of the last chunk.
    pub(super) sequence: u64,
    /// What stands in the stripe.
    pub(super) items: Vec<ContentsItem>,
    /// Reused for each chunk.
    buffer: AlignedPages,
}

/// What became of a queued record.
struct PlacedRecord {
    record: QueuedRecord,
    position: u64,
}

impl LogWriter {
    /// Where an index with this header says that the log ends.
    pub(super) fn at_end(header: &Header, stripe_bytes: u64) -> Self {
        Self {
            stripe: header.stripe as u32,
            offset: header.offset,
            sequence: header.sequence,
            items: Vec::new(),
            buffer: AlignedPages::in_one_piece(stripe_bytes as usize),
        }
    }

    /// Checks all that is said of the fields.
    pub(super) fn invariants(&self, geometry: &Geometry) {
        assert!(self.stripe < geometry.stripes, "the cursor left the volume");
        assert!(self.offset <= geometry.stripe_bytes, "the cursor left its stripe");
        assert!(self.offset.is_multiple_of(PAGE_BYTES as u64));
        assert_eq!(self.buffer.as_ref().len() as u64, geometry.stripe_bytes);
        assert!(self.offset > 0 || self.items.is_empty(), "items in front of the stripe's first chunk");
    }

    /// Bytes for records and their lines in the rest of the stripe, when the chunk ends it.
    fn room(&self, stripe_bytes: u64) -> u64 {
        assert!(self.offset <= stripe_bytes);
        let ends = 2 * END_BYTES as u64 + (self.items.len() * ITEM_BYTES) as u64 + UNIT_BYTES;
        (stripe_bytes - self.offset).saturating_sub(ends)
    }
}

impl Volume {
    /// Queues a record, and writes when a stripe can be filled. Who finds a long queue waits for
    /// the disk; one that does not get shorter takes nothing more.
    pub(super) fn append(&self, record: QueuedRecord) -> Result<(), Error> {
        self.append_if(record, |_| true).map(drop)
    }

    /// The same if the queue is as it should be. Whether it was.
    pub(super) fn append_if(
        &self,
        record: QueuedRecord,
        is_wanted: impl FnOnce(&WriteQueue) -> bool,
    ) -> Result<bool, Error> {
        self.file.check_service()?;
        let limit_bytes = 2 * QUEUED_STRIPES * self.geometry.stripe_bytes;
        let Some(waiting) = self.queue_up_if(record, limit_bytes, is_wanted)? else { return Ok(false) };
        self.flush_full_stripes(waiting).map(|()| true)
    }

    /// Writes when so many bytes wait that a stripe can be filled.
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
            // Otherwise who is writing already sees to it.
            let due = self.queue.lock().due(false);
            self.write_due(&mut writer, due)?;
        }
        if self.is_alone { self.checkpoint_if_due() } else { Ok(()) }
    }

    /// Puts a record into the queue, unless so many bytes wait already. Bytes that wait then.
    pub(super) fn queue_up(&self, record: QueuedRecord, limit_bytes: u64) -> Result<u64, Error> {
        self.queue_up_if(record, limit_bytes, |_| true).map(Option::unwrap_or_default)
    }

    /// The same if the queue is as it should be; `None` when it is not.
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
            return Err(Error::Declined(Declined::NoSpace));
        }
        let is_first = queue.push(record);
        let bytes = queue.bytes();
        drop(queue);
        if is_first {
            self.sync_bell.ring();
        }
        Ok(Some(bytes))
    }

    /// Writes what fills stripes, or all that waits. Whether anything was written.
    pub(super) fn flush(&self, all: bool) -> Result<bool, Error> {
        if !self.directory.is_recovered.load(Relaxed) {
            return Ok(false);
        }
        let due = self.queue.lock().due(all);
        self.write_due(&mut self.writer.lock(), due)
    }

    /// Writes what is due, and not what has come since: whoever waits for this does not wait for
    /// others.
    pub(super) fn write_due(&self, writer: &mut LogWriter, due: FlushTarget) -> Result<bool, Error> {
        // Who is told from here on writes what may be too late for this.
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
                self.advance_stripe(writer)?;
                assert_eq!(writer.offset, 0);
            }
            let room = writer.room(stripe_bytes);
            if !self.queue.lock().is_done(due, room) {
                // Before anything is taken from the queue, which nobody else would see to any more.
                self.directory.leave_clean()?;
            }
            let Some(batch) = self.queue.lock().take(room, due) else { return Ok(has_written) };
            self.write_chunk(writer, batch)?;
            has_written = true;
        }
    }

    /// Goes to the next stripe that can be written over.
    fn advance_stripe(&self, writer: &mut LogWriter) -> Result<(), Error> {
        let mut kept = 0;
        for step in 1..=self.geometry.stripes {
            let stripe = (u64::from(writer.stripe) + u64::from(step)) % u64::from(self.geometry.stripes);
            let stripe = stripe as u32;
            if !self.reader.stripes.take(stripe) {
                continue;
            }
            self.is_reclaiming.store(true, Relaxed);
            let is_ours = self.reclaim(stripe);
            if is_ours {
                // Known before it can be pinned again: what is older is not there any more.
                self.directory.table.set_stripe_sequence(stripe, writer.sequence + 1);
            }
            self.reader.stripes.release();
            if is_ours {
                return self.continue_in(writer, stripe, step);
            }
            kept += 1;
            if kept >= SKIPPED_MAX {
                break;
            }
        }
        Err(Error::Declined(Declined::NoSpace))
    }

    /// Has the log go on in a stripe that has no old records any more, so many steps ahead.
    fn continue_in(&self, writer: &mut LogWriter, stripe: u32, steps: u32) -> Result<(), Error> {
        self.reader.doubts.lock().stripes.remove(&stripe);
        assert!(stripe < self.geometry.stripes);
        assert!((1..=self.geometry.stripes).contains(&steps));
        let before = std::mem::replace(&mut writer.stripe, stripe);
        writer.offset = 0;
        writer.items.clear();
        if steps <= SKIPPED_MAX {
            return Ok(());
        }
        // So far ahead it would not be looked for after a crash, unless the index on disk says
        // where it goes on.
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
        // What comes after the last record is of no group.
        self.reader.windows.mark_borders(writer.stripe, begin.chain([records_end]));
        writer.offset = chunk_at + length as u64;
        // Also of a chunk that failed: it may stand on the disk nevertheless, and must not have the
        // number of another.
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
                // What is lost is fetched again; the rest of the stripe is left alone.
                writer.offset = self.geometry.stripe_bytes;
                // What stood there before may stand there still.
                self.directory.counts.dropped.fetch_add(1, Relaxed);
                placed.into_iter().for_each(|placed| self.fail_record(placed.record));
                Err(self.file.failed("write to the volume", source))
            }
        }
    }

    /// What has been written can be found.
    fn publish(&self, placed: PlacedRecord, stripe: u32) {
        assert_eq!(self.geometry.stripe_of(placed.position), Some(stripe));
        match placed.record {
            QueuedRecord::Object(object) => {
                let mut queue = self.queue.lock();
                // Under the queue's lock, so that a removal finds it in one place or the other.
                let is_dead = object.is_dead();
                if !is_dead {
                    self.directory.enter(&object, placed.position);
                }
                queue.remove_written(&object);
                let key = object.key.hash();
                if is_dead && queue.find(key).is_none() {
                    let entry = VolumeEntry::new(key, placed.position, class_of(object.record_bytes()), 0);
                    // The bell was rung for what removed it.
                    queue.mark_later(key, [entry]);
                }
            }
            QueuedRecord::Piece { growing, index, .. } => {
                growing.written(index, stripe, &self.reader.stripes)
            }
            QueuedRecord::Removed(_) => {}
        }
    }

    /// A record was not written. With an object goes the older one that it was to replace; that
    /// something was removed is written with the next round.
    fn fail_record(&self, record: QueuedRecord) {
        let is_first = match record {
            QueuedRecord::Object(object) => self.fail_with_older(&object),
            QueuedRecord::Piece { growing, key, .. } => {
                growing.lose();
                let object = self.queue.lock().find(key.hash()).map(Arc::clone);
                // It may wait already.
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

    /// True when this is the first that has to be brought to disk.
    fn fail_with_older(&self, object: &Arc<PendingObject>) -> bool {
        let key = object.key.hash();
        let is_first = {
            let mut queue = self.queue.lock();
            if !queue.remove_written(object) {
                return false;
            }
            let mut older: Vec<VolumeEntry> = self.directory.table.candidates(key).collect();
            older.retain(|entry| self.directory.table.remove(key, *entry));
            // Also when there is none: what could not be written may stand on the disk
            // nevertheless, and be older by then than what came after it and was lost too.
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

/// Puts records one after the other into the buffer, behind the chunk's head; and says which are
/// not worth it any more.
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
        writer.items.push(record.item((at / UNIT_BYTES) as u32, group != before));
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
    geometry: &Geometry,
    (chunk_at, listed): (u64, usize),
    is_full: bool,
) -> Chunk {
    let stripe_bytes = geometry.stripe_bytes;
    let stripe_at = geometry.stripe_at(writer.stripe);
    let records_end = (writer.offset - chunk_at) as usize;
    let ends = |items: usize| items * ITEM_BYTES + END_BYTES;
    let short = (records_end + ends(writer.items.len() - listed)).next_multiple_of(PAGE_BYTES);
    // Another chunk must be able to end the stripe.
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

/// Stripes of records that may wait before whoever appends has to.
pub(super) const QUEUED_STRIPES: u64 = 4;
/// Stripes in a row after which the log is looked for when it does not go on before: others in
/// between were read, or worth keeping. And as many are looked at for whether they are worth
/// keeping.
pub(super) const SKIPPED_MAX: u32 = 64;

const _: () = assert!(QUEUED_STRIPES > 1);
