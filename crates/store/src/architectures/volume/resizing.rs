//! Change of a volume's size before it is opened: the log keeps its place, the index is copied.
//!
//! ```text
//! larger:  file extended ─► index copied ─► superblock ─► index renamed
//! smaller:                  index copied ─► superblock ─► index renamed ─► file cut later
//! ```
//!
//! The superblock decides which size holds. The copy of the index waits under a name of its own
//! until then. The next opening finishes a renaming that a crash cut off. A crash at any write thus
//! leaves the old volume or the new one, each with its index.
//!
//! A smaller volume loses the stripes behind its end, and the objects there. Removals in these
//! stripes are lost too, and so are newer versions of objects. The index knows both, the remaining
//! stripes do not: a later rebuild of the index leaves them out (`VolumeGeometry::oldest`).
//!
//! A larger volume goes on behind its old end, if that was reached. Its index keeps its places as
//! long as the objects of the present mean size fit. Otherwise it gets more, which need the keys of
//! all objects: it is made anew from the contents of the stripes while the volume serves.
//!
//! A volume on a block device grows with the device, and never becomes smaller. Its index lies
//! behind it and is in the way. The copy therefore goes to the end of the device and takes the
//! index's place before the superblock is written. A crash in between costs the index, which is
//! then made anew from the stripes.
//!
//! Cost: one pass over the index, and no access to a stripe.

use super::Volume;
use super::checkpoint::CheckpointHeader;
use super::format::{DATA_AT, POSITION_MAX, SUPERBLOCK_BYTES, VolumeGeometry};
use super::index::{HEADER_WORDS, VolumeIndex};
use super::opening::{
    DATA, INDEX, MEAN_OBJECT_BYTES, SLACK_STRIPES, STRIPES_LEAST, existing, fresh, index_header, own_bytes,
    unusable,
};
use super::state::VolumeState;
use crate::Error;
use crate::architectures::{ArchitectureOptions, StoreEnv};
use crate::fs::{Access, File, FileSystem, PAGE_BYTES, read_full, write_full};
use crate::index::MemoryHome;
use std::io;
use std::sync::Arc;
use tracing::{info, warn};

/// Gives the volume the size that its limit allows, if there is a volume of another size. A volume
/// that cannot grow keeps its size.
///
/// # Errors
/// [`Error::Unusable`] for a volume that cannot be made as small as its limit.
pub(super) fn fit(
    name: &'static str,
    settings: &ArchitectureOptions,
    parts: &StoreEnv,
    files: &Arc<dyn FileSystem>,
) -> Result<(), Error> {
    let Some((old, state, length)) = existing(&**files)? else { return Ok(()) };
    finish_renaming(&**files, &old, state)?;
    let free = match files.is_ours() {
        // The limit is within the device, of which nothing is left to others.
        true => u64::MAX,
        false => files.space().map_err(|error| unusable("ask for space for", DATA, &error))?.free_bytes,
    };
    let Some(stripes) = stripes_within(&old, settings.disk_bytes, free) else {
        // A change of the size before this opening has left the rest.
        let has_rest = length > old.volume_bytes() && !files.is_ours();
        return if has_rest { cut_off(&**files, &old) } else { Ok(()) };
    };
    debug_assert!(!files.is_ours() || stripes > old.stripes, "the limit is at least the volume's size");
    if u64::from(stripes) < STRIPES_LEAST {
        return Err(Error::Unusable(format!(
            "{} bytes of disk are too few for the volume there, whose index alone takes {}; raise the limit, or remove \
             {DATA} and {INDEX} to begin with an empty volume",
            settings.disk_bytes,
            own_bytes(&old)
        )));
    }
    match resize(name, (settings, parts, files), (old, state), (stripes, free)) {
        Err(error) if stripes > old.stripes => {
            warn!(%error, "the volume cannot grow now and keeps its size");
            Ok(())
        }
        outcome => outcome,
    }
}

