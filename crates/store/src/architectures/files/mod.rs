//! Objects as files, found through the index: the part shared by all architectures with an index.

mod insert;

use super::maintenance::Maintenance;
use super::naming::Naming;
use super::pins::NumberPins;
use super::released::ReleasedFilePool;
use super::replacement::EvictionOrder;
use super::segments::Segments;
use crate::fs::{Access, File, FileSystem, write_full};
use crate::index::{Index, IndexedObject};
use crate::object::{BodyOwner, METADATA_MAX, ObjectHead, ObjectHeader, ObjectMismatch, OpenBody, read_head};
use crate::{
    Error, Insert, InsertRefusal, ObjectSummary, OpenObject, Peek, PromptStore, Store, StoreUpkeep,
    StoreView, StoredBody, Usage,
};
use parking_lot::RwLock;
use shoal_core::{Key, ObjectKey, Timestamp};
use shoal_policy::PAGE_BYTES;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use tracing::warn;

/// Store of files.
pub(super) struct FileStore {
    pub(super) core: Arc<Core>,
    pub(super) maintenance: Option<Maintenance>,
}

/// State shared by the store, its bodies and its inserts.
pub(super) struct Core {
    pub(super) name: &'static str,
    pub(super) files: Arc<dyn FileSystem>,
    pub(super) index: Index,
    pub(super) naming: Arc<dyn Naming>,
    pub(super) pins: NumberPins,
    /// Eviction order of a policy in RAM, where there is one.
    pub(super) order: Option<EvictionOrder>,
    /// Files that wait to be overwritten, in architectures that overwrite files.
    pub(super) released: Option<ReleasedFilePool>,
    /// Mapped file of small objects, in architectures that have one.
    pub(super) segments: Option<Segments>,
    pub(super) limits: FileStoreLimits,
    pub(super) tally: StoreCounters,
    pub(super) said: LoggedTroubles,
    pub(super) opened_at: Timestamp,
    /// Keep readers of a head from seeing half of an update in place.
    pub(super) head_locks: [RwLock<()>; HEAD_LOCKS],
    /// Lock that keeps other processes out.
    pub(super) _lock: Option<OwnedFd>,
}

/// Configured limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileStoreLimits {
    pub(super) disk_bytes: u64,
    /// Bytes of the index, the folders and the other fixed files.
    pub(super) fixed_bytes: u64,
    /// Length of the mapped file, which is part of `fixed_bytes`.
    pub(super) segment_bytes: u64,
    pub(super) object_max_bytes: u64,
}

/// Counters since start.
#[derive(Default)]
pub(super) struct StoreCounters {
    pub(super) evictions: AtomicU64,
    pub(super) corrupt: AtomicU64,
    /// Consecutive failed writes.
    write_failures: AtomicU32,
    declined_out_of_service: AtomicU32,
}

/// Kinds of trouble that have been logged; each kind is logged once.
#[derive(Default)]
pub(super) struct LoggedTroubles {
    pub(super) full: LogOnce,
    pub(super) disk: LogOnce,
    pub(super) corrupt: LogOnce,
    pub(super) unlink: LogOnce,
}

/// Flag that lets the first caller log.
#[derive(Default)]
pub(super) struct LogOnce(AtomicBool);

impl LogOnce {
    pub(super) fn first(&self) -> bool {
        !self.0.swap(true, Relaxed)
    }
}

