//! Tests of HTTP/3 with the client of another library.

use super::http3_client::{H3Client, RawClient, connect, head, over_quic, serving, trusting};
use super::tls::{self, Authority};
use super::until;
use crate::message::AccessRecord;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use quinn::ConnectionError;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::version::TLS13;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn requests_get_replies() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let mut client = H3Client::connect(&server, &authority).await;
    for (path, status, body) in [
        ("/memory/10", 200, "m".repeat(10)),
        ("/memory/3000000", 200, "m".repeat(3_000_000)),
        ("/hit/0", 200, String::new()),
        ("/hit/10", 200, "h".repeat(10)),
        ("/hit/10000", 200, "h".repeat(10_000)),
        ("/hit/3000000", 200, "h".repeat(3_000_000)),
        ("/frames/ab,,c", 200, "abc".into()),
        ("/empty", 200, String::new()),
        ("/ended", 200, String::new()),
        ("/204", 204, String::new()),
        ("/304", 304, String::new()),
        ("/target", 200, "https://a.test/target HTTP/3.0".into()),
        ("/nowhere", 404, "no such path".into()),
    ] {
        let came = client.get(path).await;
        assert_eq!(came.status, status, "{path}");
        assert_eq!(came.body.len(), body.len(), "{path}");
        assert!(came.body == body.as_bytes() && came.trailers.is_none(), "{path}");
        assert!(came.fields.contains_key("date"), "{path}");
    }
    let came = client.get("/stored").await;
    assert_eq!(
        (&came.fields["age"], &came.fields["date"]),
        (&"17".parse().expect("a value"), &"then".parse().expect("a value"))
    );
    assert_eq!(client.get("/trailers").await.trailers.expect("trailers")["x-sum"], "7");
    let came = client.ask(("HEAD", "/memory/7"), &[], None).await.expect("a response");
    assert_eq!((&came.fields["content-length"], came.body.len()), (&"7".parse().expect("a value"), 0));
    assert_eq!(server.metrics.h3_connections.value(), 1);
    assert_eq!(server.metrics.h3_requests.value(), 16);
    let sent: u64 = server.handler.records.lock().iter().map(|record| record.body_bytes).sum();
    // Records of hits that are sent whole have no count.
    assert_eq!(sent, 6_000_010 + 3 + 30 + 12 + 10 + 1);
    let records = server.handler.records.lock();
    let is_sound = |record: &&AccessRecord| record.url.starts_with("/hit") || record.head_bytes > 0;
    assert!(records.iter().all(|record| !record.aborted && is_sound(&record)));
}

#[tokio::test]
async fn bodies_and_trailers_arrive() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let mut client = H3Client::connect(&server, &authority).await;
    let pieces = vec![Bytes::from(vec![b'x'; 50_000]); 20];
    let trailers = HeaderMap::from_iter([("x-sum".parse().expect("a name"), HeaderValue::from_static("7"))]);
    let came = client.ask(("POST", "/count"), &pieces, Some(trailers)).await.expect("a response");
    assert_eq!(came.body, br#"1000000 {"x-sum": "7"}"#);
    let came = client.ask(("PUT", "/echo"), &pieces, None).await.expect("a response");
    assert_eq!(came.body.len(), 1_000_000);
    let came = client.ask(("POST", "/count"), &[], None).await.expect("a response");
    assert!([&b"0 "[..], b"none"].contains(&&came.body[..]), "{came:?}");
}

/// A reply that was cut must not look whole.
#[tokio::test]
async fn failed_bodies_are_resets() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let mut client = H3Client::connect(&server, &authority).await;
    for path in ["/fails/a,b", "/long/a", "/short/abc", "/resets/8", "/resets/11"] {
        client.ask(("GET", path), &[], None).await.expect_err(path);
    }
    assert_eq!(client.get("/memory/3").await.body, b"mmm", "the connection stays");
    assert_eq!(server.metrics.responses_cut.value(), 5);
}

