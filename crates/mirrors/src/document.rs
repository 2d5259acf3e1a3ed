//! Documents of registries while they stream: rewriters of their URLs, readers of their promises.
//!
//! Both take pieces of any size and hold a bounded window, never the document.

use crate::Digest;
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
    /// Any other document that changes.
    Other,
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
}

/// A document's promise about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
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
