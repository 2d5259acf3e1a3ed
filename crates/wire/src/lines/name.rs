//! Check that names of fields are tokens (RFC 9110 section 5.6.2).
//!
//! Nearly all are letters, digits and hyphens, which are checked sixteen at a time.

use shoal_core::alphanumeric_and;
use wide::u8x16;

/// Returns `true` if the bytes from `start` to `end` are a token.
#[inline]
pub(super) fn is_name(bytes: &[u8], start: usize, end: usize) -> bool {
    let mut rest = &bytes[start..];
    let mut length = end - start;
    while let Some((part, behind)) = rest.split_first_chunk() {
        let plain = plain_bytes(u8x16::new(*part));
        if length <= plain {
            return start < end;
        }
        if plain < part.len() {
            break;
        }
        (rest, length) = (behind, length - plain);
    }
    is_token(&bytes[start..end])
}

/// Returns the number of letters, digits and hyphens at the front.
#[inline]
fn plain_bytes(part: u8x16) -> usize {
    let is_within = |part: u8x16, first: u8, last: u8| {
        let from_first = part - u8x16::splat(first);
        from_first.min(u8x16::splat(last - first)).simd_eq(from_first)
    };
    let is_letter = is_within(part | u8x16::splat(0x20), b'a', b'z');
    let is_plain = is_letter | is_within(part, b'0', b'9') | part.simd_eq(u8x16::splat(b'-'));
    is_plain.to_bitmask().trailing_ones() as usize
}

#[cold]
fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| IN_TOKEN[usize::from(byte)])
}

static IN_TOKEN: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_are_tokens(bytes in prop::collection::vec(prop_oneof![9 => Just(b'a'), 1 => any::<u8>()], 0..40), ends: [prop::sample::Index; 2]) {
            let [start, end] = ends.map(|end| end.index(bytes.len() + 1));
            let (start, end) = (start.min(end), start.max(end));
            let name = &bytes[start..end];
            prop_assert_eq!(is_name(&bytes, start, end), http::HeaderName::from_bytes(name).is_ok());
        }
    }

    #[test]
    fn every_byte_is_known_at_every_place() {
        for byte in 0..=255 {
            for at in 0..16 {
                let mut bytes = [b'a'; 20];
                bytes[at] = byte;
                assert_eq!(is_name(&bytes, 0, 16), is_token(&bytes[..16]), "{byte:#x} at {at}");
            }
        }
    }
}
