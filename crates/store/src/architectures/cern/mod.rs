//! CERN httpd's architecture: URL components are folders, all state is on disk, and no index is
//! kept.
//!
//! Maltzahn 1999, 2.3.1, after Luotonen and Altis, "World-Wide Web Proxies", 1994: the URL is
//! translated into a URL directory. "The existence of a lock file indicates that another Cern
//! process is currently inserting the requested object into the cache. Locked objects are not
//! served from the cache but fetched from the Internet without updating the cache. If no lock file
//! exists, Cern tries to open a meta-data file in the URL directory. A failure to do so indicates a
//! cache miss."
//!
//! A URL folder holds three files:
//!
//! - `#lock` while an object is being inserted;
//! - `#meta`, the metadata file (see `info`);
//! - the object file, named `#` and its sequence number in hexadecimal.
//!
//! An object exists when its metadata file exists. A rename makes or replaces the metadata file. A
//! process killed at any instant thus leaves the older object or the newer one.
//!
//! - A miss costs two calls to the disk, a hit five (lock file, metadata file, object file; the
//!   files are read).
//! - A lock file without an insert of this process was left by a killed process: only one process
//!   has a store open. The next thread that finds the file breaks the lock.
//! - The original has no limit. Here totals are kept (see `totals`). An object that does not fit is
//!   declined. A background walk through the tree evicts objects before space runs out (see
//!   `upkeep`).
//! - The space of a removed object stays charged until its last reader has let go of it.

mod body;
mod info;
mod insert;
mod opening;
mod path;
#[cfg(test)]
mod tests;
mod totals;
mod upkeep;

use super::files::LogOnce;
use super::maintenance::{BackgroundWork, Maintenance, StepResult};
use super::pins::NumberPins;
use super::{ArchitectureOptions, StoreEnv};
use crate::fs::{Access, FileSystem};
use crate::object::{METADATA_MAX, ObjectMismatch, OpenBody, read_head};
use crate::{
    Error, Insert, InsertRefusal, ObjectSummary, OpenObject, Peek, PromptStore, Store, StoreUpkeep,
    StoreView, Usage,
};
use body::{TreeBody, is_unreadable};
use info::{MetadataFile, MetadataLookup};
use parking_lot::{Mutex, RwLock};
use path::folder_of;
use shoal_core::ObjectKey;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use totals::{SavedTotals, Sums, TreeTotals};
use tracing::warn;
use upkeep::{RecentUses, Walk};
use xxhash_rust::xxh3::xxh3_64;

/// Opens or makes a tree of URL folders.
pub(super) fn open(
    name: &'static str,
    settings: &ArchitectureOptions,
    parts: StoreEnv,
) -> Result<Cern, Error> {
    let tree = Arc::new(UrlTree::open(name, settings, parts)?);
    let maintenance = Some(Maintenance::start(&tree));
    Ok(Cern { _maintenance: maintenance, tree })
}

/// Store of URL folders.
pub(super) struct Cern {
    /// Background thread. Dropped before `tree`, so that the thread does not hold the last
    /// reference.
    _maintenance: Option<Maintenance>,
    tree: Arc<UrlTree>,
}

/// State shared by the store, its bodies and its inserts.
struct UrlTree {
    name: &'static str,
    files: Arc<dyn FileSystem>,
    block_bytes: u64,
    totals: TreeTotals,
    sequence: AtomicU64,
    /// Folders into which this process is inserting, with the sequence number of the new object.
    inserting: Mutex<HashMap<String, u64>>,
    /// Readers of each object file, by sequence number, with the bytes to credit after the last
    /// reader.
    bodies: NumberPins<u64>,
    /// Bytes of removed files that are still being read.
    held: AtomicU64,
    /// Serialize changes of one folder, and keep readers out meanwhile.
    folder_locks: [RwLock<()>; FOLDER_LOCKS],
    /// Set while the totals of an orderly close are on disk.
    is_closed: Mutex<bool>,
    asked: RecentUses,
    walk: Mutex<Walk>,
    evictions: AtomicU64,
    corrupt: AtomicU64,
    said_disk: LogOnce,
    /// Largest charge declined for lack of space since the walk last made room, in bytes.
    wanted: AtomicU64,
    /// Lock that keeps other processes out.
    _lock: Option<OwnedFd>,
}

