//! Documents of registries while they stream: rewriters of their URLs, readers of their promises.
//!
//! Both take pieces of any size and hold a bounded window, never the document.

use crate::{Digest, Place};
use std::fmt;

/// The form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// npm's full document of a package, with publication times.
    NpmFull,
    /// npm's short document of a package, for installing.
    NpmShort,
    /// PEP 503 project page.
    PypiHtml,
    /// PEP 691 project document.
    PypiJson,
    /// `config.json` of a sparse index.
    CargoConfig,
    /// Index file of one crate: a JSON object a line.
    CargoIndex,
    /// Go's `@v/list`, `@latest` and `.info` of branches.
    GoVersions,
    /// `maven-metadata.xml`.
    MavenMetadata,
    /// `InRelease` or `Release`.
    DebRelease,
    /// `Packages` or `Sources`, also compressed.
    DebPackages,
    /// RubyGems' `/versions` and `/names`.
    GemVersions,
    /// RubyGems' `/info/NAME`.
    GemInfo,
    /// Manifest or index of an image by tag.
    OciTag,
    /// Manifest of an image by digest.
    OciManifest,
    /// File with the checksum of the file beside it: `a.jar.sha1`.
    Sidecar,
    /// Any other document that changes.
    Other,
}

impl Form {
    /// Every form.
    pub const ALL_DOCUMENTS: [Self; 15] = [
        Self::NpmFull,
        Self::NpmShort,
        Self::PypiHtml,
        Self::PypiJson,
        Self::CargoConfig,
        Self::CargoIndex,
        Self::GoVersions,
        Self::MavenMetadata,
        Self::DebRelease,
        Self::DebPackages,
        Self::GemVersions,
        Self::GemInfo,
        Self::OciTag,
        Self::OciManifest,
        Self::Other,
    ];

    /// Accept field by which an origin gives this form, for forms that need one.
    pub const fn accept(self) -> Option<&'static str> {
        match self {
            Self::NpmShort => {
                Some("application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*")
            }
            Self::NpmFull => Some("application/json"),
            Self::PypiJson => Some(
                "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.2, text/html; q=0.1",
            ),
            Self::PypiHtml => Some("application/vnd.pypi.simple.v1+html, text/html; q=0.5"),
            _ => None,
        }
    }

    /// Form that an origin gave, by its content type: some know one form only.
    pub fn given(self, content_type: &str) -> Self {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match self {
            Self::PypiJson | Self::PypiHtml if media.ends_with("json") => Self::PypiJson,
            Self::PypiJson | Self::PypiHtml if media.ends_with("html") => Self::PypiHtml,
            form => form,
        }
    }

    /// Returns `true` if an origin may give this form as a page of HTML.
    pub const fn may_be_html(self) -> bool {
        matches!(self, Self::PypiHtml | Self::PypiJson)
    }
}

/// Changes the URLs of a document as it streams.
pub trait Rewriter {
    /// Takes the next piece and appends finished bytes to `output`.
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BadDocument>;
    /// Takes the end of the document. An incomplete document is an error.
    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BadDocument>;
}

/// Looks for the promise of one file in a document as it streams.
pub trait Promises {
    /// Takes the next piece.
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument>;
    /// Takes the end. `None` if the document does not name the file.
    fn finish(&mut self) -> Result<Option<Promise>, BadDocument>;

    /// After the end: the place at which the origin keeps the file, if it is another than the one
    /// that was asked for.
    fn place(&self) -> Option<Place> {
        None
    }
}

/// Reads the versions that a document has, and their times.
pub trait Survey {
    /// Takes the next piece.
    fn push(&mut self, input: &[u8]) -> Result<(), BadDocument>;
    /// Takes the end.
    fn finish(&mut self) -> Result<Facts, BadDocument>;
}

/// Versions of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Each version, with its publication time in seconds since 1970 if the document has it.
    pub versions: Vec<(String, Option<i64>)>,
    /// Tags, each with its version.
    pub tags: Vec<(String, String)>,
}

/// A document about a part of a package, beside the package's own document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagePart {
    /// The package's document, which has all versions with their times.
    pub package: Place,
    /// Form of that document.
    pub form: Form,
    /// Version or tag that the part is about; `None` if it is about all tags.
    pub version: Option<String>,
}

/// A document's promise about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Promise {
    /// The strongest digest of the body's bytes.
    pub digest: Option<Digest>,
    /// Length of the body in bytes.
    pub size: Option<u64>,
    /// Publication time in seconds since 1970.
    pub published: Option<i64>,
    /// The registry has withdrawn or yanked it.
    pub is_withdrawn: bool,
}

/// A malformed document. It is neither passed on nor stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDocument {
    /// Offset of the fault in bytes from the document's beginning.
    pub at: u64,
    /// The fault in a few words.
    pub why: &'static str,
}

impl fmt::Display for BadDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.why, self.at)
    }
}

impl std::error::Error for BadDocument {}
