//! What waits to be written, in order, and where to find it meanwhile.

use super::format::{ITEM_BYTES, UNIT_BYTES};
use super::pending::{Pending, Queued};
use shoal_core::Key;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The queue in front of the log.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Queued>,
    /// What they will take, lines of the contents included.
    bytes: u64,
    /// Complete objects that are waiting or being written.
    objects: HashMap<Key, Arc<Pending>>,
}

/// What goes into one chunk.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) records: Vec<Queued>,
    /// Nothing more fits into the stripe.
    pub(super) is_full: bool,
}

impl Queue {
    /// Appends a record.
    pub(super) fn push(&mut self, record: Queued) {
        self.note(&record);
        self.bytes += cost(&record);
        self.waiting.push_back(record);
    }

    /// Puts records in front of all others, in their order.
    pub(super) fn push_front(&mut self, records: Vec<Queued>) {
        for record in records.into_iter().rev() {
            self.note(&record);
            self.bytes += cost(&record);
            self.waiting.push_front(record);
        }
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is nothing to write now: nothing at all, or less than `room` bytes, which `all` wants nevertheless.
    pub(super) fn is_idle(&self, room: u64, all: bool) -> bool {
        self.waiting.is_empty() || !all && self.bytes < room + room / SPARE_SHARE
    }

    /// Complete objects that are not on the disk yet.
    pub(super) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// An object that is not on the disk yet.
    pub(super) fn find(&self, key: Key) -> Option<&Arc<Pending>> {
        self.objects.get(&key)
    }

    /// Takes an object out of sight. `None` when none is waiting.
    pub(super) fn remove(&mut self, key: Key) -> Option<Arc<Pending>> {
        let object = self.objects.remove(&key)?;
        object.kill();
        Some(object)
    }

    /// An object has been written, or cannot be. False when another has taken its place meanwhile.
    pub(super) fn settle(&mut self, object: &Arc<Pending>) -> bool {
        let key = object.key.hash();
        let is_it = self.objects.get(&key).is_some_and(|found| Arc::ptr_eq(found, object));
        if is_it {
            self.objects.remove(&key);
        }
        is_it
    }

    /// Takes what fits into `room` bytes of records and contents, in order but for what is too large for the rest. Unless
    /// `all` is wanted, nothing is taken before the room can be filled.
    pub(super) fn take(&mut self, room: u64, all: bool) -> Option<Batch> {
        if self.is_idle(room, all) {
            return None;
        }
        let mut batch = Batch::default();
        let (mut left, mut at) = (room, 0);
        let mut passed_over: Vec<u64> = Vec::new();
        while at < self.waiting.len() && passed_over.len() < LOOK_AHEAD {
            let record = &self.waiting[at];
            let (cost, id) = (cost(record), record.id());
            // Pieces come before the table that names them.
            if cost <= left && !passed_over.contains(&id) {
                let Some(record) = self.waiting.remove(at) else { break };
                self.bytes -= cost;
                if !record.is_dead() {
                    left -= cost;
                    batch.records.push(record);
                }
            } else {
                passed_over.push(id);
                at += 1;
            }
        }
        batch.is_full = !self.waiting.is_empty() || left < LEFT_MIN;
        batch.records = sites_together(std::mem::take(&mut batch.records));
        Some(batch)
    }

    fn note(&mut self, record: &Queued) {
        if let Queued::Object(object) = record
            && let Some(older) = self.objects.insert(object.key.hash(), Arc::clone(object))
        {
            older.kill();
        }
    }
}

/// Objects of a site next to each other, the site first whose object was missed first. Clients' page views interleave, and
/// what completes first is chance; a page's objects come from one site for the most part, and are asked for together
/// again. Everything else goes before, in its order: pieces come before the table that names them.
fn sites_together(records: Vec<Queued>) -> Vec<Queued> {
    let mut ranks: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut rank = |record: &Queued| match record {
        Queued::Object(object) => {
            let next = ranks.len() + 1;
            *ranks.entry(site_of(object.key.full()).to_vec()).or_insert(next)
        }
        _ => 0,
    };
    let mut ranked: Vec<(usize, Queued)> =
        records.into_iter().map(|record| (rank(&record), record)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, record)| record).collect()
}

/// A URL's scheme and authority: what stands before its third slash.
fn site_of(key: &[u8]) -> &[u8] {
    let end = key.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).nth(2);
    &key[..end.unwrap_or(key.len())]
}

/// What a record takes of a stripe.
pub(super) fn cost(record: &Queued) -> u64 {
    record.record_bytes().next_multiple_of(UNIT_BYTES) + ITEM_BYTES as u64
}

/// With so much more in the queue than fits, something is found for the stripe's end.
const SPARE_SHARE: u64 = 8;
/// Records passed over to fill a stripe's end: order is almost preserved, as by Maltzahn's packer.
const LOOK_AHEAD: usize = 32;
/// Less is not worth another chunk.
const LEFT_MIN: u64 = 4096;
