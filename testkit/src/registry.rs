//! Registries of packages, scripted: documents with true digests, as the real ones write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256, Sha512};
use std::time::SystemTime;

/// One version of an npm package.
pub struct NpmVersion<'a> {
    /// The version.
    pub version: &'a str,
    /// Its tarball.
    pub tarball: &'a [u8],
    /// URL of the tarball.
    pub url: String,
    /// Publication time.
    pub time: &'a str,
}

impl<'a> NpmVersion<'a> {
    /// A version published in 2020, with its tarball at the usual place below `registry`.
    pub fn of(registry: &str, name: &str, version: &'a str, tarball: &'a [u8]) -> Self {
        let base = name.rsplit('/').next().unwrap_or(name);
        let url = format!("{registry}/{name}/-/{base}-{version}.tgz");
        Self { version, tarball, url, time: "2020-01-01T00:00:00.000Z" }
    }
}

/// An npm document of a package, full, with publication times, or short.
pub fn npm_document(name: &str, versions: &[NpmVersion<'_>], is_full: bool) -> String {
    let (mut members, mut times) = (Map::new(), Map::new());
    for version in versions {
        let dist = json!({ "tarball": version.url, "integrity": sri(version.tarball) });
        let member = json!({ "name": name, "version": version.version, "dist": dist });
        members.insert(version.version.to_owned(), member);
        times.insert(version.version.to_owned(), version.time.into());
    }
    let latest = versions.last().map_or("", |version| version.version);
    let mut document = json!({ "name": name, "dist-tags": { "latest": latest }, "versions": members });
    if is_full {
        document["time"] = Value::Object(times);
    }
    document.to_string()
}

/// The sha512 of a body as npm writes it.
pub fn sri(body: &[u8]) -> String {
    format!("sha512-{}", STANDARD.encode(Sha512::digest(body)))
}

/// The Accept field of npm and pnpm when they install.
pub const NPM_SHORT: &str = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*";

/// The SHA-256 of a body, hexadecimal.
pub fn sha256(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A time as registries write it: `2026-11-27T20:51:36.000Z`.
pub fn rfc3339(time: SystemTime) -> String {
    // `Fri, 27 Nov 2026 20:51:36 GMT`
    let text = httpdate::fmt_http_date(time);
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = 1 + months.iter().position(|month| text[8..11] == **month).expect("a month");
    format!("{}-{month:02}-{}T{}.000Z", &text[12..16], &text[5..7], &text[17..25])
}

/// The line of `go.sum` for a `go.mod` with these bytes.
pub fn go_mod_sum(body: &[u8]) -> String {
    let line = format!("{}  go.mod\n", sha256(body));
    format!("h1:{}", STANDARD.encode(Sha256::digest(line)))
}

/// A zip with these members as they are, and its hash as `go.sum` has it.
pub fn go_zip(members: &[(&str, &[u8])]) -> (Vec<u8>, String) {
    let (mut zip, mut lines) = (Vec::new(), Vec::new());
    for (name, body) in members {
        let (length, size) = (name.len() as u16, (body.len() as u32).to_le_bytes());
        zip.extend(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0");
        zip.extend(size);
        zip.extend(size);
        zip.extend(length.to_le_bytes());
        zip.extend([0, 0]);
        zip.extend(name.as_bytes());
        zip.extend(*body);
        lines.push(format!("{}  {name}\n", sha256(body)));
    }
    zip.extend(b"PK\x01\x02");
    zip.extend([0; 60]);
    lines.sort_by(|one, other| one[64..].cmp(&other[64..]));
    (zip, format!("h1:{}", STANDARD.encode(Sha256::digest(lines.concat()))))
}
