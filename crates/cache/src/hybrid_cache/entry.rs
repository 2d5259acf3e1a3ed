//! An object in RAM, as the tier holds it.

use crate::clock;
use crate::coded::CodedForms;
use crate::judgement::RuleJudgement;
use crate::metadata::ObjectMetadata;
use shoal_core::{ObjectKey, Timestamp};
use shoal_memory::{MemoryBody, TierValue};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// An object in RAM.
pub struct MemoryEntry {
    pub(super) key: ObjectKey,
    /// Metadata of the object.
    pub record: ObjectMetadata,
    /// Body of the object.
    pub body: MemoryBody,
    /// `true` if the disk has the object, or does not accept it.
    pub(super) is_settled: AtomicBool,
    /// Number of replies that hold the body.
    pub(super) replies: AtomicU32,
    /// Checksum of the body for other nodes, once computed; 0 before.
    sum: AtomicU64,
    /// Turn in shared memory; 0 if there is none. See [`crate::shared_memory`].
    turn: u64,
    /// Time at which the object came into RAM.
    since: Timestamp,
    /// Tick of the last use, if memory is shared; 0 before. See [`HybridCache::tick`].
    ///
    /// [`HybridCache::tick`]: super::HybridCache
    used: AtomicU32,
    /// Judgement of the operator's rules on plain requests that find this entry.
    pub judgement: RuleJudgement,
    /// Coded forms of the body.
    pub coded: CodedForms,
}

impl TierValue for MemoryEntry {
    fn body(&self) -> Option<&MemoryBody> {
        Some(&self.body)
    }

    fn body_mut(&mut self) -> Option<&mut MemoryBody> {
        Some(&mut self.body)
    }
}

impl MemoryEntry {
    pub(super) fn new(key: &ObjectKey, record: ObjectMetadata, body: MemoryBody) -> Self {
        debug_assert!(record.is_for_everybody(), "what is stored is sent to others");
        Self {
            key: key.clone(),
            record,
            body,
            is_settled: AtomicBool::new(true),
            replies: AtomicU32::new(0),
            sum: AtomicU64::new(0),
            turn: 0,
            since: clock::now(),
            used: AtomicU32::new(0),
            judgement: RuleJudgement::default(),
            coded: CodedForms::default(),
        }
    }

    /// Returns the entry with its turn in shared memory.
    pub(super) fn with_turn(self, turn: u64) -> Self {
        Self { turn, ..self }
    }

    /// Returns the key of the object.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the turn in shared memory; 0 if there is none.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Returns the time since the object came into RAM, or since a later use.
    pub fn age(&self) -> Duration {
        let (now, used) = (clock::now(), self.used.load(Relaxed));
        let since = now.since(self.since);
        match used {
            0 => since,
            used => since.min(TICK * tick_of(now).wrapping_sub(used)),
        }
    }

    /// Notes a use at this tick.
    pub(super) fn used_at(&self, tick: u32) {
        if tick != self.used.load(Relaxed) {
            self.used.store(tick, Relaxed);
        }
    }

    /// Returns the checksum of the body that other nodes get.
    pub fn sum(&self) -> u64 {
        let known = self.sum.load(Relaxed);
        if known != 0 {
            return known;
        }
        let sum = xxh3_64(&self.body);
        self.sum.store(sum, Relaxed);
        sum
    }

    /// Returns `true` for the same object, even if its body has moved in memory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.record.is_same(&other.record)
    }

    /// Returns the bytes to charge for the entry.
    pub(super) fn weight(&self) -> u64 {
        self.body.room_bytes() + (self.record.weight() + self.key.full().len() + RESIDENT_BYTES) as u64
    }
}

/// Returns the tick of a time: never 0.
pub(super) fn tick_of(time: Timestamp) -> u32 {
    (time.millis() / TICK.as_millis() as u64) as u32 | 1
}

/// Length of a tick.
const TICK: Duration = Duration::from_millis(32);

/// Bytes of an entry, of its key's and body's allocations, and of the allocator's overhead for
/// each.
const RESIDENT_BYTES: usize = size_of::<MemoryEntry>() + 3 * 24;
