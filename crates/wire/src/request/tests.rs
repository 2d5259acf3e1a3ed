//! Request heads: accepted and refused ones, and that splitting changes nothing.

use super::*;
use http::StatusCode;
use http::header::HOST;
use proptest::prelude::*;

const LIMITS: HeadLimits = HeadLimits { head_bytes_max: 4096, fields_max: 16, target_bytes_max: 256 };

fn parse(text: &[u8]) -> ParseOutcome {
    HeadParser::new().parse(&mut BytesMut::from(text), &LIMITS)
}

fn taken(text: &[u8]) -> RequestHead {
    match parse(text) {
        ParseOutcome::Head(head) => head,
        other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(text)),
    }
}

/// Gives the parser one byte at a time; returns the rest of the buffer too.
fn drip(text: &[u8]) -> (ParseOutcome, Vec<u8>) {
    let mut parser = HeadParser::new();
    let mut buffer = BytesMut::new();
    for (at, byte) in text.iter().enumerate() {
        buffer.extend_from_slice(&[*byte]);
        match parser.parse(&mut buffer, &LIMITS) {
            ParseOutcome::Incomplete => {}
            outcome => {
                buffer.extend_from_slice(&text[at + 1..]);
                return (outcome, buffer.to_vec());
            }
        }
    }
    (ParseOutcome::Incomplete, buffer.to_vec())
}

#[test]
fn a_plain_request_is_taken_off_the_buffer() {
    let text = b"GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nX-Empty: \t \r\nAccept:  */* \r\n\r\nGET /next";
    let mut buffer = BytesMut::from(&text[..]);
    let ParseOutcome::Head(head) = HeadParser::new().parse(&mut buffer, &LIMITS) else { panic!("refused") };
    assert_eq!(head.parts.method, Method::GET);
    assert_eq!(head.parts.uri, "/a?b=c");
    assert_eq!(head.parts.version, Version::HTTP_11);
    let fields = head.parts.fields.to_map();
    assert_eq!(fields[HOST], "example.org");
    assert_eq!(fields["accept"], "*/*");
    assert_eq!(fields["x-empty"], "");
    assert_eq!((head.body, head.keep_alive, head.upgrade), (BodyFraming::None, true, false));
    assert_eq!(head.head_bytes + buffer.len(), text.len());
    assert_eq!(&buffer[..], b"GET /next");
}

