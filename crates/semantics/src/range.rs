//! Ranges of bytes (RFC 9110, section 14): requested, stored and missing ones.
//!
//! A position within this module is an offset in bytes from the start of the representation. A
//! [`ByteRange`] excludes its end and is never empty. Only the fields use the inclusive last
//! positions of the protocol.

mod content_range;
mod extents;
mod multipart;
mod requested;

use crate::EntityTag;
pub use content_range::ContentRange;
pub use extents::Extents;
use http::header::ETAG;
use http::{HeaderMap, HeaderValue};
pub use multipart::Multipart;
pub use requested::{RangeAnswer, RangeSet, RangeSpec, if_range_holds, only_range};
use shoal_core::Fields;
use std::fmt::Write;

/// Bytes from `start` to before `end`; at least one byte, as [`ByteRange::new`] ensures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl ByteRange {
    /// Makes a range; `None` when it would be empty.
    pub fn new(start: u64, end: u64) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// Returns the position of the last byte, as fields count.
    pub fn last(self) -> u64 {
        self.end.saturating_sub(1)
    }

    /// Returns the number of bytes, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Returns `true` if two responses hold bytes of one representation, so that their ranges may be
/// combined.
///
/// RFC 9110, section 15.3.7.3: "A client that has received multiple partial responses to GET
/// requests on a target resource MAY combine those responses into a larger continuous range if they
/// share the same strong validator." RFC 9111, section 3.4, says the same of caches. Last-Modified
/// alone is a weak validator here: nothing shows that it changes with each change of the bytes.
pub fn same_representation(one: &impl Fields, other: &impl Fields) -> bool {
    match (EntityTag::of(one), EntityTag::of(other)) {
        (Some(one), Some(other)) => one.matches_strongly(other),
        _ => false,
    }
}

/// Returns the validator for If-Range when the cache requests more of a stored response: its ETag,
/// if strong.
pub fn strong_validator(stored: &HeaderMap) -> Option<&HeaderValue> {
    EntityTag::of(stored).filter(|tag| tag.is_strong()).and_then(|_| stored.get(ETAG))
}

/// Returns the Range field for the missing bytes of a representation of `complete_length` bytes:
/// `bytes=5-` for the rest, `bytes=0-4,9-9` otherwise. `None` when nothing is missing.
pub fn completion(missing: &[ByteRange], complete_length: u64) -> Option<HeaderValue> {
    let mut value = String::from("bytes=");
    for (at, range) in missing.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let written = match range.end >= complete_length {
            true => write!(value, "{comma}{}-", range.start),
            false => write!(value, "{comma}{}-{}", range.start, range.last()),
        };
        written.expect("writing to a string");
    }
    (!missing.is_empty()).then(|| HeaderValue::try_from(value).expect("digits and punctuation"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::LAST_MODIFIED;

    #[test]
    fn only_a_strong_validator_joins_responses() {
        let with = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        for (one, other, same) in [
            (with(ETAG, "\"a\""), with(ETAG, "\"a\""), true),
            (with(ETAG, "\"a\""), with(ETAG, "\"b\""), false),
            (with(ETAG, "W/\"a\""), with(ETAG, "W/\"a\""), false),
            (with(ETAG, "\"a\""), HeaderMap::new(), false),
            (HeaderMap::new(), HeaderMap::new(), false),
            (with(LAST_MODIFIED, "x"), with(LAST_MODIFIED, "x"), false),
        ] {
            assert_eq!(same_representation(&one, &other), same, "{one:?} {other:?}");
            assert!(!same || strong_validator(&one) == one.get(ETAG));
        }
        for weak in ["W/\"a\"", "a", ""] {
            assert_eq!(strong_validator(&with(ETAG, weak)), None, "{weak}");
        }
    }

    #[test]
    fn completion_asks_for_missing_ranges() {
        let range = |start, end| ByteRange::new(start, end).expect("not empty");
        let ask =
            |missing: &[ByteRange]| completion(missing, 10).map(|it| it.to_str().expect("ASCII").to_owned());
        assert_eq!(ask(&[]), None);
        assert_eq!(ask(&[range(5, 10)]).as_deref(), Some("bytes=5-"));
        assert_eq!(ask(&[range(0, 5), range(8, 9)]).as_deref(), Some("bytes=0-4,8-8"));
    }
}
