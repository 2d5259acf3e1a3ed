//! Corpus of ambiguous requests: in practice, two servers in a row have read each in two ways.
//!
//! Each must be refused with the given status. The second table holds similar valid requests that
//! must be accepted, so that a parser that refuses everything fails.

use bytes::BytesMut;
use shoal_wire::{HeadLimits, HeadParser, ParseOutcome};

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 16_384, fields_max: 64, target_bytes_max: 4096 };

#[test]
fn ambiguous_requests_are_refused() {
    for (name, text, status) in REFUSED {
        match HeadParser::new().parse(&mut BytesMut::from(*text), &LIMITS) {
            ParseOutcome::Refused(refusal) => {
                assert_eq!(refusal.status.as_u16(), *status, "{name}: {refusal:?}")
            }
            other => panic!("{name} gave {other:?}"),
        }
    }
}

#[test]
fn sound_requests_are_taken() {
    for (name, text) in TAKEN {
        let outcome = HeadParser::new().parse(&mut BytesMut::from(*text), &LIMITS);
        assert!(matches!(outcome, ParseOutcome::Head(_)), "{name} gave {outcome:?}");
    }
}

const REFUSED: &[(&str, &[u8], u16)] = &[
    // Two framings.
    (
        "length and chunked",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
        400,
    ),
    (
        "chunked and length",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n",
        400,
    ),
    (
        "chunked and length 0",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
        400,
    ),
    (
        "differing lengths",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nContent-Length: 5\r\n\r\n",
        400,
    ),
    (
        "equal lengths twice",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nContent-Length: 6\r\n\r\n",
        400,
    ),
    ("list of lengths", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6, 6\r\n\r\n", 400),
    // Lengths that some parsers read as numbers.
    ("signed length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +6\r\n\r\n", 400),
    ("negative length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -6\r\n\r\n", 400),
    ("hexadecimal length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x6\r\n\r\n", 400),
    ("length with underscore", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n", 400),
    ("length with inner space", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 0\r\n\r\n", 400),
    ("empty length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
    (
        "length beyond 64 bits",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
        400,
    ),
    ("length with vertical tab", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \x0b6\r\n\r\n", 400),
    // Codings that some parsers read as chunked.
    ("unknown coding", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
    ("identity", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400),
    ("empty coding", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", 400),
    ("gzip then chunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
    ("chunked then gzip", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400),
    (
        "chunked then identity",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
        400,
    ),
    (
        "chunked twice in a list",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        400,
    ),
    (
        "chunked twice in lines",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    (
        "chunked then another line",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n",
        400,
    ),
    ("quoted chunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", 400),
    ("chunked with parameter", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n", 400),
    (
        "chunked after vertical tab",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n",
        400,
    ),
    ("chunked in HTTP/1.0", b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    // Field names that some parsers do not see.
    ("space before colon", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
    ("tab before colon", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 6\r\n\r\n", 400),
    ("space before first field", b"POST / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    ("folded line", b"POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n", 400),
    ("folded coding", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", 400),
    ("no name", b"POST / HTTP/1.1\r\nHost: a\r\n: chunked\r\n\r\n", 400),
    ("no colon", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\r\n\r\n", 400),
    ("control in name", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer\x01Encoding: chunked\r\n\r\n", 400),
    ("non-ASCII in name", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encod\xefng: chunked\r\n\r\n", 400),
    ("zero in name", b"POST / HTTP/1.1\r\nHost: a\r\nX\0: y\r\n\r\n", 400),
    // Line ends that only some parsers accept.
    ("bare LF after the request line", b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
    ("bare LF after a field", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400),
    (
        "bare LF after an empty field",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: \nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    ("bare LF at the end", b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
    ("LF LF", b"GET / HTTP/1.1\nHost: a\n\n", 400),
    ("bare CR in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n", 400),
    ("bare CR after the request line", b"GET / HTTP/1.1\rHost: a\r\n\r\n", 400),
    ("CR CR LF", b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", 400),
    ("zero in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\0z\r\n\r\n", 400),
    ("DEL in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\x7f\r\n\r\n", 400),
    // Request lines.
    ("two spaces", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("tab in the request line", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("space in the target", b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("trailing space", b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
    ("no version", b"GET /\r\nHost: a\r\n\r\n", 400),
    ("lower-case version", b"GET / http/1.1\r\nHost: a\r\n\r\n", 400),
    ("version 1.10", b"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400),
    ("version 1.2", b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
    ("version 2.0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("method with brace", b"GE{T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("control in the target", b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("fragment", b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("target without slash", b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("asterisk for GET", b"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    // Host.
    ("no Host", b"GET / HTTP/1.1\r\n\r\n", 400),
    ("two Hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("equal Hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("empty Host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    ("list of Hosts", b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
    ("Host with user", b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
    ("Host with path", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ("Host with odd port", b"GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n", 400),
    ("absolute target, no Host", b"GET http://a/ HTTP/1.1\r\n\r\n", 400),
    ("absolute target, other Host", b"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 400),
    ("absolute target, other port", b"GET http://a/ HTTP/1.1\r\nHost: a:8080\r\n\r\n", 400),
    ("absolute target with user", b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("absolute target, empty authority", b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    // CONNECT.
    ("CONNECT with path", b"CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("CONNECT with URL", b"CONNECT http://a:443/ HTTP/1.1\r\nHost: a:443\r\n\r\n", 400),
    ("CONNECT without port", b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("CONNECT to another Host", b"CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", 400),
    ("CONNECT with a body", b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 5\r\n\r\n", 400),
    (
        "CONNECT with chunks",
        b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nTransfer-Encoding: chunked\r\n\r\n",
        400,
    ),
    ("CONNECT with user", b"CONNECT u@a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 400),
    // Others.
    ("unknown expectation", b"GET / HTTP/1.1\r\nHost: a\r\nExpect: miracle\r\n\r\n", 417),
];

const TAKEN: &[(&str, &[u8])] = &[
    ("chunked", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("chunked among whitespace", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \t chunked \t\r\n\r\n"),
    ("length", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n"),
    ("no space after colon", b"POST / HTTP/1.1\r\nHost:a\r\nContent-Length:6\r\n\r\n"),
    ("similar names", b"POST / HTTP/1.1\r\nHost: a\r\nX-Content-Length: x\r\nTransfer-Encodings: y\r\n\r\n"),
    ("non-ASCII in a value", b"GET / HTTP/1.1\r\nHost: a\r\nX: \xc3\xa9\xff\r\n\r\n"),
    ("empty values", b"GET / HTTP/1.1\r\nHost: a\r\nX:\r\nY: \r\n\r\n"),
    ("unknown method", b"BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("HTTP/1.0 without Host", b"GET / HTTP/1.0\r\n\r\n"),
    ("absolute target", b"GET http://a:80/ HTTP/1.1\r\nHost: A\r\n\r\n"),
    ("CONNECT", b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"),
    ("OPTIONS *", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
];
