//! npm's `package-lock.json` and `npm-shrinkwrap.json`, and Bun's `bun.lock`.
//!
//! Versions 2 and 3 list folders in `packages`; version 1 nests `dependencies`. Members that are
//! not asked for are skipped as they stream, so that memory follows the entries found.

use super::{ListEntry, Wishes};
use crate::{BadDocument, Digest, Kind};
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// Reads an npm lock.
pub(super) fn parse(bytes: &[u8]) -> Result<Wishes, BadDocument> {
    let (mut folders, mut nested) = (Wishes::default(), Wishes::default());
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let read = Lock { folders: &mut folders, nested: &mut nested }.deserialize(&mut source);
    read.and_then(|()| source.end()).map_err(|error| malformed(bytes, &error))?;
    // Version 2 has both; they name the same packages.
    let is_new = !(folders.wanted.is_empty() && folders.left_out.is_empty());
    Ok(if is_new { folders } else { nested })
}

/// Returns the fault of a JSON document.
pub(super) fn malformed(bytes: &[u8], error: &serde_json::Error) -> BadDocument {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let at = (lines.map(<[u8]>::len).sum::<usize>() + error.column()) as u64;
    let why = match error.classify() {
        serde_json::error::Category::Data if error.to_string().starts_with(FULL) => FULL,
        serde_json::error::Category::Data => "another value than a lock has here",
        _ => "no JSON, or nested deeper than 128 levels",
    };
    BadDocument { at, why }
}

/// The whole file.
struct Lock<'w> {
    folders: &'w mut Wishes,
    nested: &'w mut Wishes,
}

impl<'de> DeserializeSeed<'de> for Lock<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Lock<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a lock")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "packages" => map.next_value_seed(NpmEntries { wishes: self.folders, is_nested: false })?,
                "dependencies" => map.next_value_seed(NpmEntries { wishes: self.nested, is_nested: true })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Members of `packages` or `dependencies`.
struct NpmEntries<'w> {
    wishes: &'w mut Wishes,
    is_nested: bool,
}

impl<'de> DeserializeSeed<'de> for NpmEntries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NpmEntries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("packages")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(NpmEntry { wishes: self.wishes, key, is_nested: self.is_nested })?;
        }
        Ok(())
    }
}

/// One package.
struct NpmEntry<'w> {
    wishes: &'w mut Wishes,
    key: String,
    is_nested: bool,
}

impl<'de> DeserializeSeed<'de> for NpmEntry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_map(self)
    }
}

/// Members of a package that matter.
#[derive(Default)]
struct LockMembers {
    name: Option<String>,
    version: Option<String>,
    resolved: Option<String>,
    integrity: Option<String>,
    /// In the tarball of another package, or a link to a folder.
    is_inside: bool,
}

impl<'de> Visitor<'de> for NpmEntry<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a package")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut facts = LockMembers::default();
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "name" => facts.name = map.next_value::<Text>()?.0,
                "version" => facts.version = map.next_value::<Text>()?.0,
                "resolved" => facts.resolved = map.next_value::<Text>()?.0,
                "integrity" => facts.integrity = map.next_value::<Text>()?.0,
                "link" | "inBundle" | "bundled" => facts.is_inside |= map.next_value::<Flag>()?.0,
                "dependencies" if self.is_nested => {
                    map.next_value_seed(NpmEntries { wishes: self.wishes, is_nested: true })?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        self.end(facts).map_err(|error| de::Error::custom(error.why))
    }
}

impl NpmEntry<'_> {
    fn end(self, facts: LockMembers) -> Result<(), BadDocument> {
        let folder = match self.is_nested {
            true => Some(&*self.key),
            // Other keys are folders of the project itself.
            false => self.key.rsplit_once("node_modules/").map(|(_, name)| name),
        };
        let Some(name) = folder.filter(|_| !facts.is_inside) else { return Ok(()) };
        let name = facts.name.as_deref().unwrap_or(name);
        let version = facts.version.unwrap_or_default();
        // An alias of version 1: `npm:name@version`.
        let aliased = version.strip_prefix("npm:").and_then(|alias| alias.rsplit_once('@'));
        let (name, version) = aliased.unwrap_or((name, &version));
        push(self.wishes, (name, version), facts.resolved.as_deref(), facts.integrity.as_deref())
    }
}

/// Adds a package of npm's registry, or leaves out one from elsewhere.
pub(super) fn push(
    wishes: &mut Wishes,
    (name, version): (&str, &str),
    resolved: Option<&str>,
    integrity: Option<&str>,
) -> Result<(), BadDocument> {
    let is_web = |url: &str| url.starts_with("https://") || url.starts_with("http://");
    let is_version = version.starts_with(|char: char| char.is_ascii_digit());
    let (url, fragment) = match resolved.map(|url| url.split_once('#').unwrap_or((url, ""))) {
        Some((url, _)) if !is_web(url) => return wishes.leave_out(name, NO_REGISTRY),
        Some((url, fragment)) => (Some(url.to_owned()), fragment),
        None if !is_version => return wishes.leave_out(name, NO_REGISTRY),
        None => (None, ""),
    };
    let digest =
        integrity.and_then(Digest::from_sri).or_else(|| Digest::from_hex(crate::Algorithm::Sha1, fragment));
    let wanted = ListEntry { url, ..ListEntry::of(Kind::Npm, name, version) };
    wishes.want(wanted.checked(digest.into_iter().collect()))
}

/// Reads a Bun lock: `"name": ["name@version", "registry", {…}, "integrity"],`, one a line.
pub(super) fn parse_bun(text: &str) -> Result<Wishes, BadDocument> {
    let mut wishes = Wishes::default();
    for line in text.lines() {
        let Some((_, value)) = line.trim().split_once("\": [\"") else { continue };
        let Some((package, rest)) = value.split_once('"') else { continue };
        let Some((name, version)) = package.rsplit_once('@').filter(|(name, _)| !name.is_empty()) else {
            continue;
        };
        let integrity = rest.rsplit('"').find(|part| part.starts_with("sha"));
        match integrity {
            Some(integrity) => push(&mut wishes, (name, version), None, Some(integrity))?,
            None if version.starts_with("workspace:") => {}
            None => wishes.leave_out(package, NO_REGISTRY)?,
        }
    }
    Ok(wishes)
}

/// A string; every other value is none.
struct Text(Option<String>);

/// `true`; every other value is false.
struct Flag(bool);

impl<'de> de::Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(AnyScalar).map(|scalar| match scalar {
            Scalar::Text(text) => Self(Some(text)),
            _ => Self(None),
        })
    }
}

impl<'de> de::Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(AnyScalar).map(|scalar| Self(matches!(scalar, Scalar::True)))
    }
}

enum Scalar {
    Text(String),
    True,
    Other,
}

struct AnyScalar;

impl<'de> Visitor<'de> for AnyScalar {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Scalar, E> {
        Ok(if is_true { Scalar::True } else { Scalar::Other })
    }

    fn visit_i64<E>(self, _: i64) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Scalar, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Scalar, A::Error> {
        IgnoredAny.visit_map(map).map(|_| Scalar::Other)
    }
}

/// Reason for leaving out a package that no registry has.
pub(super) const NO_REGISTRY: &str = "it comes from no registry";
const FULL: &str = "more entries than 100,000";
