//! Debian's archives: releases, package lists, and packages.
//!
//! ```text
//!   /dists/SUITE/InRelease, Release, Release.gpg        documents
//!   /dists/.../by-hash/SHA256/HEX                       constant; the URL has the digest
//!   /dists/.../Packages.xz and other lists by name      documents
//!   /pool/..., and everything else                      packages: constant under their name
//! ```
//!
//! Bytes go on as they came: the digests of lists are of the bytes as coded. A client that finds
//! `Acquire-By-Hash: yes` asks for lists by digest, so that they fit the release that it has read.

use crate::route::PromiseSource;
use crate::{
    Algorithm, Class, Digest, Fetch, Form, Mirror, Place, Promises, Question, Registry, Rewriter, Route,
};

/// The deb kind.
pub struct Deb;

impl Registry for Deb {
    fn route(&self, _: &Mirror, question: &Question<'_>) -> Route {
        if !matches!(question.method, "GET" | "HEAD") {
            return Route::Refuse(405, "an archive can only be read".into());
        }
        match class(question.path) {
            Some(class) => Route::Fetch(Fetch {
                place: Place::Below(question.path.to_owned()),
                class,
                accept: None,
                form_asked: None,
            }),
            None => Route::Refuse(404, "an archive has files alone; folders are not listed here".into()),
        }
    }

    fn rewriter(&self, _: &Mirror, _: Form) -> Option<Box<dyn Rewriter + Send>> {
        None
    }

    fn promises(&self, _: &Mirror, _: Form, _: &Place) -> Option<Box<dyn Promises + Send>> {
        None
    }

    fn shares_rights(&self) -> bool {
        false
    }

    fn packages(&self, _: &Mirror, path: &str) -> Vec<String> {
        let file = path.rsplit('/').next().unwrap_or_default();
        let stem = file.strip_suffix(".deb").or_else(|| file.strip_suffix(".udeb"));
        let name = stem.and_then(|stem| stem.split('_').next()).filter(|name| !name.is_empty());
        name.map(str::to_owned).into_iter().collect()
    }
}

/// Returns the class of a file; `None` for folders and unsound paths.
fn class(path: &str) -> Option<Class> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let is_part = |part: &&str| {
        !part.is_empty() && !matches!(*part, "." | "..") && part.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !parts.iter().all(is_part) {
        return None;
    }
    if let [.., "by-hash", algorithm, hex] = parts[..] {
        let algorithm = match algorithm {
            // The name that archives have for MD5.
            "MD5Sum" => Algorithm::Md5,
            name => Algorithm::named(name)?,
        };
        return Some(Class::File(PromiseSource::Here(Digest::from_hex(algorithm, hex)?)));
    }
    let file = *parts.last()?;
    if matches!(file, "InRelease" | "Release" | "Release.gpg") {
        return Some(Class::Document(Form::DebRelease));
    }
    let stem = file.split('.').next()?;
    let is_list = LISTS.iter().any(|list| stem == *list || stem.starts_with(&format!("{list}-")));
    // Patches between lists carry their time in their names.
    let is_patch =
        parts.iter().rev().nth(1).is_some_and(|folder| folder.ends_with(".diff")) && file != "Index";
    let is_pool = file.ends_with(".deb")
        || file.ends_with(".udeb")
        || file.ends_with(".dsc")
        || parts.contains(&"pool");
    Some(match is_patch || is_pool && !is_list {
        true => Class::File(PromiseSource::Nothing),
        false => Class::Document(Form::DebPackages),
    })
}

/// Names of lists; a dash and more may follow.
const LISTS: [&str; 6] = ["Packages", "Sources", "Contents", "Translation", "Components", "Commands"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registries::testing::{below, routed};

    const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn mirror() -> Mirror {
        Mirror { external: "http://cache.test/deb".into(), upstream: "http://archive.example/debian".into() }
    }

    #[test]
    fn lists_change_and_packages_do_not() {
        let file = Class::File(PromiseSource::Nothing);
        let by_hash =
            Class::File(PromiseSource::Here(Digest::from_hex(Algorithm::Sha256, SHA256).expect("a digest")));
        let (release, list) = (Class::Document(Form::DebRelease), Class::Document(Form::DebPackages));
        for (path, wanted) in [
            ("/dists/bookworm/InRelease".to_owned(), &release),
            ("/InRelease".to_owned(), &release),
            ("/dists/bookworm/main/binary-amd64/Packages.xz".to_owned(), &list),
            ("/dists/bookworm/main/i18n/Translation-en.bz2".to_owned(), &list),
            ("/dists/bookworm/main/Contents-amd64.gz".to_owned(), &list),
            ("/dists/bookworm/main/binary-amd64/Packages.diff/Index".to_owned(), &list),
            ("/dists/b/main/binary-amd64/Packages.diff/T-2026-01-01-0000.00-F-x.gz".to_owned(), &file),
            (format!("/dists/b/main/binary-amd64/by-hash/SHA256/{SHA256}"), &by_hash),
            ("/pool/main/a/apt/apt_2.6.1_amd64.deb".to_owned(), &file),
            ("/pool/main/a/apt/apt_2.6.1.dsc".to_owned(), &file),
            ("/apt_2.6.1_amd64.deb".to_owned(), &file),
            ("/Packages".to_owned(), &list),
        ] {
            assert_eq!(below(routed(&Deb, &mirror(), "GET", &path, "")), (path, wanted.clone()));
        }
        for path in ["/", "/dists/", "/a//b", "/../x", "/x/by-hash/SHA256/12", "/x/by-hash/CRC/12"] {
            assert!(matches!(routed(&Deb, &mirror(), "GET", path, ""), Route::Refuse(404, _)), "{path}");
        }
        assert_eq!(Deb.packages(&mirror(), "/pool/a/apt_1_amd64.deb"), ["apt"]);
    }
}
