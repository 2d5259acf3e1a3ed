//! Text of clients and origins made safe to show.
//!
//! A URL may have characters that a terminal or a browser obeys instead of showing: control
//! characters, line ends, marks of direction (UAX 9), invisible ones. Each is replaced by its
//! number in braces, so that a reader sees it. The page itself sets text as text, never as HTML.

use std::fmt::Write;

/// Most characters of a shown text, an ellipsis in place of the rest included.
pub const TEXT_CHARACTERS_MAX: usize = 512;

/// Returns `text` with control, directional and invisible characters as `\u{202E}`, cut to
/// [`TEXT_CHARACTERS_MAX`] characters.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(TEXT_CHARACTERS_MAX));
    // Bytes of the longest part that leaves room for the ellipsis.
    let (mut characters, mut before_ellipsis) = (0, 0);
    for character in text.chars() {
        let is_obeyed = shown_as_number(character);
        characters += if is_obeyed { escape_characters(character) } else { 1 };
        if characters > TEXT_CHARACTERS_MAX {
            shown.truncate(before_ellipsis);
            shown.push('…');
            break;
        }
        match is_obeyed {
            true => drop(write!(shown, "\\u{{{:02X}}}", u32::from(character))),
            false => shown.push(character),
        }
        if characters < TEXT_CHARACTERS_MAX {
            before_ellipsis = shown.len();
        }
    }
    debug_assert!(!shown.contains(shown_as_number), "a reader sees each character");
    shown
}

/// Returns bytes likewise; bytes that are no UTF-8 become U+FFFD.
pub fn shown_bytes(bytes: &[u8]) -> String {
    // A character has at most four bytes, and each shown one at least one.
    let enough = &bytes[..bytes.len().min(4 * TEXT_CHARACTERS_MAX + 4)];
    shown(&String::from_utf8_lossy(enough))
}

/// Returns `true` for characters that change the display of others, or that no reader sees.
pub fn shown_as_number(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns the length of `\u{…}` for a character.
fn escape_characters(character: char) -> usize {
    let digits = (u32::from(character).max(1).ilog2() as usize / 4 + 1).max(2);
    "\\u{}".len() + digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn obeyed_characters_are_escaped() {
        for (text, expected) in [
            ("http://a.test/é?猫", "http://a.test/é?猫"),
            ("a\nb\r\u{1b}[2J", "a\\u{0A}b\\u{0D}\\u{1B}[2J"),
            ("a\u{202e}txt.exe", "a\\u{202E}txt.exe"),
            ("\u{2066}\u{feff}\u{200b}", "\\u{2066}\\u{FEFF}\\u{200B}"),
            ("\u{e0041}", "\\u{E0041}"),
            ("<script>alert(1)</script>", "<script>alert(1)</script>"),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert_eq!(shown_bytes(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn long_text_ends_with_an_ellipsis() {
        let exact = "é".repeat(TEXT_CHARACTERS_MAX);
        assert_eq!(shown(&exact), exact);
        let long = shown(&"x".repeat(8192));
        assert_eq!((long.chars().count(), long.ends_with('…')), (TEXT_CHARACTERS_MAX, true));
    }

    proptest! {
        #[test]
        fn shown_text_is_bounded_and_obeys_nothing(text in any::<String>(), repeat in 1..40_usize) {
            let shown = shown(&text.repeat(repeat));
            prop_assert!(shown.chars().count() <= TEXT_CHARACTERS_MAX);
            prop_assert!(!shown.chars().any(shown_as_number));
            if text.repeat(repeat).chars().count() < 40 && !text.chars().any(shown_as_number) {
                prop_assert_eq!(shown, text.repeat(repeat));
            }
        }

        #[test]
        fn any_bytes_are_shown(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert!(shown_bytes(&bytes).chars().count() <= TEXT_CHARACTERS_MAX);
        }
    }
}
