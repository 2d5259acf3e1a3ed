//! What a cache architecture promises, and what it is promised.

use bytes::Bytes;
use shoal_core::{Key, ObjectKey};
use std::sync::Arc;

/// A cache architecture: objects on disk, found by key.
///
/// Every call may block on the disk unless it says otherwise, and may be made from any thread.
pub trait Store: Send + Sync {
    /// The architecture's name, as the settings spell it.
    fn name(&self) -> &'static str;

    /// Which of the store's disks has this key, from 0: work for one disk should not wait behind
    /// another's. Touches no device.
    fn disk_index(&self, _key: Key) -> usize {
        0
    }

    /// Whether the index holds an entry for `key`. Touches no device; may be wrong either way for
    /// an instant, and an entry that it names may still turn out to be a miss. Always true where
    /// nothing is remembered.
    fn may_contain(&self, key: &ObjectKey) -> bool;

    /// Whether anything is kept at all: not while every disk is out of service. Touches no device.
    fn is_in_service(&self) -> bool {
        true
    }

    /// Whether the index names all that is stored. False while a store looks for what was written
    /// last before a crash: until then objects may come that [`may_contain`](Self::may_contain)
    /// denies, so that who wants one gone has to say so whatever that answers. Touches no device.
    fn index_is_complete(&self) -> bool {
        true
    }

    /// Where on its disk a read of the object would begin, in bytes: reads are best made in the
    /// order of their places. `None` where that is not known. Touches no device.
    fn position(&self, _key: &ObjectKey) -> Option<u64> {
        None
    }

    /// Opens the object, counting as a hit for replacement. `None` is a miss: absent, or what was
    /// found did not stand up to its checks (then counted, and its entry dropped).
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error>;

    /// The same without waiting for the device, for who must not: an object that still waits to be
    /// written, or that lies in what has been read for another. `None` says nothing:
    /// [`open`](Self::open) knows.
    fn try_open(&self, _key: &ObjectKey) -> Option<OpenObject> {
        None
    }

    /// Starts an insert. `body_bytes` is the length when it is known beforehand. Nothing becomes
    /// visible until [`Insert::commit`]; an older object of the same key stays until then (with
    /// `cern` it is locked).
    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error>;

    /// Inserts an object whose body is at hand without waiting for the device, for who must not.
    /// Once it is visible `still` is asked whether it should be, and if not it is taken back. The
    /// bytes of the body are held until they are written.
    fn try_insert(
        &self,
        _key: &ObjectKey,
        _metadata: &[u8],
        _body: &Bytes,
        _still: &dyn Fn() -> bool,
    ) -> Result<TryInsert, Error> {
        Ok(TryInsert::WouldBlock)
    }

    /// Writes what [`insert_at_once`](Self::try_insert) has left to be written, on the disk that
    /// has this key.
    fn flush_due(&self, _key: Key) -> Result<(), Error> {
        Ok(())
    }

    /// Replaces the metadata of a stored object without rewriting its body, if `replaces` says so
    /// of the metadata that it has: what is meant for one object must not come to stand with
    /// another's body. False when it does not, or the object is absent.
    fn update_metadata(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error>;

    /// Removes the object; bodies that are open stay readable. False when it was absent. After an
    /// error it is not found any more either, but may be when the store is opened again.
    fn remove(&self, key: &ObjectKey) -> Result<bool, Error>;

    /// Whether a removal that was made just now holds also when the store is opened again: not
    /// while a disk is out of service that might have the object too. Touches no device.
    fn removals_last(&self) -> bool {
        true
    }

    /// Gives up a disk, by its [`lane`](Self::disk_index): it does not answer, and more has to be
    /// removed from it than can be remembered elsewhere. This object is not found there any more,
    /// nor when the disk comes back. False where a disk cannot be done without. Touches no device.
    fn fail_disk(&self, _lane: usize, _key: &ObjectKey) -> bool {
        false
    }

    /// The largest body that takes at most `stored_bytes` with its key, metadata and checksums; 0
    /// when these alone take more. The answer here is that of architectures that keep object files.
    fn largest_body_within(&self, stored_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
        crate::object::body_within(stored_bytes, key_bytes, metadata_bytes)
    }

    /// Will tell `gave_up` of each key whose object is given up to make room, or could not be
    /// written. Where that is not told, who keeps a copy elsewhere cannot know that it has become
    /// the only one.
    fn on_evicted(&self, gave_up: EvictionCallback) {
        drop(gave_up);
    }

    /// What is stored now.
    fn usage(&self) -> Usage;

    /// Writes to disk what a power loss should not take, and marks the store as closed in order.
    fn close(&self) -> Result<(), Error>;
}

/// What became of an insert without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryInsert {
    /// It has been made.
    Inserted,
    /// The same, and so much waits to be written by now that somebody should call
    /// [`Store::flush_due`].
    InsertedFlushDue,
    /// Nothing has been done: it takes the device, so [`Store::insert`] has to be called where that
    /// can be waited for.
    WouldBlock,
}

