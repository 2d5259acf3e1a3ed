//! A volume for replacement only: a log with a cursor that evicts the objects it reaches, or
//! carries them over.
//!
//! The rules are the store's own (`shoal_policy::carry`, `shoal_policy::Probation`), as
//! `shoal_store::architectures` applies them. While there is unused space everything is taken;
//! later only objects requested again before long. Objects that RAM serves and the disk does not
//! have are offered to it. Hits of the disk alone count for the cursor. An object of several
//! records is never carried, since its pieces lie elsewhere. Left out are stripes that are worth
//! keeping as a whole.
//!
//! O(1) a request, and a step for each object that the cursor passes.

use super::footprint::Footprint;
use crate::curve::DiskTier;
use shoal_core::Key;
use shoal_policy::Probation;
use shoal_policy::reinsertion::{HITS_MAX, ReinsertionDecision, decide};
use std::collections::{HashMap, VecDeque};

/// A volume's log with its cursor.
pub(super) struct Log {
    footprint: Footprint,
    /// Bytes of the largest record that is taken.
    largest: u64,
    room: u64,
    used: u64,
    /// `true` if the cursor has been at the end.
    is_full: bool,
    /// Objects in the order of the log.
    order: VecDeque<u64>,
    held: HashMap<u64, LoggedObject>,
    probation: Probation,
    written: u64,
}

/// An object in the log.
struct LoggedObject {
    bytes: u64,
    hits: u8,
    /// `true` if the object has one record.
    is_whole: bool,
}

impl Log {
    /// Creates an empty volume with room for `room` bytes of records, for this share of the
    /// objects.
    pub(super) fn new(room: u64, rate: f64, footprint: Footprint) -> Self {
        let stripe = (room / STRIPES_WANTED).clamp(STRIPE_MIN, STRIPE_BYTES);
        // The stripe at the cursor is given up as a whole before it is filled.
        let left = room.saturating_sub(stripe / 2);
        Self {
            footprint,
            largest: left / LARGEST_SHARE,
            room: (left as f64 * rate) as u64,
            used: 0,
            is_full: false,
            order: VecDeque::new(),
            held: HashMap::new(),
            probation: Probation::default(),
            written: 0,
        }
    }

    fn offer(&mut self, object: u64, body_bytes: u64) {
        let bytes = self.footprint.volume(body_bytes);
        let is_too_large =
            body_bytes > self.footprint.object_max || bytes > self.largest || bytes > self.room;
        if is_too_large || !self.admits(object) {
            return;
        }
        self.written += 1;
        while self.used + bytes > self.room {
            self.is_full = true;
            self.advance();
        }
        self.used += bytes;
        self.order.push_back(object);
        let is_whole = self.footprint.is_one_record(body_bytes);
        let before = self.held.insert(object, LoggedObject { bytes, hits: 0, is_whole });
        debug_assert!(before.is_none(), "object {object} is written twice");
        debug_assert!(self.used <= self.room, "{} bytes in a log of {}", self.used, self.room);
        debug_assert_eq!(self.order.len(), self.held.len(), "the log has each object once");
    }

    fn admits(&mut self, object: u64) -> bool {
        let remembered = self.held.len().max(REMEMBERED_MIN);
        !self.is_full || self.probation.admits(Key::unkeyed(&object.to_le_bytes()), remembered)
    }

    /// Moves the cursor to the next object.
    fn advance(&mut self) {
        let Some(object) = self.order.pop_front() else {
            // The log is empty, and the caller's object fits an empty log.
            debug_assert_eq!(self.used, 0, "an empty log has no bytes");
            self.used = 0;
            return;
        };
        let Some(held) = self.held.get_mut(&object) else { return };
        let decision = match held.is_whole {
            true => decide(held.hits, held.bytes),
            false => ReinsertionDecision::Evict,
        };
        match decision {
            ReinsertionDecision::Reinsert(hits) => {
                held.hits = hits;
                self.order.push_back(object);
            }
            ReinsertionDecision::Evict => {
                self.used -= held.bytes;
                self.held.remove(&object);
            }
        }
    }
}

