//! Tests of handshakes with an authority that looks at a challenge (tls-alpn-01).

use super::Server;
use super::handler::Scripted;
use super::tls::{Authority, connect};
use crate::metrics::Metrics;
use crate::running::bind_or_take;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use shoal_acme::{Challenges, TlsAnswer};
use shoal_handover::InheritedSockets;
use shoal_settings::{Listen, Settings};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Starts a server for clients with a certificate of `authority`.
fn guarded(authority: &Authority, challenges: &Arc<Challenges>) -> Server {
    let mut settings = Settings { workers: 1, ..Settings::default() };
    settings.acme.directory = "https://ca.test/".into();
    settings.listen = vec![Listen {
        tls: vec![authority.issue("a", &["a.test"])],
        client_ca: Some(authority.write_root()),
        ..Listen::reverse(([127, 0, 0, 1], 0).into())
    }];
    let (handler, metrics) = (Arc::new(Scripted::default()), Arc::new(Metrics::default()));
    let bound = bind_or_take(&settings, &mut InheritedSockets::default(), challenges).expect("sound");
    let running = bound.start(Arc::clone(&handler), Arc::clone(&metrics), |_| {}).expect("threads start");
    Server { running: Some(running), handler, metrics }
}

/// Makes a handshake with these protocols, takes any certificate, and sends a request. Returns
/// the certificate and the answer; `None` if the handshake fails.
fn ask(server: &Server, protocols: &[&str]) -> Option<(CertificateDer<'static>, Vec<u8>)> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").dangerous();
    let mut config = builder.with_custom_certificate_verifier(Arc::new(AnyCertificate)).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let mut client = connect(server, &Arc::new(config), "a.test", b"").ok()?;
    let shown = client.stream.conn.peer_certificates()?.first()?.clone().into_owned();
    let mut answer = Vec::new();
    let _ = client.stream.write_all(b"GET /memory/1 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let _ = client.stream.read_to_end(&mut answer);
    Some((shown, answer))
}

#[test]
fn authority_gets_its_challenge_alone() {
    let (authority, challenges) = (Authority::new(), Arc::new(Challenges::default()));
    let server = guarded(&authority, &challenges);
    assert_eq!(ask(&server, &["acme-tls/1"]), None, "no challenge is open");
    let key = rcgen::KeyPair::generate().expect("randomness");
    let own = rcgen::CertificateParams::new(vec!["a.test".into()]).expect("a name");
    let own = own.self_signed(&key).expect("sound");
    let answer = TlsAnswer { certificate: own.der().to_vec(), key: key.serialize_der() };
    assert!(challenges.open_tls("a.test", answer));
    let (shown, answer) = ask(&server, &["acme-tls/1"]).expect("a handshake");
    assert_eq!((&shown, answer), (own.der(), Vec::new()), "no request is answered");
    // All others are asked for a certificate, and get the listener's own.
    for protocols in [&[][..], &["http/1.1"], &["acme-tls/1", "http/1.1"]] {
        let (shown, answer) = ask(&server, protocols).expect("the client's part of a handshake");
        assert_ne!(&shown, own.der(), "{protocols:?}");
        assert!(answer.is_empty(), "{protocols:?}");
    }
    assert_eq!(server.handler.begun.load(SeqCst), 0);
    challenges.close();
    assert_eq!(ask(&server, &["acme-tls/1"]), None, "it is closed");
}

/// The certificate of a challenge signs itself: it is looked at, not trusted.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
