//! Challenges of an authority that are answered in handshakes (tls-alpn-01, RFC 8737).
//!
//! A handshake of the one protocol `acme-tls/1` gets the certificate of an open challenge for its
//! server name, or fails. All others get the listener's certificates.

use super::ALPN_ACME;
use super::certificates::Certificates;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use shoal_acme::Challenges;
use std::sync::Arc;

/// Certificates of a listener, and open challenges.
#[derive(Debug)]
pub(super) struct ChallengeResolver {
    certificates: Arc<Certificates>,
    challenges: Arc<Challenges>,
}

impl ChallengeResolver {
    pub fn new(certificates: &Arc<Certificates>, challenges: &Arc<Challenges>) -> Self {
        Self { certificates: Arc::clone(certificates), challenges: Arc::clone(challenges) }
    }

    fn answer(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let answer = self.challenges.tls_answer(name)?;
        let chain = vec![CertificateDer::from(answer.certificate.clone())];
        let key = PrivatePkcs8KeyDer::from(answer.key.clone());
        // The library reads no certificate with the critical extension of a challenge, and cannot
        // compare the keys.
        let key = default_provider().key_provider.load_private_key(key.into()).ok()?;
        Some(Arc::new(CertifiedKey::new(chain, key)))
    }
}

impl ResolvesServerCert for ChallengeResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // The authority offers this protocol alone (RFC 8737, section 3).
        let is_challenge = hello.alpn().is_some_and(|names| {
            let mut names = names.take(2);
            names.next() == Some(ALPN_ACME) && names.next().is_none()
        });
        match is_challenge {
            true => hello.server_name().and_then(|name| self.answer(name)),
            false => self.certificates.key_for(hello.server_name()),
        }
    }
}
