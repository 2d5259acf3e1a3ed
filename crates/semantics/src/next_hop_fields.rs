//! Fields for the next hop, copied straight from the received message into lines of HTTP/1.
//!
//! A proxy forwards most fields unchanged. So it writes the lines of the next message while it
//! reads those of the last, without a field map in between. Fields for this hop alone stay out: the
//! list of [`fields::is_hop_by_hop`], and fields that Connection names. A list field to which each
//! hop adds is joined into one line behind the others.
//!
//! Cost: one pass over the fields, and one for each list to which this node adds.

use crate::{fields, lists};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, HeaderName, HeaderValue};
use shoal_core::{FieldLines, Fields};
use std::ops::Range;

/// Builder of a message's lines from the lines of another message.
pub struct NextHopFieldsBuilder<'f> {
    source: &'f FieldLines,
    nominated: Vec<HeaderName>,
    lines: NextHopFields,
}

impl<'f> NextHopFieldsBuilder<'f> {
    /// Starts with the fields of `source` that pass this hop, except those for which `is_left_out`
    /// returns `true`.
    pub fn of(source: &'f FieldLines, is_left_out: impl Fn(&[u8]) -> bool) -> Self {
        let nominated = fields::nominated(source);
        let mut lines = NextHopFields { text: Vec::with_capacity(LINES_BYTES), ..NextHopFields::default() };
        for (name, value, whole) in source.lines_as_read() {
            let goes = !fields::is_hop_by_hop(name) && !is_left_out(name);
            if !goes || nominated.iter().any(|other| other.as_str().as_bytes() == name) {
                continue;
            }
            match whole {
                Some(line) => lines.push_line(name, line),
                None => lines.push(name, value),
            }
        }
        Self { source, nominated, lines }
    }

    /// Returns `true` if Connection names this field, so that the field stays here.
    pub fn is_nominated(&self, name: &HeaderName) -> bool {
        self.nominated.contains(name)
    }

    /// Adds a line.
    pub fn field(&mut self, name: &HeaderName, value: &[u8]) {
        self.lines.push(name.as_str().as_bytes(), value);
    }

    /// Adds a list field that was left out, as one line: the received members, then the member that
    /// `write` appends. Returns the appended member.
    pub fn member(&mut self, name: &HeaderName, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let text = &mut self.lines.text;
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        if self.source.may_have(name) && !self.nominated.contains(name) {
            for line in self.source.values(name).filter(|line| !lists::trim(line).is_empty()) {
                text.extend_from_slice(line);
                text.extend_from_slice(b", ");
            }
        }
        let start = text.len();
        write(text);
        let end = text.len();
        text.extend_from_slice(b"\r\n");
        &text[start..end]
    }

    /// Returns all lines.
    pub fn finish(self) -> NextHopFields {
        self.lines
    }
}

/// Fields as HTTP/1 lines (`name: value CRLF`…), ready to be sent.
#[derive(Clone, Debug, Default)]
pub struct NextHopFields {
    text: Vec<u8>,
    /// Place of the line of Expect.
    expect: Option<Range<usize>>,
    /// Place of the value of Content-Length.
    length: Option<Range<usize>>,
}

impl NextHopFields {
    /// Returns the lines.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Adds a line. Neither part may hold a line end.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let start = self.text.len();
        for part in [name, b": ", value, b"\r\n"] {
            self.text.extend_from_slice(part);
        }
        self.note(name, start);
    }

    /// Adds a line that is already written.
    fn push_line(&mut self, name: &[u8], line: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(line);
        self.note(name, start);
    }

    /// Records the last line, which begins at `start`, if it is Expect or Content-Length.
    fn note(&mut self, name: &[u8], start: usize) {
        let end = self.text.len();
        match name.len() {
            6 if name == EXPECT.as_str().as_bytes() => self.expect = Some(start..end),
            14 if name == CONTENT_LENGTH.as_str().as_bytes() => {
                self.length = Some(start + name.len() + ": ".len()..end - "\r\n".len());
            }
            _ => {}
        }
    }

    /// Returns `true` if Expect asks for a `100 Continue`.
    pub fn expects_continue(&self) -> bool {
        let line = self.expect.clone().map(|line| &self.text[line]);
        line.is_some_and(|line| line.eq_ignore_ascii_case(b"expect: 100-continue\r\n"))
    }

    /// Returns the value of Content-Length, if the field is present.
    pub fn content_length(&self) -> Option<&[u8]> {
        self.length.clone().map(|value| &self.text[value])
    }

    /// Returns names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        shoal_core::written_fields(&self.text)
    }

    /// Returns the fields as a map, for HTTP/2.
    pub fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(FIELDS_EXPECTED);
        for (name, value) in self.iter() {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                map.append(name, value);
            }
        }
        map
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for NextHopFields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        let mut lines = Self::default();
        fields.into_iter().for_each(|(name, value)| lines.push(name.as_ref(), value.as_ref()));
        lines
    }
}

/// Room for the lines of most messages, in bytes.
const LINES_BYTES: usize = 1024;

/// Room in a map for the fields of most messages.
const FIELDS_EXPECTED: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::VIA;

    fn lines(fields: &[(&'static str, &'static str)]) -> FieldLines {
        fields.iter().copied().collect()
    }

    fn text(onward: NextHopFieldsBuilder<'_>) -> String {
        String::from_utf8(onward.finish().as_bytes().to_vec()).expect("ASCII")
    }

    #[test]
    fn hop_by_hop_fields_are_not_forwarded() {
        let source = lines(&[
            ("a", "1"),
            ("connection", "b, via"),
            ("b", "2"),
            ("te", "x"),
            ("via", "1.0 x"),
            ("c", ""),
        ]);
        let onward = NextHopFieldsBuilder::of(&source, |name| name == b"a");
        let names = ["b", "c", "via"].map(HeaderName::from_static);
        assert_eq!(names.each_ref().map(|name| onward.is_nominated(name)), [true, false, false]);
        assert_eq!(text(onward), "via: 1.0 x\r\nc: \r\n");
    }

    #[test]
    fn members_are_joined_behind_those_that_came() {
        let source = lines(&[("via", "1.0 x"), ("a", "1"), ("via", ""), ("via", "1.1 y")]);
        let mut onward = NextHopFieldsBuilder::of(&source, |name| name == b"via");
        assert_eq!(onward.member(&VIA, |out| out.extend(b"1.1 z")), b"1.1 z");
        onward.field(&EXPECT, b"nothing");
        assert_eq!(text(onward), "a: 1\r\nvia: 1.0 x, 1.1 y, 1.1 z\r\nexpect: nothing\r\n");
        let source = lines(&[("connection", "x-list"), ("x-list", "mine")]);
        let mut onward = NextHopFieldsBuilder::of(&source, |name| name == b"x-list");
        onward.member(&HeaderName::from_static("x-list"), |out| out.extend(b"new"));
        assert_eq!(text(onward), "x-list: new\r\n", "what was for this hop is not handed on");
    }

    #[test]
    fn lines_report_expect_and_content_length() {
        let fields = [("content-length", "12"), ("expect", "100-Continue"), ("x", "y")];
        let read = lines(&fields);
        for lines in [NextHopFields::from_iter(fields), NextHopFieldsBuilder::of(&read, |_| false).finish()] {
            assert_eq!((lines.content_length(), lines.expects_continue()), (Some(&b"12"[..]), true));
            assert_eq!(lines.to_map(), read.to_map());
        }
        assert!(NextHopFields::default().content_length().is_none());
    }
}
