//! Escapes client data for a log line, so that no client can end a line or a field.

use wide::u8x16;

/// Appends `text` as a field between blanks. A quote and all bytes outside visible ASCII become
/// `%XX`. Empty text becomes `-`.
pub(super) fn blank_parted(line: &mut Vec<u8>, text: &[u8]) {
    if text.is_empty() {
        return line.push(b'-');
    }
    // excludes the quote: the combined format has quoted fields behind this one
    let plain = Plain { first: b'!', but: [b'"'; 2] };
    in_runs(line, text, plain, |line, byte| {
        line.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    });
}

/// Appends `text` within quotes, as Apache does: `\"`, `\\`, and `\xXX` for bytes outside printable
/// ASCII. Empty text becomes `"-"`.
pub(super) fn quoted(line: &mut Vec<u8>, text: &[u8]) {
    line.push(b'"');
    if text.is_empty() {
        line.push(b'-');
    }
    inside_quotes(line, text);
    line.push(b'"');
}

/// Appends a part of a quoted field.
pub(super) fn inside_quotes(line: &mut Vec<u8>, text: &[u8]) {
    let plain = Plain { first: b' ', but: [b'"', b'\\'] };
    in_runs(line, text, plain, |line, byte| match byte {
        b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
        _ => line.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
    });
}

/// Bytes that need no escape: ASCII from `first` to the tilde, except two characters.
#[derive(Clone, Copy)]
struct Plain {
    first: u8,
    but: [u8; 2],
}

impl Plain {
    fn has(self, byte: u8) -> bool {
        (self.first..=b'~').contains(&byte) && !self.but.contains(&byte)
    }

    /// Checks 16 bytes at a time. The last chunk may overlap the one before.
    #[inline]
    fn has_all(self, text: &[u8]) -> bool {
        let Some(last) = text.last_chunk() else { return text.iter().all(|&byte| self.has(byte)) };
        let has_part = |part: &[u8; 16]| {
            let part = u8x16::new(*part);
            let above_first = part - u8x16::splat(self.first);
            let is_within = above_first.min(u8x16::splat(b'~' - self.first)).simd_eq(above_first);
            let [one, other] = self.but;
            let is_but = part.simd_eq(u8x16::splat(one)) | part.simd_eq(u8x16::splat(other));
            (is_within & !is_but).all()
        };
        let (parts, _) = text.as_chunks();
        has_part(last) && parts.iter().all(has_part)
    }
}

/// Appends `text`, clipped: plain bytes in runs, and every other byte by `escape`. Nearly every
/// text is one run.
#[inline]
fn in_runs(line: &mut Vec<u8>, text: &[u8], plain: Plain, escape: impl Fn(&mut Vec<u8>, u8)) {
    let mut rest = &text[..text.len().min(FIELD_MAX)];
    if plain.has_all(rest) {
        return line.extend_from_slice(rest);
    }
    while !rest.is_empty() {
        let run = rest.iter().position(|&byte| !plain.has(byte)).unwrap_or(rest.len());
        line.extend_from_slice(&rest[..run]);
        if let Some(&byte) = rest.get(run) {
            escape(line, byte);
        }
        rest = rest.get(run + 1..).unwrap_or_default();
    }
}

/// Escapes invisible characters behind `start` of a line as `\u202E`.
///
/// These are characters that a terminal or an editor would obey or show as something else. The set
/// is DEL, C1 controls, marks and controls of direction (UAX 9), and line ends outside ASCII. The
/// line may be JSON: there, such characters occur only in strings. Nearly every line has none; a
/// scan of the bytes shows this.
pub fn escape_invisible(line: &mut Vec<u8>, start: usize) {
    if !line[start..].iter().any(|byte| *byte >= 0x7f) {
        return;
    }
    let text = String::from_utf8_lossy(&line[start..]).into_owned();
    line.truncate(start);
    for character in text.chars() {
        match is_invisible(character) {
            // All these characters have four hexadecimal digits.
            true => line.extend_from_slice(format!("\\u{:04X}", u32::from(character)).as_bytes()),
            false => line.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Returns `true` if a character controls the display of others, or ends a line.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
    )
}

/// Returns the whole characters within the first [`FIELD_MAX`] bytes of a text.
pub(super) fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(FIELD_MAX)]
}

/// Maximum logged bytes of one field, so that one request cannot fill the buffer.
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
    fn field_ends_are_escaped() {
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

    #[test]
    fn json_escapes_invisible_characters() {
        let check = |text: &str, shown: &str| {
            let mut line = b"before".to_vec();
            serde_json::to_writer(&mut line, text).expect("a text");
            escape_invisible(&mut line, "before".len());
            assert_eq!(String::from_utf8_lossy(&line[6..]), shown);
            assert_eq!(serde_json::from_slice::<String>(&line[6..]).expect("JSON"), text);
        };
        check("é 猫 a\nb", "\"é 猫 a\\nb\"");
        for (character, shown) in [
            ('\u{7f}', "007F"),
            ('\u{80}', "0080"),
            ('\u{9b}', "009B"),
            ('\u{61c}', "061C"),
            ('\u{200e}', "200E"),
            ('\u{2028}', "2028"),
            ('\u{2029}', "2029"),
            ('\u{202e}', "202E"),
            ('\u{2066}', "2066"),
            ('\u{2069}', "2069"),
            ('\u{feff}', "FEFF"),
        ] {
            check(&format!("a{character}b"), &format!("\"a\\u{shown}b\""));
        }
    }

    proptest! {
        #[test]
        fn plain_check_by_chunks_equals_check_by_bytes(text in prop::collection::vec(prop_oneof![30 => 0x20..0x7fu8, 1 => any::<u8>()], 0..50)) {
            for plain in [Plain { first: b'!', but: [b'"'; 2] }, Plain { first: b' ', but: *b"\"\\" }] {
                prop_assert_eq!(plain.has_all(&text), text.iter().all(|&byte| plain.has(byte)));
            }
        }

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
