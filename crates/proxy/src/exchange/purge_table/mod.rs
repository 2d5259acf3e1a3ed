//! Purging many objects at once, in constant time: by tag, by cache group, by host, or all.
//!
//! A fixed table holds, for each slot, the number of the latest purge of the names that hash to it.
//! An object remembers the slots of its names and the number at which it was asked for; it is gone
//! when any of its slots was purged since. Two names that share a slot are purged together, which
//! costs a miss and never serves what should be gone. Only operators purge by these names. Groups
//! are purged by origins, and so are confined to their origin: see [`groups`].
//!
//! Numbers count purges, and no clock has a part in them: a purge takes the next, and reaches what
//! was asked for at it or before. Each process has an era of numbers, behind those of all before;
//! what was asked for in an era that the table does not know is not served: see [`eras`].
//!
//! The tables never grow, and survive a restart: see [`layout`]. Their file goes and comes with
//! the disk that it is on: what is purged while it is away is written to it once it is back.

mod eras;
mod file;
mod groups;
mod layout;

pub use eras::Sequence;
pub use groups::{group_key, origin_key};

use crate::clock;
use arc_swap::ArcSwap;
use eras::{Era, Eras};
use file::{Stored, TableFile};
use groups::{Groups, Wish};
use layout::Content;
use parking_lot::RwLock;
use shoal_core::{Key, Timestamp};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was purged, and when in the order of all purges.
pub struct PurgeTable {
    tables: Arc<Tables>,
    /// The number at which is asked for now.
    latest: AtomicU64,
    /// The first number of this process's era.
    own_start: AtomicU64,
    /// The latest purge by name.
    latest_purge: AtomicU64,
    keeping: RwLock<TablePersistence>,
}

/// What the file holds.
struct Tables {
    /// Tells this table from others; none has 0.
    id: AtomicU64,
    eras: ArcSwap<Eras>,
    slots: Box<[AtomicU64]>,
    groups: Groups,
}

/// Where the tables outlive the process.
enum TablePersistence {
    /// Nowhere, since nothing else does.
    Nowhere,
    /// In its file.
    File(TableFile),
    /// Nowhere, though it should.
    Lost(Arc<str>),
}

/// A name's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeSlot(pub u16);

