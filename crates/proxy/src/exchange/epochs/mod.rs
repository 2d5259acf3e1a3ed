//! Purging many objects at once, in constant time: by tag, by cache group, by host, or all.
//!
//! A fixed table holds, for each slot, when the names that hash to it were last purged. An object remembers the
//! slots of its names and when it was asked for; it is gone when any of its slots was purged since. Two names
//! that share a slot are purged together, which costs a miss and never serves what should be gone. Only operators
//! purge by these names. Groups are purged by origins, and so are confined to their origin: see [`groups`].
//!
//! The tables never grow, and survive a restart: their file has [`SLOTS`] little-endian times in milliseconds, and behind
//! them the places of the groups. The file goes and comes with
//! the disk that it is on: what is purged while it is away is written to it once it is back.
//!
//! These times are the clock's as long as that goes on. When it is set back they stand still, but for a step with each purge, until it has
//! caught up: a purge comes after all that was asked for before it, and before all that is asked for after it (a hybrid clock, after
//! Kulkarni et al., "Logical Physical Clocks", OPODIS 2014, of one node). So it is within a process, and towards purges of earlier ones.

mod file;
mod groups;

pub use groups::{group_key, origin_key};

use file::{Stored, TableFile};
use groups::{ENTRY_BYTES, Groups, PLACES, Wish};
use parking_lot::RwLock;
use shoal_core::{Key, Timestamp};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When what was last purged.
pub struct Epochs {
    tables: Arc<Tables>,
    /// The latest time that was given out.
    latest: AtomicU64,
    /// The latest purge by name.
    latest_purge: AtomicU64,
    keeping: RwLock<Keeping>,
}

/// What the file holds.
struct Tables {
    slots: Box<[AtomicU64]>,
    groups: Groups,
}

/// Where the tables outlive the process.
enum Keeping {
    /// Nowhere, since nothing else does.
    Nowhere,
    /// In its file.
    File(TableFile),
    /// Nowhere, though it should.
    Lost(Arc<str>),
}

/// A name's place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u16);

