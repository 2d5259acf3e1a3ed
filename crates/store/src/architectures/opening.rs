//! Opening of a store: finds the architecture's row, opens or makes the index, and settles the
//! remains of the last session.

use super::files::{Core, FileStore, FileStoreLimits, HEAD_LOCKS};
use super::keyed::{KeyedStore, check_secret, take_keys};
use super::maintenance::Maintenance;
use super::released::ReleasedFilePool;
use super::replacement;
use super::seal::Seal;
use super::segments::{self, Segments};
use super::signature::Signature;
use super::space::blocks_of;
use super::{
    ARCHITECTURES, Architecture, ArchitectureOptions, Design, IndexedParts, Naming, NamingFor, NewStoreSpec,
    ReleasedFilePolicy, SQUID, SmallObjects, Squid, StoreEnv, cern, volume,
};
use crate::fs::device::DeviceIo;
use crate::fs::{Access, CountingFs, DeviceFs, FileSystem, OsBlockDevice, OsFs, private, transient};
use crate::index::{Condition, FileHome, Index, IndexGeometry, IndexShape, MemoryHome, Words};
use crate::{Error, OpenOptions, Store};
use parking_lot::RwLock;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use shoal_core::{Key, Timestamp};
use shoal_policy::CyclicPolicy;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tracing::{info, warn};

/// Opens or creates the store in a folder of the real file system. See [`crate::open`].
pub fn open(options: &OpenOptions) -> Result<Arc<dyn Store>, Error> {
    open_through(options, |files| match &options.tally {
        Some(tally) => Arc::new(CountingFs::with_tally(files, Arc::clone(tally))),
        None => files,
    })
}

/// Opens a store through another [`FileSystem`] around the real one, such as one that counts or
/// measures.
///
/// # Errors
/// As [`open`].
pub fn open_through(
    options: &OpenOptions,
    wrap: impl FnOnce(Arc<dyn FileSystem>) -> Arc<dyn FileSystem>,
) -> Result<Arc<dyn Store>, Error> {
    let directory = &options.directory;
    // Log lines about the opening store name its disk.
    let _named = tracing::error_span!("store", disk = %directory.display()).entered();
    architecture(&options.architecture)?;
    replacement::known(&options.replacement)?;
    if OsBlockDevice::is_one(directory) {
        return open_device(options, wrap);
    }
    private::folder(directory).map_err(|error| unusable(directory, "make", &error))?;
    let lock = lock(directory)?;
    private::root(directory).map_err(|error| unusable(directory, "read", &error))?;
    let files = OsFs::open(directory).map_err(|error| unusable(directory, "open", &error))?;
    let settings = ArchitectureOptions::of(options, options.disk_bytes)?;
    let parts = StoreEnv {
        files: wrap(Arc::new(files)),
        index: Box::new(FileHome(directory.clone())),
        boot: boot(options.now),
        lock: Some(lock.into()),
        transient: transient::files(),
        background: true,
    };
    open_store(&options.architecture, &settings, parts)
}

/// Opens a store on a block device, which only a volume can use.
fn open_device(
    options: &OpenOptions,
    wrap: impl FnOnce(Arc<dyn FileSystem>) -> Arc<dyn FileSystem>,
) -> Result<Arc<dyn Store>, Error> {
    let path = options.directory.display();
    if options.architecture != volume::NAME {
        let name = &options.architecture;
        return Err(Error::Unusable(format!(
            "{path} is a block device, and {name} needs a folder; {} does not",
            volume::NAME
        )));
    }
    let named = |error: Error| match error {
        Error::Unusable(why) => Error::Unusable(format!("{path}: {why}")),
        other => other,
    };
    let medium = OsBlockDevice::open(&options.directory, Access::Write)?;
    let usable = medium.bytes().saturating_sub(DeviceFs::OWN_BYTES);
    let files = DeviceFs::open(Box::new(medium), Access::Write).map_err(named)?;
    let present = volume::size(&files).unwrap_or(0);
    if present > options.disk_bytes {
        let limit = options.disk_bytes;
        warn!(disk = %path, bytes = present, limit, "a volume on a block device does not become smaller");
    }
    let disk_bytes = options.disk_bytes.min(usable).max(present);
    let settings = ArchitectureOptions::of(options, disk_bytes)?;
    // The claim of the device stands in for a lock.
    let (files, index) = (wrap(Arc::new(files)), Box::new(MemoryHome::default()));
    let boot = boot(options.now);
    let parts = StoreEnv { files, index, boot, lock: None, transient: transient::files(), background: true };
    open_store(&options.architecture, &settings, parts).map_err(named)
}

