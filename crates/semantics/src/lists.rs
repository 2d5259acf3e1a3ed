//! Parts of field values that several fields share: list members, quoted strings, numbers of
//! seconds.
//!
//! RFC 9110, section 5.6.1: "A recipient MUST parse and ignore a reasonable number of empty list
//! elements".

use http::HeaderName;
use shoal_core::Fields;
use std::borrow::Cow;

/// Largest number of seconds that this cache distinguishes.
///
/// RFC 9111, section 1.2.2: "If a cache receives a delta-seconds value greater than the greatest
/// integer it can represent […] the cache MUST consider the value to be 2147483648 (2^31) or the
/// greatest positive integer it can conveniently represent."
pub const SECONDS_MAX: u32 = 1 << 31;

/// Returns the members of a comma-separated list, without surrounding whitespace and without empty
/// members. Commas within quoted strings do not separate. When a quote is never closed, quotes have
/// no meaning and every comma separates.
pub fn members(value: &[u8]) -> Members<'_> {
    // Most values have no quotes. Then every comma separates, and the search is simpler.
    Members { rest: value, quotes: value.contains(&b'"') && quotes_are_closed(value) }
}

/// Returns the members of all lines of a field.
pub fn field_members<'a>(fields: &'a impl Fields, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    fields.values(name).flat_map(members)
}

/// Iterator over list members; see [`members`].
pub struct Members<'a> {
    rest: &'a [u8],
    quotes: bool,
}

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = if self.quotes { unquoted_comma(self.rest) } else { comma(self.rest) };
            let member = trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    }
}

/// Removes spaces and tabs at both ends.
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Returns the text of a quoted string, or the value itself when it is not quoted. `None` when the
/// quoting is broken.
pub fn unquote(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(inner) = value.strip_prefix(b"\"") else {
        return (!value.contains(&b'"')).then_some(Cow::Borrowed(value));
    };
    let inner = inner.strip_suffix(b"\"")?;
    if !inner.iter().any(|byte| matches!(byte, b'"' | b'\\')) {
        return Some(Cow::Borrowed(inner));
    }
    let mut text = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => return None,
            b'\\' => text.push(*bytes.next()?),
            _ => text.push(byte),
        }
    }
    Some(Cow::Owned(text))
}

/// Reads a number of seconds: digits and nothing else, at most [`SECONDS_MAX`].
pub fn delta_seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    Some(text.iter().fold(0, add).min(SECONDS_MAX))
}

/// Returns `true` if every quoted string within `value` ends.
fn quotes_are_closed(value: &[u8]) -> bool {
    let mut within = false;
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => within = !within,
            b'\\' if within => {
                bytes.next();
            }
            _ => {}
        }
    }
    !within
}

/// Returns the position of the first comma, or the length.
fn comma(value: &[u8]) -> usize {
    value.iter().position(|byte| *byte == b',').unwrap_or(value.len())
}

/// Returns the position of the first comma outside a quoted string, or the length.
fn unquoted_comma(value: &[u8]) -> usize {
    let mut within = false;
    let mut at = 0;
    while let Some(byte) = value.get(at) {
        match byte {
            b',' if !within => return at,
            b'"' => within = !within,
            b'\\' if within => at += 1,
            _ => {}
        }
        at += 1;
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(value: &str) -> Vec<&str> {
        members(value.as_bytes()).map(|member| std::str::from_utf8(member).expect("split at ASCII")).collect()
    }

    #[test]
    fn members_are_trimmed_and_empty_ones_dropped() {
        assert_eq!(split(" a ,\tb,, c ,"), ["a", "b", "c"]);
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split(" , ,"), [""; 0]);
    }

    #[test]
    fn commas_in_quoted_strings_do_not_separate() {
        assert_eq!(split(r#"a="1, 2", b"#), [r#"a="1, 2""#, "b"]);
        assert_eq!(split(r#"a="1\", 2", b"#), [r#"a="1\", 2""#, "b"]);
    }

    #[test]
    fn an_unclosed_quote_hides_nothing() {
        assert_eq!(split(r#"a="1, no-store"#), [r#"a="1"#, "no-store"]);
    }

    #[test]
    fn quoted_strings() {
        for (value, text) in [
            (r#""a b""#, Some("a b")),
            (r#""a\"b""#, Some("a\"b")),
            ("ab", Some("ab")),
            (r#"""#, None),
            (r#""a"#, None),
            (r#""a"b""#, None),
            (r#"a"b"#, None),
        ] {
            let read = unquote(value.as_bytes());
            assert_eq!(read.as_deref(), text.map(str::as_bytes), "{value}");
        }
    }

    #[test]
    fn seconds_are_digits_only_and_bounded() {
        for (text, seconds) in [
            ("0", Some(0)),
            ("003600", Some(3600)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483649", Some(SECONDS_MAX)),
            ("99999999999999999999999", Some(SECONDS_MAX)),
            ("", None),
            ("-1", None),
            ("1.0", None),
            ("+1", None),
            ("1a", None),
        ] {
            assert_eq!(delta_seconds(text.as_bytes()), seconds, "{text}");
        }
    }

    proptest! {
        #[test]
        fn splitting_loses_no_byte_but_commas_and_blanks(value in "[a\", \\\\]{0,24}") {
            let kept: usize = members(value.as_bytes()).map(<[u8]>::len).sum();
            let dropped = value.bytes().filter(|byte| matches!(byte, b',' | b' ')).count();
            prop_assert!(kept + dropped >= value.len());
        }
    }
}
