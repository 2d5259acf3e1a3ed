//! Queue of records that wait to be written, in order, with a lookup by key.

use super::format::{ITEM_BYTES, RecordKind, UNIT_BYTES};
use super::index::VolumeEntry;
use super::pending::{PendingObject, QueuedRecord};
use shoal_core::Key;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Queue in front of the log.
#[derive(Default)]
pub(super) struct WriteQueue {
    /// Waiting records, by ascending position.
    waiting: VecDeque<(QueuePosition, QueuedRecord)>,
    /// Position of the next record.
    next: QueuePosition,
    /// Set if a record was appended since the last sync began.
    is_unsynced: bool,
    /// Records of removed objects that are still to be marked on disk. The callers that removed
    /// these objects could not wait for that.
    unmarked: Vec<(Key, VolumeEntry)>,
    /// Keys of objects with a waiting line that records their removal, and without a later insert
    /// behind it.
    removed: HashSet<Key>,
    /// Bytes that the waiting records will take, lines of the contents included.
    bytes: u64,
    /// Complete objects that are waiting or being written.
    objects: HashMap<Key, Arc<PendingObject>>,
}

/// Position of a record in the queue; 0 goes first.
type QueuePosition = u64;

/// Part of the queue that is to be written now.
#[derive(Clone, Copy)]
pub(super) struct FlushTarget {
    /// Bound of the due records. Later records are written only as far as they fill up stripes.
    before: QueuePosition,
    /// Set if records that do not fill a stripe are written too.
    pub(super) in_part: bool,
}

/// Records for one chunk.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) records: Vec<QueuedRecord>,
    /// Set when nothing more fits into the stripe.
    pub(super) is_full: bool,
}

impl WriteQueue {
    /// Appends a record. Returns `true` if it is the first that has to be brought to disk.
    pub(super) fn push(&mut self, record: QueuedRecord) -> bool {
        self.push_unhurried(record);
        !std::mem::replace(&mut self.is_unsynced, true)
    }

    /// Appends a record that is brought to disk with later records.
    pub(super) fn push_unhurried(&mut self, record: QueuedRecord) {
        if self.note(&record) {
            self.bytes += cost(&record);
            self.waiting.push_back((self.next, record));
            self.next += 1;
            if cfg!(debug_assertions) && self.next.is_multiple_of(CHECKED_EACH) {
                self.invariants();
            }
        }
    }

    /// Puts records in front of all others, in their order.
    pub(super) fn push_front(&mut self, records: Vec<QueuedRecord>) {
        for record in records.into_iter().rev() {
            if self.note(&record) {
                self.bytes += cost(&record);
                self.waiting.push_front((0, record));
            }
        }
        if cfg!(debug_assertions) {
            self.invariants();
        }
    }

    /// Checks all that is said of the fields.
    pub(super) fn invariants(&self) {
        assert!(self.waiting.iter().is_sorted_by_key(|(position, _)| *position));
        assert!(self.waiting.back().is_none_or(|(position, _)| *position < self.next.max(1)));
        let bytes: u64 = self.waiting.iter().map(|(_, record)| cost(record)).sum();
        assert_eq!(bytes, self.bytes, "bytes that wait");
        for (key, object) in &self.objects {
            assert_eq!(*key, object.key.hash());
            assert!(!object.is_dead(), "a dead object in sight");
        }
        let mut lines = HashSet::new();
        for (_, record) in &self.waiting {
            match record {
                QueuedRecord::Removed(key) => drop(lines.insert(*key)),
                QueuedRecord::Object(object) if object.kind() == RecordKind::Whole && !object.is_dead() => {
                    let found = self.objects.get(&object.key.hash());
                    assert!(found.is_some_and(|found| Arc::ptr_eq(found, object)), "an object out of sight");
                }
                QueuedRecord::Object(_) | QueuedRecord::Piece { .. } => {}
            }
        }
        assert!(self.removed.is_subset(&lines), "a removal without a line");
    }

    /// Returns the waiting records as due, and clears `is_unsynced`. The caller brings them to
    /// disk, or calls [`leave_unsynced`](Self::leave_unsynced).
    pub(super) fn begin_sync(&mut self) -> FlushTarget {
        self.is_unsynced = false;
        self.due(true)
    }

    /// Sets `is_unsynced`. Returns `true` if it was clear.
    pub(super) fn leave_unsynced(&mut self) -> bool {
        !std::mem::replace(&mut self.is_unsynced, true)
    }

