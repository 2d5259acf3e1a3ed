//! Paths of requests and the paths that origins get for them, in both directions.
//!
//! ```text
//!   client  /npm/a%2e/../b?q      normal form /npm/b
//!     │ taken "/npm", put "/registry", both by rules
//!     ▼
//!   origin  /registry/b?q         Location: /registry/c  ─►  /npm/c
//! ```

use crate::url::normal_path;
use std::borrow::Cow;
use std::sync::Arc;

/// Difference between the path of a request and the path that its origin gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathMapping {
    /// Prefix taken off, without a final slash.
    taken: Arc<str>,
    /// Prefix put before the rest, without a final slash.
    put: Arc<str>,
}

impl PathMapping {
    /// Creates the mapping of a request for `path`, which is in normal form. `strip` is taken off
    /// if the path lies below it.
    pub fn of(path: &str, strip: Option<&str>, add: Option<&str>) -> Self {
        let strip = strip.unwrap_or_default().trim_end_matches('/');
        let taken = if below(path, strip).is_some() { strip } else { "" };
        debug_assert!(path.starts_with('/'), "a path begins with its slash");
        Self { taken: taken.into(), put: add.unwrap_or_default().trim_end_matches('/').into() }
    }

    /// Returns `true` if paths stay.
    pub fn is_identity(&self) -> bool {
        self.taken == self.put
    }

    /// Returns `true` if a prefix is put before paths.
    pub fn puts_prefix(&self) -> bool {
        !self.put.is_empty()
    }

    /// Returns `path` without the prefix that is taken off.
    pub fn rest<'a>(&self, path: &'a str) -> Cow<'a, str> {
        let path = normal_path(split_query(path).0);
        debug_assert!(!path.contains('?'), "a path has no query");
        match below(&path, &self.taken).map(str::len) {
            Some(length) if length < path.len() => Cow::Owned(path[path.len() - length..].to_owned()),
            _ => path,
        }
    }

    /// Returns the path that the origin gets for `path`, which is in normal form.
    pub fn to_origin(&self, path: &str) -> String {
        let rest = below(path, &self.taken).unwrap_or(path);
        join(&self.put, rest)
    }

    /// Returns the path by which clients reach the origin's `path`; `None` if they cannot.
    pub fn to_client(&self, path: &str) -> Option<String> {
        Some(join(&self.taken, below(path, &self.put)?))
    }
}

/// Returns path and query below `prefix`, which has no final slash. The path is brought into normal
/// form: dot segments must not lead out of the prefix.
pub fn below_prefix(prefix: &str, path_and_query: &str) -> String {
    let (path, query) = split_query(path_and_query);
    let path = normal_path(path);
    debug_assert!(!prefix.ends_with('/'), "the path brings the slash");
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{prefix}{slash}{path}{query}")
}

/// Returns the rest of an origin's `path` behind `prefix`, which has no final slash; `None` for a
/// path elsewhere. A path with dot segments is resolved first.
pub fn without_prefix<'a>(prefix: &str, path: &'a str) -> Option<Cow<'a, str>> {
    let has_dots = path.contains("/.") || path.contains("/%2e") || path.contains("/%2E");
    if !has_dots {
        return below(path, prefix).map(Cow::Borrowed);
    }
    let path = normal_path(path).into_owned();
    below(&path, prefix).map(|rest| Cow::Owned(rest.to_owned()))
}

