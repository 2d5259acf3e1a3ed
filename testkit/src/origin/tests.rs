//! The origin and the raw clients against each other, with no proxy between.

use super::{After, Answer, Framing, Gate, Origin, Resource};
use crate::certificates::Authority;
use crate::client::{Connection, Ending, Request};
use crate::fields::Fields;
use crate::h2::H2Connection;
use std::time::Duration;

#[test]
fn one_connection_carries_several_exchanges() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("a", 60)).on_each("/b", [Answer::ok("1"), Answer::ok("2")]);
    let mut client = Connection::open(origin.address());
    client.ask(&Request::get("/a?q=1"), "o.test").expect_body("a");
    for body in ["1", "2", "2"] {
        client.ask(&Request::new("POST", "/b").body(b"xyz"), "o.test").expect_body(body);
    }
    assert_eq!(client.ask(&Request::get("/c"), "o.test").status, 404);
    assert_eq!((origin.count("/a"), origin.count_of("POST", "/b"), origin.connections()), (1, 3, 1));
    assert_eq!(origin.last("/b").body, b"xyz");
    assert_eq!(origin.last("/a").fields.first("host"), Some("o.test"));
}

#[test]
fn chunks_and_trailers_pass_both_ways() {
    let origin = Origin::start();
    origin.on("/t", Answer::ok("abc").piece("def").trailer("Digest", "x"));
    let trailers = Fields::parse("Sum: 7\r\n");
    let mut client = Connection::open(origin.address());
    let response = client.ask(&Request::new("PUT", "/t").chunked(b"body", &trailers), "o.test");
    response.expect_body("abcdef");
    assert_eq!(response.trailers.first("digest"), Some("x"));
    assert_eq!(origin.last("/t").trailers, trailers);
    assert_eq!(origin.last("/t").body, b"body");
}

#[test]
fn interim_responses_and_gates_keep_their_order() {
    let origin = Origin::start();
    let gate = Gate::new();
    let answer = Answer::ok("first").interim(103, &[("Link", "</s>")]).wait_for(&gate).piece(" second");
    origin.on("/g", answer.framed(Framing::Chunked));
    let mut client = Connection::open(origin.address());
    client.send(Request::get("/g").to_bytes("o.test"));
    assert_eq!(client.head().map(|head| head.status), Ok(103));
    assert_eq!(client.head().map(|head| head.status), Ok(200));
    assert_eq!(client.chunk(), Ok(b"first".to_vec()));
    assert!(client.stays_silent(Duration::from_millis(50)));
    gate.open();
    assert_eq!(client.chunk(), Ok(b" second".to_vec()));
    assert_eq!(client.chunk(), Ok(Vec::new()));
}

#[test]
fn improper_answers_are_seen_as_what_they_are() {
    let origin = Origin::start();
    origin
        .on("/short", Answer::ok("abc").framed(Framing::Claimed(10)).then(After::Close))
        .on(
            "/reset",
            Answer::ok("abc")
                .framed(Framing::Claimed(10))
                .pause(Duration::from_millis(50))
                .then(After::Reset),
        )
        .on("/close", Answer::ok("abc").framed(Framing::Close))
        .on("/raw", Answer::raw("garbage"));
    let ask = |path: &str| Connection::open(origin.address()).ask(&Request::get(path), "o.test");
    assert_eq!(ask("/short").ending, Ending::Cut("closed".into()));
    assert!(matches!(ask("/reset").ending, Ending::Cut(why) if why.starts_with("reset")));
    ask("/close").expect_body("abc");
    let mut client = Connection::open(origin.address());
    client.send(Request::get("/raw").to_bytes("o.test"));
    assert_eq!(client.everything(), (b"garbage".to_vec(), None));
}

#[test]
fn tls_and_http2_serve_the_same_routes() {
    let authority = Authority::new();
    let tls = Origin::start_tls(&authority.issue(&["localhost"]));
    tls.serve("/r", Resource::new("0123456789").etag("\"e\""));
    let mut client = Connection::open_tls(tls.address(), "localhost", authority.client(&["http/1.1"]));
    let part = client.ask(&Request::get("/r").field("Range", "bytes=1-2"), "localhost");
    assert_eq!(
        (part.expect_status(206).text(), part.field("content-range")),
        ("12".into(), Some("bytes 1-2/10"))
    );

    let h2c = Origin::start_h2c();
    h2c.on("/b", Answer::ok(vec![b'x'; 200_000]).trailer("after", "all").interim(103, &[("link", "</s>")]));
    let mut client = H2Connection::open(h2c.address());
    let response = client.ask(&Request::get("/b"), "o.test");
    response.expect_body(vec![b'x'; 200_000]);
    assert_eq!(response.trailers.first("after"), Some("all"));
    assert_eq!(h2c.last("/b").fields.first(":authority"), Some("o.test"));
}
