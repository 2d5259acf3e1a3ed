//! Readers of index pages that a search goes through: the files of a Python project, the digest of
//! a crate, the parts of an image. Each holds a bounded number of entries.

use super::{Check, Choice, IndexPage, NeededFile, Search};
use crate::json::{Path, Visitor, Walk, text};
use crate::registries::{cargo, pypi};
use crate::url::{joined, last_segment};
use crate::{Algorithm, BadDocument, Digest, Form, Kind, Mirror, registries};
use serde::Deserialize;
use std::collections::HashMap;

/// A file on a project's page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundFile {
    /// Absolute URL of the file.
    pub url: String,
    /// SHA-256 that the page promises.
    pub digest: Option<Digest>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// `true` if its metadata is a file beside it.
    pub has_metadata: bool,
}

/// Reader of the files of a project's page, in JSON or HTML.
pub enum ProjectFiles {
    /// PEP 691.
    Json(Box<Walk<JsonFiles>>),
    /// PEP 503.
    Html(pypi::HtmlFiles),
}

impl ProjectFiles {
    /// Begins the page of a mirror in this form. `None` for a form that is no page.
    pub fn new(mirror: &Mirror, form: Form) -> Option<Self> {
        match form {
            Form::PypiJson => Some(Self::Json(Box::new(Walk::new(JsonFiles {
                page: pypi::page_url(mirror),
                current: FoundFile::default(),
                files: Vec::new(),
            })))),
            Form::PypiHtml => Some(Self::Html(pypi::HtmlFiles::new(mirror))),
            _ => None,
        }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), BadDocument> {
        let files = match self {
            Self::Json(walk) => {
                let mut unread = Vec::new();
                for step in piece.chunks(64 << 10) {
                    unread.clear();
                    walk.push(step, &mut unread)?;
                }
                walk.visitor.files.len()
            }
            Self::Html(files) => {
                files.push(piece)?;
                files.files.len()
            }
        };
        match files > FILES_MAX {
            true => Err(BadDocument { at: 0, why: "more files than any project has" }),
            false => Ok(()),
        }
    }

    /// Takes the end.
    pub fn finish(self) -> Result<ProjectIndex, BadDocument> {
        match self {
            Self::Json(mut walk) => {
                walk.finish(&mut Vec::new())?;
                Ok(ProjectIndex::new(walk.visitor.files))
            }
            Self::Html(files) => Ok(ProjectIndex::new(files.files)),
        }
    }
}

/// Files of a project by name, digest and version: a list may search one page many times.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProjectIndex {
    files: Vec<FoundFile>,
    by_name: HashMap<String, usize>,
    by_digest: HashMap<Digest, usize>,
    by_version: HashMap<String, Vec<usize>>,
}

impl ProjectIndex {
    fn new(files: Vec<FoundFile>) -> Self {
        let mut index = Self::default();
        for (place, file) in files.iter().enumerate() {
            let name = last_segment(&file.url).replace("%2B", "+").replace("%2b", "+");
            index.by_version.entry(version_of(&name)).or_default().push(place);
            index.by_digest.extend(file.digest.clone().map(|digest| (digest, place)));
            index.by_name.insert(name, place);
        }
        debug_assert!(index.by_name.len() <= files.len() && index.by_digest.len() <= files.len());
        Self { files, ..index }
    }

    /// Returns the files of a name, of any of these digests, or of a version, in the page's order.
    fn find(&self, name: Option<&str>, digests: &[Digest], version: &str) -> Vec<&FoundFile> {
        let mut places: Vec<usize> = match name {
            Some(name) => self.by_name.get(name).copied().into_iter().collect(),
            None if digests.is_empty() => {
                self.by_version.get(&version.to_ascii_lowercase()).cloned().unwrap_or_default()
            }
            None => digests.iter().filter_map(|digest| self.by_digest.get(digest).copied()).collect(),
        };
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| &self.files[place]).collect()
    }
}

/// Visitor of a page in JSON.
pub struct JsonFiles {
    page: String,
    current: FoundFile,
    files: Vec<FoundFile>,
}

impl Visitor for JsonFiles {
    fn wants(&mut self, path: &Path) -> bool {
        let depth = path.depth();
        path.key(0) == "files"
            && match path.key(2) {
                "url" | "size" => depth == 3,
                "core-metadata" | "dist-info-metadata" => depth >= 3,
                "hashes" => depth == 4 && path.key(3) == "sha256",
                _ => false,
            }
    }

    fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
        let file = &mut self.current;
        match path.key(2) {
            "url" => {
                let url = text(raw).unwrap_or_default();
                let plain = url.split(['?', '#']).next().unwrap_or_default();
                file.url = joined(&self.page, plain).unwrap_or_default();
            }
            "size" => file.size = std::str::from_utf8(raw).ok().and_then(|size| size.parse().ok()),
            "hashes" => file.digest = text(raw).and_then(|hex| Digest::from_hex(Algorithm::Sha256, &hex)),
            _ => file.has_metadata |= raw != b"false",
        }
    }

    fn left(&mut self, path: &Path) {
        if path.depth() == 2 && path.key(0) == "files" {
            let file = std::mem::take(&mut self.current);
            if !file.url.is_empty() {
                self.files.push(file);
            }
        }
    }
}

impl Search {
    /// Returns the page that is searched; an image has manifests instead.
    pub fn page(&self) -> Option<&IndexPage> {
        match self {
            Self::Project { page, .. } | Self::Crate { page, .. } => Some(page),
            Self::Image { .. } => None,
        }
    }

