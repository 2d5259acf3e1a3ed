//! The volume as far as reads depend on it: places of the records, stripes as they are written, and
//! the objects that the cursor evicts and carries over.
//!
//! As in the store, sixteen connections complete their misses in any order. The records of a site
//! lie together in a stripe, and bodies of more than 64 KiB are kept in pieces. When no unused
//! space is left, a newcomer is on probation. Left out are parts of stripes, written because a
//! second has passed.

use super::{Trace, on_disk};
use shoal_core::Key;
use shoal_policy::Probation;
use shoal_policy::reinsertion::{HITS_MAX, ReinsertionDecision, decide};
use std::collections::{HashMap, VecDeque};

/// A volume. See the file's head.
pub struct Log<'a> {
    trace: &'a Trace,
    /// Records of each stripe, in order.
    pub stripes: Vec<Vec<Record>>,
    /// Places by object number.
    pub places: Vec<Place>,
    in_flight: Vec<u64>,
    queue: VecDeque<Waiting>,
    queued_bytes: u64,
    cursor: usize,
    is_full: bool,
    objects: usize,
    probation: Probation,
    random: u64,
    pub counts: Counts,
}

/// A record in its stripe, with offsets from the stripe's beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    pub object: u64,
    /// `None` for the object's own.
    pub piece: Option<u32>,
    pub at: u64,
    pub bytes: u64,
    /// The record begins a group.
    pub begins: bool,
}

/// Place of an object.
#[derive(Clone, Debug, Default)]
pub struct Place {
    pub is_waiting: bool,
    /// Position of the object's own record; 0 for none.
    pub position: u64,
    pub pieces: Vec<u64>,
    hits: u8,
}

/// A record that waits to be written.
#[derive(Clone, Copy)]
struct Waiting {
    object: u64,
    piece: Option<u32>,
    bytes: u64,
    hits: u8,
}

/// Counts of the cursor's work.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub reads: u64,
    pub bytes_read: u64,
    pub stripes_written: u64,
}

impl<'a> Log<'a> {
    pub fn new(trace: &'a Trace, disk_bytes: u64) -> Self {
        let stripes = (disk_bytes / STRIPE_BYTES).max(2) as usize;
        Self {
            trace,
            stripes: vec![Vec::new(); stripes],
            places: vec![Place::default(); trace.bytes.len()],
            in_flight: Vec::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            cursor: stripes - 1,
            is_full: false,
            objects: 0,
            probation: Probation::default(),
            random: 1,
            counts: Counts::default(),
        }
    }

    pub fn holds(&self, object: u64) -> bool {
        let place = &self.places[object as usize];
        place.is_waiting || place.position != 0
    }

    pub fn count_hit(&mut self, object: u64) {
        let hits = &mut self.places[object as usize].hits;
        *hits = (*hits + 1).min(HITS_MAX);
    }

    /// Hits counted since the object was written.
    pub fn hits(&self, object: u64) -> u8 {
        self.places[object as usize].hits
    }

    /// Returns `true` if this record, in this stripe, is current: its object can be found there.
    pub fn is_live(&self, stripe: usize, record: &Record) -> bool {
        let (place, position) = (&self.places[record.object as usize], position(stripe, record.at));
        match record.piece {
            None => place.position == position,
            Some(piece) => place.position != 0 && place.pieces.get(piece as usize) == Some(&position),
        }
    }

    /// Takes an object that was missed. Returns the stripes written.
    pub fn miss(&mut self, object: u64) -> Vec<usize> {
        if self.in_flight.contains(&object) || !self.admits(object) {
            return Vec::new();
        }
        self.in_flight.push(object);
        if self.in_flight.len() <= IN_FLIGHT {
            return Vec::new();
        }
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let chosen = (self.random >> 33) as usize % self.in_flight.len();
        let completed = self.in_flight.remove(chosen);
        if self.holds(completed) { Vec::new() } else { self.insert(completed) }
    }

    /// Takes an object that RAM holds and the disk does not. Returns the stripes written.
    pub fn offer(&mut self, object: u64) -> Vec<usize> {
        if self.admits(object) { self.insert(object) } else { Vec::new() }
    }

    fn admits(&mut self, object: u64) -> bool {
        let is_taken = self.trace.bytes[object as usize] <= ALWAYS_BYTES || !self.is_full;
        is_taken || self.probation.admits(Key::unkeyed(&object.to_le_bytes()), self.objects.max(1024))
    }

    fn insert(&mut self, object: u64) -> Vec<usize> {
        let body = self.trace.bytes[object as usize];
        self.places[object as usize] = Place { is_waiting: true, ..Place::default() };
        let pieces = if body > PIECE_BYTES { body.div_ceil(PIECE_BYTES) } else { 0 };
        for piece in 0..pieces {
            let bytes = on_disk((body - piece * PIECE_BYTES).min(PIECE_BYTES));
            self.push(Waiting { object, piece: Some(piece as u32), bytes, hits: 0 }, false);
        }
        let bytes = if pieces > 0 { on_disk(LARGE_ROOM + 16 * pieces) } else { on_disk(body) };
        self.push(Waiting { object, piece: None, bytes, hits: 0 }, false);
        let mut written = Vec::new();
        while self.queued_bytes >= STRIPE_BYTES + STRIPE_BYTES / 8 {
            self.move_on();
            self.write();
            written.push(self.cursor);
        }
        written
    }

    fn push(&mut self, waiting: Waiting, is_carried: bool) {
        self.queued_bytes += waiting.bytes + ITEM_BYTES;
        match is_carried {
            true => self.queue.push_front(waiting),
            false => self.queue.push_back(waiting),
        }
    }

