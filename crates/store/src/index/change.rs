//! What changes the index: numbers claimed, charged, committed, retired, freed.

use super::chain::{CHAIN_MAX, Chain, Link, read_entry};
use super::journal::Transaction;
use super::layout::{
    CEILING_AT, CHARGED_AT, Entry, FREE_AT, FREE_LIST_AT, FRESH_AT, HAND_AT, OBJECTS_AT, SEALED_MAX, State,
    seal, unseal, with_policy_bits,
};
use super::words::PAGE_WORDS;
use super::{Found, Index, Live};
use shoal_core::Key;
use shoal_policy::Passing;
use std::io;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This number is the caller's, to be committed or freed.
    Number(u32),
    /// All numbers are in use; giving up an object helps.
    Exhausted,
    /// Too many objects are in transition.
    Crowded,
}

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// The space is the caller's.
    Done,
    /// The limit stands in the way; giving up objects helps.
    Full,
    /// The ceiling must be raised first.
    AtCeiling,
}

/// Why a commit did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The object that was to be replaced is no longer there.
    Superseded,
    /// Too many keys in one bucket.
    Crowded,
}

/// What the hand met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swept {
    /// This number is busy now; its file is to be removed, then the number freed.
    Victim(u32),
    /// A number that had been lost is free again.
    Reclaimed,
    /// So many entries passed and none given up.
    Passed(u32),
}

impl Index {
    /// Takes a number that has no file.
    pub(crate) fn claim(&self) -> Claim {
        let mut live = self.live.write();
        // The rest of the slots is kept for removals, which make room.
        if live.free_slots.len() as u32 <= self.geometry.slots / 4 {
            return Claim::Crowded;
        }
        let mut change = self.change(&mut live);
        let claimed = change.pop_free().or_else(|| change.pop_fresh());
        if let Some(number) = claimed {
            change.make_busy(number);
        }
        change.commit();
        claimed.map_or(Claim::Exhausted, Claim::Number)
    }

    /// Charges `blocks` in all for a busy number.
    pub(crate) fn charge(&self, number: u32, blocks: u32) -> Charge {
        let mut live = self.live.write();
        let Some(entry) = self.entry(number).filter(|entry| entry.state == State::Busy) else {
            return Charge::Full;
        };
        let after = (self.sealed(CHARGED_AT) + u64::from(blocks)).saturating_sub(u64::from(entry.blocks));
        if blocks > entry.blocks && after > live.limit {
            return Charge::Full;
        }
        if after > live.durable_ceiling {
            return Charge::AtCeiling;
        }
        let mut change = self.change(&mut live);
        change.put(number, Entry { blocks, ..entry });
        change.commit();
        Charge::Done
    }

