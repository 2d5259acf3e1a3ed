//! Checkpoints of the index: their contents and their times.
//!
//! A checkpoint writes the changed blocks of the table in order. Checkpoints are so far apart that
//! these blocks are a small share of the log's growth. A header then names the chunk up to which
//! the index file is complete. The file may mix older and newer blocks at any time: entries are
//! checked against their records, and recovery enters the records after the header's chunk again.

use super::Volume;
use super::directory::Directory;
use super::format::{VolumeGeometry, u64_at};
use super::index::HEADERS;
use super::state::VolumeState;
use super::writer::LogWriter;
use crate::Error;
use crate::fs::{File, PAGE_BYTES, write_full};
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::xxh3_64;

/// Index file.
pub(super) struct Checkpoint {
    file: Box<dyn File>,
    /// Header of the index file.
    header: CheckpointHeader,
    /// State block of the volume.
    state: VolumeState,
    /// Bytes of log between two checkpoints.
    interval_bytes: u64,
}

/// Header at the start of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckpointHeader {
    /// Id of the volume.
    pub(super) id: u64,
    pub(super) buckets: u64,
    /// Sequence number of the last chunk with all records in the file.
    pub(super) sequence: u64,
    /// Stripe in which the log continued; `offset` is inside it.
    pub(super) stripe: u64,
    pub(super) offset: u64,
    pub(super) objects: u64,
    pub(super) next_id: u64,
    pub(super) written_stripes: u64,
    /// One more than in the header before. Headers alternate between two places, so that a torn one
    /// leaves the other.
    pub(super) turn: u64,
    /// Generation of the volume's state; 0 in earlier versions.
    pub(super) generation: u64,
    /// Id of the process that began that generation, since two copies of a volume may reach the
    /// same one. 0 in earlier versions.
    pub(super) session: u64,
    /// Set if the log has not grown since.
    pub(super) is_clean: bool,
}

impl CheckpointHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        let flags = u64::from(self.is_clean);
        let numbers = [self.id, self.buckets, self.sequence, self.stripe, self.offset, self.objects];
        let last = [self.next_id, self.written_stripes, flags, self.turn, self.generation, self.session];
        for number in numbers.into_iter().chain(last) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(bytes.len(), VERSIONS[0].1, "what is checked when it is read");
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes.resize(PAGE_BYTES, 0);
        debug_assert_eq!(Self::decode(&bytes), Some(*self));
        bytes
    }

    /// Returns `true` if the header is of an index of this volume and its log ends in the volume.
    pub(super) fn is_of(&self, geometry: &VolumeGeometry) -> bool {
        self.id == geometry.id
            && self.buckets == geometry.buckets
            && self.stripe < u64::from(geometry.stripes)
            && self.offset <= geometry.stripe_bytes
            && self.offset.is_multiple_of(PAGE_BYTES as u64)
            && self.written_stripes <= u64::from(geometry.stripes)
    }

    /// Returns the latest header that fits, from the first bytes of an index file. The header
    /// counts as clean only when both places hold the right contents: a damaged one may have been
    /// later.
    pub(super) fn latest(bytes: &[u8], fits: impl Fn(&Self) -> bool) -> Option<Self> {
        let headers: Vec<Self> = bytes.chunks(PAGE_BYTES).filter_map(Self::decode).filter(fits).collect();
        let latest = headers.iter().copied().max_by_key(|header| header.turn)?;
        let is_first = latest.turn == 0 && bytes[PAGE_BYTES..].iter().all(|byte| *byte == 0);
        let is_last = is_first || headers.len() as u64 == HEADERS;
        Some(Self { is_clean: latest.is_clean && is_last, ..latest })
    }

    /// Returns `None` when these bytes are no such header.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let magic = bytes.get(..8)?;
        let (_, checked) = VERSIONS.into_iter().find(|(known, _)| *known == magic)?;
        let bytes = bytes.get(..checked + 8)?;
        let is_whole = xxh3_64(&bytes[..checked]) == u64_at(bytes, checked);
        is_whole.then(|| Self {
            id: u64_at(bytes, 8),
            buckets: u64_at(bytes, 16),
            sequence: u64_at(bytes, 24),
            stripe: u64_at(bytes, 32),
            offset: u64_at(bytes, 40),
            objects: u64_at(bytes, 48),
            next_id: u64_at(bytes, 56),
            written_stripes: u64_at(bytes, 64),
            is_clean: u64_at(bytes, 72) & 1 != 0,
            turn: u64_at(bytes, 80),
            generation: if checked > 88 { u64_at(bytes, 88) } else { 0 },
            session: if checked > 96 { u64_at(bytes, 96) } else { 0 },
        })
    }
}

impl Checkpoint {
    pub(super) fn new(
        file: Box<dyn File>,
        (header, state): (CheckpointHeader, VolumeState),
        index_bytes: u64,
        stripe_bytes: u64,
    ) -> Self {
        let interval_bytes = (INDEX_TIMES * index_bytes).max(STRIPES_MIN * stripe_bytes);
        Self { file, header, state, interval_bytes }
    }
}