#[tokio::test]
async fn interim_responses_come_first() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    let came = raw.ask(&head("GET", "/hints", &[])).await.expect("a response");
    // Two sections with `:status` 103, index 24 of the static table.
    assert_eq!(came.windows(3).filter(|bytes| bytes == b"\0\0\xd8").count(), 2);
    assert!(came.ends_with(b"final"));
    let expecting = head("POST", "/count", &[("expect", "100-continue")]);
    let (mut send, mut receive) = raw.open(&expecting).await;
    let mut first = [0; 6];
    receive.read_exact(&mut first).await.expect("word from the server");
    assert_eq!(first, *b"\x01\x04\0\0\xff\0", "status 100");
    send.write_all(b"\0\x03abc").await.expect("open");
    send.finish().expect("open");
    assert!(super::http3_client::read(receive).await.expect("a response").ends_with(b"3 "));
}

#[tokio::test]
async fn clients_learn_of_http3_over_tls() {
    let authority = Authority::new();
    for (max_age, port, expected) in
        [(86_400, None, "h3=\":PORT\"; ma=86400"), (60, Some(443), "h3=\":443\"; ma=60"), (0, None, "clear")]
    {
        let server = serving(&authority, |settings| {
            settings.listen[0].http3_max_age = Duration::from_secs(max_age);
            settings.listen[0].http3_port = port;
        });
        let expected = expected.replace("PORT", &server.address().port().to_string());
        let config = authority.trusting(&["http/1.1"]);
        let mut client = tls::connect(&server, &config, "a.test", b"").expect("a handshake");
        for path in ["/hit/5", "/memory/5", "/frames/a"] {
            assert_eq!(client.get(path).field("alt-svc"), Some(expected.as_str()), "{path}");
        }
        let mut h3 = H3Client::connect(&server, &authority).await;
        assert!(!h3.get("/hit/5").await.fields.contains_key("alt-svc"), "it knows");
    }
}

#[tokio::test]
async fn certificates_are_chosen_and_reloaded() {
    let authority = Authority::new();
    let other = authority.issue("b", &["b.test"]);
    let server = serving(&authority, |settings| settings.listen[0].tls.push(other));
    for name in ["a.test", "b.test"] {
        let connection = connect(server.address(), trusting(&authority), name).await.expect("a handshake");
        let seen = H3Client::over(connection).await.get("/client").await;
        let seen = String::from_utf8(seen.body).expect("text");
        assert!(seen.contains(&format!("tls: true, server_name: Some(\"{name}\")")), "{seen}");
    }
    let before = H3Client::connect(&server, &authority).await;
    let new = Authority::new();
    let mut settings = shoal_settings::Settings::default();
    let listen = shoal_settings::Listen::reverse(server.address());
    settings.listen =
        vec![shoal_settings::Listen { tls: vec![new.issue("a", &["a.test"])], http3: true, ..listen }];
    server.running().reloader().reload(&settings).expect("sound files");
    connect(server.address(), trusting(&authority), "a.test").await.expect_err("the old one is gone");
    H3Client::connect(&server, &new).await.get("/hit/1").await;
    let mut before = before;
    assert_eq!(before.get("/hit/1").await.body, b"h", "open connections stay");
}

