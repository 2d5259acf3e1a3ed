//! Package URLs: a list, or an SBOM of any form (CycloneDX in JSON or XML, SPDX in JSON or as
//! tags). A package URL is found by its beginning, `pkg:`.
//!
//! ```text
//!   pkg:npm/%40scope/a@1.0.0          pkg:pypi/a@1.0          pkg:cargo/a@1.0.0
//!   pkg:golang/example.test/a@v1.0.0  pkg:maven/g/a@1.0?type=jar
//!   pkg:gem/a@1.0?platform=java       pkg:oci/a@sha256:HEX?repository_url=images.example/x/a
//! ```
//!
//! The digests of an SBOM are not used: it does not say of which file they are. The mirror checks
//! each file against its index.

use super::{ListEntry, Wishes};
use crate::{BadDocument, Kind};
use std::collections::HashSet;

/// Reads all package URLs of a text.
pub(super) fn parse(text: &str) -> Result<Wishes, BadDocument> {
    let (mut wishes, mut seen, mut rest) = (Wishes::default(), HashSet::new(), text);
    while let Some(start) = rest.find("pkg:") {
        let from = &rest[start..];
        let is_end = |char: char| char.is_whitespace() || char.is_control() || "\"'<>`\\,".contains(char);
        let end = from.find(is_end).unwrap_or(from.len());
        if seen.insert(&from[..end]) {
            purl(&mut wishes, &from[..end])?;
        }
        debug_assert!(end >= 4, "the mark itself has no end");
        rest = &from[end.max(4)..];
    }
    Ok(wishes)
}

fn purl(wishes: &mut Wishes, purl: &str) -> Result<(), BadDocument> {
    let rest = purl.strip_prefix("pkg:").unwrap_or(purl).trim_start_matches('/');
    let rest = rest.split('#').next().unwrap_or_default();
    let (rest, qualifiers) = rest.split_once('?').unwrap_or((rest, ""));
    let qualifier = |name: &str| {
        let mut pairs = qualifiers.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).and_then(|(_, value)| decoded(value))
    };
    let parts = rest.split_once('/').and_then(|(kind, rest)| {
        let (name, version) = rest.rsplit_once('@').filter(|(name, _)| !name.is_empty())?;
        Some((kind.to_ascii_lowercase(), decoded(name.trim_end_matches('/'))?, decoded(version)?))
    });
    let Some((kind, name, version)) = parts else { return wishes.leave_out(purl, "no exact version") };
    let want = |kind: Kind, name: &str, version: &str| ListEntry::of(kind, name, version);
    match &*kind {
        "npm" => wishes.want(want(Kind::Npm, &name, &version)),
        "pypi" => wishes.want(want(Kind::Pypi, &name, &version)),
        "cargo" => wishes.want(want(Kind::Cargo, &name, &version)),
        "gem" => match qualifier("platform").filter(|platform| platform != "ruby") {
            Some(platform) => wishes.want(want(Kind::RubyGems, &name, &format!("{version}-{platform}"))),
            None => wishes.want(want(Kind::RubyGems, &name, &version)),
        },
        "golang" => ["zip", "mod", "info"].iter().try_for_each(|file| {
            wishes.want(ListEntry { file: Some((*file).into()), ..want(Kind::Go, &name, &version) })
        }),
        "maven" => maven(wishes, (&name, &version), qualifier("type"), qualifier("classifier")),
        "oci" | "docker" => {
            let repository = qualifier("repository_url").unwrap_or(name);
            let reference = qualifier("tag").filter(|_| !version.contains(':')).unwrap_or(version);
            let mark = if reference.contains(':') { '@' } else { ':' };
            wishes.want(super::images::image(&format!("{repository}{mark}{reference}")))
        }
        _ => wishes.leave_out(purl, "no mirror serves packages of this type"),
    }
}

fn maven(
    wishes: &mut Wishes,
    (name, version): (&str, &str),
    kind: Option<String>,
    classifier: Option<String>,
) -> Result<(), BadDocument> {
    let Some((group, artifact)) = name.rsplit_once('/') else {
        return wishes.leave_out(name, "a Maven package has a group");
    };
    let kind = kind.unwrap_or_else(|| "jar".into());
    let classifier = classifier.map_or_else(String::new, |classifier| format!("-{classifier}"));
    let pom = format!("{artifact}-{version}.pom");
    let file = format!("{artifact}-{version}{classifier}.{kind}");
    let files = if kind == "pom" { vec![pom] } else { vec![pom, file] };
    files.into_iter().try_for_each(|file| {
        let wanted = ListEntry::of(Kind::Maven, &format!("{group}:{artifact}"), version);
        wishes.want(ListEntry { file: Some(file), ..wanted })
    })
}

/// Removes percent-encoding. `None` if it is wrong.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
                (digit(*high)? << 4 | digit(*low)?, after)
            }
            (b'%', _) => return None,
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}
