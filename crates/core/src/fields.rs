//! Fields of a message: how code reads them, and the lines in which they arrived.
//!
//! A proxy looks at a few of a message's fields and forwards the rest. [`FieldLines`] serves this
//! use: it keeps a head's own bytes and the place of each name and value in them. Making one copies
//! nothing, and looking up a field compares names of the same length. A field map ([`HeaderMap`])
//! hashes and holds each field apart, which pays where fields are changed or looked up often.
//! [`FieldLines::to_map`] makes a map.
//!
//! Cost: making one is one pass over the lines; a lookup compares one length a line.

use crate::byte_class::make_lower_case;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::ops::Range;

/// Fields that are looked up by name.
pub trait Fields {
    /// Returns names, in lower case, and values of all lines.
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])>;

    /// Returns the values of the lines with this name, in their order.
    fn values<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]>;

    /// Returns the value of the first line with this name.
    fn value<'a>(&'a self, name: &HeaderName) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// Returns `true` if there is a line with this name.
    fn has(&self, name: &HeaderName) -> bool {
        self.value(name).is_some()
    }
}

impl Fields for HeaderMap {
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
    }

    fn values<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }

    fn value<'a>(&'a self, name: &HeaderName) -> Option<&'a [u8]> {
        self.get(name).map(HeaderValue::as_bytes)
    }
}

/// Fields as lines of one text. Names are tokens in lower case; no value holds a line end.
#[derive(Clone, Debug, Default)]
pub struct FieldLines {
    text: Bytes,
    lines: Vec<FieldLine>,
    /// One bit for the length of each name. Most lookups are for absent names, and end here.
    lengths: u64,
}

/// Place of a field's name and value in a text.
#[derive(Clone, Copy, Debug)]
pub struct FieldLine {
    /// Offset of the name's first byte.
    pub name_start: u32,
    /// Offset after the name's last byte.
    pub name_end: u32,
    /// Offset of the value's first byte.
    pub value_start: u32,
    /// Offset after the value's last byte.
    pub value_end: u32,
}

impl FieldLine {
    /// Returns the place of the name.
    #[inline]
    pub fn name(self) -> Range<usize> {
        self.name_start as usize..self.name_end as usize
    }

    /// Returns the place of the value.
    #[inline]
    pub fn value(self) -> Range<usize> {
        self.value_start as usize..self.value_end as usize
    }

    /// Returns `true` if the name in `text` is `name`.
    #[inline]
    fn is_named(self, name: &[u8], text: &[u8]) -> bool {
        (self.name_end - self.name_start) as usize == name.len() && text[self.name()] == *name
    }
}

impl FieldLines {
    /// Returns the fields with lines at these places of `text`. The caller has checked that names
    /// are tokens and that values hold no line end. Names need not be in lower case yet.
    pub fn of_text(mut text: BytesMut, lines: Vec<FieldLine>) -> Self {
        debug_assert!(
            lines.iter().all(|line| {
                line.name_start <= line.name_end
                    && line.name_end <= line.value_start
                    && line.value_start <= line.value_end
                    && line.value_end as usize <= text.len()
            }),
            "names and values lie in the text, in order"
        );
        for line in &lines {
            make_lower_case(&mut text[line.name()]);
        }
        Self::new(text.freeze(), lines)
    }

    fn new(text: Bytes, lines: Vec<FieldLine>) -> Self {
        let lengths = lines.iter().fold(0, |lengths, line| lengths | length_bit(line.name().len()));
        Self { text, lines, lengths }
    }

    /// Returns `false` for most names that no line has; `true` if a line may have this name.
    #[inline]
    pub fn may_have(&self, name: &HeaderName) -> bool {
        self.lengths & length_bit(name.as_str().len()) != 0
    }

    /// Returns a part of the text that holds the lines.
    pub fn slice(&self, place: Range<usize>) -> Bytes {
        self.text.slice(place)
    }

    /// Returns the first value of this name. The value shares the text and keeps the text alive.
    pub fn shared_value(&self, name: &HeaderName) -> Option<HeaderValue> {
        HeaderValue::from_maybe_shared(self.text.slice_ref(self.value(name)?)).ok()
    }

    /// Returns the same fields with one line of this name, at the place of the first. That line
    /// says `value`; without a value there is no line of this name.
    pub fn with_only(&self, name: &HeaderName, value: Option<&[u8]>) -> Self {
        let mut value = value;
        Self::from_iter(Fields::lines(self).filter_map(|(other, held)| {
            if other != name.as_str().as_bytes() {
                return Some((other, held));
            }
            value.take().map(|value| (other, value))
        }))
    }

    /// Returns the fields as a map; the values are slices of the text.
    pub fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.lines.len() + MAP_ROOM);
        for line in &self.lines {
            let name = HeaderName::from_bytes(&self.text[line.name()]);
            let value = HeaderValue::from_maybe_shared(self.text.slice(line.value()));
            if let (Ok(name), Ok(value)) = (name, value) {
                map.append(name, value);
            }
        }
        map
    }

    /// Returns names and values as [`Fields::lines`] does. A line that stands in the text as it
    /// would be written, `name: value CRLF`, comes with its bytes.
    pub fn lines_as_read(&self) -> impl Iterator<Item = (&[u8], &[u8], Option<&[u8]>)> {
        self.lines.iter().map(|line| {
            let (name, value) = (&self.text[line.name()], &self.text[line.value()]);
            let rest = &self.text[line.name_end as usize..];
            let end = &self.text[line.value_end as usize..];
            let is_written = line.value_start == line.name_end + 2
                && rest.first_chunk() == Some(b": ")
                && end.first_chunk() == Some(b"\r\n");
            (
                name,
                value,
                is_written.then(|| &self.text[line.name_start as usize..line.value_end as usize + 2]),
            )
        })
    }
}