    /// Queues the records of removed objects to be marked. Returns `true` if nothing else has to be
    /// brought to disk.
    pub(super) fn mark_later(&mut self, key: Key, entries: impl IntoIterator<Item = VolumeEntry>) -> bool {
        let before = self.unmarked.len();
        self.unmarked.extend(entries.into_iter().map(|entry| (key, entry)));
        self.unmarked.len() > before && self.leave_unsynced()
    }

    /// Takes the records to be marked.
    pub(super) fn take_unmarked(&mut self) -> Vec<(Key, VolumeEntry)> {
        std::mem::take(&mut self.unmarked)
    }

    /// Returns `true` if a record has to be brought to disk.
    pub(super) fn is_unsynced(&self) -> bool {
        self.is_unsynced
    }

    /// Returns the waiting records as due; without `in_part`, only as many as fill stripes.
    pub(super) fn due(&self, in_part: bool) -> FlushTarget {
        FlushTarget { before: self.next, in_part }
    }

    /// Returns the bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `true` if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns `true` if no due record is left to write. Without `in_part`, records that do not
    /// fill `room` bytes are not due.
    pub(super) fn is_done(&self, due: FlushTarget, room: u64) -> bool {
        let is_written = self.waiting.front().is_none_or(|(ticket, _)| *ticket >= due.before);
        is_written || !due.in_part && self.bytes < enough_for(room)
    }

    /// Returns the number of complete objects that are not yet on disk.
    pub(super) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Returns an object that is not yet on disk.
    pub(super) fn find(&self, key: Key) -> Option<&Arc<PendingObject>> {
        self.objects.get(&key)
    }

    /// Removes an object from the lookup. Returns `None` when no such object waits.
    pub(super) fn remove(&mut self, key: Key) -> Option<Arc<PendingObject>> {
        let object = self.objects.remove(&key)?;
        assert_eq!(object.key.hash(), key);
        object.kill();
        Some(object)
    }

    /// Removes an object that has been written, or cannot be. Returns `false` if another object has
    /// taken its place.
    pub(super) fn remove_written(&mut self, object: &Arc<PendingObject>) -> bool {
        let key = object.key.hash();
        let is_it = self.objects.get(&key).is_some_and(|found| Arc::ptr_eq(found, object));
        if is_it {
            self.objects.remove(&key);
        }
        is_it
    }

    /// Takes records and their contents lines for `room` bytes, in order. A record that is too
    /// large for the rest is passed over. Returns `None` when nothing is due.
    pub(super) fn take(&mut self, room: u64, due: FlushTarget) -> Option<Batch> {
        if self.is_done(due, room) {
            return None;
        }
        let mut batch = Batch::default();
        let (mut left, mut at) = (room, 0);
        let mut passed_over: Vec<u64> = Vec::new();
        while at < self.waiting.len() && passed_over.len() < LOOK_AHEAD {
            let (_, record) = &self.waiting[at];
            let (cost, id) = (cost(record), record.object_id());
            // Pieces come before the table that names them, and a table's pieces before its object.
            if cost <= left && !passed_over.contains(&id) {
                let Some((_, record)) = self.waiting.remove(at) else { break };
                assert!(self.bytes >= cost, "fewer bytes than wait");
                self.bytes -= cost;
                if let QueuedRecord::Removed(key) = &record {
                    self.removed.remove(key);
                }
                if !record.is_dead() {
                    left -= cost;
                    batch.records.push(record);
                }
            } else {
                passed_over.push(id);
                at += 1;
            }
        }
        assert_eq!(self.waiting.is_empty(), self.bytes == 0, "each record costs bytes");
        assert!(at <= LOOK_AHEAD);
        batch.is_full = !self.waiting.is_empty() || left < LEFT_MIN;
        batch.records = groups_together(std::mem::take(&mut batch.records));
        debug_assert!(batch.records.iter().map(cost).sum::<u64>() <= room, "more than fits");
        if cfg!(debug_assertions) {
            self.invariants();
        }
        Some(batch)
    }

    /// Updates the lookup for a new record. Returns `false` if a waiting line already records this
    /// removal.
    fn note(&mut self, record: &QueuedRecord) -> bool {
        match record {
            QueuedRecord::Object(object) => {
                let key = object.key.hash();
                self.removed.remove(&key);
                debug_assert!(!object.is_dead());
                if let Some(older) = self.objects.insert(key, Arc::clone(object)) {
                    assert!(!Arc::ptr_eq(&older, object), "an object that waits twice");
                    older.kill();
                }
                true
            }
            QueuedRecord::Removed(key) => self.removed.insert(*key),
            QueuedRecord::Piece { .. } => true,
        }
    }
}

