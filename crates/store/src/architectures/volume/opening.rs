//! Opening of a volume, in constant time for any size.

use super::changed::ChangedKeys;
use super::checkpoint::{Checkpoint, CheckpointHeader};
use super::directory::Directory;
use super::format::{
    DAMAGED, DATA_AT, HEAD_BYTES, PIECE_BYTES, POSITION_MAX, STATE_AT, STRIPE_MAX, SUPERBLOCK_BYTES,
    VolumeGeometry,
};
use super::index::{HEADER_WORDS, VolumeIndex};
use super::locks::RankedMutex;
use super::queue::WriteQueue;
use super::reader::Reader;
use super::recovery::{LogScan, Recovery};
use super::resizing;
use super::state::VolumeState;
use super::volume_file::{Health, VolumeFile};
use super::writer::LogWriter;
use super::{Volume, VolumeStore};
use crate::Error;
use crate::architectures::maintenance::Maintenance;
use crate::architectures::opening::check_maker;
use crate::architectures::seal::Seal;
use crate::architectures::signature::Signature;
use crate::architectures::{ArchitectureOptions, StoreEnv};
use crate::fs::{Access, File, FileSystem, PAGE_BYTES, WriteGate, read_full, write_full};
use parking_lot::Mutex;
use shoal_core::Key;
use shoal_policy::{PinNewcomers, Probation};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use tracing::{info, warn};

/// Opens or makes a store of one volume.
pub(in crate::architectures) fn open(
    name: &'static str,
    settings: &ArchitectureOptions,
    parts: StoreEnv,
) -> Result<VolumeStore, Error> {
    let background = parts.background;
    let volume = Arc::new(Volume::open_unrecovered(name, settings, parts)?);
    if !background {
        volume.recover();
    }
    let threads = || {
        let bell = Arc::clone(&volume.sync_bell);
        vec![Maintenance::start(&volume), Maintenance::run("shoal-sync", &volume, bell, Volume::sync_if_due)]
    };
    let maintenance = if background { threads() } else { Vec::new() };
    Ok(VolumeStore { _maintenance: maintenance, volume })
}

impl Volume {
    /// Opens the volume without its background work. Nothing is written before
    /// [`recover`](Self::recover) has ended.
    pub(super) fn open_unrecovered(
        name: &'static str,
        settings: &ArchitectureOptions,
        parts: StoreEnv,
    ) -> Result<Self, Error> {
        let is_signed = check_maker(name, &parts)?;
        let gate = Arc::new(WriteGate::default());
        let files = gate.guard(Arc::clone(&parts.files));
        resizing::fit(name, settings, &parts, &files)?;
        let transient = parts.transient.map(|files| gate.guard(files));
        let (geometry, state) = match read_geometry(&*files, settings)? {
            Some(existing) => existing,
            None => (make(name, &*files, settings, parts.boot, is_signed)?, VolumeState::NEW),
        };
        let data = files.open_direct(DATA, Access::Write).map_err(|error| unusable("open", DATA, &error))?;
        let index_bytes = VolumeIndex::file_bytes(geometry.buckets, geometry.stripes);
        let (header, is_known) = header_or_new(&*files, &geometry, state, index_bytes)?;
        let loaded = files.load(INDEX, index_bytes).map_err(|error| unusable("map", INDEX, &error))?;
        let index = files.open(INDEX, Access::Write).map_err(|error| unusable("open", INDEX, &error))?;
        assert!(header.is_of(&geometry));
        let is_sound = is_known && header.is_clean;
        let known = is_known.then_some(&header);
        let numbers = (geometry.id, geometry.buckets, session(settings, parts.boot));
        let changed = ChangedKeys::open(transient, numbers, known);
        let recovery = recovery_from(known);
        let writer = LogWriter::at_end(&header, geometry.stripe_bytes, settings.volume.pins);
        let checkpoint = Checkpoint::new(index, (header, state), index_bytes, geometry.stripe_bytes);
        let table = VolumeIndex::new(loaded, geometry.buckets, geometry.stripes, header.objects, is_sound);
        let file = Arc::new(VolumeFile {
            data,
            geometry,
            seal: Seal::of(&*files)?,
            sealed_from: AtomicU64::new(state.sealed_from),
            health: Health::default(),
            gate,
        });
        let parts_of_directory = (table, checkpoint, changed);
        let least_id = settings.now.millis() << 16;
        let directory =
            Arc::new(Directory::new(&file, parts_of_directory, &header, (is_known, is_sound), least_id));
        let reader = Arc::new(Reader::new(&directory, settings.volume.window_bytes, &header, is_sound));
        Ok(Self {
            name,
            file,
            directory,
            reader,
            geometry,
            queue: RankedMutex::new(WriteQueue::default()),
            writer: RankedMutex::new(writer),
            pace: RankedMutex::default(),
            sync_bell: Arc::default(),
            admission: settings.volume.admission,
            pins: settings.volume.pins,
            pin_newcomers: Mutex::new(PinNewcomers::new(settings.volume.pins.bytes_max)),
            probation: Mutex::new(Probation::default()),
            is_reclaiming: AtomicBool::new(false),
            update_turns: Default::default(),
            recovery: RankedMutex::new(recovery),
            removed_early: RankedMutex::default(),
            object_max_bytes: settings.object_max_bytes.min(geometry.volume_bytes() / 4),
            disk_bytes: settings.disk_bytes,
            own_bytes: DATA_AT + index_bytes + PAGE_BYTES as u64,
            ring_end: AtomicU32::new(geometry.stripes),
            is_write_due: AtomicBool::default(),
            is_alone: !parts.background,
            lock: Mutex::new(parts.lock),
        })
    }
}