impl Store for FileStore {
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        // Tries again when the object was replaced between the index lookup and the open of its
        // file.
        for _ in 0..OPEN_TRIES {
            let Some(pin) = self.core.pin(key.hash()) else { return Ok(None) };
            match self.core.load(&pin, key, Access::Read) {
                Ok((head, file)) => {
                    let metadata = head.metadata.clone();
                    return Ok(Some(OpenObject {
                        metadata,
                        body: Arc::new(OpenBody::new(&head, file, pin)),
                    }));
                }
                Err(ObjectMismatch::OtherKey) => return Ok(None),
                Err(_) if !self.core.index.is_current(pin.found) => {}
                Err(misfit) => return self.core.give_up_misfit(&pin, misfit).map(|()| None),
            }
        }
        Ok(None)
    }

    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        Ok(Box::new(self.core.insert(key, metadata, body_bytes)?))
    }

    fn update_metadata(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        if metadata.len() > METADATA_MAX as usize {
            return Err(Error::Declined(InsertRefusal::TooLarge));
        }
        let Some(pin) = self.core.pin_quietly(key.hash()) else { return Ok(false) };
        match self.core.update_in_place(&pin, key, metadata, replaces)? {
            Update::Done => Ok(true),
            Update::Absent => Ok(false),
            Update::Outgrown(head, file) => self.core.rewrite(pin, key, metadata, &head, file),
        }
    }

    fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        let mut removed = false;
        for _ in 0..REMOVE_ROUNDS {
            let numbers = self.core.index.retire_key(key.hash());
            if numbers.is_empty() {
                break;
            }
            removed = true;
            for number in numbers {
                self.core.note_gone(number);
                // No lookup finds the object now, as the caller asked; a failure of the file has
                // been logged.
                let _ = self.core.discard(number);
            }
        }
        Ok(removed)
    }

    fn close(&self) -> Result<(), Error> {
        self.core.discard_released();
        self.core.note_segments();
        // Files first: the index must not name files that are not on disk.
        self.core.files.sync().map_err(|source| self.core.disk_failed("sync the store", source))?;
        self.core.index.close().map_err(|source| self.core.disk_failed("sync the index", source))
    }
}

impl PromptStore for FileStore {}

impl StoreView for FileStore {
    fn name(&self) -> &'static str {
        self.core.name
    }

    fn may_contain(&self, key: &ObjectKey) -> bool {
        self.core.index.may_contain(key.hash())
    }

    fn largest_body_within(&self, stored_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
        match stored_bytes {
            // A record in a segment has no spare room for metadata.
            0..=PAGE_BYTES if self.core.segments.is_some() => {
                crate::object::body_within_tight(stored_bytes, key_bytes, metadata_bytes)
            }
            _ => crate::object::body_within(stored_bytes, key_bytes, metadata_bytes),
        }
    }

    fn usage(&self) -> Usage {
        let totals = self.core.index.totals();
        let geometry = self.core.index.geometry();
        Usage {
            objects: totals.objects,
            objects_max: u64::from(geometry.max_objects),
            bytes: self.core.limits.fixed_bytes + totals.blocks * u64::from(geometry.block_bytes),
            bytes_max: self.core.limits.disk_bytes,
            evictions: self.core.tally.evictions.load(Relaxed),
            crowded_out: 0,
            corrupt: self.core.tally.corrupt.load(Relaxed),
            spared_reads: 0,
            failures: self.core.index.lost_pages(),
            unwritten: 0,
        }
    }
}

impl StoreUpkeep for FileStore {}

impl Peek for FileStore {
    fn peek(&self, key: &ObjectKey) -> Result<Option<ObjectSummary>, Error> {
        let Some(pin) = self.core.pin_quietly(key.hash()) else { return Ok(None) };
        let Ok((head, file)) = self.core.load(&pin, key, Access::Read) else { return Ok(None) };
        let metadata = head.metadata.clone();
        Ok(Some(OpenObject { metadata, body: Arc::new(OpenBody::new(&head, file, pin)) }.into()))
    }
}

/// Outcome of an update in place.
enum Update {
    Done,
    Absent,
    /// The metadata needs more room than the head has.
    Outgrown(ObjectHead, Box<dyn File>),
}