/// A name under which objects can be purged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Every object.
    All,
    /// Every object of an origin's host.
    Host(&'a str),
    /// Every object that carries the tag, whatever its origin.
    Tag(&'a str),
    /// Every object of the cache group (RFC 9875) of one origin, as earlier versions stored it. They gave
    /// groups slots.
    EarlierGroup {
        /// Scheme, host and port.
        origin: &'a str,
        /// The group's name.
        group: &'a str,
    },
}

impl Epochs {
    /// Size of the tables' file.
    pub const BYTES: u64 = (SLOTS * WORD + PLACES * ENTRY_BYTES) as u64;

    /// Tables that are forgotten at exit, as everything is that they tell of.
    pub fn volatile() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self {
            tables: Arc::new(Tables { slots, groups: Groups::new() }),
            latest: AtomicU64::new(0),
            latest_purge: AtomicU64::new(0),
            keeping: RwLock::new(Keeping::Nowhere),
        }
    }

    /// The table in `path`, made when absent: see [`take_up`](Self::take_up).
    pub fn open(path: &Path, now: Timestamp) -> std::io::Result<Self> {
        let epochs = Self::volatile();
        epochs.take_up(path, now)?;
        Ok(epochs)
    }

    /// Adds what the table in `path` says, made when absent, and keeps everything there from now on. A time shortly after `now` is that of a
    /// purge before the clock was set back (a machine without a clock of its own starts in the past), and holds. One further off is
    /// damage: it counts as `now`, which costs hits once.
    pub fn take_up(&self, path: &Path, now: Timestamp) -> std::io::Result<()> {
        let (file, times, groups) = read(path)?;
        let file = TableFile::start(file, Arc::clone(&self.tables) as Arc<dyn Stored>)?;
        // Who purges meanwhile writes it down when this file has taken the place of the one before.
        let mut keeping = self.keeping.write();
        let latest = now.plus(SET_BACK_MAX).millis();
        let sound = times.iter().map(|time| if *time > latest { now.millis() } else { *time });
        for (number, time) in (0..=u16::MAX).zip(sound) {
            let known = self.tables.slots[usize::from(number)].fetch_max(time, Ordering::SeqCst);
            self.latest_purge.fetch_max(time, Ordering::SeqCst);
            self.latest.fetch_max(time.saturating_add(1), Ordering::SeqCst);
            if known > time {
                file.write([u32::from(number)]);
            }
        }
        let (changed, found) = self.tables.groups.take_up(&groups, latest, now);
        self.latest.fetch_max(found.saturating_add(1), Ordering::SeqCst);
        file.write(changed.into_iter().map(place_number));
        *keeping = Keeping::File(file);
        Ok(())
    }

    /// Keeps the table in RAM only, until it is taken up again. What was purged before is still written where that is possible.
    pub fn let_go(&self, why: &str) {
        *self.keeping.write() = Keeping::Lost(why.into());
    }

    /// The time of something that is asked for when the clock says `now`, for [`purged`](Self::purged).
    pub fn time(&self, now: Timestamp) -> Timestamp {
        let latest = self.latest.load(Ordering::SeqCst);
        if now.millis() <= latest {
            return Timestamp::from_millis(latest);
        }
        let before = self.latest.fetch_max(now.millis(), Ordering::SeqCst);
        Timestamp::from_millis(before.max(now.millis()))
    }

    /// Purges what bears `name` and was asked for before this call, or `now` at the latest. That holds in this process at once; it is
    /// written down in the background.
    pub fn purge(&self, name: Name<'_>, now: Timestamp) {
        let slot = name.slot();
        let time = self.step(now).millis() - 1;
        self.tables.slots[usize::from(slot.0)].fetch_max(time, Ordering::SeqCst);
        // After the slot: whoever sees this sees that.
        self.latest_purge.fetch_max(time, Ordering::SeqCst);
        if let Keeping::File(file) = &*self.keeping.read() {
            file.write([u32::from(slot.0)]);
        }
    }

    /// Purges cache groups of one origin, as the origin wishes: what it may not is left out, and counted.
    pub fn purge_groups(&self, origin: &str, groups: &[String], now: Timestamp) {
        self.mark_groups(origin, groups, false, now);
    }

    /// Purges a cache group of one origin, as an operator wishes.
    pub fn purge_group(&self, origin: &str, group: &str, now: Timestamp) {
        self.purge(Name::EarlierGroup { origin, group }, now);
        self.mark_groups(origin, &[group.to_owned()], true, now);
    }

    fn mark_groups(&self, origin: &str, groups: &[String], is_operators: bool, now: Timestamp) {
        let keys: Vec<Key> = groups.iter().map(|group| group_key(origin, group)).collect();
        let wish = Wish { origin: origin_key(origin), groups: &keys, is_operators };
        let changed = self.tables.groups.purge(&wish, self.step(now).millis() - 1, now);
        if let Keeping::File(file) = &*self.keeping.read() {
            file.write(changed.into_iter().map(place_number));
        }
    }

    /// Purges of groups that origins wished and that were not heeded, since the table was full.
    pub fn ignored_groups(&self) -> u64 {
        self.tables.groups.ignored()
    }

    /// A time later than that of all that was asked for before this call, and not later than of anything that is asked for after it.
    pub fn step(&self, now: Timestamp) -> Timestamp {
        let later = |latest: u64| Some(latest.max(now.millis()).saturating_add(1));
        let before = self.latest.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        Timestamp::from_millis(before.unwrap_or_else(|latest| latest).max(now.millis()).saturating_add(1))
    }

    /// Waits until all that was purged is written down.
    ///
    /// # Errors
    /// Why something is not: then it holds until the next restart, or until a later purge could be written.
    pub async fn written(&self) -> Result<(), Arc<str>> {
        let written = match &*self.keeping.read() {
            Keeping::Nowhere => return Ok(()),
            Keeping::Lost(why) => return Err(Arc::clone(why)),
            Keeping::File(file) => file.written(),
        };
        written.await
    }

    /// Whether an object with these names, asked for at `requested`, has been purged since.
    pub fn purged(&self, slots: &[Slot], groups: &[Key], requested: Timestamp) -> bool {
        let is_since = |time: &AtomicU64| time.load(Ordering::Acquire) >= requested.millis();
        let slot_time = |slot: &Slot| &self.tables.slots[usize::from(slot.0)];
        is_since(&self.latest_purge) && slots.iter().any(|slot| is_since(slot_time(slot)))
            || self.tables.groups.purged(groups, requested)
    }
}

