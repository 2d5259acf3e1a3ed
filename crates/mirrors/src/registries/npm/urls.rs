//! Rewrites the URLs of tarballs and attestations in npm's documents.

use crate::json::{Path, Visitor, Walk, quoted, text};
use crate::npm_name::Name;
use crate::url::one_spelling;
use crate::{BadDocument, Mirror, Rewriter};

/// Rewriter of a package's document, full or short, or of one version.
pub(super) struct TarballUrls(Walk<PackageUrls>);

/// Visitor that rewrites URLs.
pub(super) struct PackageUrls {
    external: String,
    upstream: String,
    /// Name of the package, as the document last had it.
    name: Option<Name>,
}

impl TarballUrls {
    pub fn new(mirror: &Mirror) -> Self {
        Self(Walk::new(PackageUrls::new(mirror)))
    }
}

impl Rewriter for TarballUrls {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.push(input, output)
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.finish(output)
    }
}

impl Visitor for PackageUrls {
    fn wants(&mut self, path: &Path) -> bool {
        if path.is(&["name"]) || path.is(&["versions", "*", "name"]) {
            return true;
        }
        let of_version = if path.key(0) == "versions" { 2 } else { 0 };
        let is = |keys: &[&str]| {
            path.depth() == of_version + keys.len()
                && keys.iter().enumerate().all(|(level, key)| path.key(of_version + level) == *key)
        };
        is(&["dist", "tarball"]) || is(&["dist", "attestations", "url"])
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], output: &mut Vec<u8>) {
        let read = text(raw);
        let replaced = match path.key(path.depth() - 1) {
            "name" => {
                self.name = read.and_then(|name| Name::parse(&name)).or(self.name.take());
                None
            }
            "tarball" => read.and_then(|url| self.tarball(&url, path)),
            _ => read.and_then(|url| self.below_upstream(&url)),
        };
        match replaced {
            Some(url) => output.extend_from_slice(quoted(&url).as_bytes()),
            None => output.extend_from_slice(raw),
        }
    }
}

impl PackageUrls {
    pub fn new(mirror: &Mirror) -> Self {
        Self { external: mirror.external.clone(), upstream: mirror.upstream.clone(), name: None }
    }

    /// Returns the mirror's URL of a tarball. It has the usual shape, wherever the origin keeps it.
    fn tarball(&self, url: &str, path: &Path) -> Option<String> {
        let plain = url.split(['?', '#']).next()?;
        if let Some(below) = plain.strip_prefix(&self.upstream)
            && let Some((name, file)) = below.strip_prefix('/').and_then(|below| below.split_once("/-/"))
            && let Some(name) = Name::parse(name)
            && !file.contains('/')
        {
            let file = one_spelling(file);
            return Some(format!("{}{}/-/{file}", self.external, name.path_of_files()));
        }
        let name = self.name.as_ref()?;
        Some(format!("{}{}/-/{}", self.external, name.path_of_files(), file_name(name, plain, path)?))
    }

    fn below_upstream(&self, url: &str) -> Option<String> {
        let below = url.strip_prefix(&self.upstream)?;
        below.starts_with('/').then(|| format!("{}{below}", self.external))
    }
}

/// Returns the name under which the mirror serves a tarball: the origin's own, or that of the
/// version where the origin's URL has none. `None` where the version is unknown, too.
pub(super) fn file_name(name: &Name, url: &str, path: &Path) -> Option<String> {
    let last = url.rsplit('/').next()?;
    if last.ends_with(".tgz") || last.ends_with(".tar.gz") {
        return Some(one_spelling(last).into_owned());
    }
    (path.key(0) == "versions").then(|| format!("{}-{}.tgz", name.base, path.key(1)))
}
