//! Contract between the proxy and a cache architecture: duties of both sides.

use bytes::Bytes;
use shoal_core::{Key, ObjectKey};
use std::sync::Arc;

/// Cache architecture: objects on disk, found by key.
///
/// Every call may block on the disk, and may be made from any thread.
pub trait Store: PromptStore + StoreView + StoreUpkeep + Peek + Send + Sync {
    /// Opens the object, counting as a hit for replacement. `None` is a miss: the object is absent
    /// or failed its checks. A failed check is counted, and the entry dropped.
    fn open(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error>;

    /// Starts an insert. `body_bytes` is the length if known in advance. The object becomes visible
    /// at [`Insert::commit`]. An older object of the key stays until then; with `cern` it is
    /// locked.
    fn insert(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        body_bytes: Option<u64>,
    ) -> Result<Box<dyn Insert>, Error>;

    /// Replaces the metadata of a stored object, without its body, if `replaces` accepts the stored
    /// metadata. This check keeps metadata from one object apart from the body of another. Returns
    /// `false` if `replaces` refuses, or the object is absent.
    fn update_metadata(
        &self,
        key: &ObjectKey,
        metadata: &[u8],
        replaces: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, Error>;

    /// Removes the object; open bodies stay readable. Returns `false` if the object was absent.
    /// After an error the object is not found either, but may be found when the store is opened
    /// again.
    fn remove(&self, key: &ObjectKey) -> Result<bool, Error>;

    /// Writes to disk all that a power loss should not take. Marks the store as closed in order.
    fn close(&self) -> Result<(), Error>;
}

/// Calls of a store that never wait for the device, for callers that must not wait. A store without
/// them says so to each.
pub trait PromptStore {
    /// Opens the object without waiting for the device, for callers that must not wait. Finds an
    /// object that still waits to be written, or lies in bytes read for another. `None` says
    /// nothing: only [`Store::open`] can tell.
    fn try_open(&self, _key: &ObjectKey) -> Option<OpenObject> {
        None
    }

    /// Inserts an object with a complete body without waiting for the device, for callers that must
    /// not wait. Calls `still` once the object is visible, and takes the object back if `still`
    /// returns `false`. Holds the bytes of the body until they are written.
    fn try_insert(
        &self,
        _key: &ObjectKey,
        _metadata: &[u8],
        _body: &Bytes,
        _still: &dyn Fn() -> bool,
    ) -> Result<TryInsert, Error> {
        Ok(TryInsert::WouldBlock)
    }
}

/// View of a store: none of its calls touches a device.
pub trait StoreView {
    /// Returns the architecture's name, as the settings spell it.
    fn name(&self) -> &'static str;

    /// Returns the index, from 0, of the disk that has this key. Work for one disk should not wait
    /// behind work for another.
    fn disk_index(&self, _key: Key) -> usize {
        0
    }

    /// Returns the index of the disk on which a lookup of the object begins. This is not the disk
    /// that has the key if the object came to lie on another.
    fn holder_index(&self, key: &ObjectKey) -> usize {
        self.disk_index(key.hash())
    }

    /// Returns `true` if the index holds an entry for `key`. The answer may be
    /// wrong for an instant, and a named entry may still be a miss. Always `true` for a store that
    /// remembers nothing.
    fn may_contain(&self, key: &ObjectKey) -> bool;

    /// Returns `false` if every disk is out of service, so that nothing is kept.
    fn is_in_service(&self) -> bool {
        true
    }

    /// Returns the largest body that is kept, in bytes. A larger one is declined.
    fn object_max_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Returns `false` during crash recovery: the index may then lack stored objects. Callers must
    /// issue removals even if [`may_contain`](Self::may_contain) returns `false`.
    fn index_is_complete(&self) -> bool {
        true
    }

    /// Returns the offset on its disk, in bytes, at which a read of the object would begin. Reads
    /// are best made in the order of their offsets. `None` if the offset is unknown.
    fn position(&self, _key: &ObjectKey) -> Option<u64> {
        None
    }

    /// Returns `true` if a removal made now also holds after the store is opened again. Returns
    /// `false` while a disk is out of service that might have the object too.
    fn removals_last(&self) -> bool {
        true
    }

    /// Returns the largest body that takes at most `stored_bytes` with its key, metadata and
    /// checksums. Returns 0 if these alone take more. This default is for architectures that keep
    /// object files.
    fn largest_body_within(&self, stored_bytes: u64, key_bytes: u32, metadata_bytes: u32) -> u64 {
        crate::object::body_within(stored_bytes, key_bytes, metadata_bytes)
    }

    /// Returns the store's present contents and its counters.
    fn usage(&self) -> Usage;

    /// Returns the state of a store that writes round a ring; `None` for others.
    fn ring(&self) -> Option<RingView> {
        None
    }
}

/// Upkeep of a store by the node that runs it.
pub trait StoreUpkeep {
    /// Writes the objects that [`PromptStore::try_insert`] left unwritten on this key's disk.
    fn flush_due(&self, _key: Key) -> Result<(), Error> {
        Ok(())
    }

    /// Gives up the disk with this [`StoreView::disk_index`], since the disk does not answer
    /// and too many removals wait for it. This object is not found there any more, nor when the
    /// disk comes back. Returns `false` if the store cannot do without the disk. Touches no device.
    fn fail_disk(&self, _lane: usize, _key: &ObjectKey) -> bool {
        false
    }

    /// Writes everything like [`Store::close`], then lets another process open the store. This
    /// process may go on to read, and writes no byte any more: callers insert, update and remove
    /// nothing from then on. Bytes that are read are checked as always, since the other process
    /// writes.
    ///
    /// # Errors
    /// [`Error::Unusable`] for a store that two processes cannot read at once, and any error of
    /// closing. The store then is as before.
    fn release(&self) -> Result<(), Error> {
        Err(Error::Unusable("this architecture cannot be read by two processes at once".into()))
    }

    /// Returns the objects of a part of the store, from `place` on, for a caller that copies them;
    /// `None` at the end. The first place is 0. Counts no hit and changes nothing. Objects that
    /// come meanwhile may be missing.
    ///
    /// # Errors
    /// [`Error::Unusable`] for a store that cannot be walked, and errors of its disk.
    fn walk(&self, _place: u64) -> Result<Option<WalkedPart>, Error> {
        Err(Error::Unusable("this architecture cannot list its objects".into()))
    }

    /// Writes no longer to the part of the store that a limit of `bytes` bytes would cut off.
    /// Returns the place at which that part begins, for [`walk`](Self::walk); `None` if the store
    /// fits already.
    ///
    /// # Errors
    /// [`Error::Unusable`] for a store that cannot be made as small as this, or not while it is
    /// open.
    fn confine(&self, _bytes: u64) -> Result<Option<u64>, Error> {
        Err(Error::Unusable("this architecture changes its size when it is opened".into()))
    }

    /// Gives space back to the file system that the store had before it was made smaller. Nobody
    /// may read there any more.
    fn trim(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Registers `gave_up`, called with the key of each object that the store evicts or fails to
    /// write. A holder of another copy learns from the call that its copy has become the only one.
    fn on_evicted(&self, gave_up: EvictionCallback) {
        drop(gave_up);
    }
}

/// Objects of a part of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkedPart {
    /// Objects of the part, in disk order.
    pub objects: Vec<WalkedObject>,
    /// Place of the next part.
    pub next: u64,
    /// Place at which the last part ends.
    pub end: u64,
    /// The part is younger than the one that the store gives up next.
    pub is_young: bool,
    /// Bytes read from the disk.
    pub bytes_read: u64,
}

/// Object of a [`WalkedPart`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkedObject {
    /// Key of the object.
    pub key: ObjectKey,
    /// Bytes that the object takes, rounded up.
    pub bytes: u64,
    /// The object has had hits since it was written, or replacement spares it.
    pub is_wanted: bool,
}

/// Look at a store for people, beside the requests of clients.
pub trait Peek {
    /// Returns a summary of the object that [`Store::open`] would find. May block on the disk.
    /// Counts no hit, changes no order of use, and drops nothing: an object in doubt is absent.
    fn peek(&self, key: &ObjectKey) -> Result<Option<ObjectSummary>, Error>;
}

/// Outcome of an insert without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryInsert {
    /// The object has been inserted.
    Inserted,
    /// The object has been inserted, and enough waits to be written that a caller should call
    /// [`StoreUpkeep::flush_due`].
    InsertedFlushDue,
    /// Nothing has been done, since the insert needs the device. Call [`Store::insert`] on a thread
    /// that may wait.
    WouldBlock,
}