#[test]
fn values_are_slices_of_the_buffer() {
    let mut buffer = BytesMut::from(&b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"[..]);
    let place = buffer.as_ptr() as usize..buffer.as_ptr() as usize + buffer.len();
    let ParseOutcome::Head(head) = HeadParser::new().parse(&mut buffer, &LIMITS) else { panic!("refused") };
    assert!(place.contains(&(head.parts.fields.value(&HOST).expect("one").as_ptr() as usize)));
}

#[test]
fn wishes_are_read_from_the_fields() {
    // (fields, keep_alive, expects_continue, accepts_trailers, upgrade)
    let cases: [(&str, &str, bool, bool, bool, bool); 9] = [
        ("1.1", "", true, false, false, false),
        ("1.1", "Connection: Close\r\n", false, false, false, false),
        ("1.1", "Connection: foo , close\r\n", false, false, false, false),
        ("1.0", "", false, false, false, false),
        ("1.0", "Connection: keep-alive\r\n", true, false, false, false),
        ("1.1", "Expect: 100-Continue\r\nContent-Length: 3\r\n", true, true, false, false),
        ("1.0", "Expect: 100-continue\r\nContent-Length: 3\r\n", false, false, false, false),
        ("1.1", "TE: deflate;q=0.5, trailers\r\n", true, false, true, false),
        ("1.1", "Connection: Upgrade\r\nUpgrade: websocket\r\n", true, false, false, true),
    ];
    for (version, fields, keep_alive, expects_continue, accepts_trailers, upgrade) in cases {
        let head = taken(format!("PUT / HTTP/{version}\r\nHost: a\r\n{fields}\r\n").as_bytes());
        let wishes = (head.keep_alive, head.expects_continue, head.accepts_trailers, head.upgrade);
        assert_eq!(wishes, (keep_alive, expects_continue, accepts_trailers, upgrade), "{version} {fields}");
    }
}

#[test]
fn bodies_are_framed() {
    let cases = [
        ("Content-Length: 0", BodyFraming::None),
        ("Content-Length: 9223372036854775807", BodyFraming::Length(i64::MAX as u64)),
        ("content-length: 007", BodyFraming::Length(7)),
        ("Transfer-Encoding: Chunked", BodyFraming::Chunked),
    ];
    for (field, framing) in cases {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        assert_eq!(taken(text.as_bytes()).body, framing, "{field}");
    }
}

#[test]
fn targets_have_four_forms() {
    let cases = [
        ("GET //evil/x", "a", "//evil/x"),
        ("OPTIONS *", "a", "*"),
        ("GET http://Example.org/x?y", "example.org:80", "http://Example.org/x?y"),
        ("GET https://[::1]:8443", "[::1]:8443", "https://[::1]:8443/"),
        ("CONNECT example.org:443", "example.org:443", "example.org:443"),
        ("CONNECT example.org:443", "example.org", "example.org:443"),
    ];
    for (line, host, uri) in cases {
        let text = format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(taken(text.as_bytes()).parts.uri.to_string(), uri, "{line}");
    }
}

#[test]
fn sizes_are_bounded_exactly() {
    let target = |length: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(length - 1));
    assert!(matches!(parse(target(256).as_bytes()), ParseOutcome::Head(_)));
    check_refused(target(257).as_bytes(), 414);
    check_refused(target(9000).as_bytes(), 414);
    let fields = |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(count - 1));
    assert!(matches!(parse(fields(16).as_bytes()), ParseOutcome::Head(_)));
    check_refused(fields(17).as_bytes(), 431);
    let head = |size: usize| {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nB: ";
        format!("{start}{}\r\n\r\n", "b".repeat(size - start.len() - 4))
    };
    assert!(matches!(parse(head(4096).as_bytes()), ParseOutcome::Head(_)));
    check_refused(head(4097).as_bytes(), 431);
    let many = HeadLimits { fields_max: 300, ..LIMITS };
    let mut buffer = BytesMut::from(fields(300).as_bytes());
    assert!(matches!(HeadParser::new().parse(&mut buffer, &many), ParseOutcome::Head(_)));
}

fn check_refused(text: &[u8], status: u16) {
    let status = StatusCode::from_u16(status).expect("valid");
    for outcome in [parse(text), drip(text).0] {
        match outcome {
            ParseOutcome::Refused(refusal) => assert_eq!(refusal.status, status, "{refusal:?}"),
            other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(text)),
        }
    }
}