#[tokio::test]
async fn clients_show_certificates() {
    let authority = Authority::new();
    let own = authority.issue("client", &["client.test"]);
    let ca = authority.write_root();
    let server = serving(&authority, |settings| settings.listen[0].client_ca = Some(ca));
    let without = connect(server.address(), trusting(&authority), "a.test").await;
    if let Ok(connection) = without {
        // TLS 1.3 tells a client of its missing certificate after its own handshake.
        assert!(matches!(connection.closed().await, ConnectionError::ConnectionClosed(_)));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
    let builder = builder.expect("versions").with_root_certificates(authority.roots());
    let chain = vec![CertificateDer::from_pem_file(&own.certificate).expect("written")];
    let key = PrivateKeyDer::from_pem_file(&own.key).expect("written");
    let mut config = builder.with_client_auth_cert(chain, key).expect("a pair");
    config.alpn_protocols = vec![b"h3".to_vec()];
    let connection = connect(server.address(), over_quic(config), "a.test").await.expect("a handshake");
    let seen = H3Client::over(connection).await.get("/client").await;
    assert!(String::from_utf8_lossy(&seen.body).contains("client.test"), "{seen:?}");
    assert_eq!(server.metrics.h3_connections.value(), 1);
}

/// Early data can be sent again by others (RFC 8470).
#[tokio::test]
async fn early_data_is_not_offered() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let endpoint = quinn::Endpoint::client(([127, 0, 0, 1], 0).into()).expect("loopback is there");
    let config = trusting(&authority);
    let connect =
        || endpoint.connect_with(config.clone(), server.address(), "a.test").expect("a sound setup");
    let first = connect().await.expect("a handshake");
    let mut client = H3Client::over(first).await;
    client.get("/hit/1").await;
    let resumed = connect().into_0rtt().err().expect("no early data");
    H3Client::over(resumed.await.expect("a handshake")).await.get("/hit/1").await;
}

/// A request on its way at the drain is answered; the connection then ends without an error.
#[tokio::test]
async fn drain_ends_connections_in_order() {
    let authority = Authority::new();
    let server = serving(&authority, |_| {});
    let raw = RawClient::connect(&server, &authority).await;
    let mut control = raw.0.accept_uni().await.expect("the server's control stream");
    let mut settings = [0; 8];
    control.read_exact(&mut settings).await.expect("settings");
    let (mut send, receive) = raw.open(&head("GET", "/waits", &[])).await;
    send.finish().expect("open");
    until("the request", || server.handler.begun.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    server.running().retire(Duration::from_secs(10), Duration::ZERO);
    let mut goaway = [0; 10];
    control.read_exact(&mut goaway).await.expect("GOAWAY");
    assert_eq!(goaway[..3], [7, 8, 0xff], "of all streams");
    assert!(raw.ask(&head("GET", "/hit/3", &[])).await.expect("still taken").ends_with(b"hhh"));
    let mut last = [0; 3];
    control.read_exact(&mut last).await.expect("GOAWAY");
    assert_eq!(last, [7, 1, 8], "streams from 8 on");
    assert_eq!(raw.ask(&head("GET", "/hit/3", &[])).await, Err(0x10b), "rejected");
    server.handler.gate.notify_waiters();
    assert!(super::http3_client::read(receive).await.expect("a response").ends_with(b"waited"));
    assert_eq!(raw.closed().await, 0x100);
    until("the end", || server.metrics.connections_open.value() == 0).await;
}

#[tokio::test]
async fn idle_connections_end() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.client.keep_alive = Duration::from_millis(100));
    let raw = RawClient::connect(&server, &authority).await;
    assert!(raw.ask(&head("GET", "/hit/3", &[])).await.expect("a response").ends_with(b"hhh"));
    assert_eq!(raw.closed().await, 0x100);
}

#[tokio::test]
async fn connections_have_limits() {
    let authority = Authority::new();
    let server = serving(&authority, |settings| settings.listen[0].client_connections = Some(1));
    let first = RawClient::connect(&server, &authority).await;
    until("the first", || server.metrics.h3_connections.value() == 1).await;
    let second = RawClient::silent(&server, &authority).await;
    assert_eq!(second.closed().await, 0x107);
    assert!(first.ask(&head("GET", "/hit/1", &[])).await.is_ok());
    assert_eq!(server.metrics.limited_connections.value(), 1);
    let server = serving(&authority, |settings| settings.max_connections = 1);
    let first = RawClient::connect(&server, &authority).await;
    until("the first", || server.metrics.h3_connections.value() == 1).await;
    connect(server.address(), trusting(&authority), "a.test").await.expect_err("refused");
    drop(first);
}
