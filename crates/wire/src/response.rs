//! Response heads as bytes, and the framing of the body after them.

use crate::chunk::CRLF;
use crate::decimal::Decimal;
use http::{HeaderMap, HeaderName, Method, StatusCode, Version, header};

/// Way in which the end of a response's body is made known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// No body; no field gives its length, except fields that the head brings along.
    Bodiless,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// End of the connection, for HTTP/1.0 clients.
    UntilClose,
}

/// Statement of the head about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// No statement: HTTP/1.1 keeps the connection.
    Keep,
    /// The connection is kept, stated explicitly for HTTP/1.0 clients.
    KeepExplicitly,
    /// The connection will be closed.
    Close,
    /// The connection changes to another protocol.
    Upgrade,
}

/// Decides the framing of a body of `length` bytes, or of unknown length.
///
/// RFC 9112 section 6.3: "Any response to a HEAD request and any response with a 1xx
/// (Informational), 204 (No Content), or 304 (Not Modified) status code is always terminated by the
/// first empty line after the header fields … and thus cannot contain a message body"; so is a 2xx
/// response to CONNECT.
pub fn framing(
    method: &Method,
    version: Version,
    status: StatusCode,
    length: Option<u64>,
) -> ResponseFraming {
    if *method == Method::HEAD || is_bodiless(status) || (*method == Method::CONNECT && status.is_success()) {
        return ResponseFraming::Bodiless;
    }
    match length {
        Some(length) => ResponseFraming::Length(length),
        None if version == Version::HTTP_10 => ResponseFraming::UntilClose,
        None => ResponseFraming::Chunked,
    }
}

/// Returns `true` if responses with this status never have a body.
#[inline]
pub fn is_bodiless(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}

/// Appends the status line. It says HTTP/1.1 to every client. RFC 9110 section 6.2: "A server
/// SHOULD send a response version equal to the highest version to which the server is conformant
/// that has a major version less than or equal to the one received in the request."
#[inline]
pub fn status_line(out: &mut Vec<u8>, status: StatusCode) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        other_status_line(out, status);
    }
}

fn other_status_line(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(CRLF);
}

/// Appends one field line.
pub fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(CRLF);
}

/// Appends one field line with a decimal number as its value.
pub fn number_field(out: &mut Vec<u8>, name: &str, value: u64) {
    field(out, name, Decimal::of(value).as_bytes());
}

/// Appends all fields except those that depend on this connection's framing: Content-Length,
/// Transfer-Encoding, Connection and related ones. `Upgrade` stays when the status is 101.
pub fn fields(out: &mut Vec<u8>, status: StatusCode, fields: &HeaderMap) {
    for (name, value) in fields {
        let upgrade = status == StatusCode::SWITCHING_PROTOCOLS && name == header::UPGRADE;
        if upgrade || !belongs_to_connection(name) {
            field(out, name.as_str(), value.as_bytes());
        }
    }
}

/// Appends the fields that give the body's end and the connection's future.
pub fn framing_fields(out: &mut Vec<u8>, framing: ResponseFraming, persistence: Persistence) {
    match framing {
        ResponseFraming::Length(length) => number_field(out, "content-length", length),
        ResponseFraming::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        ResponseFraming::Bodiless | ResponseFraming::UntilClose => {}
    }
    match persistence {
        Persistence::Keep => {}
        Persistence::KeepExplicitly => out.extend_from_slice(b"connection: keep-alive\r\n"),
        Persistence::Close => out.extend_from_slice(b"connection: close\r\n"),
        Persistence::Upgrade => out.extend_from_slice(b"connection: upgrade\r\n"),
    }
}

/// Appends a whole interim response.
pub fn interim(out: &mut Vec<u8>, status: StatusCode, extra: &HeaderMap) {
    debug_assert!(status.is_informational(), "only 1xx responses are interim");
    status_line(out, status);
    fields(out, status, extra);
    out.extend_from_slice(CRLF);
}

/// Returns `true` if a field concerns this connection alone (RFC 9110 section 7.6.1), or message
/// framing.
pub fn belongs_to_connection(name: &HeaderName) -> bool {
    // Comparing lengths first avoids nearly every comparison of names.
    match name.as_str().len() {
        2 => name == header::TE,
        7 => name == header::UPGRADE,
        10 => name == header::CONNECTION || name == "keep-alive",
        14 => name == header::CONTENT_LENGTH,
        16 => name == "proxy-connection",
        17 => name == header::TRANSFER_ENCODING,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn framing_follows_method_version_and_status() {
        use ResponseFraming::{Bodiless, Chunked, Length, UntilClose};
        let (new, old) = (Version::HTTP_11, Version::HTTP_10);
        let cases = [
            (Method::GET, new, 200, Some(5), Length(5)),
            (Method::GET, new, 200, None, Chunked),
            (Method::GET, old, 200, None, UntilClose),
            (Method::GET, new, 204, None, Bodiless),
            (Method::GET, new, 304, Some(5), Bodiless),
            (Method::HEAD, new, 200, Some(5), Bodiless),
            (Method::CONNECT, new, 200, None, Bodiless),
            (Method::CONNECT, new, 403, Some(5), Length(5)),
            (Method::GET, new, 101, None, Bodiless),
        ];
        for (method, version, status, length, expected) in cases {
            let status = StatusCode::from_u16(status).expect("valid");
            assert_eq!(framing(&method, version, status, length), expected, "{method} {status} {length:?}");
        }
    }

    #[test]
    fn heads_read_back_as_written() {
        let mut map = HeaderMap::new();
        map.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        map.append("x-two", HeaderValue::from_static("1"));
        map.append("x-two", HeaderValue::from_static(""));
        map.insert(header::CONNECTION, HeaderValue::from_static("x-two"));
        map.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("gzip"));
        let mut out = Vec::new();
        status_line(&mut out, StatusCode::NOT_FOUND);
        fields(&mut out, StatusCode::NOT_FOUND, &map);
        framing_fields(&mut out, ResponseFraming::Length(u64::MAX), Persistence::Close);
        out.extend_from_slice(CRLF);
        let mut slots = [httparse::EMPTY_HEADER; 8];
        let mut read = httparse::Response::new(&mut slots);
        assert_eq!(read.parse(&out), Ok(httparse::Status::Complete(out.len())));
        assert_eq!((read.code, read.reason), (Some(404), Some("Not Found")));
        let lines: Vec<(&str, &[u8])> = read.headers.iter().map(|line| (line.name, line.value)).collect();
        let expected: [(&str, &[u8]); 5] = [
            ("content-type", b"text/plain"),
            ("x-two", b"1"),
            ("x-two", b""),
            ("content-length", b"18446744073709551615"),
            ("connection", b"close"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn an_upgrade_names_its_protocol() {
        let mut map = HeaderMap::new();
        map.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        let mut out = Vec::new();
        fields(&mut out, StatusCode::OK, &map);
        assert!(out.is_empty());
        fields(&mut out, StatusCode::SWITCHING_PROTOCOLS, &map);
        assert_eq!(out, b"upgrade: websocket\r\n");
    }
}