/// Returns `true` if a path could lead out of a prefix before it at some origin. Origins take
/// `%2F`, `%5C` and backslashes for slashes. Some drop parameters of segments (`..;a=b`), blanks
/// and zeros. Others decode twice.
pub fn may_leave_prefix(path: &str) -> bool {
    let path = normal_path(path);
    let is_odd = path.contains(['\\', ';']) || path.contains('%');
    if !is_odd || !path.contains("..") && !path.contains("%2") {
        return false;
    }
    let mut path = path.replace('\\', "/");
    for (escape, plain) in DISGUISES {
        path = path.replace(escape, plain);
    }
    let mut depth = 0_usize;
    let segments = path.split('/').map(|segment| {
        let is_end = |c: char| c == ';' || c == ' ' || c.is_control();
        segment.trim_start_matches(is_end).split(is_end).next().unwrap_or_default()
    });
    for segment in segments.filter(|segment| !segment.is_empty() && *segment != ".") {
        match (segment, depth) {
            ("..", 0) => return true,
            ("..", _) => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// Escapes in the order in which an origin that decodes twice reads them.
const DISGUISES: [(&str, &str); 10] = [
    ("%25", "%"),
    ("%2E", "."),
    ("%2e", "."),
    ("%2F", "/"),
    ("%2f", "/"),
    ("%5C", "/"),
    ("%5c", "/"),
    ("%3B", ";"),
    ("%00", " "),
    ("%20", " "),
];

/// Returns the path, and the query with its question mark.
pub(crate) fn split_query(path_and_query: &str) -> (&str, &str) {
    path_and_query.split_at(path_and_query.find('?').unwrap_or(path_and_query.len()))
}

/// Returns the rest of `path` behind `prefix`: empty, or with its slash.
fn below<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn join(prefix: &str, rest: &str) -> String {
    let slash = if rest.is_empty() && prefix.is_empty() { "/" } else { "" };
    format!("{prefix}{slash}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No path of a client leads out of the prefix, and each maps back below it.
        #[test]
        fn prefix_holds_for_any_path(path in "/[a.%2fFeEcC5\\\\/]{0,24}") {
            let asked = below_prefix("/simple", &path);
            prop_assert!(asked.starts_with("/simple/"), "{asked}");
            prop_assert!(!asked.split('/').any(|segment| segment == ".." || segment == "."));
            prop_assert_eq!(normal_path(&asked), asked.as_str());
            prop_assert!(without_prefix("/simple", &asked).is_some());
        }
    }

    #[test]
    fn mappings_lead_there_and_back() {
        for (path, strip, add, asked) in [
            ("/npm/a", Some("/npm"), Some("/registry"), "/registry/a"),
            ("/npm/a", Some("/npm/"), Some("/registry/"), "/registry/a"),
            ("/npm", Some("/npm"), Some("/registry"), "/registry"),
            ("/npm", Some("/npm"), None, "/"),
            ("/npmx", Some("/npm"), None, "/npmx"),
            ("/a/", None, Some("/b"), "/b/a/"),
            ("/", None, Some("/b"), "/b/"),
        ] {
            let mapping = PathMapping::of(path, strip, add);
            assert_eq!(mapping.to_origin(path), asked, "{path} {strip:?} {add:?}");
            let back = mapping.to_client(asked).expect("the path has come from there");
            assert_eq!(back.trim_end_matches('/'), path.trim_end_matches('/'), "{asked}");
        }
        let mapping = PathMapping::of("/npm/a", Some("/npm"), Some("/registry"));
        assert_eq!(mapping.to_client("/registry/b/").as_deref(), Some("/npm/b/"));
        assert_eq!(mapping.to_client("/registryx"), None);
        assert_eq!(mapping.to_client("/other"), None);
        assert!(PathMapping::of("/a", Some("/npm"), None).is_identity());
    }

    #[test]
    fn prefixes_come_and_go() {
        for (path, asked) in
            [("/pip/?x=/../", "/simple/pip/?x=/../"), ("/../pip", "/simple/pip"), ("/", "/simple/")]
        {
            assert_eq!(below_prefix("/simple", path), asked);
        }
        for (path, rest) in [
            ("/simple/a", Some("/a")),
            ("/simple", Some("")),
            ("/simple/../b", None),
            ("/x/../simple//b", Some("/b")),
            ("/simple//b", Some("//b")),
            ("/simplex", None),
        ] {
            assert_eq!(without_prefix("/simple", path).as_deref(), rest, "{path}");
        }
    }

    #[test]
    fn slashes_in_disguise_do_not_lead_out() {
        for (path, leaves) in [
            ("/@scope%2fname", false),
            ("/a/..%2f..", true),
            ("/..%2fetc", true),
            ("/..%5cetc", true),
            ("/..\\etc", true),
            ("/a%2f..%2fb", false),
            ("/a/b", false),
            ("/../b", false),
            ("/..;/b", true),
            ("/a/..;x=1/..;/b", true),
            ("/a/..;/b", false),
            ("/..%3B/b", true),
            ("/..%00/b", true),
            ("/..%20/b", true),
            ("/%252e%252e/b", true),
            ("/..%255cb", true),
            ("/a;b/c", false),
            ("/100%25", false),
            ("/a..b;c", false),
        ] {
            assert_eq!(may_leave_prefix(path), leaves, "{path}");
        }
    }
}