impl Core {
    /// Pins the object's number against eviction, and counts a hit.
    fn pin(self: &Arc<Self>, key: Key) -> Option<NumberPin> {
        let found = self.index.hit(key, |number| self.pins.pin(number))?;
        if let Some(order) = &self.order {
            order.hit(found.number);
        }
        if let Some((segments, place)) = self.place_of_side(found.side) {
            segments.hit(found.number, place);
        }
        Some(NumberPin { core: Arc::clone(self), found })
    }

    /// Pins the object's number without counting a hit.
    fn pin_quietly(self: &Arc<Self>, key: Key) -> Option<NumberPin> {
        let found = self.index.peek(key, |number| self.pins.pin(number))?;
        Some(NumberPin { core: Arc::clone(self), found })
    }

    /// Opens the file and checks its head.
    fn load(
        &self,
        pin: &NumberPin,
        key: &ObjectKey,
        access: Access,
    ) -> Result<(ObjectHead, Box<dyn File>), ObjectMismatch> {
        let IndexedObject { number, blocks, side, .. } = pin.found;
        let _undisturbed = self.head_lock(number).read();
        let file = self.open_bytes(number, side, access).map_err(ObjectMismatch::Disk)?;
        let bytes_max = match self.place_of_side(side) {
            Some((_, place)) => place.bytes(),
            None => u64::from(blocks) * u64::from(self.index.geometry().block_bytes),
        };
        let head = read_head(&*file, number, bytes_max, Some(key))?;
        Ok((head, file))
    }

    /// Drops an object that failed its checks.
    fn give_up_misfit(&self, pin: &NumberPin, misfit: ObjectMismatch) -> Result<(), Error> {
        if (self.naming.needs_sides() || self.segments.is_some())
            && !matches!(misfit, ObjectMismatch::OtherKey)
        {
            // A wrong side word leads to another folder; the real file then stays uncounted.
            self.index.report_damage();
        }
        match misfit {
            ObjectMismatch::OtherKey => Ok(()),
            ObjectMismatch::Corrupt(part) => {
                pin.drop_object(part);
                Ok(())
            }
            ObjectMismatch::Disk(error) if error.kind() == io::ErrorKind::NotFound => {
                pin.drop_object("index entry without a file");
                Ok(())
            }
            ObjectMismatch::Disk(source) => {
                pin.drop_if_unreadable(&source);
                Err(self.disk_failed("read an object", source))
            }
        }
    }

