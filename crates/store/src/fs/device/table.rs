//! Table of extents at a device's beginning, byte by byte as in `docs/FORMATS.md`.
//!
//! The table is there twice, and each write replaces the older copy: a torn write leaves the other.

use xxhash_rust::xxh3::xxh3_64;

/// Extents of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Number of the write; greater than all before.
    pub(super) sequence: u64,
    /// Bytes of the device when the table was made, or when it was found larger.
    pub(super) device_bytes: u64,
    pub(super) extents: Vec<Extent>,
}

/// Stretch of the device with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) name: String,
    pub(super) at: u64,
    /// Bytes reserved for the extent.
    pub(super) capacity: u64,
    /// Bytes in use.
    pub(super) length: u64,
}

/// Contents of a device, by its beginning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeviceContents {
    Table(Table),
    /// A table of ours that cannot be used.
    Unusable(&'static str),
    /// No table.
    Nothing,
}

impl Table {
    pub(super) fn new(device_bytes: u64) -> Self {
        Self { sequence: 0, device_bytes, extents: Vec::new() }
    }

    /// Returns the table's bytes, and their offset on the device.
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

    /// Returns the newer of the two copies at a device's beginning.
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

    /// Reads a copy. The error is the reason why a copy of ours cannot be used; `None` for foreign
    /// bytes.
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

    /// Returns the offset of `bytes` free bytes in one stretch.
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

    /// Returns the offset of `bytes` bytes at the end of the device, if they are free.
    pub(super) fn last_gap(&self, bytes: u64) -> Option<u64> {
        let taken = self.extents.iter().map(|extent| extent.at.saturating_add(extent.capacity)).max();
        let at = self.device_bytes.checked_sub(bytes)? / ALIGN * ALIGN;
        (at >= taken.unwrap_or(0).max(FIRST_AT)).then_some(at)
    }

    /// Returns the end of the space that an extent at `at` may take: the next extent, or the end of
    /// the device.
    pub(super) fn free_until(&self, at: u64) -> u64 {
        let behind = self.extents.iter().filter(|extent| extent.at > at && extent.capacity > 0);
        behind.map(|extent| extent.at).min().unwrap_or(self.device_bytes).min(self.device_bytes)
    }

    /// Returns the bytes that belong to no extent.
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
/// Least offset of an extent.
pub(super) const FIRST_AT: u64 = 1 << 20;
/// Alignment of extents.
pub(super) const ALIGN: u64 = 1 << 20;
const _: () = assert!(EXTENTS_AT + EXTENTS_MAX * EXTENT_BYTES <= CHECKED);