/// Takes pairs of a name in lower case and a value.
impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for FieldLines {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        let mut text = Vec::new();
        let mut put = |part: &[u8], end: &[u8]| {
            let start = text.len();
            text.extend_from_slice(part);
            text.extend_from_slice(end);
            (start as u32, (start + part.len()) as u32)
        };
        let lines = fields.into_iter().map(|(name, value)| {
            let ((name_start, name_end), (value_start, value_end)) =
                (put(name.as_ref(), b": "), put(value.as_ref(), b"\r\n"));
            FieldLine { name_start, name_end, value_start, value_end }
        });
        let lines = lines.collect();
        Self::new(text.into(), lines)
    }
}

impl Fields for FieldLines {
    #[inline]
    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (&self.text[line.name()], &self.text[line.value()]))
    }

    #[inline]
    fn values<'a>(&'a self, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let lines = if self.may_have(name) { &self.lines[..] } else { &[] };
        let name = name.as_str().as_bytes();
        lines.iter().filter(move |line| line.is_named(name, &self.text)).map(|line| &self.text[line.value()])
    }
}

/// Returns names and values of fields in the form of HTTP/1 (`name: value CRLF`…), in their order.
pub fn written_fields(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    // No value holds a line feed.
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line.get(colon + 2..line.len() - 1)?))
    })
}

/// Returns a value as text if it holds only visible ASCII, spaces and tabs, as
/// [`HeaderValue::to_str`] does.
pub fn value_text(value: &[u8]) -> Option<&str> {
    let is_text = value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    std::str::from_utf8(value).ok().filter(|_| is_text)
}

/// Returns the bit that stands for names of this length.
fn length_bit(length: usize) -> u64 {
    1 << (length % 64)
}

/// Room in a map for the fields that a proxy adds.
const MAP_ROOM: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{AGE, DATE, ETAG, SET_COOKIE};

    fn lines() -> FieldLines {
        let text = "Set-Cookie: a=1\r\nETag: \"x\"\r\nset-cookie: b=2\r\nX: \r\n";
        let mut start = 0;
        let places = text.split_inclusive("\r\n").map(|line| {
            let colon = line.find(':').expect("a field line") as u32;
            let (name_start, end) = (start, start + line.len() as u32 - 2);
            start = end + 2;
            FieldLine {
                name_start,
                name_end: name_start + colon,
                value_start: name_start + colon + 2,
                value_end: end,
            }
        });
        FieldLines::of_text(text.into(), places.collect())
    }

    #[test]
    fn lines_and_map_are_asked_alike() {
        let (lines, map) = (lines(), lines().to_map());
        for name in [AGE, DATE, ETAG, SET_COOKIE, HeaderName::from_static("x")] {
            let (one, other) = (lines.values(&name), Fields::values(&map, &name));
            assert_eq!(one.collect::<Vec<_>>(), other.collect::<Vec<_>>(), "{name}");
            assert_eq!((lines.value(&name), lines.has(&name)), (map.value(&name), map.contains_key(&name)));
        }
        assert_eq!(lines.values(&SET_COOKIE).collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        assert_eq!(FieldLines::from_iter(Fields::lines(&map)).to_map(), map);
        let as_read = |lines: &FieldLines| {
            lines.lines_as_read().map(|(.., whole)| whole.map(<[u8]>::to_vec)).collect::<Vec<_>>()
        };
        let whole = |line: &str| Some(line.as_bytes().to_vec());
        let written = [
            whole("set-cookie: a=1\r\n"),
            whole("etag: \"x\"\r\n"),
            whole("set-cookie: b=2\r\n"),
            whole("x: \r\n"),
        ];
        assert_eq!(as_read(&lines), written);
        assert_eq!(as_read(&FieldLines::from_iter(Fields::lines(&lines))), written);
        let place = FieldLine { name_start: 0, name_end: 1, value_start: 2, value_end: 3 };
        for odd in ["x:a\r\n", "x:a\n", "x:a", "x:a \r\n"] {
            assert_eq!(as_read(&FieldLines::of_text(odd.into(), vec![place])), [None], "{odd:?}");
        }
        for value in [&b"a\t ~"[..], b"", b"a\x7f", b"\xc3\xa9"] {
            let held = HeaderValue::from_bytes(value).ok();
            assert_eq!(value_text(value), held.as_ref().and_then(|held| held.to_str().ok()), "{value:?}");
        }
        assert_eq!(lines.shared_value(&ETAG).expect("there is one"), "\"x\"");
    }

    #[test]
    fn one_line_takes_the_place_of_several() {
        let texts = |lines: &FieldLines| -> Vec<String> {
            let text = |(name, value): (&[u8], &[u8])| [name, b"=", value].concat();
            Fields::lines(lines).map(|line| String::from_utf8(text(line)).expect("ASCII")).collect()
        };
        assert_eq!(texts(&lines().with_only(&SET_COOKIE, Some(b"c"))), ["set-cookie=c", "etag=\"x\"", "x="]);
        assert_eq!(texts(&lines().with_only(&SET_COOKIE, None)), ["etag=\"x\"", "x="]);
        assert_eq!(texts(&lines().with_only(&AGE, Some(b"1"))), texts(&lines()));
    }
}
