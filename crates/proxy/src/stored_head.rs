//! A stored response's status and fields, as small as they get while they can be sent as they are.
//!
//! Kept are HTTP/1 lines in one piece, which most hits copy and nothing else of; a field map of
//! them would take several times the room, and is made for what needs one: validations, several
//! ranges, HTTP/2 beside its short way.
//!
//! What a 304 says of the response stands first, so that it is one copy too. RFC 9110, section 5.3:
//! "it is good practice to send header fields that contain additional control data first, such as
//! Host on requests and Date on responses".

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use shoal_core::Fields;
use shoal_semantics::validation::is_sent_with_304;
use std::ops::Range;

/// The head of a stored response. Its fields are without Age, Cache-Status, Proxy-Status,
/// Content-Length, and without hop-by-hop fields.
pub struct StoredHead {
    status: StatusCode,
    lines: Bytes,
    dated: bool,
    has_content_range: bool,
    /// So many bytes of the lines are for a 304 too.
    with_304: u32,
    content_type: Range<u32>,
}

impl StoredHead {
    /// Of these fields.
    pub fn new(status: StatusCode, fields: &HeaderMap) -> Self {
        let length = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let mut head = Writer::with_capacity(length);
        fields.iter().for_each(|(name, value)| head.field(name.as_str().as_bytes(), value.as_bytes()));
        head.finish(status)
    }

    /// Of names and values as [`field_lines`](Self::field_lines) gives them. `None` when one of
    /// them cannot be sent as such.
    pub fn read<'a>(
        status: StatusCode,
        fields: impl Iterator<Item = Option<(&'a [u8], &'a [u8])>>,
    ) -> Option<Self> {
        let mut head = Writer::with_capacity(256);
        for field in fields {
            let (name, value) = field?;
            if !is_name(name) || !is_value(value) {
                return None;
            }
            head.field(name, value);
        }
        Some(head.finish(status))
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The fields as HTTP/1 lines (`name: value CRLF`…), without the status line and the empty
    /// line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.lines
    }

    /// Those of them that a 304 has too.
    pub fn bytes_with_304(&self) -> &[u8] {
        &self.lines[..self.with_304 as usize]
    }

    /// Whether Date is among the fields.
    pub fn is_dated(&self) -> bool {
        self.dated
    }

    /// Whether Content-Range is among the fields.
    pub fn has_content_range(&self) -> bool {
        self.has_content_range
    }

    /// The value of Content-Type; empty when there is none.
    pub fn content_type(&self) -> &[u8] {
        &self.lines[self.content_type.start as usize..self.content_type.end as usize]
    }

    /// The same for who needs it as a field.
    pub fn content_type_value(&self) -> Option<HeaderValue> {
        let range = self.content_type.start as usize..self.content_type.end as usize;
        (!range.is_empty()).then(|| HeaderValue::from_maybe_shared(self.lines.slice(range)).ok())?
    }

    /// Names and values, in their order.
    pub fn field_lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        shoal_core::written_fields(&self.lines)
    }

    /// The fields as a map, made anew; its values are slices of the lines.
    pub fn fields(&self) -> HeaderMap {
        self.map_of(self.as_bytes())
    }

    /// The same of those that a 304 has too.
    pub fn fields_with_304(&self) -> HeaderMap {
        self.map_of(self.bytes_with_304())
    }

    /// The same head without the fields of this name.
    pub fn without(&self, name: &HeaderName) -> Self {
        let mut fields = self.fields();
        fields.remove(name);
        Self::new(self.status, &fields)
    }

    /// A map of some of the lines.
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

    /// Bytes of RAM that it takes.
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

/// Room in a field map for what most heads hold, and for what a node adds to them.
const FIELDS_EXPECTED: usize = 16;

/// Lines in the making.
struct Writer {
    /// Those for a 304 too.
    lines: Vec<u8>,
    /// The others.
    rest: Vec<u8>,
    dated: bool,
    has_content_range: bool,
    /// Within the others.
    content_type: Range<usize>,
}

impl Writer {
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
            // Exactly as long as they are, lest a buffer's slack be kept with them.
            lines: Bytes::from(lines.into_boxed_slice()),
            dated,
            has_content_range,
            with_304: with_304 as u32,
            content_type: place(content_type.start)..place(content_type.end),
        }
    }
}

/// A field name as a field map writes it: a token (RFC 9110, 5.6.2) in lower case.
fn is_name(bytes: &[u8]) -> bool {
    let is_token = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9') || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_token)
}

/// A field value (RFC 9110, 5.5): nothing that ends a line.
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
    fn what_a_304_says_stands_first() {
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
    fn what_would_end_a_line_is_not_read() {
        for (name, value) in
            [("x", "a\r\nb: c"), ("x\n", "a"), ("", "a"), ("a b", "c"), ("X", "a"), ("x", "\0")]
        {
            let field = std::iter::once(Some((name.as_bytes(), value.as_bytes())));
            assert!(StoredHead::read(StatusCode::OK, field).is_none(), "{name:?}: {value:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(values in prop::collection::vec("[ -~\u{80}-\u{ff}]{0,20}", 0..8)) {
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
