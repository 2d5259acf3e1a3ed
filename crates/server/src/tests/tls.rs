//! Tests of TLS: certificates by name, ALPN, resumption, reload, and the PROXY protocol before TLS.

use super::client::Client;
use super::{Server, wait_until};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use shoal_settings::Certificate;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// Certificate authority, and the folder of its certificates.
pub(super) struct Authority {
    folder: tempfile::TempDir,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    root: CertificateDer<'static>,
    root_pem: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = rcgen::KeyPair::generate().expect("randomness");
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let signed = parameters.self_signed(&key).expect("sound");
        let (root, root_pem) = (signed.der().clone(), signed.pem());
        let issuer = rcgen::Issuer::new(parameters, key);
        Self { folder: tempfile::tempdir().expect("a folder"), issuer, root, root_pem }
    }

    /// Writes a certificate for `names` into files called `file`.
    pub(super) fn issue(&self, file: &str, names: &[&str]) -> Certificate {
        let key = rcgen::KeyPair::generate().expect("randomness");
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let certificate = rcgen::CertificateParams::new(names).expect("names");
        let certificate = certificate.signed_by(&key, &self.issuer).expect("sound");
        let path = |end: &str| self.folder.path().join(format!("{file}.{end}"));
        std::fs::write(path("pem"), certificate.pem()).expect("room");
        std::fs::write(path("key"), key.serialize_pem()).expect("room");
        Certificate { certificate: path("pem"), key: path("key") }
    }

    /// Returns a root store that trusts the authority.
    pub(super) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).expect("a sound root");
        roots
    }

    /// Writes the root. Returns its file.
    pub(super) fn write_root(&self) -> std::path::PathBuf {
        let path = self.folder.path().join("root.pem");
        std::fs::write(&path, &self.root_pem).expect("room");
        path
    }

    /// Returns a client configuration that trusts the authority.
    pub(super) fn trusting(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        self.speaking(rustls::DEFAULT_VERSIONS, alpn)
    }

    /// Returns such a configuration for these versions of TLS.
    pub(super) fn speaking(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        alpn: &[&str],
    ) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let mut config =
            builder.expect("versions").with_root_certificates(self.roots()).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// Connects and performs the TLS handshake, after sending `first` in the clear.
pub(super) fn connect(
    server: &Server,
    config: &Arc<ClientConfig>,
    name: &str,
    first: &[u8],
) -> Result<TlsClient, std::io::Error> {
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(first)?;
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let mut connection = ClientConnection::new(Arc::clone(config), name).expect("a sound configuration");
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(Client::over(StreamOwned::new(connection, stream)))
}

/// Returns the server's certificate.
fn shown(client: &TlsClient) -> CertificateDer<'static> {
    client.stream.conn.peer_certificates().expect("shaken hands")[0].clone().into_owned()
}

fn read(file: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).expect("written above")
}

fn serving(certificates: &[Certificate]) -> Server {
    Server::with(|settings| settings.listen[0].tls = certificates.to_vec())
}

#[test]
fn certificates_are_chosen_by_name() {
    let authority = Authority::new();
    let first = authority.issue("first", &["first.test", "also.test"]);
    let wild = authority.issue("wild", &["*.wild.test"]);
    let exact = authority.issue("exact", &["exact.wild.test"]);
    let server = serving(&[first.clone(), wild.clone(), exact.clone()]);
    let config = authority.trusting(&[]);
    let cases =
        [("first.test", &first), ("also.test", &first), ("a.wild.test", &wild), ("EXACT.wild.test", &exact)];
    for (name, expected) in cases {
        let mut client = connect(&server, &config, name, b"").expect("a handshake");
        assert!(shown(&client) == read(&expected.certificate), "{name}");
        let seen = client.get("/client");
        let expected = format!("tls: true, server_name: Some(\"{}\")", name.to_lowercase());
        assert!(seen.text().contains(&expected), "{}", seen.text());
        assert_eq!(client.get("/memory/100000").body.len(), 100_000);
    }
    // Other names get the first certificate, which the client refuses.
    for name in ["a.b.wild.test", "other.test", "127.0.0.1"] {
        assert!(connect(&server, &config, name, b"").is_err(), "{name}");
    }
    wait_until("the failures", || server.metrics.tls_failures.value() == 3);
}

#[test]
fn sessions_are_resumed_and_alpn_is_spoken() {
    let authority = Authority::new();
    let server = serving(&[authority.issue("one", &["one.test"])]);
    for version in rustls::ALL_VERSIONS {
        let config = authority.speaking(&[version], &["http/1.1"]);
        let mut kinds = Vec::new();
        // Tickets carry the whole state, so any worker accepts them.
        for _ in 0..5 {
            let mut client = connect(&server, &config, "one.test", b"").expect("a handshake");
            client.get("/memory/1");
            assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert_eq!(client.stream.conn.protocol_version(), Some(version.version));
            kinds.push(client.stream.conn.handshake_kind());
        }
        let resumed = [Some(HandshakeKind::Resumed); 4];
        assert_eq!((kinds[0], &kinds[1..]), (Some(HandshakeKind::Full), &resumed[..]), "{version:?}");
    }
}

/// As over plain TCP, a client that has ended its sending may still wait for its reply.
#[test]
fn a_client_that_has_said_its_last_gets_its_answer() {
    let authority = Authority::new();
    let server = serving(&[authority.issue("one", &["one.test"])]);
    let mut client = connect(&server, &authority.trusting(&[]), "one.test", b"").expect("a handshake");
    client.send("GET /memory/300000 HTTP/1.1\r\nHost: one.test\r\n\r\n");
    client.stream.conn.send_close_notify();
    client.stream.flush().expect("the server reads");
    assert_eq!(client.response().body.len(), 300_000);
    assert_eq!(client.rest(), b"");
    wait_until("the connection's end", || server.metrics.connections_open.value() == 0);
}

