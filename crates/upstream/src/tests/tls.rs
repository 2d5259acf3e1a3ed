//! Tests of TLS to origins: trust, and the errors without it.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Authority made for this run, with its certificate in a file.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(certificate.pem().as_bytes()).expect("written");
        Authority { issuer: Issuer::new(params, key), file }
    })
}

/// Returns the file of the authority's certificate.
pub(super) fn ca_file() -> &'static Path {
    authority().file.path()
}

/// Creates an acceptor with a certificate for `name`. The certificate is from our authority, or
/// self-signed if `known` is false.
pub(super) fn acceptor(name: &str, known: bool, protocols: &[&str]) -> TlsAcceptor {
    acceptor_of(rustls::crypto::ring::default_provider(), name, known, protocols)
}

fn acceptor_of(provider: CryptoProvider, name: &str, known: bool, protocols: &[&str]) -> TlsAcceptor {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    let certificate = if known {
        params.signed_by(&key, &authority().issuer).expect("a certificate")
    } else {
        params.self_signed(&key).expect("a certificate")
    };
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .expect("a matching key");
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// Starts a TLS origin that passes its connections to `serve`.
pub(super) async fn origin<F>(
    acceptor: TlsAcceptor,
    serve: impl Fn(TlsStream<TcpStream>) -> F + Copy + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream).await;
                }
            });
        }
    });
    address
}

pub(super) fn trusting(address: SocketAddr) -> Asker {
    Asker::with(address, Scheme::Https, |upstream| upstream.ca_file = Some(ca_file().into()))
}

async fn answer(stream: &mut TlsStream<TcpStream>, bytes: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a request"));
    }
    stream.write_all(bytes.as_bytes()).await.expect("room");
    stream.flush().await.expect("room");
}

#[tokio::test]
async fn trusted_origin_answers_and_is_kept() {
    let address = origin(acceptor("127.0.0.1", true, &["http/1.1"]), |mut stream| async move {
        answer(&mut stream, OK).await;
        answer(&mut stream, OK).await;
    })
    .await;
    let asker = trusting(address);
    assert_eq!(asker.get_whole("/").await, (200, "ok".into()));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(asker.get_whole("/").await, (200, "ok".into()));
    assert_eq!(asker.metrics.upstream_opened.value(), 1);
}

#[tokio::test]
async fn http1_origin_gets_concurrent_connections() {
    let address = origin(acceptor("127.0.0.1", true, &["http/1.1"]), |mut stream| async move {
        answer(&mut stream, OK).await;
        std::future::pending().await
    })
    .await;
    let asker = trusting(address);
    tokio::join!(asker.get_whole("/"), asker.get_whole("/"), asker.get_whole("/"));
    assert_eq!(asker.metrics.upstream_opened.value(), 3);
}

/// Answers with the group of the key exchange.
async fn tell_group(mut stream: TlsStream<TcpStream>) {
    let session = stream.get_ref().1;
    let group = session.negotiated_key_exchange_group().map(|group| group.name());
    assert_eq!(session.handshake_kind(), Some(rustls::HandshakeKind::Full), "one round trip");
    let text = format!("{:?}", group.expect("a handshake"));
    answer(&mut stream, &format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())).await;
}

#[tokio::test]
async fn hybrid_group_is_first_unless_the_host_is_excepted() {
    let key_of = |hosts: &'static [&str], address| async move {
        let asker = Asker::with(address, Scheme::Https, |upstream| {
            upstream.ca_file = Some(ca_file().into());
            upstream.classical_hosts = hosts.iter().map(ToString::to_string).collect();
        });
        asker.get_whole("/").await.1
    };
    let address = origin(acceptor("127.0.0.1", true, &[]), tell_group).await;
    assert_eq!(key_of(&[], address).await, "X25519", "an origin without the group");
    let hybrid = acceptor_of(crate::transport::hybrid_provider(), "127.0.0.1", true, &[]);
    let address = origin(hybrid, tell_group).await;
    assert_eq!(key_of(&[], address).await, "X25519MLKEM768");
    assert_eq!(key_of(&["other.example", "10.0.0.0/8"], address).await, "X25519MLKEM768");
    for hosts in [&["127.0.0.1"][..], &["127.0.0.0/8"], &["*"]] {
        assert_eq!(key_of(hosts, address).await, "X25519", "{hosts:?}");
    }
}

#[tokio::test]
async fn certificates_are_judged() {
    for (name, known, cause) in
        [("127.0.0.1", false, Cause::TlsCertificate), ("other.example", true, Cause::TlsCertificate)]
    {
        let address = origin(acceptor(name, known, &[]), |_| async {}).await;
        let error = trusting(address).get("/").await.map(drop).expect_err("refused");
        assert_eq!((&error.cause, error.status().as_u16()), (&cause, 502), "{error}");
        assert_eq!(error.proxy_status().as_str(), "tls_certificate_error");
    }
}

