//! The part of an explanation about mirrors of package registries. Names of fields are stable.

use serde::{Deserialize, Serialize};

/// The mirror that answers, and the meaning of the request at its registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorView {
    /// Name of the mirror.
    pub name: String,
    /// Kind of the registry.
    pub kind: String,
    /// URL of the registry; empty for a build cache.
    pub upstream: String,
    /// Package that the request is about, if it is about one.
    pub package: Option<String>,
    /// `document`, `file`, `pass`, `answer`, `write` or `refuse`.
    pub class: String,
    /// URL at the registry, which is the key.
    pub place: Option<String>,
    /// `true` if this mirror owns the package by its name.
    pub owned: bool,
    /// `true` if the cache alone answers.
    pub offline: bool,
    /// Least age of the release in seconds; `None` if age does not matter.
    pub minimum_age_seconds: Option<u64>,
    /// Publication time in seconds since 1970, as far as stored documents tell.
    pub published: Option<i64>,
    /// `true` if the file is younger than that, or of unknown age.
    pub too_young: Option<bool>,
    /// Promise about the file, as far as stored documents tell.
    pub promise: Option<PromiseView>,
    /// `true` if the stored body was read now and is the promised one; `None` if there was nothing
    /// to compare.
    pub verified: Option<bool>,
    /// Sentence that sums up.
    pub verdict: String,
}

/// A promise about a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromiseView {
    /// Digest: `sha256:HEX`.
    pub digest: Option<String>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// URL of the document with the promise; that of the file if its own URL or fields promise.
    pub source: String,
    /// `true` if the registry has withdrawn the file.
    pub withdrawn: bool,
}
