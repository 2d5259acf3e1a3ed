//! Inspection of a volume: opens it as after a kill, through a file system that changes nothing on
//! disk.
//!
//! A listing goes through the entries of the index in log order and reads each stripe once. A check
//! reads every written stripe: its chunks with their contents, the record of every entry, and the
//! pieces of large objects. An entry without its record is damage if the stripe's own contents list
//! the record. Otherwise the place was overwritten since. The index may not know this after a
//! crash, or while a process is writing.

use super::Volume;
use super::checkpoint::CheckpointHeader;
use super::format::{
    Chunk, ChunkEnd, ContentsItem, END_BYTES, PIECE_BYTES, PieceLocation, RecordHead, RecordKind, UNIT_BYTES,
    decode_table,
};
use super::index::{VolumeEntry, VolumeIndex};
use super::opening::{index_header, read_geometry};
use super::pages::AlignedPages;
use super::recovery::{StripeScan, whole_chunk};
use crate::architectures::{ArchitectureOptions, StoreEnv, VolumeSettings};
use crate::fs::FileSystem;
use crate::index::MemoryHome;
use crate::inspect::{Inspect, ListedObject, StoreInfo, VerifyReport};
use crate::{Error, OpenObject};
use shoal_core::{KeySecret, ObjectKey};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Inspects the volume in `files`, if there is one, with keys hashed under `secret`.
pub(in crate::architectures) fn inspect_volume(
    files: Arc<dyn FileSystem>,
    is_live: bool,
    secret: Option<KeySecret>,
) -> Result<Box<dyn Inspect>, Error> {
    let mut settings = ArchitectureOptions {
        disk_bytes: u64::MAX >> 1,
        object_max_bytes: u64::MAX,
        volume: VolumeSettings { window_bytes: 0, ..VolumeSettings::default() },
        ..ArchitectureOptions::default()
    };
    let Some((geometry, state)) = read_geometry(&*files, &settings)? else {
        return Err(Error::Unusable("the volume has never been finished".into()));
    };
    let index_bytes = VolumeIndex::file_bytes(geometry.buckets, geometry.stripes);
    let header = index_header(&*files, &geometry, state, index_bytes)?;
    settings.disk_bytes = geometry.volume_bytes() + super::opening::own_bytes(&geometry);
    let index = Box::new(MemoryHome::default());
    let parts = StoreEnv { files, index, boot: 0, lock: None, transient: None, background: false };
    let volume = Volume::open_unrecovered(super::NAME, &settings, parts)?;
    volume.recover();
    Ok(Box::new(VolumeInspector { volume: Arc::new(volume), header, is_live, secret }))
}

/// Read-only view of a volume.
struct VolumeInspector {
    volume: Arc<Volume>,
    /// Header of the index, if there is one.
    header: Option<CheckpointHeader>,
    is_live: bool,
    /// `None` in a volume of an earlier version.
    secret: Option<KeySecret>,
}

impl Inspect for VolumeInspector {
    fn facts(&self) -> StoreInfo {
        let volume = &self.volume;
        let usage = volume.usage();
        let (cursor, cursor_bytes, sequence) = {
            let writer = volume.writer.lock();
            (writer.stripe, writer.offset, writer.sequence)
        };
        StoreInfo {
            architecture: volume.name,
            is_live: self.is_live,
            is_clean: self.header.is_some_and(|header| header.is_clean),
            objects: usage.objects,
            objects_max: usage.objects_max,
            bytes: usage.bytes,
            bytes_max: usage.bytes_max,
            stripe_bytes: volume.geometry.stripe_bytes,
            stripes: volume.geometry.stripes,
            written_stripes: volume.directory.written_stripes.load(Relaxed),
            cursor,
            cursor_bytes,
            index_bytes: VolumeIndex::file_bytes(volume.geometry.buckets, volume.geometry.stripes),
            sequence,
        }
    }