impl Store for Cern {
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        let folder = folder_of(key.full());
        if self.tree.is_locked(&folder)? {
            return Ok(None);
        }
        match self.tree.load(&folder, key) {
            Ok(found) => {
                if found.is_some() {
                    self.tree.asked.note(key.hash());
                }
                Ok(found)
            }
            Err((sequence, ObjectMismatch::Disk(source))) if source.kind() != io::ErrorKind::NotFound => {
                if is_unreadable(&source) {
                    self.tree.drop_object(&folder, sequence, "unreadable file")?;
                }
                Err(self.tree.failed("read an object", source))
            }
            Err((sequence, misfit)) => {
                let part = if let ObjectMismatch::Corrupt(part) = misfit {
                    part
                } else {
                    "metadata file without its object"
                };
                self.tree.drop_object(&folder, sequence, part)?;
                Ok(None)
            }
        }
    }

    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error> {
        Ok(Box::new(insert::begin(&self.tree, key, metadata, body_bytes)?))
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
        let tree = &self.tree;
        let folder = folder_of(key.full());
        tree.begin_change()?;
        let _alone = tree.folder_lock(&folder).write();
        let MetadataLookup::Info(before) = tree.read_info(&folder)? else { return Ok(false) };
        if before.full_key != key.full() || !replaces(&before.metadata) {
            return Ok(false);
        }
        let after = MetadataFile { metadata: metadata.to_vec().into(), ..before.clone() };
        // Both metadata files exist for a moment.
        tree.charge(tree.in_blocks(after.bytes()))?;
        let written = after.write(&*tree.files, &folder);
        let gone = if written.is_ok() { &before } else { &after };
        tree.totals.credit(tree.in_blocks(gone.bytes()));
        written.map(|()| true).map_err(|source| tree.write_failed("update metadata", source))
    }

    fn remove(&self, key: &ObjectKey) -> Result<bool, Error> {
        let tree = &self.tree;
        let folder = folder_of(key.full());
        let (removed, is_changed) = {
            let _alone = tree.folder_lock(&folder).write();
            match tree.read_info(&folder)? {
                MetadataLookup::Info(info) if info.full_key == key.full() => {
                    tree.begin_change()?;
                    tree.take_away(&folder, &info)?;
                    (true, true)
                }
                // The file may belong to this key, and no lookup could find its object.
                MetadataLookup::Damaged => {
                    tree.begin_change()?;
                    tree.take_away_damaged(&folder, "metadata file")?;
                    (false, true)
                }
                _ => (false, false),
            }
        };
        if is_changed {
            tree.prune(&folder);
        }
        Ok(removed)
    }

    fn close(&self) -> Result<(), Error> {
        let tree = &self.tree;
        let failed = |source| tree.failed("sync the store", source);
        tree.files.sync().map_err(failed)?;
        let mut is_closed = tree.is_closed.lock();
        let Sums { bytes, objects, counting } = tree.totals.now();
        // Open inserts do not survive the session, and their bytes are still counted.
        if !counting && tree.inserting.lock().is_empty() {
            let bytes = bytes.saturating_sub(tree.held.load(Relaxed));
            let closed = SavedTotals { bytes, objects, sequence: tree.sequence.load(Relaxed) };
            closed.write(&*tree.files).map_err(failed)?;
            *is_closed = true;
        }
        Ok(())
    }
}

impl PromptStore for Cern {}

impl StoreView for Cern {
    fn name(&self) -> &'static str {
        self.tree.name
    }

    fn may_contain(&self, _: &ObjectKey) -> bool {
        true
    }

    fn usage(&self) -> Usage {
        let Sums { bytes, objects, .. } = self.tree.totals.now();
        let limits = self.tree.totals.limits();
        Usage {
            objects,
            objects_max: limits.objects,
            bytes: limits.fixed_bytes + bytes,
            bytes_max: limits.bytes,
            evictions: self.tree.evictions.load(Relaxed),
            crowded_out: 0,
            corrupt: self.tree.corrupt.load(Relaxed),
            spared_reads: 0,
            failures: 0,
            unwritten: 0,
        }
    }
}

impl StoreUpkeep for Cern {}

impl Peek for Cern {
    fn peek(&self, key: &ObjectKey) -> Result<Option<ObjectSummary>, Error> {
        let folder = folder_of(key.full());
        if self.tree.is_locked(&folder)? {
            return Ok(None);
        }
        Ok(self.tree.load(&folder, key).ok().flatten().map(ObjectSummary::from))
    }
}

