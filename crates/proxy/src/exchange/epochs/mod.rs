//! Purging many objects at once, in constant time: by tag, by cache group, by host, or all.
//!
//! A fixed table holds, for each slot, when the names that hash to it were last purged. An object remembers the
//! slots of its names and when it was asked for; it is gone when any of its slots was purged since. Two names
//! that share a slot are purged together, which costs a miss and never serves what should be gone. The table
//! never grows, and survives a restart: it is a file of [`SLOTS`] little-endian times in milliseconds.

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
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), file: None }
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
        let file = TableFile::start(file, Arc::clone(&slots))?;
        Ok(Self { slots, file: Some(file) })
    }

    /// Purges what bears `name` and was asked for at `now` or before. That holds in this process at once; it is written down in the
    /// background.
    pub fn purge(&self, name: Name<'_>, now: Timestamp) {
        let slot = name.slot();
        self.slots[usize::from(slot.0)].fetch_max(now.millis(), Ordering::AcqRel);
        if let Some(file) = &self.file {
            file.write(slot);
        }
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
            // A final dot makes another key, not another host.
            Self::Host(host) => hash(&[b"host", host.strip_suffix('.').unwrap_or(host).as_bytes()]),
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

/// As far as a clock is taken to have been set back. Until it has caught up, what bears a name that was purged is not kept.
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
        let epochs = Epochs::open(&path, Timestamp::from_seconds(999_000)).expect("read again");
        assert!(epochs.purged(&[Name::All.slot()], asked));
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