/// Who wants to know which objects the disk has no longer.
pub type EvictionCallback = Arc<dyn Fn(Key) + Send + Sync>;

/// An object that stood up to its checks on opening.
pub struct OpenObject {
    /// The metadata given on insert or by the last update.
    pub metadata: Bytes,
    /// The body.
    pub body: Arc<dyn StoredBody>,
}

/// A body on disk. Readable while it is being written, up to what has been appended.
pub trait StoredBody: Send + Sync {
    /// Its length; of a body still being written, what has been appended so far.
    fn length(&self) -> u64;

    /// Reads at most `limit` bytes from `offset`, fewer at the body's end. What comes back has been
    /// checked against the body's checksums once the body is complete; bytes that do not match are
    /// [`Error::Corrupt`], and the entry has been dropped.
    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error>;

    /// The same without waiting for the device: of a body that is in memory. `None` says nothing:
    /// [`read`](Self::read) knows.
    fn read_at_once(&self, _offset: u64, _limit: usize) -> Option<Bytes> {
        None
    }

    /// The same body for who keeps it for longer, when this one keeps more in memory than what it
    /// is.
    fn detached(&self) -> Option<Arc<dyn StoredBody>> {
        None
    }

    /// Which of the store's disks it is on: see [`Store::disk_index`].
    fn disk_index(&self) -> usize {
        0
    }

    /// Where on it a read from `offset` would begin: see [`Store::position`].
    fn position(&self, _offset: u64) -> Option<u64> {
        None
    }
}

/// An object being written. Dropping it uncommitted leaves no trace.
pub trait Insert: Send {
    /// Appends to the body.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// A view of what has been and will be appended; it stays readable after commit and after drop.
    fn body(&self) -> Arc<dyn StoredBody>;

    /// Completes the object and makes it visible, with its final metadata when it changed.
    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error>;

    /// Which of the store's disks it goes to: see [`Store::disk_index`].
    fn disk_index(&self) -> usize {
        0
    }
}

/// What a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Objects visible.
    pub objects: u64,
    /// Most objects that the index can hold, or that fit.
    pub objects_max: u64,
    /// Disk space charged, in bytes.
    pub bytes: u64,
    /// The configured limit, in bytes.
    pub bytes_max: u64,
    /// Objects given up to make room, since start.
    pub evictions: u64,
    /// Those of them that there was space for, but no place in the index.
    pub crowded_out: u64,
    /// Objects that failed a check and were dropped, since start.
    pub corrupt: u64,
    /// Reads from the disk that what was read before has spared, since start.
    pub spared_reads: u64,
    /// Calls to the disk that failed while nobody waited for them, since start.
    pub failures: u64,
    /// Objects that are found and not written to disk yet, and one more while anything is being
    /// brought there: the end of the process loses nothing only when this is 0.
    pub unwritten: u64,
}

/// Why the store and its disk could not do it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    Disk {
        /// What was attempted.
        action: &'static str,
        /// What it said.
        source: std::io::Error,
    },
    /// Stored bytes do not match their checksum or cannot be read as what they should be.
    Corrupt {
        /// Which part.
        part: &'static str,
    },
    /// The store chose not to take the object.
    Declined(Declined),
    /// The folder or file cannot be used as this store.
    Unusable(String),
    /// The object has been given up while it was read.
    Gone,
}

/// Why an insert was declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// Larger than the store takes, or than the store is.
    TooLarge,
    /// No space could be made: everything else is being written or read.
    NoSpace,
    /// The disk is out of service.
    OutOfService,
    /// Another is writing an object of this key.
    Locked,
    /// Nobody has asked for it before, and what is on disk is worth more. A second attempt before
    /// long succeeds.
    OnProbation,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Disk { action, source } => write!(f, "could not {action}: {source}"),
            Self::Corrupt { part } => write!(f, "corrupt {part}"),
            Self::Declined(why) => write!(f, "declined: {why:?}"),
            Self::Unusable(why) => write!(f, "unusable store: {why}"),
            Self::Gone => f.write_str("the object was given up while it was read"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Disk { source, .. } => Some(source),
            _ => None,
        }
    }
}