/// Opens or creates a store of the named architecture on the given parts.
///
/// # Errors
/// [`Error::Unusable`]; for an unknown name the error lists the known ones.
pub fn open_store(
    name: &str,
    settings: &ArchitectureOptions,
    parts: StoreEnv,
) -> Result<Arc<dyn Store>, Error> {
    let row = architecture(name)?;
    check_secret(&*parts.files)?;
    let files = Arc::clone(&parts.files);
    let (store, parameters): (Arc<dyn Store>, _) = match &row.design {
        Design::Indexed(design) => {
            let background = parts.background;
            let core = build(row.name, design, settings, parts)?;
            let parameters = core.naming.parameters();
            let maintenance = background.then(|| Maintenance::start(&core));
            (Arc::new(FileStore { core, maintenance }), parameters)
        }
        Design::UrlFolders => {
            // Paths find the objects; nearly all of them need no hash.
            let store = cern::open(row.name, settings, parts)?;
            take_keys(row.name, [0; 4], &*files)?;
            return Ok(Arc::new(store));
        }
        Design::Volume => (Arc::new(volume::open(row.name, settings, parts)?), [0; 4]),
    };
    let keys = take_keys(row.name, parameters, &*files)?;
    Ok(if KeyedStore::is_idle(&keys) { store } else { Arc::new(KeyedStore { store, keys }) })
}

pub(super) fn architecture(name: &str) -> Result<&'static Architecture, Error> {
    ARCHITECTURES.iter().find(|row| row.name == name).ok_or_else(|| {
        let known: Vec<_> = ARCHITECTURES.iter().map(|row| row.name).collect();
        Error::Unusable(format!("no cache architecture is called {name:?}; known are: {}", known.join(", ")))
    })
}

/// Builds the store without its background work.
pub(super) fn build(
    name: &'static str,
    design: &IndexedParts,
    settings: &ArchitectureOptions,
    parts: StoreEnv,
) -> Result<Arc<Core>, Error> {
    let (hand, order) = replacement::named(settings.replacement)?;
    let row = Row { name, design, hand };
    let found = match open_existing(&row, settings, &parts)? {
        Some(found) => found,
        None => make(&row, settings, &parts)?,
    };
    let berths = found.index.geometry().berths;
    let released =
        (design.released_files == ReleasedFilePolicy::Overwritten).then(|| ReleasedFilePool::new(berths));
    let segments = match design.small_objects {
        SmallObjects::AsFiles => None,
        SmallObjects::Mapped(packing) => {
            let design = (packing, settings.segments);
            let index = (&found.index, matches!(found.state, Start::Sound));
            let bytes = found.limits.segment_bytes;
            let seal = Seal::of(&*parts.files)?;
            let opened = Segments::open(&*parts.files, bytes, design, index, seal);
            Some(opened.map_err(segments::failed_to_map)?)
        }
    };
    let core = Arc::new(Core {
        name,
        files: parts.files,
        index: found.index,
        naming: found.naming,
        pins: Default::default(),
        released,
        order,
        segments,
        limits: found.limits,
        tally: Default::default(),
        said: Default::default(),
        opened_at: settings.now,
        head_locks: [const { RwLock::new(()) }; HEAD_LOCKS],
        _lock: parts.lock,
    });
    for number in core.index.left_busy() {
        match core.place(number) {
            Some((segments, _)) if !matches!(found.state, Start::Sound) => segments.hold_back(number),
            // A file that cannot be removed stays charged; the failure has been logged.
            _ => drop(core.discard(number)),
        }
    }
    match found.state {
        Start::Sound => {}
        Start::Suspect => {
            info!("the store was not closed in order before power was lost; it is repaired while it serves");
            core.index.begin_audit(core.naming.folders());
        }
        Start::Rebuild => {
            info!("the store's index is rebuilt from the object files while it serves");
            core.index.begin_audit_of_unknown(core.naming.folders());
        }
    }
    Ok(core)
}

/// Architecture with an index.
struct Row<'a> {
    name: &'static str,
    design: &'a IndexedParts,
    hand: &'static dyn CyclicPolicy,
}

/// Index that was opened or made.
struct OpenedIndex {
    index: Index,
    naming: Arc<dyn Naming>,
    limits: FileStoreLimits,
    state: Start,
}

enum Start {
    Sound,
    Suspect,
    Rebuild,
}

