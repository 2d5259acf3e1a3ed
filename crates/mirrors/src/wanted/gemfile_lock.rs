//! bundler's `Gemfile.lock`.
//!
//! ```text
//!   GEM
//!     remote: https://gems.example/
//!     specs:
//!       a (1.0.0-x86_64-linux)
//!   CHECKSUMS
//!     a (1.0.0-x86_64-linux) sha256=HEX
//! ```

use super::lines::lines;
use super::{ListEntry, Wishes};
use crate::{BadDocument, Digest, Kind};
use std::collections::HashMap;

/// Reads a lock.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    let checksums = checksums(text);
    let (mut section, mut remote) = ("", None);
    for line in lines(text) {
        match line.depth {
            0 => (section, remote) = (line.text, None),
            2 => remote = line.text.strip_prefix("remote: ").or(remote),
            4 => {
                let Some((name, version)) = spec(line.text) else { continue };
                match section {
                    "GEM" => {
                        let registry = remote.map(|url| url.trim_end_matches('/').to_owned());
                        let digest = checksums.get(&(name, version)).cloned();
                        let wanted = ListEntry { registry, ..ListEntry::of(Kind::RubyGems, name, version) };
                        wishes.want(wanted.checked(digest.into_iter().collect()))?;
                    }
                    "GIT" | "PATH" => wishes.leave_out(name, "it comes from no registry")?,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(wishes)
}

fn checksums(text: &str) -> HashMap<(&str, &str), Digest> {
    let mut is_checksums = false;
    let found = lines(text).filter_map(|line| {
        if line.depth == 0 {
            is_checksums = line.text == "CHECKSUMS";
        }
        let (spec_text, digest) = line.text.rsplit_once(' ').filter(|_| is_checksums)?;
        Some((spec(spec_text)?, Digest::from_named_hex(digest)?))
    });
    found.take(super::ENTRIES_MAX).collect()
}

/// Splits `name (version)`.
fn spec(text: &str) -> Option<(&str, &str)> {
    text.strip_suffix(')')?.split_once(" (")
}