/// Receiver of the keys of objects that the disk no longer has.
pub type EvictionCallback = Arc<dyn Fn(Key) + Send + Sync>;

/// Object that passed its checks on opening.
pub struct OpenObject {
    /// Metadata given on insert or by the last update.
    pub metadata: Bytes,
    /// Body of the object.
    pub body: Arc<dyn StoredBody>,
}

/// Summary of a stored object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSummary {
    /// Metadata given on insert or by the last update.
    pub metadata: Bytes,
    /// Length of the body.
    pub body_bytes: u64,
}

impl From<OpenObject> for ObjectSummary {
    fn from(object: OpenObject) -> Self {
        Self { metadata: object.metadata, body_bytes: object.body.length() }
    }
}

/// Body on disk. Readable while it is being written, up to the bytes appended.
pub trait StoredBody: Send + Sync {
    /// Returns the body's length; while the body is being written, the bytes appended so far.
    fn length(&self) -> u64;

    /// Reads at most `limit` bytes from `offset`, fewer at the body's end. Once the body is
    /// complete, its checksums have been checked for the bytes returned. Bytes that do not match
    /// are [`Error::Corrupt`], and the entry has been dropped.
    fn read(&self, offset: u64, limit: usize) -> Result<Bytes, Error>;

    /// Reads a body that is in memory, without waiting for the device. `None` says nothing: only
    /// [`read`](Self::read) can tell.
    fn read_at_once(&self, _offset: u64, _limit: usize) -> Option<Bytes> {
        None
    }