    /// Promises on disk that charges may rise by `blocks`, and some more so that this is rarely needed.
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
        self.live.write().durable_ceiling = ceiling;
        Ok(())
    }

    /// Makes a busy number the object of `key`, in one step with taking the older object's place. Returns the
    /// numbers that had it (more than one only after a power loss), which are busy now. With `instead_of`, only if that is the object which `key` has.
    pub(crate) fn commit(
        &self,
        number: u32,
        key: Key,
        blocks: u32,
        instead_of: Option<Found>,
    ) -> Result<Vec<u32>, Refusal> {
        let mut live = self.live.write();
        if let Some(expected) = instead_of {
            let is_there =
                |found: Found| (found.number, found.generation) == (expected.number, expected.generation);
            if !self.find(key).is_some_and(is_there) {
                return Err(Refusal::Superseded);
            }
        }
        let mut change = self.change(&mut live);
        change.check_room(key)?;
        let older = change.unlink_key(key);
        change.link(number, key, blocks);
        change.commit();
        Ok(older)
    }

    /// Like [`Index::commit`], for a file that was there before: its space is in the total already.
    pub(crate) fn adopt(&self, number: u32, key: Key, blocks: u32) -> Result<Vec<u32>, Refusal> {
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

    /// Takes the object of `key` out of sight: its numbers (more than one only after a power loss) are busy now.
    pub(crate) fn retire_key(&self, key: Key) -> Vec<u32> {
        let mut live = self.live.write();
        let mut change = self.change(&mut live);
        let retired = change.unlink_key(key);
        change.commit();
        retired
    }

    /// Takes a stored object out of sight if it still is the same: the number is busy now.
    pub(crate) fn retire(&self, number: u32, generation: u8) -> bool {
        let mut live = self.live.write();
        let stored = |entry: &Entry| entry.state == State::Stored && entry.generation == generation;
        let Some(entry) = self.entry(number).filter(stored) else { return false };
        let mut change = self.change(&mut live);
        change.unlink_number(number, &entry);
        change.commit();
        true
    }

    /// Frees a busy number whose file is gone. `measured` is the space that the file took, where the entry's word
    /// for it cannot be relied on (see [`Index::is_measured`]).
    pub(crate) fn free(&self, number: u32, measured: Option<u64>) {
        let mut live = self.live.write();
        let Some(entry) = self.entry(number).filter(|entry| entry.state == State::Busy) else { return };
        let mut change = self.change(&mut live);
        change.free(number, &entry);
        if let Some(blocks) = measured {
            let charged = change.get(CHARGED_AT) + u64::from(entry.blocks);
            change.set(CHARGED_AT, charged.saturating_sub(blocks).min(SEALED_MAX));
        }
        change.commit();
    }

    /// Moves the hand until it meets an object to give up, over a bounded number of entries. `in_use` are passed
    /// over.
    pub(crate) fn sweep(&self, in_use: impl Fn(u32) -> bool) -> Swept {
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
                Some(entry) if entry.state == State::Stored => self.pass(&mut live, number, &entry, &in_use),
                Some(entry) if entry.state == State::Free => self.reclaim_lost(&mut live, number, &entry),
                Some(_) => None,
            };
            if passed + 1 == SWEEP_MAX.min(fresh) || swept.is_some() {
                self.store_sealed(HAND_AT, u64::from(hand));
            }
            if let Some(swept) = swept {
                return swept;
            }
        }
        Swept::Passed(SWEEP_MAX.min(fresh))
    }

    /// Entries in use or used once: what a full round of the hand passes.
    pub(crate) fn round(&self) -> u64 {
        self.sealed(FRESH_AT)
    }

    /// Most rounds that an object survives which nobody asks for.
    pub(crate) fn rounds_max(&self) -> u64 {
        u64::from(self.policy.rounds_max())
    }

    fn pass(
        &self,
        live: &mut Live,
        number: u32,
        entry: &Entry,
        in_use: &impl Fn(u32) -> bool,
    ) -> Option<Swept> {
        if in_use(number) {
            return None;
        }
        match self.policy.passed(entry.policy_bits) {
            Passing::Keep(bits) => {
                let at = self.geometry.entry(number) + 2;
                self.words.store(at, with_policy_bits(self.words.load(at), bits));
                None
            }
            Passing::Evict => {
                let mut change = self.change(live);
                change.unlink_number(number, entry);
                change.commit();
                Some(Swept::Victim(number))
            }
        }
    }

    /// Puts a free number that is on no list, for instance since a power loss, back on it.
    pub(super) fn reclaim_lost(&self, live: &mut Live, number: u32, entry: &Entry) -> Option<Swept> {
        let mut change = self.change(live);
        let is_lost = !change.is_listed(entry) && change.audit_is_past(number);
        if is_lost {
            change.list(number, entry);
        }
        change.commit();
        is_lost.then_some(Swept::Reclaimed)
    }
}

/// A change under way: a transaction, with the names of things.
pub(super) struct Change<'a> {
    index: &'a Index,
    live: &'a mut Live,
    transaction: Transaction<'a>,
}

impl<'a> Change<'a> {
    pub(super) fn new(index: &'a Index, live: &'a mut Live) -> Self {
        Self { index, live, transaction: Transaction::new(&*index.words) }
    }

    pub(super) fn commit(self) {
        self.transaction.commit();
    }

    /// A sealed number of the header.
    pub(super) fn get(&self, at: usize) -> u64 {
        unseal(at, self.transaction.load(at)).unwrap_or(0)
    }

    pub(super) fn set(&mut self, at: usize, value: u64) {
        self.transaction.store(at, seal(at, value.min(SEALED_MAX)));
    }

    pub(super) fn entry(&self, number: u32) -> Option<Entry> {
        read_entry(&self.index.geometry, &|at| self.transaction.load(at), number)
    }

    /// Changes an entry and the totals with it.
    pub(super) fn put(&mut self, number: u32, entry: Entry) {
        let before = self.entry(number);
        let at = self.index.geometry.entry(number);
        for (n, word) in entry.encode(number).into_iter().enumerate() {
            if self.transaction.load(at + n) != word {
                self.transaction.store(at + n, word);
            }
        }
        let (blocks_before, objects_before) = before.map_or((0, 0), |entry| weigh(&entry));
        let (blocks, objects) = weigh(&entry);
        let adjust = |total: u64, before: u64, after: u64| (total + after).saturating_sub(before);
        if blocks != blocks_before {
            self.set(CHARGED_AT, adjust(self.get(CHARGED_AT), blocks_before, blocks));
        }
        if objects != objects_before {
            self.set(OBJECTS_AT, adjust(self.get(OBJECTS_AT), objects_before, objects));
        }
        if let Some(audit) = &mut self.live.audit
            && audit.is_past(self.index.naming.folder_of(number))
        {
            audit.blocks = adjust(audit.blocks, blocks_before, blocks);
            audit.objects = adjust(audit.objects, objects_before, objects);
        }
    }

