//! Project documents in JSON (PEP 691): URLs of files, and the promise about one file.

use super::file_name::METADATA;
use super::page_url;
use crate::json::{Path, Visitor, Walk, quoted, text};
use crate::time::rfc3339;
use crate::url::{file_path, joined};
use crate::{Algorithm, BadDocument, Digest, Mirror, Place, Promise, Promises, Rewriter};

/// Rewriter of `files[].url` to relative URLs.
pub(super) struct JsonUrls(Walk<FileUrls>);

struct FileUrls {
    upstream: String,
    page: String,
}

impl JsonUrls {
    pub fn new(mirror: &Mirror) -> Self {
        Self(Walk::new(FileUrls { upstream: mirror.upstream.clone(), page: page_url(mirror) }))
    }
}

impl Rewriter for JsonUrls {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.push(input, output)
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument> {
        self.0.finish(output)
    }
}

impl Visitor for FileUrls {
    fn wants(&mut self, path: &Path) -> bool {
        path.is(&["files", "*", "url"])
    }

    fn scalar(&mut self, _: &Path, raw: &[u8], output: &mut Vec<u8>) {
        match text(raw).and_then(|url| relative(&self.upstream, &self.page, &url)) {
            Some(url) => output.extend_from_slice(quoted(&url).as_bytes()),
            None => output.extend_from_slice(raw),
        }
    }
}

/// Returns the relative URL of a file for the mirror's page, with the fragment that it had.
pub(super) fn relative(upstream: &str, page: &str, url: &str) -> Option<String> {
    let (url, fragment) = url.split_once('#').map_or((url, None), |(url, fragment)| (url, Some(fragment)));
    let url = url.split('?').next().unwrap_or_default();
    let below = file_path(upstream, &joined(page, url)?)?;
    Some(match fragment {
        Some(fragment) => format!("../../{below}#{fragment}"),
        None => format!("../../{below}"),
    })
}

/// FileSearch for one file.
pub(super) struct JsonPromise {
    walk: Walk<FileSearch>,
    unread: Vec<u8>,
}

struct FileSearch {
    page: String,
    /// URL of the file itself.
    wanted: String,
    /// `true` if the metadata of the file is wanted.
    is_metadata: bool,
    current: IndexFile,
    found: Option<IndexFile>,
}

/// Facts about one file.
#[derive(Default)]
struct IndexFile {
    url: String,
    digest: Option<Digest>,
    metadata_digest: Option<Digest>,
    size: Option<u64>,
    published: Option<i64>,
    is_withdrawn: bool,
}

impl JsonPromise {
    pub fn new(mirror: &Mirror, url: &str) -> Self {
        let (wanted, is_metadata) = url.strip_suffix(METADATA).map_or((url, false), |url| (url, true));
        let search = FileSearch {
            page: page_url(mirror),
            wanted: wanted.to_owned(),
            is_metadata,
            current: IndexFile::default(),
            found: None,
        };
        Self { walk: Walk::new(search), unread: Vec::new() }
    }
}

impl Promises for JsonPromise {
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument> {
        for piece in input.chunks(STEP) {
            self.unread.clear();
            self.walk.push(piece, &mut self.unread)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Promise>, BadDocument> {
        self.walk.finish(&mut self.unread)?;
        let search = &mut self.walk.visitor;
        let is_metadata = search.is_metadata;
        Ok(search.found.take().map(|file| Promise {
            digest: if is_metadata { file.metadata_digest } else { file.digest },
            size: file.size.filter(|_| !is_metadata),
            published: file.published,
            is_withdrawn: file.is_withdrawn,
        }))
    }

    fn place(&self) -> Option<Place> {
        None
    }
}

impl Visitor for FileSearch {
    fn wants(&mut self, path: &Path) -> bool {
        if path.key(0) != "files" || self.found.is_some() {
            return false;
        }
        match path.depth() {
            3 => matches!(path.key(2), "url" | "size" | "upload-time" | "yanked"),
            4 => matches!(path.key(2), "hashes" | "core-metadata" | "dist-info-metadata"),
            _ => false,
        }
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        let file = &mut self.current;
        let value = || text(raw);
        match (path.key(2), path.depth()) {
            ("url", _) => {
                let url = value().unwrap_or_default();
                file.url =
                    joined(&self.page, url.split(['?', '#']).next().unwrap_or_default()).unwrap_or_default();
            }
            ("size", _) => file.size = std::str::from_utf8(raw).ok().and_then(|size| size.parse().ok()),
            ("upload-time", _) => file.published = value().and_then(|time| rfc3339(&time)),
            ("yanked", _) => file.is_withdrawn = !matches!(raw, b"false" | b"\"\""),
            (member, _) => {
                let digest = Algorithm::named(path.key(3))
                    .and_then(|algorithm| Digest::from_hex(algorithm, &value()?))
                    .filter(|digest| digest.algorithm() >= Algorithm::Sha256);
                let place = if member == "hashes" { &mut file.digest } else { &mut file.metadata_digest };
                let is_stronger =
                    |digest: &Digest| place.as_ref().is_none_or(|old| old.algorithm() < digest.algorithm());
                if let Some(digest) = digest.filter(is_stronger) {
                    *place = Some(digest);
                }
            }
        }
    }

    fn left(&mut self, path: &Path) {
        if path.depth() == 2 && path.key(0) == "files" {
            let file = std::mem::take(&mut self.current);
            if self.found.is_none() && file.url == self.wanted {
                self.found = Some(file);
            }
        }
    }
}

/// Bytes of a document taken at a time.
const STEP: usize = 64 << 10;
