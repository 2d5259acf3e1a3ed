//! Malformed, oversized and ambiguous requests: a 4xx (or 501, 505) and a closed connection,
//! counted, never forwarded.

use shoal_testkit::{Answer, Connection, Origin, Setup, Shoal};
use std::time::{Duration, Instant};

fn listening(origin: &Origin) -> Shoal {
    origin.on("/*", Answer::ok("forwarded"));
    let setup = Setup::to(origin)
        .set("client.head_max", "16 KiB")
        .set("client.target_max", "4 KiB")
        .set("client.fields_max", 50);
    setup.set("client.head_timeout", "700ms").set("client.idle_timeout", "700ms").start()
}

/// Each head is followed by a second request, which must not be taken as one.
const NEXT: &str = "GET /smuggled HTTP/1.1\r\nHost: site.test\r\n\r\n";

fn check(shoal: &Shoal, name: &str, bytes: &[u8], statuses: &[u16]) {
    let mut client = shoal.connect();
    client.send([bytes, NEXT.as_bytes()].concat());
    let response = client.try_response("GET").unwrap_or_else(|why| panic!("{name}: {why}"));
    assert!(statuses.contains(&response.status), "{name}: {} {}", response.status, response.text());
    assert!(client.closes(), "{name}: the connection stays open");
}

fn post(fields: &str, body: &str) -> Vec<u8> {
    format!("POST /a HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n{body}").into_bytes()
}

fn get(fields: &str) -> Vec<u8> {
    format!("GET /a HTTP/1.1\r\nHost: site.test\r\n{fields}\r\n").into_bytes()
}