impl DiskTier for Log {
    fn request(&mut self, object: u64, body_bytes: u64) -> bool {
        if let Some(held) = self.held.get_mut(&object) {
            held.hits = (held.hits + 1).min(HITS_MAX);
            return true;
        }
        self.offer(object, body_bytes);
        false
    }

    fn answered_by_ram(&mut self, object: u64, body_bytes: u64) {
        if !self.held.contains_key(&object) {
            self.offer(object, body_bytes);
        }
    }

    fn ram_left(&self, ram_bytes: u64) -> u64 {
        const { assert!(NEIGHBOURHOOD_PERCENT < 100, "RAM is left") };
        ram_bytes - ram_bytes * NEIGHBOURHOOD_PERCENT / 100
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}

/// The default of `store.stripe`.
const STRIPE_BYTES: u64 = 1 << 20;
/// Number of stripes of a small volume, unless they would be smaller than the least.
const STRIPES_WANTED: u64 = 32;
const STRIPE_MIN: u64 = 256 << 10;
/// The default of `store.neighbourhood_percent`.
pub const NEIGHBOURHOOD_PERCENT: u64 = 10;
/// Divisor of a volume's size for its largest object.
pub(super) const LARGEST_SHARE: u64 = 4;
/// Least number of remembered keys.
const REMEMBERED_MIN: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        Log::new(1 << 20, 1.0, Footprint { head_bytes: 0, ..Footprint::default() })
    }

    #[test]
    fn full_log_takes_only_repeated_objects() {
        let mut log = log();
        assert!((0..80).all(|object| !log.request(object, 10_000)));
        assert!((0..80).all(|object| log.request(object, 10_000)), "all fits");
        (1000..1100).for_each(|object| {
            log.request(object, 10_000);
        });
        assert!(log.is_full && !log.held.contains_key(&1099), "it was asked for once");
        assert!(!log.request(1099, 10_000) && log.request(1099, 10_000));
        log.request(2000, 10_000);
        let written = log.written();
        log.answered_by_ram(2000, 10_000);
        assert!(log.held.contains_key(&2000), "RAM has shown that it is wanted");
        assert_eq!(log.written(), written + 1, "and what it shows is written");
        assert!(
            !log.request(3000, 1 << 19) && !log.request(3000, 1 << 19),
            "half of the volume is too large"
        );
        assert_eq!(log.used, log.held.values().map(|held| held.bytes).sum::<u64>());
        assert_eq!(log.order.len(), log.held.len());
    }

    #[test]
    fn cursor_carries_objects_hit_on_disk() {
        let mut log = log();
        (0..80).for_each(|object| {
            log.request(object, 10_000);
        });
        (0..3).for_each(|_| {
            log.request(7, 10_000);
        });
        for object in 100..180 {
            log.request(object, 10_000);
            log.request(object, 10_000);
        }
        assert!(log.held.contains_key(&7) && !log.held.contains_key(&8));
    }

    /// The store evicts a large object at the cursor, with any number of hits
    /// (`shoal_store::architectures::volume`). A log that carried it hit two points more of the
    /// bytes than a replay.
    #[test]
    fn cursor_carries_no_object_of_several_records() {
        let mut log = Log::new(4 << 20, 1.0, Footprint::default());
        let (one_record, several) = (64 << 10, (64 << 10) + 1);
        log.request(1, one_record - 2000);
        log.request(2, several);
        for _ in 0..4 {
            assert!(log.request(1, one_record - 2000) && log.request(2, several));
        }
        let mut object = 100;
        while !log.is_full || log.order.front() != Some(&1) && log.held.contains_key(&2) {
            log.request(object, 40_000);
            log.request(object, 40_000);
            object += 1;
        }
        assert!(log.held.contains_key(&1) && !log.held.contains_key(&2));
    }
}
