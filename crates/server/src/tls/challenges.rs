//! Challenges of an authority that are answered in handshakes (tls-alpn-01, RFC 8737).
//!
//! A handshake of the one protocol `acme-tls/1` gets the certificate of an open challenge for its
//! server name, or fails. All others get the listener's certificates, and the listener may want
//! one of the client.

use super::ALPN_ACME;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use shoal_acme::Challenges;
use std::sync::Arc;

/// Certificates of open challenges.
#[derive(Debug)]
pub(super) struct ChallengeResolver(pub Arc<Challenges>);

impl ResolvesServerCert for ChallengeResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let answer = self.0.tls_answer(hello.server_name()?)?;
        let chain = vec![CertificateDer::from(answer.certificate.clone())];
        let key = PrivatePkcs8KeyDer::from(answer.key.clone());
        // The library reads no certificate with the critical extension of a challenge, and cannot
        // compare the keys.
        let key = default_provider().key_provider.load_private_key(key.into()).ok()?;
        Some(Arc::new(CertifiedKey::new(chain, key)))
    }
}

/// Returns `true` for a handshake of the authority, which offers this protocol alone (RFC 8737,
/// section 3).
pub(super) fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|names| {
        let mut names = names.take(2);
        names.next() == Some(ALPN_ACME) && names.next().is_none()
    })
}
