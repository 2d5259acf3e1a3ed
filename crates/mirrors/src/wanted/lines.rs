//! Lines of lockfiles that look like YAML: depth, key and value, and the pairs of `{a: b, c: d}`.
//!
//! Only the shapes that lockfiles have are read: a key and a value on one line, strings in quotes
//! or without, one level of braces.

/// A line with something on it.
pub(super) struct Line<'a> {
    /// Spaces before the first character.
    pub depth: usize,
    /// The line without these, and without spaces at its end.
    pub text: &'a str,
}

/// Returns the lines that are neither empty nor comments.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter_map(|line| {
        let trimmed = line.trim_start_matches(' ');
        let text = trimmed.trim_end();
        (!text.is_empty() && !text.starts_with('#'))
            .then_some(Line { depth: line.len() - trimmed.len(), text })
    })
}

impl<'a> Line<'a> {
    /// Splits `key: value`, both without their quotes. The value may be empty.
    pub fn pair(&self) -> Option<(&'a str, &'a str)> {
        pair(self.text)
    }
}

/// Splits `key: value` at the first colon behind the key, both without their quotes.
fn pair(text: &str) -> Option<(&str, &str)> {
    let from = match text.as_bytes().first()? {
        quote @ (b'"' | b'\'') => 2 + text[1..].find(char::from(*quote))?,
        _ => 0,
    };
    let rest = &text[from..];
    let colon = match rest.find(": ") {
        Some(place) => place,
        None => rest.len().checked_sub(1).filter(|_| rest.ends_with(':'))?,
    };
    debug_assert_eq!(rest.as_bytes()[colon], b':');
    Some((plain(text[..from + colon].trim()), plain(rest[colon + 1..].trim())))
}

/// Returns a scalar without its quotes.
pub(super) fn plain(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// Returns the pairs of `{a: b, c: d}`.
pub(super) fn braces(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let inner = value.strip_prefix('{').and_then(|value| value.strip_suffix('}')).unwrap_or_default();
    inner.split(", ").filter_map(|part| pair(part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_split_behind_the_key() {
        for (text, expected) in [
            ("a: b", Some(("a", "b"))),
            ("'@s/a@1.0.0':", Some(("@s/a@1.0.0", ""))),
            ("a@https://x.test/y:", Some(("a@https://x.test/y", ""))),
            ("\"a: b\": \"c\"", Some(("a: b", "c"))),
            ("tarball: https://x.test/a", Some(("tarball", "https://x.test/a"))),
            ("a", None),
            ("\"a", None),
            ("", None),
        ] {
            assert_eq!(pair(text), expected, "{text}");
        }
        let found: Vec<_> = braces("{integrity: sha512-x==, tarball: 'https://x.test/a'}").collect();
        assert_eq!(found, [("integrity", "sha512-x=="), ("tarball", "https://x.test/a")]);
    }
}
