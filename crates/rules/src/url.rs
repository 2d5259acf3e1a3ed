//! URLs in the form in which rules compare and key them.

use crate::pattern::Glob;
use std::borrow::Cow;

/// Changes of the query by a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryEdit {
    /// Parameters that stay; `None` keeps all.
    pub keep: Option<Vec<Glob>>,
    /// Parameters that go.
    pub drop: Option<Vec<Glob>>,
    /// `true` to sort parameters by name; equal names keep their order.
    pub sort: Option<bool>,
}

impl QueryEdit {
    /// Takes over the settings of `later`.
    pub fn merge(&mut self, later: &Self) {
        let Self { keep, drop, sort } = later.clone();
        self.keep = keep.or(self.keep.take());
        self.drop = drop.or(self.drop.take());
        self.sort = sort.or(self.sort);
    }

    /// Returns `true` if nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the query without dropped parameters; `None` drops the question mark too.
    pub fn apply(&self, query: &str) -> Option<String> {
        let is_one_of = |globs: &[Glob], name: &str| globs.iter().any(|glob| glob.matches_parameter(name));
        let stays = |parameter: &&str| {
            let name = parameter.split('=').next().unwrap_or_default();
            self.keep.as_deref().is_none_or(|keep| is_one_of(keep, name))
                && !self.drop.as_deref().is_some_and(|drop| is_one_of(drop, name))
        };
        let mut parameters: Vec<&str> = query.split('&').filter(stays).collect();
        if self.sort == Some(true) {
            parameters.retain(|parameter| !parameter.is_empty());
            parameters.sort_by_key(|parameter| parameter.split('=').next().unwrap_or_default());
        }
        let edited = parameters.join("&");
        debug_assert!(edited.len() <= query.len(), "an edit only takes parameters away");
        (!edited.is_empty()).then_some(edited)
    }
}

/// Returns a path in normal form: unreserved characters decoded, other escapes in upper case, dot
/// segments resolved and repeated slashes merged (RFC 3986, sections 6.2.2 and 5.2.4).
pub fn normal_path(path: &str) -> Cow<'_, str> {
    if !path.contains('%') && !path.contains("/.") && !path.contains("//") {
        return Cow::Borrowed(path);
    }
    let decoded = decode_unreserved(path);
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = decoded.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "" if !is_last => {}
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    let normal = format!("/{}", kept.join("/"));
    debug_assert!(!normal.contains("//"), "repeated slashes are merged");
    debug_assert!(!normal.contains("/../") && !normal.contains("/./"), "dot segments are resolved");
    Cow::Owned(normal)
}

/// Decodes `%41` and its like where the character needs no escape. A percent sign before anything
/// else stays, but becomes `%25` where decoded digits would make an escape of it: `/%%361` would
/// become `/%61`, which is `/a`.
fn decode_unreserved(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut signs = Vec::new();
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).and_then(|digits| {
            digits
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit())
                .then(|| u8::from_str_radix(digits, 16).ok())?
        });
        match code {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => out.push(byte as char),
            Some(byte) => out.push_str(&format!("%{byte:02X}")),
            None => {
                signs.push(out.len());
                out.push('%');
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    let makes_escape = |at: &usize| {
        let digits = out.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    signs.retain(makes_escape);
    let (mut plain, mut start) = (String::with_capacity(out.len() + 2 * signs.len()), 0);
    for at in signs {
        plain.push_str(&out[start..at]);
        plain.push_str("%25");
        start = at + 1;
    }
    plain.push_str(&out[start..]);
    debug_assert!(!plain.contains("%2E") && !plain.contains("%2e"), "an escaped dot is decoded once");
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any path has one normal form, which leads nowhere else.
        #[test]
        fn normal_paths_are_stable(path in "/[a.%2fFeE36/;\\\\ü]{0,24}") {
            let normal = normal_path(&path).into_owned();
            prop_assert!(normal.starts_with('/'));
            prop_assert!(!normal.split('/').any(|segment| segment == ".." || segment == "."));
            prop_assert_eq!(normal_path(&normal), normal.as_str());
        }
    }

    fn globs(texts: &[&str]) -> Option<Vec<Glob>> {
        Some(texts.iter().map(|text| Glob::parse(text).expect("a pattern")).collect())
    }

    #[test]
    fn queries_are_edited() {
        let drop = QueryEdit { drop: globs(&["utm_*", "fbclid"]), ..QueryEdit::default() };
        let keep = QueryEdit { keep: globs(&["page"]), ..QueryEdit::default() };
        let sort = QueryEdit { sort: Some(true), ..QueryEdit::default() };
        for (edit, query, edited) in [
            (&drop, "utm_source=x&a=1&fbclid=2", Some("a=1")),
            (&drop, "utm_source=x", None),
            (&drop, "%75tm_source=x&a=1", Some("a=1")),
            (&keep, "p%61ge=2&b=1", Some("p%61ge=2")),
            (&keep, "b=1&page=2&page=3", Some("page=2&page=3")),
            (&keep, "b", None),
            (&sort, "b=2&a=1&b=1&&", Some("a=1&b=2&b=1")),
        ] {
            assert_eq!(edit.apply(query).as_deref(), edited, "{query}");
        }
    }

    #[test]
    fn later_edits_win() {
        let mut edit = QueryEdit { drop: globs(&["a"]), sort: Some(true), ..QueryEdit::default() };
        edit.merge(&QueryEdit { drop: globs(&["b"]), ..QueryEdit::default() });
        assert_eq!((edit.drop, edit.sort), (globs(&["b"]), Some(true)));
    }

    #[test]
    fn paths_have_one_form() {
        for (path, normal) in [
            ("/a/b", "/a/b"),
            ("/%61/b", "/a/b"),
            ("/a%2fb", "/a%2Fb"),
            ("//a///b/", "/a/b/"),
            ("/a/./b/../c", "/a/c"),
            ("/a/%2e%2e/c", "/c"),
            ("/../../c", "/c"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/100%", "/100%"),
            ("/%zz", "/%zz"),
            ("/%", "/%"),
            ("/%%361dmin", "/%2561dmin"),
            ("/%2%65/", "/%252e/"),
            ("/%%32%35", "/%2525"),
        ] {
            assert_eq!(normal_path(path), normal, "{path}");
            assert_eq!(normal_path(normal), normal, "the form of {path} is stable");
        }
    }
}