/// Returns the stripes that a volume of this geometry has within `limit` bytes, if the number
/// differs enough. A growing volume leaves a tenth of the disk's space free.
pub(super) fn stripes_within(old: &VolumeGeometry, limit: u64, free: u64) -> Option<u32> {
    let now = old.volume_bytes() + own_bytes(old);
    let usable = now.saturating_add(free);
    let limit = limit.min((usable - usable / 10).max(now.min(limit)));
    let fixed = DATA_AT + PAGE_BYTES as u64 + VolumeIndex::file_bytes(old.buckets, 0);
    let most = (POSITION_MAX - DATA_AT) / old.stripe_bytes;
    let stripes = limit.saturating_sub(fixed) / (old.stripe_bytes + 8);
    let stripes = stripes.min(most).min(u64::from(u32::MAX)) as u32;
    let slack = old.stripes.saturating_add(SLACK_STRIPES as u32);
    (stripes < old.stripes || stripes > slack).then_some(stripes)
}

/// Returns the buckets of the index after growth to `stripes` stripes. The present ones stay if
/// they have a place for the objects of a full volume: as many as the settings expect, or as the
/// log's `objects` in `written` bytes let expect.
fn buckets_for(
    old: &VolumeGeometry,
    stripes: u32,
    settings: &ArchitectureOptions,
    (objects, written): (u64, u64),
) -> u64 {
    let planned = VolumeIndex::buckets_for(settings.disk_bytes / MEAN_OBJECT_BYTES);
    if stripes <= old.stripes || settings.max_objects != 0 || planned <= old.buckets {
        return old.buckets;
    }
    assert!(planned > old.buckets && old.buckets > 0);
    let log_bytes = u128::from(stripes) * u128::from(old.stripe_bytes);
    let expected = u128::from(objects) * log_bytes / u128::from(written.max(1));
    let is_known = objects >= OBJECTS_KNOWN;
    match is_known && expected <= u128::from(VolumeIndex::objects_in(old.buckets)) {
        true => old.buckets,
        false => planned,
    }
}

fn resize(
    name: &'static str,
    (settings, parts, files): (&ArchitectureOptions, &StoreEnv, &Arc<dyn FileSystem>),
    (old, state): (VolumeGeometry, VolumeState),
    (stripes, free): (u32, u64),
) -> Result<(), Error> {
    let grows = stripes > old.stripes;
    let index_bytes = VolumeIndex::file_bytes(old.buckets, old.stripes);
    let mut header = index_header(&**files, &old, state, index_bytes)?;
    if header.is_some_and(|header| !header.is_clean) || (header.is_none() && !grows) {
        info!("the end of the volume's log is found before the volume changes its size");
        settle(name, settings, parts, files, &old)?;
        let Some((settled, state, _)) = existing(&**files)? else { return Ok(()) };
        assert_eq!(settled, old, "a volume that changed");
        header = index_header(&**files, &old, state, index_bytes)?.filter(|header| header.is_clean);
        if header.is_none() {
            return Err(Error::Unusable("the volume's index could not be completed".into()));
        }
    }
    let counts = header.map_or((0, 0), |header| (header.objects, header.written_stripes * old.stripe_bytes));
    let buckets = if header.is_some() { buckets_for(&old, stripes, settings, counts) } else { old.buckets };
    let Some(stripes) = beside_index(&old, (stripes, buckets), (settings.disk_bytes, free)) else {
        return Ok(());
    };
    let oldest = match header {
        Some(header) if !grows => header.sequence + 1,
        _ => old.oldest,
    };
    let new = VolumeGeometry { stripes, buckets, oldest, ..old };
    assert!(new.oldest >= old.oldest, "chunks that were left out come back");
    let failed = |error: io::Error| unusable("change the size of", DATA, &error);
    let data = files.open(DATA, Access::Write).map_err(failed)?;
    let extend = || data.reserve(new.volume_bytes(), 0).and_then(|()| data.sync()).map_err(failed);
    if grows && !files.is_ours() {
        extend()?;
    }
    let is_copied = header.filter(|_| new.buckets == old.buckets);
    if let Some(header) = is_copied {
        copy_index(&**files, &old, &new, header).map_err(|error| unusable("copy", INDEX, &error))?;
    }
    if files.is_ours() {
        make_way(&**files, is_copied.is_some()).map_err(|error| unusable("move", INDEX, &error))?;
        extend()?;
    }
    assert_eq!(VolumeGeometry::decode(&new.encode()), Ok(new), "a volume that could not be opened");
    for at in [0, SUPERBLOCK_BYTES as u64] {
        write_full(&*data, &new.encode(), at).and_then(|()| data.sync()).map_err(failed)?;
    }
    finish_renaming(&**files, &new, state)?;
    info!(from = old.volume_bytes(), to = new.volume_bytes(), "the volume has changed its size");
    Ok(())
}

