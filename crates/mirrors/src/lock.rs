//! URLs in lockfiles: those of mirrors become the registries' own, or the other way round. All
//! other bytes stay, in any format: a URL is found by its beginning and ends where no URL goes on.
//!
//! ```text
//!   http://cache.test/npm/a/-/a-1.tgz                ↔ https://npm.example/a/-/a-1.tgz
//!   http://cache.test/pypi/simple/                   ↔ https://index.example/simple/
//!   http://cache.test/pypi/files/files.example/p/x   ↔ https://files.example/p/x
//! ```

use crate::url::{FILES, file_path, file_url, last_segment};
use crate::{Kind, Mirror};

/// Direction of a rewriting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The registries' own URLs.
    ToOrigin,
    /// URLs of the mirrors.
    ToMirror,
}

/// One mirror and its registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredRegistry {
    /// Kind of the registry.
    pub kind: Kind,
    /// Address of the mirror, and the registry's URL.
    pub mirror: Mirror,
}

/// Rewrites the URLs of a lockfile. Returns the new bytes and the number of changed URLs.
pub fn rewrite(lock: &[u8], mirrors: &[MirroredRegistry], direction: Direction) -> (Vec<u8>, usize) {
    let scopes: Vec<Scope<'_>> = mirrors.iter().map(|registry| Scope::new(registry, lock)).collect();
    let (mut made, mut count, mut rest) = (Vec::with_capacity(lock.len()), 0, lock);
    while let Some(start) = next_url(rest) {
        let end = start + rest[start..].iter().position(|byte| ends_url(*byte)).unwrap_or(rest.len() - start);
        made.extend_from_slice(&rest[..start]);
        let url = &rest[start..end];
        let text = std::str::from_utf8(url).ok();
        match text.and_then(|url| scopes.iter().find_map(|scope| scope.mapped(url, direction))) {
            Some(other) => {
                made.extend_from_slice(other.as_bytes());
                count += 1;
            }
            None => made.extend_from_slice(url),
        }
        rest = &rest[end..];
    }
    made.extend_from_slice(rest);
    debug_assert!(count > 0 || made == lock, "nothing but URLs changes");
    (made, count)
}

/// A registry within one lockfile.
struct Scope<'a> {
    registry: &'a MirroredRegistry,
    /// `true` if the lock names the registry itself, so that files of other hosts are its own.
    is_named: bool,
}

impl<'a> Scope<'a> {
    fn new(registry: &'a MirroredRegistry, lock: &[u8]) -> Self {
        let Mirror { upstream, .. } = &registry.mirror;
        let is_named = memchr::memmem::find(lock, upstream.as_bytes()).is_some();
        Self { registry, is_named }
    }

    fn mapped(&self, url: &str, direction: Direction) -> Option<String> {
        match direction {
            Direction::ToOrigin => self.to_origin(url),
            Direction::ToMirror => self.to_mirror(url),
        }
    }

    fn to_origin(&self, url: &str) -> Option<String> {
        let MirroredRegistry { kind, mirror } = self.registry;
        let below = below(url, &mirror.external)?;
        if *kind != Kind::Pypi {
            return Some(format!("{}{below}", mirror.upstream));
        }
        let (path, tail) = split_tail(below);
        if let Some(behind) = path.strip_prefix('/').and_then(|path| path.strip_prefix(FILES)) {
            return file_url(&mirror.upstream, behind.strip_prefix('/')?).map(|url| format!("{url}{tail}"));
        }
        below.strip_prefix("/simple").map(|rest| format!("{}{rest}", mirror.upstream))
    }

    fn to_mirror(&self, url: &str) -> Option<String> {
        let MirroredRegistry { kind, mirror } = self.registry;
        if *kind != Kind::Pypi {
            return below(url, &mirror.upstream).map(|below| format!("{}{below}", mirror.external));
        }
        if let Some(below) = below(url, &mirror.upstream) {
            return Some(format!("{}/simple{below}", mirror.external));
        }
        let (plain, tail) = split_tail(url);
        let is_file = PYTHON_FILES.iter().any(|end| last_segment(plain).ends_with(end));
        // Files of projects lie on hosts of their own; other URLs are nobody's.
        let path = file_path(&mirror.upstream, plain).filter(|_| is_file && self.is_named)?;
        Some(format!("{}/{path}{tail}", mirror.external))
    }
}

