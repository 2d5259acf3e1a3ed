//! Changes of the index: numbers claimed, charged, committed, retired, freed.

mod edit;
mod free;

pub(super) use edit::{Change, weigh};

use super::layout::{
    CEILING_AT, CHARGED_AT, EntryState, FRESH_AT, HAND_AT, IndexEntry, SEALED_MAX, with_policy_bits,
};
use super::words::PAGE_WORDS;
use super::{Index, IndexSession, IndexedObject};
use shoal_core::Key;
use shoal_policy::HandDecision;
use std::io;

/// Outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This number is the caller's, to be committed or freed.
    Number(u32),
    /// All numbers are in use; evicting an object helps.
    Exhausted,
    /// Too many objects are in transition.
    Crowded,
}

/// Outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// The space belongs to the caller.
    Done,
    /// The limit is reached; evicting objects helps.
    Full,
    /// The ceiling must be raised first.
    AtCeiling,
}

/// Reason why a commit did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitRefusal {
    /// The object to be replaced is no longer there.
    Superseded,
    /// Too many keys are in one bucket.
    Crowded,
}

/// Result of one sweep of the hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandStep {
    /// This number is busy now. The caller removes its file, then frees the number.
    Victim(u32),
    /// A lost number is free again.
    Reclaimed,
    /// The hand passed this number of entries without a victim.
    Passed(u32),
}

impl Index {
    /// Takes a number that has no file, and sets its side word.
    pub(crate) fn claim(&self, side: u64) -> Claim {
        let mut live = self.live.write();
        // The rest of the berths is kept for removals, which make room. Before a survey of the
        // folders, the numbers with files are unknown.
        let is_unknown = live.audit.as_ref().is_some_and(|audit| audit.is_surveying_unknown());
        if live.free_berths.len() as u32 <= self.geometry.berths / 4 || is_unknown {
            return Claim::Crowded;
        }
        let mut change = self.change(&mut live);
        let claimed = change.pick();
        if let Some(number) = claimed {
            change.make_busy(number);
            change.set_side(number, side);
        }
        change.commit();
        claimed.map_or(Claim::Exhausted, Claim::Number)
    }

    /// Takes a busy number for another object, with this side word. The file stays. Returns the
    /// blocks that the number is charged.
    pub(crate) fn reuse(&self, number: u32, side: u64) -> Option<u32> {
        let mut live = self.live.write();
        let entry = self.entry(number).filter(|entry| entry.state == EntryState::Busy)?;
        let mut change = self.change(&mut live);
        change.put(number, IndexEntry { generation: entry.generation.wrapping_add(1), ..entry });
        change.set_side(number, side);
        change.commit();
        Some(entry.blocks)
    }

    /// Returns the lowest free number in the map; `None` if there is none, or no map.
    pub(crate) fn lowest_free(&self) -> Option<u32> {
        let _live = self.live.read();
        self.free_map.as_ref()?.find(&|at| self.words.load(at), 0)
    }

    /// Returns `true` if `blocks` more may be charged without evicting an object.
    pub(crate) fn has_room(&self, blocks: u64) -> bool {
        self.sealed(CHARGED_AT) + blocks <= self.limit_blocks()
    }

    /// Charges `blocks` in all for a busy number.
    pub(crate) fn charge(&self, number: u32, blocks: u32) -> Charge {
        let mut live = self.live.write();
        let Some(entry) = self.entry(number).filter(|entry| entry.state == EntryState::Busy) else {
            return Charge::Full;
        };
        let after = (self.sealed(CHARGED_AT) + u64::from(blocks)).saturating_sub(u64::from(entry.blocks));
        if blocks > entry.blocks && after > live.limit {
            return Charge::Full;
        }
        if after > live.durable_ceiling {
            return Charge::AtCeiling;
        }
        debug_assert!(blocks <= entry.blocks || after <= live.limit, "charged above the limit");
        let mut change = self.change(&mut live);
        change.put(number, IndexEntry { blocks, ..entry });
        change.commit();
        Charge::Done
    }