impl UrlTree {
    /// Returns `true` if an object is being inserted into the folder. Breaks a lock without an
    /// insert.
    fn is_locked(&self, folder: &str) -> Result<bool, Error> {
        let lock = format!("{folder}/{LOCK}");
        match self.files.length(&lock) {
            Err(error) if is_absence(&error) => return Ok(false),
            Err(source) => return Err(self.failed("look for a lock file", source)),
            Ok(_) => {}
        }
        let inserting = self.inserting.lock();
        if inserting.contains_key(folder) {
            return Ok(true);
        }
        // The lock on the set excludes a lock file that is just being made.
        match self.files.unlink(&lock) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("break a lock that was left behind", error))
            }
            _ => Ok(false),
        }
    }

    /// Returns the object of a key. The error carries the sequence number in the metadata file and
    /// the mismatch.
    fn load(
        self: &Arc<Self>,
        folder: &str,
        key: &ObjectKey,
    ) -> Result<Option<OpenObject>, (Option<u64>, ObjectMismatch)> {
        let _undisturbed = self.folder_lock(folder).read();
        let info = match MetadataFile::read(&*self.files, folder) {
            Ok(MetadataLookup::Info(info)) => info,
            Ok(MetadataLookup::Absent) => return Ok(None),
            Ok(MetadataLookup::Damaged) => return Err((None, ObjectMismatch::Corrupt("metadata file"))),
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err((None, ObjectMismatch::Disk(error))),
        };
        if info.full_key != key.full() {
            return Ok(None);
        }
        let misfit = |misfit| (Some(info.sequence), misfit);
        self.bodies.pin(info.sequence);
        let reading = TreeBody { tree: Arc::clone(self), folder: folder.to_owned(), sequence: info.sequence };
        let path = body_path(folder, info.sequence);
        let file =
            self.files.open(&path, Access::Read).map_err(|error| misfit(ObjectMismatch::Disk(error)))?;
        let head = read_head(&*file, NUMBER, info.file_bytes, Some(key)).map_err(misfit)?;
        if head.header.sequence != info.sequence || head.header.file_bytes() != info.file_bytes {
            return Err(misfit(ObjectMismatch::Corrupt("object of another metadata file")));
        }
        Ok(Some(OpenObject { metadata: info.metadata, body: Arc::new(OpenBody::new(&head, file, reading)) }))
    }

    /// Drops the folder's object if it has this sequence number, or if its metadata file is
    /// damaged.
    fn drop_object(&self, folder: &str, sequence: Option<u64>, part: &'static str) -> Result<(), Error> {
        self.begin_change()?;
        {
            let _alone = self.folder_lock(folder).write();
            match self.read_info(folder)? {
                MetadataLookup::Info(info) if Some(info.sequence) == sequence => {
                    self.take_away(folder, &info)?;
                    self.count_corrupt(folder, part);
                }
                MetadataLookup::Damaged => self.take_away_damaged(folder, part)?,
                _ => return Ok(()),
            }
        }
        self.prune(folder);
        Ok(())
    }

    fn count_corrupt(&self, folder: &str, part: &'static str) {
        if self.corrupt.fetch_add(1, Relaxed) == 0 {
            warn!(
                folder,
                part, "stored bytes failed a check; the object is dropped. Further ones are counted"
            );
        }
    }

    /// Removes a folder's metadata file and object file. The caller holds the folder's lock.
    fn take_away(&self, folder: &str, info: &MetadataFile) -> Result<(), Error> {
        self.unlink(&format!("{folder}/{}", info::NAME))?;
        self.totals.drop_object();
        self.totals.credit(self.in_blocks(info.bytes()));
        self.retire_body(folder, info.sequence, info.file_bytes)
    }

    /// Removes a damaged metadata file and all object files of the folder, since any of them may be
    /// its own. The totals count them as one object. The caller holds the folder's lock.
    fn take_away_damaged(&self, folder: &str, part: &'static str) -> Result<(), Error> {
        let inserting = self.inserting.lock().get(folder).copied();
        let names =
            self.files.list(folder, NAMES_MAX).map_err(|source| self.failed("list a folder", source))?;
        let length = |path: &str| self.files.length(path).unwrap_or(0);
        // A file that is being written gets its metadata file later.
        let bodies = names.iter().filter_map(|name| body_sequence(name));
        for sequence in bodies.filter(|sequence| Some(*sequence) != inserting) {
            self.retire_body(folder, sequence, length(&body_path(folder, sequence)))?;
        }
        let path = format!("{folder}/{}", info::NAME);
        let bytes = self.in_blocks(length(&path));
        self.unlink(&path)?;
        self.totals.credit(bytes);
        self.totals.drop_object();
        self.count_corrupt(folder, part);
        Ok(())
    }

    /// Removes an object file. Credits its space after the last reader.
    fn retire_body(&self, folder: &str, sequence: u64, file_bytes: u64) -> Result<(), Error> {
        self.unlink(&body_path(folder, sequence))?;
        let bytes = self.in_blocks(file_bytes);
        self.held.fetch_add(bytes, Relaxed);
        if !self.bodies.leave_to_last_user(sequence, bytes) {
            self.give_back(bytes);
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Relaxed);
        self.totals.credit(bytes);
    }

    /// Removes the folder if it is empty, and then each folder above that has become empty. The
    /// folder may be absent, if only those above it could be made.
    fn prune(&self, folder: &str) {
        let mut folder = folder;
        while folder != path::ROOT {
            match self.files.remove_folder(folder) {
                Ok(()) => self.totals.credit(self.folder_bytes(folder)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => return,
            }
            folder = folder.rsplit_once('/').map_or(path::ROOT, |(above, _)| above);
        }
    }

    /// Returns the charge of a folder: its own block, and its name in the folder above, with slack.
    fn folder_bytes(&self, folder: &str) -> u64 {
        let name = folder.rsplit_once('/').map_or(folder, |(_, name)| name);
        self.block_bytes + 2 * (8 + name.len() as u64)
    }

    fn in_blocks(&self, file_bytes: u64) -> u64 {
        super::space::blocks_of(file_bytes, self.block_bytes) * self.block_bytes
    }

    /// Charges `bytes` bytes. Without room it declines and asks the walk to make some.
    fn charge(&self, bytes: u64) -> Result<(), Error> {
        if bytes > self.totals.room() {
            return Err(Error::Declined(InsertRefusal::TooLarge));
        }
        if self.totals.charge(bytes) {
            return Ok(());
        }
        self.wanted.fetch_max(bytes, Relaxed);
        Err(Error::Declined(InsertRefusal::NoSpace))
    }

    /// Removes the totals of an orderly close before a change.
    fn begin_change(&self) -> Result<(), Error> {
        let mut is_closed = self.is_closed.lock();
        if *is_closed {
            let removed = SavedTotals::remove(&*self.files).and_then(|()| self.files.sync());
            removed.map_err(|source| self.failed("write the totals", source))?;
            *is_closed = false;
        }
        Ok(())
    }

    fn read_info(&self, folder: &str) -> Result<MetadataLookup, Error> {
        match MetadataFile::read(&*self.files, folder) {
            Err(error) if is_absence(&error) => Ok(MetadataLookup::Absent),
            result => result.map_err(|source| self.failed("read a metadata file", source)),
        }
    }

    fn unlink(&self, path: &str) -> Result<(), Error> {
        match self.files.unlink(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed("remove a file", error)),
            _ => Ok(()),
        }
    }

    fn folder_lock(&self, folder: &str) -> &RwLock<()> {
        &self.folder_locks[xxh3_64(folder.as_bytes()) as usize % FOLDER_LOCKS]
    }

    /// Counts and logs a disk failure.
    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        if self.said_disk.first() {
            warn!(error = %source, "could not {action}; the store goes on, and says this once");
        }
        Error::Disk { action, source }
    }

    fn write_failed(&self, action: &'static str, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::Declined(InsertRefusal::NoSpace)
            }
            _ => self.failed(action, source),
        }
    }
}

impl BackgroundWork for UrlTree {
    fn maintain(&self) -> StepResult {
        self.walk_on()
    }
}

/// Returns `true` if nothing is stored there. A part of the path may be a foreign file.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn body_path(folder: &str, sequence: u64) -> String {
    format!("{folder}/#{sequence:016x}")
}

/// Returns the sequence number in an object file's name.
fn body_sequence(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('#').filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Name of the lock file in a URL folder.
const LOCK: &str = "#lock";
/// Number in the header of object files, which have none in this architecture.
const NUMBER: u32 = 0;
const FOLDER_LOCKS: usize = 64;
/// Limit of names read from a folder.
const NAMES_MAX: usize = 1 << 20;
