//! CERN httpd's architecture: URL components are folders, all state is on disk, and nothing of the contents is remembered.
//!
//! Maltzahn 1999, 2.3.1, after Luotonen and Altis, "World-Wide Web Proxies", 1994: the URL is translated into a URL
//! directory. "The existence of a lock file indicates that another Cern process is currently inserting the requested
//! object into the cache. Locked objects are not served from the cache but fetched from the Internet without updating the
//! cache. If no lock file exists, Cern tries to open a meta-data file in the URL directory. A failure to do so indicates a
//! cache miss."
//!
//! In a URL folder stand `#lock` while an object is being inserted, `#meta` (see `info`), and the object file, whose name
//! is `#` and its sequence number in hexadecimal. An object is there when its metadata file is, which appears and is
//! replaced by a rename. So a process killed at any instant leaves the older object or the newer one.
//!
//! - A miss costs two calls to the disk, a hit five (lock file, metadata file, object file; the files are read).
//! - A lock file that no insert of this process stands behind has been left by a process that was killed: no two have a
//!   store open at once. It is broken by whoever comes upon it.
//! - The original has no limit. Here totals are kept (see `totals`): what does not fit is declined, and a walk through the
//!   tree gives up objects in the background, well before nothing fits (see `upkeep`).
//! - What a removed object takes stays charged until its last reader has let go of it.

mod info;
mod insert;
mod opening;
mod path;
#[cfg(test)]
mod tests;
mod totals;
mod upkeep;

use super::files::LogOnce;
use super::maintenance::{BackgroundWork, Maintenance, WorkDone};
use super::pins::NumberPins;
use super::{ArchitectureOptions, StoreEnv};
use crate::fs::{Access, FileSystem};
use crate::object::{BodyOwner, METADATA_MAX, ObjectMismatch, OpenBody, read_head};
use crate::{Declined, Error, Insert, OpenObject, Store, Usage};
use info::{MetadataFile, Read};
use parking_lot::{Mutex, RwLock};
use path::folder_of;
use shoal_core::ObjectKey;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use totals::{Closed, Sums, Totals};
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

/// A store of URL folders.
pub(super) struct Cern {
    /// Its thread ends when this is dropped: before the tree, so that the last reference to that is not the thread's.
    _maintenance: Option<Maintenance>,
    tree: Arc<UrlTree>,
}

/// What the store, its bodies and its inserts share.
struct UrlTree {
    name: &'static str,
    files: Arc<dyn FileSystem>,
    block_bytes: u64,
    totals: Totals,
    sequence: AtomicU64,
    /// Folders into which this process is inserting, with the sequence number of what is inserted.
    inserting: Mutex<HashMap<String, u64>>,
    /// Who reads which object file, by sequence number; with the bytes to give back when the last has done.
    bodies: NumberPins<u64>,
    /// Bytes of removed files that are still read.
    held: AtomicU64,
    /// Keep what belongs to one folder from being changed by two, and from being read in between.
    folder_locks: [RwLock<()>; FOLDER_LOCKS],
    /// The file with the totals of an orderly end is there.
    is_closed: Mutex<bool>,
    asked: RecentUses,
    walk: Mutex<Walk>,
    evictions: AtomicU64,
    corrupt: AtomicU64,
    said_disk: LogOnce,
    /// Bytes that were asked for in vain.
    wanted: AtomicU64,
    /// Keeps other processes out.
    _lock: Option<OwnedFd>,
}

impl Store for Cern {
    fn name(&self) -> &'static str {
        self.tree.name
    }

    fn may_contain(&self, _: &ObjectKey) -> bool {
        true
    }

    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        let folder = folder_of(key.full());
        if self.tree.is_locked(&folder)? {
            return Ok(None);
        }
        match self.tree.load(&folder, key) {
            Ok(found) => Ok(found),
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
            return Err(Error::Declined(Declined::TooLarge));
        }
        let tree = &self.tree;
        let folder = folder_of(key.full());
        tree.begin_change()?;
        let _alone = tree.folder_lock(&folder).write();
        let Read::Info(before) = tree.read_info(&folder)? else { return Ok(false) };
        if before.full_key != key.full() || !replaces(&before.metadata) {
            return Ok(false);
        }
        let after = MetadataFile { metadata: metadata.to_vec().into(), ..before.clone() };
        // Both are there for a moment.
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
                Read::Info(info) if info.full_key == key.full() => {
                    tree.begin_change()?;
                    tree.take_away(&folder, &info)?;
                    (true, true)
                }
                // It may be this one's, and would be found by nobody.
                Read::Damaged => {
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

    fn close(&self) -> Result<(), Error> {
        let tree = &self.tree;
        let failed = |source| tree.failed("sync the store", source);
        tree.files.sync().map_err(failed)?;
        let mut is_closed = tree.is_closed.lock();
        let Sums { bytes, objects, counting } = tree.totals.now();
        // What is being inserted is not there for the next session, and has not been counted out.
        if !counting && tree.inserting.lock().is_empty() {
            let bytes = bytes.saturating_sub(tree.held.load(Relaxed));
            let closed = Closed { bytes, objects, sequence: tree.sequence.load(Relaxed) };
            closed.write(&*tree.files).map_err(failed)?;
            *is_closed = true;
        }
        Ok(())
    }
}

