//! Vector: for each origin and life, the highest number applied without gaps.
//!
//! A life is *ended* once its last number is known from a later life's first purge. The oldest
//! lives of an origin are retired as soon as they are ended and complete: all nodes that know the
//! later life know the same end. The hash is a sum over the entries. Equal vectors therefore have
//! equal hashes, in any order of their purges, and a change costs one addition.

use super::{PurgeId, Scope};
use crate::route::NodeId;
use shoal_core::Key;
use std::collections::BTreeMap;

/// Purges that a node has applied.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Vector {
    origins: BTreeMap<NodeId, OriginLives>,
    hash: u64,
}

/// Lives of one origin.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct OriginLives {
    /// All purges of earlier lives than this are applied, or count as applied.
    pub floor: u64,
    pub lives: BTreeMap<u64, LifeProgress>,
}

/// Purges of one life.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct LifeProgress {
    /// Highest number applied without gaps; 0 if only the life's end is known.
    pub number: u64,
    /// Last number of the life, once known.
    pub end: Option<u64>,
}

/// Consequence of an advance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum VectorChange {
    /// The number is now covered.
    Advanced,
    /// The number was covered, or does not follow the last one.
    Unchanged,
    /// The number is covered. An incomplete life was given up to keep the vector small: responses
    /// stored so far need validation.
    Uncertain,
    /// The vector has no room for another origin.
    Full,
}

impl Vector {
    /// Returns a number that is equal for equal vectors.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the highest number applied without gaps.
    pub fn number(&self, origin: NodeId, life: u64) -> u64 {
        self.origins.get(&origin).and_then(|lives| lives.lives.get(&life)).map_or(0, |at| at.number)
    }

    /// Returns `true` if the purge is applied.
    pub fn has(&self, id: PurgeId) -> bool {
        self.is_retired(id.origin, id.life) || self.number(id.origin, id.life) >= id.number
    }

    /// Returns `true` if the life is older than all lives that the vector keeps.
    pub fn is_retired(&self, origin: NodeId, life: u64) -> bool {
        self.origins.get(&origin).is_some_and(|lives| life < lives.floor)
    }

    /// Returns `true` if the vector can take purges of this origin.
    pub fn has_room(&self, origin: NodeId) -> bool {
        self.origins.contains_key(&origin) || self.origins.len() < ORIGINS_MAX
    }

    /// Returns `true` if each purge that `other` covers is covered here too.
    pub fn covers(&self, other: &Self) -> bool {
        other.origins.iter().all(|(origin, theirs)| {
            let mut numbers = theirs.lives.iter().filter(|(_, at)| at.number > 0);
            numbers.all(|(life, at)| self.has(PurgeId { origin: *origin, life: *life, number: at.number }))
                && self.is_complete_below(*origin, theirs.floor)
        })
    }

    /// Returns `true` if no life below `floor` is known to lack purges. A node with a
    /// later life knows the ends of the retired ones.
    fn is_complete_below(&self, origin: NodeId, floor: u64) -> bool {
        let Some(ours) = self.origins.get(&origin) else { return floor == 0 };
        ours.lives.range(..floor).all(|(_, at)| at.end.is_none_or(|end| at.number >= end))
    }

    /// Records the purge, which must be applied by now, if it follows the last of its life.
    pub fn advance(&mut self, id: PurgeId, scope: &Scope) -> VectorChange {
        if self.has(id) || id.number != self.number(id.origin, id.life) + 1 {
            return VectorChange::Unchanged;
        }
        if !self.has_room(id.origin) {
            return VectorChange::Full;
        }
        self.update(id.origin, |lives| {
            lives.lives.entry(id.life).or_default().number = id.number;
            if let Scope::Start { ended } = scope {
                for (life, last) in ended.iter().filter(|(life, _)| *life < id.life) {
                    lives.end(*life, *last);
                }
            }
            lives.retire()
        })
    }

    /// Takes over all that `other` covers, although its purges were not applied one by one.
    pub fn merge(&mut self, other: &Self) -> VectorChange {
        let mut change = VectorChange::Unchanged;
        for (origin, theirs) in &other.origins {
            if !self.has_room(*origin) {
                return VectorChange::Full;
            }
            let merged = self.update(*origin, |lives| {
                lives.floor = lives.floor.max(theirs.floor);
                for (life, at) in &theirs.lives {
                    let known = lives.lives.entry(*life).or_default();
                    known.number = known.number.max(at.number);
                    known.end = known.end.max(at.end);
                }
                let floor = lives.floor;
                lives.lives.retain(|life, _| *life >= floor);
                lives.retire()
            });
            if merged == VectorChange::Uncertain || change == VectorChange::Unchanged {
                change = merged;
            }
        }
        change
    }

