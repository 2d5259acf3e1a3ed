//! Disks that come, go and change their size while the store serves.
//!
//! ```text
//! add:      opened ─► takes its share of the keys; objects stay where they lie
//! remove:   takes no keys ─► its objects are copied to the others ─► closed, emptied
//! larger:   released ─► opened with more stripes
//! smaller:  writes before the new end only ─► objects behind it are copied ─► released ─► opened
//! ```
//!
//! A move is a removal and an addition at once. A caller drives the copies step by step
//! ([`Disks::drain_step`]), at its own pace. Each copy is made beside its original, which stays
//! readable: a crash loses none, and the walk begins again.
//!
//! A copy goes to the disk that has its key, or to another one with room; lookups find it on each.
//! Where no disk has room, only objects with hits since they were written are copied.

use super::disk::{ChangeKind, Disk};
use super::serving::OpenStore;
use super::{DiskOpener, DiskSpec, Disks, DisksState, Ready, ServiceState, close_in_background, may_come};
use crate::{Error, InsertRefusal, OpenObject, WalkedObject};
use bytes::Bytes;
use shoal_core::ObjectKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tracing::{debug, info};

/// Progress of a disk that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskChange {
    /// Nature of the change.
    pub kind: ChangeKind,
    /// Share of the disk that has been walked, in percent.
    pub percent: u64,
    /// Objects copied.
    pub copied: u64,
    /// Bytes of these objects.
    pub copied_bytes: u64,
    /// Objects that found no room, or could not be copied.
    pub dropped: u64,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainStep {
    /// Place of the next step; `None` when all objects have been walked.
    pub next: Option<u64>,
    /// Bytes read and written.
    pub bytes: u64,
}

/// Counts of a walk.
#[derive(Default)]
pub(super) struct ChangeCounts {
    percent: AtomicU64,
    copied: AtomicU64,
    copied_bytes: AtomicU64,
    dropped: AtomicU64,
}

impl ChangeCounts {
    pub(super) fn view(&self, kind: ChangeKind) -> DiskChange {
        let [percent, copied, copied_bytes, dropped] =
            [&self.percent, &self.copied, &self.copied_bytes, &self.dropped].map(|count| count.load(Relaxed));
        DiskChange { kind, percent, copied, copied_bytes, dropped }
    }

    pub(super) fn clear(&self) {
        [&self.percent, &self.copied, &self.copied_bytes, &self.dropped]
            .into_iter()
            .for_each(|count| count.store(0, Relaxed));
    }
}

