//! Purging many objects at once, in constant time: by tag, by cache group, by host, or all.
//!
//! A fixed table holds, for each slot, when the names that hash to it were last purged. An object remembers the
//! slots of its names and when it was asked for; it is gone when any of its slots was purged since. Two names
//! that share a slot are purged together, which costs a miss and never serves what should be gone. The table
//! never grows, and survives a restart: it is a file of [`SLOTS`] little-endian times in milliseconds.
//!
//! These times are the clock's as long as that goes on. When it is set back they stand still, but for a step with each purge, until it has
//! caught up: a purge comes after all that was asked for before it, and before all that is asked for after it (a hybrid clock, after
//! Kulkarni et al., "Logical Physical Clocks", OPODIS 2014, of one node). So it is within a process, and towards purges of earlier ones.

mod file;

use file::TableFile;
use shoal_core::Timestamp;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When each slot was last purged.
pub struct Epochs {
    slots: Arc<[AtomicU64]>,
    /// The latest time that was given out.
    latest: AtomicU64,
    file: Option<TableFile>,
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
    /// Every object of the cache group (RFC 9875) of one origin.
    Group {
        /// Scheme, host and port.
        origin: &'a str,
        /// The group's name.
        group: &'a str,
    },
}

impl Epochs {
    /// Size of the table's file.
    pub const BYTES: u64 = (SLOTS * WORD) as u64;

    /// A table that is forgotten at exit.
    pub fn volatile() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { slots, latest: AtomicU64::new(0), file: None }
    }

    /// The table in `path`, made when absent. A time shortly after `now` is that of a purge before the clock was set back
    /// (a machine without a clock of its own starts in the past), and holds. One further off is damage: it counts as
    /// `now`, which costs hits once.
    pub fn open(path: &Path, now: Timestamp) -> std::io::Result<Self> {
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut stored = Vec::new();
        Read::by_ref(&mut file).take((SLOTS * WORD) as u64).read_to_end(&mut stored)?;
        stored.resize(SLOTS * WORD, 0);
        file.set_len((SLOTS * WORD) as u64)?;
        let times = stored.chunks_exact(WORD).map(|word| word.try_into().expect("a chunk of eight bytes"));
        let latest = now.plus(SET_BACK_MAX).millis();
        let sound = |time: u64| if time > latest { now.millis() } else { time };
        let slots: Arc<[AtomicU64]> =
            times.map(|word| AtomicU64::new(sound(u64::from_le_bytes(word)))).collect();
        let purged = slots.iter().map(|slot| slot.load(Ordering::Relaxed)).max().unwrap_or(0);
        let file = TableFile::start(file, Arc::clone(&slots))?;
        Ok(Self { slots, latest: AtomicU64::new(purged.saturating_add(1)), file: Some(file) })
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
        self.slots[usize::from(slot.0)].fetch_max(time, Ordering::SeqCst);
        if let Some(file) = &self.file {
            file.write(slot);
        }
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
        match &self.file {
            Some(file) => file.written().await,
            None => Ok(()),
        }
    }

    /// Whether an object with these names, asked for at `requested`, has been purged since.
    pub fn purged(&self, slots: &[Slot], requested: Timestamp) -> bool {
        slots.iter().any(|slot| self.slots[usize::from(slot.0)].load(Ordering::Acquire) >= requested.millis())
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
            Self::Group { origin, group } => hash(&[b"group", origin.as_bytes(), group.as_bytes()]),
        };
        Slot((1 + hash % (SLOTS as u64 - 1)) as u16)
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

const WORD: usize = 8;

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
        assert!(!epochs.purged(&slots, at(5)));
        epochs.purge(Name::Tag("news"), at(10));
        assert!(epochs.purged(&slots, at(5)) && epochs.purged(&slots, at(10)));
        assert!(!epochs.purged(&slots, at(11)));
        assert!(!epochs.purged(&[Name::Tag("sport").slot()], at(5)));
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
            assert!(!epochs.purged(&slots, before));
            epochs.purge(Name::Tag("news"), at(900));
            assert!(epochs.purged(&slots, before));
            assert!(!epochs.purged(&slots, epochs.time(at(901))), "it can be kept again at once");
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
        assert!(epochs.purged(&[Name::All.slot()], at(7)));
        assert!(!epochs.purged(&[Name::All.slot()], at(8)));
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
        assert!(epochs.purged(&[Name::All.slot()], asked));
        assert!(!epochs.purged(&[Name::All.slot()], epochs.time(now)), "what comes now is kept");
    }

    #[test]
    fn a_damaged_table_costs_hits_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("purged");
        std::fs::write(&path, [0xff; 4096]).expect("written");
        let epochs = Epochs::open(&path, at(100)).expect("any bytes are a table");
        assert!(epochs.purged(&[Slot(0)], at(100)) && !epochs.purged(&[Slot(0)], at(101)));
    }
}
