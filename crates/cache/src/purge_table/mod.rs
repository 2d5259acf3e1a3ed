//! Purging of many objects at once, in constant time: by tag, by cache group, by host, or all.
//!
//! A fixed table holds, for each slot, the number of the latest purge of the names that hash to it.
//! An object remembers the slots of its names and the number of its request. The object is gone if
//! any of its slots was purged since. Two names that share a slot are purged together, which costs
//! a miss and never serves a purged object. Only operators purge by these names. Origins purge
//! groups, which are therefore confined to their origin: see `groups`.
//!
//! Numbers count purges, without any clock. A purge takes the next number, and reaches objects
//! requested at this number or before. Each process has an era of numbers, behind all earlier ones.
//! An object from an era unknown to the table is not served: see `eras`.
//!
//! The tables never grow, and survive a restart: see `layout`. Their file goes and comes with its
//! disk. Purges made while the file is away are written once it is back.

mod eras;
mod file;
mod groups;
mod layout;

pub use eras::Sequence;
pub use groups::{group_key, origin_key};

use crate::clock;
use arc_swap::ArcSwap;
use eras::{Era, Eras};
use file::{FileContents, TableFile};
use groups::{Groups, Wish};
use layout::Content;
use parking_lot::RwLock;
use shoal_core::{Key, LazyWords, Timestamp};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Purged names, and their positions in the order of all purges.
pub struct PurgeTable {
    tables: Arc<Tables>,
    /// Number of current requests.
    latest: AtomicU64,
    /// First number of this process's era.
    own_start: AtomicU64,
    /// Responses requested before this number need validation.
    validate_before: AtomicU64,
    /// `true` if all responses of earlier processes need validation for now.
    validates_earlier: AtomicBool,
    /// First number of responses that need no look at eras and validation: the greater of both.
    plain_from: AtomicU64,
    /// Number of the latest purge by name.
    latest_purge: AtomicU64,
    keeping: RwLock<TablePersistence>,
}

/// Contents of the file.
struct Tables {
    /// Number that identifies this table; never 0.
    id: AtomicU64,
    eras: ArcSwap<Eras>,
    slots: LazyWords,
    groups: Groups,
}

/// Persistence of the tables.
enum TablePersistence {
    /// None, since no other data is persistent.
    Nowhere,
    /// In the tables' file.
    File(TableFile),
    /// None, because of this failure.
    Lost(Arc<str>),
}

/// A name's slot in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeSlot(pub u16);

