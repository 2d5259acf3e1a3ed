//! Strings of JSON: from their escapes, and back.

/// Returns the text of a string token with its quotes. `None` if an escape is wrong.
pub fn text(raw: &[u8]) -> Option<String> {
    let inner = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let inner = std::str::from_utf8(inner).ok()?;
    if !inner.contains('\\') {
        return Some(inner.to_owned());
    }
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            '\\' => match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'u' => unit(&mut chars)?,
                char @ ('"' | '\\' | '/') => char,
                _ => return None,
            },
            char => char,
        });
    }
    Some(text)
}

/// Reads the digits of `\uXXXX`, and of the second half of a pair.
fn unit(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let first = digits(chars)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    let is_pair = chars.next() == Some('\\') && chars.next() == Some('u');
    let second = digits(chars).filter(|second| is_pair && (0xdc00..0xe000).contains(second))?;
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

fn digits(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |number, _| Some(number << 4 | chars.next()?.to_digit(16)?))
}

/// Returns the text as a string token.
pub fn quoted(text: &str) -> String {
    let mut token = String::with_capacity(text.len() + 2);
    token.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => token.extend(['\\', char]),
            char if u32::from(char) < 0x20 => token.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => token.push(char),
        }
    }
    token.push('"');
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_and_written() {
        for (raw, read) in [
            (r#""a b""#, Some("a b")),
            (r#""\"\\\/\n\t\r\b\f""#, Some("\"\\/\n\t\r\u{8}\u{c}")),
            (r#""\u00e9\ud83d\ude00""#, Some("é😀")),
            (r#""\ud83d""#, None),
            (r#""\ud83d\u0041""#, None),
            (r#""\x""#, None),
            (r#""\u12""#, None),
            ("\"", None),
        ] {
            assert_eq!(text(raw.as_bytes()).as_deref(), read, "{raw}");
        }
        for written in ["", "a", "\"\\\n\u{1}é"] {
            assert_eq!(text(quoted(written).as_bytes()).as_deref(), Some(written));
        }
    }
}
