//! The field `Link` (RFC 8288): references of a response to other resources.
//!
//! RFC 8288, section 3: `link-value = "<" URI-Reference ">" *( OWS ";" OWS link-param )`. Only the
//! relations by which a page announces its next requests are read. The field is an origin's: at
//! most [`LINKS_MAX`] links of a value are read, and a value that breaks the syntax ends there.
//! O(bytes of the value).

/// Relation of a link that announces a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRelation {
    /// `preload`: the page needs the resource now (Preload, W3C).
    Preload,
    /// `prefetch`: the resource is likely to be needed next (Resource Hints, W3C).
    Prefetch,
    /// `next`: the next part of a series (RFC 8288, registry of relations).
    Next,
}

/// Link that announces a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedLink<'a> {
    /// Reference, relative to the response's URI.
    pub reference: &'a str,
    /// Relation; the first that announces a request.
    pub relation: LinkRelation,
    /// `true` with a `crossorigin` that sends credentials: no shared answer fits.
    pub uses_credentials: bool,
}

/// Returns the links of one field value that announce requests.
pub fn announced(value: &[u8]) -> Vec<AnnouncedLink<'_>> {
    let Ok(mut rest) = std::str::from_utf8(value) else { return Vec::new() };
    let mut found = Vec::new();
    for _ in 0..LINKS_MAX {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let Some((reference, after)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) else {
            break;
        };
        let (parameters, after) = split_link(after);
        rest = after;
        if let Some(link) = announced_link(reference, parameters) {
            found.push(link);
        }
    }
    found
}

/// Splits the parameters of a link from the links after it: at the first comma outside quotes.
fn split_link(text: &str) -> (&str, &str) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

fn announced_link<'a>(reference: &'a str, parameters: &str) -> Option<AnnouncedLink<'a>> {
    let is_sound = |byte: u8| byte.is_ascii_graphic();
    if reference.is_empty() || reference.len() > REFERENCE_MAX || !reference.bytes().all(is_sound) {
        return None;
    }
    let (mut relation, mut uses_credentials, mut has_rel) = (None, false, false);
    for parameter in parameters_of(parameters) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            // RFC 8288, 3.3: "occurrences after the first MUST be ignored by parsers".
            "rel" if !has_rel => {
                has_rel = true;
                relation = value.split_ascii_whitespace().find_map(relation_of);
            }
            "crossorigin" => uses_credentials = value.eq_ignore_ascii_case("use-credentials"),
            // A link about another resource than the response says nothing about its reader.
            "anchor" => return None,
            _ => {}
        }
    }
    Some(AnnouncedLink { reference, relation: relation?, uses_credentials })
}

/// Splits at semicolons outside quotes.
fn parameters_of(text: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |char: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        is_escaped = is_quoted && char == '\\' && !was_escaped;
        is_quoted ^= char == '"' && !was_escaped;
        char == ';' && !is_quoted
    })
}

fn relation_of(word: &str) -> Option<LinkRelation> {
    [("preload", LinkRelation::Preload), ("prefetch", LinkRelation::Prefetch), ("next", LinkRelation::Next)]
        .into_iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name))
        .map(|(_, relation)| relation)
}

/// Most links of a value that are read.
pub const LINKS_MAX: usize = 32;
/// Longest reference in bytes.
pub const REFERENCE_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(value: &str) -> Vec<(String, LinkRelation)> {
        announced(value.as_bytes())
            .into_iter()
            .map(|link| (link.reference.to_owned(), link.relation))
            .collect()
    }

    #[test]
    fn links_that_announce_requests_are_read() {
        use LinkRelation::{Next, Prefetch, Preload};
        for (value, expected) in [
            ("</a.css>; rel=preload; as=style", vec![("/a.css", Preload)]),
            ("</a>;rel=\"preload\" , </b>;rel=prefetch", vec![("/a", Preload), ("/b", Prefetch)]),
            ("<?page=2>; rel=\"last NEXT\"; title=\"a, b; rel=preload\"", vec![("?page=2", Next)]),
            ("</a>; title=\"x\\\", </b>; rel=preload\", </c>; rel=next", vec![("/c", Next)]),
            ("</a>; rel=stylesheet; rel=preload", vec![]),
            ("</a>; rel=preload; anchor=\"/b\"", vec![]),
            ("</a>", vec![]),
            ("<>; rel=preload", vec![]),
            ("</a b>; rel=preload", vec![]),
            ("/a; rel=preload", vec![]),
            ("", vec![]),
        ] {
            let expected: Vec<_> =
                expected.into_iter().map(|(reference, relation)| (reference.to_owned(), relation)).collect();
            assert_eq!(read(value), expected, "{value}");
        }
        assert!(announced(b"</a>; rel=preload; crossorigin=use-credentials")[0].uses_credentials);
        assert!(!announced(b"</a>; rel=preload; crossorigin")[0].uses_credentials);
    }

    #[test]
    fn endless_values_are_cut() {
        let value = "</a>; rel=preload, ".repeat(1000);
        assert_eq!(read(&value).len(), LINKS_MAX);
        assert!(read(&format!("<{}>; rel=preload", "a".repeat(REFERENCE_MAX + 1))).is_empty());
    }

    proptest! {
        #[test]
        fn any_value_is_read_without_harm(value in "[<>;,=\"\\\\ a-z/]{0,80}") {
            for link in announced(value.as_bytes()) {
                prop_assert!(value.contains(link.reference) && !link.reference.is_empty());
            }
        }
    }
}