    fn list(
        &self,
        newest_first: bool,
        visit: &mut dyn FnMut(&ListedObject<'_>) -> bool,
    ) -> Result<(), Error> {
        let mut entries = self.entries();
        if newest_first {
            entries.reverse();
        }
        let stripe_of = |entry: &VolumeEntry| self.volume.geometry.stripe_of(entry.position());
        for group in entries.chunk_by(|one, other| stripe_of(one) == stripe_of(other)) {
            let Some(stripe) = stripe_of(&group[0]) else { continue };
            let pages = self.read_stripe(stripe)?;
            for entry in group {
                let Some(record) = self.record(pages.as_ref(), stripe, *entry) else { continue };
                let Ok(head) = self.volume.reader.decode_head(record, entry.position()) else { continue };
                let Some((key, metadata)) =
                    head.key_and_metadata(record).filter(|_| is_object(&head, *entry))
                else {
                    continue;
                };
                let (body_bytes, position) = (head.body_bytes, entry.position());
                if !visit(&ListedObject { key, metadata, body_bytes, position }) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> VerifyReport {
        let mut verified = VerifyReport::default();
        let mut entries = self.entries();
        entries.sort_unstable_by_key(|entry| entry.position());
        let written = self.volume.directory.written_stripes.load(Relaxed);
        let mut from = 0;
        for stripe in 0..written {
            progress(u64::from(stripe), u64::from(written));
            let end = self.volume.geometry.stripe_at(stripe + 1);
            let count = entries[from..].partition_point(|entry| entry.position() < end);
            self.verify_stripe(stripe, &entries[from..from + count], &mut verified);
            from += count;
        }
        verified.stale_entries += (entries.len() - from) as u64;
        progress(u64::from(written), u64::from(written));
        verified
    }

    fn find(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        let own = match self.secret {
            Some(secret) => self.volume.open(&key.under(secret))?,
            None => None,
        };
        own.map_or_else(|| self.volume.open(&key.earlier()), |stored| Ok(Some(stored)))
    }
}

impl VolumeInspector {
    /// Returns all entries in the order in which their stripes were written: the cursor reclaims
    /// the first stripe next.
    fn entries(&self) -> Vec<VolumeEntry> {
        let (geometry, cursor) = (&self.volume.geometry, self.volume.writer.lock().stripe);
        let age = |entry: &VolumeEntry| {
            let stripe = geometry.stripe_of(entry.position())?;
            Some((
                (u64::from(stripe) + u64::from(geometry.stripes - cursor) - 1) % u64::from(geometry.stripes),
                *entry,
            ))
        };
        let mut entries: Vec<_> =
            self.volume.directory.table.entries().filter_map(|entry| age(&entry)).collect();
        entries.sort_unstable_by_key(|(age, entry)| (*age, entry.position()));
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    fn read_stripe(&self, stripe: u32) -> Result<AlignedPages, Error> {
        let mut pages = AlignedPages::zeroed(self.volume.geometry.stripe_bytes as usize);
        let read = self.volume.file.read_pages(&mut pages, self.volume.geometry.stripe_at(stripe));
        read.map_err(|source| Error::Disk { action: "read from the volume", source })?;
        Ok(pages)
    }

    /// Returns the bytes of an entry's record, from the bytes of its stripe.
    fn record<'a>(&self, stripe_bytes: &'a [u8], stripe: u32, entry: VolumeEntry) -> Option<&'a [u8]> {
        let from = (entry.position() - self.volume.geometry.stripe_at(stripe)) as usize;
        let to = (from + entry.bytes() as usize).min(stripe_bytes.len());
        stripe_bytes.get(from..to)
    }

    /// Checks a stripe and the index's entries in it. While a process writes, a failed stripe is
    /// checked twice: it may have been half written.
    fn verify_stripe(&self, stripe: u32, entries: &[VolumeEntry], verified: &mut VerifyReport) {
        let mut found = self.check_stripe(stripe, entries);
        if self.is_live && found.damaged > 0 {
            found = self.check_stripe(stripe, entries);
        }
        verified.objects += found.objects;
        verified.body_bytes += found.body_bytes;
        verified.stripes += found.stripes;
        verified.stale_entries += found.stale_entries;
        let told = found.damage.len() as u64;
        found.damage.iter().for_each(|damage| verified.note(damage.position, damage.part));
        verified.damaged += found.damaged - told;
    }

    fn check_stripe(&self, stripe: u32, entries: &[VolumeEntry]) -> VerifyReport {
        let mut found = VerifyReport::default();
        let stripe_at = self.volume.geometry.stripe_at(stripe);
        let Ok(pages) = self.read_stripe(stripe) else {
            found.note(stripe_at, "stripe that cannot be read");
            found.damaged += entries.len() as u64;
            return found;
        };
        let bytes = pages.as_ref();
        let contents = self.verify_chunks(bytes, stripe, &mut found);
        for entry in entries {
            match self.verify_entry(bytes, stripe, *entry) {
                Ok(Some(body_bytes)) => {
                    found.objects += 1;
                    found.body_bytes += body_bytes;
                }
                Err(part) if is_listed(&contents, stripe_at, *entry) => found.note(entry.position(), part),
                Ok(None) | Err(_) => found.stale_entries += 1,
            }
        }
        found
    }

    /// Checks the chunks of a stripe, and returns the items that the last sound chunks list.
    fn verify_chunks(&self, bytes: &[u8], stripe: u32, found: &mut VerifyReport) -> Vec<ContentsItem> {
        let (id, stripe_at) = (self.volume.geometry.id, self.volume.geometry.stripe_at(stripe));
        let walked = self.volume.reader.walk_through(bytes, stripe);
        let (at, last) = walked.as_ref().map_or((0, 0), |walked| (walked.offset as usize, walked.last));
        let full =
            full_stripe(bytes, stripe_at, id).filter(|(chunk, _)| chunk.sequence > last || walked.is_none());
        let torn = bytes.get(at..).and_then(|rest| Chunk::decode(ChunkEnd::Head, rest, id));
        // A chunk newer than the log's end is being written, or its process was killed; an older
        // one remains from the previous lap.
        let log_end = self.volume.writer.lock().sequence;
        let is_torn = |chunk: &Chunk| {
            chunk.position == stripe_at + at as u64 && chunk.sequence > last && chunk.sequence <= log_end
        };
        let is_broken = full.as_ref().is_some_and(|(chunk, _)| chunk.sequence <= log_end && at < bytes.len());
        let log_ends_at = self.header.filter(|header| header.is_clean && header.stripe == u64::from(stripe));
        let is_short = log_ends_at.is_some_and(|header| (at as u64) < header.offset);
        match torn.filter(is_torn) {
            Some(_) => found.note(stripe_at + at as u64, "chunk"),
            None if is_broken || is_short => found.note(stripe_at + at as u64, "chunk's head"),
            None => found.stripes += 1,
        }
        match (full, walked) {
            (Some((_, items)), _) => items,
            (None, Some(StripeScan { items, .. })) => items,
            (None, None) => Vec::new(),
        }
    }

    /// Checks the object that an entry leads to. Returns the bytes of its body, or `None` when the
    /// object was evicted. The error names the damaged part.
    fn verify_entry(
        &self,
        bytes: &[u8],
        stripe: u32,
        entry: VolumeEntry,
    ) -> Result<Option<u64>, &'static str> {
        let record = self.record(bytes, stripe, entry).ok_or("record that is cut off")?;
        let head = self.volume.reader.decode_head(record, entry.position())?;
        if !is_object(&head, entry) {
            return Ok(None);
        }
        let payload = head.payload(record).ok_or("body")?;
        if head.kind == RecordKind::Whole {
            return Ok(Some(head.body_bytes));
        }
        let Some(pin) = self.volume.reader.stripes.pin([stripe]) else { return Ok(None) };
        let (places, _pin) = match self.volume.reader.pieces_of(&head, payload, pin) {
            Ok(Some(pieces)) => pieces,
            Ok(None) => return Ok(None),
            Err(_) if decode_table(payload).iter().any(|place| self.is_gone(place, &head)) => {
                return Ok(None);
            }
            Err(_) => return Err("table of pieces"),
        };
        for (index, place) in places.iter().enumerate() {
            let left = head.body_bytes - (index * PIECE_BYTES) as u64;
            let length = left.min(PIECE_BYTES as u64) as usize;
            if self.volume.reader.read_piece(*place, index as u32, length, head.id).is_err() {
                return if self.is_gone(place, &head) { Ok(None) } else { Err("piece of a body") };
            }
        }
        Ok(Some(head.body_bytes))
    }

    /// Returns `true` if a piece of the object has been overwritten since the index was written.
    fn is_gone(&self, place: &PieceLocation, head: &RecordHead) -> bool {
        let stripe = self.volume.geometry.stripe_of(place.position);
        let first = stripe.and_then(|stripe| self.volume.reader.first_chunk(stripe));
        first.is_some_and(|chunk| chunk.sequence > head.sequence)
    }
}

/// Returns `true` if the record is the object that the entry names.
fn is_object(head: &RecordHead, entry: VolumeEntry) -> bool {
    matches!(head.kind, RecordKind::Whole | RecordKind::Large) && entry.is_of(head.key)
}

/// Returns `true` if a stripe's contents list this entry's object.
fn is_listed(contents: &[ContentsItem], stripe_at: u64, entry: VolumeEntry) -> bool {
    contents.iter().any(|item| {
        matches!(item.kind, RecordKind::Whole | RecordKind::Large)
            && stripe_at + u64::from(item.at) * UNIT_BYTES == entry.position()
            && entry.is_of(item.key)
    })
}

/// Returns the chunk that ends a full stripe, with contents that list all of the stripe.
fn full_stripe(bytes: &[u8], stripe_at: u64, id: u64) -> Option<(Chunk, Vec<ContentsItem>)> {
    let tail = Chunk::decode(ChunkEnd::Tail, &bytes[bytes.len().checked_sub(END_BYTES)?..], id)?;
    let at = usize::try_from(tail.position.checked_sub(stripe_at)?).ok()?;
    whole_chunk(bytes, at, stripe_at, id).filter(|(chunk, _)| at + chunk.bytes as usize == bytes.len())
}
