//! Conditions of a plain request.

use http::HeaderName;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use shoal_core::Fields;

/// Conditions that a plain request may have, each of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'b> {
    /// If-None-Match field.
    pub if_none_match: Option<&'b [u8]>,
    /// If-Modified-Since field.
    pub if_modified_since: Option<&'b [u8]>,
}

impl Conditions<'_> {
    /// Returns `true` if there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.if_none_match.is_none() && self.if_modified_since.is_none()
    }
}

impl Fields for Conditions<'_> {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let of = |name: &'static str, value| Some((name.as_bytes(), value?));
        let lines =
            [of("if-none-match", self.if_none_match), of("if-modified-since", self.if_modified_since)];
        lines.into_iter().flatten()
    }

    fn values<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let value = match *name {
            IF_NONE_MATCH => self.if_none_match,
            IF_MODIFIED_SINCE => self.if_modified_since,
            _ => None,
        };
        value.into_iter()
    }
}
