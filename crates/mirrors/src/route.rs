//! The meaning of a client's request at a mirror: a place at the origin and a class of answer.

use crate::{Digest, Form};

/// The parts of a client's request that a registry's code reads.
pub struct Question<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// Path below the mirror's own; begins with a slash; percent-encoded as sent.
    pub path: &'a str,
    /// Query without the question mark.
    pub query: Option<&'a str>,
    /// Value of a request field by its lower-case name; several lines joined by commas.
    pub field: &'a dyn Fn(&str) -> Option<String>,
}

/// The node's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Answer from the cache or from this place at the origin.
    Fetch(Fetch),
    /// Ask the origin and store nothing (audits, searches, tokens).
    Pass(Place),
    /// Store the request's body as the answer of this place, and answer with this status.
    Store(Fetch, u16),
    /// Remove the answer of this place.
    Remove(Place),
    /// Answer without the origin: status, content type, body.
    Answer(u16, &'static str, Vec<u8>),
    /// Refuse with a status and one line: the reason and the remedy.
    Refuse(u16, String),
}

/// An answer that may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Place at the origin. This is also the cache key: one resource, one place.
    pub place: Place,
    /// Class of the answer, which gives the rules.
    pub class: Class,
    /// Accept field for the origin. The client's own is never passed on, so that this code alone
    /// decides how many variants there are.
    pub accept: Option<&'static str>,
    /// Form that the client's Accept asks for, where several forms derive from one stored document
    /// (PEP 691).
    pub form_asked: Option<Form>,
}

/// A place at an origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// Path, and query if any, below the mirror's upstream.
    Below(String),
    /// An absolute URL on another host. Documents name it; the node connects only to
    /// hosts that settings or documents allow.
    Elsewhere(String),
}

/// Rules for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// An index document: it changes, is validated, and may be rewritten.
    Document(Form),
    /// A file, constant under its name while its digest agrees.
    File(PromiseSource),
}

/// Source of a file's digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromiseSource {
    /// None: the origin's framing is the only check.
    Nothing,
    /// In the request's own URL.
    Here(Digest),
    /// In this document of the registry, under the file's place.
    In(Place, Form),
    /// In one of these documents: first in one that is stored, then in order (apt's package lists,
    /// forms of one document).
    InOneOf(Vec<(Place, Form)>),
}
