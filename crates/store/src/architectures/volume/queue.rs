//! What waits to be written, in order, and where to find it meanwhile.

use super::format::{ITEM_BYTES, RecordKind, UNIT_BYTES};
use super::index::VolumeEntry;
use super::pending::{PendingObject, QueuedRecord};
use shoal_core::Key;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The queue in front of the log.
#[derive(Default)]
pub(super) struct WriteQueue {
    /// In the order of their tickets.
    waiting: VecDeque<(QueuePosition, QueuedRecord)>,
    /// Of the next record.
    next: QueuePosition,
    /// Something was appended since what waited was last brought to disk.
    is_unsynced: bool,
    /// Records of objects that have been removed, by those who could not wait until they are
    /// marked.
    unmarked: Vec<(Key, VolumeEntry)>,
    /// Keys of objects of which a line that waits will say that they were removed, and that have
    /// not come again behind it.
    removed: HashSet<Key>,
    /// What they will take, lines of the contents included.
    bytes: u64,
    /// Complete objects that are waiting or being written.
    objects: HashMap<Key, Arc<PendingObject>>,
}

/// The how manieth record that was appended; those that go before all others have the first.
type QueuePosition = u64;

/// What is to be written now, of what waits.
#[derive(Clone, Copy)]
pub(super) struct FlushTarget {
    /// Records before this one; more only as far as they fill stripes with them.
    before: QueuePosition,
    /// Also what does not fill a stripe.
    in_part: bool,
}

/// What goes into one chunk.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) records: Vec<QueuedRecord>,
    /// Nothing more fits into the stripe.
    pub(super) is_full: bool,
}

impl WriteQueue {
    /// Appends a record. True when it is the first that has to be brought to disk.
    pub(super) fn push(&mut self, record: QueuedRecord) -> bool {
        self.push_unhurried(record);
        !std::mem::replace(&mut self.is_unsynced, true)
    }

    /// Appends a record that is brought to disk with whatever comes after it.
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

    /// What waits now, and from now on nothing is unsynced: whoever asks brings it to disk, or
    /// calls [`leave_unsynced`](Self::leave_unsynced).
    pub(super) fn begin_sync(&mut self) -> FlushTarget {
        self.is_unsynced = false;
        self.due(true)
    }

    /// Something has still to be brought to disk. True when nothing else has.
    pub(super) fn leave_unsynced(&mut self) -> bool {
        !std::mem::replace(&mut self.is_unsynced, true)
    }

    /// The records of removed objects have to be marked. True when nothing else has to be brought
    /// to disk.
    pub(super) fn mark_later(&mut self, key: Key, entries: impl IntoIterator<Item = VolumeEntry>) -> bool {
        let before = self.unmarked.len();
        self.unmarked.extend(entries.into_iter().map(|entry| (key, entry)));
        self.unmarked.len() > before && self.leave_unsynced()
    }

    /// What has to be marked, once.
    pub(super) fn take_unmarked(&mut self) -> Vec<(Key, VolumeEntry)> {
        std::mem::take(&mut self.unmarked)
    }

    /// Whether something has to be brought to disk.
    pub(super) fn is_unsynced(&self) -> bool {
        self.is_unsynced
    }

    /// What waits now; without `in_part`, as much of it as fills stripes.
    pub(super) fn due(&self, in_part: bool) -> FlushTarget {
        FlushTarget { before: self.next, in_part }
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there is nothing to write of what is due: it has been written, or does not fill
    /// `room` bytes, though it should.
    pub(super) fn is_done(&self, due: FlushTarget, room: u64) -> bool {
        let is_written = self.waiting.front().is_none_or(|(ticket, _)| *ticket >= due.before);
        is_written || !due.in_part && self.bytes < enough_for(room)
    }

    /// Complete objects that are not on the disk yet.
    pub(super) fn objects(&self) -> usize {
        self.objects.len()
    }

    /// An object that is not on the disk yet.
    pub(super) fn find(&self, key: Key) -> Option<&Arc<PendingObject>> {
        self.objects.get(&key)
    }

    /// Takes an object out of sight. `None` when none is waiting.
    pub(super) fn remove(&mut self, key: Key) -> Option<Arc<PendingObject>> {
        let object = self.objects.remove(&key)?;
        assert_eq!(object.key.hash(), key);
        object.kill();
        Some(object)
    }

    /// An object has been written, or cannot be. False when another has taken its place meanwhile.
    pub(super) fn remove_written(&mut self, object: &Arc<PendingObject>) -> bool {
        let key = object.key.hash();
        let is_it = self.objects.get(&key).is_some_and(|found| Arc::ptr_eq(found, object));
        if is_it {
            self.objects.remove(&key);
        }
        is_it
    }

    /// Takes what fits into `room` bytes of records and contents, in order but for what is too
    /// large for the rest. `None` when nothing is due.
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
            // Pieces come before the table that names them, and those of a table before the object
            // that has it.
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

    /// False when a line that waits says the same already.
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

/// Which records belong together on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RecordGroup {
    /// There is no record.
    None,
    /// The pieces of a body, or of a table, by its number.
    Body(u64),
    /// The objects of a site.
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

    /// Pieces come before the table that names them.
    fn turn(&self) -> u8 {
        match self {
            Self::None => 0,
            Self::Body(_) => 1,
            Self::Site(_) => 2,
        }
    }
}

/// Records of a group next to each other, the group first of which one was missed first. Clients'
/// page views interleave, and what completes first is chance; a page's objects come from one site
/// for the most part, and are asked for together again, as the pieces of a body are.
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

/// A URL's scheme and authority: what stands before its third slash.
fn site_of(key: &[u8]) -> &[u8] {
    let end = key.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).nth(2);
    &key[..end.unwrap_or(key.len())]
}

/// Bytes that should wait before so much room is filled.
pub(super) fn enough_for(room: u64) -> u64 {
    room + room / SPARE_SHARE
}

/// What a record takes of a stripe.
pub(super) fn cost(record: &QueuedRecord) -> u64 {
    record.record_bytes().next_multiple_of(UNIT_BYTES) + ITEM_BYTES as u64
}

/// Records between two checks of the whole queue, in debug builds.
const CHECKED_EACH: u64 = 256;

/// With so much more in the queue than fits, something is found for the stripe's end.
const SPARE_SHARE: u64 = 8;
/// Records passed over to fill a stripe's end: order is almost preserved, as by Maltzahn's packer.
const LOOK_AHEAD: usize = 32;
/// Less is not worth another chunk.
const LEFT_MIN: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::super::pending::{GrowingBody, PendingBody};
    use super::*;
    use bytes::Bytes;
    use shoal_core::ObjectKey;

    /// Of bodies above 256 MiB.
    #[test]
    fn an_object_does_not_overtake_the_pieces_of_its_table() {
        let (key, id) = (ObjectKey::new(*b"http://a.example/large"), 5);
        let (body, table) = (GrowingBody::new(id), GrowingBody::new(!id));
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
