//! TLS by the kernel: the same answers as by the process, and the same ends. Where the kernel has
//! no TLS these tests say so, and hold only that the process then encrypts.

use super::tls::{Authority, TlsClient, connect};
use super::{Server, wait_until};
use crate::metrics::Metrics;
use crate::server::tls::{Shaken, Tls};
use crate::transport::Rewind;
use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ClientConnection, HandshakeKind};
use shoal_ktls::Offer;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Whether this kernel has TLS.
fn has_kernel_tls(test: &str) -> bool {
    match Offer::ask() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("{test}: skipped in part, this kernel has no TLS: {error}");
            false
        }
    }
}

fn serving(authority: &Authority, kernel_tls: bool) -> Server {
    let certificate = authority.issue("one", &["one.test"]);
    Server::with(|settings| {
        settings.listen[0].tls = vec![certificate];
        settings.listen[0].kernel_tls = kernel_tls;
        settings.client.keep_alive = Duration::from_secs(2);
    })
}

/// Every suite, each by a client that speaks no other.
fn suites(authority: &Authority) -> Vec<(CipherSuite, Arc<ClientConfig>)> {
    let provider = rustls::crypto::ring::default_provider();
    let made = provider.cipher_suites.iter().filter(|suite| !format!("{suite:?}").contains("_RSA_"));
    let config = |suite: &rustls::SupportedCipherSuite| {
        let mut provider = provider.clone();
        provider.cipher_suites = vec![*suite];
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&[suite.version()]).expect("a suite of it");
        let config = builder.with_root_certificates(authority.roots()).with_no_client_auth();
        (suite.suite(), Arc::new(config))
    };
    made.map(config).collect()
}

