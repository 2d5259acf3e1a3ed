//! Classes of bytes as tables: what a grammar allows at a place, looked up instead of compared.

/// A table that holds for ASCII letters, digits and `marks`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_and_marks_are_in() {
        let table = alphanumeric_and(b"-\xff");
        for byte in 0..=255_u8 {
            let expected = byte.is_ascii_alphanumeric() || byte == b'-' || byte == 0xff;
            assert_eq!(table[usize::from(byte)], expected, "{byte:#x}");
        }
    }
}
