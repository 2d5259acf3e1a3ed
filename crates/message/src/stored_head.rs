//! A stored response's status and fields, compact and ready to send.
//!
//! The head is stored as HTTP/1 lines in one piece. Most hits copy this piece and need nothing
//! else. A field map would take several times the room. It is built only for validations, several
//! ranges, and HTTP/2 outside the fast path.
//!
//! The fields for a 304 stand first, so that a 304 is one copy too. RFC 9110, section 5.3: "it is
//! good practice to send header fields that contain additional control data first, such as Host on
//! requests and Date on responses".

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use shoal_core::Fields;
use shoal_semantics::validation::is_sent_with_304;
use std::ops::Range;

/// Head of a stored response. The head contains no Age, Cache-Status, Proxy-Status, Content-Length
/// or hop-by-hop fields.
pub struct StoredHead {
    status: StatusCode,
    lines: Bytes,
    dated: bool,
    has_content_range: bool,
    /// Number of leading bytes of the lines that belong to a 304 too.
    with_304: u32,
    content_type: Range<u32>,
}

impl StoredHead {
    /// Builds the head from these fields.
    pub fn new(status: StatusCode, fields: &HeaderMap) -> Self {
        let length = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let mut head = HeadWriter::with_capacity(length);
        fields.iter().for_each(|(name, value)| head.field(name.as_str().as_bytes(), value.as_bytes()));
        head.finish(status)
    }

    /// Builds the head from names and values in the format of [`field_lines`](Self::field_lines).
    /// Returns `None` if one of them is not a valid name or value.
    pub fn read<'a>(
        status: StatusCode,
        fields: impl Iterator<Item = Option<(&'a [u8], &'a [u8])>>,
    ) -> Option<Self> {
        let mut head = HeadWriter::with_capacity(256);
        for field in fields {
            let (name, value) = field?;
            if !is_name(name) || !is_value(value) {
                return None;
            }
            head.field(name, value);
        }
        Some(head.finish(status))
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the fields as HTTP/1 lines (`name: value CRLF`…), without the status line and the
    /// empty line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.lines
    }

    /// Returns the lines that belong to a 304 too.
    pub fn bytes_with_304(&self) -> &[u8] {
        &self.lines[..self.with_304 as usize]
    }

    /// Returns `true` if Date is among the fields.
    pub fn is_dated(&self) -> bool {
        self.dated
    }

    /// Returns `true` if Content-Range is among the fields.
    pub fn has_content_range(&self) -> bool {
        self.has_content_range
    }

    /// Returns the value of Content-Type, or an empty slice.
    pub fn content_type(&self) -> &[u8] {
        &self.lines[self.content_type.start as usize..self.content_type.end as usize]
    }

    /// Returns the value of Content-Type as a field value.
    pub fn content_type_value(&self) -> Option<HeaderValue> {
        let range = self.content_type.start as usize..self.content_type.end as usize;
        (!range.is_empty()).then(|| HeaderValue::from_maybe_shared(self.lines.slice(range)).ok())?
    }

    /// Iterates over names and values, in their order.
    pub fn field_lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        shoal_core::written_fields(&self.lines)
    }

    /// Builds a map of the fields; its values are slices of the lines.
    pub fn fields(&self) -> HeaderMap {
        self.map_of(self.as_bytes())
    }

    /// Builds a map of the fields that belong to a 304.
    pub fn fields_with_304(&self) -> HeaderMap {
        self.map_of(self.bytes_with_304())
    }

    /// Returns a copy of the head without the fields of this name.
    pub fn without(&self, name: &HeaderName) -> Self {
        let mut fields = self.fields();
        fields.remove(name);
        Self::new(self.status, &fields)
    }

    /// Builds a map of some of the lines.
    fn map_of(&self, lines: &[u8]) -> HeaderMap {
        let mut fields = HeaderMap::with_capacity(FIELDS_EXPECTED);
        for (name, value) in shoal_core::written_fields(lines) {
            let value = HeaderValue::from_maybe_shared(self.lines.slice_ref(value));
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
                fields.append(name, value);
            }
        }
        fields
    }

    /// Returns the bytes of RAM that the head takes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.lines.len()
    }
}

impl Fields for StoredHead {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.field_lines()
    }

    fn values<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let name = name.as_str().as_bytes();
        self.field_lines().filter_map(move |(other, value)| (other == name).then_some(value))
    }
}

/// Capacity of a field map for most heads and the fields that a node adds.
const FIELDS_EXPECTED: usize = 16;

/// Lines under construction.
struct HeadWriter {
    /// Lines that belong to a 304 too.
    lines: Vec<u8>,
    /// The other lines.
    rest: Vec<u8>,
    dated: bool,
    has_content_range: bool,
    /// Range within `rest`.
    content_type: Range<usize>,
}

impl HeadWriter {
    fn with_capacity(length: usize) -> Self {
        let rest = Vec::with_capacity(length);
        let lines = Vec::with_capacity(length);
        Self { lines, rest, dated: false, has_content_range: false, content_type: 0..0 }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let lines = if is_sent_with_304(name) { &mut self.lines } else { &mut self.rest };
        lines.extend_from_slice(name);
        lines.extend_from_slice(b": ");
        let start = lines.len();
        lines.extend_from_slice(value);
        let end = lines.len();
        lines.extend_from_slice(b"\r\n");
        self.dated |= name == header::DATE.as_str().as_bytes();
        self.has_content_range |= name == header::CONTENT_RANGE.as_str().as_bytes();
        if name == header::CONTENT_TYPE.as_str().as_bytes() && self.content_type.is_empty() {
            self.content_type = start..end;
        }
    }

