//! Stores a body while it arrives: it goes to its readers at once, and to the store in few, large
//! writes.
//!
//! A small body is gathered in RAM and written in one job when complete. A body that outgrows its
//! share of RAM is written in batches; its readers then read older bytes back from disk. If the
//! disk declines, the body is only passed on, at the pace of its slowest reader.
//!
//! A client that has seen the end of a body finds it stored on its next request. The last piece of
//! a known length, and the end itself, are therefore held back until the body is stored.

use super::hybrid_cache::{CachedBody, HybridCache, commit_valid};
use super::invalidations::ValiditySnapshot;
use super::metadata::ObjectMetadata;
use super::shared_body::{BodyEnd, SharedBody};
use crate::holds::Hold;
use crate::io_pool::JobKind;
use bytes::Bytes;
use http::HeaderMap;
use shoal_core::ObjectKey;
use shoal_memory::{IncomingBody, LENT_MIN, MemoryBody, PieceMemory, Reservation, room_bytes};
use shoal_store::{Insert, StoredBody};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A body on its way to readers and store.
pub struct BodyWriter {
    objects: Arc<HybridCache>,
    growing: Arc<SharedBody>,
    key: ObjectKey,
    record: ObjectMetadata,
    length: Option<u64>,
    validity: ValiditySnapshot,
    place: WriteState,
    /// The piece that reaches the known length.
    last: Option<Bytes>,
    keeping: BodyStorage,
    /// Bytes that passed pieces keep in RAM beyond their own: each keeps a read buffer.
    pinned: u64,
}

/// Places in which a body is kept after its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyStorage {
    /// In RAM and on disk.
    Stored,
    /// In RAM alone: a copy of an object that has its home elsewhere.
    Copied,
    /// Nowhere: the body only goes to its readers.
    Relayed,
}

enum WriteState {
    /// Gathered in RAM, covered by the reservation. If there is a room, the bytes stand in it.
    Gathering { charge: Charge, room: Option<Room> },
    /// Being written; `written` bytes are in the store. The reservation covers the window.
    Writing { insert: Box<dyn Insert>, written: u64, reservation: Reservation },
    /// Only passed on to readers.
    Passing,
}

/// Charge for a gathered body.
struct Charge {
    reservation: Reservation,
    /// Part of the RAM share for gathered bodies.
    hold: Hold,
}

impl Charge {
    /// Extends the charge to `bytes`. Returns `false` if there is no room.
    fn grow_to(&mut self, bytes: u64) -> bool {
        self.hold.grow_to(bytes) && self.reservation.grow(bytes.saturating_sub(self.reservation.bytes()))
    }
}

/// Memory reserved for a whole body.
struct Room {
    arriving: IncomingBody,
    /// Charge to replies that have a piece of the body, since a piece keeps the whole room.
    hold: Option<Arc<Hold>>,
}

/// A piece of a body in a charged room.
struct HeldPiece {
    bytes: Bytes,
    _hold: Arc<Hold>,
}

impl AsRef<[u8]> for HeldPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Room {
    fn push(&mut self, piece: &[u8]) -> Bytes {
        let bytes = self.arriving.push(piece);
        match &self.hold {
            Some(hold) => Bytes::from_owner(HeldPiece { bytes, _hold: Arc::clone(hold) }),
            None => bytes,
        }
    }
}

/// Work that remains for a complete body.
#[derive(Default)]
struct CompletedBody {
    /// The whole body, in one piece.
    gathered: Option<Bytes>,
    /// Charge until release, if replies may hold the body only briefly.
    is_brief: Option<Hold>,
    /// Body still to be written.
    for_disk: Option<Bytes>,
    /// Stored body from which all bytes can be read.
    spill: Option<Arc<dyn StoredBody>>,
    /// Charge for the bytes in RAM, unless the RAM tier charges them.
    reservation: Option<Reservation>,
}

impl BodyWriter {
    /// Begins to store a body under `key`. `length` is its length if known beforehand. The body is
    /// kept only while it is valid.
    pub fn new(
        objects: &Arc<HybridCache>,
        growing: &Arc<SharedBody>,
        key: ObjectKey,
        record: ObjectMetadata,
        (length, validity): (Option<u64>, ValiditySnapshot),
    ) -> Self {
        let place = match (objects.ledger().try_reserve(0), objects.gathered().hold(0)) {
            (Some(reservation), Some(hold)) => {
                WriteState::Gathering { charge: Charge { reservation, hold }, room: None }
            }
            _ => WriteState::Passing,
        };
        Self {
            objects: Arc::clone(objects),
            growing: Arc::clone(growing),
            key,
            record,
            length,
            validity,
            place,
            last: None,
            keeping: BodyStorage::Stored,
            pinned: 0,
        }
    }

