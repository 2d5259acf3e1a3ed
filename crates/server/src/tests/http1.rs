//! HTTP/1: heads, framing of replies, pipelining, interim responses, refusals, tunnels.

use super::{Server, wait_until};
use shoal_settings::Settings;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn a_connection_serves_many_requests() {
    let server = Server::start();
    let mut client = server.connect();
    for bytes in [0, 1, 1000, 200_000, 5] {
        let response = client.get(&format!("/memory/{bytes}"));
        assert_eq!(response.status(), 200);
        assert_eq!(response.body, vec![b'm'; bytes]);
        assert_eq!(response.field("connection"), None);
        assert_eq!(response.field("date").map(str::len), Some(29));
        assert_eq!(response.field("x-handler"), Some("scripted"));
    }
    assert_eq!(server.metrics.requests.value(), 5);
    assert_eq!((server.metrics.connections.value(), server.metrics.connections_open.value()), (1, 1));
    drop(client);
    wait_until("the connection's end", || server.metrics.connections_open.value() == 0);
}

#[test]
fn records_are_completed() {
    let server = Server::start();
    let head = server.connect().get("/memory/1000").head;
    wait_until("the record", || server.handler.records.lock().len() == 1);
    let records = server.handler.records.lock();
    assert_eq!((&*records[0].url, records[0].body_bytes), ("/memory/1000", 1000));
    assert_eq!(records[0].head_bytes, head.len() as u64);
    assert!(!records[0].aborted && records[0].duration_us > 0);
}

#[test]
fn stored_heads_are_sent_as_stored() {
    let response = Server::start().connect().get("/stored");
    let expected = "HTTP/1.1 200 OK\r\ndate: then\r\netag: \"x\"\r\nage: 17\r\ncache-status: shoal; hit\r\nproxy-status: shoal\r\n\
                    content-length: 10\r\n\r\n";
    assert_eq!(response.head, expected);
    assert_eq!(response.body.len(), 10);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send(["/memory/3", "/frames/x,y", "/waits", "/memory/4"].map(request).concat());
    assert_eq!(client.response().text(), "mmm");
    assert_eq!(client.response().text(), "xy");
    server.handler.gate.notify_one();
    assert_eq!(client.response().text(), "waited");
    assert_eq!(client.response().text(), "mmmm");
}

#[test]
fn many_pipelined_requests_are_answered() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /memory/2 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000));
    for _ in 0..1000 {
        assert_eq!(client.response().text(), "mm");
    }
}

#[test]
fn a_head_may_come_byte_by_byte() {
    let server = Server::start();
    let mut client = server.connect();
    for byte in b"GET /memory/3 HTTP/1.1\r\nHost: test\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.response().text(), "mmm");
}

