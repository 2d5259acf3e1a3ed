//! Marks: a bit for each byte of a block that is a colon or a control character other than HTAB.

use wide::u8x16;

/// Bytes of a block.
pub(super) const BLOCK: usize = 64;

/// Returns the marks of the block that begins at `from`; the lowest bit is for the first byte.
/// There are no marks beyond the end of `bytes`.
#[inline]
pub(super) fn marks(bytes: &[u8], from: usize) -> u64 {
    let rest = &bytes[from..];
    match rest.first_chunk() {
        Some(block) => block_marks(block),
        None => {
            let mut block = [b' '; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            block_marks(&block)
        }
    }
}

#[inline]
fn block_marks(block: &[u8; BLOCK]) -> u64 {
    let (parts, _) = block.as_chunks();
    parts.iter().rev().fold(0, |marks, part| marks << 16 | u64::from(part_marks(u8x16::new(*part))))
}

#[inline]
fn part_marks(part: u8x16) -> u32 {
    let is = |byte: u8| part.simd_eq(u8x16::splat(byte));
    let is_low = part.min(u8x16::splat(0x1f)).simd_eq(part);
    (is(b':') | is(0x7f) | is_low & !is(b'\t')).to_bitmask()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_by_one(bytes: &[u8]) -> u64 {
        let is_mark = |byte: u8| byte == b':' || (byte.is_ascii_control() && byte != b'\t');
        bytes.iter().rev().fold(0, |marks, byte| marks << 1 | u64::from(is_mark(*byte)))
    }

    #[test]
    fn every_byte_is_known_at_every_place() {
        for byte in 0..=255 {
            for at in 0..BLOCK {
                let mut block = [b'a'; BLOCK];
                block[at] = byte;
                assert_eq!(block_marks(&block), one_by_one(&block), "{byte:#x} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn marks_are_those_of_the_bytes(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0..0x40u8], 0..200), from: prop::sample::Index) {
            let from = from.index(bytes.len() + 1);
            let block = &bytes[from..bytes.len().min(from + BLOCK)];
            prop_assert_eq!(marks(&bytes, from), one_by_one(block));
        }
    }
}