impl Name<'_> {
    /// The slot that this name hashes to. Slot 0 is kept for [`Name::All`].
    pub fn slot(self) -> Slot {
        let hash = match self {
            Self::All => return Slot(0),
            // Final dots make another key, not another host.
            Self::Host(host) => hash(&[b"host", host.trim_end_matches('.').as_bytes()]),
            Self::Tag(tag) => hash(&[b"tag", tag.as_bytes()]),
            Self::EarlierGroup { origin, group } => hash(&[b"group", origin.as_bytes(), group.as_bytes()]),
        };
        Slot((1 + hash % (SLOTS as u64 - 1)) as u16)
    }
}

impl Stored for Tables {
    fn bytes(&self, number: u32) -> (u64, Vec<u8>) {
        match u16::try_from(number) {
            Ok(slot) => {
                let time = self.slots[usize::from(slot)].load(Ordering::Acquire);
                (u64::from(slot) * WORD as u64, time.to_le_bytes().to_vec())
            }
            Err(_) => {
                let place = (number as usize - SLOTS) as u16;
                let at = SLOTS * WORD + usize::from(place) * ENTRY_BYTES;
                (at as u64, self.groups.encode(place).to_vec())
            }
        }
    }
}

/// The number of a group's place among all that the file holds: behind the slots.
fn place_number(place: u16) -> u32 {
    SLOTS as u32 + u32::from(place)
}

