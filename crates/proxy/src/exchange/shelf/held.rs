//! A body in RAM as replies hold it: within the share of the tier that they have, or piece by piece.
//!
//! An object that several replies hold counts once. Where the share is used up a reply gets a [`Window`]: a copy of each piece, at the
//! expense of the blocks that slow clients have (see [`Blocks`]), from RAM as long as the object is there, and then
//! from the disk. So a client that takes nothing keeps nothing in the tier.

use super::super::blocks::Blocks;
use super::super::record::Record;
use super::{Held, Resident, Shelf};
use crate::holds::Holds;
use bytes::Bytes;
use parking_lot::Mutex;
use shoal_core::ObjectKey;
use shoal_semantics::range;
use shoal_store::memory::MemoryTier;
use shoal_store::{Error, Store, StoredBody};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Shelf {
    /// The body of an object in RAM for a reply, which may hold it for long.
    pub fn hold(&self, resident: &Arc<Resident>) -> Held {
        match Held::share(&self.holds, resident) {
            Some(bytes) => Held::Memory(bytes),
            None => Held::Disk(self.window(&resident.key, &resident.record, resident.body.len() as u64)),
        }
    }

    /// A body of so many bytes that is read piece by piece from where its object is by then, and is cut where that is nowhere.
    pub fn window(&self, key: &ObjectKey, record: &Record, length: u64) -> Arc<dyn StoredBody> {
        Arc::new(Window {
            memory: Arc::clone(&self.memory),
            blocks: Arc::clone(&self.blocks),
            disk: self.disk.clone(),
            key: key.clone(),
            record: record.clone(),
            length,
            on_disk: Mutex::default(),
        })
    }

    /// What replies hold of bodies in RAM.
    pub fn holds(&self) -> &Arc<Holds> {
        &self.holds
    }

    /// What is gathered of bodies that arrive.
    pub fn gathered(&self) -> &Arc<Holds> {
        &self.gathered
    }
}

impl Held {
    fn share(holds: &Arc<Holds>, resident: &Arc<Resident>) -> Option<Bytes> {
        if resident.body.is_empty() {
            return Some(Bytes::new());
        }
        if !resident.begin_to_hold(holds) {
            return None;
        }
        Some(Bytes::from_owner(Share { holds: Arc::clone(holds), resident: Arc::clone(resident) }))
    }
}

impl Resident {
    /// Counts one more reply that holds the body; the first is charged for it. False where there is no room for that.
    fn begin_to_hold(&self, holds: &Holds) -> bool {
        let mut replies = self.replies.load(Relaxed);
        loop {
            if replies == 0 && !holds.take(self.body.room_bytes()) {
                return false;
            }
            match self.replies.compare_exchange_weak(replies, replies + 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => {
                    if replies == 0 {
                        holds.release(self.body.room_bytes());
                    }
                    replies = now;
                }
            }
        }
    }

    fn end_to_hold(&self, holds: &Holds) {
        if self.replies.fetch_sub(1, Relaxed) == 1 {
            holds.release(self.body.room_bytes());
        }
    }
}

/// One of those that hold an object's body.
struct Share {
    holds: Arc<Holds>,
    resident: Arc<Resident>,
}

impl AsRef<[u8]> for Share {
    fn as_ref(&self) -> &[u8] {
        &self.resident.body
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resident.end_to_hold(&self.holds);
    }
}

/// A body that was in RAM. Nothing of it is held between two reads.
struct Window {
    memory: Arc<MemoryTier<Resident>>,
    blocks: Arc<Blocks>,
    disk: Option<Arc<dyn Store>>,
    key: ObjectKey,
    record: Record,
    length: u64,
    /// Where the disk has it, once it was read from there.
    on_disk: Mutex<Option<Arc<dyn StoredBody>>>,
}

impl Window {
    /// Whether an object of this key has the very same body.
    fn is_body_of(&self, record: &Record, length: u64) -> bool {
        let is_same = match (&self.record, record) {
            (Record::Response(own), Record::Response(other)) => {
                // A validation gives it another head.
                own.names.via_site == other.names.via_site
                    && (own.identity() == other.identity()
                        || range::same_representation(&own.stored.fields(), &other.stored.fields()))
            }
            (own, other) => own.is_same(other),
        };
        length == self.length && is_same
    }

    /// The body on disk. Waits for that.
    fn open(&self) -> Result<Arc<dyn StoredBody>, Error> {
        let mut on_disk = self.on_disk.lock();
        if let Some(body) = &*on_disk {
            return Ok(Arc::clone(body));
        }
        let stored = match &self.disk {
            Some(disk) => disk.open(&self.key)?,
            None => None,
        };
        let is_body = |metadata: &[u8], length| {
            Record::decode(metadata).is_some_and(|record| self.is_body_of(&record, length))
        };
        let stored = stored.filter(|stored| is_body(&stored.metadata, stored.body.length()));
        let body = stored.ok_or(Error::Gone)?.body;
        let body = body.alone().unwrap_or(body);
        *on_disk = Some(Arc::clone(&body));
        Ok(body)
    }
}

impl StoredBody for Window {
    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error> {
        self.open()?.read(offset, limit)
    }

    fn read_at_once(&self, offset: u64, limit: usize) -> Option<Bytes> {
        let resident = self.memory.peek(self.key.hash()).filter(|now| now.key == self.key)?;
        let rest = self.length.checked_sub(offset)?.min(limit as u64);
        if !self.is_body_of(&resident.record, resident.body.len() as u64) {
            return None;
        }
        let allowance = self.blocks.allow();
        let (start, bytes) = (offset as usize, allowance.bytes(offset).min(rest) as usize);
        Some(allowance.copy(&resident.body[start..start + bytes]))
    }

    fn lane(&self) -> usize {
        self.disk.as_ref().map_or(0, |disk| disk.lane(self.key.hash()))
    }
}
