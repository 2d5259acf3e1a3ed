//! Tables of the bytes that a grammar allows at a place, and the case of letters. A lookup in a
//! table replaces comparisons.

/// Returns a table that is `true` for ASCII letters, digits and `marks`.
pub const fn alphanumeric_and(marks: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut index = 0;
    while index < marks.len() {
        table[marks[index] as usize] = true;
        index += 1;
    }
    table
}

/// Brings ASCII letters to lower case, as [`<[u8]>::make_ascii_lowercase`] does. The standard
/// function is made for long texts. This one is made for field names: eight bytes at a time, with
/// the last eight overlapping the eight before.
pub(crate) fn make_lower_case(text: &mut [u8]) {
    let Some(last) = text.len().checked_sub(8) else {
        return text.iter_mut().for_each(u8::make_ascii_lowercase);
    };
    let mut at = 0;
    while at < last {
        lower_eight(text, at);
        at += 8;
    }
    lower_eight(text, last);
}

/// Lowers eight bytes in one word (Lamport, "Multiple byte processing with full-word instructions",
/// CACM 18(8), 1975). Each byte's highest bit shows if its other seven bits are a capital letter's.
fn lower_eight(text: &mut [u8], at: usize) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = EACH << 7;
    let Some(bytes) = text.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>()) else { return };
    let word = u64::from_ne_bytes(*bytes);
    let low = word & !HIGH;
    let from_a = low + EACH * u64::from(0x80 - b'A');
    let past_z = low + EACH * u64::from(0x80 - (b'Z' + 1));
    let capitals = from_a & !past_z & !word & HIGH;
    *bytes = (word | capitals >> 2).to_ne_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_brought_to_lower_case_at_any_place() {
        for length in 0..20 {
            for byte in 0..=255_u8 {
                for at in 0..length {
                    let mut text = vec![b'Q'; length];
                    text[at] = byte;
                    let expected = text.to_ascii_lowercase();
                    make_lower_case(&mut text);
                    assert_eq!(text, expected);
                }
            }
        }
    }

    #[test]
    fn letters_digits_and_marks_are_in() {
        let table = alphanumeric_and(b"-\xff");
        for byte in 0..=255_u8 {
            let expected = byte.is_ascii_alphanumeric() || byte == b'-' || byte == 0xff;
            assert_eq!(table[usize::from(byte)], expected, "{byte:#x}");
        }
    }
}
