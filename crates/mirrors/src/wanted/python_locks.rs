//! Locks of poetry, PDM, uv and pipenv, and `pylock.toml` (PEP 751).
//!
//! poetry, PDM and pipenv name no URL: files are found on the project's page, by name or digest. uv
//! and PEP 751 name each file's URL. All list the files of every platform.

use super::toml::{Event, events, get, string, tables};
use super::{ListEntry, Wishes};
use crate::url::last_segment;
use crate::{BadDocument, Digest, Kind};
use std::collections::BTreeMap;

/// A package while its lines are read.
#[derive(Default)]
struct LockedProject<'a> {
    name: &'a str,
    version: &'a str,
    registry: Option<&'a str>,
    /// `true` if it comes from a repository of sources, or a folder.
    is_elsewhere: bool,
    files: Vec<LockedFile<'a>>,
}

#[derive(Default)]
struct LockedFile<'a> {
    name: Option<&'a str>,
    url: Option<&'a str>,
    digest: Option<Digest>,
    size: Option<u64>,
}

impl<'a> LockedFile<'a> {
    fn of(table: &[(&'a str, &'a str)]) -> Self {
        let digest = get(table, "hash").and_then(Digest::from_named_hex);
        let sha256 = get(table, "sha256").and_then(|hex| Digest::from_hex(crate::Algorithm::Sha256, hex));
        Self {
            name: get(table, "file").or_else(|| get(table, "name")),
            url: get(table, "url"),
            digest: digest.or(sha256),
            size: get(table, "size").and_then(|size| size.parse().ok()),
        }
    }
}

impl<'a> LockedProject<'a> {
    fn pair(&mut self, key: &str, value: &'a str) {
        match key {
            "name" => self.name = string(value).unwrap_or_default(),
            "version" => self.version = string(value).unwrap_or_default(),
            "files" | "wheels" | "sdist" | "archive" => {
                self.files.extend(tables(value).iter().map(|table| LockedFile::of(table)));
            }
            _ => {}
        }
    }

    fn end(self, wishes: &mut Wishes) -> Result<(), BadDocument> {
        if self.name.is_empty() || self.is_elsewhere && self.files.is_empty() {
            return Ok(());
        }
        if self.is_elsewhere {
            return wishes.leave_out(self.name, "it comes from no index");
        }
        for file in self.files {
            let name = file.name.or_else(|| file.url.map(last_segment)).filter(|name| !name.is_empty());
            let wanted = ListEntry {
                file: name.map(str::to_owned),
                url: file.url.map(str::to_owned),
                registry: self.registry.map(|url| url.trim_end_matches('/').to_owned()),
                size: file.size,
                ..ListEntry::of(Kind::Pypi, self.name, self.version)
            };
            wishes.want(wanted.checked(file.digest.into_iter().collect()))?;
        }
        Ok(())
    }
}

/// Reads the lock of poetry or PDM.
pub(super) fn parse_poetry(text: &str) -> Result<Wishes, BadDocument> {
    let (mut wishes, mut package, mut table) = (Wishes::default(), LockedProject::default(), "");
    let mut versions: BTreeMap<&str, &str> = BTreeMap::new();
    for event in events(text) {
        match event {
            Event::Table { name, is_entry } => {
                table = name;
                if is_entry || name.starts_with("metadata") {
                    std::mem::take(&mut package).end(&mut wishes)?;
                }
            }
            Event::Pair(key, value) => match table {
                "package" => {
                    package.pair(key, value);
                    if key == "version" {
                        versions.insert(package.name, package.version);
                    }
                    package.is_elsewhere |= matches!(key, "git" | "path" | "url");
                }
                "package.source" => source(&mut package, key, value),
                // Older versions of poetry list all files at the end.
                "metadata.files" => {
                    let version = versions.get(key).copied().unwrap_or_default();
                    let files = tables(value).iter().map(|table| LockedFile::of(table)).collect();
                    LockedProject { name: key, version, files, ..LockedProject::default() }
                        .end(&mut wishes)?;
                }
                _ => {}
            },
        }
    }
    package.end(&mut wishes)?;
    Ok(wishes)
}

/// Reads a pair of poetry's `[package.source]`.
fn source<'a>(package: &mut LockedProject<'a>, key: &str, value: &'a str) {
    match (key, string(value)) {
        ("type", Some(kind)) => package.is_elsewhere |= kind != "legacy",
        ("url", Some(url)) => package.registry = Some(url),
        _ => {}
    }
}

