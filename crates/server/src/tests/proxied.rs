//! Tests of the PROXY protocol on plain listeners.

use super::{Server, wait_until};
use std::io::Write;
use std::time::Duration;

fn behind(network: &str) -> Server {
    Server::with(|settings| {
        settings.listen[0].proxy_protocol_from = vec![network.parse().expect("a network")];
        settings.client.head_timeout = Duration::from_millis(300);
    })
}

#[test]
fn both_versions_name_the_client() {
    let server = behind("127.0.0.1/32");
    let binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb";
    for header in [&b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n"[..], binary] {
        let mut client = server.connect();
        client.send([header, b"GET /client HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        let seen = client.response();
        assert!(seen.text().contains("address: 192.0.2.1:56324, local: 198.51.100.7:443"), "{}", seen.text());
        assert_eq!(client.get("/memory/1").text(), "m");
    }
}

#[test]
fn hit_sent_with_the_header_takes_the_fast_path() {
    let server = behind("127.0.0.1/32");
    let mut client = server.connect();
    client.send("PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\nGET /hit/3 HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.response();
    assert_eq!((response.text(), response.field("age")), ("hhh", Some("17")), "{}", response.head);
    // The ordinary path marks its reply with a field.
    assert_eq!(client.get("/memory/1").field("x-handler"), Some("scripted"));
}

#[test]
fn a_balancer_may_speak_for_itself() {
    let server = behind("127.0.0.1/32");
    let mut client = server.connect();
    let own = client.stream.local_addr().expect("connected");
    for byte in b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0" {
        client.send([*byte]);
    }
    let seen = client.get("/client");
    assert!(seen.text().contains(&format!("address: {own}")), "{}", seen.text());
}

#[test]
fn balancers_must_send_a_header() {
    let server = behind("127.0.0.1/32");
    let mut plain = server.connect();
    plain.send("GET /memory/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(plain.rest(), b"");
    let mut silent = server.connect();
    assert_eq!(silent.rest(), b"");
    wait_until("the count", || server.metrics.proxy_protocol_refused.value() == 2);
}

#[test]
fn a_header_that_trickles_in_has_no_more_time() {
    let server = behind("127.0.0.1/32");
    let mut client = server.connect();
    for byte in b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n" {
        // The server may have closed the connection.
        let _ = client.stream.write_all(&[*byte]);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.metrics.proxy_protocol_refused.value(), 1);
}

#[test]
fn others_must_not() {
    let server = behind("192.0.2.0/24");
    let mut client = server.connect();
    assert_eq!(client.get("/memory/1").text(), "m");
    let mut liar = server.connect();
    liar.send("PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\nGET /client HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(liar.response().status(), 400);
}