/// Holds also where plain requests are answered, since `take_head` does not take their heads.
#[test]
fn empty_lines_count_per_request() {
    let mut parser = HeadParser::new();
    for _ in 0..5 {
        let mut buffer = BytesMut::from(&b"\r\n"[..]);
        assert_eq!(parser.find_head(&mut buffer, &LIMITS), Ok(false));
        buffer.extend_from_slice(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n");
        assert!(parser.peek_fast_path(&buffer, &LIMITS).is_some());
        parser.discard_peeked();
    }
}

#[test]
fn one_empty_line_before_a_request_is_skipped() {
    taken(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    check_refused(b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    check_refused(b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
}

#[test]
fn unfinished_heads_are_incomplete() {
    for text in ["", "\r", "G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHo"]
    {
        assert!(matches!(parse(text.as_bytes()), ParseOutcome::Incomplete), "{text:?}");
    }
}

#[test]
fn a_dripping_head_is_tokenized_seldom() {
    let mut parser = HeadParser::new();
    let mut buffer = BytesMut::new();
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\nB: {}\r\n\r\n", "b".repeat(3000));
    let mut thresholds = std::collections::BTreeSet::new();
    for byte in text.bytes() {
        buffer.extend_from_slice(&[byte]);
        parser.parse(&mut buffer, &LIMITS);
        thresholds.insert(parser.attempt_at);
    }
    assert!(buffer.is_empty(), "the head was not taken");
    assert!(thresholds.len() < 16, "{} attempts", thresholds.len());
}

/// Makes pieces of which valid and invalid heads are composed.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("GET / HTTP/1.1\r\n"),
        Just("POST http://a/ HTTP/1.1\r\n"),
        Just("GET / HTTP/1.0\r\n"),
        Just("Host: a\r\n"),
        Just("Host : b\r\n"),
        Just("Content-Length: 3\r\n"),
        Just("Transfer-Encoding: chunked\r\n"),
        Just("X: y\r\n"),
        Just(" folded\r\n"),
        Just("X: y\n"),
        Just("\r\n"),
        Just("\n"),
        Just("\r"),
        Just("\0"),
        Just("G"),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn splitting_the_input_changes_nothing(text in pieces()) {
        let mut buffer = BytesMut::from(&text[..]);
        let whole = HeadParser::new().parse(&mut buffer, &LIMITS);
        let (dripped, rest) = drip(&text);
        match (whole, dripped) {
            (ParseOutcome::Head(a), ParseOutcome::Head(b)) => {
                prop_assert_eq!(&buffer[..], &rest[..]);
                prop_assert_eq!((a.body, a.keep_alive, a.head_bytes), (b.body, b.keep_alive, b.head_bytes));
                prop_assert_eq!((a.parts.method, a.parts.uri), (b.parts.method, b.parts.uri));
                prop_assert_eq!(a.parts.fields.to_map(), b.parts.fields.to_map());
            }
            (ParseOutcome::Refused(a), ParseOutcome::Refused(b)) => prop_assert_eq!(a.status, b.status),
            (ParseOutcome::Incomplete, ParseOutcome::Incomplete) => {}
            // Bytes that arrive one by one are judged when an end has arrived; garbage may wait
            // that long. Empty lines before the request are no such end.
            (ParseOutcome::Refused(_), ParseOutcome::Incomplete) => {
                let begun = text.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(text.len());
                prop_assert!(!holds_end(&text[begun..]));
            }
            (a, b) => prop_assert!(false, "whole {:?}, dripped {:?}", a, b),
        }
    }

    /// Accepted heads can be sent on: names are tokens in lower case, values hold no line end.
    #[test]
    fn fields_that_are_taken_are_sound(
        bytes in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => prop::sample::select(&b"aB:\r\n\t "[..])], 0..60),
    ) {
        let text = [b"GET / HTTP/1.1\r\nHost: a\r\nX", &bytes[..], b"\r\n\r\n"].concat();
        if let ParseOutcome::Head(head) = parse(&text) {
            for (name, value) in head.parts.fields.lines() {
                let sound = http::HeaderName::from_bytes(name).is_ok_and(|held| held.as_str().as_bytes() == name);
                prop_assert!(sound && http::HeaderValue::from_bytes(value).is_ok(), "{:?}: {:?}", name, value);
            }
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut text = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        text.extend_from_slice(&bytes);
        parse(&bytes);
        parse(&text);
    }

    #[test]
    fn accepted_heads_hold_no_bare_line_ends(text in pieces()) {
        let mut buffer = BytesMut::from(&text[..]);
        if let ParseOutcome::Head(head) = HeadParser::new().parse(&mut buffer, &LIMITS) {
            let start = text.len() - buffer.len() - head.head_bytes;
            let bytes = &text[start..start + head.head_bytes];
            let returns = bytes.iter().filter(|&&byte| byte == b'\r').count();
            let feeds = bytes.iter().filter(|&&byte| byte == b'\n').count();
            let pairs = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
            prop_assert_eq!((returns, feeds), (pairs, pairs));
        }
    }
}