/// Opens the existing index. An unusable index is set aside, with a line in the log.
fn open_existing(
    row: &Row<'_>,
    settings: &ArchitectureOptions,
    parts: &StoreEnv,
) -> Result<Option<OpenedIndex>, Error> {
    let reason = match parts.index.existing() {
        Ok(None) => return Ok(None),
        Ok(Some(words)) => match open_index(row, settings, parts, words)? {
            Ok(found) => return Ok(Some(found)),
            Err(reason) => reason.to_owned(),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidData => "empty".to_owned(),
        Err(error) => return Err(Error::Unusable(format!("could not open the store's index: {error}"))),
    };
    // Checked before a file of another architecture is touched.
    if let Some(signature) = read_signature(parts)? {
        Signature::check(&signature.architecture, row.name)?;
    }
    warn!("the store's index is {reason}; it is set aside");
    parts.index.set_aside().map_err(|error| {
        Error::Unusable(format!("the store's index is {reason} and cannot be set aside: {error}"))
    })?;
    Ok(None)
}

/// Opens an index from its words. The inner error says why they are no index for this store.
fn open_index(
    row: &Row<'_>,
    settings: &ArchitectureOptions,
    parts: &StoreEnv,
    words: Box<dyn Words>,
) -> Result<Result<OpenedIndex, &'static str>, Error> {
    let geometry = match IndexGeometry::read(&*words) {
        Ok(geometry) => geometry,
        Err(reason) => return Ok(Err(reason)),
    };
    Signature::check(geometry.architecture(), row.name)?;
    let Some(naming) = (row.design.naming)(NamingFor::Parameters(geometry.parameters)) else {
        return Ok(Err("made for another naming"));
    };
    if block_bytes(parts)? > geometry.block_bytes {
        return Ok(Err("made for another file system"));
    }
    if settings.max_objects != 0 && settings.max_objects != u64::from(geometry.max_objects) {
        let (kept, wanted) = (geometry.max_objects, settings.max_objects);
        warn!("the store was made for {kept} objects and keeps that; {wanted} needs a new store");
    }
    let limits = limits(row, settings, &geometry, &*naming, parts)?;
    let blocks = limits.object_blocks(&geometry);
    let opened = Index::open(words, naming.numbers(), row.hand, parts.boot, blocks);
    Ok(opened.map(|(index, condition)| {
        let state = if condition == Condition::Sound { Start::Sound } else { Start::Suspect };
        OpenedIndex { index, naming, limits, state }
    }))
}

/// Makes an empty index and the other parts of a new store. Where a store existed before, its index
/// has been lost.
fn make(row: &Row<'_>, settings: &ArchitectureOptions, parts: &StoreEnv) -> Result<OpenedIndex, Error> {
    let objects = match settings.max_objects {
        0 => settings.disk_bytes / MEAN_OBJECT_BYTES,
        objects => objects,
    };
    let objects = u32::try_from(objects).unwrap_or(u32::MAX - 1).max(1);
    let left = naming_left(row, parts)?;
    let state = if left.is_some() { Start::Rebuild } else { Start::Sound };
    let block_bytes = block_bytes(parts)?;
    let files_per_folder = match settings.files_per_folder {
        0 => FILES_PER_FOLDER,
        files => files,
    };
    let making = NewStoreSpec { max_objects: objects, block_bytes, files_per_folder };
    let naming = left
        .or_else(|| (row.design.naming)(NamingFor::New(making)))
        .ok_or_else(|| Error::Unusable(format!("no naming for {objects} objects")))?;
    let geometry = IndexGeometry::new(&IndexShape {
        architecture: row.name,
        max_objects: u32::try_from(naming.objects_max()).unwrap_or(objects).min(objects),
        block_bytes,
        parameters: naming.parameters(),
        sides: naming.needs_sides() || row.design.small_objects != SmallObjects::AsFiles,
        numbers: naming.numbers(),
    });
    let limits = limits(row, settings, &geometry, &*naming, parts)?;
    let failed = |error: io::Error| Error::Unusable(format!("could not make the store: {error}"));
    Signature::of(row.name, &*naming).write(&*parts.files).map_err(failed)?;
    naming.make_folders(&*parts.files).map_err(failed)?;
    let words = parts.index.make(&geometry).map_err(failed)?;
    let blocks = limits.object_blocks(&geometry);
    let opened = Index::open(words, naming.numbers(), row.hand, parts.boot, blocks);
    let (index, _) = opened.map_err(|reason| Error::Unusable(format!("the index just made is {reason}")))?;
    Ok(OpenedIndex { index, naming, limits, state })
}

/// Refuses a store that another architecture has made. Returns `true` if the signature names this
/// one.
pub(super) fn check_maker(wanted: &str, parts: &StoreEnv) -> Result<bool, Error> {
    if let Ok(Some(words)) = parts.index.existing()
        && let Ok(geometry) = IndexGeometry::read(&*words)
    {
        Signature::check(geometry.architecture(), wanted)?;
    }
    if let Some(signature) = read_signature(parts)? {
        return Signature::check(&signature.architecture, wanted).map(|()| true);
    }
    if Squid::of_folders(&*parts.files).is_some() {
        Signature::check(SQUID, wanted)?;
    }
    Ok(false)
}

