//! `yarn.lock` of Yarn 1, and of Yarn 2 and later.
//!
//! ```text
//!   "a@^1.0.0", "a@^1.1.0":                          "a@npm:^1.0.0":
//!     version "1.1.0"                                  version: 1.1.0
//!     resolved "https://npm.example/a/-/a-1.1.0.tgz#…"   resolution: "a@npm:1.1.0"
//!     integrity sha512-…                               checksum: 10/…
//! ```
//!
//! The checksums of Yarn 2 are of a zip that Yarn makes, not of a body: they are no check here.

use super::lines::{Line, lines, plain};
use super::npm_lock::{NO_REGISTRY, push};
use super::{ListEntry, Wishes};
use crate::{BadDocument, Kind};

/// Reads a lock of either manner.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    let mut entry = YarnEntry::default();
    for line in lines(text) {
        match line.depth {
            0 => {
                std::mem::take(&mut entry).end(&mut wishes)?;
                entry.header = line.text;
            }
            2 => entry.member(&line),
            _ => {}
        }
    }
    entry.end(&mut wishes)?;
    Ok(wishes)
}

#[derive(Default)]
struct YarnEntry<'a> {
    header: &'a str,
    version: &'a str,
    resolved: Option<&'a str>,
    integrity: Option<&'a str>,
    resolution: Option<&'a str>,
}

impl<'a> YarnEntry<'a> {
    fn member(&mut self, line: &Line<'a>) {
        if let Some(("resolution", value)) = line.pair() {
            self.resolution = Some(value);
        }
        match line.text.split_once(' ') {
            Some(("version", value)) => self.version = plain(value),
            Some(("resolved", value)) => self.resolved = Some(plain(value)),
            Some(("integrity", value)) => self.integrity = Some(plain(value)),
            _ => {}
        }
    }

    fn end(self, wishes: &mut Wishes) -> Result<(), BadDocument> {
        if let Some(resolution) = self.resolution {
            return berry(wishes, resolution);
        }
        let first = self.header.trim_end_matches(':').split(", ").next().map(plain).unwrap_or_default();
        let Some((name, range)) = split(first).filter(|_| !self.version.is_empty()) else { return Ok(()) };
        let name = range.strip_prefix("npm:").and_then(split).map_or(name, |(name, _)| name);
        match self.resolved {
            Some(_) => push(wishes, (name, self.version), self.resolved, self.integrity),
            None => wishes.leave_out(name, NO_REGISTRY),
        }
    }
}

/// Adds the entry of Yarn 2: `name@npm:version`, perhaps with `::__archiveUrl=`.
fn berry(wishes: &mut Wishes, resolution: &str) -> Result<(), BadDocument> {
    let Some((name, rest)) = split(resolution) else { return Ok(()) };
    if rest.starts_with("workspace:") || rest.starts_with("patch:") {
        // The patched package has an entry of its own.
        return Ok(());
    }
    let Some(rest) = rest.strip_prefix("npm:") else { return wishes.leave_out(name, NO_REGISTRY) };
    let (version, more) = rest.split_once("::").unwrap_or((rest, ""));
    let url = more.split('&').find_map(|part| part.strip_prefix("__archiveUrl="));
    let url = url.and_then(super::purls::decoded);
    wishes.want(ListEntry { url, ..ListEntry::of(Kind::Npm, name, version) })
}

/// Splits `name@rest` at the first `@` behind a scope's.
fn split(spec: &str) -> Option<(&str, &str)> {
    let place = spec.get(1..)?.find('@')? + 1;
    Some((&spec[..place], &spec[place + 1..]))
}