    /// Returns the lives of an origin that have a number, each with it.
    pub fn lives_of(&self, origin: NodeId) -> Vec<(u64, u64)> {
        let lives = self.origins.get(&origin).into_iter().flat_map(|lives| &lives.lives);
        lives.map(|(life, at)| (*life, at.number)).filter(|(_, number)| *number > 0).collect()
    }

    /// Returns the vector without the lives of `node` from `life` on.
    pub fn without_lives_from(&self, node: NodeId, life: u64) -> Self {
        let mut others = self.clone();
        if others.origins.contains_key(&node) {
            let _ = others.update(node, |lives| {
                lives.floor = lives.floor.min(life);
                lives.lives.retain(|known, _| *known < life);
                VectorChange::Unchanged
            });
        }
        others
    }

    /// Returns the sum of all numbers: the difference of two nodes' sums is their lag.
    pub fn total(&self) -> u64 {
        let lives = self.origins.values().flat_map(|lives| lives.lives.values());
        lives.fold(0, |sum, at| sum.saturating_add(at.number))
    }

    pub(super) fn origins(&self) -> impl ExactSizeIterator<Item = (&NodeId, &OriginLives)> {
        self.origins.iter()
    }

    /// Builds a vector from its parts; `None` if they are out of bounds.
    pub(super) fn of(origins: BTreeMap<NodeId, OriginLives>) -> Option<Self> {
        let is_sound = |lives: &OriginLives| {
            lives.lives.len() <= LIVES_MAX
                && lives.lives.iter().all(|(life, at)| {
                    *life >= lives.floor
                        && at.end.is_none_or(|end| end > 0)
                        && (at.number > 0 || at.end.is_some())
                })
        };
        if origins.len() > ORIGINS_MAX || !origins.values().all(is_sound) {
            return None;
        }
        let hash = origins.iter().fold(0u64, |sum, (origin, lives)| sum.wrapping_add(lives.hash(*origin)));
        Some(Self { origins, hash })
    }

    fn update(
        &mut self,
        origin: NodeId,
        change: impl FnOnce(&mut OriginLives) -> VectorChange,
    ) -> VectorChange {
        let lives = self.origins.entry(origin).or_default();
        let before = lives.hash(origin);
        let changed = change(lives);
        assert!(lives.lives.len() <= LIVES_MAX, "lives of a node without a bound");
        self.hash = self.hash.wrapping_sub(before).wrapping_add(lives.hash(origin));
        debug_assert!(lives.lives.keys().all(|life| *life >= lives.floor), "a life below the floor");
        changed
    }
}

impl OriginLives {
    /// Notes that a life has ended with the purge `last`.
    fn end(&mut self, life: u64, last: u64) {
        if life >= self.floor && last > 0 {
            let at = self.lives.entry(life).or_default();
            at.end = at.end.max(Some(last));
        }
    }

    /// Retires the oldest lives that are ended and complete; the latest life stays. Beyond
    /// [`LIVES_MAX`] the oldest goes, complete or not.
    fn retire(&mut self) -> VectorChange {
        let mut change = VectorChange::Advanced;
        while self.lives.len() > 1 {
            let (_, at) = self.lives.first_key_value().expect("two lives");
            let is_complete = at.end.is_some_and(|end| at.number >= end);
            if !is_complete && self.lives.len() <= LIVES_MAX {
                break;
            }
            if !is_complete {
                change = VectorChange::Uncertain;
            }
            self.lives.pop_first();
            self.floor = *self.lives.first_key_value().expect("one life").0;
        }
        change
    }

    fn hash(&self, origin: NodeId) -> u64 {
        let entries = self.lives.iter().filter(|(_, at)| at.number > 0);
        entries.fold(0u64, |sum, (life, at)| {
            let numbers = [origin.0, *life, at.number];
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            sum.wrapping_add(Key::unkeyed(&bytes).low())
        })
    }
}

/// Most origins of a vector.
pub const ORIGINS_MAX: usize = 1024;

/// Most lives of an origin that a vector keeps.
pub const LIVES_MAX: usize = 8;
