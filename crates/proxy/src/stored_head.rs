//! A stored response's status and fields, as small as they get while they can be sent as they are.
//!
//! Kept are HTTP/1 lines in one piece, which most hits copy and nothing else of; a field map of them would take several
//! times the room, and is made for the requests that need one: conditions, ranges, HTTP/2.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use std::ops::Range;

/// The head of a stored response. Its fields are without Age, Cache-Status, Proxy-Status, Content-Length, and without
/// hop-by-hop fields.
pub struct StoredHead {
    status: StatusCode,
    lines: Bytes,
    dated: bool,
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

    /// Of names and values as [`field_lines`](Self::field_lines) gives them. `None` when one of them cannot be sent as such.
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

    /// The fields as HTTP/1 lines (`name: value CRLF`…), without the status line and the empty line.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Whether Date is among the fields.
    pub fn is_dated(&self) -> bool {
        self.dated
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
        let mut fields = HeaderMap::with_capacity(FIELDS_EXPECTED);
        for (name, value) in self.field_lines() {
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

/// Room in a field map for what most heads hold, and for what a node adds to them.
const FIELDS_EXPECTED: usize = 16;

/// Lines in the making.
struct Writer {
    lines: Vec<u8>,
    dated: bool,
    content_type: Range<u32>,
}

impl Writer {
    fn with_capacity(length: usize) -> Self {
        Self { lines: Vec::with_capacity(length), dated: false, content_type: 0..0 }
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(b": ");
        let start = self.lines.len() as u32;
        self.lines.extend_from_slice(value);
        let end = self.lines.len() as u32;
        self.lines.extend_from_slice(b"\r\n");
        self.dated |= name == header::DATE.as_str().as_bytes();
        if name == header::CONTENT_TYPE.as_str().as_bytes() && self.content_type.is_empty() {
            self.content_type = start..end;
        }
    }

    fn finish(self, status: StatusCode) -> StoredHead {
        let Self { lines, dated, content_type } = self;
        // Exactly as long as they are, lest a buffer's slack be kept with them.
        StoredHead { status, lines: Bytes::from(lines.into_boxed_slice()), dated, content_type }
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
        assert_eq!(head.lines(), b"date: then\r\ncontent-type: a: b\r\nx: \r\nx: \xe9 2\r\n");
        assert_eq!((head.content_type(), head.is_dated()), (&b"a: b"[..], true));
        let fields = head.fields();
        assert_eq!(fields.len(), 4);
        assert_eq!(
            fields.get_all("x").iter().map(HeaderValue::as_bytes).collect::<Vec<_>>(),
            [&b""[..], b"\xe9 2"]
        );
        assert_eq!(StoredHead::new(StatusCode::OK, &fields).lines(), head.lines());
        assert_eq!(head.content_type_value().expect("there is one"), "a: b");
    }

    #[test]
    fn no_fields_are_no_lines() {
        let head = head(&[]);
        assert_eq!((head.lines(), head.content_type(), head.fields().len()), (&b""[..], &b""[..], 0));
        assert!(head.content_type_value().is_none() && !head.is_dated());
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
            prop_assert_eq!(read.lines(), head.lines());
        }
    }
}