impl Disks {
    /// Adds a disk, and brings it into service. A disk that was on its way out stays. A disk that
    /// cannot be opened takes no keys until it can: see [`open_again`](Self::open_again). `prepare`
    /// gets the number of a new disk before it serves.
    ///
    /// # Errors
    /// [`Error::Unusable`] if too many disks have come since the start, and the failure to open the
    /// disk.
    pub fn add(
        &self,
        spec: DiskSpec,
        opener: DiskOpener,
        ready: &Ready,
        prepare: &dyn Fn(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let path = spec.path.clone();
        if let Ok(disk) = self.shared.named(&path) {
            disk.set_share(spec.bytes, opener);
            disk.set_change(None);
            return self.bring_online_after(&path, ready).map(drop);
        }
        prepare(self.shared.disks.add(Disk::new(spec, opener))?)?;
        self.bring_online_after(&path, ready).map(drop)
    }

    /// Lets a disk take no further keys. Its objects stay readable, until
    /// [`end_leaving`](Self::end_leaving).
    ///
    /// # Errors
    /// [`Error::Unusable`] if no disk has this path.
    pub fn begin_leaving(&self, path: &str) -> Result<(), Error> {
        let disk = self.shared.named(path)?;
        disk.set_change(Some(ChangeKind::Leaving));
        info!(disk = path, "the disk takes no more objects; those that it holds are copied to the others");
        Ok(())
    }

    /// Lets a disk write only within `bytes` bytes, which are fewer than it has. Returns the first
    /// place to walk from, or `None` if no object stands in the way.
    ///
    /// # Errors
    /// [`Error::Unusable`] if no disk has this path, or its store cannot become as small.
    pub fn begin_shrinking(&self, path: &str, bytes: u64) -> Result<Option<u64>, Error> {
        let disk = self.shared.named(path)?;
        let Some(store) = disk.store().filter(|_| !disk.is_released()) else { return Ok(None) };
        let first = match store.confine(bytes) {
            // Other architectures give up objects that do not fit when they are opened.
            Err(Error::Unusable(why)) if store.walk(0).is_err() => {
                debug!(disk = path, why, "the store is made smaller as it is");
                return Ok(None);
            }
            first => first?,
        };
        if first.is_some() {
            disk.set_change(Some(ChangeKind::Shrinking));
        }
        Ok(first)
    }

    /// Copies the objects of a part of a disk. Blocks on the disks.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the disk is not in service, or its store cannot be walked, and errors
    /// of the disk itself.
    pub fn drain_step(&self, path: &str, place: u64) -> Result<DrainStep, Error> {
        let disk = self.shared.named(path)?;
        let away = || Error::Unusable(format!("{path} is out of service, and its objects cannot be copied"));
        let at = self.shared.disks.iter().position(|other| std::ptr::eq(other, disk)).ok_or_else(away)?;
        let store = disk.store().filter(|_| !disk.is_released()).ok_or_else(away)?;
        let part = match store.walk(place) {
            // Objects that cannot be read there are lost to clients too.
            Err(Error::Disk { action, source }) => {
                debug!(disk = path, action, error = %source, "a part of the disk is not copied");
                disk.counts().dropped.fetch_add(1, Relaxed);
                return Ok(DrainStep { next: Some(place + 1), bytes: 0 });
            }
            part => part?,
        };
        let Some(part) = part else {
            disk.counts().percent.store(100, Relaxed);
            return Ok(DrainStep { next: None, bytes: 0 });
        };
        let (mut bytes, is_shrinking) = (part.bytes_read, !disk.is_leaving());
        for object in part.objects {
            let object =
                WalkedObject { is_wanted: object.is_wanted || (is_shrinking && part.is_young), ..object };
            match self.shared.carry(at, &store, &object) {
                Ok(Some(0)) => {}
                Ok(Some(copied)) => {
                    bytes += 2 * copied;
                    disk.counts().copied.fetch_add(1, Relaxed);
                    disk.counts().copied_bytes.fetch_add(copied, Relaxed);
                }
                Ok(None) => drop(disk.counts().dropped.fetch_add(1, Relaxed)),
                Err(error) => {
                    debug!(disk = path, %error, "an object is not copied");
                    disk.counts().dropped.fetch_add(1, Relaxed);
                }
            }
        }
        assert!(part.next > place, "a walk that stands still");
        disk.counts().percent.store(part.next * 100 / part.end.max(1), Relaxed);
        Ok(DrainStep { next: (part.next < part.end).then_some(part.next), bytes })
    }

    /// Returns the objects that no disk has written yet.
    pub fn unwritten(&self) -> u64 {
        let stores = self.shared.disks.iter().filter(|disk| !disk.is_released()).filter_map(Disk::store);
        stores.map(|store| store.usage().unwritten).sum()
    }

    /// Gives the space back that stores had before they were made smaller at their opening.
    pub fn trim(&self) {
        let stores = self.shared.disks.iter().filter(|disk| !disk.is_released()).filter_map(Disk::store);
        stores.for_each(|store| {
            if let Err(error) = store.trim() {
                debug!(%error, "a store's space is given back at its next opening");
            }
        });
    }

    /// Takes a disk out for good. Requests that read from it go on; returns an error while there
    /// are any.
    ///
    /// # Errors
    /// [`Error::Unusable`] if no disk has this path, or requests still read from it.
    pub fn end_leaving(&self, path: &str) -> Result<(), Error> {
        let disk = self.shared.named(path)?;
        if disk.takes_keys() {
            return Err(Error::Unusable(format!("{path} takes objects again and stays")));
        }
        if let Some(store) = disk.take_offline(ServiceState::Removed, "it has been removed") {
            close_in_background(store);
        }
        disk.end_as_removed();
        disk.wait_until_it_is_free()?;
        info!(disk = path, "the disk has been removed from the store");
        Ok(())
    }

    /// Opens a disk again with another size. Requests that read from it go on, and none fails:
    /// while it is opened, objects are found and none is stored.
    ///
    /// # Errors
    /// As of [`release`](Self::release) and [`bring_online_after`](Self::bring_online_after). The
    /// disk then keeps its size, or is out of service until it is [opened
    /// again](Self::open_again).
    pub fn resize(&self, spec: &DiskSpec, opener: DiskOpener, ready: &Ready) -> Result<(), Error> {
        let disk = self.shared.named(&spec.path)?;
        assert_eq!(disk.path(), spec.path, "another disk");
        let before = disk.set_share(spec.bytes, opener);
        disk.set_change(None);
        let Some(store) = disk.store() else { return Ok(()) };
        let (closing, weak) = (store.left(), Arc::downgrade(&store));
        drop(store);
        if let Err(error) = disk.release() {
            disk.set_share(before.0, before.1);
            return Err(error);
        }
        // A disk is out meanwhile if two processes cannot read its store at once.
        let gave_up = self.shared.gave_up.get();
        let replaced = if disk.is_released() { disk.replace_released(gave_up, &**ready) } else { Ok(()) };
        if replaced.is_err() || !disk.is_in_service() {
            disk.take_back(gave_up, &**ready)?;
        }
        debug_assert!(disk.is_in_service());
        info!(disk = spec.path, bytes = spec.bytes, "the disk has its new size");
        let (shared, path) = (Arc::clone(&self.shared), spec.path.clone());
        let trim = move || {
            // Requests may still read behind the new end.
            let is_free = weak.strong_count() == 0 || closing.wait(READERS_WAIT_MAX).is_ok();
            if let Some(store) = shared.named(&path).ok().and_then(Disk::store).filter(|_| is_free) {
                let _ = store.trim();
            }
        };
        // Without a thread the next opening gives the space back.
        let _ = std::thread::Builder::new().name("shoal-trim".into()).spawn(trim);
        Ok(())
    }
}

impl DisksState {
    /// Copies an object of the disk `from` to another disk, or to another place of the same disk.
    /// Returns the bytes of its body and metadata; 0 if the object need not be copied, or `None` if
    /// it finds no room.
    fn carry(
        &self,
        from: usize,
        store: &Arc<OpenStore>,
        object: &WalkedObject,
    ) -> Result<Option<u64>, Error> {
        let is_leaving = self.disks[from].is_leaving();
        if is_leaving && self.is_elsewhere(&object.key, from) && self.is_on_others(&object.key, from)? {
            return Ok(Some(0));
        }
        let Some((to, target)) = self.target(from, is_leaving, object) else { return Ok(None) };
        let copy = self.carrying.announce(object.key.hash());
        let Some(OpenObject { metadata, body }) = store.open(&object.key)? else { return Ok(Some(0)) };
        let length = body.length();
        let mut insert = begin_insert(&target, &object.key, &metadata, length)?;
        let mut done = 0;
        while done < length {
            let bytes = body.read(done, COPIED_AT_ONCE)?;
            if bytes.is_empty() {
                return Err(Error::Corrupt { part: "body that is cut off" });
            }
            insert.append(&bytes)?;
            done += bytes.len() as u64;
        }
        assert!(to < self.disks.len() && from < self.disks.len());
        assert_eq!(done, length, "a body that is longer than it says");
        let made = copy.take(|| {
            let is_same = self.is_unchanged((from, store), to, &object.key, (&metadata, length))?;
            if is_same && self.disks[to].has(&target) && !self.disks[to].is_released() {
                insert.commit(None).map(|()| true)
            } else {
                Ok(false)
            }
        });
        let is_made = made.transpose()?.unwrap_or(false);
        Ok(Some(if is_made { length + metadata.len() as u64 } else { 0 }))
    }

