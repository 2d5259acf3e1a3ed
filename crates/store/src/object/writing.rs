//! Writer of an object: whole write buffers, the header last, readable all the while.
//!
//! A body that fits into one buffer stays in memory until it is complete, and reaches the disk in
//! one write. A longer body goes out buffer by buffer. Readers get written bytes from the file,
//! compared with the checksums in memory, and the rest from the buffer.

use super::header::{BODY_MAX, HEADER_BYTES};
use super::{BLOCK_BYTES, CHECK_BYTES, ObjectHeader, block_check};
use crate::fs::{File, read_full, write_full};
use crate::{Error, StoredBody};
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use std::sync::Arc;

/// Target of an insert: gives an object its place on disk.
pub(crate) trait InsertTarget: Send + Sync {
    /// Reserves space for a file of `file_bytes`, evicting other objects if needed.
    fn reserve(&self, file_bytes: u64) -> Result<(), Error>;

    /// Makes the file; called once, after space has been reserved.
    fn create(&self) -> Result<Box<dyn File>, Error>;

    /// Returns `true` if the file has bytes of another object.
    fn is_overwritten(&self) -> bool {
        false
    }

    /// Ends the file, which has all its bytes, after `file_bytes`.
    fn end(&self, _file: &dyn File, _file_bytes: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the length of the file for an object of at least `least_bytes`, known before any
    /// write. `None` leaves the length to the object.
    fn whole(&self, _least_bytes: u64) -> Option<u64> {
        None
    }

    /// Returns the meaning of a write error.
    fn failed(&self, error: std::io::Error) -> Error;
}

/// Object being written, shared by the writer and its readers.
pub(crate) struct ObjectWriter<R> {
    key: ObjectKey,
    sequence: u64,
    number: u32,
    metadata_room: u32,
    room: R,
    state: Mutex<WriterState>,
}

#[derive(Default)]
struct WriterState {
    file: Option<Arc<dyn File>>,
    /// Bytes of body in the file: whole blocks.
    written: u64,
    /// Bytes of the body after the written ones.
    buffer: Vec<u8>,
    /// Checksums of the blocks in the file.
    checks: Vec<u64>,
    /// `true` after a failed write: the file's bytes are in doubt.
    failed: bool,
}

impl<R: InsertTarget> ObjectWriter<R> {
    /// Begins an object, writing nothing yet.
    pub(crate) fn new(key: ObjectKey, sequence: u64, number: u32, metadata_bytes: u32, room: R) -> Self {
        let metadata_room = ObjectHeader::room_for(key.full().len() as u32, metadata_bytes);
        Self { key, sequence, number, metadata_room, room, state: Mutex::default() }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn key(&self) -> &ObjectKey {
        &self.key
    }

    pub(crate) fn room(&self) -> &R {
        &self.room
    }

    /// Returns `true` if the file has been made.
    pub(crate) fn has_file(&self) -> bool {
        self.state.lock().file.is_some()
    }

    /// Returns `true` if metadata of this length fits without moving written parts of the body.
    pub(crate) fn fits(&self, metadata_bytes: u32) -> bool {
        metadata_bytes <= self.metadata_room || self.state.lock().written == 0
    }

    pub(crate) fn append(&self, mut bytes: &[u8]) -> Result<(), Error> {
        let mut state = self.state.lock();
        while !bytes.is_empty() {
            if state.buffer.len() == BLOCK_BYTES {
                self.flush(&mut state)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - state.buffer.len()));
            state.buffer.extend_from_slice(now);
            bytes = later;
        }
        state.invariants();
        Ok(())
    }

    /// Writes the rest, and the header last. Returns the header.
    pub(crate) fn complete(&self, metadata: &[u8]) -> Result<ObjectHeader, Error> {
        let mut state = self.state.lock();
        let key_bytes = self.key.full().len() as u32;
        let metadata_bytes = metadata.len() as u32;
        let mut header = ObjectHeader {
            key: self.key.hash(),
            sequence: self.sequence,
            number: self.number,
            key_bytes,
            metadata_bytes,
            metadata_room: self.metadata_room,
            body_bytes: state.length(),
        };
        if state.written == 0 {
            header.metadata_room = metadata_bytes;
            let least = header.file_bytes();
            header.metadata_room = match self.room.whole(least) {
                Some(bytes) => metadata_bytes + (bytes - least) as u32,
                None => ObjectHeader::room_for(key_bytes, metadata_bytes),
            };
        }
        let metadata_room = header.metadata_room;
        assert!(metadata_bytes <= metadata_room, "the caller has asked whether it fits");
        let head = header.encode(self.key.full(), metadata);
        let mut tail = state.buffer.clone();
        for check in state.all_checks(self.sequence) {
            tail.extend_from_slice(&check.to_le_bytes());
        }
        if state.written == 0 {
            let mut whole = head;
            whole.resize(header.body_at() as usize, 0);
            whole.append(&mut tail);
            self.write(&mut state, &whole, 0)?;
            self.end(&mut state, header.file_bytes())?;
        } else {
            let tail_at = header.body_at() + state.written;
            self.write(&mut state, &tail, tail_at)?;
            self.end(&mut state, header.file_bytes())?;
            self.write(&mut state, &head, 0)?;
        }
        assert_eq!(header.body_bytes, state.length());
        Ok(header)
    }

