//! `go.sum`: hashes of a zip's members, and of `go.mod` files alone.
//!
//! ```text
//!   example.test/a v1.0.0 h1:BASE64          zip, and the .info and .mod beside it
//!   example.test/a v1.0.0/go.mod h1:BASE64   .mod alone
//! ```

use super::{Check, ListEntry, Wishes};
use crate::{BadDocument, Kind};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Reads the file.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(module), Some(version), Some(hash)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let hash = hash.strip_prefix("h1:").and_then(|hash| STANDARD.decode(hash).ok());
        let check = hash.and_then(|hash| hash.try_into().ok()).map_or(Check::Nothing, Check::GoSum);
        let mut want = |version: &str, extension: &str, check: Check| {
            let wanted = ListEntry::of(Kind::Go, module, version);
            wishes.want(ListEntry { file: Some(extension.to_owned()), check, ..wanted })
        };
        match version.strip_suffix("/go.mod") {
            Some(version) => want(version, "mod", check)?,
            None => {
                want(version, "zip", check)?;
                want(version, "info", Check::Nothing)?;
            }
        }
    }
    Ok(wishes)
}