/// What a client is told that asks for this and that, one after the other and several at once.
fn conversation(server: &Server, client: &mut TlsClient) -> Vec<(String, Vec<u8>)> {
    let mut said = Vec::new();
    let mut take = |response: super::client::Response| {
        // The handler's fields tell by which way a hit was answered, which is a matter of what came
        // at once.
        said.push((response.head.lines().next().unwrap_or_default().to_owned(), response.body));
    };
    for path in
        ["/hit/1", "/hit/1000", "/hit/60000", "/memory/3000000", "/hit/1000", "/frames/a,b", "/absent"]
    {
        take(client.get(path));
    }
    for _ in 0..30 {
        take(client.get("/hit/100"));
    }
    let get = "GET /hit/5000 HTTP/1.1\r\nHost: one.test\r\n\r\n";
    client.send(get.repeat(20));
    (0..20).for_each(|_| take(client.response()));
    let body = vec![7; 500_000];
    client.send(format!("POST /count HTTP/1.1\r\nHost: one.test\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    take(client.response());
    // A head in two records.
    let (first, second) = get.split_at(20);
    client.send(first);
    std::thread::sleep(Duration::from_millis(20));
    client.send(second);
    take(client.response());
    assert_eq!(server.metrics.tls_failures.value(), 0);
    said
}

#[test]
fn answers_are_the_same_with_every_suite() {
    let kernel = has_kernel_tls("answers_are_the_same_with_every_suite");
    let authority = Authority::new();
    for (suite, config) in suites(&authority) {
        let said = [false, true].map(|kernel_tls| {
            let server = serving(&authority, kernel_tls);
            let mut kinds = Vec::new();
            let mut said = Vec::new();
            for _ in 0..3 {
                let mut client = connect(&server, &config, "one.test", b"").expect("a handshake");
                said.push(conversation(&server, &mut client));
                kinds.push(client.stream.conn.handshake_kind());
            }
            let by_kernel = if kernel && kernel_tls { 3 } else { 0 };
            let counted = (server.metrics.tls_by_kernel.value(), server.metrics.tls_by_process.value());
            assert_eq!(counted, (by_kernel, 3 - by_kernel), "{suite:?}");
            let resumed =
                [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed), Some(HandshakeKind::Resumed)];
            assert_eq!(kinds, resumed, "{suite:?}");
            said
        });
        for (number, (process, kernel)) in said[0].iter().flatten().zip(said[1].iter().flatten()).enumerate()
        {
            assert_eq!(process.0, kernel.0, "{suite:?}: answer {number}");
            assert!(process.1 == kernel.1, "{suite:?}: body of answer {number}, {}", process.0);
        }
    }
}

#[test]
fn the_end_is_said_and_heard() {
    let kernel = has_kernel_tls("the_end_is_said_and_heard");
    let authority = Authority::new();
    let server = serving(&authority, true);
    for version in rustls::ALL_VERSIONS {
        let config = authority.speaking(&[version], &[]);
        // The client ends its sending, and is answered; at once, and after it has been served in
        // the waiting room.
        for hits in [0, 20] {
            let mut client = connect(&server, &config, "one.test", b"").expect("a handshake");
            (0..hits).for_each(|_| assert_eq!(client.get("/hit/10").body.len(), 10));
            client.send("GET /memory/300000 HTTP/1.1\r\nHost: one.test\r\n\r\n");
            client.stream.conn.send_close_notify();
            client.stream.flush().expect("the server reads");
            assert_eq!(client.response().body.len(), 300_000);
            // An end without close_notify would be an error.
            assert_eq!(client.rest(), b"");
        }
        // It is idle for too long.
        let mut client = connect(&server, &config, "one.test", b"").expect("a handshake");
        client.get("/hit/10");
        assert_eq!(client.rest(), b"", "{version:?}");
        // It says that it leaves, without ending the connection.
        let mut client = connect(&server, &config, "one.test", b"").expect("a handshake");
        client.get("/hit/10");
        client.stream.conn.send_close_notify();
        client.stream.flush().expect("the server reads");
        let open = std::time::Instant::now();
        assert_eq!(client.rest(), b"");
        assert!(open.elapsed() < Duration::from_secs(1), "{version:?}: at once");
    }
    wait_until("the connections' ends", || server.metrics.connections_open.value() == 0);
    assert_eq!(server.metrics.tls_by_kernel.value(), if kernel { 8 } else { 0 });
}

#[test]
fn new_keys_of_a_client_end_its_connection_in_order() {
    let kernel = has_kernel_tls("new_keys_of_a_client_end_its_connection_in_order");
    let authority = Authority::new();
    let server = serving(&authority, true);
    let config = authority.speaking(&[&rustls::version::TLS13], &[]);
    let mut client = connect(&server, &config, "one.test", b"").expect("a handshake");
    client.get("/hit/10");
    client.stream.conn.refresh_traffic_keys().expect("TLS 1.3");
    client.stream.flush().expect("the server reads");
    if kernel {
        assert_eq!(client.rest(), b"");
    } else {
        assert_eq!(client.get("/hit/10").body.len(), 10);
    }
}

#[test]
fn broken_records_end_the_connection_with_an_alert() {
    has_kernel_tls("broken_records_end_the_connection_with_an_alert");
    let authority = Authority::new();
    let server = serving(&authority, true);
    let mut client = connect(&server, &authority.trusting(&[]), "one.test", b"").expect("a handshake");
    client.get("/hit/10");
    let record = [&[23, 3, 3, 0, 40][..], &[5; 40]].concat();
    client.stream.sock.write_all(&record).expect("the server reads");
    let error = client.stream.read(&mut [0]).expect_err("no answer");
    assert!(error.to_string().contains("BadRecordMac"), "{error}");
    wait_until("the connection's end", || server.metrics.connections_open.value() == 0);
}

/// A nonce that comes twice gives away what it encrypts. In TLS 1.2 half of it is sent along.
#[test]
fn no_nonce_comes_twice() {
    has_kernel_tls("no_nonce_comes_twice");
    let authority = Authority::new();
    let server = serving(&authority, true);
    for (suite, config) in suites(&authority) {
        if !format!("{suite:?}").starts_with("TLS_ECDHE_ECDSA_WITH_AES") {
            continue;
        }
        let mut stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a sound timeout");
        let name = ServerName::try_from("one.test").expect("a name");
        let mut session = ClientConnection::new(config, name).expect("sound");
        let (mut heard, mut answers) = (Vec::new(), 0);
        let mut asked = false;
        while answers < 50_000 {
            while session.wants_write() {
                session.write_tls(&mut stream).expect("the server reads");
            }
            if !session.is_handshaking() && !asked {
                asked = true;
                let get = b"GET /hit/1000 HTTP/1.1\r\nHost: one.test\r\n\r\n";
                session.writer().write_all(&get.repeat(50)).expect("room");
                continue;
            }
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).expect("the server answers");
            heard.extend_from_slice(&bytes[..count]);
            let mut rest = &bytes[..count];
            while !rest.is_empty() {
                session.read_tls(&mut rest).expect("a slice");
                let state = session.process_new_packets().expect("sound records");
                let mut plain = vec![0; state.plaintext_bytes_to_read()];
                session.reader().read_exact(&mut plain).expect("it is there");
                answers += plain.len();
            }
        }
        let (mut nonces, mut encrypted, mut rest) = (HashSet::new(), false, &heard[..]);
        while rest.len() > 13 {
            let length = 5 + usize::from(u16::from_be_bytes([rest[3], rest[4]]));
            if encrypted {
                assert!(
                    nonces.insert(rest[5..13].to_vec()),
                    "{suite:?}: again after {} records",
                    nonces.len()
                );
            }
            encrypted |= rest[0] == 20;
            rest = rest.get(length..).unwrap_or_default();
        }
        assert!(nonces.len() > 20, "{} records", nonces.len());
    }
}