    /// Reads bytes that an earlier read of this body has brought into memory, without waiting for
    /// the device; checked as by [`read`](Self::read). They may keep more memory than they take.
    /// `None` says nothing: only [`read`](Self::read) can tell.
    fn read_near(&self, _offset: u64, _limit: usize) -> Option<Bytes> {
        None
    }

    /// Returns the same body for long keeping, if this one holds more memory than the body itself.
    fn detached(&self) -> Option<Arc<dyn StoredBody>> {
        None
    }

    /// Returns the index of the body's disk; see [`StoreView::disk_index`].
    fn disk_index(&self) -> usize {
        0
    }

    /// Returns the disk offset of a read from `offset`; see [`StoreView::position`].
    fn position(&self, _offset: u64) -> Option<u64> {
        None
    }
}

/// Object being written. Dropping it uncommitted leaves no trace.
pub trait Insert: Send {
    /// Appends to the body.
    fn append(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Returns a view of the bytes appended so far and later; it stays readable after commit and
    /// drop.
    fn body(&self) -> Arc<dyn StoredBody>;

    /// Completes the object and makes it visible; `metadata` replaces the metadata given on insert.
    fn commit(self: Box<Self>, metadata: Option<&[u8]>) -> Result<(), Error>;

    /// Returns the index of the disk written to; see [`StoreView::disk_index`].
    fn disk_index(&self) -> usize {
        0
    }
}

/// State of a store that writes round a ring of stripes. Counts are since the opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingView {
    /// Stripe that is written now, from 0.
    pub cursor: u32,
    /// Stripes of the ring.
    pub stripes: u32,
    /// Stripes that the cursor has passed.
    pub passed: u64,
    /// Objects offered.
    pub offered: u64,
    /// Objects admitted.
    pub admitted: u64,
    /// Objects written again where the cursor passed, since they were popular.
    pub carried: u64,
    /// Hits by [`RING_PARTS`] parts of the way behind the cursor, the nearest first.
    pub hits: Vec<u64>,
}

/// Parts of the ring behind the cursor for which hits are counted.
pub const RING_PARTS: usize = 128;

/// Contents of a store and its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Objects visible.
    pub objects: u64,
    /// Most objects that the index can hold, or that fit.
    pub objects_max: u64,
    /// Disk space charged, in bytes.
    pub bytes: u64,
    /// Configured limit, in bytes.
    pub bytes_max: u64,
    /// Objects evicted to make room, since start.
    pub evictions: u64,
    /// Evictions for which there was space, but no place in the index, since start.
    pub crowded_out: u64,
    /// Objects that failed a check and were dropped, since start.
    pub corrupt: u64,
    /// Disk reads spared by bytes that earlier reads brought along, since start.
    pub spared_reads: u64,
    /// Calls to the disk that failed while no caller waited for them, since start.
    pub failures: u64,
    /// Objects found but not yet written to disk, and one more while a write is under way. A
    /// process that ends loses nothing only if this is 0.
    pub unwritten: u64,
}

/// Reason why the store or its disk failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    Disk {
        /// Action that was attempted.
        action: &'static str,
        /// Error from the operating system.
        source: std::io::Error,
    },
    /// Stored bytes do not match their checksum, or have the wrong form.
    Corrupt {
        /// Part of the stored bytes that is corrupt.
        part: &'static str,
    },
    /// The store chose not to take the object.
    Declined(InsertRefusal),
    /// The folder or file cannot be used as this store.
    Unusable(String),
    /// The object has been given up while it was read.
    Gone,
}

/// Reason why an insert was declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertRefusal {
    /// Larger than the store takes, or than the store is.
    TooLarge,
    /// No space could be made: everything else is being written or read.
    NoSpace,
    /// The disk is out of service.
    OutOfService,
    /// Another caller is writing an object of this key.
    Locked,
    /// The object has not been asked for before, and objects on disk are worth more. A second
    /// attempt soon after succeeds.
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