    /// Keeps the body in these places only.
    pub fn keeping(self, keeping: BodyStorage) -> Self {
        Self { keeping, ..self }
    }

    /// Returns `true` if `bytes` more bytes are within the length. A part's length is the one in
    /// its Content-Range; the framing may exceed it.
    pub fn has_room(&self, bytes: usize) -> bool {
        let arrived = self.arrived() + bytes as u64;
        self.length.is_none_or(|length| arrived <= length)
    }

    /// Returns the number of bytes that have arrived, the last piece included.
    fn arrived(&self) -> u64 {
        self.growing.appended() + self.last.as_ref().map_or(0, |last| last.len() as u64)
    }

    /// Takes a piece of the body. Waits for the disk or for readers if they must keep up.
    pub async fn append(&mut self, bytes: Bytes) {
        debug_assert!(self.last.is_none(), "bytes behind the last");
        let total = self.growing.appended() + bytes.len() as u64;
        if self.passes(&bytes) {
            self.pinned += (READ_BUFFER_BYTES as u64).saturating_sub(bytes.len() as u64);
        }
        let pinned = self.pinned;
        let fits = match &mut self.place {
            WriteState::Gathering { charge, .. } => {
                total <= self.objects.limits().memory_object_max && charge.grow_to(total + pinned)
            }
            _ => true,
        };
        let bytes = self.own(bytes);
        if self.length == Some(total) {
            self.last = Some(bytes);
        } else {
            self.growing.append(bytes);
        }
        if !fits {
            self.spill_to_disk().await;
        }
        self.wait_for_readers().await;
    }

    /// Returns `true` if the piece goes to its readers as it came: the body is kept nowhere, and
    /// the piece is a good part of the read buffer that it keeps.
    fn passes(&self, piece: &Bytes) -> bool {
        self.keeping == BodyStorage::Relayed
            && piece.len() >= PASSED_MIN
            && matches!(self.place, WriteState::Gathering { .. })
    }

    /// Copies the bytes into their final memory if they are kept. A slice of the connection's
    /// buffer would keep the whole buffer in RAM. The slice is dropped before a wait for the disk
    /// or readers.
    fn own(&mut self, bytes: Bytes) -> Bytes {
        let is_first = self.arrived() == 0 && self.keeping != BodyStorage::Relayed;
        if self.passes(&bytes) {
            return bytes;
        }
        match &mut self.place {
            WriteState::Passing => bytes,
            WriteState::Gathering { charge, room } => {
                let length = self.length.filter(|_| is_first);
                let wanted = length.filter(|length| *length <= self.objects.limits().memory_object_max);
                if let Some(length) = wanted {
                    *room = room_for(&self.objects, &self.key, length, charge);
                }
                match room.as_mut().filter(|room| bytes.len() <= room.arriving.missing()) {
                    Some(room) => room.push(&bytes),
                    None => Bytes::copy_from_slice(&bytes),
                }
            }
            WriteState::Writing { .. } => PieceMemory::copy(&bytes),
        }
    }

    /// Returns `true` if the rest still has a use: for a reader, or for a store that has most of
    /// the body.
    pub fn wanted(&self) -> bool {
        if self.growing.readers() > 0 {
            return true;
        }
        let rest = self.length.map_or(0, |length| length.saturating_sub(self.growing.appended()));
        !matches!(self.place, WriteState::Passing)
            && rest <= FINISH_ALONE
            && self.growing.appended() <= FINISH_ALONE
    }

    /// Ends a complete body and keeps it while it is valid. Calls `kept` when lookups find the
    /// body, just before its readers see the end. A body in RAM goes to the disk after that.
    pub async fn complete(mut self, trailers: Option<HeaderMap>, kept: impl FnOnce()) {
        let arrived = self.arrived();
        if self.length.is_some_and(|length| length != arrived) {
            kept();
            return self.cut("fewer bytes than announced".into());
        }
        debug_assert!(self.length.is_none_or(|length| length == arrived));
        let mut last = self.last.take();
        let is_valid = self.validity.is_unchanged() && self.keeping != BodyStorage::Relayed;
        let mut ending = CompletedBody::default();
        match std::mem::replace(&mut self.place, WriteState::Passing) {
            WriteState::Gathering { charge, room } if is_valid => {
                let body = self.gathered(room, last.take());
                ending = self.keep_gathered(body, charge).await;
            }
            WriteState::Writing { insert, written, reservation } if is_valid => {
                ending.reservation = Some(reservation);
                let body = insert.body();
                if self.commit(insert, written, last.clone()).await {
                    ending.spill = Some(body);
                }
            }
            WriteState::Gathering { charge: Charge { reservation, .. }, .. }
            | WriteState::Writing { reservation, .. } => {
                ending.reservation = Some(reservation);
            }
            // the response is newer than the stored one, but cannot be kept
            WriteState::Passing if is_valid => drop(self.objects.remove(&self.key).await),
            WriteState::Passing => {}
        }
        if ending.for_disk.is_some() {
            // A body fetched faster than the disk writes would be dropped and fetched again.
            self.objects.disk_queue_for(&self.key).pool().wait_for_capacity().await;
        }
        kept();
        ending.gathered.into_iter().for_each(|body| self.growing.replace_by_whole(body));
        last.into_iter().for_each(|last| self.growing.append(last));
        self.growing.finish(BodyEnd::Complete(trailers));
        if let Some(body) = ending.for_disk {
            self.objects
                .insert_disk(JobKind::ChangeSoon, &self.key, &self.record, body, &self.validity)
                .await;
        }
        match (ending.reservation, ending.is_brief) {
            (Some(reservation), _) => self.release_window(ending.spill, arrived, reservation).await,
            (None, Some(_hold)) => self.move_readers(arrived).await,
            (None, None) => {}
        }
    }

