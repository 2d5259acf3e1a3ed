//! Index: the stored objects, their file numbers, and the order of replacement. Kroonmaa's idea.
//!
//! Andres Kroonmaa, "Clustered Store", squid-dev, 1998: a fixed-size array of fixed-size entries in
//! a memory-mapped file, used in place as soon as it is mapped. An entry's position is the file
//! number, chains link by position, and unused entries take no memory. Each object takes 36 bytes:
//! an entry of 32, and a bucket of 4.
//!
//! - A lookup walks one chain in memory: no device call, and nothing is read in at start.
//! - An entry is *free*, *busy* (its file is being written or removed) or *stored*. A busy number
//!   is kept in a berth. After a crash it is found at once, its file removed and its space given
//!   back.
//! - Every change of several words is a transaction of the `journal`: after `kill -9` at any
//!   instant the index is as before the change or as after it, charges included.
//! - After a power loss pages may be of different age. Entries carry checks, chains are walked with
//!   suspicion, and the index is compared with the object's own header. The harm is therefore
//!   limited to misses. The index then is *suspect* until an audit (see `audit`) has been through
//!   all folders.
//! - The limit on space holds meanwhile. The *ceiling* is on disk before charges rise to it, and
//!   counts as charged until the audit has the real sum.
//! - The replacement policy's bits are in the entries, its hand in the header.
//! - If an architecture needs more than the number to find an object, each entry has a *side word*
//!   of 64 bits. The side word is set in the same transaction as the claim and the commit. It
//!   carries no check: damage to it costs a miss.

mod audit;
mod chain;
mod change;
mod file;
mod free_map;
mod home;
mod journal;
mod layout;
#[cfg(test)]
mod tests;
mod words;

pub use free_map::Numbers;
pub use home::{IndexStorage, MemoryHome};
pub use layout::{IndexGeometry, IndexShape};
pub use words::{RamWords, Words};

pub(crate) use audit::{NumberState, Step};
pub(crate) use change::{Charge, Claim, CommitRefusal, HandStep};
pub(crate) use home::FileHome;
use layout::{EntryState, IndexEntry};
use words::MappedWords;

use audit::Audit;
use chain::{Chain, read_entry};
use change::Change;
use free_map::FreeMap;
use layout::{
    BOOT_AT, CEILING_AT, CHARGED_AT, CLEAN, CONDITION_AT, CURSOR_AT, DUE, FREE_AT, FREE_LIST_AT, FRESH_AT,
    HAND_AT, JOURNAL_AT, OBJECTS_AT, SEALED_MAX, SEQUENCE_AT, SUSPECT, policy_bits_of, seal, unseal,
    with_policy_bits,
};
use parking_lot::{Mutex, RwLock};
use shoal_core::{Key, Timestamp};
use shoal_policy::CyclicPolicy;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use words::PAGE_WORDS;

/// Index of a store; see the module's head.
pub(crate) struct Index {
    words: Box<dyn Words>,
    geometry: IndexGeometry,
    numbers: Numbers,
    free_map: Option<FreeMap>,
    policy: &'static dyn CyclicPolicy,
    boot: u64,
    live: RwLock<IndexSession>,
    /// Held while the ceiling is raised.
    raising: Mutex<()>,
    /// `true` if damage was found and an audit is due.
    damage: AtomicBool,
}

/// State of this session only.
struct IndexSession {
    /// Most blocks that may be charged.
    limit: u64,
    /// Ceiling that is on disk.
    durable_ceiling: u64,
    /// `true` if the index on disk is marked as closed in order.
    clean: bool,
    free_berths: Vec<u32>,
    /// Numbers in transition, each with the berth that keeps it. The audit alone finds a number
    /// without a berth.
    busy: HashMap<u32, Option<u32>>,
    audit: Option<Audit>,
}

/// Condition in which an index was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The index can be relied on.
    Sound,
    /// Power was lost, or a check failed, or a repair had not finished: an audit is due.
    Suspect,
}

/// Object found in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexedObject {
    pub(crate) number: u32,
    pub(crate) generation: u8,
    pub(crate) blocks: u32,
    /// Side word at the time when the entry was read; 0 if the index has none.
    pub(crate) side: u64,
}

/// Totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexTotals {
    pub(crate) objects: u64,
    pub(crate) blocks: u64,
}

impl Index {
    /// Returns the number of the index's pages that the disk did not deliver.
    pub(crate) fn lost_pages(&self) -> u64 {
        self.words.lost_pages()
    }

