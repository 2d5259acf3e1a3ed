//! Several ranges in one response: `multipart/byteranges` (RFC 9110, section 14.6).
//!
//! ```text
//! CRLF --boundary CRLF  Content-Type: … CRLF  Content-Range: bytes 0-4/10 CRLF CRLF  the bytes
//! CRLF --boundary CRLF  …                                                            the bytes
//! CRLF --boundary-- CRLF
//! ```
//!
//! The length of the whole body is known before any byte of it is read.

use super::{ByteRange, ContentRange};
use bytes::Bytes;
use http::HeaderValue;

/// Frame around the parts of a multipart response.
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: String,
    heads: Vec<Bytes>,
    tail: Bytes,
    body_bytes: u64,
}

impl Multipart {
    /// Makes the frame for these ranges of a representation of `complete_length` bytes.
    ///
    /// `boundary_seed` makes the boundary. The seed should differ between responses, so that no
    /// stored body can contain the boundary of a later response.
    pub fn new(
        boundary_seed: u64,
        content_type: Option<&HeaderValue>,
        ranges: &[ByteRange],
        complete_length: u64,
    ) -> Self {
        debug_assert!(ranges.iter().all(|range| range.start < range.end));
        debug_assert!(ranges.iter().all(|range| range.end <= complete_length));
        let boundary = format!("shoal-{boundary_seed:016x}");
        let head = |range: &ByteRange| {
            let mut head = format!("\r\n--{boundary}\r\n").into_bytes();
            if let Some(content_type) = content_type {
                head.extend_from_slice(b"Content-Type: ");
                head.extend_from_slice(content_type.as_bytes());
                head.extend_from_slice(b"\r\n");
            }
            let content_range = ContentRange::satisfied(*range, Some(complete_length));
            head.extend_from_slice(format!("Content-Range: {content_range}\r\n\r\n").as_bytes());
            Bytes::from(head)
        };
        Self {
            heads: ranges.iter().map(head).collect(),
            tail: format!("\r\n--{boundary}--\r\n").into(),
            body_bytes: ranges.iter().map(|range| range.len()).sum(),
            boundary,
        }
    }

    /// Returns the Content-Type of the response.
    pub fn content_type(&self) -> HeaderValue {
        let text = format!("multipart/byteranges; boundary={}", self.boundary);
        HeaderValue::try_from(text).expect("a boundary of letters and digits")
    }

    /// Returns the text before the bytes of each range, in the ranges' order.
    pub fn heads(&self) -> &[Bytes] {
        &self.heads
    }

    /// Returns the text after the bytes of the last range.
    pub fn tail(&self) -> Bytes {
        self.tail.clone()
    }

    /// Returns the length of the whole body in bytes.
    pub fn length(&self) -> u64 {
        self.heads.iter().map(|head| head.len() as u64).sum::<u64>()
            + self.body_bytes
            + self.tail.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        let ranges =
            [(500, 1000), (7000, 8000)].map(|(start, end)| ByteRange::new(start, end).expect("not empty"));
        let pdf = HeaderValue::from_static("application/pdf");
        let multipart = Multipart::new(0x1f, Some(&pdf), &ranges, 8000);
        assert_eq!(multipart.content_type(), "multipart/byteranges; boundary=shoal-000000000000001f");
        assert_eq!(
            multipart.heads()[1],
            "\r\n--shoal-000000000000001f\r\nContent-Type: application/pdf\r\n\
             Content-Range: bytes 7000-7999/8000\r\n\r\n"
        );
        assert_eq!(multipart.tail(), "\r\n--shoal-000000000000001f--\r\n");
        let framed: usize = multipart.heads().iter().map(Bytes::len).sum::<usize>() + multipart.tail().len();
        assert_eq!(multipart.length(), 1500 + framed as u64);
    }

    #[test]
    fn a_part_without_a_type_has_none() {
        let range = ByteRange::new(0, 1).expect("not empty");
        let multipart = Multipart::new(1, None, &[range], 2);
        assert_eq!(multipart.heads(), ["\r\n--shoal-0000000000000001\r\nContent-Range: bytes 0-0/2\r\n\r\n"]);
    }
}