    /// Returns the whole body, which ends with `last`.
    fn gathered(&self, room: Option<Room>, last: Option<Bytes>) -> MemoryBody {
        let whole = || self.growing.gathered(last.as_ref());
        let there = room.and_then(|room| room.arriving.body());
        there.unwrap_or_else(|| self.objects.memory().place(self.key.hash(), whole()))
    }

    /// Keeps a body that stands in RAM whole.
    async fn keep_gathered(&mut self, body: MemoryBody, charge: Charge) -> CompletedBody {
        let bytes = body.bytes();
        debug_assert!(
            self.length.is_none_or(|length| length == bytes.len() as u64),
            "a body that is not whole"
        );
        debug_assert!(charge.reservation.bytes() >= bytes.len() as u64, "bytes that are not charged");
        let kept = self.objects.insert_memory(&self.key, &self.record, body, &self.validity);
        let (is_kept, Charge { reservation, hold }) = (kept.is_some(), charge);
        let mut ending = CompletedBody { gathered: Some(bytes.clone()), ..CompletedBody::default() };
        // the RAM tier charges its body for as long as a reply reads it
        match kept {
            None => ending.reservation = Some(reservation),
            Some(CachedBody::Memory(held)) => ending.gathered = Some(held),
            Some(CachedBody::Disk(_)) => ending.is_brief = Some(hold),
        }
        // an older object on disk must not reappear when RAM evicts this one
        let is_copy = self.keeping == BodyStorage::Copied && !self.objects.on_disk(&self.key);
        if is_copy {
            return ending;
        }
        if is_kept && self.record.is_for_disk() && !self.objects.on_disk(&self.key) {
            ending.for_disk = Some(bytes);
        } else {
            self.objects.insert_disk(JobKind::Change, &self.key, &self.record, bytes, &self.validity).await;
        }
        ending
    }

    /// Releases the window, which slow readers would keep in RAM. They read stored bytes from the
    /// store, and are charged for the rest. If replies may hold no more, they read a copy kept
    /// elsewhere, or are cut.
    async fn release_window(
        self,
        spill: Option<Arc<dyn StoredBody>>,
        arrived: u64,
        reservation: Reservation,
    ) {
        let Some(spill) = spill else {
            return match self.objects.holds().hold(reservation.bytes()) {
                Some(hold) => self.growing.charge(reservation, hold),
                None => self.move_readers(arrived).await,
            };
        };
        self.growing.set_spill(&spill, arrived);
        // most readers are about to finish, and need not read the rest from the disk
        let _ = timeout(READ_OUT, self.growing.wait_all_read()).await;
        self.growing.trim(0);
    }

    /// Makes late readers read the body from its kept copy. The window holds the whole body.
    async fn move_readers(self, arrived: u64) {
        if timeout(READ_OUT, self.growing.wait_all_read()).await.is_ok() {
            return;
        }
        // An object on probation was declined by the disk, which accepts it on the second offer.
        if self.record.is_for_disk() && self.growing.is_whole() && !self.objects.on_disk(&self.key) {
            let whole = self.growing.gathered(None);
            self.objects
                .insert_disk(JobKind::ChangeSoon, &self.key, &self.record, whole, &self.validity)
                .await;
        }
        self.growing.move_to(self.objects.window(&self.key, &self.record, arrived), arrived);
    }