    /// Makes an empty index of words that are all zero.
    pub(crate) fn format(words: &dyn Words, geometry: &IndexGeometry) {
        geometry.write(words);
    }

    /// Opens an index, in constant time. The error says why these words are not a usable index.
    ///
    /// `boot` identifies this run of the machine. Words last written in another run, and not closed
    /// in order, may have lost pages. `limit_blocks` is the most that objects may be charged.
    pub(crate) fn open(
        words: Box<dyn Words>,
        numbers: Numbers,
        policy: &'static dyn CyclicPolicy,
        boot: u64,
        limit_blocks: u64,
    ) -> Result<(Self, Condition), &'static str> {
        let geometry = IndexGeometry::read(&*words)?;
        assert_eq!(words.count(), geometry.words());
        let free_map = FreeMap::of(&geometry);
        if free_map.is_none() != (numbers == Numbers::Any) {
            return Err("made for another naming");
        }
        let live = IndexSession {
            limit: limit_blocks.min(SEALED_MAX),
            durable_ceiling: 0,
            clean: false,
            free_berths: Vec::new(),
            busy: HashMap::new(),
            audit: None,
        };
        let index = Self {
            words,
            geometry,
            numbers,
            free_map,
            policy,
            boot,
            live: RwLock::new(live),
            raising: Mutex::new(()),
            damage: AtomicBool::new(false),
        };
        let condition = index.recover();
        Ok((index, condition))
    }

    /// Returns the fixed part of the header.
    pub(crate) fn geometry(&self) -> &IndexGeometry {
        &self.geometry
    }

    /// Returns `true` if there is an entry for `key`. Takes no lock, so the answer may be wrong
    /// while the index changes.
    pub(crate) fn may_contain(&self, key: Key) -> bool {
        let load = |at| self.words.load(at);
        Chain::new(&self.geometry, &load, self.geometry.bucket_of(key)).any(|link| link.entry.key == key)
    }

    /// Finds the object and counts a hit. Calls `pin` with the number before another thread can
    /// evict it.
    pub(crate) fn hit(&self, key: Key, pin: impl FnOnce(u32)) -> Option<IndexedObject> {
        let _live = self.live.read();
        let found = self.find(key)?;
        debug_assert!(found.number < self.geometry.max_objects);
        pin(found.number);
        self.count_hit(found.number);
        Some(found)
    }

    /// Finds the object like [`Self::hit`], without counting a hit.
    pub(crate) fn peek(&self, key: Key, pin: impl FnOnce(u32)) -> Option<IndexedObject> {
        let _live = self.live.read();
        let found = self.find(key)?;
        pin(found.number);
        Some(found)
    }

    /// Returns `true` if the number still is of the same object.
    pub(crate) fn is_current(&self, found: IndexedObject) -> bool {
        let _live = self.live.read();
        self.entry(found.number)
            .is_some_and(|entry| entry.state == EntryState::Stored && entry.generation == found.generation)
    }

    /// Returns the objects stored and blocks charged.
    pub(crate) fn totals(&self) -> IndexTotals {
        IndexTotals { objects: self.sealed(OBJECTS_AT), blocks: self.sealed(CHARGED_AT) }
    }

    /// Returns the most blocks that may be charged.
    pub(crate) fn limit_blocks(&self) -> u64 {
        self.live.read().limit
    }

    /// Returns a sequence number for the next object. The number is greater than all before, and
    /// than those of lost indexes as long as the clock does not go back.
    pub(crate) fn next_sequence(&self, now: Timestamp) -> u64 {
        let _live = self.live.write();
        // A damaged word may hold any number.
        let sequence = self.words.load(SEQUENCE_AT).max(now.millis() << 20).saturating_add(1);
        debug_assert!(sequence >= self.words.load(SEQUENCE_AT), "numbers never fall");
        self.words.store(SEQUENCE_AT, sequence);
        sequence
    }

    /// Returns the numbers left in transition by the last process: files to remove, entries to
    /// free.
    pub(crate) fn left_busy(&self) -> Vec<u32> {
        let live = self.live.read();
        live.busy.keys().copied().collect()
    }

    /// Reports damage, so that an audit is due. Returns `true` the first time.
    pub(crate) fn report_damage(&self) -> bool {
        !self.damage.swap(true, Relaxed)
    }

    /// Writes everything to disk and marks the index as closed in order. The index stays usable;
    /// the next change removes the mark.
    pub(crate) fn close(&self) -> io::Result<()> {
        let mut live = self.live.write();
        self.words.sync(0, self.words.count())?;
        if !live.clean {
            // Numbers in transition stay in their berths; the next opening looks there in any case.
            let found = if self.damage.load(Relaxed) { SUSPECT } else { 0 };
            self.store_sealed(CONDITION_AT, CLEAN | found | self.sealed(CONDITION_AT) & DUE);
            self.words.sync(0, PAGE_WORDS)?;
            live.clean = true;
        }
        Ok(())
    }

    /// Checks a sound index of a test: the totals are those of the entries, and each stored object
    /// is on the chain of its key. Damaged files break this, so that a node does not ask for it.
    #[cfg(test)]
    pub(super) fn invariants(&self) {
        let live = self.live.read();
        self.check_berths(&live);
        assert!(live.audit.is_none(), "an audit knows the sums at its end");
        let (mut objects, mut blocks) = (0, 0);
        for number in 0..self.geometry.max_objects {
            let Some(entry) = self.entry(number) else { panic!("entry {number} is damaged") };
            let (charged, counted) = change::weigh(&entry);
            (objects, blocks) = (objects + counted, blocks + charged);
            let is_busy = entry.state == EntryState::Busy;
            assert!(!is_busy || live.busy.contains_key(&number), "{number} is busy without a session");
            if entry.state == EntryState::Stored {
                let load = |at| self.words.load(at);
                let bucket = self.geometry.bucket_of(entry.key);
                let mut chain = Chain::new(&self.geometry, &load, bucket);
                assert!(chain.any(|link| link.number == number), "{number} is on the chain of its key");
            }
        }
        assert_eq!(self.totals(), IndexTotals { objects, blocks }, "totals are those of the entries");
        assert!(objects <= u64::from(self.geometry.max_objects), "an object has a number");
    }

    /// Checks the session: each berth is free or a busy number's.
    fn check_berths(&self, live: &IndexSession) {
        let held = live.busy.values().flatten().count();
        debug_assert_eq!(
            live.free_berths.len() + held,
            self.geometry.berths as usize,
            "a berth that was lost"
        );
        debug_assert!(live.free_berths.iter().all(|berth| *berth < self.geometry.berths));
        debug_assert!(live.busy.keys().all(|number| *number < self.geometry.max_objects));
        debug_assert!(live.limit <= SEALED_MAX);
    }

    /// Determines the condition of the words and makes them usable.
    fn recover(&self) -> Condition {
        let mut live = self.live.write();
        let condition = unseal(CONDITION_AT, self.words.load(CONDITION_AT));
        let flags = condition.unwrap_or(0);
        live.clean = flags & CLEAN != 0;
        let same_boot = self.words.load(BOOT_AT) == self.boot && condition.is_some();
        let is_new = self.words.load(BOOT_AT) == 0 && self.words.load(FRESH_AT) == 0;
        if same_boot && !live.clean {
            journal::redo(&*self.words);
        }
        let is_whole = SEALED.iter().all(|at| unseal(*at, self.words.load(*at)).is_some())
            && self.sealed(FRESH_AT) <= u64::from(self.geometry.max_objects);
        let trusted = is_whole && (live.clean || same_boot || is_new);
        if !trusted {
            self.distrust(&mut live);
        }
        // A killed process's last ceiling may not have reached the disk.
        live.durable_ceiling = if live.clean { self.sealed(CEILING_AT) } else { 0 };
        self.recover_intents(&mut live, trusted);
        self.check_berths(&live);
        if trusted && flags & SUSPECT == 0 { Condition::Sound } else { Condition::Suspect }
    }

    /// Replaces doubtful values of the header by safe ones.
    fn distrust(&self, live: &mut IndexSession) {
        let known = |at| unseal(at, self.words.load(at));
        let most = known(CEILING_AT).unwrap_or(live.limit).max(known(CHARGED_AT).unwrap_or(0));
        let objects_max = u64::from(self.geometry.max_objects);
        let fresh = known(FRESH_AT).filter(|fresh| *fresh <= objects_max).unwrap_or(objects_max);
        let list = known(FREE_LIST_AT).unwrap_or(self.boot & SEALED_MAX);
        self.words.store(JOURNAL_AT, 0);
        self.store_sealed(CHARGED_AT, most);
        self.store_sealed(CEILING_AT, most);
        self.store_sealed(OBJECTS_AT, known(OBJECTS_AT).unwrap_or(0).min(objects_max));
        self.store_sealed(FRESH_AT, fresh);
        self.store_sealed(FREE_AT, 0);
        self.store_sealed(FREE_LIST_AT, (list + 1) & SEALED_MAX);
        self.store_sealed(HAND_AT, known(HAND_AT).unwrap_or(0));
        self.store_sealed(CURSOR_AT, known(CURSOR_AT).unwrap_or(0));
        // Last: a process killed before this finds the same doubts again.
        self.mark_in_use(live, SUSPECT | known(CONDITION_AT).unwrap_or(0) & DUE);
    }

    fn recover_intents(&self, live: &mut IndexSession, trusted: bool) {
        for berth in 0..self.geometry.berths {
            let at = self.geometry.berth(berth);
            let word = self.words.load(at);
            let number = unseal(at, word).and_then(|value| u32::try_from(value.checked_sub(1)?).ok());
            let is_busy =
                |number: &u32| self.entry(*number).is_some_and(|entry| entry.state == EntryState::Busy);
            match number.filter(is_busy).filter(|_| trusted) {
                Some(number) => {
                    live.busy.insert(number, Some(berth));
                }
                None => {
                    if word != 0 {
                        self.words.store(at, 0);
                    }
                    live.free_berths.push(berth);
                }
            }
        }
    }

    /// Removes the mark of a clean end, on disk before anything else changes.
    fn mark_in_use(&self, live: &mut IndexSession, flags: u64) {
        live.clean = false;
        self.words.store(BOOT_AT, self.boot);
        self.store_sealed(CONDITION_AT, flags);
        // If this fails the disk is in trouble, and every other call will notice. The failure only
        // risks a power loss that goes unnoticed, and entries are checked in any case.
        let _ = self.words.sync(0, PAGE_WORDS);
    }

    /// Begins a change. The caller holds the lock of `live` until the change is committed.
    fn change<'a>(&'a self, live: &'a mut IndexSession) -> Change<'a> {
        if live.clean || self.words.load(BOOT_AT) != self.boot {
            self.mark_in_use(live, self.sealed(CONDITION_AT) & DUE);
        }
        Change::new(self, live)
    }

    fn find(&self, key: Key) -> Option<IndexedObject> {
        let load = |at| self.words.load(at);
        let mut chain = Chain::new(&self.geometry, &load, self.geometry.bucket_of(key));
        let link = chain.find(|link| link.entry.key == key);
        if chain.broken_after().is_some() {
            self.report_damage();
        }
        let link = link?;
        debug_assert_eq!(link.entry.state, EntryState::Stored);
        debug_assert_eq!(link.entry.key, key);
        Some(self.found(link.number, &link.entry))
    }

    fn found(&self, number: u32, entry: &IndexEntry) -> IndexedObject {
        let IndexEntry { generation, blocks, .. } = *entry;
        IndexedObject { number, generation, blocks, side: self.side(number) }
    }

    /// Returns the side word of a number, as last set: by the claim, the commit, or an update
    /// since.
    pub(crate) fn side(&self, number: u32) -> u64 {
        self.geometry.side(number).map_or(0, |at| self.words.load(at))
    }

    /// Changes a stored object's side word from the value found to `side`, in one store. Returns
    /// `false` and changes nothing if the word or the object has changed meanwhile.
    pub(crate) fn update_side(&self, found: IndexedObject, side: u64) -> bool {
        let _live = self.live.read();
        let is_same =
            |entry: IndexEntry| entry.state == EntryState::Stored && entry.generation == found.generation;
        let Some(at) = self.geometry.side(found.number) else { return false };
        self.entry(found.number).is_some_and(is_same) && self.words.exchange(at, found.side, side)
    }

    /// Counts a hit in the policy bits. Writes nothing if the bits do not change, so that a popular
    /// object does not dirty its page.
    fn count_hit(&self, number: u32) {
        let at = self.geometry.entry(number) + 2;
        loop {
            let link = self.words.load(at);
            let bits = self.policy.hit(policy_bits_of(link));
            if bits == policy_bits_of(link) || self.words.exchange(at, link, with_policy_bits(link, bits)) {
                return;
            }
        }
    }

    fn entry(&self, number: u32) -> Option<IndexEntry> {
        read_entry(&self.geometry, &|at| self.words.load(at), number)
    }

    /// Returns a sealed number that was checked at opening. A number damaged since counts as zero.
    fn sealed(&self, at: usize) -> u64 {
        unseal(at, self.words.load(at)).unwrap_or(0)
    }

    fn store_sealed(&self, at: usize, value: u64) {
        self.words.store(at, seal(at, value));
    }
}

/// Positions of the header's sealed numbers.
const SEALED: [usize; 9] =
    [CONDITION_AT, CHARGED_AT, OBJECTS_AT, FRESH_AT, FREE_AT, FREE_LIST_AT, CEILING_AT, HAND_AT, CURSOR_AT];