    /// Raises the ceiling on disk, so that charges may rise by `blocks`. Adds a step, so that the
    /// next call is far off.
    pub(crate) fn raise_ceiling(&self, blocks: u64) -> io::Result<()> {
        let _raising = self.raising.lock();
        let ceiling = {
            let mut live = self.live.write();
            let needed = self.sealed(CHARGED_AT) + blocks;
            if needed <= live.durable_ceiling {
                return Ok(());
            }
            let step = (live.limit / CEILING_STEPS).max(CEILING_STEP_MIN);
            let ceiling = (needed + step).min(live.limit.max(needed)).min(SEALED_MAX);
            let mut change = self.change(&mut live);
            change.set(CEILING_AT, ceiling);
            change.commit();
            ceiling
        };
        self.words.sync(0, PAGE_WORDS)?;
        assert!(ceiling <= SEALED_MAX);
        self.live.write().durable_ceiling = ceiling;
        Ok(())
    }

    /// Makes a busy number the object of `key`, and unlinks the older object in the same step.
    /// Returns the older numbers, which are busy now; more than one only after a power loss.
    ///
    /// With `instead_of`, commits only if that is the key's present object. With `side`, sets the
    /// number's side word in the same step.
    pub(crate) fn commit(
        &self,
        number: u32,
        key: Key,
        blocks: u32,
        instead_of: Option<IndexedObject>,
        side: Option<u64>,
    ) -> Result<Vec<u32>, CommitRefusal> {
        let mut live = self.live.write();
        if let Some(expected) = instead_of {
            let is_there = |found: IndexedObject| {
                (found.number, found.generation) == (expected.number, expected.generation)
            };
            if !self.find(key).is_some_and(is_there) {
                return Err(CommitRefusal::Superseded);
            }
        }
        let mut change = self.change(&mut live);
        change.check_room(key)?;
        let older = change.unlink_key(key);
        change.link(number, key, blocks);
        if let Some(side) = side {
            change.set_side(number, side);
        }
        change.commit();
        Ok(older)
    }

    /// Commits like [`Index::commit`], for a file that existed before: the total includes its space
    /// already.
    pub(crate) fn adopt(&self, number: u32, key: Key, blocks: u32) -> Result<Vec<u32>, CommitRefusal> {
        let mut live = self.live.write();
        let mut change = self.change(&mut live);
        let charged = change.get(CHARGED_AT);
        change.check_room(key)?;
        let older = change.unlink_key(key);
        change.link(number, key, blocks);
        change.set(CHARGED_AT, charged);
        change.commit();
        Ok(older)
    }

    /// Unlinks the object of `key`. Returns its numbers, which are busy now; more than one only
    /// after a power loss.
    pub(crate) fn retire_key(&self, key: Key) -> Vec<u32> {
        let mut live = self.live.write();
        let mut change = self.change(&mut live);
        let retired = change.unlink_key(key);
        change.commit();
        retired
    }

    /// Unlinks a stored object if it still is the same. The number is busy then.
    pub(crate) fn retire(&self, number: u32, generation: u8) -> bool {
        let mut live = self.live.write();
        let stored = |entry: &IndexEntry| entry.state == EntryState::Stored && entry.generation == generation;
        let Some(entry) = self.entry(number).filter(stored) else { return false };
        let mut change = self.change(&mut live);
        change.unlink_number(number, &entry);
        change.commit();
        true
    }

    /// Unlinks like [`Index::retire`], unless the object is in use. No thread can begin to use it
    /// in between.
    pub(crate) fn retire_unless(&self, found: IndexedObject, in_use: impl FnOnce() -> bool) -> bool {
        let mut live = self.live.write();
        let stored =
            |entry: &IndexEntry| entry.state == EntryState::Stored && entry.generation == found.generation;
        let Some(entry) = self.entry(found.number).filter(stored).filter(|_| !in_use()) else { return false };
        let mut change = self.change(&mut live);
        change.unlink_number(found.number, &entry);
        change.commit();
        true
    }