#[tokio::test]
async fn h2_is_chosen_by_alpn() {
    let authority = Authority::new();
    let server = serving(&[authority.issue("one", &["one.test"])]);
    let connector = tokio_rustls::TlsConnector::from(authority.trusting(&["h2", "http/1.1"]));
    let stream = tokio::net::TcpStream::connect(server.address()).await.expect("the server listens");
    let name = ServerName::try_from("one.test").expect("a name");
    let stream = connector.connect(name, stream).await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    tokio::spawn(connection);
    let request = http::Request::builder().uri("https://one.test/memory/7").body(()).expect("valid");
    let (response, _) = send.send_request(request, true).expect("open");
    let mut body = response.await.expect("an answer").into_body();
    assert_eq!(body.data().await.expect("data").expect("sound"), "mmmmmmm");
}

#[test]
fn a_reload_reads_certificates_again() {
    let authority = Authority::new();
    let one = authority.issue("one", &["one.test"]);
    let server = serving(std::slice::from_ref(&one));
    let config = authority.trusting(&[]);
    let before = shown(&connect(&server, &config, "one.test", b"").expect("a handshake"));
    authority.issue("one", &["one.test", "two.test"]);
    let two = authority.issue("three", &["three.test"]);
    let mut settings = shoal_settings::Settings::default();
    settings.listen[0].tls = vec![one.clone(), two];
    server.running().reloader().reload(&settings).expect("sound certificates");
    for name in ["one.test", "two.test", "three.test"] {
        assert!(shown(&connect(&server, &config, name, b"").expect("a handshake")) != before, "{name}");
    }
    std::fs::write(&one.certificate, "no certificate").expect("room");
    let error = server.running().reloader().reload(&settings).expect_err("nothing to read");
    assert!(error.to_string().contains("one.pem"), "{error}");
    connect(&server, &config, "two.test", b"").expect("the old certificate stays");
}

#[test]
fn changed_files_are_noticed() {
    let authority = Authority::new();
    let one = authority.issue("one", &["one.test"]);
    let server = serving(std::slice::from_ref(&one));
    let config = authority.trusting(&[]);
    connect(&server, &config, "one.test", b"").expect("a handshake");
    std::fs::write(&one.key, "no key").expect("room");
    authority.issue("one", &["renewed.test", "one.test"]);
    wait_until("the new certificate", || connect(&server, &config, "renewed.test", b"").is_ok());
}

#[test]
fn certificates_that_cannot_be_used_stop_the_start() {
    let authority = Authority::new();
    let (one, two) = (authority.issue("one", &["one.test"]), authority.issue("two", &["two.test"]));
    let check = |certificate: Certificate, files: &[&str]| {
        let mut settings = shoal_settings::Settings::default();
        settings.listen[0].address = ([127, 0, 0, 1], 0).into();
        settings.listen[0].tls = vec![certificate];
        let error = crate::bind(&settings).err().expect("unusable").to_string();
        assert!(files.iter().all(|file| error.contains(file)), "{error}");
    };
    check(Certificate { certificate: "/nowhere.pem".into(), ..one.clone() }, &["/nowhere.pem"]);
    check(
        Certificate { key: two.key.clone(), ..one.clone() },
        &["two.key: is not the key of the certificate in ", "one.pem"],
    );
    check(Certificate { certificate: one.key.clone(), ..one.clone() }, &["one.key"]);
    assert!(PrivateKeyDer::from_pem_file(&one.key).is_ok(), "the files themselves are sound");
}

#[test]
fn plain_http_on_a_tls_listener_is_no_handshake() {
    let authority = Authority::new();
    let server = serving(&[authority.issue("one", &["one.test"])]);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: one.test\r\n\r\n");
    assert!(!String::from_utf8_lossy(&client.rest()).contains("HTTP/1.1"));
    wait_until("the failure", || server.metrics.tls_failures.value() == 1);
}

#[test]
fn silent_handshakes_time_out() {
    let authority = Authority::new();
    let certificate = authority.issue("one", &["one.test"]);
    let server = Server::with(|settings| {
        settings.listen[0].tls = vec![certificate];
        settings.client.head_timeout = Duration::from_millis(150);
    });
    assert_eq!(server.connect().rest(), b"");
    wait_until("the failure", || server.metrics.tls_failures.value() == 1);
    // A handshake that trickles in has no more time.
    let name = ServerName::try_from("one.test").expect("a name");
    let mut session =
        ClientConnection::new(authority.trusting(&[]), name).expect("a configuration that fits");
    let mut hello = Vec::new();
    session.write_tls(&mut hello).expect("a vector takes all");
    let mut client = server.connect();
    for byte in &hello[..40] {
        // The server may have closed the connection.
        let _ = client.stream.write_all(&[*byte]);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.metrics.tls_failures.value(), 2);
}

#[test]
fn the_proxy_protocol_names_the_client() {
    let authority = Authority::new();
    let certificate = authority.issue("one", &["one.test"]);
    let server = Server::with(|settings| {
        settings.listen[0].proxy_protocol_from = vec!["127.0.0.0/8".parse().expect("a network")];
        settings.listen[0].tls = vec![certificate];
    });
    let config = authority.trusting(&[]);
    let header = b"PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n";
    let mut client = connect(&server, &config, "one.test", header).expect("a handshake");
    let seen = client.get("/client");
    assert!(seen.text().contains("address: 192.0.2.1:56324, local: 198.51.100.7:443"), "{}", seen.text());
}
