//! Change under way: entries, chains, the list of free numbers, and the totals, as one transaction.

use super::CommitRefusal;
use crate::index::chain::{CHAIN_MAX, Chain, Link, read_entry};
use crate::index::journal::Transaction;
use crate::index::layout::{
    CHARGED_AT, EntryState, FRESH_AT, HAND_AT, IndexEntry, OBJECTS_AT, SEALED_MAX, seal, unseal,
};
use crate::index::{Index, IndexSession};
use shoal_core::Key;

/// Change under way: a transaction with named fields.
pub(in crate::index) struct Change<'a> {
    pub(super) index: &'a Index,
    live: &'a mut IndexSession,
    pub(super) transaction: Transaction<'a>,
}

impl<'a> Change<'a> {
    pub(in crate::index) fn new(index: &'a Index, live: &'a mut IndexSession) -> Self {
        Self { index, live, transaction: Transaction::new(&*index.words) }
    }

    pub(in crate::index) fn commit(self) {
        self.index.check_berths(self.live);
        self.transaction.commit();
    }

    /// Returns a sealed number of the header.
    pub(in crate::index) fn get(&self, at: usize) -> u64 {
        unseal(at, self.transaction.load(at)).unwrap_or(0)
    }

    pub(in crate::index) fn set(&mut self, at: usize, value: u64) {
        self.transaction.store(at, seal(at, value.min(SEALED_MAX)));
    }

    pub(in crate::index) fn entry(&self, number: u32) -> Option<IndexEntry> {
        read_entry(&self.index.geometry, &|at| self.transaction.load(at), number)
    }

    /// Changes an entry and the totals with it.
    pub(in crate::index) fn put(&mut self, number: u32, entry: IndexEntry) {
        debug_assert!(number < self.index.geometry.max_objects);
        debug_assert!(entry.next != Some(number), "a chain that bites its tail");
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
            && audit.is_past(number)
        {
            audit.blocks = adjust(audit.blocks, blocks_before, blocks);
            audit.objects = adjust(audit.objects, objects_before, objects);
        }
    }

    /// Returns `true` if no audit is under way, or the audit has checked this number.
    pub(in crate::index) fn audit_is_past(&self, number: u32) -> bool {
        self.live.audit.as_ref().is_none_or(|audit| audit.is_past(number))
    }

    /// Sets a number's side word, if there are side words.
    pub(in crate::index) fn set_side(&mut self, number: u32, side: u64) {
        if let Some(at) = self.index.geometry.side(number) {
            self.transaction.store(at, side);
        }
    }

    /// Marks a number busy and keeps it in a berth, if one is left.
    pub(in crate::index) fn make_busy(&mut self, number: u32) {
        let before = self.entry(number);
        let generation = before.map_or(0, |entry| entry.generation).wrapping_add(1);
        let free = |entry: &IndexEntry| entry.state == EntryState::Free;
        let entry = match before.filter(|entry| !free(entry)) {
            Some(entry) => IndexEntry { state: EntryState::Busy, next: None, ..entry },
            None => IndexEntry { generation, ..blank(EntryState::Busy) },
        };
        self.put(number, entry);
        // Damaged words may call a number free that is in transition: it has its berth already.
        let own = self.live.busy.get(&number).copied().flatten();
        let berth = own.or_else(|| self.live.free_berths.pop());
        if let Some(berth) = berth {
            self.set(self.index.geometry.berth(berth), u64::from(number) + 1);
        }
        self.live.busy.insert(number, berth);
    }

    fn end_busy(&mut self, number: u32) {
        if let Some(Some(berth)) = self.live.busy.remove(&number) {
            self.set(self.index.geometry.berth(berth), 0);
            debug_assert!(!self.live.free_berths.contains(&berth), "a berth that was free");
            self.live.free_berths.push(berth);
        }
    }

    pub(in crate::index) fn free(&mut self, number: u32, entry: &IndexEntry) {
        self.end_busy(number);
        self.list(number, entry);
    }

