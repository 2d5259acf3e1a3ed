//! The meaning of a client's request at a mirror: the place of its answer at the origin, and the
//! rules that hold for this kind of answer.

use crate::{Digest, Form};

/// A client's request, as far as a registry's code needs it.
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

/// What the node does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Answer from the cache or from this place at the origin.
    Fetch(Fetch),
    /// Ask the origin and store nothing (audits, searches, tokens).
    Pass(Place),
    /// Answer without the origin: status, content type, body.
    Answer(u16, &'static str, Vec<u8>),
    /// Refuse with a status and one line that says why and what to do.
    Refuse(u16, String),
}

/// An answer that may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Its place at the origin. This is also the cache key: one resource, one place.
    pub place: Place,
    /// The rules that hold for it.
    pub class: Class,
    /// Accept field that the origin is asked with. The client's own is never passed on, so that
    /// there are as many variants as this code names.
    pub accept: Option<&'static str>,
    /// Content type that the client's Accept asks for where one document has several forms derived
    /// from one stored document (PEP 691).
    pub form_asked: Option<Form>,
}

/// A place at an origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// Path, and query if any, below the mirror's upstream.
    Below(String),
    /// An absolute URL on another host, which documents of the registry name. The node follows it
    /// only to hosts that the mirror's settings or its documents allow.
    Elsewhere(String),
}

/// Rules for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// An index document: it changes, is validated, and may be rewritten.
    Document(Form),
    /// A file that never changes under its name as long as its digest agrees.
    File(Promised),
}

/// Where the digest of a file is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Promised {
    /// Nowhere: the origin's framing is all there is.
    Nothing,
    /// In the request's own URL.
    Here(Digest),
    /// In this document of the registry, under the file's place.
    In(Place, Form),
    /// In one of these documents, tried in order (apt's package lists).
    InOneOf(Vec<(Place, Form)>),
}
