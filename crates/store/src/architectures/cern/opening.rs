//! Opening of a tree of URL folders: checks its architecture and reads its totals.

use super::totals::{Limits, SavedTotals, Sums, TreeTotals};
use super::upkeep::RecentUses;
use super::{FOLDER_LOCKS, UrlTree, is_absence, path};
use crate::Error;
use crate::architectures::files::LogOnce;
use crate::architectures::opening::{BLOCK_MIN, check_maker};
use crate::architectures::pins::NumberPins;
use crate::architectures::signature::Signature;
use crate::architectures::{ArchitectureOptions, REPLACEMENT_DEFAULT, StoreEnv};
use parking_lot::{Mutex, RwLock};
use std::io;
use std::sync::atomic::AtomicU64;

impl UrlTree {
    /// Opens the existing tree, or makes one.
    pub(super) fn open(
        name: &'static str,
        settings: &ArchitectureOptions,
        parts: StoreEnv,
    ) -> Result<Self, Error> {
        if settings.replacement != REPLACEMENT_DEFAULT {
            let (wanted, own) = (settings.replacement, REPLACEMENT_DEFAULT);
            return Err(Error::Unusable(format!(
                "{name} gives up what its walk finds unasked for, and knows no replacement by {wanted}; leave it at {own}"
            )));
        }
        let files = &*parts.files;
        let unusable = |error: io::Error| Error::Unusable(format!("could not open the store: {error}"));
        let is_signed = check_maker(name, &parts)?;
        let is_new = !is_signed && files.list(path::ROOT, 1).is_err_and(|error| is_absence(&error));
        let block_bytes = files.space().map_err(unusable)?.block_bytes.max(BLOCK_MIN);
        let limits = Limits {
            bytes: settings.disk_bytes,
            fixed_bytes: FIXED_BLOCKS * block_bytes,
            objects: match settings.max_objects {
                // A folder, a metadata file and an object file each take a block.
                0 => (settings.disk_bytes / (3 * block_bytes)).max(1),
                objects => objects,
            },
            object_bytes: settings.object_max_bytes,
        };
        let least = limits.fixed_bytes + LEAST_BLOCKS * block_bytes;
        if limits.bytes < least {
            let given = limits.bytes;
            return Err(Error::Unusable(format!(
                "{given} bytes of disk are too few: {name} needs {least}; raise the limit"
            )));
        }
        if !is_signed {
            Signature::with_parameters(name, [0; 4]).write(files).map_err(unusable)?;
        }
        let closed = match is_new {
            true => Some(SavedTotals { bytes: 0, objects: 0, sequence: 0 }),
            false => SavedTotals::read(files).map_err(unusable)?,
        };
        files.make_folder(path::ROOT).map_err(unusable)?;
        if !is_new && closed.is_some() {
            // The totals must be gone if this session ends without an orderly close.
            SavedTotals::remove(files).and_then(|()| files.sync()).map_err(unusable)?;
        }
        let first = settings.now.millis() << 20;
        let known =
            closed.map(|closed| Sums { bytes: closed.bytes, objects: closed.objects, counting: false });
        Ok(Self {
            name,
            block_bytes,
            totals: TreeTotals::new(known, limits),
            sequence: AtomicU64::new(closed.map_or(first, |closed| closed.sequence.max(first))),
            files: parts.files,
            inserting: Mutex::default(),
            bodies: NumberPins::default(),
            held: AtomicU64::new(0),
            folder_locks: [const { RwLock::new(()) }; FOLDER_LOCKS],
            is_closed: Mutex::new(false),
            asked: RecentUses::new(),
            walk: Mutex::default(),
            evictions: AtomicU64::new(0),
            corrupt: AtomicU64::new(0),
            said_disk: LogOnce::default(),
            wanted: AtomicU64::new(0),
            _lock: parts.lock,
        })
    }
}

/// Blocks of the signature, the totals, the lock, and the root folder.
const FIXED_BLOCKS: u64 = 4;
/// Least number of blocks that a store must have for objects and folders.
const LEAST_BLOCKS: u64 = 16;