#[test]
fn replies_without_a_body_are_framed_as_such() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(client.get("/empty").field("content-length"), Some("0"));
    assert_eq!(client.get("/204").field("content-length"), None);
    assert_eq!(client.get("/304").field("content-length"), Some("5"));
    client.send("HEAD /memory/77 HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert!(head.contains("content-length: 77\r\n"), "{head}");
    client.send("HEAD /frames/a HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert!(!head.contains("content-length") && !head.contains("transfer-encoding"), "{head}");
    assert_eq!(client.get("/memory/1").text(), "m");
}

#[test]
fn versions_and_wishes_decide_about_the_connection() {
    // (version, field sent, path, connection field expected, kept)
    let cases = [
        ("1.1", "", "/memory/1", None, true),
        ("1.1", "Connection: close\r\n", "/memory/1", Some("close"), false),
        ("1.0", "", "/memory/1", Some("close"), false),
        ("1.0", "Connection: keep-alive\r\n", "/memory/1", Some("keep-alive"), true),
        ("1.0", "Connection: keep-alive\r\n", "/frames/a,b", Some("close"), false),
    ];
    let server = Server::start();
    for (version, field, path, expected, kept) in cases {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/{version}\r\nHost: a\r\n{field}\r\n"));
        let response = client.response();
        assert_eq!(response.field("connection"), expected, "{version} {field}");
        if kept {
            assert_eq!(client.get("/memory/2").text(), "mm");
        } else {
            assert_eq!(client.rest(), b"", "{version} {field}");
        }
    }
}

#[test]
fn interim_responses_come_first_and_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..2 {
        client.send("GET /hints HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head(), "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n");
        assert_eq!(client.head(), "HTTP/1.1 103 Early Hints\r\nlink: </b.css>\r\n\r\n");
        assert_eq!(client.response().text(), "final");
    }
    client.send("GET /hints HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().text(), "no interim");
}

#[test]
fn invalid_request_is_refused_and_counted() {
    let server = Server::start();
    let oversized = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    let cases = [
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\u{7f}\x03\x03", 400),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        (oversized.as_str(), 431),
    ];
    for (count, (text, status)) in cases.iter().enumerate() {
        let mut client = server.connect();
        client.send(text);
        let response = client.response();
        assert_eq!(response.status(), *status, "{text:.40}");
        assert_eq!(response.field("connection"), Some("close"));
        assert_eq!(client.rest(), b"");
        assert_eq!(server.metrics.refused.value(), count as u64 + 1);
    }
    assert_eq!(server.handler.begun.load(Ordering::SeqCst), 0);
}

#[test]
fn nothing_is_read_after_a_refusal() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(
        "GET /memory/1 HTTP/1.1\r\nHost: a\r\n\r\nBAD\r\n\r\nGET /memory/2 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(client.response().text(), "m");
    assert_eq!(client.response().status(), 400);
    assert_eq!(client.rest(), b"");
    assert_eq!(server.handler.begun.load(Ordering::SeqCst), 1);
}

#[test]
fn slow_heads_get_408_and_silence_gets_silence() {
    let server = Server::with(|settings| settings.client.head_timeout = Duration::from_millis(150));
    let mut silent = server.connect();
    let mut slow = server.connect();
    slow.send("GET / HTTP/1.1\r\nHost:");
    let response = slow.response();
    assert_eq!((response.status(), response.field("connection")), (408, Some("close")));
    assert_eq!(silent.rest(), b"");
    assert_eq!(server.metrics.refused.value(), 1);
}

/// The time of a head starts with its first byte, even if the byte may begin another protocol.
#[test]
fn http2_like_start_keeps_the_head_timeout() {
    let server = Server::with(|settings| settings.client.head_timeout = Duration::from_millis(800));
    for begun in ["P", "PRI * HTTP/2.0\r\n"] {
        let mut client = server.connect();
        client.send(begun);
        let start = Instant::now();
        assert_eq!(client.response().status(), if begun == "P" { 408 } else { 505 });
        assert!(start.elapsed() < Duration::from_millis(1400), "{:?} for {begun:?}", start.elapsed());
    }
}

#[test]
fn idle_connections_end_in_silence() {
    let server = Server::with(|settings| settings.client.keep_alive = Duration::from_millis(150));
    let mut client = server.connect();
    client.get("/memory/1");
    assert_eq!(client.rest(), b"");
    let server = Server::with(|settings| settings.client.keep_alive = Duration::ZERO);
    assert_eq!(server.connect().get("/memory/1").field("connection"), Some("close"));
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the request", || server.handler.begun.load(Ordering::SeqCst) == 1);
    assert_eq!(server.handler.dropped.load(Ordering::SeqCst), 0);
    drop(client);
    wait_until("the drop", || server.handler.dropped.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_client_that_leaves_ends_a_stream() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /gated HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert_eq!(client.exactly(12), b"7\r\nbefore,\r\n");
    drop(client);
    wait_until("the drop", || server.handler.bodies_dropped.load(Ordering::SeqCst) == 1);
    wait_until("the record", || server.handler.records.lock().len() == 1);
    let records = server.handler.records.lock();
    assert!(records[0].aborted);
    assert_eq!((records[0].body_bytes, server.metrics.responses_cut.value()), (7, 1));
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    let server = Server::with(|settings| settings.client.idle_timeout = Duration::from_millis(200));
    let mut client = server.connect();
    client.send("GET /memory/30000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("the record", || server.handler.records.lock().len() == 1);
    let records = server.handler.records.lock();
    assert!(records[0].aborted);
    assert!((1..30_000_000).contains(&records[0].body_bytes), "{}", records[0].body_bytes);
}

#[test]
fn an_upgrade_becomes_a_tunnel() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: capitals\r\n\r\nearly ");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(head.contains("upgrade: capitals\r\n") && head.contains("connection: upgrade\r\n"), "{head}");
    client.send("late");
    assert_eq!(client.exactly(10), b"EARLY LATE");
    client.finish();
    assert_eq!(client.rest(), b"");
    wait_until("the record", || server.handler.records.lock().len() == 1);
    let records = server.handler.records.lock();
    assert_eq!((records[0].body_bytes, records[0].aborted), (10, false));
}

#[test]
fn connect_becomes_a_tunnel() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(!head.contains("content-length") && !head.contains("connection:"), "{head}");
    client.send("hello");
    assert_eq!(client.exactly(5), b"HELLO");
}

#[test]
fn bytes_after_a_refused_connect_are_not_parsed() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("CONNECT refused.test:443 HTTP/1.1\r\nHost: refused.test:443\r\n\r\n");
    client.send("GET /memory/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status(), response.field("connection")), (403, Some("close")));
    assert_eq!(client.rest(), b"");
    assert_eq!(server.handler.begun.load(Ordering::SeqCst), 1);
}

#[test]
fn an_upgrade_may_be_ignored() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /memory/2 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n");
    assert_eq!(client.response().text(), "mm");
    assert_eq!(client.get("/memory/1").text(), "m");
}

#[test]
fn silent_tunnels_end() {
    let server = Server::with(|settings| settings.client.tunnel_timeout = Duration::from_millis(200));
    let mut client = server.connect();
    client.send("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
    client.head();
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_tunnel_nobody_asked_for_is_not_opened() {
    let server = Server::start();
    let mut client = server.connect();
    client.send("GET /tunnel HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.rest(), b"");
}

#[test]
fn requests_larger_than_the_buffer_are_read() {
    let server = Server::with(|settings| *settings = Settings { workers: 1, ..settings.clone() });
    let mut client = server.connect();
    let value = "v".repeat(20_000);
    for _ in 0..3 {
        let text = format!("GET /fields HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n");
        client.stream.write_all(text.as_bytes()).expect("the server reads");
        assert!(client.response().text().contains(&value));
    }
}
