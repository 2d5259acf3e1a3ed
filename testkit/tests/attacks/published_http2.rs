//! Attacks over HTTP/2 that were published against other proxies: `docs/ATTACKS.md` names them.

use crate::frames::{self, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM};
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Setup, Shoal, wait};
use std::time::Duration;

/// What the node answers to these frames, behind a preface, until it pauses or ends the connection.
fn answer(shoal: &Shoal, bytes: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
    let mut client = Connection::open(shoal.address("reverse"));
    client.send([&frames::preface(&[]), bytes].concat());
    client.limit(Duration::from_secs(2));
    frames::read(&client.everything().0)
}

/// Whether the stream was reset, or the connection ended.
fn is_refused(frames: &[(u8, u32, Vec<u8>)], stream: u32) -> bool {
    frames.iter().any(|(kind, of, _)| *kind == GOAWAY || *kind == RST_STREAM && *of == stream)
}

fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    frames::frame(HEADERS, flags | END_HEADERS, stream, block)
}

/// A length that the frames do not keep to leaves the rest of a body to be the next request of
/// whoever shares the origin's connection.
#[test]
fn lengths_that_frames_do_not_keep_are_refused() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("x"));
    let shoal = Setup::to(&origin).start();
    let body = b"abcGET /hidden HTTP/1.1\r\nHost: site.test\r\n\r\n";
    for length in ["3", "1000", "0", "18446744073709551617", "3, 3", "+3", "0x3"] {
        let block = frames::request("POST", "/a", &[("content-length", length)]);
        let bytes = [headers(0, 1, &block), frames::frame(DATA, END_STREAM, 1, body)].concat();
        let answered = answer(&shoal, &bytes);
        let is_error = answered.iter().any(|(kind, _, payload)| {
            // 400, indexed (RFC 7541, appendix A), behind an update of the table's size perhaps.
            *kind == HEADERS && payload.iter().take(2).any(|byte| *byte == 0x8c)
        });
        assert!(is_refused(&answered, 1) || is_error, "{length}: {answered:?}");
    }
    for _ in 0..3 {
        shoal.get("/b").expect_body("x");
    }
    assert_eq!(origin.count("/hidden"), 0);
    assert!(origin.received().iter().all(|request| request.path() == "/b" || request.body != body));
}

/// Fields of HTTP/1 framing, and characters that would end a line of it.
#[test]
fn fields_that_frame_http1_go_no_further() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("x"));
    let shoal = Setup::to(&origin).start();
    let refused = [
        ("transfer-encoding", "chunked"),
        ("connection", "keep-alive"),
        ("keep-alive", "5"),
        ("proxy-connection", "close"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("x", "a\r\ntransfer-encoding: chunked"),
        ("x", "a\n"),
        ("x", "a\0"),
        ("x\r\ny", "a"),
        ("x y", "a"),
        ("x:y", "a"),
        ("X", "a"),
        ("", "a"),
        (":x", "a"),
        (":path", "/again"),
    ];
    for field in refused {
        let bytes = headers(END_STREAM, 1, &frames::request("GET", "/a", &[field]));
        assert!(is_refused(&answer(&shoal, &bytes), 1), "{field:?}");
    }
    let lines = [
        ("GET /hidden HTTP/1.1\r\nx: ", "/a"),
        ("GET", "/a HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("GET", "/a b"),
        ("GET", "a"),
        ("GET", ""),
        ("GET", "http://other.test/"),
        ("G\tT", "/a"),
    ];
    for (method, path) in lines {
        let bytes = headers(END_STREAM, 1, &frames::request(method, path, &[]));
        assert!(is_refused(&answer(&shoal, &bytes), 1), "{method:?} {path:?}");
    }
    assert_eq!(origin.total(), 0);
}

/// Two hosts: one for the access rule or the key, another for the origin.
#[test]
fn hosts_that_differ_are_refused() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("x"));
    let shoal = Setup::to(&origin).start();
    for host in ["other.test", "site.test:81", "site.test, other.test", ""] {
        let bytes = headers(END_STREAM, 1, &frames::request("GET", "/a", &[("host", host)]));
        let answered = answer(&shoal, &bytes);
        let is_400 = answered
            .iter()
            .any(|(kind, _, payload)| *kind == HEADERS && payload.iter().take(2).any(|byte| *byte == 0x8c));
        assert!(is_refused(&answered, 1) || is_400, "{host:?}: {answered:?}");
    }
    assert_eq!(origin.total(), 0);
}

/// A field block without an end, in frames with and without contents.
#[test]
fn blocks_without_an_end_end_the_connection() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    let before = shoal.resident_bytes();
    for payload in [vec![], vec![0; 1], frames::block(&[("x", &"a".repeat(100))]), vec![0; 16_384]] {
        let mut bytes = frames::frame(HEADERS, END_STREAM, 1, &frames::request("GET", "/a", &[]));
        // More than a head may have, however short they are.
        for _ in 0..2_000.max(200_000 / payload.len().max(1)) {
            bytes.extend(frames::frame(CONTINUATION, 0, 1, &payload));
        }
        let mut client = Connection::open(shoal.address("reverse"));
        let length = payload.len();
        // The node ends the connection while it is sent to.
        let sent = [frames::preface(&[]), bytes].concat();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for piece in sent.chunks(16_384) {
                    client.send(piece);
                }
                let (answered, ending) = client.everything();
                let goes_on = ending.is_some_and(|why| why.contains("silent"));
                assert!(!goes_on, "frames of {length} bytes: {:?}", frames::read(&answered));
            });
        });
        shoal.get("/").expect_status(404);
    }
    let more = shoal.resident_bytes().saturating_sub(before);
    assert!(more < 8 << 20, "{more} bytes more");
}

/// Streams that the client has the node reset, by frames that are errors of theirs, do not count as
/// open, but their requests go on.
#[test]
fn streams_that_clients_have_reset_leave_no_work_behind() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/slow/*", Answer::ok("slow").field("Cache-Control", "no-store").held_by(&gate));
    origin.on("/other", Answer::fresh("other", 60));
    let shoal = Setup::to(&origin).start();
    let errors: [&dyn Fn(u32) -> Vec<u8>; 3] = [
        // An increment of nothing (section 6.9).
        &|stream| frames::frame(frames::WINDOW_UPDATE, 0, stream, &[0; 4]),
        // A window of more than 2^31-1.
        &|stream| frames::frame(frames::WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes()),
        // Data behind the end of the stream.
        &|stream| frames::frame(DATA, 0, stream, b"x"),
    ];
    for (number, error) in errors.iter().enumerate() {
        let mut client = Connection::open(shoal.address("reverse"));
        let mut bytes = frames::preface(&[]);
        for stream in (1..4_000).step_by(2) {
            let block = frames::request("GET", &format!("/slow/{number}.{stream}"), &[]);
            bytes.extend(headers(END_STREAM, stream, &block));
            bytes.extend(error(stream));
        }
        std::thread::spawn(move || {
            client.send(bytes);
            client.closes()
        });
    }
    // Of six thousand requests those that are left are bounded, and others are served.
    shoal.get("/other").expect_body("other");
    wait::until("what they asked for is given up", || {
        shoal.metric("shoal_connections", "") <= 1
            || shoal.metric("shoal_http2_streams_refused_total", "") > 0
    });
    assert!(origin.connections() <= 300, "{} connections to the origin", origin.connections());
    shoal.ask(&Request::get("/other")).expect_hit();
    gate.open();
}