    /// Returns `true` if the object is still the disk's, and no other disk has got a newer one. A
    /// disk that was released or opened anew may have had changes that this store has not seen.
    fn is_unchanged(
        &self,
        (from, store): (usize, &Arc<OpenStore>),
        to: usize,
        key: &ObjectKey,
        (metadata, length): (&Bytes, u64),
    ) -> Result<bool, Error> {
        if !self.disks[from].has(store) || self.disks[from].is_released() {
            return Ok(false);
        }
        // Even if the disk stays after all meanwhile.
        if from != to && self.is_elsewhere(key, from) && self.is_on_others(key, from)? {
            return Ok(false);
        }
        let found = store.peek(key)?;
        Ok(found.is_some_and(|found| found.metadata == *metadata && found.body_bytes == length))
    }

    /// Returns `true` if a disk other than `but` has an object of the key.
    fn is_on_others(&self, key: &ObjectKey, but: usize) -> Result<bool, Error> {
        for (_, disk) in self.disks.iter().enumerate().filter(|(at, _)| *at != but) {
            if let Some(store) = disk.store().filter(|store| may_come(&***store, key))
                && store.peek(key)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the disk for a copy, if one has room or the object is worth another's place.
    fn target(
        &self,
        from: usize,
        is_leaving: bool,
        object: &WalkedObject,
    ) -> Option<(usize, Arc<OpenStore>)> {
        if !is_leaving {
            let own = self.disks[from].store()?;
            return (object.is_wanted || has_room(&own, object.bytes)).then_some((from, own));
        }
        let home = self.disk_for(object.key.hash()).filter(|(at, _)| !self.disks[*at].is_released());
        if let Some((_, store)) = &home
            && has_room(store, object.bytes)
        {
            return home;
        }
        let others =
            self.disks.iter().enumerate().filter(|(_, disk)| disk.takes_keys() && !disk.is_released());
        let others = others.filter_map(|(at, disk)| Some((at, disk.store()?)));
        let roomy = others.filter(|(_, store)| has_room(store, object.bytes));
        let roomiest = roomy.max_by_key(|(_, store)| free_bytes(store));
        roomiest.or_else(|| home.filter(|_| object.is_wanted))
    }
}

/// Begins an insert. A full volume takes an object at its second request.
fn begin_insert(
    target: &OpenStore,
    key: &ObjectKey,
    metadata: &[u8],
    length: u64,
) -> Result<Box<dyn crate::Insert>, Error> {
    match target.insert(key, metadata, Some(length)) {
        Err(Error::Declined(InsertRefusal::OnProbation)) => target.insert(key, metadata, Some(length)),
        begun => begun,
    }
}

fn free_bytes(store: &OpenStore) -> u64 {
    let usage = store.usage();
    debug_assert!(usage.bytes_max > 0, "a store without a limit");
    usage.bytes_max.saturating_sub(usage.bytes)
}

/// Returns `true` if the object displaces no other. Some room is left for objects that clients
/// bring.
fn has_room(store: &OpenStore, bytes: u64) -> bool {
    free_bytes(store) > 2 * bytes + store.usage().bytes_max / 64
}

/// Bytes of a body copied at once.
const COPIED_AT_ONCE: usize = 256 << 10;
/// Longest wait for requests that read from a disk with its earlier size.
const READERS_WAIT_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