#[tokio::test]
async fn http2_is_served() {
    let kernel = has_kernel_tls("http2_is_served");
    let authority = Authority::new();
    let server = serving(&authority, true);
    let connector = tokio_rustls::TlsConnector::from(authority.trusting(&["h2"]));
    let stream = tokio::net::TcpStream::connect(server.address()).await.expect("the server listens");
    let name = ServerName::try_from("one.test").expect("a name");
    let stream = connector.connect(name, stream).await.expect("a handshake");
    let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    for path in ["/memory/7", "/hit/1000", "/memory/60000", "/hit/60000"] {
        let mut send = send.clone().ready().await.expect("open");
        let request =
            http::Request::builder().uri(format!("https://one.test{path}")).body(()).expect("valid");
        let (response, _) = send.send_request(request, true).expect("open");
        let mut body = response.await.expect("an answer").into_body();
        let mut count = 0;
        while let Some(data) = body.data().await {
            count += data.expect("sound").len();
        }
        assert!(path.ends_with(&format!("/{count}")), "{path}: {count}");
    }
    assert_eq!(server.metrics.tls_by_kernel.value(), u64::from(kernel));
}

/// A kernel that said it would and does not, and one that never did.
#[tokio::test]
async fn where_the_kernel_declines_the_process_encrypts() {
    let has_tls = has_kernel_tls("where_the_kernel_declines_the_process_encrypts");
    let authority = Authority::new();
    let certificates = [authority.issue("one", &["one.test"])];
    for (offer, by_kernel) in [(Offer::of_everything(), has_tls), (Offer::default(), false)] {
        let tls = Tls::with(&certificates, offer).expect("sound").expect("some");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let connector = tokio_rustls::TlsConnector::from(authority.trusting(&[]));
        let client = tokio::spawn(async move {
            let stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
            let name = ServerName::try_from("one.test").expect("a name");
            let mut stream = connector.connect(name, stream).await.expect("a handshake");
            stream.write_all(b"ping").await.expect("open");
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).await.expect("open");
            answer
        });
        let stream = listener.accept().await.expect("it connects").0;
        let stream = tls.accept(Rewind::new(Bytes::new(), stream)).await.expect("a handshake");
        let metrics = Metrics::default();
        let mut said = [0; 4];
        match tls.hand_over(Box::new(stream), &metrics) {
            Shaken::ByProcess(mut stream) => {
                stream.read_exact(&mut said).await.expect("open");
                stream.write_all(&said).await.expect("open");
                stream.flush().await.expect("open");
            }
            Shaken::ByKernel(mut stream, early) => {
                let mut stream_said = early.to_vec();
                while stream_said.len() < 4 {
                    stream.read_buf(&mut stream_said).await.expect("open");
                }
                stream.write_all(&stream_said).await.expect("open");
            }
            Shaken::Failed => panic!("it was not given up"),
        }
        assert_eq!(client.await.expect("no panic"), *b"ping");
        let counted = (metrics.tls_by_kernel.value(), metrics.tls_by_process.value());
        assert_eq!(counted, (u64::from(by_kernel), u64::from(!by_kernel)));
    }
}
