//! Numbers of a volume, and the superblock that holds them.

use super::{
    BUCKETS_MAX, DAMAGED, DATA_AT, OLDEST_AT, PIECE_BYTES, POSITION_MAX, STRIPE_MAX, SUPERBLOCK_BYTES,
    SUPERBLOCK_CHECKED, SUPERBLOCK_MAGIC, VERSION, u32_at, u64_at,
};
use crate::fs::PAGE_BYTES;
use xxhash_rust::xxh3::xxh3_64;

/// Numbers that change only with the size of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::architectures::volume) struct VolumeGeometry {
    /// Volume id, chosen when the volume was made; seeds the checks of the volume.
    pub(in crate::architectures::volume) id: u64,
    /// Length of a stripe, the largest single write.
    pub(in crate::architectures::volume) stripe_bytes: u64,
    pub(in crate::architectures::volume) stripes: u32,
    /// Buckets of the index.
    pub(in crate::architectures::volume) buckets: u64,
    /// First chunk that a rebuild of the index may enter. A volume that was made smaller lost newer
    /// chunks, and with them the removals and replacements of older objects. 0 in a volume that was
    /// not.
    pub(in crate::architectures::volume) oldest: u64,
}

impl VolumeGeometry {
    /// Returns the bytes of all stripes.
    pub(in crate::architectures::volume) fn log_bytes(&self) -> u64 {
        u64::from(self.stripes) * self.stripe_bytes
    }

    /// Returns the bytes of the whole volume.
    pub(in crate::architectures::volume) fn volume_bytes(&self) -> u64 {
        self.stripe_at(self.stripes)
    }

    /// Returns the position of a stripe.
    pub(in crate::architectures::volume) fn stripe_at(&self, stripe: u32) -> u64 {
        debug_assert!(stripe <= self.stripes, "a stripe behind the volume's end");
        DATA_AT + u64::from(stripe) * self.stripe_bytes
    }

    /// Returns the stripe at a position. Returns `None` outside of all stripes.
    pub(in crate::architectures::volume) fn stripe_of(&self, position: u64) -> Option<u32> {
        let stripe = position.checked_sub(DATA_AT)? / self.stripe_bytes;
        u32::try_from(stripe).ok().filter(|stripe| *stripe < self.stripes)
    }

    /// Encodes the superblock.
    pub(in crate::architectures::volume) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(SUPERBLOCK_BYTES);
        block.extend_from_slice(SUPERBLOCK_MAGIC);
        block.extend_from_slice(&VERSION.to_le_bytes());
        block.extend_from_slice(&self.stripes.to_le_bytes());
        for number in [self.id, self.stripe_bytes, self.buckets] {
            block.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(block.len(), SUPERBLOCK_CHECKED);
        block.extend_from_slice(&xxh3_64(&block).to_le_bytes());
        if self.oldest > 0 {
            block.extend_from_slice(&self.oldest.to_le_bytes());
            block.extend_from_slice(&xxh3_64(&block).to_le_bytes());
        }
        block.resize(SUPERBLOCK_BYTES, 0);
        block
    }

    /// Decodes a superblock. The error names the fault.
    pub(in crate::architectures::volume) fn decode(block: &[u8]) -> Result<Self, &'static str> {
        let fields = block.get(..SUPERBLOCK_CHECKED + 8).ok_or("too short")?;
        if &fields[..8] != SUPERBLOCK_MAGIC {
            return Err("not a volume of Shoal");
        }
        if u32_at(fields, 8) != VERSION {
            return Err("of another version");
        }
        if xxh3_64(&fields[..SUPERBLOCK_CHECKED]) != u64_at(fields, SUPERBLOCK_CHECKED) {
            return Err(DAMAGED);
        }
        let geometry = Self {
            stripes: u32_at(fields, 12),
            id: u64_at(fields, 16),
            stripe_bytes: u64_at(fields, 24),
            buckets: u64_at(fields, 32),
            oldest: Self::decode_oldest(block)?,
        };
        geometry.is_plausible().then_some(geometry).ok_or("of no size that a volume may have")
    }

    /// Decodes the number that only volumes have that were made smaller.
    fn decode_oldest(block: &[u8]) -> Result<u64, &'static str> {
        let Some(field) = block.get(OLDEST_AT..OLDEST_AT + 16) else { return Ok(0) };
        match field.iter().all(|byte| *byte == 0) {
            true => Ok(0),
            false if xxh3_64(&block[..OLDEST_AT + 8]) == u64_at(block, OLDEST_AT + 8) => {
                Ok(u64_at(block, OLDEST_AT))
            }
            false => Err(DAMAGED),
        }
    }

    /// Returns `true` if a volume may have this size. All other code relies on this check.
    fn is_plausible(&self) -> bool {
        let log_bytes = u64::from(self.stripes).checked_mul(self.stripe_bytes);
        (PIECE_BYTES as u64..=STRIPE_MAX).contains(&self.stripe_bytes)
            && self.stripe_bytes.is_multiple_of(PAGE_BYTES as u64)
            && log_bytes.is_some_and(|bytes| bytes > 0 && bytes <= POSITION_MAX - DATA_AT)
            && (1..=BUCKETS_MAX).contains(&self.buckets)
    }
}