/// Reads uv's lock.
pub(super) fn parse_uv(text: &str) -> Result<Wishes, BadDocument> {
    let (mut wishes, mut package, mut table) = (Wishes::default(), LockedProject::default(), "");
    for event in events(text) {
        match event {
            Event::Table { name, .. } => {
                table = name;
                if name == "package" {
                    std::mem::take(&mut package).end(&mut wishes)?;
                }
            }
            Event::Pair("source", value) if table == "package" => {
                let tables = tables(value);
                package.registry = tables.first().and_then(|table| get(table, "registry"));
                package.is_elsewhere = package.registry.is_none();
            }
            Event::Pair(key, value) if table == "package" => package.pair(key, value),
            Event::Pair(..) => {}
        }
    }
    package.end(&mut wishes)?;
    Ok(wishes)
}

/// Reads `pylock.toml`. Files stand in inline tables, or in tables of their own.
pub(super) fn parse_pylock(text: &str) -> Result<Wishes, BadDocument> {
    let (mut wishes, mut package, mut table) = (Wishes::default(), LockedProject::default(), "");
    for event in events(text) {
        match event {
            Event::Table { name, .. } => {
                table = name;
                match name {
                    "packages" => std::mem::take(&mut package).end(&mut wishes)?,
                    "packages.wheels" | "packages.sdist" | "packages.archive" => {
                        package.files.push(LockedFile::default());
                    }
                    "packages.vcs" | "packages.directory" => package.is_elsewhere = true,
                    _ => {}
                }
            }
            Event::Pair(key, value) => match table {
                "packages" => {
                    package.pair(key, value);
                    package.is_elsewhere |= matches!(key, "vcs" | "directory");
                    if key == "index" {
                        package.registry = string(value);
                    }
                }
                _ if table.starts_with("packages.") => {
                    let Some(file) = package.files.last_mut() else { continue };
                    let more = match key {
                        "hashes" => LockedFile::of(&tables(value).concat()),
                        _ => LockedFile::of(&[(key, string(value).unwrap_or(value))]),
                    };
                    file.name = more.name.or(file.name);
                    file.url = more.url.or(file.url);
                    file.size = more.size.or(file.size);
                    file.digest = more.digest.or(file.digest.take());
                }
                _ => {}
            },
        }
    }
    package.end(&mut wishes)?;
    Ok(wishes)
}

/// Reads pipenv's lock: any of the hashes may be that of the file.
pub(super) fn parse_pipfile(bytes: &[u8]) -> Result<Wishes, BadDocument> {
    use crate::json::{Path, Visitor, Walk, text};
    #[derive(Default)]
    struct Groups {
        wishes: Wishes,
        name: String,
        version: Option<String>,
        digests: Vec<Digest>,
        fault: Option<BadDocument>,
    }
    impl Visitor for Groups {
        fn wants(&mut self, path: &Path) -> bool {
            let is_package = path.key(0) != "_meta" && path.depth() >= 3;
            is_package && (path.key(2) == "version" || path.key(2) == "hashes")
        }

        fn scalar(&mut self, path: &Path, raw: &[u8], _: &mut Vec<u8>) {
            self.name = path.key(1).to_owned();
            match (path.key(2), text(raw)) {
                ("version", text) => self.version = text,
                (_, Some(hash)) if self.digests.len() < HASHES_MAX => {
                    self.digests.extend(Digest::from_named_hex(&hash));
                }
                _ => {}
            }
        }

        fn left(&mut self, path: &Path) {
            if path.depth() != 2 || path.key(0) == "_meta" || self.fault.is_some() {
                return;
            }
            let digests = std::mem::take(&mut self.digests);
            let version =
                self.version.take().and_then(|version| Some(version.strip_prefix("==")?.to_owned()));
            let taken = match version {
                Some(version) => {
                    self.wishes.want(ListEntry::of(Kind::Pypi, &self.name, &version).checked(digests))
                }
                None => self.wishes.leave_out(path.key(1), "no exact version"),
            };
            self.fault = taken.err();
        }
    }
    let (mut walk, mut unread) = (Walk::new(Groups::default()), Vec::new());
    for piece in bytes.chunks(64 << 10) {
        unread.clear();
        walk.push(piece, &mut unread)?;
    }
    walk.finish(&mut unread)?;
    let Groups { wishes, fault, .. } = walk.visitor;
    fault.map_or(Ok(wishes), Err)
}

/// Most hashes of one package.
const HASHES_MAX: usize = 10_000;
