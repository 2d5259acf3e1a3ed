//! Names of npm's packages in paths: all spellings are one name.

use std::fmt;

/// A package's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Scope without its `@`; empty without one.
    scope: String,
    /// Name without its scope.
    pub base: String,
}

impl Name {
    /// Reads `name`, `@scope/name` and `@scope%2fname`.
    pub fn parse(text: &str) -> Option<Self> {
        let (scope, base) = match text.strip_prefix('@').or_else(|| strip_escaped(text, "%40")) {
            Some(rest) => split(rest)?,
            None => ("", text),
        };
        let is_sound =
            |part: &str| !part.is_empty() && part.bytes().all(is_plain) && part != "." && part != "..";
        let is_scoped = !scope.is_empty();
        (is_sound(base) && (!is_scoped || is_sound(scope)) && (is_scoped || !text.contains('@')))
            .then(|| Self { scope: scope.into(), base: base.into() })
    }

    /// Path of the package's document, spelt as npm spells it.
    pub fn path(&self) -> String {
        debug_assert!(!self.base.is_empty() && !self.base.contains('/'), "one part of a path");
        match self.scope.is_empty() {
            true => format!("/{}", self.base),
            false => format!("/@{}%2f{}", self.scope, self.base),
        }
    }

    /// Path above the package's tarballs, spelt as registries spell it.
    pub fn path_of_files(&self) -> String {
        match self.scope.is_empty() {
            true => format!("/{}", self.base),
            false => format!("/@{}/{}", self.scope, self.base),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope.is_empty() {
            true => f.write_str(&self.base),
            false => write!(f, "@{}/{}", self.scope, self.base),
        }
    }
}

/// Splits a path into a package's name and the rest, which is empty or begins with a slash.
pub fn named(path: &str) -> Option<(Name, &str)> {
    let path = path.strip_prefix('/')?;
    let first = path.find('/').unwrap_or(path.len());
    let is_scope = path.starts_with('@') || strip_escaped(path, "%40").is_some();
    let end = match is_scope && split(&path[..first]).is_none() {
        true => path[first..].get(1..)?.find('/').map_or(path.len(), |place| first + 1 + place),
        false => first,
    };
    Some((Name::parse(&path[..end])?, &path[end..]))
}

/// Splits scope and name at the slash, as it stands or escaped.
fn split(text: &str) -> Option<(&str, &str)> {
    text.split_once('/').or_else(|| text.split_once("%2f")).or_else(|| text.split_once("%2F"))
}

fn strip_escaped<'a>(text: &'a str, escape: &str) -> Option<&'a str> {
    let start = text.get(..escape.len())?;
    start.eq_ignore_ascii_case(escape).then(|| &text[escape.len()..])
}

/// Returns `true` for a byte that names have and paths need not escape.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!'()*".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_one_name() {
        for path in ["/@a/b/1.0.0", "/@a%2fb/1.0.0", "/@a%2Fb/1.0.0", "/%40a%2Fb/1.0.0", "/%40a/b/1.0.0"] {
            let (name, rest) = named(path).expect(path);
            assert_eq!(
                (&*name.path(), &*name.path_of_files(), rest),
                ("/@a%2fb", "/@a/b", "/1.0.0"),
                "{path}"
            );
        }
        let (name, rest) = named("/left-pad").expect("a name");
        assert_eq!((&*name.path(), rest), ("/left-pad", ""));
    }

    #[test]
    fn other_names_are_refused() {
        for path in
            ["", "/", "//a", "/@a", "/@/b", "/a@b", "/..", "/@a/..", "/@..%2fb", "/a%2fb", "/a?b", "/a b"]
        {
            assert_eq!(named(path), None, "{path}");
        }
    }
}