impl Volume {
    /// Writes the index when the log has grown enough since the last checkpoint. This happens so
    /// early that log writers hardly ever have to wait for it.
    pub(super) fn checkpoint_if_due(&self) -> Result<(), Error> {
        let interval_bytes = self.directory.checkpoint.lock().interval_bytes;
        let is_due = {
            let writer = self.writer.lock();
            self.directory.log_since_checkpoint(&writer)
                >= interval_bytes.min(self.geometry.log_bytes() / 8 * 3)
        };
        let is_due = is_due || !self.directory.is_index_known.load(Relaxed);
        if is_due { self.write_index(false) } else { Ok(()) }
    }

    /// Writes the index for the holder of the log's end, if half the log has been written since the
    /// last checkpoint. Otherwise the log would overwrite removals while the index on disk still
    /// has the removed objects.
    pub(super) fn checkpoint_before_more(&self, writer: &LogWriter) -> Result<(), Error> {
        if self.directory.log_since_checkpoint(writer) < self.geometry.log_bytes() / 2 {
            return Ok(());
        }
        self.directory
            .write_index_as(&mut self.directory.checkpoint.lock(), self.directory.header(writer, false))
    }

    /// Writes the index and marks it as complete.
    pub(super) fn write_checkpoint(&self) -> Result<(), Error> {
        self.write_index(true)
    }

    fn write_index(&self, is_clean: bool) -> Result<(), Error> {
        // Lock order: the log's end before the checkpoint, or never together. The holder of the
        // log's end may need a checkpoint.
        let writer = self.writer.lock();
        if is_clean {
            // No write to the log may start until the index on disk is marked clean.
            let header = self.directory.header(&writer, true);
            return self.directory.write_index_as(&mut self.directory.checkpoint.lock(), header);
        }
        // The thread that holds the lock is writing the index.
        let Some(mut checkpoint) = self.directory.checkpoint.try_lock() else { return Ok(()) };
        let begun = self.directory.begin_index(&mut checkpoint, self.directory.header(&writer, false));
        drop(writer);
        begun.map_or(Ok(()), |header| self.directory.write_blocks(&mut checkpoint, header))
    }
}

impl Directory {
    fn log_since_checkpoint(&self, writer: &LogWriter) -> u64 {
        let position = u64::from(writer.stripe) * self.geometry.stripe_bytes + writer.offset;
        let around = self.geometry.log_bytes();
        assert!(position <= around, "the log ends behind the volume");
        (position + around - self.checkpointed_at.load(Relaxed) % around) % around
    }

    /// Marks the index as incomplete before a write to the log.
    pub(super) fn leave_clean(&self) -> Result<(), Error> {
        // Without the lock, which is held while the index is written.
        if !self.index_may_be_clean.load(Relaxed) && !self.is_generation_due.load(Relaxed) {
            return Ok(());
        }
        let mut checkpoint = self.checkpoint.lock();
        let state = VolumeState {
            sealed_from: self.file.sealed_from.load(Relaxed),
            ..checkpoint.state.next(checkpoint.header.generation)
        };
        let session = self.changed.session();
        let header =
            CheckpointHeader { is_clean: false, generation: state.generation, session, ..checkpoint.header };
        // An index that is being rebuilt gets its header when it is complete.
        if self.is_index_known.load(Relaxed) {
            let written = checkpoint.write_header(header);
            written.map_err(|source| self.file.failed("write the volume's index", source))?;
        } else {
            checkpoint.header = header;
        }
        self.file
            .write_state(state)
            .map_err(|source| self.file.failed("write the volume's state", source))?;
        checkpoint.state = state;
        self.changed.rename(&header);
        self.is_generation_due.store(false, Relaxed);
        self.index_may_be_clean.store(false, Relaxed);
        Ok(())
    }

    /// Returns the header of an index written now. Entries added while blocks are copied may be in
    /// or not: they belong to chunks after this header's.
    pub(super) fn header(&self, writer: &LogWriter, is_clean: bool) -> CheckpointHeader {
        CheckpointHeader {
            id: self.geometry.id,
            buckets: self.geometry.buckets,
            sequence: writer.sequence,
            stripe: u64::from(writer.stripe),
            offset: writer.offset,
            objects: self.table.objects(),
            next_id: self.next_id.load(Relaxed),
            written_stripes: u64::from(self.written_stripes.load(Relaxed)),
            turn: 0,
            generation: 0,
            session: 0,
            is_clean,
        }
    }

    /// Writes an index with this header, for the holder of the log's end.
    pub(super) fn write_index_as(
        &self,
        checkpoint: &mut Checkpoint,
        header: CheckpointHeader,
    ) -> Result<(), Error> {
        let begun = self.begin_index(checkpoint, header);
        begun.map_or(Ok(()), |header| self.write_blocks(checkpoint, header))
    }

