//! Fields that decide the end of a request and the future of its connection.
//!
//! The parser gathers them while it reads the head, and judges them once the head is whole. The
//! rules are those of RFC 9112 section 6. Wherever the RFC lets a recipient repair a message, this
//! parser refuses the message instead.

use crate::{BODY_BYTES_MAX, RequestRefusal};
use http::{Method, Version};

/// Way in which the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// The body has this number of bytes, at least one.
    Length(u64),
    /// The body is in chunks.
    Chunked,
}

/// Statements of one head's fields about framing and the connection.
#[derive(Debug, Default)]
pub(super) struct Framing<'a> {
    pub host: Option<&'a [u8]>,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    upgrade_listed: bool,
    upgrade_named: bool,
    pub expects_continue: bool,
    pub accepts_trailers: bool,
}

impl<'a> Framing<'a> {
    /// Records one field; most fields are irrelevant here.
    pub fn note(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), RequestRefusal> {
        // Comparing lengths first avoids nearly every comparison of names.
        match name.len() {
            2 if is(name, b"te") => self.accepts_trailers |= lists(value, b"trailers"),
            4 if is(name, b"host") => self.note_host(value)?,
            6 if is(name, b"expect") => self.note_expect(value)?,
            7 if is(name, b"upgrade") => self.upgrade_named = true,
            10 if is(name, b"connection") => self.note_connection(value),
            14 if is(name, b"content-length") => self.note_length(value)?,
            17 if is(name, b"transfer-encoding") => self.note_coding(value)?,
            _ => {}
        }
        Ok(())
    }

    /// Returns the body's framing, after all fields were recorded.
    ///
    /// RFC 9112 section 6.1: "A server MAY reject a request that contains both Content-Length and
    /// Transfer-Encoding"; "A server or client that receives an HTTP/1.0 message containing a
    /// Transfer-Encoding header field MUST treat the message as if the framing is faulty".
    pub fn body(&self, method: &Method, version: Version) -> Result<BodyFraming, RequestRefusal> {
        let framing = match (self.chunked, self.length) {
            (true, Some(_)) => {
                return Err(RequestRefusal::bad_request("both Content-Length and Transfer-Encoding"));
            }
            (true, None) if version == Version::HTTP_10 => {
                return Err(RequestRefusal::bad_request("Transfer-Encoding in an HTTP/1.0 request"));
            }
            (true, None) => BodyFraming::Chunked,
            (false, Some(length)) if length > 0 => BodyFraming::Length(length),
            (false, _) => BodyFraming::None,
        };
        // RFC 9110 section 9.3.6: "A CONNECT request message does not have content." Bytes after
        // the head belong to the tunnel, so that a length could only mislead.
        if *method == Method::CONNECT && framing != BodyFraming::None {
            return Err(RequestRefusal::bad_request("CONNECT with a body"));
        }
        Ok(framing)
    }

    /// Returns `true` if the client wants the connection kept (RFC 9112 section 9.3).
    pub fn keeps_alive(&self, version: Version) -> bool {
        !self.close && (version != Version::HTTP_10 || self.keep_alive)
    }

    /// Returns `true` if the client requests another protocol on this connection. RFC 9110 section
    /// 7.8: "A server MUST ignore an Upgrade header field that is received in an HTTP/1.0 request."
    pub fn upgrades(&self, version: Version) -> bool {
        self.upgrade_listed && self.upgrade_named && version != Version::HTTP_10
    }

    /// Records Host. RFC 9112 section 3.2: "A server MUST respond with a 400 (Bad Request) status
    /// code … to any request message that contains more than one Host header field line".
    fn note_host(&mut self, value: &'a [u8]) -> Result<(), RequestRefusal> {
        match self.host.replace(value) {
            None => Ok(()),
            Some(_) => Err(RequestRefusal::bad_request("more than one Host")),
        }
    }

    /// Records Expect. RFC 9110 section 10.1.1: "A server that receives an Expect field value
    /// containing a member other than 100-continue MAY respond with a 417".
    fn note_expect(&mut self, value: &[u8]) -> Result<(), RequestRefusal> {
        if !is(value, b"100-continue") {
            return Err(RequestRefusal::expectation_failed());
        }
        self.expects_continue = true;
        Ok(())
    }

    fn note_connection(&mut self, value: &[u8]) {
        for token in members(value) {
            match token.len() {
                5 if is(token, b"close") => self.close = true,
                10 if is(token, b"keep-alive") => self.keep_alive = true,
                7 if is(token, b"upgrade") => self.upgrade_listed = true,
                _ => {}
            }
        }
    }

    /// Records Content-Length. RFC 9110 section 8.6 allows folding a list of equal lengths into
    /// one. Such a list is refused, as no sound client sends it.
    fn note_length(&mut self, value: &[u8]) -> Result<(), RequestRefusal> {
        if self.length.is_some() {
            return Err(RequestRefusal::bad_request("more than one Content-Length"));
        }
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(RequestRefusal::bad_request("invalid Content-Length"));
        }
        let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        let length = length.filter(|length| *length <= BODY_BYTES_MAX);
        self.length = Some(length.ok_or(RequestRefusal::bad_request("Content-Length too large"))?);
        Ok(())
    }

    /// Records Transfer-Encoding. RFC 9112 section 6.1: "A server that receives a request message
    /// with a transfer coding it does not understand SHOULD respond with 501". Section 6.3: when
    /// chunked is not the final coding, "the server MUST respond with the 400 (Bad Request) status
    /// code and then close the connection".
    fn note_coding(&mut self, value: &[u8]) -> Result<(), RequestRefusal> {
        if self.chunked {
            return Err(RequestRefusal::bad_request("more than one Transfer-Encoding"));
        }
        if is(value, b"chunked") {
            self.chunked = true;
            return Ok(());
        }
        let mut codings = members(value);
        let last = codings.next_back().unwrap_or_default();
        if is(last, b"chunked") && !codings.any(|coding| is(coding, b"chunked")) {
            return Err(RequestRefusal::not_implemented("transfer coding not implemented"));
        }
        Err(RequestRefusal::bad_request("invalid Transfer-Encoding"))
    }
}

/// Returns the members of a comma-separated list, without surrounding whitespace.
fn members(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

/// Returns `true` if a list names `token`; parameters are ignored.
fn lists(value: &[u8], token: &[u8]) -> bool {
    members(value).any(|member| {
        let name = member.split(|&byte| byte == b';').next().unwrap_or_default();
        is(name.trim_ascii_end(), token)
    })
}

fn is(text: &[u8], lower_case: &[u8]) -> bool {
    text.eq_ignore_ascii_case(lower_case)
}
