//! Integers of variable length (RFC 9000 section 16): the first two bits give the length.

/// Reads an integer at the front of `bytes`. Returns the integer and its length; `None` if bytes
/// are missing.
pub(crate) fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    debug_assert!(value <= MAX);
    Some((value, length))
}

/// Appends an integer in its shortest form.
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX, "62 bits");
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Largest integer.
const MAX: u64 = (1 << 62) - 1;

/// Most bytes of an integer.
pub(crate) const BYTES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (bytes, value) in [
            (&b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"[..], 151_288_809_941_952_652),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x25", 37),
            (b"\x40\x25", 37),
        ] {
            assert_eq!(read(bytes), Some((value, bytes.len())));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
    }

    proptest! {
        #[test]
        fn written_integers_read_back(value in 0..=MAX, shift in 0u32..62) {
            let (value, mut bytes) = (value >> shift, Vec::new());
            write(&mut bytes, value);
            prop_assert_eq!(read(&bytes), Some((value, bytes.len())));
        }
    }
}
