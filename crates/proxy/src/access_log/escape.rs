//! What clients sent, made safe for a line: no client can end the line or the field that it stands in.

/// Appends `text` as a field parted by blanks: a quote and what is not visible ASCII become `%XX`. Empty becomes `-`.
pub(super) fn blank_parted(line: &mut Vec<u8>, text: &[u8]) {
    if text.is_empty() {
        line.push(b'-');
    }
    // not the quote, 0x22: in the combined format quoted fields follow
    let is_plain = |byte: u8| (byte.wrapping_sub(0x21) <= 0x7e - 0x21) & (byte != b'"');
    in_runs(line, text, is_plain, |line, byte| {
        line.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    });
}

/// Appends `text` within quotes, as Apache does: `\"`, `\\`, and `\xXX` for what is not printable ASCII.
/// Empty becomes `"-"`.
pub(super) fn quoted(line: &mut Vec<u8>, text: &[u8]) {
    line.push(b'"');
    if text.is_empty() {
        line.push(b'-');
    }
    inside_quotes(line, text);
    line.push(b'"');
}

/// Appends a part of what stands within quotes.
pub(super) fn inside_quotes(line: &mut Vec<u8>, text: &[u8]) {
    let is_plain = |byte: u8| (byte.wrapping_sub(0x20) <= 0x7e - 0x20) & (byte != b'"') & (byte != b'\\');
    in_runs(line, text, is_plain, |line, byte| match byte {
        b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
        _ => line.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
    });
}

/// Appends `text`, clipped: what is plain run by run, and every other byte as `escape` has it. Nearly every text is one run.
fn in_runs(
    line: &mut Vec<u8>,
    text: &[u8],
    is_plain: impl Fn(u8) -> bool + Copy,
    escape: impl Fn(&mut Vec<u8>, u8),
) {
    let mut rest = &text[..text.len().min(FIELD_MAX)];
    // Looked at as a whole first, which the compiler does sixteen bytes at a time.
    if rest.iter().fold(true, |all, &byte| all & is_plain(byte)) {
        return line.extend_from_slice(rest);
    }
    while !rest.is_empty() {
        let run = rest.iter().position(|&byte| !is_plain(byte)).unwrap_or(rest.len());
        line.extend_from_slice(&rest[..run]);
        if let Some(&byte) = rest.get(run) {
            escape(line, byte);
        }
        rest = rest.get(run + 1..).unwrap_or_default();
    }
}

/// At most [`FIELD_MAX`] bytes of a text, whole characters.
pub(super) fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(FIELD_MAX)]
}

/// Bytes of one field that are logged, so that one request cannot fill the buffer.
const FIELD_MAX: usize = 8192;

const HEX: [u8; 16] = *b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(append: fn(&mut Vec<u8>, &[u8]), text: &str) -> String {
        let mut line = Vec::new();
        append(&mut line, text.as_bytes());
        String::from_utf8(line).expect("ASCII")
    }

    #[test]
    fn what_could_end_a_field_is_escaped() {
        for (text, blanks, quotes) in [
            ("", "-", "\"-\""),
            ("http://a/?b=%20", "http://a/?b=%20", "\"http://a/?b=%20\""),
            ("a b\n", "a%20b%0A", "\"a b\\x0A\""),
            ("\"\\", "%22\\", "\"\\\"\\\\\""),
            ("é", "%C3%A9", "\"\\xC3\\xA9\""),
        ] {
            assert_eq!(shown(blank_parted, text), blanks);
            assert_eq!(shown(quoted, text), quotes);
        }
        assert_eq!(shown(blank_parted, &"é".repeat(5000)).len(), FIELD_MAX * 3);
    }

    proptest! {
        #[test]
        fn nothing_ends_the_field_or_the_line(text in any::<String>()) {
            let blanks = shown(blank_parted, &text);
            prop_assert!(!blanks.is_empty() && blanks.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'));
            let quotes = shown(quoted, &text);
            let inner = &quotes.as_bytes()[1..quotes.len() - 1];
            let mut escaped = false;
            for byte in inner {
                prop_assert!((0x20..0x7f).contains(byte));
                prop_assert!(escaped || *byte != b'"');
                escaped = !escaped && *byte == b'\\';
            }
            prop_assert!(!escaped, "an escape before the closing quote");
        }
    }
}