/// Returns the stripes beside an index of `buckets` buckets, which may be larger than the present
/// one; `None` if the volume cannot grow with it.
fn beside_index(
    old: &VolumeGeometry,
    (stripes, buckets): (u32, u64),
    (limit, free): (u64, u64),
) -> Option<u32> {
    if buckets == old.buckets {
        return Some(stripes);
    }
    debug_assert!(buckets > old.buckets, "an index never loses places");
    let beside = stripes_within(&VolumeGeometry { buckets, ..*old }, limit, free)?;
    (beside > old.stripes).then_some(beside.min(stripes))
}

/// Takes a device's index out of the way of the volume before it. A copy takes its place.
fn make_way(files: &dyn FileSystem, is_copied: bool) -> io::Result<()> {
    if is_copied {
        return files.rename(next_name(files), INDEX);
    }
    match files.unlink(INDEX) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the name of an index that waits for its volume. Names of extents are short.
fn next_name(files: &dyn FileSystem) -> &'static str {
    if files.is_ours() { NEXT_EXTENT } else { NEXT }
}

/// Gives the space behind the volume's end back.
fn cut_off(files: &dyn FileSystem, geometry: &VolumeGeometry) -> Result<(), Error> {
    let data = files.open(DATA, Access::Write);
    data.and_then(|data| data.set_length(geometry.volume_bytes()))
        .map_err(|error| unusable("cut off", DATA, &error))
}

/// Opens the volume as it is, enters the whole log into its index, and closes it.
fn settle(
    name: &'static str,
    settings: &ArchitectureOptions,
    parts: &StoreEnv,
    files: &Arc<dyn FileSystem>,
    old: &VolumeGeometry,
) -> Result<(), Error> {
    let settings = ArchitectureOptions { disk_bytes: old.volume_bytes() + own_bytes(old), ..*settings };
    debug_assert_eq!(stripes_within(old, settings.disk_bytes, 0), None, "a volume that fits");
    let parts = StoreEnv {
        files: Arc::clone(files),
        index: Box::new(MemoryHome::default()),
        boot: parts.boot,
        lock: None,
        transient: parts.transient.as_ref().map(Arc::clone),
        background: false,
    };
    let volume = Volume::open_unrecovered(name, &settings, parts)?;
    volume.recover();
    volume.close()
}

/// Writes the index of the new volume under a name of its own.
fn copy_index(
    files: &dyn FileSystem,
    old: &VolumeGeometry,
    new: &VolumeGeometry,
    header: CheckpointHeader,
) -> io::Result<()> {
    assert_eq!(old.buckets, new.buckets, "entries that would not be found");
    let from = files.open(INDEX, Access::Read)?;
    let to = fresh(files, next_name(files))?;
    to.allot(VolumeIndex::file_bytes(new.buckets, new.stripes))?;
    let places_at = HEADER_WORDS as u64 * 8;
    let places = places_at..places_at + VolumeIndex::places_bytes(old.buckets);
    let mut objects = 0;
    copy(&*from, &*to, places.clone(), |words| {
        objects += VolumeIndex::clear_behind(words, new.volume_bytes());
    })?;
    let stripes = u64::from(old.stripes.min(new.stripes)) * 8;
    copy(&*from, &*to, places.end..places.end + stripes, |_| {})?;
    let header = CheckpointHeader { objects, ..moved(header, old, new) };
    assert!(header.is_of(new), "a header that would not be read");
    let mut pages = header.encode();
    pages.resize(HEADER_WORDS * 8, 0);
    write_full(&*to, &pages, 0)?;
    to.sync()?;
    files.sync()
}

/// Returns the header with the log's end in the new volume.
fn moved(header: CheckpointHeader, old: &VolumeGeometry, new: &VolumeGeometry) -> CheckpointHeader {
    assert_ne!(old.stripes, new.stripes, "no change");
    assert!(new.stripes > 0 && old.stripe_bytes == new.stripe_bytes);
    // The stripe before the next one, without room.
    let before = |next: u32| (u64::from(next - 1), new.stripe_bytes);
    let is_full = header.written_stripes >= u64::from(old.stripes);
    let (stripe, offset) = match new.stripes > old.stripes {
        true if is_full => before(old.stripes),
        false if header.stripe >= u64::from(new.stripes) => before(new.stripes),
        _ => (header.stripe, header.offset),
    };
    let written_stripes = header.written_stripes.min(u64::from(new.stripes));
    assert!(stripe < u64::from(new.stripes) && offset <= new.stripe_bytes, "an end behind the volume");
    // The other page of the new file is empty.
    CheckpointHeader { stripe, offset, written_stripes, turn: 0, is_clean: true, ..header }
}