#[tokio::test]
async fn handshakes_that_fail() {
    for (script, cause) in [
        (vec![Say("HTTP/1.1 400 Bad Request\r\n\r\n"), Hang], Cause::TlsProtocol),
        (vec![ReadBytes(1)], Cause::Terminated),
        // A fatal handshake_failure alert.
        (vec![ReadBytes(1), Say("\x15\x03\x03\0\x02\x02\x28"), Hang], Cause::TlsAlert),
    ] {
        let origin = RawOrigin::start(vec![script]).await;
        let error = trusting(origin.address).get("/").await.map(drop).expect_err("no TLS");
        assert_eq!(error.cause, cause, "{error}");
    }
}

#[tokio::test]
async fn body_until_close_needs_close_notify() {
    let until_close = "HTTP/1.1 200 OK\r\n\r\nall of it";
    let orderly = origin(acceptor("127.0.0.1", true, &[]), move |mut stream| async move {
        answer(&mut stream, until_close).await;
        stream.shutdown().await.expect("close_notify");
    })
    .await;
    assert_eq!(trusting(orderly).get_whole("/").await, (200, "all of it".into()));

    let cut = origin(acceptor("127.0.0.1", true, &[]), move |mut stream| async move {
        answer(&mut stream, until_close).await;
        stream.get_mut().0.shutdown().await.expect("a FIN");
    })
    .await;
    let outcome = whole(trusting(cut).get("/").await.expect("a head")).await;
    assert!(matches!(outcome, Err(BodyError::Cut(_))), "{outcome:?}");
}

/// Creates a certificate as `openssl req -x509 -addext subjectAltName=...` does: self-signed and
/// declared an authority. Returns its file, and an acceptor that uses it.
fn self_signed(name: &str, not_after: i32) -> (tempfile::NamedTempFile, TlsAcceptor) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_after = rcgen::date_time_ymd(not_after, 1, 1);
    let certificate = params.self_signed(&key).expect("a certificate");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(certificate.pem().as_bytes()).expect("written");
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .expect("a matching key");
    (file, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn a_pinned_certificate_is_accepted_as_it_stands() {
    let (file, acceptor) = self_signed("127.0.0.1", 4000);
    let address = origin(acceptor, |mut stream| async move { answer(&mut stream, OK).await }).await;
    let pinned = |pin: bool, file: &Path| {
        Asker::with(address, Scheme::Https, |upstream| match pin {
            true => upstream.pinned_certificates = Some(file.into()),
            false => upstream.ca_file = Some(file.into()),
        })
    };
    assert_eq!(pinned(true, file.path()).get_whole("/").await, (200, "ok".into()));
    let as_authority = pinned(false, file.path()).get("/").await.map(drop).expect_err("it is no authority's");
    assert!(as_authority.to_string().contains("upstream.pinned_certificates"), "{as_authority}");
    let (other, _) = self_signed("127.0.0.1", 4000);
    let error = pinned(true, other.path()).get("/").await.map(drop).expect_err("another is pinned");
    assert!(error.to_string().contains("upstream.pinned_certificates"), "{error}");
}

#[tokio::test]
async fn a_pinned_certificate_has_names_and_dates() {
    for (name, not_after, why) in [("elsewhere.test", 4000, "NotValidForName"), ("127.0.0.1", 2001, "xpired")]
    {
        let (file, acceptor) = self_signed(name, not_after);
        let address = origin(acceptor, |_| async {}).await;
        let asker = Asker::with(address, Scheme::Https, |upstream| {
            upstream.pinned_certificates = Some(file.path().into());
        });
        let error = asker.get("/").await.map(drop).expect_err(name);
        assert_eq!(error.cause, Cause::TlsCertificate, "{error}");
        let said = error.to_string();
        assert!(said.contains(why) || said.contains("not valid for"), "{error}");
    }
}

/// A pinned authority could otherwise sign for every name.
#[tokio::test]
async fn a_pinned_certificate_signs_no_others() {
    let address = origin(acceptor("127.0.0.1", true, &[]), |_| async {}).await;
    let asker = Asker::with(address, Scheme::Https, |upstream| {
        upstream.pinned_certificates = Some(ca_file().into());
    });
    let error = asker.get("/").await.map(drop).expect_err("signed by a pinned certificate");
    assert_eq!(error.cause, Cause::TlsCertificate, "{error}");
}

#[test]
fn a_bad_ca_file_is_a_setup_error() {
    let mut empty = tempfile::NamedTempFile::new().expect("a file");
    empty.write_all(b"no certificate here").expect("written");
    for path in [Path::new("/nonexistent/ca.pem"), empty.path()] {
        let settings = settings(|upstream| upstream.ca_file = Some(path.into()));
        let error = Upstreams::new(&settings, Arc::default()).map(drop).expect_err("refused");
        assert!(error.to_string().starts_with(&format!("upstream.ca_file {}: ", path.display())));
    }
}
