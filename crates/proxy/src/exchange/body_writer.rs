//! Filing a body while it arrives: it goes to its readers at once, and to the store in few, large
//! writes.
//!
//! A small body is gathered in RAM and written in one job when complete. One that outgrows RAM's
//! share is written in batches, and its readers' older bytes are then read back from disk. When the
//! disk declines, the body is only passed on, at the pace of its slowest reader.
//!
//! A client that has seen the end of a body finds it stored when it asks again: the piece that
//! reaches the known length, and the end itself, are held back until that is so.

use super::hybrid_cache::{CachedBody, HybridCache, commit_valid};
use super::invalidations::ValiditySnapshot;
use super::metadata::ObjectMetadata;
use super::shared_body::{BodyEnd, SharedBody};
use crate::holds::Hold;
use crate::io_pool::JobKind;
use bytes::Bytes;
use http::HeaderMap;
use shoal_core::ObjectKey;
use shoal_store::memory::{IncomingBody, LENT_MIN, MemoryBody, Reservation, room_bytes};
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
}

enum WriteState {
    /// All of it in RAM; the reservation covers it. What has come stands in the room, where there
    /// is one.
    Gathering { charge: Charge, room: Option<Room> },
    /// Being written; `written` bytes are in the store. The reservation covers the window.
    Writing { insert: Box<dyn Insert>, written: u64, reservation: Reservation },
    /// Only passed on.
    Passing,
}

/// What a body is charged that is gathered.
struct Charge {
    reservation: Reservation,
    /// Of the part of RAM that such bodies may take.
    hold: Hold,
}

impl Charge {
    /// Reserves what is missing to so many bytes; false when it cannot be had.
    fn grow_to(&mut self, bytes: u64) -> bool {
        self.hold.grow_to(bytes) && self.reservation.grow(bytes.saturating_sub(self.reservation.bytes()))
    }
}

/// Where a body will stand.
struct Room {
    arriving: IncomingBody,
    /// What replies are charged that have a piece of it, and so keep all of it.
    hold: Option<Arc<Hold>>,
}

/// A piece of a body in such a room.
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

/// What is left to do for a body that is complete.
#[derive(Default)]
struct CompletedBody {
    /// All of it, in one piece.
    gathered: Option<Bytes>,
    /// Replies may not hold it for long: it is charged so until it is let go.
    is_brief: Option<Hold>,
    /// What is still to be written.
    for_disk: Option<Bytes>,
    /// Where all of it can be read from.
    spill: Option<Arc<dyn StoredBody>>,
    /// What its bytes in RAM are charged, unless the RAM tier charges them.
    reservation: Option<Reservation>,
}