    fn finish(self, status: StatusCode) -> StoredHead {
        let Self { mut lines, rest, dated, has_content_range, content_type } = self;
        let with_304 = lines.len();
        lines.extend_from_slice(&rest);
        let place = |at: usize| (with_304 + at) as u32;
        StoredHead {
            status,
            // Exact length, so that no unused buffer space is kept.
            lines: Bytes::from(lines.into_boxed_slice()),
            dated,
            has_content_range,
            with_304: with_304 as u32,
            content_type: place(content_type.start)..place(content_type.end),
        }
    }
}

/// Returns `true` for a field name as a field map writes it: a token (RFC 9110, 5.6.2) in lower
/// case.
fn is_name(bytes: &[u8]) -> bool {
    let is_token = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_token)
}

/// Returns `true` for a field value (RFC 9110, 5.5): no byte ends a line.
fn is_value(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(fields: &[(&'static str, &[u8])]) -> StoredHead {
        let field = |(name, value): &(&'static str, &[u8])| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).expect("a value"))
        };
        let mut map = HeaderMap::new();
        for (name, value) in fields.iter().map(field) {
            map.append(name, value);
        }
        StoredHead::new(StatusCode::OK, &map)
    }

    #[test]
    fn lines_and_map_are_the_same_fields() {
        let head = head(&[("date", b"then"), ("content-type", b"a: b"), ("x", b""), ("x", b"\xe9 2")]);
        assert_eq!(head.as_bytes(), b"date: then\r\ncontent-type: a: b\r\nx: \r\nx: \xe9 2\r\n");
        assert_eq!((head.content_type(), head.is_dated()), (&b"a: b"[..], true));
        let fields = head.fields();
        assert_eq!(fields.len(), 4);
        assert_eq!(
            fields.get_all("x").iter().map(HeaderValue::as_bytes).collect::<Vec<_>>(),
            [&b""[..], b"\xe9 2"]
        );
        assert_eq!(StoredHead::new(StatusCode::OK, &fields).as_bytes(), head.as_bytes());
        assert_eq!(head.content_type_value().expect("there is one"), "a: b");
    }

    #[test]
    fn fields_of_304_stand_first() {
        let fields: [(&'static str, &[u8]); 6] = [
            ("x", b"1"),
            ("etag", b"\"a\""),
            ("content-type", b"a/b"),
            ("vary", b"c"),
            ("x", b"2"),
            ("date", b"then"),
        ];
        let head = head(&fields);
        assert_eq!(head.bytes_with_304(), b"etag: \"a\"\r\nvary: c\r\ndate: then\r\n");
        let lines = [head.bytes_with_304(), b"x: 1\r\nx: 2\r\ncontent-type: a/b\r\n"].concat();
        assert_eq!((head.as_bytes(), head.content_type()), (&lines[..], &b"a/b"[..]));
        assert!(Fields::values(&head, &HeaderName::from_static("x")).eq([b"1", b"2"]));
        assert_eq!(Fields::value(&head, &header::ETAG), Some(&b"\"a\""[..]));
    }

    #[test]
    fn no_fields_are_no_lines() {
        let head = head(&[]);
        assert_eq!((head.as_bytes(), head.content_type(), head.fields().len()), (&b""[..], &b""[..], 0));
        assert!(head.content_type_value().is_none() && !head.is_dated());
    }

    #[test]
    fn a_field_is_left_out() {
        let head = head(&[("x", b"1"), ("content-range", b"bytes 0-4/10"), ("date", b"then")]);
        assert!(head.has_content_range() && !head.without(&header::CONTENT_RANGE).has_content_range());
        assert_eq!(head.without(&header::CONTENT_RANGE).as_bytes(), b"date: then\r\nx: 1\r\n");
    }

    #[test]
    fn fields_that_end_a_line_are_not_read() {
        for (name, value) in
            [("x", "a\r\nb: c"), ("x\n", "a"), ("", "a"), ("a b", "c"), ("X", "a"), ("x", "\0")]
        {
            let field = std::iter::once(Some((name.as_bytes(), value.as_bytes())));
            assert!(StoredHead::read(StatusCode::OK, field).is_none(), "{name:?}: {value:?}");
        }
    }

    proptest! {
        #[test]
        fn written_head_is_read_back(values in prop::collection::vec("[ -~\u{80}-\u{ff}]{0,20}", 0..8)) {
            let mut map = HeaderMap::new();
            for (at, value) in values.iter().enumerate() {
                let name = HeaderName::from_bytes(format!("x-{}", at % 3).as_bytes()).expect("a name");
                map.append(name, HeaderValue::from_bytes(value.trim().as_bytes()).expect("a value"));
            }
            let head = StoredHead::new(StatusCode::OK, &map);
            prop_assert_eq!(&head.fields(), &map);
            let read = StoredHead::read(StatusCode::OK, head.field_lines().map(Some)).expect("it was written");
            prop_assert_eq!(read.as_bytes(), head.as_bytes());
        }
    }
}
