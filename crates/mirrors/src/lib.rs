//! Mirrors of package registries as functions of bytes: no sockets, no clock.
//!
//! A mirror stands between a package manager and its registry. The node calls three functions of
//! this crate, and does the rest itself:
//!
//! ```text
//! Registry::route      meaning of a request: URL at the origin, class of the answer
//! Registry::rewriter   turns the URLs of a document into the mirror's, as it streams
//! Registry::promises   reads the digest, size and time that a document promises for a file
//! ```
//!
//! The node stores an origin's document as it came, and derives the rewritten form from it. A file
//! is checked against its promise while it streams. Each kind of registry is one file in
//! [`registries`].

#![forbid(unsafe_code)]

pub mod bearer;
pub mod digest;
pub mod document;
pub mod generations;
pub mod json;
pub mod kind;
pub mod lines;
pub mod lock;
mod npm_name;
pub mod package_list;
pub mod registries;
pub mod route;
mod survey;
pub mod time;
pub mod url;
pub mod wanted;

pub use digest::{Algorithm, Checker, Digest, Hasher};
pub use document::{BadDocument, Facts, Form, PackagePart, Promise, Promises, Rewriter, Survey};
pub use kind::Kind;
pub use route::{Class, Fetch, Place, Question, Route};

use std::collections::HashSet;

/// Facts about one mirror that its registry's code needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Address that clients use, with scheme, without a slash at the end:
    /// `http://cache.example:3128/npm`. It follows from the request's own Host and scheme.
    pub external: String,
    /// Base URL of the registry, with scheme, without a slash at the end.
    pub upstream: String,
}

impl Mirror {
    /// Returns `true` if clients ask by the registry's own URLs, and get them back.
    pub fn is_registry_itself(&self) -> bool {
        self.external == self.upstream
    }
}

/// Claim of a mirror on a path at the root of its host, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RootClaim {
    /// None: the path belongs to other mirrors or sites.
    None,
    /// Clients of the kind ask for such paths.
    OfKind,
    /// The path has the mirror's own name.
    ByName,
}

