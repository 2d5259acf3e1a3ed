//! Looking at a store from outside: what it is, what it holds, whether it is sound. Nothing is
//! locked and nothing written.
//!
//! A store that a running node has open can be looked at too: it is then seen as the node would
//! find it if it were killed now, less what is being written meanwhile.

use crate::{Error, OpenObject};
use shoal_core::ObjectKey;

pub use crate::architectures::{format, inspect};

/// A store as it is seen from outside.
pub trait Inspect: Send + Sync {
    /// What it is.
    fn facts(&self) -> StoreInfo;

    /// Shows objects in the order in which they were written, or the other way round, until `visit`
    /// says false. What stands behind an object has not been checked.
    ///
    /// # Errors
    /// [`Error::Disk`] when the disk cannot be read.
    fn list(&self, newest_first: bool, visit: &mut dyn FnMut(&ListedObject<'_>) -> bool)
    -> Result<(), Error>;

    /// Reads everything and checks it. `progress` is told how many parts of how many have been
    /// looked at.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> VerifyReport;

    /// The object of this key; what is read of it has been checked.
    ///
    /// # Errors
    /// [`Error::Disk`] when the disk cannot be read.
    fn find(&self, key: &ObjectKey) -> Result<Option<OpenObject>, Error>;
}

/// What a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// Its architecture.
    pub architecture: &'static str,
    /// A process has it open now.
    pub is_live: bool,
    /// It was closed in order.
    pub is_clean: bool,
    /// Objects in its index.
    pub objects: u64,
    /// Most objects that find a place.
    pub objects_max: u64,
    /// Disk space written so far, its index included.
    pub bytes: u64,
    /// Disk space that it takes.
    pub bytes_max: u64,
    /// Bytes written at once.
    pub stripe_bytes: u64,
    /// Such pieces in all.
    pub stripes: u32,
    /// Those written so far.
    pub written_stripes: u32,
    /// The one that is being filled.
    pub cursor: u32,
    /// Bytes of it that are filled.
    pub cursor_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// The number of the last write. Each write has the next number; a start that finds the store
    /// not closed in order leaves some out.
    pub sequence: u64,
}

/// An object as it stands in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedObject<'a> {
    /// Its full key.
    pub key: &'a [u8],
    /// What was stored beside the body.
    pub metadata: &'a [u8],
    /// Length of the body.
    pub body_bytes: u64,
    /// Where its record begins, in bytes from the volume's beginning.
    pub position: u64,
}

/// What a check of everything has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Objects that are whole.
    pub objects: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Stripes whose chunks are all sound, to the end or as far as they have been written.
    pub stripes: u64,
    /// Entries of the index that lead to something else: written over since, or removed. They cost
    /// a read each.
    pub stale_entries: u64,
    /// What is damaged.
    pub damaged: u64,
    /// The first few of these.
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

/// Something that does not stand up to its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins, in bytes from the volume's beginning.
    pub position: u64,
    /// What it is.
    pub part: &'static str,
}

/// Places of damage that are told one by one.
const DAMAGE_TOLD: usize = 100;
