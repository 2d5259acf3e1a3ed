//! Insert of an object: lock file, object file, metadata file, in this order.

use super::info::{MetadataFile, MetadataLookup};
use super::path::folder_of;
use super::{LOCK, NUMBER, TreeBody, UrlTree, body_path};
use crate::fs::File;
use crate::object::{InsertTarget, KEY_MAX, METADATA_MAX, ObjectWriter};
use crate::{Error, Insert, InsertRefusal, StoredBody};
use shoal_core::ObjectKey;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Starts an insert.
pub(super) fn begin(
    tree: &Arc<UrlTree>,
    key: &ObjectKey,
    metadata: &[u8],
    body_bytes: Option<u64>,
) -> Result<TreeInsert, Error> {
    let is_too_large = key.full().len() > KEY_MAX as usize
        || metadata.len() > METADATA_MAX as usize
        || body_bytes.is_some_and(|bytes| bytes > tree.totals.limits().object_bytes.min(tree.totals.room()));
    if is_too_large {
        return Err(Error::Declined(InsertRefusal::TooLarge));
    }
    if tree.totals.now().counting {
        return Err(Error::Declined(InsertRefusal::NoSpace));
    }
    tree.begin_change()?;
    let sequence = tree.sequence.fetch_add(1, Relaxed) + 1;
    let lock = Lock::take(tree, folder_of(key.full()), sequence)?;
    tree.bodies.pin(sequence);
    let reading = TreeBody { tree: Arc::clone(tree), folder: lock.folder.clone(), sequence };
    let place = TreeTarget { reading, reserved: AtomicU64::new(0), body_bytes };
    let writing = ObjectWriter::new(key.clone(), sequence, NUMBER, 0, place);
    let known = key.full().len() as u64 + body_bytes.unwrap_or(0);
    writing.room().reserve(known.min(RESERVE_FIRST))?;
    Ok(TreeInsert { writing: Arc::new(writing), metadata: metadata.to_vec(), lock, committed: false })
}

/// Lock file. Dropping this removes the file, and the folders that are then empty.
struct Lock {
    tree: Arc<UrlTree>,
    folder: String,
}

impl Lock {
    fn take(tree: &Arc<UrlTree>, folder: String, sequence: u64) -> Result<Self, Error> {
        match tree.inserting.lock().entry(folder.clone()) {
            Entry::Occupied(_) => return Err(Error::Declined(InsertRefusal::Locked)),
            Entry::Vacant(entry) => {
                entry.insert(sequence);
            }
        }
        let lock = Self { tree: Arc::clone(tree), folder };
        lock.create()?;
        Ok(lock)
    }

