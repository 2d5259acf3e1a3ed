//! Reader of a complete body: every block is compared with its checksum before its bytes are given
//! out.

use super::{BLOCK_BYTES, CHECK_BYTES, ObjectHead, ObjectHeader, block_check};
use crate::fs::{File, read_full};
use crate::{Error, StoredBody};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Owner of a body's file: keeps the file from being given up, and learns of its damage.
pub(crate) trait BodyOwner: Send + Sync {
    /// Reports that the file's bytes do not match their checksums.
    fn found_corrupt(&self, part: &'static str);

    /// Reports that the disk failed to deliver.
    fn failed(&self, error: &std::io::Error);
}

/// Complete body in an open file.
pub(crate) struct OpenBody<S> {
    header: ObjectHeader,
    file: Box<dyn File>,
    /// Bytes of the whole file, if it is small.
    whole: Option<Whole>,
    /// Checksums read last, after the number of the first one.
    checks: Mutex<(u64, Vec<u64>)>,
    source: S,
}

/// Small object in memory.
struct Whole {
    bytes: Bytes,
    /// `true` once the checksums have been compared.
    verified: AtomicBool,
}

impl<S: BodyOwner> OpenBody<S> {
    /// Makes the body that belongs to a head.
    pub(crate) fn new(head: &ObjectHead, file: Box<dyn File>, source: S) -> Self {
        let is_whole = head.lead.len() as u64 >= head.header.file_bytes();
        let whole = is_whole.then(|| Whole { bytes: head.lead.clone(), verified: AtomicBool::new(false) });
        Self { header: head.header, file, whole, checks: Mutex::new((0, Vec::new())), source }
    }

    /// Returns bytes `from..to` of the body, from whole blocks that have been verified.
    fn verified(&self, from: u64, to: u64) -> Result<Bytes, Error> {
        if let Some(whole) = &self.whole {
            return self.verified_in_memory(whole, from as usize, to as usize);
        }
        debug_assert!(from < to && to <= self.header.body_bytes);
        let block_bytes = BLOCK_BYTES as u64;
        let first_block = from / block_bytes;
        let start = first_block * block_bytes;
        let end = to.next_multiple_of(block_bytes).min(self.header.body_bytes);
        let mut buffer = vec![0; (end - start) as usize];
        self.fill(&mut buffer, self.header.body_at() + start)?;
        for (block, bytes) in (first_block..).zip(buffer.chunks(BLOCK_BYTES)) {
            if self.check_of(block)? != block_check(self.header.sequence, block, bytes) {
                return Err(self.corrupt("body"));
            }
        }
        Ok(Bytes::from(buffer).slice((from - start) as usize..(to - start) as usize))
    }

    fn verified_in_memory(&self, whole: &Whole, from: usize, to: usize) -> Result<Bytes, Error> {
        let body_at = self.header.body_at() as usize;
        let checks_at = self.header.checks_at() as usize;
        assert!(checks_at <= whole.bytes.len());
        assert!(body_at + to <= checks_at);
        if !whole.verified.load(Relaxed) {
            let blocks = whole.bytes[body_at..checks_at].chunks(BLOCK_BYTES);
            let checks = whole.bytes[checks_at..].chunks_exact(CHECK_BYTES);
            for (block, (bytes, check)) in (0..).zip(blocks.zip(checks)) {
                if block_check(self.header.sequence, block, bytes).to_le_bytes() != check {
                    return Err(self.corrupt("body"));
                }
            }
            whole.verified.store(true, Relaxed);
        }
        // A slice would keep head, slack and checksums in memory for as long as the bytes live.
        Ok(Bytes::copy_from_slice(&whole.bytes[body_at + from..body_at + to]))
    }

    /// Returns the stored checksum of a block. One read fetches the checksums of the next 32 MiB.
    fn check_of(&self, block: u64) -> Result<u64, Error> {
        let mut checks = self.checks.lock();
        let known = |checks: &(u64, Vec<u64>)| -> Option<u64> {
            checks.1.get(usize::try_from(block.checked_sub(checks.0)?).ok()?).copied()
        };
        if let Some(check) = known(&checks) {
            return Ok(check);
        }
        assert!(block < self.header.blocks(), "a check behind the last");
        let count = (self.header.blocks() - block).min(CHECKS_READ);
        let mut bytes = vec![0; count as usize * CHECK_BYTES];
        self.fill(&mut bytes, self.header.checks_at() + block * CHECK_BYTES as u64)?;
        let words = bytes.as_chunks::<CHECK_BYTES>().0.iter();
        *checks = (block, words.map(|word| u64::from_le_bytes(*word)).collect());
        known(&checks).ok_or(Error::Corrupt { part: "checksums" })
    }

    fn fill(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        match read_full(&*self.file, buffer, offset) {
            Ok(read) if read == buffer.len() => Ok(()),
            Ok(_) => Err(self.corrupt("object file, which is too short")),
            Err(source) => {
                self.source.failed(&source);
                Err(Error::Disk { action: "read a body", source })
            }
        }
    }

    fn corrupt(&self, part: &'static str) -> Error {
        self.source.found_corrupt(part);
        Error::Corrupt { part }
    }
}

impl<S: BodyOwner> StoredBody for OpenBody<S> {
    fn length(&self) -> u64 {
        self.header.body_bytes
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        let end = offset.saturating_add(limit as u64).min(self.header.body_bytes);
        if offset >= end { Ok(Bytes::new()) } else { self.verified(offset, end) }
    }
}

/// Checksums read at once: a page of them.
const CHECKS_READ: u64 = 512;