/// A name under which objects can be purged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeScope<'a> {
    /// Every object.
    All,
    /// Every object of an origin's host.
    Host(&'a str),
    /// Every object with the tag, of any origin.
    Tag(&'a str),
    /// Every object of the cache group (RFC 9875) of one origin, as stored by earlier versions.
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

    /// Creates tables that are forgotten at exit, like all other data in RAM. `now` only makes it
    /// likely that these numbers come after those of a file that is attached later. The file's
    /// table then need not forget this process's numbers.
    pub fn in_memory(now: Timestamp) -> Self {
        let own = Era::after(now.millis() << 20);
        let tables = Tables {
            id: AtomicU64::new(RandomState::new().hash_one(own.start) | 1),
            eras: ArcSwap::from_pointee(Eras::of([own])),
            slots: LazyWords::new(SLOTS),
            groups: Groups::new(),
        };
        Self {
            tables: Arc::new(tables),
            latest: AtomicU64::new(own.start),
            own_start: AtomicU64::new(own.start),
            validate_before: AtomicU64::new(0),
            validates_earlier: AtomicBool::new(false),
            plain_from: AtomicU64::new(own.start),
            latest_purge: AtomicU64::new(0),
            keeping: RwLock::new(TablePersistence::Nowhere),
        }
    }

    /// Opens the table in `path`, which is created if absent: see [`take_up`](Self::attach_file).
    pub fn open(path: &Path, now: Timestamp) -> std::io::Result<Self> {
        let purge_table = Self::in_memory(now);
        purge_table.attach_file(path)?;
        Ok(purge_table)
    }

    /// Adds the table in `path`, which is created if absent, and stores all purges there from now
    /// on. Damaged parts count as purged, which costs hits once.
    pub fn attach_file(&self, path: &Path) -> std::io::Result<()> {
        let (file, stored) = layout::open(path)?;
        clock::go_on_from(stored.clock);
        // A concurrent purge is written once this file has replaced the previous one.
        let mut keeping = self.keeping.write();
        let lifts = self.begin_era(&stored);
        let mut changed = self.merge(&stored, lifts);
        let mut file = file;
        if !stored.is_current {
            let before = self.sequence();
            // The lock is released, so that no thread waits for the disk.
            drop(keeping);
            file = self.tables.write_whole(path)?;
            keeping = self.keeping.write();
            let is_as_written = self.sequence() == before;
            changed = if is_as_written { BTreeSet::new() } else { layout::pieces().collect() };
        }
        let file = TableFile::start(file, Arc::clone(&self.tables) as Arc<dyn FileContents>)?;
        file.write(changed);
        *keeping = TablePersistence::File(file);
        Ok(())
    }

    /// Starts numbers that come after all of the file's. Returns `true` if this process's earlier
    /// numbers did not. Its purges must then be lifted, and its earlier requests are no longer
    /// known.
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
        self.plain_from.fetch_max(era.start, Ordering::SeqCst);
        lifts
    }

    /// Adds the file's purges to this process's. Returns the pieces in which the file is outdated.
    fn merge(&self, stored: &Content, lifts: bool) -> BTreeSet<u32> {
        let mut changed: BTreeSet<u32> = layout::pieces_of_eras().chain([layout::HEADER]).collect();
        let by = self.next();
        let slots = &self.tables.slots;
        for (at, time) in stored.slots.iter().enumerate() {
            let known = slots.load(at, Ordering::SeqCst);
            let known = if lifts && known > 0 { by } else { known };
            let merged = known.max(time.unwrap_or(by));
            if merged > 0 {
                // A concurrent purge has a greater number.
                slots.word(at).fetch_max(merged, Ordering::SeqCst);
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

    /// Keeps the table in RAM only, until a file is attached again. Earlier purges are still
    /// written if possible.
    pub fn detach_file(&self, why: &str) {
        *self.keeping.write() = TablePersistence::Lost(why.into());
    }

    /// Leaves the file to another process: purges hold in this process only, and the caller tells
    /// the other one of them. The future ends once nothing more is written, with the failure to
    /// write an earlier purge.
    pub fn release_file(&self) -> impl Future<Output = Result<(), Arc<str>>> + use<> {
        let before = std::mem::replace(&mut *self.keeping.write(), TablePersistence::Nowhere);
        async move {
            match before {
                // The file's thread writes every order, and no more come.
                TablePersistence::File(file) => file.written().await,
                TablePersistence::Nowhere | TablePersistence::Lost(_) => Ok(()),
            }
        }
    }

    /// Returns `true` if purges are written to a file of this process.
    pub fn is_in_file(&self) -> bool {
        matches!(*self.keeping.read(), TablePersistence::File(_))
    }

    /// Returns `true` if purges are kept in RAM only, although they should be persistent.
    pub fn are_lost(&self) -> bool {
        matches!(*self.keeping.read(), TablePersistence::Lost(_))
    }

    /// Returns the number of current requests, for [`purged`](Self::is_purged).
    #[inline]
    pub fn sequence(&self) -> Sequence {
        Sequence::new(self.latest.load(Ordering::SeqCst))
    }

    /// Purges objects with `name` that were requested before this call. The purge holds in this
    /// process at once, and is written to disk in the background.
    pub fn purge(&self, name: PurgeScope<'_>) {
        let slot = name.slot();
        let keeping = self.keeping.read();
        let number = self.next();
        self.tables.slots.word(usize::from(slot.0)).fetch_max(number, Ordering::SeqCst);
        // After the slot: a thread that sees this number also sees the slot's.
        self.latest_purge.fetch_max(number, Ordering::SeqCst);
        self.write(&keeping, [layout::piece_of_slot(usize::from(slot.0))]);
    }

    /// Purges cache groups of one origin, at the origin's request. Groups beyond its share are left
    /// out, and counted.
    pub fn purge_groups(&self, origin: &str, groups: &[String], now: Timestamp) {
        self.mark_groups(origin, groups, false, now);
    }

    /// Purges a cache group of one origin, at an operator's request.
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

    /// Orders pieces to be written if there is a file. Includes the era's ceiling if it must be
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

    /// Writes the cache's clock reading for the next process. Each purge writes the reading too,
    /// and so does every hour.
    pub fn note_time(&self) {
        self.write(&self.keeping.read(), []);
    }

    /// Returns the number of origins' group purges that were ignored because the table was full.
    pub fn ignored_groups(&self) -> u64 {
        self.tables.groups.ignored()
    }

    /// Returns a number after those of all requests before this call, and not after those of later
    /// requests.
    pub fn next_time(&self) -> Sequence {
        Sequence::new(self.next() + 1)
    }

    /// Returns the number of a purge. Requests so far have this number or an earlier one, later
    /// requests a greater one.
    fn next(&self) -> u64 {
        self.latest.fetch_add(1, Ordering::SeqCst)
    }

    /// Waits until all purges are written to disk.
    ///
    /// # Errors
    /// The reason for which a purge is not written. It then holds until the next restart, or until
    /// a later purge is written.
    pub async fn wait_written(&self) -> Result<(), Arc<str>> {
        let written = match &*self.keeping.read() {
            TablePersistence::Nowhere => return Ok(()),
            TablePersistence::Lost(why) => return Err(Arc::clone(why)),
            TablePersistence::File(file) => file.written(),
        };
        written.await
    }

    /// Returns `true` if an object with these names, requested at `requested`, has or may have been
    /// purged since.
    pub fn is_purged(&self, slots: &[PurgeSlot], groups: &[Key], requested: Sequence) -> bool {
        let is_since = |time: u64| time >= requested.number();
        !self.is_own(requested) && !self.is_current(requested)
            || is_since(self.latest_purge.load(Ordering::Acquire))
                && slots.iter().any(|slot| is_since(self.slot_time(slot)))
            || self.tables.groups.purged(groups, requested)
    }

    /// Returns `true` if an object with these names was purged since, as far as is known. Unlike
    /// [`Self::is_purged`], the need of a validation does not count.
    pub fn is_removed(&self, slots: &[PurgeSlot], groups: &[Key], requested: Sequence) -> bool {
        let is_since = |slot: &PurgeSlot| self.slot_time(slot) >= requested.number();
        !self.knows(requested) || slots.iter().any(is_since) || self.tables.groups.purged(groups, requested)
    }

    /// Returns the number of the latest purge of a slot; 0 without one.
    fn slot_time(&self, slot: &PurgeSlot) -> u64 {
        self.tables.slots.load(usize::from(slot.0), Ordering::Acquire)
    }

    /// Demands a validation of all responses requested so far. Returns the number before which they
    /// were requested.
    pub fn require_validation(&self) -> u64 {
        let before = self.next_time().number();
        self.validate_before(before);
        before
    }

    /// Demands a validation of all responses requested before this number, as an earlier process
    /// did.
    pub fn validate_before(&self, before: u64) {
        self.validate_before.fetch_max(before, Ordering::SeqCst);
        self.plain_from.fetch_max(before, Ordering::SeqCst);
    }

    /// Demands a validation of all responses of earlier processes, or lifts this demand.
    pub fn validate_earlier_processes(&self, is_demanded: bool) {
        self.validates_earlier.store(is_demanded, Ordering::SeqCst);
    }

    /// Returns `true` if a response requested at this number must be validated before its next use:
    /// a purge by another node of the cluster may have been missed.
    pub fn needs_validation(&self, requested: Sequence) -> bool {
        requested.number() < self.validate_before.load(Ordering::SeqCst)
            || self.validates_earlier.load(Ordering::SeqCst)
                && requested.number() < self.own_start.load(Ordering::SeqCst)
    }

    #[inline(never)]
    fn is_current(&self, requested: Sequence) -> bool {
        self.knows(requested) && !self.needs_validation(requested)
    }

    /// Returns `true` if this process may have given out the number, after all that needs
    /// validation.
    #[inline]
    fn is_own(&self, requested: Sequence) -> bool {
        let own = self.plain_from.load(Ordering::Relaxed)..=self.latest.load(Ordering::Relaxed);
        own.contains(&requested.number())
    }

    /// Returns `true` if the table covers the time since the request: all purges since are known.
    #[inline(never)]
    pub fn knows(&self, requested: Sequence) -> bool {
        self.tables.eras.load().knows(requested)
    }
}

impl PurgeScope<'_> {
    /// Returns the slot to which this name hashes. Slot 0 is reserved for [`PurgeScope::All`].
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

impl FileContents for Tables {
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

/// Number of slots in the table: 512 KB of disk, and of RAM once purges have reached all parts.
pub const SLOTS: usize = 65_536;

const _: () = assert!(SLOTS == u16::MAX as usize + 1, "a slot's number is any that fits into its type");

#[cfg(test)]
mod tests;