    /// Makes the lock file and the folders above it.
    fn create(&self) -> Result<(), Error> {
        let path = format!("{}/{LOCK}", self.folder);
        let mut created = self.tree.files.create(&path);
        for _ in 0..TRIES {
            match created {
                // Left by a killed process: only this process has the store open.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
                // Folders may have been removed with the last object below them.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.make_folders()?;
                    created = self.tree.files.create(&path);
                }
                result => {
                    let result = result.map(drop);
                    return result.map_err(|source| self.tree.write_failed("create a lock file", source));
                }
            }
        }
        Err(Error::Declined(InsertRefusal::Locked))
    }

    fn make_folders(&self) -> Result<(), Error> {
        let ends = self.folder.match_indices('/').map(|(at, _)| at).skip(1).chain([self.folder.len()]);
        for folder in ends.map(|end| &self.folder[..end]) {
            let bytes = self.tree.folder_bytes(folder);
            self.tree.charge(bytes)?;
            let made = self.tree.files.make_folder(folder);
            if !matches!(made, Ok(true)) {
                self.tree.totals.credit(bytes);
            }
            match made {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(self.tree.write_failed("make a folder", error)),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A lock file that stays is broken by the next thread that finds it, once the set no longer
        // has its folder.
        let _ = self.tree.unlink(&format!("{}/{LOCK}", self.folder));
        self.tree.inserting.lock().remove(&self.folder);
        self.tree.prune(&self.folder);
    }
}

/// Place of an object that is being written.
struct TreeTarget {
    reading: TreeBody,
    /// Bytes that the file may have under the present charge.
    reserved: AtomicU64,
    /// Length of the body, if known beforehand.
    body_bytes: Option<u64>,
}

impl TreeTarget {
    fn charged(&self) -> u64 {
        match self.reserved.load(Relaxed) {
            0 => 0,
            reserved => self.reading.tree.in_blocks(reserved),
        }
    }
}

impl InsertTarget for TreeTarget {
    fn reserve(&self, file_bytes: u64) -> Result<(), Error> {
        let reserved = self.reserved.load(Relaxed);
        if file_bytes <= reserved && reserved > 0 {
            return Ok(());
        }
        let step = if reserved == 0 { 0 } else { (reserved / 4).clamp(RESERVE_STEP_MIN, RESERVE_STEP_MAX) };
        let most = self.body_bytes.map_or(u64::MAX, |bytes| bytes + HEAD_ROOM + bytes / 4096);
        let wanted = (file_bytes + step).min(most).max(file_bytes).max(1);
        let tree = &self.reading.tree;
        let charge = |bytes: u64| tree.charge(tree.in_blocks(bytes) - self.charged()).map(|()| bytes);
        // Without the step when there is no room for it.
        let reserved = charge(wanted).or_else(|_| charge(file_bytes.max(1)))?;
        self.reserved.store(reserved, Relaxed);
        Ok(())
    }

    fn create(&self) -> Result<Box<dyn File>, Error> {
        let TreeBody { tree, folder, sequence } = &self.reading;
        let created = tree.files.create(&body_path(folder, *sequence));
        created.map_err(|source| tree.write_failed("create an object file", source))
    }

    fn failed(&self, error: io::Error) -> Error {
        self.reading.tree.write_failed("write an object", error)
    }
}

/// Object that is being written.
pub(super) struct TreeInsert {
    writing: Arc<ObjectWriter<TreeTarget>>,
    metadata: Vec<u8>,
    lock: Lock,
    committed: bool,
}

impl TreeInsert {
    fn place(&self) -> &TreeTarget {
        self.writing.room()
    }

    fn finish(&mut self) -> Result<(), Error> {
        let length = self.writing.length();
        if self.place().body_bytes.is_some_and(|expected| expected != length) {
            return Err(Error::Corrupt { part: "length of the body, which is not what was announced" });
        }
        let header = self.writing.complete(&[])?;
        let tree = Arc::clone(&self.lock.tree);
        let info = MetadataFile {
            sequence: header.sequence,
            file_bytes: header.file_bytes(),
            full_key: self.writing.key().full().to_vec().into(),
            metadata: std::mem::take(&mut self.metadata).into(),
        };
        let _alone = tree.folder_lock(&self.lock.folder).write();
        let mut before = tree.read_info(&self.lock.folder)?;
        if matches!(before, MetadataLookup::Damaged) {
            tree.take_away_damaged(&self.lock.folder, "metadata file")?;
            before = MetadataLookup::Absent;
        }
        if matches!(before, MetadataLookup::Absent) && !tree.totals.add_object() {
            return Err(Error::Declined(InsertRefusal::NoSpace));
        }
        let put = self.put(&tree, &info);
        if put.is_err() && matches!(before, MetadataLookup::Absent) {
            tree.totals.drop_object();
        }
        put?;
        // Credits the part of the reservation that is not needed.
        let charged = self.place().charged();
        tree.totals.credit(charged.saturating_sub(tree.in_blocks(info.file_bytes)));
        self.committed = true;
        if let MetadataLookup::Info(before) = before {
            tree.totals.credit(tree.in_blocks(before.bytes()));
            // Readers no longer find the older object. A failed removal has been logged, and the
            // next count of the totals finds the file.
            let _ = tree.retire_body(&self.lock.folder, before.sequence, before.file_bytes);
        }
        Ok(())
    }

    fn put(&self, tree: &UrlTree, info: &MetadataFile) -> Result<(), Error> {
        let bytes = tree.in_blocks(info.bytes());
        tree.charge(bytes)?;
        let written = info.write(&*tree.files, &self.lock.folder);
        if written.is_err() {
            tree.totals.credit(bytes);
        }
        written.map_err(|source| tree.write_failed("write a metadata file", source))
    }
}

impl Insert for TreeInsert {
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let length = self.writing.length() + bytes.len() as u64;
        let most = self.place().body_bytes.unwrap_or(self.lock.tree.totals.limits().object_bytes);
        if length > most {
            return Err(Error::Declined(InsertRefusal::TooLarge));
        }
        self.writing.append(bytes)
    }

    fn body(&self) -> Arc<dyn StoredBody> {
        Arc::clone(&self.writing) as Arc<dyn StoredBody>
    }

    fn commit(mut self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error> {
        if let Some(metadata) = metadata {
            if metadata.len() > METADATA_MAX as usize {
                return Err(Error::Declined(InsertRefusal::TooLarge));
            }
            self.metadata = metadata.to_vec();
        }
        self.finish()
    }
}

impl Drop for TreeInsert {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        let tree = &self.lock.tree;
        let TreeBody { folder, sequence, .. } = &self.place().reading;
        if self.writing.has_file() {
            // A failure has been logged; the next count of the totals finds a file that stays.
            let _ = tree.unlink(&body_path(folder, *sequence));
        }
        let bytes = self.place().charged();
        tree.held.fetch_add(bytes, Relaxed);
        // This insert itself is a reader until it is dropped.
        if !tree.bodies.leave_to_last_user(*sequence, bytes) {
            tree.give_back(bytes);
        }
    }
}

/// Attempts to make folders again that other threads remove.
const TRIES: usize = 8;
/// Limit of space reserved before the first byte arrives.
const RESERVE_FIRST: u64 = 1 << 20;
const RESERVE_STEP_MIN: u64 = 256 * 1024;
const RESERVE_STEP_MAX: u64 = 16 << 20;
/// More than a head without metadata needs.
const HEAD_ROOM: u64 = 4096;