    /// Writes the full buffer as the body's next block.
    fn flush(&self, state: &mut WriterState) -> Result<(), Error> {
        let block = state.checks.len() as u64;
        let bytes = std::mem::take(&mut state.buffer);
        let body_at = HEADER_BYTES as u64 + self.key.full().len() as u64 + u64::from(self.metadata_room);
        let outcome = match state.written + BLOCK_BYTES as u64 {
            length if length > BODY_MAX => Err(Error::Declined(crate::InsertRefusal::TooLarge)),
            // The first block overwrites the other object's header too.
            _ if state.written == 0 && self.room.is_overwritten() => {
                let mut from_start = vec![0; body_at as usize];
                from_start.extend_from_slice(&bytes);
                self.write(state, &from_start, 0)
            }
            _ => self.write(state, &bytes, body_at + state.written),
        };
        state.buffer = bytes;
        outcome?;
        state.checks.push(block_check(self.sequence, block, &state.buffer));
        state.written += BLOCK_BYTES as u64;
        assert_eq!(state.buffer.len(), BLOCK_BYTES);
        state.buffer.clear();
        state.invariants();
        Ok(())
    }

    fn write(&self, state: &mut WriterState, bytes: &[u8], offset: u64) -> Result<(), Error> {
        if state.failed {
            return Err(Error::Corrupt { part: "object that could not be written" });
        }
        let outcome = self.try_write(state, bytes, offset);
        state.failed = outcome.is_err();
        outcome
    }

    fn try_write(&self, state: &mut WriterState, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.room.reserve(offset + bytes.len() as u64)?;
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(state.file.insert(Arc::from(self.room.create()?))),
        };
        write_full(&*file, bytes, offset).map_err(|error| self.room.failed(error))
    }

    fn end(&self, state: &mut WriterState, file_bytes: u64) -> Result<(), Error> {
        let ended = state.file.as_ref().map_or(Ok(()), |file| self.room.end(&**file, file_bytes));
        state.failed |= ended.is_err();
        ended
    }

    fn read_block(&self, file: &dyn File, block: u64, check: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; BLOCK_BYTES];
        let body_at = HEADER_BYTES as u64 + self.key.full().len() as u64 + u64::from(self.metadata_room);
        let read = read_full(file, &mut bytes, body_at + block * BLOCK_BYTES as u64)
            .map_err(|source| Error::Disk { action: "read a body", source })?;
        match block_check(self.sequence, block, &bytes) == check && read == bytes.len() {
            true => Ok(bytes),
            false => Err(Error::Corrupt { part: "body" }),
        }
    }
}

impl<R: InsertTarget> StoredBody for ObjectWriter<R> {
    fn length(&self) -> u64 {
        self.state.lock().length()
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        let mut out = Vec::new();
        let end = offset.saturating_add(limit as u64);
        let mut at = offset;
        while at < end {
            // The lock is held only for the choice: bytes in the file do not change.
            let from_file = {
                let state = self.state.lock();
                let here = at - state.written.min(at);
                if at >= state.written {
                    let rest = state.buffer.get(here as usize..).unwrap_or(&[]);
                    out.extend_from_slice(&rest[..rest.len().min((end - at) as usize)]);
                    break;
                }
                let block = at / BLOCK_BYTES as u64;
                state.file.clone().map(|file| (file, block, state.checks[block as usize]))
            };
            let Some((file, block, check)) = from_file else { break };
            let bytes = self.read_block(&*file, block, check)?;
            let from = (at % BLOCK_BYTES as u64) as usize;
            let until = (from as u64 + (end - at)).min(BLOCK_BYTES as u64) as usize;
            out.extend_from_slice(&bytes[from..until]);
            at += (until - from) as u64;
        }
        Ok(out.into())
    }
}

impl WriterState {
    fn length(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Checks all that is said of the fields.
    fn invariants(&self) {
        assert!(self.written.is_multiple_of(BLOCK_BYTES as u64));
        assert_eq!(self.checks.len() as u64 * BLOCK_BYTES as u64, self.written, "a check for each block");
        assert!(self.buffer.len() <= BLOCK_BYTES);
        assert!(self.written == 0 || self.file.is_some(), "blocks of no file");
    }

    fn all_checks(&self, sequence: u64) -> Vec<u64> {
        let mut checks = self.checks.clone();
        if !self.buffer.is_empty() {
            checks.push(block_check(sequence, checks.len() as u64, &self.buffer));
        }
        checks
    }
}

const _: () = assert!(CHECK_BYTES == size_of::<u64>());
