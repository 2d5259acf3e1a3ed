//! State of a volume: binds the index to the volume, and tells from which chunk on records are
//! sealed. Two pages of the volume, written in turns.
//!
//! A *generation* ends when the log is about to get a record that the index on disk does not know.
//! The index's header is written with the next generation first, then the volume's state. An index
//! of any other generation belongs to another time of this volume, and does not count even if it is
//! marked clean.

use super::format::{DATA_AT, STATE_AT, u64_at};
use super::pages::AlignedPages;
use super::reader::Reader;
use super::volume_file::VolumeFile;
use crate::fs::{PAGE_BYTES, write_full};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Contents of the latest page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VolumeState {
    pub(super) generation: u64,
    /// First sealed chunk: records are sealed in stripes that begin with this chunk or a later one.
    pub(super) sealed_from: u64,
}

impl VolumeState {
    /// State of a volume that an earlier version made, and this version has not written to.
    pub(super) const EARLIER: Self = Self { generation: 0, sealed_from: u64::MAX };

    /// State of a new volume.
    pub(super) const NEW: Self = Self { generation: 0, sealed_from: 0 };

    /// Returns the position of the state's page.
    pub(super) fn at(self) -> u64 {
        STATE_AT + self.generation % 2 * PAGE_BYTES as u64
    }

    /// Encodes the page, for the volume with this id.
    pub(super) fn encode(self, id: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        for number in [VERSION, id, self.generation, self.sealed_from] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(bytes.len(), CHECKED);
        bytes.extend_from_slice(&xxh3_64_with_seed(&bytes, id).to_le_bytes());
        bytes.resize(PAGE_BYTES, 0);
        debug_assert_eq!(Self::decode(&bytes, id), Some(self));
        bytes
    }

    fn decode(bytes: &[u8], id: u64) -> Option<Self> {
        let is_whole = &bytes[..8] == MAGIC
            && u64_at(bytes, 8) == VERSION
            && u64_at(bytes, 16) == id
            && xxh3_64_with_seed(&bytes[..CHECKED], id) == u64_at(bytes, CHECKED);
        is_whole.then(|| Self { generation: u64_at(bytes, 24), sealed_from: u64_at(bytes, 32) })
    }

    /// Returns the later of two pages. Without a valid page, empty pages mean a volume of an
    /// earlier version. Other pages are damaged: no index counts then, and no record without a
    /// seal.
    pub(super) fn latest(pages: &[u8], id: u64) -> Self {
        let states = pages.chunks(PAGE_BYTES).filter_map(|page| Self::decode(page, id));
        let latest = states.max_by_key(|state| state.generation);
        let is_empty = pages.iter().all(|byte| *byte == 0);
        latest.unwrap_or(if is_empty { Self::EARLIER } else { Self { generation: DAMAGED, sealed_from: 0 } })
    }

    /// Returns `true` if an index of this generation is the volume's: the index may have been
    /// written just before the state.
    pub(super) fn is_of(self, generation: u64) -> bool {
        self.generation != DAMAGED && (generation == self.generation || generation == self.generation + 1)
    }

    /// Returns the generation of an index that is made now.
    pub(super) fn generation_or(self, other: u64) -> u64 {
        if self.generation == DAMAGED { other } else { self.generation }
    }

    /// Returns the state that follows this one and an index of `generation`.
    pub(super) fn next(self, generation: u64) -> Self {
        let last = if self.generation == DAMAGED { generation } else { generation.max(self.generation) };
        Self { generation: last + 1, ..self }
    }
}

impl Reader {
    /// Returns `true` if records without a seal may stand at a position: an earlier version wrote
    /// its stripe. Elsewhere the origin of a body could have forged them.
    pub(super) fn takes_unsealed(&self, position: u64) -> bool {
        let sealed_from = self.file.sealed_from.load(Relaxed);
        let stripe = self.geometry.stripe_of(position);
        stripe.is_some_and(|stripe| self.directory.table.stripe_sequence(stripe) < sealed_from)
    }
}

impl VolumeFile {
    /// Writes the state to disk.
    pub(super) fn write_state(&self, state: VolumeState) -> io::Result<()> {
        let mut page = AlignedPages::zeroed(PAGE_BYTES);
        page.as_mut().copy_from_slice(&state.encode(self.geometry.id));
        assert!(state.at() + PAGE_BYTES as u64 <= DATA_AT, "a state over stripes");
        write_full(&*self.data, page.as_ref(), state.at())?;
        self.data.sync()
    }
}

const MAGIC: &[u8; 8] = b"SHOALsta";
const VERSION: u64 = 1;
const CHECKED: usize = 40;
/// A generation that is never reached.
const DAMAGED: u64 = u64::MAX;

const _: () = assert!(CHECKED == 8 + 4 * 8);
