//! Lists of Gradle and Maven.
//!
//! ```text
//!   org.example:a:1.0=runtimeClasspath                      gradle.lockfile
//!   <component group= name= version=><artifact name=>       verification-metadata.xml
//!   [INFO]    org.example:a:jar:1.0:compile                 mvn dependency:list
//! ```
//!
//! A lock names no files: the POM, the module file of Gradle and the jar are looked for. Absence of
//! one of them is no fault.

use super::{ListEntry, Wishes};
use crate::{Algorithm, BadDocument, Digest, Kind};

/// Reads `gradle.lockfile`.
pub(super) fn parse_lock(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.split('=').next().unwrap_or_default().trim().split(':');
        let (Some(group), Some(name), Some(version)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        for end in [".pom", ".module", ".jar"] {
            want(&mut wishes, (group, name, version), &format!("{name}-{version}{end}"), Vec::new())?;
        }
    }
    Ok(wishes)
}

/// Reads the lines of `mvn dependency:list`, or `group:artifact:version` a line.
pub(super) fn parse_maven(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    for line in text.lines() {
        let line = line.trim().trim_start_matches("[INFO]").trim_start();
        let word = line.split_ascii_whitespace().next().unwrap_or_default();
        let parts: Vec<&str> = word.split(':').collect();
        if parts.iter().any(|part| part.is_empty()) {
            continue;
        }
        let (package, end) = match parts[..] {
            [group, name, version] => ((group, name, version), ".jar".to_owned()),
            [group, name, kind, version, _scope] => ((group, name, version), format!(".{kind}")),
            [group, name, kind, classifier, version, _scope] => {
                ((group, name, version), format!("-{classifier}.{kind}"))
            }
            _ => continue,
        };
        let (_, name, version) = package;
        want(&mut wishes, package, &format!("{name}-{version}.pom"), Vec::new())?;
        if end != ".pom" {
            want(&mut wishes, package, &format!("{name}-{version}{end}"), Vec::new())?;
        }
    }
    Ok(wishes)
}

/// Reads `verification-metadata.xml`.
pub(super) fn parse_verification(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    let (mut package, mut file) = (None, None);
    let mut digests = Vec::new();
    for tag in text.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let (element, attributes) = tag.split_once([' ', '\t', '\n', '\r']).unwrap_or((tag, ""));
        match element {
            "component" => {
                let names = ["group", "name", "version"].map(|name| attribute(attributes, name));
                package = match names {
                    [Some(group), Some(name), Some(version)] => Some((group, name, version)),
                    _ => None,
                };
            }
            "artifact" => (file, digests) = (attribute(attributes, "name"), Vec::new()),
            "/artifact" => {
                if let (Some(package), Some(file)) = (package, file.take()) {
                    want(&mut wishes, package, file, std::mem::take(&mut digests))?;
                }
            }
            _ => {
                let algorithm = Algorithm::named(element).filter(|_| digests.len() < DIGESTS_MAX);
                let value = attribute(attributes, "value");
                digests.extend(algorithm.zip(value).and_then(|(kind, hex)| Digest::from_hex(kind, hex)));
            }
        }
    }
    Ok(wishes)
}

fn want(
    wishes: &mut Wishes,
    (group, name, version): (&str, &str, &str),
    file: &str,
    digests: Vec<Digest>,
) -> Result<(), BadDocument> {
    let wanted = ListEntry::of(Kind::Maven, &format!("{group}:{name}"), version);
    wishes.want(ListEntry { file: Some(file.to_owned()), ..wanted }.checked(digests))
}

/// Returns the value of an attribute.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = attributes;
    loop {
        let (key, after) = rest.split_once('=')?;
        let quote = after.trim_start().chars().next().filter(|char| matches!(char, '"' | '\''))?;
        let (value, after) = after.trim_start()[1..].split_once(quote)?;
        if key.trim() == name {
            return Some(value);
        }
        rest = after;
    }
}

/// Most digests of one file.
const DIGESTS_MAX: usize = 16;
