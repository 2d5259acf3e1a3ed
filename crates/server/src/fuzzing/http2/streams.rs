//! One stream as its client sees it, with checks of the server's frames.

use crate::fuzzing::answers::{BODY, BODY_MAX};
use crate::http2::STREAM_WINDOW;
use shoal_http2::hpack::FieldList;

/// State of one stream.
#[derive(Debug, Default, PartialEq)]
pub(super) struct StreamRecord {
    /// Method and path of the request.
    method: Vec<u8>,
    path: Vec<u8>,
    /// Bytes that the server may send.
    pub window: i64,
    /// Bytes that the client may send.
    pub room: i64,
    /// The client's half has ended.
    pub said_all: bool,
    /// Status of the final response, 0 before it.
    status: u16,
    /// Content-Length of the response.
    length: Option<usize>,
    /// Number of body bytes received.
    bytes: usize,
    /// The server's half has ended.
    ended: bool,
    /// The server has reset the stream.
    reset: bool,
    /// The client has reset the stream.
    pub given_up: bool,
}

impl StreamRecord {
    /// Creates a stream that begins with these fields.
    pub fn new(fields: &FieldList, said_all: bool, (window, room): (i64, i64)) -> Self {
        let value = |name: &[u8]| {
            let field = fields.iter().find(|(other, _)| *other == name);
            field.map(|(_, value)| value.to_vec()).unwrap_or_default()
        };
        Self { method: value(b":method"), path: value(b":path"), window, room, said_all, ..Self::default() }
    }

    /// Returns `true` if the client expects no more frames on the stream.
    pub fn is_over(&self) -> bool {
        self.ended || self.reset || self.given_up
    }

    /// Returns `true` if the client may send more on the stream.
    pub fn may_say(&self) -> bool {
        !self.said_all && !self.given_up && !self.reset
    }

    /// Returns `true` if the stream is never answered.
    pub fn waits_for_ever(&self) -> bool {
        self.path.starts_with(b"/never")
    }

    /// Checks a field block of the server.
    pub fn took_fields(&mut self, fields: &FieldList, end: bool) {
        assert!(!self.ended && !self.reset, "{self:?} goes on after its end");
        let sound = |name: &[u8]| !name.is_empty() && !name.iter().any(u8::is_ascii_uppercase);
        assert!(fields.iter().all(|(name, _)| sound(name)), "{fields:?}");
        if self.status != 0 {
            assert!(end, "{self:?}: a second head, or trailers that do not end it");
            assert!(
                fields.iter().all(|(name, _)| name[0] != b':'),
                "trailers with pseudo-fields: {fields:?}"
            );
            return self.end();
        }
        let number = |bytes: &[u8]| -> Option<usize> { std::str::from_utf8(bytes).ok()?.parse().ok() };
        let status = fields.iter().next().filter(|(name, _)| *name == b":status");
        let status = status.and_then(|(_, value)| number(value));
        let status = status.unwrap_or_else(|| panic!("no status first: {fields:?}")) as u16;
        let mut lines = fields.iter().skip(1);
        assert!(fields.iter().skip(1).all(|(name, _)| name[0] != b':'), "two pseudo-fields: {fields:?}");
        if (100..200).contains(&status) {
            assert!(!end && status != 101, "an interim response {status}, and is it the end? {end}");
            return;
        }
        let length = lines.find(|(name, _)| *name == b"content-length");
        self.length = length.map(|(_, value)| number(value).expect("a number"));
        self.status = status;
        if end {
            self.end();
        }
    }

    /// Checks a DATA frame of the server, which is within the connection's window.
    pub fn took_data(&mut self, data: &[u8], end: bool) {
        let bytes = data.len();
        assert!(!self.ended && !self.reset, "{self:?} goes on after its end");
        assert!(self.status != 0, "{self:?}: a body before its head");
        self.window -= bytes as i64;
        assert!(bytes == 0 || self.window >= 0, "{self:?}: too much by its window");
        let is_due = self.wanted().is_none() || BODY[self.bytes..].starts_with(data);
        assert!(is_due, "{self:?}: other bytes than those");
        self.bytes += bytes;
        assert!(self.length.is_none_or(|length| self.bytes <= length), "{self:?}: more than it said");
        if end {
            self.end();
        }
    }

    /// Checks a window update of the server.
    pub fn took_room(&mut self, more: i64) {
        assert!(!self.reset, "{self:?}: room after a reset");
        self.room += more;
        assert!(self.room <= i64::from(STREAM_WINDOW), "{self:?}: more room than was announced");
    }

    /// Records a reset by the server. Another reset may follow, for frames that were on the way.
    pub fn took_reset(&mut self) {
        self.reset = true;
    }

    /// Checks the response at its end: its length is the declared and the requested one.
    fn end(&mut self) {
        self.ended = true;
        if self.method == b"HEAD" || self.status == 304 {
            return assert_eq!(self.bytes, 0, "{self:?}: a body that has no place");
        }
        assert!(self.length.is_none_or(|length| length == self.bytes), "{self:?}: less than it said");
        if let Some(wanted) = self.wanted() {
            assert_eq!(self.bytes, wanted, "{self:?}: not what was asked for");
        }
    }

    /// Returns the requested length of the body, if known.
    fn wanted(&self) -> Option<usize> {
        let path = std::str::from_utf8(&self.path).ok().filter(|_| self.status == 200)?;
        let asked = path.strip_prefix("/hit/").or(path.strip_prefix("/memory/"))?;
        Some(asked.parse::<usize>().ok()?.min(BODY_MAX))
    }
}