/// Returns a number that differs between processes that open copies of one volume.
fn session(settings: &ArchitectureOptions, boot: u64) -> u64 {
    let numbers = [settings.now.millis(), boot, u64::from(std::process::id())];
    Key::unkeyed(numbers.map(u64::to_le_bytes).as_flattened()).low()
}

/// Returns the index's header and `true`, or the header of a new index and `false`.
fn header_or_new(
    files: &dyn FileSystem,
    geometry: &VolumeGeometry,
    state: VolumeState,
    index_bytes: u64,
) -> Result<(CheckpointHeader, bool), Error> {
    if let Some(header) = index_header(files, geometry, state, index_bytes)? {
        return Ok((header, true));
    }
    let made = make_index(files, geometry, index_bytes, false)?;
    Ok((CheckpointHeader { generation: state.generation_or(made.generation), ..made }, false))
}

/// Returns the recovery that an index with this header, or none, needs.
fn recovery_from(header: Option<&CheckpointHeader>) -> Recovery {
    match header {
        Some(header) if header.is_clean => Recovery::Clean,
        Some(header) => Recovery::Following(LogScan::from(header.stripe as u32, header.sequence)),
        None => {
            info!("the volume's index is made anew from its contents while it serves");
            Recovery::Dating { next: 0, dated: Vec::new() }
        }
    }
}

/// Reads the geometry and the state of the existing volume. Returns `None` when there is no
/// finished volume.
pub(super) fn read_geometry(
    files: &dyn FileSystem,
    settings: &ArchitectureOptions,
) -> Result<Option<(VolumeGeometry, VolumeState)>, Error> {
    let Some((geometry, state, _)) = existing(files)? else { return Ok(None) };
    let (bytes, own) = (geometry.volume_bytes(), own_bytes(&geometry));
    if bytes + own > settings.disk_bytes {
        return Err(Error::Unusable(format!(
            "the volume there was made for {} bytes of disk, and the limit is {}; raise the limit, or remove {DATA} and \
             {INDEX} to begin with an empty volume",
            bytes + own,
            settings.disk_bytes
        )));
    }
    if bytes + own + SLACK_STRIPES * geometry.stripe_bytes < settings.disk_bytes {
        warn!(
            bytes,
            limit = settings.disk_bytes,
            "the volume was made smaller than its limit and keeps its size"
        );
    }
    Ok(Some((geometry, state)))
}

/// Reads the geometry and the state of the existing volume, and the length of its file.
pub(super) fn existing(files: &dyn FileSystem) -> Result<Option<(VolumeGeometry, VolumeState, u64)>, Error> {
    let length = match files.length(DATA) {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable("look at", DATA, &error)),
    };
    let file = files.open(DATA, Access::Read).map_err(|error| unusable("open", DATA, &error))?;
    let mut blocks = vec![0; DATA_AT as usize];
    read_full(&*file, &mut blocks, 0).map_err(|error| unusable("read", DATA, &error))?;
    let Some(geometry) = superblock(&blocks)? else { return Ok(None) };
    let bytes = geometry.volume_bytes();
    if length < bytes {
        return Err(Error::Unusable(format!(
            "the file {DATA} has {length} bytes and says that it has {bytes}: it was cut off; remove it to begin with an \
             empty volume"
        )));
    }
    let state = VolumeState::latest(&blocks[STATE_AT as usize..][..2 * PAGE_BYTES], geometry.id);
    Ok(Some((geometry, state, length)))
}

