//! Check of a body against a list while it streams.

use super::Check;
use super::zip_hash::ZipHash;
use crate::{Algorithm, Digest, Hasher};

/// A check in progress.
#[derive(Debug)]
pub enum ListCheck {
    /// The list promises nothing.
    Nothing,
    /// Any of these digests, all of one algorithm.
    OneOf(Hasher, Vec<Digest>),
    /// Hash of `go.sum` over a `go.mod` alone.
    GoMod(Hasher, [u8; 32]),
    /// Hash of `go.sum` over the members of a zip.
    GoZip(Box<ZipHash>, [u8; 32]),
}

impl ListCheck {
    /// Begins the check of a file with this path. Of several algorithms the strongest counts.
    pub fn new(check: &Check, path: &str) -> Self {
        match check {
            Check::OneOf(digests) => {
                let Some(strongest) = digests.iter().map(Digest::algorithm).max() else {
                    return Self::Nothing;
                };
                debug_assert!(!digests.is_empty(), "the strongest is one of them");
                let digests = digests.iter().filter(|digest| digest.algorithm() == strongest).cloned();
                Self::OneOf(Hasher::new(strongest), digests.collect())
            }
            Check::GoSum(hash) if path.ends_with(".mod") => {
                Self::GoMod(Hasher::new(Algorithm::Sha256), *hash)
            }
            Check::GoSum(hash) => Self::GoZip(Box::default(), *hash),
            Check::Nothing => Self::Nothing,
        }
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        match self {
            Self::Nothing => {}
            Self::OneOf(hasher, _) | Self::GoMod(hasher, _) => hasher.push(piece),
            Self::GoZip(hash, _) => hash.push(piece),
        }
    }

    /// Takes the end of the body: true if the list agrees.
    pub fn agrees(self) -> bool {
        match self {
            Self::Nothing => true,
            Self::OneOf(hasher, digests) => digests.contains(&hasher.finish()),
            Self::GoMod(hasher, wanted) => {
                // A line for each member: its digest, two spaces, its name.
                let mut lines = Hasher::new(Algorithm::Sha256);
                lines.push(format!("{}  go.mod\n", hasher.finish().hex()).as_bytes());
                lines.finish().bytes() == wanted
            }
            // Without a verdict, the go command has the last word.
            Self::GoZip(hash, wanted) => hash.finish().is_none_or(|found| found == wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(check: &Check, path: &str, body: &[u8]) -> bool {
        let mut check = ListCheck::new(check, path);
        body.chunks(2).for_each(|piece| check.push(piece));
        check.agrees()
    }

    #[test]
    fn any_digest_of_the_strongest_kind_agrees() {
        let digest = |text: &str| Digest::from_named_hex(text).expect(text);
        let abc = digest("sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let other = digest("sha256:00a816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let weak = digest("md5:900150983cd24fb0d6963f7d28e17f72");
        for (digests, is_right) in [
            (vec![other.clone(), abc.clone()], true),
            (vec![other.clone()], false),
            (vec![weak.clone(), other], false),
            (vec![weak], true),
            (vec![], true),
        ] {
            assert_eq!(agrees(&Check::OneOf(digests), "/x", b"abc"), is_right);
        }
    }

    #[test]
    fn go_mod_has_the_hash_of_its_line() {
        let mut other = Hasher::new(Algorithm::Sha256);
        other.push(b"other");
        let body = b"module example.test/a\n";
        let mut own = Hasher::new(Algorithm::Sha256);
        own.push(body);
        let mut line = Hasher::new(Algorithm::Sha256);
        line.push(format!("{}  go.mod\n", own.finish().hex()).as_bytes());
        let hash = |hasher: Hasher| hasher.finish().bytes().try_into().expect("32 bytes");
        let (right, wrong): ([u8; 32], [u8; 32]) = (hash(line), hash(other));
        assert!(agrees(&Check::GoSum(right), "/example.test/a/@v/v1.0.0.mod", body));
        assert!(!agrees(&Check::GoSum(wrong), "/example.test/a/@v/v1.0.0.mod", body));
        assert!(agrees(&Check::GoSum(wrong), "/example.test/a/@v/v1.0.0.zip", body), "no zip, no verdict");
    }
}
