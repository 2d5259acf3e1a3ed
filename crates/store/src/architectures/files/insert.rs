//! Write path of an object: its number, its reserved space, its commit.

use super::{Core, NumberPin};
use crate::architectures::naming::make_folders_above;
use crate::architectures::pins::AfterUnpin;
use crate::architectures::segments::ClaimedSlot;
use crate::architectures::space::{ClaimedNumber, OverwrittenFile};
use crate::fs::{Access, File};
use crate::index::{Charge, CommitRefusal, IndexedObject};
use crate::object::{InsertTarget, KEY_MAX, METADATA_MAX, ObjectWriter};
use crate::{Error, Insert, InsertRefusal, StoredBody};
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use shoal_policy::PAGE_BYTES;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

impl Core {
    /// Starts an insert.
    pub(super) fn insert(
        self: &Arc<Self>,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<FileInsert, Error> {
        let is_too_large = key.full().len() > KEY_MAX as usize
            || metadata.len() > METADATA_MAX as usize
            || body_bytes.is_some_and(|bytes| bytes > self.limits.object_max_bytes);
        if is_too_large {
            return Err(Error::Declined(InsertRefusal::TooLarge));
        }
        self.check_service()?;
        // Space for the known length is reserved now, at least for the beginning.
        let known = (key.full().len() + metadata.len()) as u64 + body_bytes.unwrap_or(0);
        let side = self.naming.side(key.full());
        let ClaimedNumber { number, overwritten } = self.claim(side, self.blocks(known))?;
        self.pins.pin(number);
        let found = IndexedObject { number, generation: 0, blocks: 0, side };
        let pin = NumberPin { core: Arc::clone(self), found };
        let place = FileTarget {
            pin,
            reserved: AtomicU64::new(0),
            body_bytes,
            overwritten,
            segment: Mutex::new(None),
        };
        let sequence = self.index.next_sequence(self.opened_at);
        let writing = ObjectWriter::new(key.clone(), sequence, number, metadata.len() as u32, place);
        let insert = FileInsert {
            writing: Arc::new(writing),
            metadata: metadata.to_vec(),
            committed: false,
            instead_of: None,
        };
        if self.blocks(known) > self.index.limit_blocks() {
            return Err(Error::Declined(InsertRefusal::TooLarge));
        }
        // An object in a segment takes no other space.
        if self.segments.is_none() || known > PAGE_BYTES || body_bytes.is_none() {
            insert.writing.room().reserve(known.min(RESERVE_FIRST))?;
        }
        Ok(insert)
    }
}

/// Place of an object that is being written.
pub(super) struct FileTarget {
    pin: NumberPin,
    /// Bytes that the file may have under the present charge.
    reserved: AtomicU64,
    /// Length of the body, if known beforehand.
    body_bytes: Option<u64>,
    /// File that the object overwrites, if any.
    overwritten: Option<OverwrittenFile>,
    /// Segment that takes the object instead of a file.
    segment: Mutex<Option<ClaimedSlot>>,
}

impl InsertTarget for FileTarget {
    fn reserve(&self, file_bytes: u64) -> Result<(), Error> {
        let reserved = self.reserved.load(Relaxed);
        if self.segment().is_some() || (file_bytes <= reserved && reserved > 0) {
            return Ok(());
        }
        // The steps grow with the file, so that a long body charges rarely. A known length bounds
        // the reservation.
        let step = if reserved == 0 { 0 } else { (reserved / 4).clamp(RESERVE_STEP_MIN, RESERVE_STEP_MAX) };
        let most = self.body_bytes.map_or(u64::MAX, |bytes| bytes + HEAD_ROOM + bytes / 4096);
        let wanted = (file_bytes + step).min(most).max(file_bytes);
        let core = &self.pin.core;
        // An overwritten file keeps its length and its charge until it is truncated.
        let blocks = core.blocks(wanted).max(self.overwritten.map_or(0, |file| u64::from(file.blocks)));
        core.charge(self.pin.found.number, blocks)?;
        self.reserved.store(wanted, Relaxed);
        Ok(())
    }

    fn create(&self) -> Result<Box<dyn File>, Error> {
        let core = &self.pin.core;
        if let Some(segment) = self.segment().and_then(|taken| core.open_taken(taken)) {
            return Ok(segment);
        }
        let path = core.naming.path(self.pin.found.number, self.pin.found.side);
        let created = match self.overwritten {
            Some(_) => match core.files.open(&path, Access::Write) {
                // Another program has removed the file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_at(&path),
                opened => opened,
            },
            None => self.create_at(&path),
        };
        created.map_err(|source| core.write_failed("create an object file", source))
    }

    fn is_overwritten(&self) -> bool {
        self.overwritten.is_some()
    }

    fn end(&self, file: &dyn File, file_bytes: u64) -> Result<(), Error> {
        let core = &self.pin.core;
        match self.overwritten {
            // With more blocks than the old file had, the file ends with the last write.
            Some(before) if !before.is_empty && core.blocks(file_bytes) <= u64::from(before.blocks) => file
                .set_length(file_bytes)
                .map_err(|error| core.write_failed("cut off an object file", error)),
            _ => Ok(()),
        }
    }

    fn whole(&self, least_bytes: u64) -> Option<u64> {
        let core = &self.pin.core;
        let taken = core.take_segment(least_bytes)?;
        *self.segment.lock() = Some(taken);
        if self.reserved.swap(0, Relaxed) > 0 {
            // A smaller charge cannot fail.
            core.index.charge(self.pin.found.number, 0);
        }
        Some(taken.place.bytes())
    }

    fn failed(&self, error: io::Error) -> Error {
        self.pin.core.write_failed("write an object", error)
    }
}

impl FileTarget {
    fn segment(&self) -> Option<ClaimedSlot> {
        *self.segment.lock()
    }