/// Decodes the superblock from the volume's first blocks, by either copy. Returns `None` when a
/// kill or a power loss interrupted the making of the volume: the second copy is written when the
/// first is on disk.
fn superblock(blocks: &[u8]) -> Result<Option<VolumeGeometry>, Error> {
    let (first, rest) = blocks.split_at(SUPERBLOCK_BYTES);
    let reason = match VolumeGeometry::decode(first)
        .or_else(|reason| VolumeGeometry::decode(rest).map_err(|_| reason))
    {
        Ok(geometry) => return Ok(Some(geometry)),
        Err(reason) => reason,
    };
    let is_ours = reason == DAMAGED || first.iter().take(8).all(|byte| *byte == 0);
    if is_ours && rest.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    Err(Error::Unusable(format!("the file {DATA} is {reason}; remove it to begin with an empty volume")))
}

/// Makes an empty volume. The superblock comes last, so that a volume without it is known to be
/// unfinished.
fn make(
    name: &str,
    files: &dyn FileSystem,
    settings: &ArchitectureOptions,
    boot: u64,
    is_signed: bool,
) -> Result<VolumeGeometry, Error> {
    let free = files.space().map_err(|error| unusable("ask for space for", DATA, &error))?.free_bytes;
    let limit = if files.is_ours() { settings.disk_bytes } else { within(settings.disk_bytes, free) };
    let geometry = plan(settings, limit, boot)?;
    if !is_signed {
        let signature = Signature::with_parameters(name, [0; 4]);
        signature.write(files).map_err(|error| unusable("sign", name, &error))?;
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::StorageFull => Error::Unusable(format!(
            "there are no {} bytes free for the volume; lower the limit on disk space, or free some",
            geometry.volume_bytes()
        )),
        _ => unusable("make", DATA, &error),
    };
    let file = fresh(files, DATA).map_err(failed)?;
    file.reserve(geometry.volume_bytes(), DATA_AT).map_err(failed)?;
    make_index(files, &geometry, VolumeIndex::file_bytes(geometry.buckets, geometry.stripes), true)?;
    assert_eq!(VolumeGeometry::decode(&geometry.encode()), Ok(geometry), "a volume that could not be opened");
    for at in [0, SUPERBLOCK_BYTES as u64] {
        write_full(&*file, &geometry.encode(), at).map_err(failed)?;
        file.sync().map_err(failed)?;
    }
    write_full(&*file, &VolumeState::NEW.encode(geometry.id), VolumeState::NEW.at()).map_err(failed)?;
    file.sync().map_err(failed)?;
    Ok(geometry)
}

/// Returns the size of a new volume, which takes its space when it is made. On a disk with less
/// space than the limit, a tenth of the free space stays free.
fn within(limit: u64, free: u64) -> u64 {
    let most = free - free / 10;
    if limit > most {
        warn!(limit, free, "the disk has less space than the limit; the volume is made smaller");
    }
    limit.min(most)
}

/// Returns the geometry of a new volume of `disk_bytes` bytes.
pub(super) fn plan(
    settings: &ArchitectureOptions,
    disk_bytes: u64,
    boot: u64,
) -> Result<VolumeGeometry, Error> {
    let objects = match settings.max_objects {
        0 => disk_bytes / MEAN_OBJECT_BYTES,
        objects => objects,
    };
    let buckets = VolumeIndex::buckets_for(objects);
    let mut stripe_bytes =
        settings.volume.stripe_bytes.clamp(STRIPE_MIN, STRIPE_MAX) / STRIPE_MIN * STRIPE_MIN;
    // A small volume gets many stripes rather than large ones.
    while disk_bytes / stripe_bytes < STRIPES_WANTED && stripe_bytes / 2 >= STRIPE_MIN {
        stripe_bytes = (stripe_bytes / 2).next_multiple_of(STRIPE_MIN);
    }
    let fixed = DATA_AT + PAGE_BYTES as u64 + VolumeIndex::file_bytes(buckets, 0);
    let stripes = disk_bytes.saturating_sub(fixed) / (stripe_bytes + 8);
    let most = (POSITION_MAX - DATA_AT) / stripe_bytes;
    if stripes > most {
        warn!(
            disk_bytes,
            "a volume has 4 TiB at most, and takes no more of this disk; divide the disk to use all of it"
        );
    }
    let stripes = stripes.min(most) as u32;
    if u64::from(stripes) < STRIPES_LEAST {
        let least = fixed + STRIPES_LEAST * (stripe_bytes + 8);
        return Err(Error::Unusable(format!(
            "{disk_bytes} bytes of disk are too few: a volume with an index for {objects} objects needs {least}; raise the \
             limit or lower the number of objects"
        )));
    }
    let seed = [settings.now.millis().to_le_bytes(), boot.to_le_bytes()].concat();
    let geometry =
        VolumeGeometry { id: Key::unkeyed(&seed).low(), stripe_bytes, stripes, buckets, oldest: 0 };
    assert!(stripe_bytes.is_multiple_of(STRIPE_MIN));
    assert!(geometry.volume_bytes() <= POSITION_MAX);
    assert!(geometry.volume_bytes() + own_bytes(&geometry) <= disk_bytes, "more than the limit");
    Ok(geometry)
}

