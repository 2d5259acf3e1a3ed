//! Filing a body while it arrives: it goes to its readers at once, and to the store in few, large writes.
//!
//! A small body is gathered in RAM and written in one job when complete. One that outgrows RAM's share is written
//! in batches, and its readers' older bytes are then read back from disk. When the disk declines, the body is
//! only passed on, at the pace of its slowest reader.

use super::growing::{End, Growing};
use super::record::Record;
use super::shelf::Shelf;
use bytes::Bytes;
use http::HeaderMap;
use shoal_core::ObjectKey;
use shoal_store::Insert;
use shoal_store::memory::Reservation;
use std::sync::Arc;

/// A body on its way to readers and store.
pub struct Filing {
    shelf: Arc<Shelf>,
    growing: Arc<Growing>,
    key: ObjectKey,
    record: Record,
    length: Option<u64>,
    place: Place,
}

enum Place {
    /// All of it in RAM; the reservation covers it.
    Gathering(Reservation),
    /// Being written; `written` bytes are in the store. The reservation covers the window.
    Writing { insert: Box<dyn Insert>, written: u64, reservation: Reservation },
    /// Only passed on.
    Passing,
}

impl Filing {
    /// Begins to file a body under `key`. `length` is its length when known beforehand.
    pub fn new(
        shelf: &Arc<Shelf>,
        growing: &Arc<Growing>,
        key: ObjectKey,
        record: Record,
        length: Option<u64>,
    ) -> Self {
        let place = match shelf.ledger().try_reserve(0) {
            Some(reservation) => Place::Gathering(reservation),
            None => Place::Passing,
        };
        Self { shelf: Arc::clone(shelf), growing: Arc::clone(growing), key, record, length, place }
    }

    /// Takes what has arrived. Waits for the disk or for readers when they must keep up.
    pub async fn push(&mut self, bytes: Bytes) {
        let fits = match &mut self.place {
            Place::Gathering(reservation) => {
                let total = self.growing.appended() + bytes.len() as u64;
                total <= self.shelf.limits().memory_object_max && reservation.grow(bytes.len() as u64)
            }
            _ => true,
        };
        self.growing.append(bytes);
        if !fits {
            self.leave_memory().await;
        }
        match &self.place {
            Place::Gathering(_) => {}
            Place::Writing { written, .. } if self.growing.appended() - written < BATCH => {}
            Place::Writing { .. } => self.write().await,
            Place::Passing => self.growing.drained_below(WINDOW).await,
        }
    }

    /// Whether anybody still has a use for the rest: a reader, or a store that has most of it.
    pub fn wanted(&self) -> bool {
        if self.growing.readers() > 0 {
            return true;
        }
        let rest = self.length.map_or(0, |length| length.saturating_sub(self.growing.appended()));
        !matches!(self.place, Place::Passing)
            && rest <= FINISH_ALONE
            && self.growing.appended() <= FINISH_ALONE
    }

    /// Ends a complete body and keeps it, if `keep` still says so. Readers are done before the disk is.
    pub async fn complete(mut self, trailers: Option<HeaderMap>, keep: impl Fn() -> bool) {
        self.growing.finish(End::Complete(trailers));
        if let Place::Writing { .. } = self.place {
            self.write().await;
        }
        let whole = self.length.is_none_or(|length| length == self.growing.appended());
        let keep = || whole && keep();
        match self.place {
            Place::Gathering(reservation) if keep() => {
                if let Some(whole) = self.growing.whole() {
                    drop(reservation);
                    self.shelf.keep(&self.key, self.record, whole).await;
                }
            }
            Place::Writing { insert, written, .. } if keep() && written == self.growing.appended() => {
                let committed = self.shelf.pool().run(move || insert.commit(None)).await;
                self.shelf.settle(committed);
            }
            _ => {}
        }
    }

    /// Ends a body that broke off; nothing of it is kept.
    pub fn cut(self, why: String) {
        self.growing.finish(End::Cut(why));
    }

    /// Moves from RAM to the disk, or to passing on when the disk takes nothing.
    async fn leave_memory(&mut self) {
        let Place::Gathering(reservation) = std::mem::replace(&mut self.place, Place::Passing) else {
            return;
        };
        if let Some(insert) = self.shelf.begin(&self.key, &self.record, self.length).await {
            self.place = Place::Writing { insert, written: 0, reservation };
        }
        if let Place::Writing { .. } = self.place {
            self.write().await;
        }
    }

    /// Writes what is not yet in the store and lets the window shrink.
    async fn write(&mut self) {
        let Place::Writing { mut insert, written, reservation } =
            std::mem::replace(&mut self.place, Place::Passing)
        else {
            return;
        };
        let Some(batch) = self.growing.since(written) else { return };
        let reached = written + batch.len() as u64;
        let job = move || {
            insert.append(&batch)?;
            Ok(insert)
        };
        let appended = self.shelf.pool().run(job).await;
        if let Some(insert) = self.shelf.settle(appended) {
            self.growing.spilled(&insert.body(), reached);
            self.growing.trim(0);
            self.place = Place::Writing { insert, written: reached, reservation };
        }
    }
}

/// Bytes that gather before they are written.
const BATCH: u64 = 512 * 1024;

/// Window of a body that is only passed on.
const WINDOW: usize = 256 * 1024;

/// A fetch that all clients have left goes on to its end when so much is missing at most, and so much has come at most.
const FINISH_ALONE: u64 = 64 << 20;