    /// Begins an index while the log does not grow. Returns `None` when there is nothing to write.
    fn begin_index(&self, checkpoint: &mut Checkpoint, header: CheckpointHeader) -> Option<CheckpointHeader> {
        let CheckpointHeader { turn, generation, session, .. } = checkpoint.header;
        let header = CheckpointHeader { turn, generation, session, ..header };
        assert!(header.is_of(&self.geometry), "a header that would not be read");
        // Another thread may have written a newer index.
        if header == checkpoint.header || header.sequence < checkpoint.header.sequence {
            return None;
        }
        self.changed.begin(&header);
        Some(header)
    }

    /// Writes the blocks and the header of an index that has been begun.
    fn write_blocks(&self, checkpoint: &mut Checkpoint, header: CheckpointHeader) -> Result<(), Error> {
        let forgotten = self.forgotten();
        let mut write_all = || {
            // The log up to the header's chunk has to be on disk first.
            self.file.sync_data()?;
            let failed = |source| self.file.failed("write the volume's index", source);
            self.write_dirty(&*checkpoint.file).map_err(failed)?;
            // Set before the write: a failed header may still reach the disk.
            self.index_may_be_clean.fetch_or(header.is_clean, Relaxed);
            checkpoint.write_header(header).map_err(failed)
        };
        write_all().inspect_err(|_| self.changed.abandon())?;
        assert!(checkpoint.header.turn > header.turn, "headers are written in turns");
        assert!(checkpoint.header.sequence >= header.sequence);
        self.changed.end(&header);
        self.counts.forgotten_before.store(forgotten, Relaxed);
        self.index_may_be_clean.store(header.is_clean, Relaxed);
        self.is_index_known.store(true, Relaxed);
        self.checkpointed_at.store(header.stripe * self.geometry.stripe_bytes + header.offset, Relaxed);
        Ok(())
    }

    /// Writes the changed blocks of the table to disk. After a failure all of them stay dirty: the
    /// kernel may have dropped the blocks that it could not write, and reports this only once.
    fn write_dirty(&self, file: &dyn File) -> std::io::Result<()> {
        let mut written = Vec::new();
        let mut write_all = || {
            let mut from = 0;
            while let Some((block, at, bytes)) = self.table.take_dirty(from) {
                assert!(at >= HEADERS * PAGE_BYTES as u64, "a block over the headers");
                written.push(block);
                write_full(file, &bytes, at)?;
                from = block + 1;
            }
            file.sync()
        };
        let outcome = write_all();
        if outcome.is_err() {
            written.into_iter().for_each(|block| self.table.mark_dirty(block));
        }
        outcome
    }
}

impl Checkpoint {
    fn write_header(&mut self, header: CheckpointHeader) -> std::io::Result<()> {
        let header = CheckpointHeader { turn: self.header.turn + 1, ..header };
        assert_ne!(header.turn % HEADERS, self.header.turn % HEADERS, "the other page");
        assert!(header.sequence >= self.header.sequence);
        write_full(&*self.file, &header.encode(), header.turn % HEADERS * PAGE_BYTES as u64)?;
        self.file.sync()?;
        self.header = header;
        Ok(())
    }
}

const MAGIC: &[u8; 8] = b"SHOALix4";
/// Known versions with the number of bytes under the check; the latest first.
const VERSIONS: [(&[u8; 8], usize); 3] = [(MAGIC, 104), (b"SHOALix3", 96), (b"SHOALix2", 88)];
/// Log growth between two checkpoints, in multiples of the index's bytes, so that the index adds
/// about a percent of writes.
const INDEX_TIMES: u64 = 64;
/// Least log growth between two checkpoints, in stripes.
const STRIPES_MIN: u64 = 64;

const _: () = {
    assert!(VERSIONS[0].1 == 8 + 12 * 8);
    assert!(VERSIONS[0].1 + 8 <= PAGE_BYTES);
    assert!(HEADERS == 2);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_with_an_offset_within_a_page_is_none() {
        let geometry = VolumeGeometry { id: 1, stripe_bytes: 1 << 20, stripes: 64, buckets: 64, oldest: 0 };
        let header = CheckpointHeader {
            id: 1,
            buckets: 64,
            sequence: 3,
            stripe: 63,
            offset: 1 << 20,
            objects: 0,
            next_id: 1,
            written_stripes: 64,
            turn: 0,
            generation: 0,
            session: 0,
            is_clean: true,
        };
        assert!(header.is_of(&geometry));
        for damaged in [
            CheckpointHeader { offset: 4095, ..header },
            CheckpointHeader { offset: (1 << 20) + 4096, ..header },
            CheckpointHeader { stripe: 64, ..header },
            CheckpointHeader { written_stripes: 65, ..header },
            CheckpointHeader { buckets: 63, ..header },
        ] {
            assert!(!damaged.is_of(&geometry), "{damaged:?}");
        }
    }
}