/// Group of records that belong together on disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RecordGroup {
    /// Line without a record.
    None,
    /// Pieces of a body, or of a table, by id.
    Body(u64),
    /// Objects of a site.
    Site(Vec<u8>),
}

impl RecordGroup {
    pub(super) fn of(record: &QueuedRecord) -> Self {
        match record {
            QueuedRecord::Object(object) => Self::Site(site_of(object.key.full()).to_vec()),
            QueuedRecord::Piece { growing, .. } => Self::Body(growing.id),
            QueuedRecord::Removed(_) => Self::None,
        }
    }

    /// Returns the rank of the kind: pieces come before the table that names them.
    fn turn(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Body(_) => 1,
            Self::Site(_) => 2,
        }
    }
}

/// Sorts records so that a group is contiguous; groups follow in order of their first miss. Page
/// views of clients interleave, and the order of completion is chance. A page's objects mostly come
/// from one site and are requested together again, as are the pieces of a body.
fn groups_together(records: Vec<QueuedRecord>) -> Vec<QueuedRecord> {
    let mut ranks: HashMap<RecordGroup, usize> = HashMap::new();
    let mut rank = |record: &QueuedRecord| {
        let (group, next) = (RecordGroup::of(record), ranks.len());
        (group.turn(), *ranks.entry(group).or_insert(next))
    };
    let count = records.len();
    let mut ranked: Vec<((u8, usize), QueuedRecord)> =
        records.into_iter().map(|record| (rank(&record), record)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    assert_eq!(ranked.len(), count);
    ranked.into_iter().map(|(_, record)| record).collect()
}

/// Returns a URL's scheme and authority: the bytes before its third slash.
fn site_of(key: &[u8]) -> &[u8] {
    let end = key.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).nth(2);
    &key[..end.unwrap_or(key.len())]
}

/// Returns the bytes that should wait before `room` bytes are filled.
pub(super) fn enough_for(room: u64) -> u64 {
    room + room / SPARE_SHARE
}

/// Returns the bytes that a record takes in a stripe.
pub(super) fn cost(record: &QueuedRecord) -> u64 {
    record.record_bytes().next_multiple_of(UNIT_BYTES) + ITEM_BYTES as u64
}

/// Records between two checks of the whole queue, in debug builds.
const CHECKED_EACH: u64 = 256;

/// Surplus in the queue, as a share of the room, that provides a record for the stripe's end.
const SPARE_SHARE: u64 = 8;
/// Records passed over to fill a stripe's end: order is almost preserved, as by Maltzahn's packer.
const LOOK_AHEAD: usize = 32;
/// Least rest of a stripe that is worth another chunk.
const LEFT_MIN: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::super::pending::{GrowingBody, PendingBody};
    use super::*;
    use bytes::Bytes;
    use shoal_core::ObjectKey;

    /// Applies to bodies above 256 MiB.
    #[test]
    fn object_follows_pieces_of_its_table() {
        let (key, id) = (ObjectKey::new(*b"http://a.example/large"), 5);
        let pool = Arc::new(super::super::pages::PagePool::default());
        let (body, table) = (GrowingBody::new(id, false, &pool), GrowingBody::new(!id, false, &pool));
        let mut queue = WriteQueue::default();
        let bytes = Bytes::from(vec![1; 60_000]);
        let growing = Arc::clone(&table);
        queue.push(QueuedRecord::Piece {
            growing,
            key: key.clone(),
            kind: RecordKind::TablePiece,
            index: 0,
            bytes,
        });
        let body = PendingBody::Large { body, bytes: 300 << 20, table: Some(table) };
        queue.push(QueuedRecord::Object(PendingObject::new(key, id, 0, Bytes::new(), body)));
        let due = queue.due(true);
        let first = queue.take(20_000, due).expect("something waits");
        assert!(first.records.is_empty() && first.is_full, "nothing fits that may go first");
        let both = queue.take(200_000, due).expect("both wait");
        let order: Vec<bool> =
            both.records.iter().map(|record| matches!(record, QueuedRecord::Object(_))).collect();
        assert_eq!(order, [false, true]);
    }
}
