//! Log of the latest purges, from which peers are repaired.

use super::codec::PURGES_MAX;
use super::vector::LifeProgress;
use super::{LIVES_MAX, Purge, PurgeId, Vector};
use crate::route::NodeId;
use shoal_core::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Purges that the node applied last, in that order.
#[derive(Clone, Debug, Default)]
pub struct PurgeLog {
    entries: VecDeque<(Purge, Timestamp)>,
    bytes: usize,
    trimmed: BTreeMap<NodeId, TrimmedLives>,
}

/// Purges of an origin that the log has let go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TrimmedLives {
    /// For each life, the latest number that went.
    numbers: BTreeMap<u64, u64>,
    /// All lives up to this one may have lost purges.
    lost: Option<u64>,
}

/// Limits of a log. Entries beyond any of them go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogLimits {
    /// Most entries.
    pub entries: usize,
    /// Most bytes of entries, as they are encoded.
    pub bytes: usize,
    /// Longest stay of an entry, by the node's own clock.
    pub age: Duration,
}

/// Answer to a peer that may lack purges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Purges that the peer lacks, in the order of each life. Without any, it lacks none.
    Entries {
        /// The purges.
        purges: Vec<Purge>,
        /// `true` if the peer lacks more than these.
        has_more: bool,
    },
    /// The log does not reach back: the peer takes the vector, and validates all that it stored.
    Whole(Vector),
}

impl PurgeLog {
    /// Returns the log of a node with this vector, after a restart at `now`. `entries` are the last
    /// purges of some lives, each life without gaps.
    pub fn restored(vector: &Vector, entries: Vec<Purge>, now: Timestamp) -> Self {
        let mut ranges: BTreeMap<(NodeId, u64), (u64, u64)> = BTreeMap::new();
        for PurgeId { origin, life, number } in entries.iter().map(|purge| purge.id) {
            let (first, last) = ranges.entry((origin, life)).or_insert((number, number));
            (*first, *last) = (number.min(*first), number.max(*last));
        }
        let mut log = Self::default();
        for (origin, lives) in vector.origins() {
            let trimmed = log.trimmed.entry(*origin).or_default();
            trimmed.lost = lives.floor.checked_sub(1);
            for (life, at) in lives.lives.iter().filter(|(_, at)| at.number > 0) {
                // Entries that do not reach up to the vector repair nobody.
                let range = ranges.get(&(*origin, *life)).filter(|(_, last)| *last >= at.number);
                trimmed.note(*life, range.map_or(at.number, |(first, _)| first - 1));
            }
        }
        log.bytes = entries.iter().map(Purge::encoded_len).sum();
        log.entries = entries.into_iter().map(|purge| (purge, now)).collect();
        log
    }

    /// Adds a purge that was applied at `now`.
    pub fn push(&mut self, purge: Purge, now: Timestamp, limits: &LogLimits) {
        self.bytes += purge.encoded_len();
        self.entries.push_back((purge, now));
        self.trim(now, limits);
    }

    /// Lets go of entries beyond the limits.
    pub fn trim(&mut self, now: Timestamp, limits: &LogLimits) {
        while let Some((purge, at)) = self.entries.front() {
            let is_old = now.since(*at) > limits.age;
            if !is_old && self.entries.len() <= limits.entries && self.bytes <= limits.bytes {
                break;
            }
            let (id, bytes) = (purge.id, purge.encoded_len());
            self.bytes -= bytes;
            self.trimmed.entry(id.origin).or_default().note(id.life, id.number);
            self.entries.pop_front();
        }
        debug_assert!(self.entries.len() <= limits.entries, "a log beyond its limit");
    }

    /// Notes that the log lacks the purges that `after` covers and `before` did not.
    pub fn miss(&mut self, before: &Vector, after: &Vector) {
        for (origin, lives) in after.origins() {
            let trimmed = self.trimmed.entry(*origin).or_default();
            let floor = lives.floor.checked_sub(1).filter(|life| !before.is_retired(*origin, *life));
            trimmed.lost = trimmed.lost.max(floor);
            let grown = |(life, at): &(&u64, &LifeProgress)| at.number > before.number(*origin, **life);
            for (life, at) in lives.lives.iter().filter(grown) {
                trimmed.note(*life, at.number);
            }
        }
    }

    /// Returns the purges that a node with the vector `theirs` lacks, in at most `bytes`. `ours` is
    /// the vector of this node.
    pub fn repair(&self, ours: &Vector, theirs: &Vector, bytes: usize) -> Repair {
        if !self.reaches(theirs) {
            return Repair::Whole(ours.clone());
        }
        let (mut purges, mut room, mut has_more) = (Vec::new(), bytes, false);
        for (purge, _) in self.entries.iter().filter(|(purge, _)| !theirs.has(purge.id)) {
            if purge.encoded_len() > room || purges.len() == PURGES_MAX {
                has_more = true;
                break;
            }
            room -= purge.encoded_len();
            purges.push(purge.clone());
        }
        Repair::Entries { purges, has_more }
    }

    /// Returns the purges of one life after `number`, in at most `bytes`.
    pub fn after(&self, origin: NodeId, life: u64, number: u64, bytes: usize) -> Vec<Purge> {
        let is_of_life =
            |purge: &&Purge| purge.id.origin == origin && purge.id.life == life && purge.id.number > number;
        let mut room = bytes;
        let entries = self.entries.iter().map(|(purge, _)| purge).filter(is_of_life);
        let fitting = entries.take_while(|purge| {
            let fits = purge.encoded_len() <= room;
            room = room.saturating_sub(purge.encoded_len());
            fits
        });
        fitting.take(PURGES_MAX).cloned().collect()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if the log has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entries in the order of their application, with the time of each.
    pub fn entries(&self) -> impl Iterator<Item = &(Purge, Timestamp)> {
        self.entries.iter()
    }

    /// Returns `true` if a node with this vector lacks nothing that the log has let go.
    fn reaches(&self, theirs: &Vector) -> bool {
        self.trimmed.iter().all(|(origin, trimmed)| {
            let has = |(life, number): (&u64, &u64)| {
                theirs.has(PurgeId { origin: *origin, life: *life, number: *number })
            };
            trimmed.numbers.iter().all(has)
                && trimmed.lost.is_none_or(|life| theirs.is_retired(*origin, life))
        })
    }
}

impl TrimmedLives {
    /// Notes that purges of a life up to `number` went.
    fn note(&mut self, life: u64, number: u64) {
        if self.lost.is_some_and(|lost| life <= lost) {
            return;
        }
        if number == 0 {
            return;
        }
        let known = self.numbers.entry(life).or_default();
        *known = number.max(*known);
        if self.numbers.len() > LIVES_MAX {
            self.lost = self.lost.max(self.numbers.pop_first().map(|(life, _)| life));
        }
        debug_assert!(self.numbers.len() <= LIVES_MAX);
    }
}
