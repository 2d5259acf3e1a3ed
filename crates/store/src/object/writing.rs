//! Writing an object: whole write buffers, the header last, readable all the while.
//!
//! A body that fits into one buffer stays in memory until it is complete and then reaches the disk
//! in one write. A longer one goes out buffer by buffer; what has been written is read back from
//! the file and compared with the checksums in memory, the rest is read from the buffer.

use super::header::{BODY_MAX, HEADER_BYTES};
use super::{BLOCK_BYTES, CHECK_BYTES, Header, block_check};
use crate::fs::{File, read_full, write_full};
use crate::{Error, StoredBody};
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use std::sync::Arc;

/// What gives an object its place on disk.
pub(crate) trait InsertTarget: Send + Sync {
    /// Makes sure that the file may become so long, giving up other objects when needed.
    fn reserve(&self, file_bytes: u64) -> Result<(), Error>;

    /// Makes the file; asked once, after space has been reserved.
    fn create(&self) -> Result<Box<dyn File>, Error>;

    /// Whether the file has bytes of another object.
    fn is_overwritten(&self) -> bool {
        false
    }

    /// Ends the file, which has all its bytes, after so many.
    fn end(&self, _file: &dyn File, _file_bytes: u64) -> Result<(), Error> {
        Ok(())
    }

    /// The length that the file of an object of at least so many bytes is to have, which is known
    /// as a whole before any of it is written. `None` leaves it to the object.
    fn whole(&self, _least_bytes: u64) -> Option<u64> {
        None
    }

    /// What a write error means.
    fn failed(&self, error: std::io::Error) -> Error;
}

/// An object being written, shared by the writer and its readers.
pub(crate) struct ObjectWriter<R> {
    key: ObjectKey,
    sequence: u64,
    number: u32,
    metadata_room: u32,
    room: R,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<Arc<dyn File>>,
    /// Bytes of body in the file, whole blocks.
    written: u64,
    /// The body's bytes after those.
    buffer: Vec<u8>,
    /// Checksums of the blocks in the file.
    checks: Vec<u64>,
    /// A write has failed; what is in the file is in doubt.
    failed: bool,
}

impl<R: InsertTarget> ObjectWriter<R> {
    /// Begins, writing nothing yet.
    pub(crate) fn new(key: ObjectKey, sequence: u64, number: u32, metadata_bytes: u32, room: R) -> Self {
        let metadata_room = Header::room_for(key.full().len() as u32, metadata_bytes);
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

    /// Whether the file has been made.
    pub(crate) fn has_file(&self) -> bool {
        self.state.lock().file.is_some()
    }

    /// Whether metadata of so many bytes fits, without moving body that is in the file already.
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

    /// Writes what is left, and the header last. Returns the header.
    pub(crate) fn complete(&self, metadata: &[u8]) -> Result<Header, Error> {
        let mut state = self.state.lock();
        let key_bytes = self.key.full().len() as u32;
        let metadata_bytes = metadata.len() as u32;
        let mut header = Header {
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
                None => Header::room_for(key_bytes, metadata_bytes),
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
    fn flush(&self, state: &mut State) -> Result<(), Error> {
        let block = state.checks.len() as u64;
        let bytes = std::mem::take(&mut state.buffer);
        let body_at = HEADER_BYTES as u64 + self.key.full().len() as u64 + u64::from(self.metadata_room);
        let outcome = match state.written + BLOCK_BYTES as u64 {
            length if length > BODY_MAX => Err(Error::Declined(crate::Declined::TooLarge)),
            // The other object's header goes with the first block.
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

    fn write(&self, state: &mut State, bytes: &[u8], offset: u64) -> Result<(), Error> {
        if state.failed {
            return Err(Error::Corrupt { part: "object that could not be written" });
        }
        let outcome = self.try_write(state, bytes, offset);
        state.failed = outcome.is_err();
        outcome
    }

    fn try_write(&self, state: &mut State, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.room.reserve(offset + bytes.len() as u64)?;
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(state.file.insert(Arc::from(self.room.create()?))),
        };
        write_full(&*file, bytes, offset).map_err(|error| self.room.failed(error))
    }

    fn end(&self, state: &mut State, file_bytes: u64) -> Result<(), Error> {
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
            // The lock is held for the choice only: what is in the file stays as it is.
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

impl State {
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