    /// Returns the files of a release among those of its project. An empty answer means that the
    /// page has none of them.
    pub fn among(&self, index: &ProjectIndex, mirror: &Mirror, choice: &Choice) -> Vec<NeededFile> {
        let Self::Project { version, file: wanted, digests, .. } = self else { return Vec::new() };
        let found = index.find(wanted.as_deref(), digests, version);
        let names: Vec<&str> = found.iter().map(|file| last_segment(&file.url)).collect();
        let chosen = if wanted.is_some() { vec![true; names.len()] } else { choice.keep(&names) };
        let registry = registries::of(Kind::Pypi);
        let mut needed = Vec::new();
        for (file, _) in found.iter().zip(chosen).filter(|(_, is_chosen)| *is_chosen) {
            let Some(path) = registry.path_of_file(mirror, &file.url) else { continue };
            let check = match digests.is_empty() {
                true => Check::Nothing,
                false => Check::OneOf(digests.clone()),
            };
            if file.has_metadata {
                let path = format!("{path}.metadata");
                needed.push(NeededFile { path, check: Check::Nothing, size: None, may_lack: true });
            }
            needed.push(NeededFile { path, check, size: file.size, may_lack: false });
        }
        needed
    }
}

/// Returns the version in a file's name, in lower case: `name-VERSION-tags.whl`,
/// `name-VERSION.tar.gz`.
fn version_of(file: &str) -> String {
    let version = match file.strip_suffix(".whl") {
        Some(stem) => stem.split('-').nth(1).map(|part| part.replace('_', "+")),
        None => {
            let stem = SOURCES.iter().find_map(|end| file.strip_suffix(end)).unwrap_or(file);
            stem.rsplit_once('-').map(|(_, version)| version.to_owned())
        }
    };
    version.unwrap_or_default().to_ascii_lowercase()
}

/// Reader of the digests of a crate's versions.
#[derive(Default)]
pub struct CrateDigest {
    line: Vec<u8>,
    digests: HashMap<String, Digest>,
}

impl CrateDigest {
    /// Takes the next piece of an index file.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), BadDocument> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() > LINE_MAX {
                return Err(BadDocument { at: 0, why: "a longer line than any index has" });
            }
            if part.ends_with(b"\n") {
                self.end_line()?;
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), BadDocument> {
        #[derive(Deserialize)]
        struct CrateLine {
            vers: String,
            cksum: String,
        }
        let line = std::mem::take(&mut self.line);
        let Ok(version) = serde_json::from_slice::<CrateLine>(&line) else { return Ok(()) };
        if self.digests.len() >= FILES_MAX {
            return Err(BadDocument { at: 0, why: "more versions than any crate has" });
        }
        if let Some(digest) = Digest::from_hex(Algorithm::Sha256, &version.cksum) {
            self.digests.insert(version.vers, digest);
        }
        Ok(())
    }

    /// Returns the file of a version, at the document's end.
    pub fn file(&mut self, name: &str, version: &str) -> Result<Option<NeededFile>, BadDocument> {
        self.end_line()?;
        Ok(self.digests.get(version).map(|digest| NeededFile {
            path: cargo::file_path(name, version, digest),
            check: Check::OneOf(vec![digest.clone()]),
            size: None,
            may_lack: false,
        }))
    }
}

/// A manifest or index of images.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ImageManifest {
    manifests: Vec<ImagePart>,
    config: Option<ImagePart>,
    layers: Vec<ImagePart>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImagePart {
    digest: String,
    size: u64,
    platform: Option<ImagePlatform>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImagePlatform {
    os: String,
    architecture: String,
    variant: String,
}

impl ImageManifest {
    /// Reads a manifest. `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let manifest: Self = serde_json::from_slice(bytes).ok().filter(|_| bytes.len() <= MANIFEST_MAX)?;
        let parts = manifest.manifests.len() + manifest.layers.len();
        (parts <= PARTS_MAX).then_some(manifest)
    }

    /// Returns the digests of the chosen manifests of an index.
    pub fn manifests<'a>(&'a self, choice: &'a Choice) -> impl Iterator<Item = &'a str> {
        let is_chosen = |part: &&ImagePart| {
            let platform = part.platform.as_ref();
            platform.is_none_or(|it| {
                // Attestations have a platform that nobody has.
                choice.takes_platform(&it.os, &it.architecture, &it.variant) || it.os == "unknown"
            })
        };
        self.manifests.iter().filter(is_chosen).map(|part| &*part.digest)
    }

    /// Returns configuration and layers as files of a repository.
    pub fn blobs(&self, repository: &str) -> Vec<NeededFile> {
        let parts = self.config.iter().chain(&self.layers);
        let blob = |part: &ImagePart| {
            let digest = Digest::from_named_hex(&part.digest)?;
            Some(NeededFile {
                path: format!("/v2/{repository}/blobs/{}", part.digest),
                check: Check::OneOf(vec![digest]),
                size: Some(part.size),
                may_lack: false,
            })
        };
        parts.filter_map(blob).collect()
    }
}

/// Ends of the names of sources.
const SOURCES: [&str; 5] = [".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz"];
/// Most files of a project, and versions of a crate.
const FILES_MAX: usize = 50_000;
/// Longest line of an index file in bytes.
const LINE_MAX: usize = 1 << 20;
/// Longest manifest in bytes, as registries allow it.
pub const MANIFEST_MAX: usize = 4 << 20;
/// Most parts of a manifest.
const PARTS_MAX: usize = 4096;