/// The tables' file, the times in it, and the places of the groups. An earlier version's has times alone.
fn read(path: &Path) -> std::io::Result<(File, Vec<u64>, Vec<u8>)> {
    let mut file = shoal_store::door::private::file(path)?;
    let mut stored = Vec::new();
    Read::by_ref(&mut file).take(Epochs::BYTES).read_to_end(&mut stored)?;
    stored.resize(Epochs::BYTES as usize, 0);
    file.set_len(Epochs::BYTES)?;
    let groups = stored.split_off(SLOTS * WORD);
    let words = stored.chunks_exact(WORD).map(|word| word.try_into().expect("a chunk of eight bytes"));
    Ok((file, words.map(u64::from_le_bytes).collect(), groups))
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

const WORD: usize = 8;

const _: () = assert!(SLOTS == u16::MAX as usize + 1, "a slot's number is any that fits into its type");

/// As far as a clock is taken to have been set back.
const SET_BACK_MAX: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_purge_reaches_what_was_asked_for_before_it() {
        let epochs = Epochs::volatile();
        let slots = [Name::Tag("news").slot(), Name::Host("example.org").slot()];
        assert!(!epochs.purged(&slots, &[], at(5)));
        epochs.purge(Name::Tag("news"), at(10));
        assert!(epochs.purged(&slots, &[], at(5)) && epochs.purged(&slots, &[], at(10)));
        assert!(!epochs.purged(&slots, &[], at(11)));
        assert!(!epochs.purged(&[Name::Tag("sport").slot()], &[], at(5)));
    }

    #[test]
    fn a_step_is_after_what_came_before_it_and_not_after_what_follows() {
        let epochs = Epochs::volatile();
        let at = Timestamp::from_millis;
        // The second clock is behind the first, as two threads' may be.
        let before = epochs.time(at(1000));
        let step = epochs.step(at(999));
        assert!(step > before && epochs.time(at(999)) >= step && epochs.time(at(1000)) >= step);
        assert!(epochs.step(at(2000)) > at(2000), "nor after what others' clocks say is the same time");
    }

    #[test]
    fn a_purge_holds_for_what_was_asked_for_before_the_clock_was_set_back_and_not_for_what_is_after() {
        let epochs = Epochs::volatile();
        let slots = [Name::Tag("news").slot()];
        for _ in 0..3 {
            let before = epochs.time(at(1000));
            assert!(!epochs.purged(&slots, &[], before));
            epochs.purge(Name::Tag("news"), at(900));
            assert!(epochs.purged(&slots, &[], before));
            assert!(!epochs.purged(&slots, &[], epochs.time(at(901))), "it can be kept again at once");
        }
        assert_eq!(epochs.time(at(2000)), at(2000), "the clock has caught up");
    }

    #[tokio::test]
    async fn purges_survive_a_restart() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("purged");
        let epochs = Epochs::open(&path, at(7)).expect("made");
        epochs.purge(Name::All, at(7));
        epochs.written().await.expect("written");
        let epochs = Epochs::open(&path, at(8)).expect("read again");
        assert!(epochs.purged(&[Name::All.slot()], &[], at(7)));
        assert!(!epochs.purged(&[Name::All.slot()], &[], at(8)));
    }

    #[tokio::test]
    async fn a_table_that_comes_later_is_heeded_and_told_what_it_missed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, [sport, news, weather]) =
            (folder.path().join("purged"), ["sport", "news", "weather"].map(|tag| [Name::Tag(tag).slot()]));
        let earlier = Epochs::open(&path, at(7)).expect("made");
        earlier.purge(Name::Tag("sport"), at(7));
        earlier.purge(Name::Tag("news"), at(8));
        earlier.written().await.expect("written");
        let epochs = Epochs::volatile();
        epochs.let_go("its disk is away");
        epochs.purge(Name::Tag("news"), at(20));
        assert_eq!(&*epochs.written().await.expect_err("it has no file"), "its disk is away");
        epochs.take_up(&path, at(30)).expect("read");
        let check = |epochs: &Epochs| {
            assert!(epochs.purged(&sport, &[], at(7)) && !epochs.purged(&sport, &[], at(8)));
            assert!(epochs.purged(&news, &[], at(20)) && !epochs.purged(&news, &[], at(21)));
        };
        check(&epochs);
        epochs.purge(Name::Tag("weather"), at(31));
        epochs.written().await.expect("written");
        let next = Epochs::open(&path, at(40)).expect("read again");
        check(&next);
        assert!(next.purged(&weather, &[], at(31)));
    }

    #[tokio::test]
    async fn a_table_that_is_let_go_of_leaves_its_disk_free() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("purged");
        let epochs = Epochs::open(&path, at(7)).expect("made");
        epochs.purge(Name::All, at(7));
        epochs.written().await.expect("written");
        epochs.let_go("its disk is away");
        let is_open = || {
            let open = std::fs::read_dir("/proc/self/fd").expect("there");
            open.flatten().any(|open| std::fs::read_link(open.path()).is_ok_and(|target| target == path))
        };
        let begun = std::time::Instant::now();
        while is_open() {
            assert!(begun.elapsed() < Duration::from_secs(10), "its file stays open");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn purges_hold_when_the_clock_has_been_set_back_meanwhile() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("purged");
        let (asked, purged) = (Timestamp::from_seconds(1_000_000), Timestamp::from_seconds(1_000_010));
        let epochs = Epochs::open(&path, purged).expect("made");
        epochs.purge(Name::All, purged);
        epochs.written().await.expect("written");
        let now = Timestamp::from_seconds(999_000);
        let epochs = Epochs::open(&path, now).expect("read again");
        assert!(epochs.purged(&[Name::All.slot()], &[], asked));
        assert!(!epochs.purged(&[Name::All.slot()], &[], epochs.time(now)), "what comes now is kept");
    }

    #[test]
    fn a_damaged_table_costs_hits_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("purged");
        std::fs::write(&path, [0xff; 4096]).expect("written");
        let epochs = Epochs::open(&path, at(100)).expect("any bytes are a table");
        assert!(epochs.purged(&[Slot(0)], &[], at(100)) && !epochs.purged(&[Slot(0)], &[], at(101)));
    }
}