/// Reads the header of the index file, if the file belongs to this volume.
pub(super) fn index_header(
    files: &dyn FileSystem,
    geometry: &VolumeGeometry,
    state: VolumeState,
    bytes: u64,
) -> Result<Option<CheckpointHeader>, Error> {
    match files.length(INDEX) {
        Ok(length) if length == bytes => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable("look at", INDEX, &error)),
    }
    let file = files.open(INDEX, Access::Read).map_err(|error| unusable("open", INDEX, &error))?;
    let mut pages = vec![0; HEADER_WORDS * 8];
    if let Err(error) = read_full(&*file, &mut pages, 0) {
        warn!(%error, "the volume's index cannot be read and counts as none");
        return Ok(None);
    }
    Ok(CheckpointHeader::latest(&pages, |header| header.is_of(geometry) && state.is_of(header.generation)))
}

/// Makes an empty index. The index of an empty volume is complete and marked so; any other gets its
/// header when it is complete.
fn make_index(
    files: &dyn FileSystem,
    geometry: &VolumeGeometry,
    bytes: u64,
    is_empty: bool,
) -> Result<CheckpointHeader, Error> {
    let header = CheckpointHeader {
        id: geometry.id,
        buckets: geometry.buckets,
        sequence: 0,
        stripe: 0,
        offset: 0,
        objects: 0,
        next_id: 1,
        written_stripes: 0,
        turn: 0,
        generation: 0,
        session: 0,
        is_clean: is_empty,
    };
    let made = fresh(files, INDEX).and_then(|file| {
        file.allot(bytes)?;
        // The index counts only once the volume has a superblock with this id.
        let mut pages = if is_empty { header.encode() } else { Vec::new() };
        pages.resize(HEADER_WORDS * 8, 0);
        write_full(&*file, &pages, 0)?;
        file.sync()
    });
    made.map_err(|error| unusable("make", INDEX, &error))?;
    Ok(header)
}

/// Makes a new file in place of any file with this name.
pub(super) fn fresh(files: &dyn FileSystem, path: &str) -> io::Result<Box<dyn File>> {
    match files.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            files.unlink(path)?;
            files.create(path)
        }
        created => created,
    }
}

/// Returns the bytes on disk beside the volume itself.
pub(super) fn own_bytes(geometry: &VolumeGeometry) -> u64 {
    VolumeIndex::file_bytes(geometry.buckets, geometry.stripes) + PAGE_BYTES as u64
}

pub(super) fn unusable(what: &str, path: &str, error: &io::Error) -> Error {
    Error::Unusable(format!("could not {what} {path}: {error}"))
}

/// Name of the volume's file.
pub(super) const DATA: &str = "volume";
/// Name of its index.
pub(super) const INDEX: &str = "volume.index";
/// Assumed mean size of an object. An index that is too small evicts objects nearly at random,
/// although there is space. One that is too large costs ten bytes for each unused place. Traffic
/// Server assumes the same size.
pub(super) const MEAN_OBJECT_BYTES: u64 = 8000;
const STRIPE_MIN: u64 = 256 << 10;
/// Stripes that a volume should have, even if they become smaller.
const STRIPES_WANTED: u64 = 32;
pub(super) const STRIPES_LEAST: u64 = 4;
/// Stripes by which a volume may be smaller than its limit.
pub(super) const SLACK_STRIPES: u64 = 16;

const _: () = {
    assert!(STRIPE_MIN.is_multiple_of(PAGE_BYTES as u64));
    assert!(STRIPE_MIN <= STRIPE_MAX);
    // An object with metadata of usual length fits into half the smallest stripe.
    assert!(STRIPE_MIN / 2 > (PIECE_BYTES + HEAD_BYTES) as u64);
    assert!(STRIPES_LEAST <= STRIPES_WANTED);
    assert!(2 * SUPERBLOCK_BYTES as u64 == STATE_AT);
};