/// Returns the naming of a store that existed before. The source is the signature, or the folders
/// of a store older than signatures.
fn naming_left(row: &Row<'_>, parts: &StoreEnv) -> Result<Option<Arc<dyn Naming>>, Error> {
    if let Some(signature) = read_signature(parts)? {
        Signature::check(&signature.architecture, row.name)?;
        return Ok((row.design.naming)(NamingFor::Parameters(signature.parameters)));
    }
    match Squid::of_folders(&*parts.files) {
        Some(naming) => {
            Signature::check(SQUID, row.name)?;
            Ok(Some(Arc::new(naming)))
        }
        None => Ok(None),
    }
}

fn read_signature(parts: &StoreEnv) -> Result<Option<Signature>, Error> {
    Signature::read(&*parts.files).map_err(|error| {
        Error::Unusable(format!("could not read which architecture made the store: {error}"))
    })
}

fn limits(
    row: &Row<'_>,
    settings: &ArchitectureOptions,
    geometry: &IndexGeometry,
    naming: &dyn Naming,
    parts: &StoreEnv,
) -> Result<FileStoreLimits, Error> {
    let block_bytes = u64::from(geometry.block_bytes);
    let folders = naming.folder_blocks(u64::from(geometry.max_objects), block_bytes);
    let segment_bytes = match row.design.small_objects {
        SmallObjects::AsFiles => 0,
        SmallObjects::Mapped(_) => Segments::length(&*parts.files, &settings.segments, settings.disk_bytes),
    };
    let mapped = blocks_of(segment_bytes, block_bytes) * u64::from(segment_bytes > 0);
    let own = geometry.words() as u64 * 8 + (folders + OTHER_FILES + mapped) * block_bytes;
    let fixed_bytes = own + parts.index.aside_bytes(settings.disk_bytes.saturating_sub(own) / 2);
    let least = fixed_bytes + LEAST_BLOCKS * block_bytes;
    if settings.disk_bytes < least {
        let (given, objects) = (settings.disk_bytes, geometry.max_objects);
        return Err(Error::Unusable(format!(
            "{given} bytes of disk are too few: index and folders for {objects} objects, and the file of small objects \
             where there is one, need {least}; raise the limit or lower the number of objects of a new store"
        )));
    }
    let ArchitectureOptions { disk_bytes, object_max_bytes, .. } = *settings;
    Ok(FileStoreLimits { disk_bytes, fixed_bytes, segment_bytes, object_max_bytes })
}

impl FileStoreLimits {
    /// Returns the number of blocks left for objects.
    fn object_blocks(&self, geometry: &IndexGeometry) -> u64 {
        (self.disk_bytes - self.fixed_bytes) / u64::from(geometry.block_bytes)
    }
}

fn block_bytes(parts: &StoreEnv) -> Result<u32, Error> {
    let space = parts.files.space();
    let space = space.map_err(|error| Error::Unusable(format!("could not ask for disk space: {error}")))?;
    u32::try_from(space.block_bytes.max(BLOCK_MIN))
        .map_err(|_| Error::Unusable(format!("blocks of {} bytes", space.block_bytes)))
}

/// Locks the store for this process: two processes would take each other's files.
pub(super) fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join("lock");
    let file = private::file(&path).map_err(|error| unusable(directory, "write to", &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(Error::Unusable(format!(
            "{} is in use by another process; stop that one or give this one another directory",
            directory.display()
        ))),
        Err(error) => Err(unusable(directory, "lock", &error.into())),
    }
}

fn unusable(directory: &Path, what: &str, error: &io::Error) -> Error {
    Error::Unusable(format!(
        "could not {what} {}: {error}; give the store a directory that this user may write to",
        directory.display()
    ))
}

/// Returns the identifier of the machine's boot. Where the kernel gives none, each call counts as
/// another boot.
fn boot(now: Timestamp) -> u64 {
    let id = fs::read("/proc/sys/kernel/random/boot_id");
    let id = id.unwrap_or_else(|_| now.millis().to_le_bytes().to_vec());
    Key::unkeyed(&id).low().max(1)
}

/// Mean size of an object in the field.
pub(super) const MEAN_OBJECT_BYTES: u64 = 13_000;
/// Least number of blocks that a store must have for objects.
const LEAST_BLOCKS: u64 = 16;
/// Blocks for the lock and the signature.
const OTHER_FILES: u64 = 2;
/// Default limit of files in a folder. Kroonmaa 1998: "384 files/dir seems optimal".
const FILES_PER_FOLDER: u32 = 384;
/// Least unit of accounting: the saving of smaller blocks is not worth the finer count.
pub(super) const BLOCK_MIN: u64 = 4096;
