//! `Cargo.lock`. Version 1 keeps the checksums in `[metadata]`.

use super::toml::{Event, events, string};
use super::{ListEntry, Wishes};
use crate::{Algorithm, BadDocument, Digest, Kind};
use std::collections::HashMap;

/// Reads a lock.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let (mut wishes, mut package, mut table) = (Wishes::default(), LockedCrate::default(), "");
    let old = old_checksums(text);
    for event in events(text) {
        match event {
            Event::Table { name, .. } => {
                std::mem::take(&mut package).end(&mut wishes, &old)?;
                table = name;
            }
            Event::Pair(key, value) if table == "package" => {
                let Some(value) = string(value) else { continue };
                match key {
                    "name" => package.name = value,
                    "version" => package.version = value,
                    "source" => package.source = Some(value),
                    "checksum" => package.checksum = Some(value),
                    _ => {}
                }
            }
            Event::Pair(..) => {}
        }
    }
    package.end(&mut wishes, &old)?;
    Ok(wishes)
}

#[derive(Default)]
struct LockedCrate<'a> {
    name: &'a str,
    version: &'a str,
    source: Option<&'a str>,
    checksum: Option<&'a str>,
}

impl LockedCrate<'_> {
    fn end(self, wishes: &mut Wishes, old: &HashMap<(&str, &str), &str>) -> Result<(), BadDocument> {
        // A package without a source is a folder of the workspace.
        let Some(source) = self.source else { return Ok(()) };
        let sparse = source.strip_prefix("sparse+");
        if sparse.is_none() && !source.starts_with("registry+") {
            return wishes.leave_out(self.name, "it comes from no registry");
        }
        let checksum = self.checksum.or_else(|| old.get(&(self.name, self.version)).copied());
        let digest = checksum.and_then(|hex| Digest::from_hex(Algorithm::Sha256, hex));
        // `registry+` names a repository of git: the source that cargo replaces by the mirror.
        let registry = sparse.map(|url| url.trim_end_matches('/').to_owned());
        let wanted = ListEntry { registry, ..ListEntry::of(Kind::Cargo, self.name, self.version) };
        wishes.want(wanted.checked(digest.into_iter().collect()))
    }
}

/// Returns the checksums of version 1: `"checksum NAME VERSION (SOURCE)" = "HEX"`.
fn old_checksums(text: &str) -> HashMap<(&str, &str), &str> {
    let pairs = events(text).filter_map(|event| match event {
        Event::Pair(key, value) => {
            let mut words = key.strip_prefix("checksum ")?.split(' ');
            Some(((words.next()?, words.next()?), string(value)?))
        }
        Event::Table { .. } => None,
    });
    pairs.take(super::ENTRIES_MAX).collect()
}
