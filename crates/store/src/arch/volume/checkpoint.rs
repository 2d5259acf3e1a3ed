//! What is written of the index, and when.
//!
//! Blocks of the table that have changed are written in one go, in order, once so much has been written to the log that they
//! are a small share of it; then a header says up to which chunk the index file is complete. The file may be a mixture of
//! older and newer blocks at any time: entries are checked against their records, and what came after the header's
//! chunk is entered again.

use super::Volume;
use super::format::u64_at;
use super::table::HEADER_WORDS;
use crate::Error;
use crate::door::{File, write_full};
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::xxh3_64;

/// The index file.
pub(super) struct Checkpoint {
    file: Box<dyn File>,
    /// What its header says.
    header: Header,
    /// Bytes of log from one checkpoint to the next.
    interval_bytes: u64,
}

/// What an index file begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Of the volume.
    pub(super) id: u64,
    pub(super) buckets: u64,
    /// Of the last chunk whose records are all in the file.
    pub(super) sequence: u64,
    /// Where the log went on.
    pub(super) stripe: u64,
    pub(super) offset: u64,
    pub(super) objects: u64,
    pub(super) next_id: u64,
    pub(super) written_stripes: u64,
    /// Nothing was written to the log since.
    pub(super) is_clean: bool,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_WORDS * 8);
        bytes.extend_from_slice(MAGIC);
        let flags = u64::from(self.is_clean);
        let numbers = [self.id, self.buckets, self.sequence, self.stripe, self.offset, self.objects];
        for number in numbers.into_iter().chain([self.next_id, self.written_stripes, flags]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        bytes.resize(HEADER_WORDS * 8, 0);
        bytes
    }

    /// `None` when these bytes are no such header.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..CHECKED + 8)?;
        let is_whole = &bytes[..8] == MAGIC && xxh3_64(&bytes[..CHECKED]) == u64_at(bytes, CHECKED);
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
        })
    }
}

impl Checkpoint {
    pub(super) fn new(file: Box<dyn File>, header: Header, index_bytes: u64, stripe_bytes: u64) -> Self {
        let interval_bytes = (INDEX_TIMES * index_bytes).max(STRIPES_MIN * stripe_bytes);
        Self { file, header, interval_bytes }
    }
}

impl Volume {
    /// Writes the index when enough has been written to the log since the last time.
    pub(super) fn checkpoint_if_due(&self) -> Result<(), Error> {
        let position = {
            let writer = self.writer.lock();
            u64::from(writer.stripe) * self.geometry.stripe_bytes + writer.offset
        };
        let is_due = {
            let checkpoint = self.checkpoint.lock();
            let before = checkpoint.header.stripe * self.geometry.stripe_bytes + checkpoint.header.offset;
            let around = u64::from(self.geometry.stripes) * self.geometry.stripe_bytes;
            (position + around - before) % around >= checkpoint.interval_bytes.min(around / 2)
        };
        if is_due { self.write_index(false) } else { Ok(()) }
    }

    /// Writes the index and says that it is complete.
    pub(super) fn write_checkpoint(&self) -> Result<(), Error> {
        self.write_index(true)
    }

    /// Something is about to be written to the log: the index must not be taken for complete.
    pub(super) fn leave_clean(&self) -> Result<(), Error> {
        let mut checkpoint = self.checkpoint.lock();
        if !checkpoint.header.is_clean {
            return Ok(());
        }
        let header = Header { is_clean: false, ..checkpoint.header };
        let written = checkpoint.write_header(header);
        written.map_err(|source| self.failed("write the volume's index", source))
    }

    fn write_index(&self, is_clean: bool) -> Result<(), Error> {
        let mut checkpoint = self.checkpoint.lock();
        // What is entered while blocks are copied may be in or not: it comes after this header's chunk.
        let header = {
            let writer = self.writer.lock();
            Header {
                sequence: writer.sequence,
                stripe: u64::from(writer.stripe),
                offset: writer.offset,
                objects: self.table.objects(),
                next_id: self.next_id.load(Relaxed),
                written_stripes: u64::from(self.written_stripes.load(Relaxed)),
                is_clean,
                ..checkpoint.header
            }
        };
        if header == checkpoint.header {
            return Ok(());
        }
        // What the header vouches for has to be there, whatever becomes of what comes later.
        self.sync_data()?;
        let failed = |source| self.failed("write the volume's index", source);
        let mut from = 0;
        while let Some((block, at, bytes)) = self.table.take_dirty(from) {
            if let Err(source) = write_full(&*checkpoint.file, &bytes, at) {
                self.table.mark_dirty(block);
                return Err(failed(source));
            }
            from = block + 1;
        }
        checkpoint.file.sync().map_err(failed)?;
        checkpoint.write_header(header).map_err(failed)
    }
}

impl Checkpoint {
    fn write_header(&mut self, header: Header) -> std::io::Result<()> {
        write_full(&*self.file, &header.encode(), 0)?;
        self.file.sync()?;
        self.header = header;
        Ok(())
    }
}

const MAGIC: &[u8; 8] = b"SHOALix1";
const CHECKED: usize = 80;
/// The log grows by so many times the index's bytes between two checkpoints, so that the index adds about a percent.
const INDEX_TIMES: u64 = 64;
/// And by so many stripes at least.
const STRIPES_MIN: u64 = 64;