    /// Whether an audit, if one is under way, has seen this number.
    pub(super) fn audit_is_past(&self, number: u32) -> bool {
        let folder = self.index.naming.folder_of(number);
        self.live.audit.as_ref().is_none_or(|audit| audit.is_past(folder))
    }

    /// Marks a number busy and remembers it in a slot, if one is left.
    pub(super) fn make_busy(&mut self, number: u32) {
        let before = self.entry(number);
        let generation = before.map_or(0, |entry| entry.generation).wrapping_add(1);
        let free = |entry: &Entry| entry.state == State::Free;
        let entry = match before.filter(|entry| !free(entry)) {
            Some(entry) => Entry { state: State::Busy, next: None, ..entry },
            None => Entry { generation, ..blank(State::Busy) },
        };
        self.put(number, entry);
        let slot = self.live.free_slots.pop();
        if let Some(slot) = slot {
            self.set(self.index.geometry.slot(slot), u64::from(number) + 1);
        }
        self.live.busy.insert(number, slot);
    }

    fn end_busy(&mut self, number: u32) {
        if let Some(Some(slot)) = self.live.busy.remove(&number) {
            self.set(self.index.geometry.slot(slot), 0);
            self.live.free_slots.push(slot);
        }
    }

    pub(super) fn free(&mut self, number: u32, entry: &Entry) {
        self.end_busy(number);
        self.list(number, entry);
    }

    /// Makes the number free and puts it at the head of the list.
    pub(super) fn list(&mut self, number: u32, entry: &Entry) {
        let mut low = [0; 16];
        low[..8].copy_from_slice(&self.list_mark().to_le_bytes());
        let next = u32::try_from(self.get(FREE_AT)).ok().and_then(|head| head.checked_sub(1));
        let free =
            Entry { key: Key::from_bytes(low), next, generation: entry.generation, ..blank(State::Free) };
        self.put(number, free);
        self.set(FREE_AT, u64::from(number) + 1);
    }

    /// Whether a free entry stands in the list that is valid now.
    pub(super) fn is_listed(&self, entry: &Entry) -> bool {
        entry.key.low() == self.list_mark()
    }

    /// What entries of the valid list carry: never zero, which is what unused entries carry.
    fn list_mark(&self) -> u64 {
        self.get(FREE_LIST_AT) + 1
    }

    fn pop_free(&mut self) -> Option<u32> {
        let number = u32::try_from(self.get(FREE_AT).checked_sub(1)?).ok()?;
        match self.entry(number).filter(|entry| entry.state == State::Free && self.is_listed(entry)) {
            Some(entry) => {
                self.set(FREE_AT, entry.next.map_or(0, |next| u64::from(next) + 1));
                Some(number)
            }
            None => {
                // What is on the list is lost until the hand comes by.
                self.index.report_damage();
                self.set(FREE_LIST_AT, (self.get(FREE_LIST_AT) + 1) & SEALED_MAX);
                self.set(FREE_AT, 0);
                None
            }
        }
    }

    fn pop_fresh(&mut self) -> Option<u32> {
        let fresh = self.get(FRESH_AT) as u32;
        let end = fresh.saturating_add(FRESH_TRIES).min(self.index.geometry.max_objects);
        // After a power loss the header may be older than the entries.
        let is_free = |number: &u32| self.entry(*number).is_some_and(|entry| entry.state == State::Free);
        let number = (fresh..end).find(is_free);
        let next = number.map_or(end, |number| number + 1);
        if next > fresh {
            self.set(FRESH_AT, u64::from(next));
        }
        number
    }

    /// Takes the objects of `key` out of their chain and marks them busy.
    fn unlink_key(&mut self, key: Key) -> Vec<u32> {
        let bucket = self.index.geometry.bucket_of(key);
        let mut numbers = Vec::new();
        while numbers.len() < TWINS_MAX
            && let Some(link) = self.find_link(bucket, |link| link.entry.key == key)
        {
            self.unlink(&link);
            self.make_busy(link.number);
            numbers.push(link.number);
        }
        numbers
    }

    /// Takes a stored number out of its chain and marks it busy.
    fn unlink_number(&mut self, number: u32, entry: &Entry) {
        let bucket = self.index.geometry.bucket_of(entry.key);
        match self.find_link(bucket, |link| link.number == number) {
            Some(link) => self.unlink(&link),
            // It hangs on no chain, or behind a broken link.
            None => drop(self.index.report_damage()),
        }
        self.make_busy(number);
    }

