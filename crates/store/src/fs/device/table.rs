//! The table of extents at a device's beginning, byte by byte as `docs/FORMATS.md` has it.
//!
//! It stands there twice, and is written to the older place in turn: a write that is torn leaves
//! the other.

use xxhash_rust::xxh3::xxh3_64;

/// Which stretch of the device is what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Greater than that of all written before.
    pub(super) sequence: u64,
    /// The device's when it was made.
    pub(super) device_bytes: u64,
    pub(super) extents: Vec<Extent>,
}

/// A stretch with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) name: String,
    pub(super) at: u64,
    /// Bytes that it may have.
    pub(super) capacity: u64,
    /// Bytes that it has.
    pub(super) length: u64,
}

/// What the beginning of a device says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeviceContents {
    Table(Table),
    /// It was ours, and cannot be used.
    Unusable(&'static str),
    /// No table.
    Nothing,
}

impl Table {
    pub(super) fn new(device_bytes: u64) -> Self {
        Self { sequence: 0, device_bytes, extents: Vec::new() }
    }

    /// The table as it is written, and where.
    pub(super) fn encode(&self) -> (Vec<u8>, u64) {
        let mut bytes = Vec::with_capacity(COPY_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.extents.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.device_bytes.to_le_bytes());
        for extent in &self.extents {
            let mut name = [0; NAME_MAX];
            name[..extent.name.len()].copy_from_slice(extent.name.as_bytes());
            bytes.extend_from_slice(&name);
            for number in [extent.at, extent.capacity, extent.length, 0] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        bytes.resize(CHECKED, 0);
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        (bytes, self.sequence % 2 * COPY_BYTES as u64)
    }

    /// The newer of the two copies that a device begins with.
    pub(super) fn read(beginning: &[u8]) -> DeviceContents {
        let copies = beginning.chunks_exact(COPY_BYTES).take(2);
        let (mut newest, mut reason): (Option<Self>, _) = (None, None);
        for copy in copies {
            match Self::decode(copy) {
                Ok(table) if newest.as_ref().is_none_or(|other| other.sequence < table.sequence) => {
                    newest = Some(table);
                }
                Ok(_) | Err(None) => {}
                Err(Some(why)) => reason = Some(why),
            }
        }
        match (newest, reason) {
            (Some(table), _) => DeviceContents::Table(table),
            (None, Some(why)) => DeviceContents::Unusable(why),
            (None, None) => DeviceContents::Nothing,
        }
    }

    /// The error says why a copy that is ours cannot be used; nothing when it is not ours.
    fn decode(bytes: &[u8]) -> Result<Self, Option<&'static str>> {
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if &bytes[..8] != MAGIC {
            return Err(None);
        }
        if u32_at(8) != VERSION {
            return Err(Some("of another version"));
        }
        let count = u32_at(12) as usize;
        if count > EXTENTS_MAX || xxh3_64(&bytes[..CHECKED]) != u64_at(CHECKED) {
            return Err(Some("damaged in its table of extents"));
        }
        let extent = |number: usize| {
            let at = EXTENTS_AT + number * EXTENT_BYTES;
            let name = bytes[at..at + NAME_MAX].split(|byte| *byte == 0).next().unwrap_or_default();
            Extent {
                name: String::from_utf8_lossy(name).into_owned(),
                at: u64_at(at + NAME_MAX),
                capacity: u64_at(at + NAME_MAX + 8),
                length: u64_at(at + NAME_MAX + 16),
            }
        };
        let extents = (0..count).map(extent).collect();
        Ok(Self { sequence: u64_at(16), device_bytes: u64_at(24), extents })
    }

    /// Where so many bytes are free in one stretch.
    pub(super) fn gap(&self, bytes: u64) -> Option<u64> {
        let mut taken: Vec<(u64, u64)> =
            self.extents.iter().map(|extent| (extent.at, extent.at + extent.capacity)).collect();
        taken.sort_unstable();
        let mut at = FIRST_AT;
        for (from, to) in taken {
            if from >= at && from - at >= bytes {
                return Some(at);
            }
            at = at.max(to.next_multiple_of(ALIGN));
        }
        self.device_bytes.checked_sub(at).filter(|rest| *rest >= bytes).map(|_| at)
    }

    /// Bytes that belong to no extent.
    pub(super) fn free_bytes(&self) -> u64 {
        let taken: u64 = self.extents.iter().map(|extent| extent.capacity.next_multiple_of(ALIGN)).sum();
        self.device_bytes.saturating_sub(FIRST_AT + taken)
    }
}

const MAGIC: &[u8; 8] = b"SHOALdev";
const VERSION: u32 = 1;
/// Bytes of each copy.
pub(super) const COPY_BYTES: usize = 4096;
const CHECKED: usize = COPY_BYTES - 8;
const EXTENTS_AT: usize = 32;
const EXTENT_BYTES: usize = 48;
/// Longest name of an extent.
pub(super) const NAME_MAX: usize = 16;
/// Most extents.
pub(super) const EXTENTS_MAX: usize = 16;
/// Where extents may begin.
pub(super) const FIRST_AT: u64 = 1 << 20;
/// Extents begin at multiples of this.
pub(super) const ALIGN: u64 = 1 << 20;
const _: () = assert!(EXTENTS_AT + EXTENTS_MAX * EXTENT_BYTES <= CHECKED);