    fn create_at(&self, path: &str) -> io::Result<Box<dyn File>> {
        let core = &self.pin.core;
        let mut created = core.files.create(path);
        if matches!(&created, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            // The index does not know this file, which a power loss left. The new object needs its
            // name.
            core.index.report_damage();
            created = core.files.unlink(path).and_then(|()| core.files.create(path));
        }
        if matches!(&created, Err(error) if error.kind() == io::ErrorKind::NotFound) {
            // Either this is the folder's first file, or another program has removed the folder.
            created = make_folders_above(&*core.files, path).and_then(|()| core.files.create(path));
        }
        created
    }

    /// Lets go of the number of an abandoned object. The last reader of the body frees the number.
    fn abandon(&self, has_file: bool) {
        let (core, number) = (&self.pin.core, self.pin.found.number);
        let is_measured = core.index.is_measured(number);
        if let (Some(taken), Some(segments)) = (self.segment(), &core.segments) {
            segments.give_back(taken, number);
        }
        if let Some(before) = self.overwritten
            && !has_file
            && is_measured
            && core.index.charge(number, before.blocks) == Charge::Done
        {
            // The file is unwritten, so it goes on waiting.
            core.pins.leave_to_last_user(number, AfterUnpin::Release);
        } else if has_file || self.overwritten.is_some() || !is_measured {
            // Before an audit has visited this number, a file unknown to the index may exist. A
            // failure of the file has been logged.
            let _ = core.discard(number);
        } else {
            core.pins.leave_to_last_user(number, AfterUnpin::Free(None));
        }
    }
}

/// Object that is being written.
pub(super) struct FileInsert {
    writing: Arc<ObjectWriter<FileTarget>>,
    metadata: Vec<u8>,
    committed: bool,
    /// Object that the commit must replace to take effect.
    pub(super) instead_of: Option<IndexedObject>,
}

impl FileInsert {
    fn core(&self) -> &Arc<Core> {
        &self.writing.room().pin.core
    }

    pub(super) fn copy_from(&mut self, body: &dyn StoredBody) -> Result<(), Error> {
        let mut offset = 0;
        while offset < body.length() {
            let bytes = body.read(offset, COPY_BYTES)?;
            if bytes.is_empty() {
                return Err(Error::Corrupt { part: "body" });
            }
            offset += bytes.len() as u64;
            self.append(&bytes)?;
        }
        Ok(())
    }

    /// Completes and commits the object. Returns `false` if the object to be replaced is gone.
    pub(super) fn finish(mut self, metadata: Option<&[u8]>) -> Result<bool, Error> {
        if let Some(metadata) = metadata {
            if metadata.len() > METADATA_MAX as usize {
                return Err(Error::Declined(InsertRefusal::TooLarge));
            }
            self.metadata = metadata.to_vec();
        }
        let length = self.writing.length();
        if self.writing.room().body_bytes.is_some_and(|expected| expected != length) {
            return Err(Error::Corrupt { part: "length of the body, which is not what was announced" });
        }
        if !self.writing.fits(self.metadata.len() as u32) {
            return self.finish_in_another_file();
        }
        let core = Arc::clone(self.core());
        let header = self.writing.complete(&self.metadata)?;
        core.write_went_well();
        let number = self.writing.number();
        let segment = self.writing.room().segment();
        let (blocks, side) = match segment {
            Some(taken) => (0, Some(taken.place.side())),
            None => (core.blocks(header.file_bytes()) as u32, None),
        };
        if let (Some(taken), Some(segments)) = (segment, &core.segments) {
            segments.own(taken, number);
        }
        match core.index.commit(number, self.writing.key().hash(), blocks, self.instead_of, side) {
            Ok(older) => {
                self.committed = true;
                core.note_stored(number, &older);
                for number in older {
                    // Readers no longer find the older object; a failure of the file has been
                    // logged.
                    let _ = core.dispose(number);
                }
                Ok(true)
            }
            Err(CommitRefusal::Superseded) => Ok(false),
            Err(CommitRefusal::Crowded) => Err(Error::Declined(InsertRefusal::NoSpace)),
        }
    }

    /// Finishes the object in another file: the final metadata is longer than the room left in
    /// front of the body.
    fn finish_in_another_file(mut self) -> Result<bool, Error> {
        let core = Arc::clone(self.core());
        let metadata = std::mem::take(&mut self.metadata);
        let mut another = core.insert(self.writing.key(), &metadata, Some(self.writing.length()))?;
        another.instead_of = self.instead_of;
        another.copy_from(&*self.writing)?;
        another.finish(None)
    }
}

impl Insert for FileInsert {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let length = self.writing.length() + bytes.len() as u64;
        let most = self.writing.room().body_bytes.unwrap_or(self.core().limits.object_max_bytes);
        if length > most {
            return Err(Error::Declined(InsertRefusal::TooLarge));
        }
        self.writing.append(bytes)
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        Arc::clone(&self.writing) as Arc<dyn StoredBody>
    }

    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error> {
        // A client's insert replaces any object, so it cannot be superseded.
        self.finish(metadata).map(|_| ())
    }
}

impl Drop for FileInsert {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        self.writing.room().abandon(self.writing.has_file());
    }
}

/// Limit of space reserved before the first byte arrives.
const RESERVE_FIRST: u64 = 1 << 20;
const RESERVE_STEP_MIN: u64 = 256 * 1024;
const RESERVE_STEP_MAX: u64 = 16 << 20;
/// More than a head without metadata needs.
const HEAD_ROOM: u64 = 4096;
/// Bytes copied at once when an object is rewritten.
const COPY_BYTES: usize = 256 * 1024;
