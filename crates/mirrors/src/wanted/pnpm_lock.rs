//! `pnpm-lock.yaml`: `packages` with keys of three spellings.
//!
//! ```text
//!   /a/1.0.0, /@s/a/1.0.0_peer@2.0.0      version 5
//!   /a@1.0.0(peer@2.0.0)                  version 6
//!   a@1.0.0, '@s/a@1.0.0'                 version 9
//! ```

use super::Wishes;
use super::lines::{braces, lines};
use super::npm_lock::{NO_REGISTRY, push};
use crate::BadDocument;
use crate::npm_name::Name;

/// Reads a lock.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    let (mut is_old, mut is_packages, mut is_resolution) = (false, false, false);
    let mut entry = PnpmEntry::default();
    for line in lines(text) {
        let Some((key, value)) = line.pair() else { continue };
        if line.depth <= 2 {
            std::mem::take(&mut entry).end(&mut wishes, is_old)?;
        }
        match (line.depth, key) {
            (0, "lockfileVersion") => is_old = value.starts_with('5'),
            (0, _) => is_packages = key == "packages",
            _ if !is_packages => {}
            (2, _) => entry.key = key,
            (4, "resolution") => {
                is_resolution = value.is_empty();
                braces(value).for_each(|(key, value)| entry.member(key, value));
                entry.has_resolution = true;
            }
            (4, _) => is_resolution = false,
            (6, _) if is_resolution => entry.member(key, value),
            _ => {}
        }
    }
    entry.end(&mut wishes, is_old)?;
    Ok(wishes)
}

#[derive(Default)]
struct PnpmEntry<'a> {
    key: &'a str,
    has_resolution: bool,
    integrity: Option<&'a str>,
    tarball: Option<&'a str>,
    is_elsewhere: bool,
}

impl<'a> PnpmEntry<'a> {
    fn member(&mut self, key: &str, value: &'a str) {
        match key {
            "integrity" => self.integrity = Some(value),
            "tarball" => self.tarball = Some(value),
            "repo" | "directory" => self.is_elsewhere = true,
            _ => {}
        }
    }

    fn end(self, wishes: &mut Wishes, is_old: bool) -> Result<(), BadDocument> {
        if !self.has_resolution {
            return Ok(());
        }
        match name_and_version(self.key, is_old).filter(|_| !self.is_elsewhere) {
            Some(package) => push(wishes, package, self.tarball, self.integrity),
            None => wishes.leave_out(self.key, NO_REGISTRY),
        }
    }
}

fn name_and_version(key: &str, is_old: bool) -> Option<(&str, &str)> {
    let key = key.split('(').next()?;
    let key = key.strip_prefix('/').unwrap_or(key);
    let (name, version) = match is_old {
        true => {
            let end = key.find('_').filter(|end| key[..*end].contains('/')).unwrap_or(key.len());
            key[..end].rsplit_once('/')?
        }
        false => {
            let at = key.get(1..)?.find('@')? + 1;
            (&key[..at], &key[at + 1..])
        }
    };
    let is_package = version.starts_with(|char: char| char.is_ascii_digit()) && Name::parse(name).is_some();
    is_package.then_some((name, version))
}