/// One kind of registry. Implementations have no state: a mirror's facts are arguments.
pub trait Registry: Send + Sync {
    /// Gives the meaning of a request. The path is below the mirror's own, percent-encoded as the
    /// client sent it. Two spellings of one resource give one [`Fetch`].
    fn route(&self, mirror: &Mirror, question: &Question<'_>) -> Route;

    /// Gives the rewriter of a document, or `None` if clients take the origin's bytes.
    fn rewriter(&self, mirror: &Mirror, form: Form) -> Option<Box<dyn Rewriter + Send>>;

    /// Gives a reader that looks for the promise of one file in a document, or `None` if documents
    /// of this form promise nothing. `file` is the file's place at the origin.
    fn promises(&self, mirror: &Mirror, form: Form, file: &Place) -> Option<Box<dyn Promises + Send>>;

    /// Gives the converter of a stored document into another form, and that form's content type.
    /// `None` if clients get the form that is stored.
    fn converter(
        &self,
        _: &Mirror,
        _from: Form,
        _to: Form,
    ) -> Option<(Box<dyn Rewriter + Send>, &'static str)> {
        None
    }

    /// Gives the form that has publication times, from which this form can be derived. `None` if
    /// the kind knows no such times.
    fn dated(&self, _form: Form) -> Option<Form> {
        None
    }

    /// Gives a reader of the versions and times of a document in the form of [`Self::dated`].
    fn survey(&self, _dated: Form) -> Option<Box<dyn Survey + Send>> {
        None
    }

    /// Gives the rewriter that makes a form of a dated document with these versions alone, and the
    /// content type of the form.
    fn selected(
        &self,
        _mirror: &Mirror,
        _wanted: Form,
        _facts: &Facts,
        _versions: HashSet<String>,
    ) -> Option<(Box<dyn Rewriter + Send>, &'static str)> {
        None
    }

    /// Gives the part of a package that a document at this place is about. `None` for a package's
    /// own document, and for all others.
    fn part_of_package(&self, _place: &Place) -> Option<PackagePart> {
        None
    }

    /// Gives the place of the version that clients get for a version or tag. These versions of a
    /// package with these facts are old enough.
    fn place_of_version(
        &self,
        _part: &PackagePart,
        _facts: &Facts,
        _versions: &HashSet<String>,
    ) -> Option<Place> {
        None
    }

    /// Gives the document that has the tags of a package with these versions.
    fn tags(&self, _facts: &Facts, _versions: &HashSet<String>) -> Vec<u8> {
        Vec::new()
    }

    /// Gives the name of the checksum database that a path below the mirror is about.
    fn checksum_database<'p>(&self, _path: &'p str) -> Option<&'p str> {
        None
    }

    /// Gives the place of the hash of a file's members: in a checksum database of this name, or
    /// beside the file ([`registries::ZIPHASH`]).
    fn place_of_sum(&self, _file: &Place, _database: &str) -> Option<Place> {
        None
    }

    /// Reads the hash of a file's members in the document at [`Self::place_of_sum`].
    fn sum_in(&self, _file: &Place, _document: &str) -> Option<[u8; 32]> {
        None
    }

    /// Gives the documents that may have the publication time of a file, where those with its
    /// promise have none. They are read by [`Self::promises`].
    fn times_of(&self, _file: &Place) -> Vec<(Place, Form)> {
        Vec::new()
    }

    /// Gives the document with the publication time of one version, where the index has none. It is
    /// read by [`Self::survey`].
    fn time_of_version(&self, _index: &Place, _version: &str) -> Option<(Place, Form)> {
        None
    }

    /// Returns `false` for a path below the mirror that is about no release, so that age does not
    /// matter.
    fn has_releases(&self, _path: &str) -> bool {
        true
    }

    /// Gives the promise that a response makes about its own body, in its fields.
    fn promise_in(&self, _field: &dyn Fn(&str) -> Option<String>) -> Option<Digest> {
        None
    }

    /// Gives the field by which a response tells clients this digest of its body, if clients of the
    /// kind read one.
    fn field_of(&self, _digest: &Digest) -> Option<&'static str> {
        None
    }

    /// Gives the path below the mirror of a package's index document. `None` if the kind has none
    /// by name.
    fn path_of_package(&self, _name: &str) -> Option<String> {
        None
    }

    /// Gives the names that the package of a path below the mirror may have, for rules by name. A
    /// file's name may be read in several ways.
    fn packages(&self, _: &Mirror, _path: &str) -> Vec<String> {
        Vec::new()
    }

    /// Gives a name, or the beginning of names, in the spelling of [`Self::packages`].
    fn spelling(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Returns `true` if names of the kind have escaped slashes, or mean nothing to rules.
    fn hides_slashes(&self) -> bool {
        false
    }

    /// Gives the path below the mirror of a path below the registry's own URL, as clients without a
    /// mirror ask for it.
    fn path_of_place(&self, _: &Mirror, rest: &str) -> String {
        rest.to_owned()
    }

    /// Gives the path below the mirror of a file's own URL, on another host or outside the path of
    /// the registry. `None` if the mirror would not know its promise.
    fn path_of_file(&self, _: &Mirror, _url: &str) -> Option<String> {
        None
    }

    /// Gives the repository of a place below the upstream, if the registry gives tokens for its
    /// repositories ([`bearer`]).
    fn repository(&self, _place: &str) -> Option<String> {
        None
    }

    /// Gives the document with this checksum, and the hash function. The checksum that clients get
    /// is that of their document. `None` for anything else.
    fn sum_of(&self, _fetch: &Fetch) -> Option<(Place, Form, Algorithm)> {
        None
    }

    /// Returns `true` for the place of an index with parts of their own.
    fn is_index(&self, _place: &str) -> bool {
        false
    }

    /// Returns `true` for the place of a part of the index.
    fn is_of_index(&self, _place: &str) -> bool {
        false
    }

    /// Gives the place under which a file is stored for all places with its digest. It is no place
    /// of the registry. `None` if a file is stored under its own place.
    fn shared_place(&self, _fetch: &Fetch) -> Option<Place> {
        None
    }

    /// Gives a path below the mirror with the meaning of a shared place.
    fn path_of_shared(&self, _path: &str) -> Option<String> {
        None
    }

    /// Returns `true` if a client that may have one document of a package may have all of it. Else
    /// rights are those to one place.
    fn shares_rights(&self) -> bool {
        true
    }

    /// Gives the claim of a mirror on a path at the root of its host. `own_path` is the mirror's.
    fn root_claim(&self, _own_path: &str, _path: &str) -> RootClaim {
        RootClaim::None
    }
}