    /// Whether the chain of `key` can take one more. Asked before anything is changed.
    fn check_room(&self, key: Key) -> Result<(), Refusal> {
        let (length, _) = self.measure(self.index.geometry.bucket_of(key));
        if length < CHAIN_MAX - 1 { Ok(()) } else { Err(Refusal::Crowded) }
    }

    /// Puts a busy number at the head of its chain, as the object of `key`.
    fn link(&mut self, number: u32, key: Key, blocks: u32) {
        let bucket = self.index.geometry.bucket_of(key);
        self.cut_broken(bucket);
        self.end_busy(number);
        let generation = self.entry(number).map_or(0, |entry| entry.generation);
        let policy_bits = self.index.policy.admitted(self.hand_is_near(number));
        let next = self.head(bucket);
        self.put(number, Entry { key, next, generation, policy_bits, blocks, state: State::Stored });
        self.set_link(None, bucket, Some(number));
        if u64::from(number) >= self.get(FRESH_AT) {
            self.set(FRESH_AT, u64::from(number) + 1);
        }
    }

    /// Ends a chain before its broken link: the number behind it may come into this chain again, in another place.
    fn cut_broken(&mut self, bucket: u32) {
        if let (_, Some(after)) = self.measure(bucket) {
            self.set_link(after, bucket, None);
        }
    }

    /// Puts a stored number that hangs on no chain back on its own.
    pub(super) fn relink(&mut self, number: u32) {
        let Some(entry) = self.entry(number) else { return };
        let bucket = self.index.geometry.bucket_of(entry.key);
        self.cut_broken(bucket);
        let (length, _) = self.measure(bucket);
        if length < CHAIN_MAX - 1 {
            let next = self.head(bucket);
            self.put(number, Entry { next, ..entry });
            self.set_link(None, bucket, Some(number));
        }
    }

    /// The first entry of a chain that `wanted` accepts.
    pub(super) fn find_link(&self, bucket: u32, wanted: impl Fn(&Link) -> bool) -> Option<Link> {
        let load = |at| self.transaction.load(at);
        Chain::new(&self.index.geometry, &load, bucket).find(wanted)
    }

    /// A chain's length, and where a broken link ends it.
    fn measure(&self, bucket: u32) -> (usize, Option<Option<u32>>) {
        let load = |at| self.transaction.load(at);
        let mut chain = Chain::new(&self.index.geometry, &load, bucket);
        chain.by_ref().for_each(drop);
        (chain.steps(), chain.broken_after())
    }

    fn unlink(&mut self, link: &Link) {
        let bucket = self.index.geometry.bucket_of(link.entry.key);
        self.set_link(link.after, bucket, link.entry.next);
    }

    fn head(&self, bucket: u32) -> Option<u32> {
        let (at, shift) = self.index.geometry.bucket(bucket);
        ((self.transaction.load(at) >> shift) as u32).checked_sub(1)
    }

    /// Sets the link that stands in entry `after`, or in the bucket.
    fn set_link(&mut self, after: Option<u32>, bucket: u32, next: Option<u32>) {
        let Some(after) = after else {
            let (at, shift) = self.index.geometry.bucket(bucket);
            let others = self.transaction.load(at) & !(u64::from(u32::MAX) << shift);
            return self.transaction.store(at, others | u64::from(next.map_or(0, |next| next + 1)) << shift);
        };
        if let Some(entry) = self.entry(after) {
            self.put(after, Entry { next, ..entry });
        }
    }

    fn hand_is_near(&self, number: u32) -> bool {
        let round = self.get(FRESH_AT).max(1);
        let distance = (u64::from(number) + round).saturating_sub(self.get(HAND_AT).min(round)) % round;
        distance < round / 2 && self.get(HAND_AT) > 0
    }
}

/// What an entry counts for: blocks and objects.
pub(super) fn weigh(entry: &Entry) -> (u64, u64) {
    (u64::from(entry.blocks), u64::from(entry.state == State::Stored))
}

fn blank(state: State) -> Entry {
    Entry { key: Key::from_bytes([0; 16]), next: None, generation: 0, policy_bits: 0, blocks: 0, state }
}

/// Objects of one key that one transaction takes; each stores up to five words of the journal's 32.
const TWINS_MAX: usize = 4;
/// Entries that the hand passes under one hold of the lock.
const SWEEP_MAX: u32 = 512;
/// Entries beyond the mark of fresh numbers that a claim looks at.
const FRESH_TRIES: u32 = 64;
/// The ceiling rises in steps of this part of the limit.
const CEILING_STEPS: u64 = 64;
/// Blocks by which the ceiling rises at least.
const CEILING_STEP_MIN: u64 = 1024;