/// RFC 9112 sections 6.1 to 6.3: what could be framed in two ways is refused.
#[test]
fn ambiguous_framing_is_refused() {
    let origin = Origin::start();
    let shoal = listening(&origin);
    let cases = [
        ("length and coding", post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")),
        ("coding and length", post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n")),
        ("two lengths", post("Content-Length: 3\r\nContent-Length: 4\r\n", "abc")),
        ("a list of lengths", post("Content-Length: 3, 4\r\n", "abc")),
        ("a signed length", post("Content-Length: +3\r\n", "abc")),
        ("a negative length", post("Content-Length: -3\r\n", "abc")),
        ("a hexadecimal length", post("Content-Length: 0x3\r\n", "abc")),
        ("a length with a space", post("Content-Length: 3 3\r\n", "abc")),
        ("an empty length", post("Content-Length:\r\n", "abc")),
        ("a word for a length", post("Content-Length: three\r\n", "abc")),
        ("a length that overflows", post("Content-Length: 99999999999999999999999\r\n", "abc")),
        ("chunked twice", post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n")),
        (
            "chunked in two fields",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ),
        ("chunked not last", post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n")),
        ("almost chunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n")),
        ("quoted chunked", post("Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n")),
        ("identity", post("Transfer-Encoding: identity\r\n", "abc")),
        ("an empty coding", post("Transfer-Encoding:\r\n", "abc")),
        ("a coding behind a vertical tab", post("Transfer-Encoding: \u{b}chunked\r\n", "0\r\n\r\n")),
        ("a space before the colon", post("Content-Length : 3\r\n", "abc")),
        ("a tab before the colon", post("Transfer-Encoding\t: chunked\r\n", "0\r\n\r\n")),
        (
            "a coding in HTTP/1.0",
            b"POST /a HTTP/1.0\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
        ),
    ];
    for (name, bytes) in &cases {
        check(&shoal, name, bytes, &[400, 411, 501]);
    }
    assert_eq!(origin.total(), 0, "{:?}", origin.received());
    shoal.expect_metric("shoal_requests_refused_total", "", cases.len() as u64);
}

/// RFC 9112 sections 2.2, 3 and 5.
#[test]
fn malformed_heads_are_refused() {
    let origin = Origin::start();
    let shoal = listening(&origin);
    let line = |line: &str| format!("{line}\r\nHost: site.test\r\n\r\n").into_bytes();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("obs-fold", get("X-A: 1\r\n folded\r\n")),
        ("obs-fold with a tab", get("X-A: 1\r\n\tfolded\r\n")),
        ("a fold in front", b"GET /a HTTP/1.1\r\n Host: site.test\r\n\r\n".to_vec()),
        ("a bare CR in a value", get("X-A: a\rb\r\n")),
        ("a bare CR that ends a line", get("X-A: a\rX-B: b\r\n")),
        ("a bare LF that ends a line", b"GET /a HTTP/1.1\r\nHost: site.test\nX-A: b\r\n\r\n".to_vec()),
        ("bare LFs throughout", b"GET /a HTTP/1.1\nHost: site.test\n\n".to_vec()),
        ("NUL in a value", get("X-A: a\0b\r\n")),
        ("NUL in a name", get("X\0A: b\r\n")),
        ("NUL in the target", line("GET /a\0b HTTP/1.1")),
        ("a control in a value", get("X-A: a\u{1}b\r\n")),
        ("DEL in a value", get("X-A: a\u{7f}b\r\n")),
        ("no colon", get("X-A\r\n")),
        ("no name", get(": value\r\n")),
        ("a space in a name", get("X A: b\r\n")),
        ("a delimiter in a name", get("X(A): b\r\n")),
        ("a byte above ASCII in a name", get("X\u{e9}: b\r\n")),
        ("no version", line("GET /a")),
        ("no target", line("GET HTTP/1.1")),
        ("two spaces", line("GET  /a HTTP/1.1")),
        ("a tab for a space", line("GET\t/a HTTP/1.1")),
        ("a space in the target", line("GET /a b HTTP/1.1")),
        ("a space at the end", line("GET /a HTTP/1.1 ")),
        ("a delimiter in the method", line("GE(T /a HTTP/1.1")),
        ("an empty method", line(" /a HTTP/1.1")),
        ("a fragment", line("GET /a#b HTTP/1.1")),
        ("a target without a slash", line("GET a HTTP/1.1")),
        ("a byte above ASCII in the target", line("GET /\u{e9} HTTP/1.1")),
        ("a small version", line("GET /a http/1.1")),
        ("a long version", line("GET /a HTTP/1.10")),
        ("a version without a dot", line("GET /a HTTP/11")),
        ("HTTP/0.9", b"GET /a\r\n\r\n".to_vec()),
        ("no Host", b"GET /a HTTP/1.1\r\n\r\n".to_vec()),
        ("two Hosts", b"GET /a HTTP/1.1\r\nHost: site.test\r\nHost: site.test\r\n\r\n".to_vec()),
        ("a Host with a space", b"GET /a HTTP/1.1\r\nHost: site .test\r\n\r\n".to_vec()),
        ("a Host with a path", b"GET /a HTTP/1.1\r\nHost: site.test/b\r\n\r\n".to_vec()),
        ("a Host with user information", b"GET /a HTTP/1.1\r\nHost: me@site.test\r\n\r\n".to_vec()),
        ("a Host with a bad port", b"GET /a HTTP/1.1\r\nHost: site.test:http\r\n\r\n".to_vec()),
        ("a list of Hosts", b"GET /a HTTP/1.1\r\nHost: site.test, other.test\r\n\r\n".to_vec()),
        ("TLS at a plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec()),
    ];
    for (name, bytes) in &cases {
        check(&shoal, name, bytes, &[400, 505]);
    }
    assert_eq!(origin.total(), 0, "{:?}", origin.received());
    shoal.expect_metric("shoal_requests_refused_total", "", cases.len() as u64);
}

#[test]
fn other_versions_are_refused_as_such() {
    let origin = Origin::start();
    let shoal = listening(&origin);
    for version in ["HTTP/2.0", "HTTP/3.0", "HTTP/9.9"] {
        let head = format!("GET /a {version}\r\nHost: site.test\r\n\r\n");
        check(&shoal, version, head.as_bytes(), &[505, 400]);
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn oversized_heads_are_refused() {
    let origin = Origin::start();
    let shoal = listening(&origin);
    let cases = [
        (
            "a long target",
            format!("GET /{} HTTP/1.1\r\nHost: site.test\r\n\r\n", "x".repeat(5000)).into_bytes(),
            &[414][..],
        ),
        ("an endless target", format!("GET /{}", "x".repeat(100_000)).into_bytes(), &[414]),
        ("a long field", get(&format!("X-A: {}\r\n", "x".repeat(17_000))), &[431]),
        ("an endless field", get(&format!("X-A: {}", "x".repeat(100_000))), &[431]),
        ("many fields", get(&"X-A: b\r\n".repeat(60)), &[431]),
        (
            "a long method",
            format!("{} /a HTTP/1.1\r\nHost: site.test\r\n\r\n", "X".repeat(20_000)).into_bytes(),
            &[400, 414, 431, 501],
        ),
    ];
    for (name, bytes, status) in &cases {
        check(&shoal, name, bytes, status);
    }
    assert_eq!(origin.total(), 0);
    shoal.expect_metric("shoal_requests_refused_total", "", cases.len() as u64);
}

/// RFC 9112 section 7.1.
#[test]
fn bad_chunks_are_refused_and_never_complete_a_request() {
    let origin = Origin::start();
    let shoal = listening(&origin);
    let cases = [
        ("no size", "\r\nabc\r\n0\r\n\r\n"),
        ("a word for a size", "xyz\r\nabc\r\n0\r\n\r\n"),
        ("a negative size", "-3\r\nabc\r\n0\r\n\r\n"),
        ("a signed size", "+3\r\nabc\r\n0\r\n\r\n"),
        ("0x", "0x3\r\nabc\r\n0\r\n\r\n"),
        ("a size that overflows", "fffffffffffffffff3\r\nabc\r\n0\r\n\r\n"),
        ("a space before the size", " 3\r\nabc\r\n0\r\n\r\n"),
        ("a chunk that is longer than said", "3\r\nabcd\r\n0\r\n\r\n"),
        ("a chunk that is shorter than said", "3\r\nab\r\n0\r\n\r\n"),
        ("a bare LF after the size", "3\nabc\r\n0\r\n\r\n"),
        ("a bare LF after the data", "3\r\nabc\n0\r\n\r\n"),
        ("a bare CR in an extension", "3;a\rb\r\nabc\r\n0\r\n\r\n"),
        ("a trailer with a fold", "3\r\nabc\r\n0\r\nX-A: b\r\n c\r\n\r\n"),
        ("a trailer without a colon", "3\r\nabc\r\n0\r\nX-A\r\n\r\n"),
        ("a trailer with NUL", "3\r\nabc\r\n0\r\nX-A: a\0b\r\n\r\n"),
    ];
    for (name, body) in cases {
        let mut client = shoal.connect();
        client.send([post("Transfer-Encoding: chunked\r\n", body), NEXT.into()].concat());
        // the head was sound, so the origin may have answered already; a 502 or a cut are not for
        // the client's fault
        match client.try_response("POST") {
            Ok(response) => assert!((400..500).contains(&response.status), "{name}: {}", response.status),
            Err(why) => assert!(!why.contains("silent"), "{name}: {why}"),
        }
        assert!(client.closes(), "{name}: the connection stays open");
    }
    assert_eq!(origin.total(), 0, "{:?}", origin.received());
    shoal.expect_metric("shoal_requests_refused_total", "", cases.len() as u64);
}

#[test]
fn slow_heads_are_timed_out() {
    let origin = Origin::start();
    let shoal = listening(&origin);
    let start = Instant::now();
    let mut client = shoal.connect();
    for byte in "GET /a HTTP/1.1\r\nHost: site.test\r\nX-Slow: yes".chars() {
        client.send(byte.to_string());
        std::thread::sleep(Duration::from_millis(40));
    }
    let response = client.try_response("GET").expect("an answer rather than silence");
    assert_eq!(response.status, 408);
    assert!(client.closes());
    assert!(start.elapsed() < Duration::from_secs(15));
    assert_eq!(origin.total(), 0);
    shoal.expect_metric("shoal_requests_refused_total", "", 1);
}

#[test]
fn a_stalled_request_body_is_timed_out() {
    let origin = Origin::start();
    let shoal = listening(&origin);
    let mut client = shoal.connect();
    client.send(post("Content-Length: 100\r\n", "only this"));
    match client.try_response("POST") {
        Ok(response) => assert_eq!(response.status, 408),
        Err(why) => assert!(!why.contains("silent"), "{why}"),
    }
    assert!(client.closes());
    assert_eq!(origin.total(), 0);
}

#[test]
fn a_silent_connection_is_closed_without_an_answer_and_without_count() {
    let origin = Origin::start();
    let shoal =
        Setup::to(&origin).set("client.head_timeout", "400ms").set("client.keep_alive", "400ms").start();
    let mut client = shoal.connect();
    assert!(client.closes(), "nothing was asked, nothing is answered");
    shoal.expect_metric("shoal_requests_refused_total", "", 0);
}

#[test]
fn sound_requests_that_look_odd_are_served() {
    let origin = Origin::start();
    let shoal = listening(&origin);
    for (name, bytes) in [
        ("an empty line in front", "\r\nGET /a HTTP/1.1\r\nHost: site.test\r\n\r\n"),
        ("no space after the colon", "GET /a HTTP/1.1\r\nHost:site.test\r\n\r\n"),
        ("space around a value", "GET /a HTTP/1.1\r\nHost: \t site.test \t\r\n\r\n"),
        ("an unknown method", "FROBNICATE /a HTTP/1.1\r\nHost: site.test\r\n\r\n"),
        ("an absolute target", "GET http://site.test/a HTTP/1.1\r\nHost: site.test\r\n\r\n"),
        ("a body with a length", "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: 3\r\n\r\nabc"),
        (
            "chunk extensions",
            "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: Chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n0\r\n\r\n",
        ),
        ("odd characters in the target", "GET /a?b={c}|d^e`f HTTP/1.1\r\nHost: site.test\r\n\r\n"),
    ] {
        let mut client = Connection::open(shoal.address("reverse"));
        client.send(bytes);
        let response = client.try_response("GET").unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!((response.status, response.text().as_str()), (200, "forwarded"), "{name}");
    }
}