/// Copies a part of a file, some words at a time.
fn copy(
    from: &dyn File,
    to: &dyn File,
    range: std::ops::Range<u64>,
    mut change: impl FnMut(&mut [u8]),
) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let mut words = vec![0; (range.end - at).min(COPIED_AT_ONCE) as usize];
        if read_full(from, &mut words, at)? < words.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        change(&mut words);
        write_full(to, &words, at)?;
        at += words.len() as u64;
        assert!(at <= range.end, "words behind the range");
    }
    Ok(())
}

/// Puts a copied index in place, if the superblock says that its size holds. Removes any other.
fn finish_renaming(
    files: &dyn FileSystem,
    geometry: &VolumeGeometry,
    state: VolumeState,
) -> Result<(), Error> {
    let next = next_name(files);
    let failed = |error: io::Error| unusable("put in place", next, &error);
    let length = match files.length(next) {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let file = files.open(next, Access::Read).map_err(failed)?;
    let mut pages = vec![0; HEADER_WORDS * 8];
    let has_header = read_full(&*file, &mut pages, 0).is_ok_and(|read| read == pages.len());
    let is_its = |header: &CheckpointHeader| header.is_of(geometry) && state.is_of(header.generation);
    let fits = has_header
        && length == VolumeIndex::file_bytes(geometry.buckets, geometry.stripes)
        && CheckpointHeader::latest(&pages, is_its).is_some_and(|header| header.is_clean);
    match fits {
        true => files.rename(next, INDEX).and_then(|()| files.sync()).map_err(failed),
        // The volume has kept its size.
        false => files.unlink(next).map_err(failed),
    }
}

/// Removes the files of a volume that nobody has open. The log goes first: without it, no index
/// counts.
pub(in crate::architectures) fn empty(files: &dyn FileSystem) -> io::Result<()> {
    for name in [DATA, next_name(files), INDEX] {
        match files.unlink(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    files.sync()
}

/// Returns the bytes of disk that the volume and its index take.
pub(in crate::architectures) fn size(files: &dyn FileSystem) -> Option<u64> {
    let (geometry, ..) = existing(files).ok()??;
    Some(geometry.volume_bytes() + own_bytes(&geometry))
}

impl Volume {
    /// Writes no longer behind the end that a limit of `bytes` bytes gives. Returns the first
    /// stripe there.
    pub(super) fn confine(&self, bytes: u64) -> Result<Option<u64>, Error> {
        let Some(stripes) = stripes_within(&self.geometry, bytes, 0).filter(|to| *to < self.geometry.stripes)
        else {
            return Ok(None);
        };
        if u64::from(stripes) < STRIPES_LEAST {
            return Err(Error::Unusable(format!("{bytes} bytes are too few for the volume's index and log")));
        }
        // The writer does not move meanwhile.
        let mut writer = self.writer.lock();
        assert!(stripes < self.geometry.stripes, "a tail that is none");
        self.ring_end.store(stripes, std::sync::atomic::Ordering::Relaxed);
        if writer.stripe >= stripes {
            writer.offset = self.geometry.stripe_bytes;
        }
        Ok(Some(u64::from(stripes)))
    }

    /// Cuts off the file behind the volume's end.
    pub(super) fn trim(&self) -> Result<(), Error> {
        let bytes = self.geometry.volume_bytes();
        assert!(bytes > DATA_AT, "a volume without stripes");
        self.file.data.set_length(bytes).map_err(|source| self.file.failed("cut off the volume", source))
    }
}

/// Name of an index that waits for the superblock of its size.
pub(super) const NEXT: &str = "volume.index.next";
/// The same on a block device: it lies at the device's end.
const NEXT_EXTENT: &str = "volume.next";
/// Objects that tell enough about their mean size.
const OBJECTS_KNOWN: u64 = 1000;
/// Bytes of the index copied at once.
const COPIED_AT_ONCE: u64 = 1 << 20;

const _: () = assert!(COPIED_AT_ONCE.is_multiple_of(8));