    /// Unlinks the objects of `key` from their chain and marks them busy.
    pub(super) fn unlink_key(&mut self, key: Key) -> Vec<u32> {
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

    /// Unlinks a stored number from its chain and marks it busy.
    pub(super) fn unlink_number(&mut self, number: u32, entry: &IndexEntry) {
        let bucket = self.index.geometry.bucket_of(entry.key);
        match self.find_link(bucket, |link| link.number == number) {
            Some(link) => self.unlink(&link),
            // The number is on no chain, or behind a broken link.
            None => drop(self.index.report_damage()),
        }
        self.make_busy(number);
    }

    /// Checks that the chain of `key` can take one more. Called before any change.
    pub(super) fn check_room(&self, key: Key) -> Result<(), CommitRefusal> {
        let (length, _) = self.measure(self.index.geometry.bucket_of(key));
        if length < CHAIN_MAX - 1 { Ok(()) } else { Err(CommitRefusal::Crowded) }
    }

    /// Links a busy number at the head of its chain, as the object of `key`.
    pub(super) fn link(&mut self, number: u32, key: Key, blocks: u32) {
        let bucket = self.index.geometry.bucket_of(key);
        self.cut_broken(bucket);
        self.end_busy(number);
        let generation = self.entry(number).map_or(0, |entry| entry.generation);
        let policy_bits = self.index.policy.initial_bits(self.hand_is_near(number));
        let next = self.head(bucket);
        self.put(
            number,
            IndexEntry { key, next, generation, policy_bits, blocks, state: EntryState::Stored },
        );
        self.set_link(None, bucket, Some(number));
        self.note_used(number);
        debug_assert_eq!(self.head(bucket), Some(number));
        debug_assert!(!self.live.busy.contains_key(&number), "an object in transition");
    }

    /// Ends a chain before its broken link: the number behind may enter this chain again, in
    /// another place.
    fn cut_broken(&mut self, bucket: u32) {
        if let (_, Some(after)) = self.measure(bucket) {
            self.set_link(after, bucket, None);
        }
    }

    /// Links a stored number that is on no chain into its own.
    pub(in crate::index) fn relink(&mut self, number: u32) {
        let Some(entry) = self.entry(number) else { return };
        let bucket = self.index.geometry.bucket_of(entry.key);
        self.cut_broken(bucket);
        let (length, _) = self.measure(bucket);
        if length < CHAIN_MAX - 1 {
            let next = self.head(bucket);
            self.put(number, IndexEntry { next, ..entry });
            self.set_link(None, bucket, Some(number));
        }
    }

    /// Returns the first entry of a chain that `wanted` accepts.
    pub(in crate::index) fn find_link(&self, bucket: u32, wanted: impl Fn(&Link) -> bool) -> Option<Link> {
        let load = |at| self.transaction.load(at);
        Chain::new(&self.index.geometry, &load, bucket).find(wanted)
    }

    /// Returns a chain's length, and the place of the broken link that ends it.
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

    /// Sets the link in entry `after`, or in the bucket.
    fn set_link(&mut self, after: Option<u32>, bucket: u32, next: Option<u32>) {
        let Some(after) = after else {
            let (at, shift) = self.index.geometry.bucket(bucket);
            let others = self.transaction.load(at) & !(u64::from(u32::MAX) << shift);
            return self.transaction.store(at, others | u64::from(next.map_or(0, |next| next + 1)) << shift);
        };
        if let Some(entry) = self.entry(after) {
            self.put(after, IndexEntry { next, ..entry });
        }
    }

    fn hand_is_near(&self, number: u32) -> bool {
        let round = self.get(FRESH_AT).max(1);
        let distance = (u64::from(number) + round).saturating_sub(self.get(HAND_AT).min(round)) % round;
        distance < round / 2 && self.get(HAND_AT) > 0
    }
}

/// Returns the blocks and objects that an entry counts for.
pub(in crate::index) fn weigh(entry: &IndexEntry) -> (u64, u64) {
    (u64::from(entry.blocks), u64::from(entry.state == EntryState::Stored))
}

pub(super) fn blank(state: EntryState) -> IndexEntry {
    IndexEntry { key: Key::from_bytes([0; 16]), next: None, generation: 0, policy_bits: 0, blocks: 0, state }
}

/// Most objects of one key that one transaction unlinks; each stores up to five words of the
/// journal's 48.
const TWINS_MAX: usize = 4;

// The twins of a commit fit into one transaction beside its own changes.
const _: () = assert!(TWINS_MAX * 5 + 20 <= crate::index::layout::JOURNAL_PAIRS);