    /// Frees a busy number without a file. `measured` is the space that the file took, for entries
    /// with unreliable charges (see [`Index::is_measured`]).
    pub(crate) fn free(&self, number: u32, measured: Option<u64>) {
        let mut live = self.live.write();
        let Some(entry) = self.entry(number).filter(|entry| entry.state == EntryState::Busy) else { return };
        let mut change = self.change(&mut live);
        change.free(number, &entry);
        if let Some(blocks) = measured {
            let charged = change.get(CHARGED_AT) + u64::from(entry.blocks);
            change.set(CHARGED_AT, charged.saturating_sub(blocks).min(SEALED_MAX));
        }
        change.commit();
    }

    /// Moves the hand to the next victim, over a bounded number of entries. Passes over numbers for
    /// which `in_use` returns `true`.
    pub(crate) fn sweep(&self, in_use: impl Fn(u32) -> bool) -> HandStep {
        let mut live = self.live.write();
        let fresh = self.sealed(FRESH_AT) as u32;
        let mut hand = self.sealed(HAND_AT) as u32;
        for passed in 0..SWEEP_MAX.min(fresh) {
            let number = if hand < fresh { hand } else { 0 };
            hand = number + 1;
            let swept = match self.entry(number) {
                None => {
                    self.report_damage();
                    None
                }
                Some(entry) if entry.state == EntryState::Stored => {
                    self.pass(&mut live, number, &entry, &in_use)
                }
                Some(entry) if entry.state == EntryState::Free => {
                    self.reclaim_lost(&mut live, number, &entry)
                }
                // A removal of an earlier session, for which no berth was left.
                Some(_) if !live.busy.contains_key(&number) => {
                    live.busy.insert(number, None);
                    Some(HandStep::Victim(number))
                }
                Some(_) => None,
            };
            if passed + 1 == SWEEP_MAX.min(fresh) || swept.is_some() {
                self.store_sealed(HAND_AT, u64::from(hand));
            }
            if let Some(swept) = swept {
                return swept;
            }
        }
        HandStep::Passed(SWEEP_MAX.min(fresh))
    }

    /// Returns the number of entries ever used: those of a full round of the hand.
    pub(crate) fn round(&self) -> u64 {
        self.sealed(FRESH_AT)
    }

    /// Returns the most rounds that an object survives without hits.
    pub(crate) fn rounds_max(&self) -> u64 {
        u64::from(self.policy.rounds_max())
    }

    fn pass(
        &self,
        live: &mut IndexSession,
        number: u32,
        entry: &IndexEntry,
        in_use: &impl Fn(u32) -> bool,
    ) -> Option<HandStep> {
        if in_use(number) {
            return None;
        }
        match self.policy.on_pass(entry.policy_bits) {
            HandDecision::Keep(bits) => {
                let at = self.geometry.entry(number) + 2;
                self.words.store(at, with_policy_bits(self.words.load(at), bits));
                None
            }
            HandDecision::Evict => {
                let mut change = self.change(live);
                change.unlink_number(number, entry);
                change.commit();
                Some(HandStep::Victim(number))
            }
        }
    }

    /// Lists a free number that is on no list, for instance since a power loss.
    pub(super) fn reclaim_lost(
        &self,
        live: &mut IndexSession,
        number: u32,
        entry: &IndexEntry,
    ) -> Option<HandStep> {
        let mut change = self.change(live);
        let is_lost = !change.is_listed(number, entry) && change.audit_is_past(number);
        if is_lost {
            change.list(number, entry);
        }
        change.commit();
        is_lost.then_some(HandStep::Reclaimed)
    }
}

/// Entries that the hand passes under one hold of the lock.
const SWEEP_MAX: u32 = 512;
/// Steps of the ceiling up to the limit.
const CEILING_STEPS: u64 = 64;
/// Smallest step of the ceiling, in blocks.
const CEILING_STEP_MIN: u64 = 1024;

const _: () = assert!(CEILING_STEPS > 0 && SWEEP_MAX > 0);
