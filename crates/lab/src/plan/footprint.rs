//! What an object takes beside its body, in RAM and on disk: the product's own accounting, for a response head of an assumed length.
//!
//! Logs tell sizes of bodies. Where objects are small the rest decides: a head of 280 bytes with eight fields is charged about 1.8 KB of
//! RAM, since fields are kept parsed and as lines, with an entry of the cache's tables.

use crate::curve::Weights;

/// Accounts for objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of a response's head, as it is sent.
    pub head_bytes: u64,
    /// Largest body kept in RAM.
    pub ram_object_max: u64,
}

impl Default for Footprint {
    fn default() -> Self {
        Self { head_bytes: HEAD_BYTES, ram_object_max: RAM_OBJECT_MAX }
    }
}

impl Footprint {
    /// What an object is charged in RAM.
    pub fn ram(self, body_bytes: u64) -> u64 {
        body_bytes.saturating_add(self.ram_overhead())
    }

    /// What is charged in RAM beside the body: the lines twice, each field parsed, the record, the key, the tier's entry.
    pub fn ram_overhead(self) -> u64 {
        self.head_bytes * 2 + self.fields() * FIELD_BYTES + RECORD_BYTES + KEY_BYTES + ENTRY_BYTES
    }

    /// An object's record on disk, whole files and segments alike (docs/FORMATS.md): header, key, metadata with room to grow, body, a
    /// checksum of 8 bytes for each 64 KiB.
    pub fn record(self, body_bytes: u64) -> u64 {
        let around = RECORD_HEADER_BYTES + KEY_BYTES + self.head_bytes + METADATA_SLACK_BYTES;
        around.next_multiple_of(64) + body_bytes + body_bytes.div_ceil(64 << 10) * 8
    }

    /// A request for a body of so many bytes.
    pub fn weights(self, body_bytes: u64) -> Weights {
        let ram = (body_bytes <= self.ram_object_max).then(|| self.ram(body_bytes));
        Weights { bytes: body_bytes, ram, disk: self.record(body_bytes) }
    }

    fn fields(self) -> u64 {
        self.head_bytes / FIELD_LINE_BYTES
    }
}

/// A response of today: date, type, length, validators, cache control, server, Via.
const HEAD_BYTES: u64 = 280;
/// The default of `cache.ram_object_max`.
const RAM_OBJECT_MAX: u64 = 1 << 20;
/// A line of a head, on average.
const FIELD_LINE_BYTES: u64 = 35;
/// A parsed field.
const FIELD_BYTES: u64 = 96;
/// The judgement kept beside a response, and its allocations.
const RECORD_BYTES: u64 = 400;
/// A URL.
const KEY_BYTES: u64 = 60;
/// `shoal_store::memory::ENTRY_OVERHEAD_BYTES`.
const ENTRY_BYTES: u64 = shoal_store::memory::ENTRY_OVERHEAD_BYTES;
/// Of an object file or segment.
const RECORD_HEADER_BYTES: u64 = 80;
/// Judgement and times in front of the fields, and room for a longer head later.
const METADATA_SLACK_BYTES: u64 = 290;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_cost_more_around_them_than_in_them() {
        let footprint = Footprint::default();
        assert_eq!(footprint.ram(0), 560 + 768 + 400 + 60 + 256);
        assert_eq!(footprint.record(0) % 64, 0);
        assert_eq!(footprint.record(200_000) - footprint.record(0), 200_000 + 4 * 8);
        assert_eq!(footprint.weights((1 << 20) + 1).ram, None);
        let longer = Footprint { head_bytes: 2000, ..footprint };
        assert!(longer.ram(0) > footprint.ram(0) + 2 * 1720);
    }
}
