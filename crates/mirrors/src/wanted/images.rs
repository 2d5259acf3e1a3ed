//! References of container images, one a line: `[HOST/]NAME[:TAG][@sha256:HEX]`.

use super::{ListEntry, Wishes};
use crate::{BadDocument, Kind};

/// Reads the list.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    for line in text.lines() {
        let Some(word) = line.split_ascii_whitespace().next().filter(|word| !word.starts_with('#')) else {
            continue;
        };
        wishes.want(image(word))?;
    }
    Ok(wishes)
}

/// Reads one reference.
pub(super) fn image(reference: &str) -> ListEntry {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    // The first part is a host if no repository could have its name.
    let host = rest.split_once('/').filter(|(first, _)| first.contains(['.', ':']) || *first == "localhost");
    let (host, name) = host.map_or((None, rest), |(host, name)| (Some(host), name));
    let (name, tag) = name.rsplit_once(':').map_or((name, None), |(name, tag)| (name, Some(tag)));
    let name = match host.is_none() && !name.contains('/') {
        // Engines add it for their default registry.
        true => format!("library/{name}"),
        false => name.to_owned(),
    };
    let registry = host.map(|host| format!("https://{host}"));
    ListEntry { registry, ..ListEntry::of(Kind::Oci, &name, digest.or(tag).unwrap_or("latest")) }
}