impl BodyWriter {
    /// Begins to file a body under `key`. `length` is its length when known beforehand;
    /// it is kept only while it is valid.
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
        }
    }

    /// Whether so many bytes more are within the length. A part's length is that of its
    /// Content-Range, which its framing need not keep to.
    pub fn has_room(&self, bytes: usize) -> bool {
        let arrived = self.arrived() + bytes as u64;
        self.length.is_none_or(|length| arrived <= length)
    }

    /// Bytes that have arrived, the last piece included.
    fn arrived(&self) -> u64 {
        self.growing.appended() + self.last.as_ref().map_or(0, |last| last.len() as u64)
    }

    /// Takes what has arrived. Waits for the disk or for readers when they must keep up.
    pub async fn append(&mut self, bytes: Bytes) {
        debug_assert!(self.last.is_none(), "bytes behind the last");
        let total = self.growing.appended() + bytes.len() as u64;
        let fits = match &mut self.place {
            WriteState::Gathering { charge, .. } => {
                total <= self.objects.limits().memory_object_max && charge.grow_to(total)
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

    /// The bytes as they are kept: a slice of the connection's buffer would keep all of that buffer
    /// in RAM, and does not outlive this while the disk or readers are waited for.
    fn own(&mut self, bytes: Bytes) -> Bytes {
        let is_first = self.arrived() == 0;
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
            WriteState::Writing { .. } => Bytes::copy_from_slice(&bytes),
        }
    }

    /// Whether anybody still has a use for the rest: a reader, or a store that has most of it.
    pub fn wanted(&self) -> bool {
        if self.growing.readers() > 0 {
            return true;
        }
        let rest = self.length.map_or(0, |length| length.saturating_sub(self.growing.appended()));
        !matches!(self.place, WriteState::Passing)
            && rest <= FINISH_ALONE
            && self.growing.appended() <= FINISH_ALONE
    }

    /// Ends a complete body and keeps it while it is valid. `kept` is called when lookups find it,
    /// just before its readers see the end. A body in RAM goes to the disk after that.
    pub async fn complete(mut self, trailers: Option<HeaderMap>, kept: impl FnOnce()) {
        let arrived = self.arrived();
        if self.length.is_some_and(|length| length != arrived) {
            kept();
            return self.cut("fewer bytes than announced".into());
        }
        debug_assert!(self.length.is_none_or(|length| length == arrived));
        let mut last = self.last.take();
        let is_valid = self.validity.is_unchanged();
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
            // a newer response than the one stored came, and cannot be kept
            WriteState::Passing if is_valid => drop(self.objects.remove(&self.key).await),
            WriteState::Passing => {}
        }
        if ending.for_disk.is_some() {
            // What is fetched faster than it can be written would be fetched again.
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

    /// All of the body, of which `last` is the end.
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
        // in the RAM tier it is charged there, for as long as anybody reads it
        match kept {
            None => ending.reservation = Some(reservation),
            Some(CachedBody::Memory(held)) => ending.gathered = Some(held),
            Some(CachedBody::Disk(_)) => ending.is_brief = Some(hold),
        }
        // an older object on disk must not show when RAM gives this one up
        if is_kept && self.record.is_for_disk() && !self.objects.on_disk(&self.key) {
            ending.for_disk = Some(bytes);
        } else {
            self.objects.insert_disk(JobKind::Change, &self.key, &self.record, bytes, &self.validity).await;
        }
        ending
    }

    /// Lets go of the window, which slow readers would keep in RAM: what is in the store they read
    /// from there; for the rest they are charged. Where replies may hold no more, they read what
    /// has been kept of it elsewhere, or are cut.
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
        // most are about to have it all, and need not go to the disk for the rest
        let _ = timeout(READ_OUT, self.growing.wait_all_read()).await;
        self.growing.trim(0);
    }

    /// Has those who are late read the body, all of which is in the window, from where it is kept.
    async fn move_readers(self, arrived: u64) {
        if timeout(READ_OUT, self.growing.wait_all_read()).await.is_ok() {
            return;
        }
        // The disk may have had it on probation, and takes it when it is asked again.
        if self.record.is_for_disk() && self.growing.is_whole() && !self.objects.on_disk(&self.key) {
            let whole = self.growing.gathered(None);
            self.objects
                .insert_disk(JobKind::ChangeSoon, &self.key, &self.record, whole, &self.validity)
                .await;
        }
        self.growing.move_to(self.objects.window(&self.key, &self.record, arrived), arrived);
    }

    /// Writes the rest and completes the object on disk; an older one in RAM goes. False when it
    /// could not be kept.
    fn commit(
        &self,
        mut insert: Box<dyn Insert>,
        written: u64,
        last: Option<Bytes>,
    ) -> impl Future<Output = bool> + Send + use<> {
        let rest: Vec<Bytes> = self.growing.since(written).into_iter().chain(last).collect();
        let (objects, key, validity) = (Arc::clone(&self.objects), self.key.clone(), self.validity.clone());
        async move {
            let (store, object, lane) = (objects.disk().cloned(), key.clone(), insert.disk_index());
            let commit = move || {
                rest.iter().try_for_each(|bytes| insert.append(bytes))?;
                store.map_or(Ok(()), |store| commit_valid(&*store, insert, &object, &validity))
            };
            let made = objects.run_insert((lane, JobKind::Completion), &key, commit).await;
            let committed = objects.ok_or_count(made).is_some();
            if !committed {
                objects.remove(&key).await;
            }
            objects.memory().remove(key.hash());
            committed
        }
    }

    /// Ends a body that broke off; nothing of it is kept.
    pub fn cut(self, why: String) {
        self.growing.finish(BodyEnd::Cut(why));
    }

    /// Moves from RAM to the disk, or to passing on when the disk takes nothing.
    async fn spill_to_disk(&mut self) {
        let WriteState::Gathering { charge, .. } = std::mem::replace(&mut self.place, WriteState::Passing)
        else {
            return;
        };
        if let Some(insert) = self.objects.start_insert(&self.key, &self.record, self.length).await {
            self.place = WriteState::Writing { insert, written: 0, reservation: charge.reservation };
        }
    }

    /// Writes a batch when there is one, or waits for readers that nobody else keeps bytes for.
    async fn wait_for_readers(&mut self) {
        let appended = self.growing.appended();
        match &self.place {
            WriteState::Gathering { .. } => {}
            // a batch is as large as the RAM that was reserved for it
            WriteState::Writing { written, reservation, .. } => {
                if appended - written >= reservation.bytes().clamp(BATCH_MIN, BATCH_MAX) {
                    self.write().await;
                }
            }
            WriteState::Passing => self.growing.wait_window_below(WINDOW).await,
        }
    }

    /// Writes what is not yet in the store and lets the window shrink.
    async fn write(&mut self) {
        let WriteState::Writing { mut insert, written, reservation } =
            std::mem::replace(&mut self.place, WriteState::Passing)
        else {
            return;
        };
        let Some(batch) = self.growing.since(written) else { return };
        let reached = written + batch.len() as u64;
        let lane = insert.disk_index();
        let job = move || {
            insert.append(&batch)?;
            Ok(insert)
        };
        if let Some(insert) = self.objects.run((lane, JobKind::Change), job).await {
            self.growing.set_spill(&insert.body(), reached);
            self.growing.trim(0);
            self.place = WriteState::Writing { insert, written: reached, reservation };
        }
    }
}

/// Where the body of an object will stand. Who has a piece of a large one keeps the room for all of
/// it, so that it is reserved at once, and replies are charged with it; where that cannot be, its
/// pieces stand apart until they are whole.
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

/// Bytes that gather before they are written: as many as are reserved, within these.
const BATCH_MIN: u64 = 64 * 1024;
const BATCH_MAX: u64 = 512 * 1024;

/// Time that readers have for the end of a body in the window before they read it from the disk.
const READ_OUT: Duration = Duration::from_secs(2);

/// Window of a body that is only passed on.
const WINDOW: usize = 64 * 1024;

/// A fetch that all clients have left goes on to its end when so much is missing at most, and so
/// much has come at most.
const FINISH_ALONE: u64 = 64 << 20;

const _: () = {
    assert!(BATCH_MIN <= BATCH_MAX);
    assert!((WINDOW as u64) <= BATCH_MAX && BATCH_MAX <= FINISH_ALONE);
};