    fn write(&mut self) {
        let mut batch = self.take(STRIPE_BYTES - 4 * ITEM_BYTES);
        let mut ranks = HashMap::new();
        let sites = &self.trace.sites;
        let group = |waiting: &Waiting| match waiting.piece {
            Some(_) => (0, waiting.object),
            None => (1, sites[waiting.object as usize]),
        };
        for waiting in &batch {
            let next = ranks.len();
            ranks.entry(group(waiting)).or_insert(next);
        }
        batch.sort_by_key(|waiting| (group(waiting).0, ranks[&group(waiting)]));
        let (mut at, mut before) = (64, None);
        for waiting in batch {
            let Waiting { object, piece, bytes, hits } = waiting;
            let begins = before.replace(group(&waiting)) != Some(group(&waiting));
            self.stripes[self.cursor].push(Record { object, piece, at, bytes, begins });
            let place = &mut self.places[object as usize];
            match piece {
                Some(_) => place.pieces.push(position(self.cursor, at)),
                None => {
                    *place = Place {
                        is_waiting: false,
                        position: position(self.cursor, at),
                        hits,
                        ..place.clone()
                    };
                    self.objects += 1;
                }
            }
            at += bytes;
        }
        self.counts.stripes_written += 1;
    }

    /// Takes the objects that fit, in order. Objects too large for the remaining room are passed
    /// over.
    fn take(&mut self, mut room: u64) -> Vec<Waiting> {
        let (mut batch, mut passed_over, mut at) = (Vec::new(), Vec::new(), 0);
        while at < self.queue.len() && passed_over.len() < LOOK_AHEAD {
            let Waiting { object, bytes, .. } = self.queue[at];
            if bytes + ITEM_BYTES <= room && !passed_over.contains(&object) {
                room -= bytes + ITEM_BYTES;
                self.queued_bytes -= bytes + ITEM_BYTES;
                batch.extend(self.queue.remove(at));
            } else {
                passed_over.push(object);
                at += 1;
            }
        }
        batch
    }

    /// Moves the cursor on to a stripe that is not worth keeping as it is.
    fn move_on(&mut self) {
        loop {
            self.cursor = (self.cursor + 1) % self.stripes.len();
            self.is_full |= self.cursor == self.stripes.len() - 1;
            if self.reclaim(self.cursor) {
                return self.stripes[self.cursor].clear();
            }
        }
    }

    fn reclaim(&mut self, stripe: usize) -> bool {
        let records = self.stripes[stripe].clone();
        if records.is_empty() {
            return true;
        }
        self.count_read(records.len() as u64 * ITEM_BYTES);
        let live: Vec<Record> = records
            .iter()
            .filter(|record| record.piece.is_none() && self.is_live(stripe, record))
            .copied()
            .collect();
        let verdicts: Vec<ReinsertionDecision> = live.iter().map(|record| self.judge(record)).collect();
        let carried = |(_, verdict): &(&Record, &ReinsertionDecision)| {
            matches!(verdict, ReinsertionDecision::Reinsert(_))
        };
        let wanted: Vec<&Record> =
            live.iter().zip(&verdicts).filter(carried).map(|(record, _)| record).collect();
        if wanted.iter().map(|record| record.bytes).sum::<u64>() > STRIPE_BYTES * KEPT_PERCENT / 100 {
            for (record, verdict) in live.iter().zip(&verdicts) {
                let hits = if let ReinsertionDecision::Reinsert(hits) = verdict { *hits } else { 0 };
                self.places[record.object as usize].hits = hits;
            }
            return false;
        }
        for run in wanted.chunk_by(|one, next| next.at <= one.at + one.bytes + GAP_MAX) {
            self.count_read(run[run.len() - 1].at + run[run.len() - 1].bytes - run[0].at);
        }
        for (record, verdict) in live.iter().zip(&verdicts).rev() {
            self.give_up(record.object);
            if let ReinsertionDecision::Reinsert(hits) = verdict {
                self.places[record.object as usize].is_waiting = true;
                let Record { object, bytes, .. } = *record;
                self.push(Waiting { object, piece: None, bytes, hits: *hits }, true);
            }
        }
        // A large object that loses a piece goes as a whole.
        for record in records.iter().filter(|record| record.piece.is_some()) {
            if self.is_live(stripe, record) {
                self.count_read(PAGE);
                self.give_up(record.object);
            }
        }
        true
    }

    fn judge(&self, record: &Record) -> ReinsertionDecision {
        let place = &self.places[record.object as usize];
        if place.pieces.is_empty() { decide(place.hits, record.bytes) } else { ReinsertionDecision::Evict }
    }

    fn give_up(&mut self, object: u64) {
        self.places[object as usize] = Place::default();
        self.objects -= 1;
    }

    fn count_read(&mut self, bytes: u64) {
        self.counts.reads += 1;
        self.counts.bytes_read += bytes.next_multiple_of(PAGE);
    }
}

/// Returns the disk position of an offset in a stripe.
pub fn position(stripe: usize, at: u64) -> u64 {
    stripe as u64 * STRIPE_BYTES + at
}

pub const STRIPE_BYTES: u64 = 1 << 20;
pub const PIECE_BYTES: u64 = 64 << 10;
pub const PAGE: u64 = 4096;
const IN_FLIGHT: usize = 16;
const ITEM_BYTES: u64 = 32;
const LARGE_ROOM: u64 = 1024;
const ALWAYS_BYTES: u64 = 512;
const LOOK_AHEAD: usize = 32;
const KEPT_PERCENT: u64 = 60;
const GAP_MAX: u64 = 32 << 10;