impl UrlTree {
    /// Whether an object is being inserted into a folder. A lock that nobody stands behind is broken.
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
        // Under the lock on the set, so that it cannot be one that is just being made.
        match self.files.unlink(&lock) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.failed("break a lock that was left behind", error))
            }
            _ => Ok(false),
        }
    }

    /// The object of a key, or why what is there is not it, with the sequence number that its metadata file names.
    fn load(
        self: &Arc<Self>,
        folder: &str,
        key: &ObjectKey,
    ) -> Result<Option<OpenObject>, (Option<u64>, ObjectMismatch)> {
        let _undisturbed = self.folder_lock(folder).read();
        let info = match MetadataFile::read(&*self.files, folder) {
            Ok(Read::Info(info)) => info,
            Ok(Read::Absent) => return Ok(None),
            Ok(Read::Damaged) => return Err((None, ObjectMismatch::Corrupt("metadata file"))),
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
        self.asked.note(key.hash());
        Ok(Some(OpenObject { metadata: info.metadata, body: Arc::new(OpenBody::new(&head, file, reading)) }))
    }

    /// Drops the object that a folder has, if it is that of the sequence number, or if its metadata file is damaged.
    fn drop_object(&self, folder: &str, sequence: Option<u64>, part: &'static str) -> Result<(), Error> {
        self.begin_change()?;
        {
            let _alone = self.folder_lock(folder).write();
            match self.read_info(folder)? {
                Read::Info(info) if Some(info.sequence) == sequence => {
                    self.take_away(folder, &info)?;
                    self.count_corrupt(folder, part);
                }
                Read::Damaged => self.take_away_damaged(folder, part)?,
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

    /// Removes a metadata file that is damaged, and the object files, any of which may be its own, and counts them for one object. The
    /// caller holds the folder's lock.
    fn take_away_damaged(&self, folder: &str, part: &'static str) -> Result<(), Error> {
        let inserting = self.inserting.lock().get(folder).copied();
        let names =
            self.files.list(folder, NAMES_MAX).map_err(|source| self.failed("list a folder", source))?;
        let length = |path: &str| self.files.length(path).unwrap_or(0);
        // What is being written has a metadata file to come.
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

    /// Removes an object file. Its space is given back when its last reader has done.
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

    /// Removes the folder if it is empty, and those above that are empty then. It may not be there, where only those above could
    /// be made.
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

    /// What a folder takes: a block of its own, and its name in the folder above, with slack.
    fn folder_bytes(&self, folder: &str) -> u64 {
        let name = folder.rsplit_once('/').map_or(folder, |(_, name)| name);
        self.block_bytes + 2 * (8 + name.len() as u64)
    }

    fn in_blocks(&self, file_bytes: u64) -> u64 {
        super::space::blocks_of(file_bytes, self.block_bytes) * self.block_bytes
    }

    /// Takes room; when there is none the walk is to make some.
    fn charge(&self, bytes: u64) -> Result<(), Error> {
        if bytes > self.totals.room() {
            return Err(Error::Declined(Declined::TooLarge));
        }
        if self.totals.charge(bytes) {
            return Ok(());
        }
        self.wanted.fetch_max(bytes, Relaxed);
        Err(Error::Declined(Declined::NoSpace))
    }

    /// Takes the totals of an orderly end away before anything changes.
    fn begin_change(&self) -> Result<(), Error> {
        let mut is_closed = self.is_closed.lock();
        if *is_closed {
            let removed = Closed::remove(&*self.files).and_then(|()| self.files.sync());
            removed.map_err(|source| self.failed("write the totals", source))?;
            *is_closed = false;
        }
        Ok(())
    }

    fn read_info(&self, folder: &str) -> Result<Read, Error> {
        match MetadataFile::read(&*self.files, folder) {
            Err(error) if is_absence(&error) => Ok(Read::Absent),
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

    /// Counts and logs trouble with the disk.
    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        if self.said_disk.first() {
            warn!(error = %source, "could not {action}; the store goes on, and says this once");
        }
        Error::Disk { action, source }
    }

    fn write_failed(&self, action: &'static str, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Declined(Declined::NoSpace),
            _ => self.failed(action, source),
        }
    }
}

impl BackgroundWork for UrlTree {
    fn maintain(&self) -> WorkDone {
        self.walk_on()
    }
}

/// A body that is being read.
struct TreeBody {
    tree: Arc<UrlTree>,
    folder: String,
    sequence: u64,
}

impl BodyOwner for TreeBody {
    fn found_corrupt(&self, part: &'static str) {
        // Trouble with the disk has been logged, and the object fails its check again the next time.
        let _ = self.tree.drop_object(&self.folder, Some(self.sequence), part);
    }

    fn failed(&self, error: &io::Error) {
        if is_unreadable(error) {
            self.found_corrupt("unreadable file");
        }
    }
}

impl Drop for TreeBody {
    fn drop(&mut self) {
        if let Some(bytes) = self.tree.bodies.unpin(self.sequence) {
            self.tree.give_back(bytes);
        }
    }
}

/// The medium does not give it back; other errors may pass.
fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// Nothing is there. A part of the path may be somebody's file.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn body_path(folder: &str, sequence: u64) -> String {
    format!("{folder}/#{sequence:016x}")
}

/// The sequence number that an object file's name has.
fn body_sequence(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('#').filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// The lock file's name in a URL folder.
const LOCK: &str = "#lock";
/// Object files have no number here.
const NUMBER: u32 = 0;
const FOLDER_LOCKS: usize = 64;
/// Names of a folder that are looked at.
const NAMES_MAX: usize = 1 << 20;