    /// Writes the rest and completes the object on disk; removes an older one from RAM. Returns
    /// `false` if the object could not be kept.
    fn commit(
        &self,
        mut insert: Box<dyn Insert>,
        written: u64,
        last: Option<Bytes>,
    ) -> impl Future<Output = bool> + Send + use<> {
        let rest: Vec<Bytes> = self.growing.since(written).into_iter().flatten().chain(last).collect();
        let (objects, key, validity) = (Arc::clone(&self.objects), self.key.clone(), self.validity.clone());
        let record = self.record.clone();
        async move {
            let (store, object, lane) = (objects.disk().cloned(), key.clone(), insert.disk_index());
            let commit = move || {
                rest.iter().try_for_each(|bytes| insert.append(bytes))?;
                store.map_or(Ok(()), |store| commit_valid(&*store, insert, &object, &validity))
            };
            let made = objects.run_insert((lane, JobKind::Completion), &key, commit).await;
            let committed = objects.ok_or_count(made).is_some();
            match committed {
                true => objects.note_stored(&key, &record),
                false => drop(objects.remove(&key).await),
            }
            objects.memory().remove(key.hash());
            committed
        }
    }

    /// Ends a body that broke off; no part of it is kept.
    pub fn cut(self, why: String) {
        self.growing.finish(BodyEnd::Cut(why));
    }

    /// Moves the body from RAM to the disk, or only passes it on if the disk declines.
    async fn spill_to_disk(&mut self) {
        let WriteState::Gathering { charge, .. } = std::mem::replace(&mut self.place, WriteState::Passing)
        else {
            return;
        };
        if self.keeping != BodyStorage::Stored {
            return;
        }
        if let Some(insert) = self.objects.start_insert(&self.key, &self.record, self.length).await {
            self.place = WriteState::Writing { insert, written: 0, reservation: charge.reservation };
        }
    }

    /// Writes a batch if there is one. A body that is only passed on waits for its readers.
    async fn wait_for_readers(&mut self) {
        let appended = self.growing.appended();
        match &self.place {
            WriteState::Gathering { .. } => {}
            WriteState::Writing { written, reservation, .. } => {
                if appended - written >= batch_bytes(reservation) {
                    self.write().await;
                }
            }
            WriteState::Passing => self.growing.wait_window_below(WINDOW).await,
        }
    }

    /// Writes the bytes that are not yet in the store, and lets the window shrink.
    async fn write(&mut self) {
        let WriteState::Writing { mut insert, written, reservation } =
            std::mem::replace(&mut self.place, WriteState::Passing)
        else {
            return;
        };
        let Some(batch) = self.growing.since(written) else { return };
        let reached = written + batch.iter().map(|piece| piece.len() as u64).sum::<u64>();
        let lane = insert.disk_index();
        let job = move || {
            batch.iter().try_for_each(|piece| insert.append(piece))?;
            Ok(insert)
        };
        if let Some(insert) = self.objects.run((lane, JobKind::Change), job).await {
            self.growing.set_spill(&insert.body(), reached);
            // Readers that keep pace need not read from the disk.
            self.growing.trim(reservation.bytes().saturating_sub(batch_bytes(&reservation)) as usize);
            self.place = WriteState::Writing { insert, written: reached, reservation };
        }
    }
}

/// Returns the room for the body of an object.
///
/// A piece of a large body keeps the whole room. The room is therefore reserved at once, and
/// replies are charged for it. Without a room, the pieces stand apart until the body is complete.
fn room_for(objects: &HybridCache, key: &ObjectKey, length: u64, charge: &mut Charge) -> Option<Room> {
    let mut hold = None;
    if length >= LENT_MIN as u64 {
        hold = Some(Arc::new(objects.holds().hold(room_bytes(length))?));
        if !charge.grow_to(room_bytes(length)) {
            return None;
        }
    }
    Some(Room { arriving: objects.memory().room(key.hash(), length)?, hold })
}

/// Returns the bytes of a batch: half of the reserved RAM, within limits. The other half is for
/// readers that are a little behind.
fn batch_bytes(reservation: &Reservation) -> u64 {
    (reservation.bytes() / 2).clamp(BATCH_MIN, BATCH_MAX)
}

/// Limits of a batch.
const BATCH_MIN: u64 = 64 * 1024;
const BATCH_MAX: u64 = 512 * 1024;

/// Time in which readers may take the body's end from the window before they read it from the disk.
const READ_OUT: Duration = Duration::from_secs(2);

/// Window of a body that is only passed on.
const WINDOW: usize = 64 * 1024;

/// Buffer that a large body is read into, which its pieces keep.
pub const READ_BUFFER_BYTES: usize = 64 * 1024;

/// Least piece of a relayed body that is not copied: a quarter of a read buffer. A smaller piece
/// would keep too much memory that is not its own.
const PASSED_MIN: usize = READ_BUFFER_BYTES / 4;

/// Limit for a fetch that all clients have left. The fetch continues if both the missing and the
/// arrived bytes are within the limit.
const FINISH_ALONE: u64 = 64 << 20;

const _: () = {
    assert!(PASSED_MIN > 0 && PASSED_MIN <= WINDOW);
    assert!(BATCH_MIN <= BATCH_MAX);
    assert!((WINDOW as u64) <= BATCH_MAX && BATCH_MAX <= FINISH_ALONE);
};

#[cfg(test)]
mod tests;
