//! Files that a build will ask for, read from its lockfiles.
//!
//! ```text
//!   bytes ─ Format::of ─► format ─ parse ─► Wishes ─ need ─► pages and files below a mirror
//! ```
//!
//! A parser takes any bytes: a lockfile comes with a pull request. It holds a bounded number of
//! entries, and recurses to no depth that the input chooses. An entry that no mirror can serve (a
//! repository of sources, a folder) is left out by name, with the reason.

mod body_check;
mod cargo_lock;
mod choice;
mod format;
mod gemfile_lock;
mod go_sum;
mod gradle;
mod images;
mod lines;
mod need;
mod npm_lock;
mod pnpm_lock;
mod purls;
mod python_locks;
mod requirements;
mod search;
mod toml;
mod urls;
mod yarn_lock;
mod zip_hash;

pub use body_check::ListCheck;
pub use choice::Choice;
pub use format::Format;
pub use need::{IndexPage, Need, NeededFile, Search, need};
pub use search::{CrateDigest, FoundFile, ImageManifest, MANIFEST_MAX, ProjectFiles, ProjectIndex};

use crate::{BadDocument, Digest, Kind};

/// One entry of a lockfile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListEntry {
    /// Kind of its registry; `None` if a URL says it.
    pub kind: Option<Kind>,
    /// Name of the package; empty for a URL.
    pub name: String,
    /// Version, tag or digest.
    pub version: String,
    /// Name of the file, if the list has it.
    pub file: Option<String>,
    /// URL of the file.
    pub url: Option<String>,
    /// URL of the registry, if the list names one.
    pub registry: Option<String>,
    /// Check of the body.
    pub check: Check,
    /// Length in bytes.
    pub size: Option<u64>,
}

/// Check of a body against a lockfile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Check {
    /// The list promises nothing.
    #[default]
    Nothing,
    /// Any of these digests.
    OneOf(Vec<Digest>),
    /// Hash of `go.sum` over the members of a zip, or over a `go.mod` alone.
    GoSum([u8; 32]),
}

impl ListEntry {
    /// Begins an entry of this kind.
    pub fn of(kind: Kind, name: &str, version: &str) -> Self {
        Self { kind: Some(kind), name: name.to_owned(), version: version.to_owned(), ..Self::default() }
    }

    /// Returns the entry's name for the reader.
    pub fn title(&self) -> String {
        match (&self.url, self.version.is_empty()) {
            (Some(url), _) if self.name.is_empty() => url.clone(),
            (_, true) => self.name.clone(),
            (_, false) => format!("{}@{}", self.name, self.version),
        }
    }

    /// Returns the digests of which any may be the body's.
    pub fn digests(&self) -> &[Digest] {
        match &self.check {
            Check::OneOf(digests) => digests,
            _ => &[],
        }
    }

    fn checked(self, digests: Vec<Digest>) -> Self {
        let check = if digests.is_empty() { Check::Nothing } else { Check::OneOf(digests) };
        Self { check, ..self }
    }
}

/// Entries of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Entries that mirrors may serve.
    pub wanted: Vec<ListEntry>,
    /// Entries that no mirror can serve.
    pub left_out: Vec<LeftOut>,
}

/// An entry that no mirror can serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the entry.
    pub what: String,
    /// The reason.
    pub why: &'static str,
}

impl Wishes {
    fn want(&mut self, wanted: ListEntry) -> Result<(), BadDocument> {
        let texts = [Some(&wanted.name), Some(&wanted.version), wanted.file.as_ref()];
        let is_long = texts.into_iter().flatten().any(|text| text.len() > NAME_MAX)
            || [&wanted.url, &wanted.registry].into_iter().flatten().any(|url| url.len() > URL_MAX);
        if is_long {
            return self.leave_out(&wanted.title(), "a longer name than any package has");
        }
        debug_assert!(wanted.kind.is_some() || wanted.url.is_some(), "an entry has a place");
        self.wanted.push(wanted);
        self.bounded()
    }

    fn leave_out(&mut self, what: &str, why: &'static str) -> Result<(), BadDocument> {
        debug_assert!(!why.is_empty(), "each is left out for a reason");
        self.left_out.push(LeftOut { what: what.chars().take(SHOWN_MAX).collect(), why });
        self.bounded()
    }

    fn bounded(&self) -> Result<(), BadDocument> {
        match self.wanted.len() + self.left_out.len() > ENTRIES_MAX {
            true => Err(BadDocument { at: 0, why: "more entries than 100,000" }),
            false => Ok(()),
        }
    }
}

/// Reads a list of this format.
///
/// # Errors
/// If the bytes are no such list, or a larger one than [`LIST_MAX`].
pub fn parse(format: Format, bytes: &[u8]) -> Result<Wishes, BadDocument> {
    if bytes.len() > LIST_MAX {
        return Err(BadDocument { at: LIST_MAX as u64, why: "a longer list than 32 MiB" });
    }
    let wishes = match format {
        Format::NpmLock => npm_lock::parse(bytes),
        Format::YarnLock => yarn_lock::parse(text(bytes)?),
        Format::PnpmLock => pnpm_lock::parse(text(bytes)?),
        Format::BunLock => npm_lock::parse_bun(text(bytes)?),
        Format::Requirements => requirements::parse(text(bytes)?),
        Format::PoetryLock | Format::PdmLock => python_locks::parse_poetry(text(bytes)?),
        Format::UvLock => python_locks::parse_uv(text(bytes)?),
        Format::PyLock => python_locks::parse_pylock(text(bytes)?),
        Format::PipfileLock => python_locks::parse_pipfile(bytes),
        Format::CargoLock => cargo_lock::parse(text(bytes)?),
        Format::GoSum => go_sum::parse(text(bytes)?),
        Format::GemfileLock => gemfile_lock::parse(text(bytes)?),
        Format::GradleLock => gradle::parse_lock(text(bytes)?),
        Format::GradleVerification => gradle::parse_verification(text(bytes)?),
        Format::MavenList => gradle::parse_maven(text(bytes)?),
        Format::Purls => purls::parse(text(bytes)?),
        Format::Images => images::parse(text(bytes)?),
        Format::Urls => urls::parse(text(bytes)?),
    }?;
    debug_assert!(wishes.wanted.len() + wishes.left_out.len() <= ENTRIES_MAX, "each entry was counted");
    Ok(wishes)
}

fn text(bytes: &[u8]) -> Result<&str, BadDocument> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|error| BadDocument { at: error.valid_up_to() as u64, why: "not UTF-8" })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Longest list in bytes.
pub const LIST_MAX: usize = 32 << 20;
/// Most entries of a list.
pub const ENTRIES_MAX: usize = 100_000;
/// Longest name in bytes.
const NAME_MAX: usize = 512;
/// Longest URL in bytes.
const URL_MAX: usize = 4096;
/// Most characters of an entry that are shown.
const SHOWN_MAX: usize = 200;

#[cfg(test)]
mod tests;