/// Returns the part of a URL below a base, which is empty or begins with a slash.
fn below<'u>(url: &'u str, base: &str) -> Option<&'u str> {
    let rest = url.strip_prefix(base)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Splits query and fragment off.
fn split_tail(url: &str) -> (&str, &str) {
    url.split_at(url.find(['?', '#']).unwrap_or(url.len()))
}

/// Returns the place of the next URL over http or https.
fn next_url(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let start = from + memchr::memmem::find(&bytes[from..], b"http")?;
        if [&b"http://"[..], b"https://"].iter().any(|scheme| bytes[start..].starts_with(scheme)) {
            return Some(start);
        }
        from = start + 4;
    }
}

/// Returns `true` for a byte that no URL of a lockfile contains.
fn ends_url(byte: u8) -> bool {
    byte <= b' ' || byte >= 0x7f || b"\"'<>`\\,;(){}[]|".contains(&byte)
}

/// Ends of the names of Python's files.
const PYTHON_FILES: [&str; 6] = [".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz"];

#[cfg(test)]
mod tests {
    use super::*;

    fn mirrors() -> Vec<MirroredRegistry> {
        let mirror = |kind: Kind, upstream: &str| MirroredRegistry {
            kind,
            mirror: Mirror {
                external: format!("http://cache.test:8080/{kind}"),
                upstream: format!("https://{upstream}"),
            },
        };
        vec![
            mirror(Kind::Npm, "npm.example"),
            mirror(Kind::Pypi, "index.example/simple"),
            mirror(Kind::Cargo, "crates.example"),
            mirror(Kind::RubyGems, "gems.example"),
        ]
    }

    const LOCKS: [(&str, &str, usize); 6] = [
        (
            "  resolved \"http://cache.test:8080/npm/@s/a/-/a-1.tgz#0123\"\r\n",
            "  resolved \"https://npm.example/@s/a/-/a-1.tgz#0123\"\r\n",
            1,
        ),
        (
            r#"{"resolved":"http://cache.test:8080/npm/a/-/a-1.tgz","x":"http://cache.test:8080/npmx/a"}"#,
            r#"{"resolved":"https://npm.example/a/-/a-1.tgz","x":"http://cache.test:8080/npmx/a"}"#,
            1,
        ),
        (
            "source = { registry = \"http://cache.test:8080/pypi/simple/\" }\nwheels = [{ url = \"http://cache.test:8080/pypi/files/files.example/p/a-1-py3-none-any.whl\" }]",
            "source = { registry = \"https://index.example/simple/\" }\nwheels = [{ url = \"https://files.example/p/a-1-py3-none-any.whl\" }]",
            2,
        ),
        (
            "a @ http://cache.test:8080/pypi/files/http~files.example:81/a-1.zip#sha256=00\n--index-url http://cache.test:8080/pypi/simple",
            "a @ http://files.example:81/a-1.zip#sha256=00\n--index-url https://index.example/simple",
            2,
        ),
        (
            "source = \"sparse+http://cache.test:8080/cargo/\"",
            "source = \"sparse+https://crates.example/\"",
            1,
        ),
        (
            "GEM\n  remote: http://cache.test:8080/rubygems/\n  specs:\n",
            "GEM\n  remote: https://gems.example/\n  specs:\n",
            1,
        ),
    ];

    #[test]
    fn locks_are_rewritten_both_ways() {
        for (mirrored, own, count) in LOCKS {
            for (from, to, direction) in
                [(mirrored, own, Direction::ToOrigin), (own, mirrored, Direction::ToMirror)]
            {
                let (made, changed) = rewrite(from.as_bytes(), &mirrors(), direction);
                assert_eq!(String::from_utf8_lossy(&made), to);
                assert_eq!(changed, count);
            }
        }
    }

    #[test]
    fn other_bytes_stay() {
        for text in [
            "https://npm.example.evil.test/a",
            "https://other.example/a-1.zip and httpx, http:/x, http://",
            "git+https://code.example/a.git#main",
            "",
        ] {
            for direction in [Direction::ToOrigin, Direction::ToMirror] {
                assert_eq!(rewrite(text.as_bytes(), &mirrors(), direction), (text.into(), 0), "{text}");
            }
        }
        let bytes = b"\xff\x00http://cache.test:8080/npm/\xff";
        assert_eq!(
            rewrite(bytes, &mirrors(), Direction::ToOrigin),
            (b"\xff\x00https://npm.example/\xff".into(), 1)
        );
    }
}