/// A name under which objects can be purged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeScope<'a> {
    /// Every object.
    All,
    /// Every object of an origin's host.
    Host(&'a str),
    /// Every object that carries the tag, whatever its origin.
    Tag(&'a str),
    /// Every object of the cache group (RFC 9875) of one origin, as earlier versions stored it.
    /// They gave groups slots.
    EarlierGroup {
        /// Scheme, host and port.
        origin: &'a str,
        /// The group's name.
        group: &'a str,
    },
}

impl PurgeTable {
    /// Size of the tables' file.
    pub const BYTES: u64 = layout::BYTES;

    /// Tables that are forgotten at exit, as everything is that they tell of. The time only makes
    /// it likely that these numbers come after those of a file that is taken up later, which then
    /// need not forget them.
    pub fn in_memory(now: Timestamp) -> Self {
        let own = Era::after(now.millis() << 20);
        let tables = Tables {
            id: AtomicU64::new(RandomState::new().hash_one(own.start) | 1),
            eras: ArcSwap::from_pointee(Eras::of([own])),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            groups: Groups::new(),
        };
        Self {
            tables: Arc::new(tables),
            latest: AtomicU64::new(own.start),
            own_start: AtomicU64::new(own.start),
            latest_purge: AtomicU64::new(0),
            keeping: RwLock::new(TablePersistence::Nowhere),
        }
    }

    /// The table in `path`, made when absent: see [`take_up`](Self::attach_file).
    pub fn open(path: &Path, now: Timestamp) -> std::io::Result<Self> {
        let purge_table = Self::in_memory(now);
        purge_table.attach_file(path)?;
        Ok(purge_table)
    }

    /// Adds what the table in `path` says, made when absent, and keeps everything there from now
    /// on. What is damaged in it counts as purged, which costs hits once.
    pub fn attach_file(&self, path: &Path) -> std::io::Result<()> {
        let (file, stored) = layout::open(path)?;
        clock::go_on_from(stored.clock);
        // Who purges meanwhile writes it down when this file has taken the place of the one before.
        let mut keeping = self.keeping.write();
        let lifts = self.begin_era(&stored);
        let mut changed = self.merge(&stored, lifts);
        let mut file = file;
        if !stored.is_current {
            let before = self.sequence();
            // Nobody waits for the disk with this lock.
            drop(keeping);
            file = self.tables.write_whole(path)?;
            keeping = self.keeping.write();
            let is_as_written = self.sequence() == before;
            changed = if is_as_written { BTreeSet::new() } else { layout::pieces().collect() };
        }
        let file = TableFile::start(file, Arc::clone(&self.tables) as Arc<dyn Stored>)?;
        file.write(changed);
        *keeping = TablePersistence::File(file);
        Ok(())
    }

    /// Numbers that come after all of the file's. True when those of this process so far did not:
    /// then its purges have to be lifted, and what was asked for in it before is not known any
    /// more.
    fn begin_era(&self, stored: &Content) -> bool {
        let own_start = self.own_start.load(Ordering::SeqCst);
        let latest = self.latest.load(Ordering::SeqCst);
        let mut eras = stored.eras.clone();
        let is_own = eras.last().is_some_and(|last| last.start == own_start);
        let lifts = !is_own && own_start <= stored.highest();
        let era =
            if lifts { Era::after(stored.highest().max(latest)) } else { Era::from_to(own_start, latest) };
        if !is_own {
            eras.push(era);
        }
        eras.raise(era.ceiling);
        if stored.id != 0 {
            self.tables.id.store(stored.id, Ordering::Release);
        }
        self.tables.eras.store(Arc::new(eras));
        debug_assert!(era.start <= era.ceiling);
        debug_assert!(!lifts || era.start > stored.highest(), "an era before those of the file");
        self.latest.fetch_max(era.start, Ordering::SeqCst);
        self.own_start.store(era.start, Ordering::SeqCst);
        lifts
    }

    /// Adds the file's purges to those of this process. Gives the pieces in which the file is not
    /// as it should be.
    fn merge(&self, stored: &Content, lifts: bool) -> BTreeSet<u32> {
        let mut changed: BTreeSet<u32> = layout::pieces_of_eras().chain([layout::HEADER]).collect();
        let by = self.next();
        for (at, (slot, time)) in self.tables.slots.iter().zip(&stored.slots).enumerate() {
            let known = slot.load(Ordering::SeqCst);
            let known = if lifts && known > 0 { by } else { known };
            let merged = known.max(time.unwrap_or(by));
            if merged > 0 {
                // Who purges meanwhile has a greater one.
                slot.fetch_max(merged, Ordering::SeqCst);
                self.latest_purge.fetch_max(merged, Ordering::SeqCst);
            }
            if *time != Some(merged) {
                changed.insert(layout::piece_of_slot(at));
            }
        }
        let places = self.tables.groups.take_up(&stored.groups, by, lifts);
        changed.extend(places.into_iter().map(layout::piece_of_place));
        changed
    }

    /// Keeps the table in RAM only, until it is taken up again. What was purged before is still
    /// written where that is possible.
    pub fn detach_file(&self, why: &str) {
        *self.keeping.write() = TablePersistence::Lost(why.into());
    }

    /// Whether what is purged is kept in RAM only, though it should outlive the process.
    pub fn are_lost(&self) -> bool {
        matches!(*self.keeping.read(), TablePersistence::Lost(_))
    }

    /// The number at which is asked for now, for [`purged`](Self::is_purged).
    pub fn sequence(&self) -> Sequence {
        Sequence::new(self.latest.load(Ordering::SeqCst))
    }

    /// Purges what bears `name` and was asked for before this call. That holds in this process at
    /// once; it is written down in the background.
    pub fn purge(&self, name: PurgeScope<'_>) {
        let slot = name.slot();
        let keeping = self.keeping.read();
        let number = self.next();
        self.tables.slots[usize::from(slot.0)].fetch_max(number, Ordering::SeqCst);
        // After the slot: whoever sees this sees that.
        self.latest_purge.fetch_max(number, Ordering::SeqCst);
        self.write(&keeping, [layout::piece_of_slot(usize::from(slot.0))]);
    }

    /// Purges cache groups of one origin, as the origin wishes: what it may not is left out, and
    /// counted.
    pub fn purge_groups(&self, origin: &str, groups: &[String], now: Timestamp) {
        self.mark_groups(origin, groups, false, now);
    }

    /// Purges a cache group of one origin, as an operator wishes.
    pub fn purge_group(&self, origin: &str, group: &str, now: Timestamp) {
        self.purge(PurgeScope::EarlierGroup { origin, group });
        self.mark_groups(origin, &[group.to_owned()], true, now);
    }

    fn mark_groups(&self, origin: &str, groups: &[String], is_operators: bool, now: Timestamp) {
        let keys: Vec<Key> = groups.iter().map(|group| group_key(origin, group)).collect();
        let wish = Wish { origin: origin_key(origin), groups: &keys, is_operators };
        let keeping = self.keeping.read();
        let changed = self.tables.groups.purge(&wish, self.next(), now);
        self.write(&keeping, changed.into_iter().map(layout::piece_of_place));
    }

    /// Has pieces written down where there is a file, and the era's ceiling when it has to be
    /// raised.
    fn write(&self, keeping: &TablePersistence, pieces: impl IntoIterator<Item = u32>) {
        let eras = self.tables.eras.load();
        let latest = self.latest.load(Ordering::SeqCst);
        let ceiling = eras.last().and_then(|era| era.ceiling_for(latest));
        if let Some(ceiling) = ceiling {
            self.tables.eras.rcu(|eras| {
                let mut eras = Eras::clone(eras);
                eras.raise(ceiling);
                eras
            });
        }
        if let TablePersistence::File(file) = keeping {
            let eras = ceiling.map_or(0..0, |_| layout::pieces_of_eras());
            file.write(pieces.into_iter().chain(eras).chain([layout::HEADER]));
        }
    }

    /// Has what the cache's clock shows written down, for the next process. It is with each purge,
    /// too, and every hour.
    pub fn note_time(&self) {
        self.write(&self.keeping.read(), []);
    }

    /// Purges of groups that origins wished and that were not heeded, since the table was full.
    pub fn ignored_groups(&self) -> u64 {
        self.tables.groups.ignored()
    }

    /// A number after that of all that was asked for before this call, and not after that of
    /// anything that is asked for after it.
    pub fn next_time(&self) -> Sequence {
        Sequence::new(self.next() + 1)
    }

    /// The number of a purge: what was asked for so far has it or one before, and what is asked for
    /// from now on one after.
    fn next(&self) -> u64 {
        self.latest.fetch_add(1, Ordering::SeqCst)
    }

    /// Waits until all that was purged is written down.
    ///
    /// # Errors
    /// Why something is not: then it holds until the next restart, or until a later purge could be
    /// written.
    pub async fn wait_written(&self) -> Result<(), Arc<str>> {
        let written = match &*self.keeping.read() {
            TablePersistence::Nowhere => return Ok(()),
            TablePersistence::Lost(why) => return Err(Arc::clone(why)),
            TablePersistence::File(file) => file.written(),
        };
        written.await
    }

    /// Whether an object with these names, asked for at `requested`, has been purged since, or may
    /// have been.
    pub fn is_purged(&self, slots: &[PurgeSlot], groups: &[Key], requested: Sequence) -> bool {
        let is_since = |time: &AtomicU64| time.load(Ordering::Acquire) >= requested.number();
        let slot_time = |slot: &PurgeSlot| &self.tables.slots[usize::from(slot.0)];
        !self.is_own(requested) && !self.knows(requested)
            || is_since(&self.latest_purge) && slots.iter().any(|slot| is_since(slot_time(slot)))
            || self.tables.groups.purged(groups, requested)
    }

    /// Whether this process may have given out the number.
    #[inline]
    fn is_own(&self, requested: Sequence) -> bool {
        let own = self.own_start.load(Ordering::Relaxed)..=self.latest.load(Ordering::Relaxed);
        own.contains(&requested.number())
    }

    /// Whether the table goes back to where something was asked for: what purged it since is known.
    #[inline(never)]
    pub fn knows(&self, requested: Sequence) -> bool {
        self.tables.eras.load().knows(requested)
    }
}

impl PurgeScope<'_> {
    /// The slot that this name hashes to. Slot 0 is kept for [`PurgeScope::All`].
    pub fn slot(self) -> PurgeSlot {
        let hash = match self {
            Self::All => return PurgeSlot(0),
            // Final dots make another key, not another host.
            Self::Host(host) => hash(&[b"host", host.trim_end_matches('.').as_bytes()]),
            Self::Tag(tag) => hash(&[b"tag", tag.as_bytes()]),
            Self::EarlierGroup { origin, group } => hash(&[b"group", origin.as_bytes(), group.as_bytes()]),
        };
        PurgeSlot((1 + hash % (SLOTS as u64 - 1)) as u16)
    }
}

impl Stored for Tables {
    fn bytes(&self, number: u32) -> (u64, Vec<u8>) {
        self.piece(number)
    }

    fn hourly(&self) -> u32 {
        layout::HEADER
    }
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    for part in parts {
        hasher.update(part);
        hasher.update(&[0]);
    }
    hasher.digest()
}

/// Slots in the table: 512 KB of RAM and of disk.
pub const SLOTS: usize = 65_536;

const _: () = assert!(SLOTS == u16::MAX as usize + 1, "a slot's number is any that fits into its type");

#[cfg(test)]
mod tests;
