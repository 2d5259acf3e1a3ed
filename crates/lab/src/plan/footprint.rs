//! Overhead of an object beside its body, in RAM and on disk: the product's own accounting, for a
//! response head of an assumed length.
//!
//! Logs tell sizes of bodies. Where objects are small the overhead decides. With a head of 280
//! bytes an object is charged some 970 bytes of RAM beside its body. The charge covers its
//! judgement, its key and the entries of tables.

use crate::curve::Weights;

/// Accounts for objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of a response's head on the wire.
    pub head_bytes: u64,
    /// `true` if the log's sizes include the heads, as in Squid's native format.
    pub heads_in_sizes: bool,
    /// Largest body kept in RAM.
    pub ram_object_max: u64,
    /// Largest body stored at all.
    pub object_max: u64,
}

impl Default for Footprint {
    fn default() -> Self {
        Self {
            head_bytes: HEAD_BYTES,
            heads_in_sizes: false,
            ram_object_max: RAM_OBJECT_MAX,
            object_max: OBJECT_MAX,
        }
    }
}

impl Footprint {
    /// Returns the bytes that an object is charged in RAM.
    pub fn ram(self, body_bytes: u64) -> u64 {
        body_bytes.saturating_add(self.ram_overhead())
    }

    /// Returns the bytes charged in RAM beside the body: the head's lines, the record, the key, the
    /// tier's entry.
    pub fn ram_overhead(self) -> u64 {
        self.head_beside() + RECORD_BYTES + KEY_BYTES + ENTRY_BYTES
    }

    /// Returns the bytes of a head that the log's size does not include.
    pub fn head_beside(self) -> u64 {
        if self.heads_in_sizes { 0 } else { self.head_bytes }
    }

    /// Returns `true` if RAM takes a body of `body_bytes` bytes.
    pub fn is_kept_in_ram(self, body_bytes: u64) -> bool {
        let head_bytes = self.head_bytes - self.head_beside();
        body_bytes.saturating_sub(head_bytes) <= self.ram_object_max
    }

    /// Returns the bytes of an object's file or segment (docs/FORMATS.md): header, key, metadata
    /// with room to grow, body, a checksum of 8 bytes for each 64 KiB.
    pub fn file(self, body_bytes: u64) -> u64 {
        let around = RECORD_HEADER_BYTES + KEY_BYTES + self.head_beside() + METADATA_SLACK_BYTES;
        around.next_multiple_of(64) + body_bytes + body_bytes.div_ceil(64 << 10) * 8
    }

    /// Returns the bytes of an object's records in a volume (docs/FORMATS.md): whole units, and an
    /// item in the contents. A longer body has a record for each 64 KiB and a table of these.
    pub fn volume(self, body_bytes: u64) -> u64 {
        let head = VOLUME_HEAD_BYTES + KEY_BYTES + self.head_beside() + VOLUME_METADATA_BYTES;
        if body_bytes <= PIECE_BYTES {
            return (head + body_bytes).next_multiple_of(UNIT_BYTES) + ITEM_BYTES;
        }
        let pieces = body_bytes.div_ceil(PIECE_BYTES);
        let around = (VOLUME_HEAD_BYTES + UNIT_BYTES / 2 + ITEM_BYTES) * pieces;
        body_bytes + around + (head + pieces * PLACE_BYTES).next_multiple_of(UNIT_BYTES) + ITEM_BYTES
    }

    /// Returns `true` if a volume keeps a body of `body_bytes` bytes in one record.
    pub fn is_one_record(self, body_bytes: u64) -> bool {
        body_bytes <= PIECE_BYTES
    }

    /// Returns the weights of a request for a body of `body_bytes` bytes.
    pub fn weights(self, body_bytes: u64) -> Weights {
        Weights { bytes: body_bytes, ram: self.is_kept_in_ram(body_bytes).then(|| self.ram(body_bytes)) }
    }
}

/// Head of a response of today: date, type, length, validators, cache control, server, Via.
const HEAD_BYTES: u64 = 280;
/// The default of `cache.ram_object_max`.
const RAM_OBJECT_MAX: u64 = 1 << 20;
/// The default of `store.object_max`.
const OBJECT_MAX: u64 = 4_000_000_000;
/// The judgement kept beside a response, and allocations.
const RECORD_BYTES: u64 = 380;
/// Bytes of a URL.
const KEY_BYTES: u64 = 60;
/// `shoal_memory::ENTRY_OVERHEAD_BYTES`.
const ENTRY_BYTES: u64 = shoal_memory::ENTRY_OVERHEAD_BYTES;
/// Header of an object file or segment.
const RECORD_HEADER_BYTES: u64 = 80;
/// Judgement and times in front of the fields, and room for a longer head later.
const METADATA_SLACK_BYTES: u64 = 290;
/// Head of a record in a volume.
const VOLUME_HEAD_BYTES: u64 = 88;
/// Judgement and times, and room in steps of 16 bytes.
const VOLUME_METADATA_BYTES: u64 = 110;
/// The longest body in one record.
const PIECE_BYTES: u64 = 64 << 10;
const UNIT_BYTES: u64 = 64;
const ITEM_BYTES: u64 = 32;
/// Bytes of a piece in a table.
const PLACE_BYTES: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_objects_cost_more_around_them_than_in_them() {
        let footprint = Footprint::default();
        assert_eq!(footprint.ram(0), 280 + 380 + 60 + 256);
        assert_eq!(footprint.file(0) % 64, 0);
        assert_eq!(footprint.file(200_000) - footprint.file(0), 200_000 + 4 * 8);
        assert_eq!(footprint.volume(100) % 64, 32);
        assert!(
            footprint.volume(200_000) < 200_000 + 2000 && footprint.volume(65_537) > footprint.volume(65_536)
        );
        assert_eq!(footprint.weights((1 << 20) + 1).ram, None);
        let told = Footprint { heads_in_sizes: true, ..footprint };
        assert_eq!(
            (told.ram(1280), told.volume(1280)),
            (footprint.ram(1000), footprint.volume(1000)),
            "a head that is in the size is not counted again"
        );
        assert!(told.file(1280).abs_diff(footprint.file(1000)) < 64, "but for where it is rounded");
        let largest = footprint.ram_object_max;
        assert!(told.is_kept_in_ram(largest + 280) && !footprint.is_kept_in_ram(largest + 280));
        let longer = Footprint { head_bytes: 2000, ..footprint };
        assert_eq!(longer.ram(0), footprint.ram(0) + 1720);
    }
}
