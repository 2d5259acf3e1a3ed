//! Inspection of a store from outside: its form, its contents, its soundness. Locks nothing and
//! writes nothing.
//!
//! A store that a running node has open can be inspected too. It looks as the node would find it if
//! killed now, without the objects written meanwhile.

use crate::{Error, OpenObject};
use shoal_core::ObjectKey;

pub use crate::architectures::{empty, format, inspect, volume_size};

/// Store as seen from outside.
pub trait Inspect: Send + Sync {
    /// Returns the store's facts.
    fn facts(&self) -> StoreInfo;

    /// Shows objects in the order in which they were written, or newest first, until `visit`
    /// returns `false`. Bodies have not been checked.
    ///
    /// # Errors
    /// [`Error::Disk`] when the disk cannot be read.
    fn list(&self, newest_first: bool, visit: &mut dyn FnMut(&ListedObject<'_>) -> bool)
    -> Result<(), Error>;

    /// Reads and checks everything. Calls `progress` with the number of parts checked and of all
    /// parts.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> VerifyReport;

    /// Returns the object of this key; its bytes are checked as they are read.
    ///
    /// # Errors
    /// [`Error::Disk`] when the disk cannot be read.
    fn find(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error>;
}

/// Facts about a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// Name of the store's architecture.
    pub architecture: &'static str,
    /// `true` if a process has the store open now.
    pub is_live: bool,
    /// `true` if the store was closed in order.
    pub is_clean: bool,
    /// Objects in its index.
    pub objects: u64,
    /// Most objects that find a place.
    pub objects_max: u64,
    /// Disk space written so far, its index included.
    pub bytes: u64,
    /// Disk space that the store may take.
    pub bytes_max: u64,
    /// Bytes of a stripe, the unit of writing.
    pub stripe_bytes: u64,
    /// Stripes of the store.
    pub stripes: u32,
    /// Stripes written so far.
    pub written_stripes: u32,
    /// Index of the stripe that is being filled.
    pub cursor: u32,
    /// Bytes filled in that stripe.
    pub cursor_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Number of the last write. Each write has the next number. After an unclean stop, the next
    /// start skips some numbers.
    pub sequence: u64,
}

/// Object as it lies in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedObject<'a> {
    /// Full key of the object.
    pub key: &'a [u8],
    /// Metadata stored beside the body.
    pub metadata: &'a [u8],
    /// Length of the body.
    pub body_bytes: u64,
    /// Offset of the object's record in the volume, in bytes.
    pub position: u64,
}

/// Findings of a check of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Objects that are whole.
    pub objects: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Stripes with sound chunks only, to the end or as far as written.
    pub stripes: u64,
    /// Index entries that lead to a record since overwritten or removed. Each costs a read.
    pub stale_entries: u64,
    /// Number of damaged places.
    pub damaged: u64,
    /// The first 100 of these places (`DAMAGE_TOLD`).
    pub damage: Vec<Damage>,
}

impl VerifyReport {
    /// Counts damage.
    pub(crate) fn note(&mut self, position: u64, part: &'static str) {
        self.damaged += 1;
        if self.damage.len() < DAMAGE_TOLD {
            self.damage.push(Damage { position, part });
        }
    }
}

/// Place that fails its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the damage in the volume, in bytes.
    pub position: u64,
    /// Name of the damaged part.
    pub part: &'static str,
}

/// Places of damage that are listed one by one.
const DAMAGE_TOLD: usize = 100;