    fn update_in_place(
        &self,
        pin: &NumberPin,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Update, Error> {
        let (head, file) = match self.load(pin, key, Access::Write) {
            Ok(loaded) => loaded,
            Err(ObjectMismatch::OtherKey) => return Ok(Update::Absent),
            Err(_) if !self.index.is_current(pin.found) => return Ok(Update::Absent),
            Err(misfit) => return self.give_up_misfit(pin, misfit).map(|()| Update::Absent),
        };
        if !replaces(&head.metadata) {
            return Ok(Update::Absent);
        }
        let metadata_bytes = metadata.len() as u32;
        if metadata_bytes > head.header.metadata_room {
            return Ok(Update::Outgrown(head, file));
        }
        let bytes = ObjectHeader { metadata_bytes, ..head.header }.encode(key.full(), metadata);
        let _alone = self.head_lock(pin.found.number).write();
        if let Err(source) = write_full(&*file, &bytes, 0) {
            // The head may be torn now.
            pin.drop_object("metadata whose update failed");
            return Err(self.write_failed("update metadata", source));
        }
        self.write_went_well();
        Ok(Update::Done)
    }

    /// Rewrites the object with metadata that needs more room. Returns `false` if the object was
    /// replaced meanwhile.
    fn rewrite(
        self: &Arc<Self>,
        pin: NumberPin,
        key: &ObjectKey,
        metadata: &[u8],
        head: &ObjectHead,
        file: Box<dyn File>,
    ) -> Result<bool, Error> {
        let found = pin.found;
        let body = OpenBody::new(head, file, pin);
        let mut insert = self.insert(key, metadata, Some(body.length()))?;
        insert.instead_of = Some(found);
        insert.copy_from(&body)?;
        insert.finish(None)
    }

    /// Unpins a number. Carries out the fate that was left to the last user.
    pub(super) fn unpin(&self, number: u32) {
        if let Some(fate) = self.pins.unpin(number) {
            self.finish_unpin(number, fate);
        }
    }

    fn head_lock(&self, number: u32) -> &RwLock<()> {
        &self.head_locks[number as usize % HEAD_LOCKS]
    }

    /// Counts and logs a disk failure.
    pub(super) fn disk_failed(&self, action: &'static str, source: io::Error) -> Error {
        if self.said.disk.first() {
            warn!(error = %source, "could not {action}; the store goes on, and says this once");
        }
        Error::Disk { action, source }
    }

    /// Counts and logs a failed write, like [`Core::disk_failed`]. A full disk declines the insert.
    /// After many failures in a row most inserts are declined at once.
    pub(super) fn write_failed(&self, action: &'static str, source: io::Error) -> Error {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            if self.said.full.first() {
                warn!(error = %source, "the disk is full below the store's limit; inserts are declined meanwhile");
            }
            return Error::Declined(InsertRefusal::NoSpace);
        }
        self.tally.write_failures.fetch_add(1, Relaxed);
        self.disk_failed(action, source)
    }

    fn write_went_well(&self) {
        if self.tally.write_failures.load(Relaxed) != 0 {
            self.tally.write_failures.store(0, Relaxed);
        }
    }

    /// Declines an insert while the disk is out of service, except for an occasional try.
    fn check_service(&self) -> Result<(), Error> {
        if self.tally.write_failures.load(Relaxed) < FAILURES_MAX {
            return Ok(());
        }
        match self.tally.declined_out_of_service.fetch_add(1, Relaxed) % TRY_EVERY {
            0 => Ok(()),
            _ => Err(Error::Declined(InsertRefusal::OutOfService)),
        }
    }

    fn count_corrupt(&self, number: u32, part: &'static str) {
        self.tally.corrupt.fetch_add(1, Relaxed);
        if self.said.corrupt.first() {
            let path = self.path(number);
            warn!(path, part, "stored bytes failed a check; the object is dropped. Further ones are counted");
        }
    }
}

/// Pin of a number, held until this is dropped.
pub(super) struct NumberPin {
    core: Arc<Core>,
    found: IndexedObject,
}

impl NumberPin {
    /// Drops the object, if the number still stands for it, and counts it as corrupt.
    fn drop_object(&self, part: &'static str) {
        if self.core.index.retire(self.found.number, self.found.generation) {
            self.core.note_gone(self.found.number);
            self.core.count_corrupt(self.found.number, part);
            // Readers no longer find the object; a failure of the file has been logged.
            let _ = self.core.discard(self.found.number);
        }
    }

    /// Drops the object if the medium cannot return its data; other errors may pass.
    fn drop_if_unreadable(&self, error: &io::Error) {
        if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) {
            self.drop_object("unreadable file");
        }
    }
}

impl Drop for NumberPin {
    fn drop(&mut self) {
        self.core.unpin(self.found.number);
    }
}

impl BodyOwner for NumberPin {
    fn found_corrupt(&self, part: &'static str) {
        self.drop_object(part);
    }

    fn failed(&self, error: &io::Error) {
        self.drop_if_unreadable(error);
    }
}

/// Attempts of an open when the object is replaced meanwhile.
const OPEN_TRIES: usize = 3;
/// Rounds of a removal. Each takes several objects of the key; only a power loss leaves more than
/// one.
const REMOVE_ROUNDS: usize = 16;
/// Locks that keep updates of heads and their readers apart, shared by numbers.
pub(super) const HEAD_LOCKS: usize = 64;
/// Consecutive failed writes after which the disk counts as out of service.
const FAILURES_MAX: u32 = 16;
/// While the disk is out of service, one insert in 64 is tried.
const TRY_EVERY: u32 = 64;
