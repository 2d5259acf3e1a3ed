//! HTTP/1 bodies both ways: framing, backpressure, Expect, trailers, early replies, cut streams.

use super::{Server, wait_until};
use std::io::Write;
use std::time::Duration;

#[test]
fn request_bodies_arrive_however_framed() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().text(), "5 ");
    client.send("POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x\r\n");
    client.send("defg\r\n0\r\nX-Sum: 1\r\nHost: no\r\n\r\n");
    assert_eq!(client.response().text(), "7 {\"x-sum\": \"1\"}");
    client.send("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().text(), "none");
    let large = vec![b'x'; 3_000_000];
    client.send(format!("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", large.len()));
    client.send(&large);
    assert_eq!(client.response().text(), "3000000 ");
}

#[test]
fn bytes_after_a_body_are_the_next_request() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST /count HTTP/1.1\r\nHost: a\r\n\
         Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET /memory/2 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(client.response().text(), "3 ");
    assert_eq!(client.response().text(), "1 ");
    assert_eq!(client.response().text(), "mm");
}

#[test]
fn expect_is_answered_when_the_body_is_wanted() {
    let server = Server::start();
    let mut client = server.connect();
    let head = "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.send(head);
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert_eq!(client.response().text(), "5 ");
    // A body sent with the head needs no 100 response.
    client.send(format!("{head}hello"));
    assert_eq!(client.response().text(), "5 ");
    // An unwanted body is not asked for, and the connection ends.
    client.send(head.replace("/count", "/ignore"));
    let response = client.response();
    assert_eq!((response.text(), response.field("connection")), ("ignored", Some("close")));
    assert_eq!(client.rest(), b"");
}

#[test]
fn no_interim_response_stands_within_a_reply() {
    let server = Server::start();
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    // The body is wanted after the reply has begun. The client has its final status, so no 100
    // follows.
    let mut client = server.connect();
    client.send(head);
    assert!(client.head().starts_with("HTTP/1.1 200 OK\r\n"));
    client.send("hello");
    assert_eq!(client.rest(), b"5\r\nhello\r\n0\r\n\r\n");
    // The body is wanted before the reply, so 100 comes first.
    let mut client = server.connect();
    client.send(head.replace("/echo", "/eager"));
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 200 OK\r\n"));
    client.send("hello");
    assert_eq!(client.exactly(15), b"5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(client.get("/memory/1").text(), "m");
}

#[test]
fn an_early_reply_does_not_wait_for_the_body() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345");
    assert_eq!(client.response().text(), "first 5");
    client.send("67890");
    assert_eq!(client.get("/memory/1").text(), "m");
}

#[test]
fn a_large_unwanted_body_ends_the_connection() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n");
    let response = client.response();
    assert_eq!((response.text(), response.field("connection")), ("ignored", Some("close")));
    // A client that keeps sending must still be able to read the reply, which was sent before the
    // close.
    while client.stream.write_all(&[b'x'; 4096]).is_ok() {}
}

#[test]
fn a_small_unwanted_body_is_skipped() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n");
    assert_eq!(client.response().field("connection"), None);
    client.send([b'x'; 5000]);
    assert_eq!(client.get("/memory/1").text(), "m");
}

#[test]
fn bodies_flow_both_ways_at_once() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.head();
    assert_eq!(client.exactly(8), b"3\r\nabc\r\n");
    client.send("2\r\nde\r\n");
    assert_eq!(client.exactly(7), b"2\r\nde\r\n");
    client.send("0\r\n\r\n");
    assert_eq!(client.exactly(5), b"0\r\n\r\n");
    assert_eq!(client.get("/memory/1").text(), "m");
}

#[test]
fn a_large_echo_neither_stalls_nor_loses_bytes() {
    let server = Server::start();
    let mut client = server.connect();
    let body: Vec<u8> = (0..2_000_000u32).map(|index| (index % 251) as u8).collect();
    let mut writer = client.stream.try_clone().expect("a second handle");
    let copy = body.clone();
    let sending = std::thread::spawn(move || {
        let head = format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", copy.len());
        writer.write_all(head.as_bytes()).expect("the server reads");
        writer.write_all(&copy).expect("the server reads");
    });
    assert!(client.response().body == body, "the echo differs");
    sending.join().expect("no panic");
}

#[test]
fn malformed_chunks_are_refused() {
    let server = Server::start();
    for body in ["zz\r\n", "3\r\nabcd\r\n", "ffffffffffffffffff\r\n", "3\nabc\r\n"] {
        let mut client = server.connect();
        client.send(format!("POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"));
        let response = client.response();
        assert_eq!((response.status(), response.field("connection")), (400, Some("close")), "{body:?}");
        assert_eq!(client.rest(), b"");
    }
    assert_eq!(server.metrics.refused.value(), 4);
}

#[test]
fn a_stalled_body_gets_408() {
    let server = Server::with(|settings| settings.client.idle_timeout = Duration::from_millis(150));
    let mut client = server.connect();
    client.send("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    assert_eq!(client.response().status(), 408);
}

#[test]
fn streams_are_chunked_and_flushed_as_they_arrive() {
    let server = Server::start();
    let mut client = server.connect();
    let response = client.get("/frames/abc,de,f");
    assert_eq!((response.text(), &response.chunks[..]), ("abcdef", &[3, 2, 1][..]));
    client.send("GET /gated HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert_eq!(client.exactly(12), b"7\r\nbefore,\r\n");
    server.handler.gate.notify_one();
    assert_eq!(client.exactly(10), b"5\r\nafter\r\n");
    assert_eq!(client.exactly(5), b"0\r\n\r\n");
    assert_eq!(client.get("/frames/").text(), "");
}

#[test]
fn trailers_are_sent_if_accepted() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /trailers HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: trailers\r\n\r\n");
    assert_eq!(client.response().trailers, "x-sum: 7\r\n");
    assert_eq!(client.get("/trailers").trailers, "");
}

#[test]
fn a_failed_stream_is_visibly_cut() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /fails/abc,de HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert_eq!(client.rest(), b"3\r\nabc\r\n2\r\nde\r\n");
    let mut client = server.connect();
    client.send("GET /long/abc,de HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().contains("content-length: 3\r\n"));
    assert_eq!(client.rest(), b"abc");
    let mut client = server.connect();
    client.send("GET /fails/abc,de HTTP/1.0\r\n\r\n");
    assert!(client.ends_in_reset(), "an HTTP/1.0 client would take the end for the body's");
    wait_until("the records", || server.handler.records.lock().len() == 3);
    assert!(server.handler.records.lock().iter().all(|record| record.aborted));
}

#[test]
fn an_http_1_0_client_reads_a_stream_to_the_end() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /frames/abc,de HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().text(), "abcde");
}
