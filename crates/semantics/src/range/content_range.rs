//! Content-Range (RFC 9110, section 14.4): the bytes that a part holds, and the complete length.

use super::ByteRange;
use super::requested::position;
use crate::lists;
use http::HeaderValue;
use http::header::CONTENT_RANGE;
use shoal_core::Fields;
use std::fmt;

/// Content-Range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    range: Option<ByteRange>,
    complete_length: Option<u64>,
}

impl ContentRange {
    /// Makes `bytes 0-4/10`: this range of a representation of known or unknown length.
    pub fn satisfied(range: ByteRange, complete_length: Option<u64>) -> Self {
        debug_assert!(complete_length.is_none_or(|length| range.end <= length), "a range behind the end");
        Self { range: Some(range), complete_length }
    }

    /// Makes `bytes */10`, the value of a 416.
    pub fn unsatisfied(complete_length: u64) -> Self {
        Self { range: None, complete_length: Some(complete_length) }
    }

    /// Returns the Content-Range of a response: the only line, in bytes, with a range that fits its
    /// length.
    pub fn of(response: &impl Fields) -> Option<Self> {
        let mut lines = response.values(&CONTENT_RANGE);
        let line = lines.next()?;
        lines.next().is_none().then(|| Self::parse(line)).flatten()
    }

    /// Reads a value.
    ///
    /// RFC 9110, section 14.4: "A Content-Range field value is invalid if it contains a range-resp
    /// that has a last-pos value less than its first-pos value, or a complete-length value less
    /// than or equal to its last-pos value. The recipient of an invalid Content-Range MUST NOT
    /// attempt to recombine the received content with a stored representation."
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = lists::trim(value).split_at_checked("bytes ".len())?;
        if !unit.eq_ignore_ascii_case(b"bytes ") {
            return None;
        }
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let (range, complete) = (&rest[..slash], &rest[slash + 1..]);
        let complete_length = match complete {
            b"*" => None,
            digits => Some(position(digits).filter(|length| *length < u64::MAX)?),
        };
        if range == b"*" {
            return complete_length.map(Self::unsatisfied);
        }
        let dash = range.iter().position(|byte| *byte == b'-')?;
        let (first, last) = (position(&range[..dash])?, position(&range[dash + 1..])?);
        let range = ByteRange::new(first, last.checked_add(1)?)?;
        let fits = complete_length.is_none_or(|length| range.end <= length);
        fits.then_some(Self { range: Some(range), complete_length })
    }

    /// Returns the range; `None` in a 416.
    pub fn range(self) -> Option<ByteRange> {
        self.range
    }

    /// Returns the length of the whole representation, when it is known.
    pub fn complete_length(self) -> Option<u64> {
        self.complete_length
    }

    /// Returns the field value.
    pub fn to_value(self) -> HeaderValue {
        HeaderValue::try_from(self.to_string()).expect("digits and punctuation")
    }
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range {
            Some(range) => write!(f, "bytes {}-{}/", range.start, range.last())?,
            None => f.write_str("bytes */")?,
        }
        match self.complete_length {
            Some(length) => write!(f, "{length}"),
            None => f.write_str("*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values() {
        let range = |start, end| ByteRange::new(start, end).expect("not empty");
        for (value, read) in [
            ("bytes 4-8/10", Some(ContentRange::satisfied(range(4, 9), Some(10)))),
            ("Bytes 4-9/*", Some(ContentRange::satisfied(range(4, 10), None))),
            ("bytes */10", Some(ContentRange::unsatisfied(10))),
            ("bytes */*", None),
            ("bytes 4-10/10", None),
            ("bytes 5-4/10", None),
            ("bytes 4-8", None),
            ("bytes=4-8/10", None),
            ("items 4-8/10", None),
            ("bytes 4 - 8/10", None),
            ("bytes 0-18446744073709551615/*", None),
            ("bytes 0-1/18446744073709551616", None),
            ("ANANANANANANANA", None),
            ("", None),
        ] {
            assert_eq!(ContentRange::parse(value.as_bytes()), read, "{value}");
        }
    }

    proptest! {
        #[test]
        fn written_value_reads_back(start in 0..1_u64 << 40, len in 1..1_u64 << 40, more in proptest::option::of(0..9_u64)) {
            let range = ByteRange::new(start, start + len).expect("not empty");
            let written = ContentRange::satisfied(range, more.map(|more| range.end + more));
            prop_assert_eq!(ContentRange::parse(written.to_value().as_bytes()), Some(written));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = ContentRange::parse(&bytes);
            let _ = ContentRange::parse(&[b"bytes ", &bytes[..]].concat());
        }
    }
}
