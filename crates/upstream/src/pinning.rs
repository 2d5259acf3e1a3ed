//! Certificates of origins that are accepted without an authority: `upstream.pinned_certificates`.
//!
//! `openssl req -x509` creates certificates that declare themselves an authority. RFC 5280, 4.2.1.9
//! lets such a certificate sign others, and verifiers refuse it as a server's own. By pinning it,
//! an operator accepts this certificate and no other.
//!
//! | of a pinned certificate | checked |
//! |---|---|
//! | all of its bytes | equal to the file's |
//! | its key | proven by the handshake, as always |
//! | its names | one is the upstream's, as always |
//! | its dates | as always |
//! | its issuer, and its claim to be an authority | no |
//!
//! Other certificates are verified against the authorities. A pinned certificate is not one of
//! them.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;
use webpki::{EndEntityCert, KeyUsage};

/// Certificate verifier that tries the pinned certificates first.
#[derive(Debug)]
pub struct PinVerifier {
    pinned: Vec<CertificateDer<'static>>,
    /// Verifier by authorities; `None` without any.
    by_authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl PinVerifier {
    /// Accepts `pinned`, and all certificates that `by_authority` accepts.
    pub fn new(
        pinned: Vec<CertificateDer<'static>>,
        by_authority: Option<Arc<WebPkiServerVerifier>>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self { pinned, by_authority, provider }
    }

    /// Checks the dates of a certificate, ignoring its issuer.
    fn check_dates(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
        let parsed = EndEntityCert::try_from(certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let usage = KeyUsage::server_auth();
        let outcome = parsed.verify_for_usage(algorithms, &[], &[], now, usage, None, None);
        match outcome.map(drop) {
            // webpki checks the dates before it finds either of these.
            Ok(()) | Err(webpki::Error::UnknownIssuer | webpki::Error::CaUsedAsEndEntity) => Ok(()),
            Err(webpki::Error::CertExpired { .. }) => {
                Err(Error::InvalidCertificate(CertificateError::Expired))
            }
            Err(webpki::Error::CertNotValidYet { .. }) => {
                Err(Error::InvalidCertificate(CertificateError::NotValidYet))
            }
            Err(other) => Err(Error::General(format!("the pinned certificate cannot be used: {other}"))),
        }
    }
}

impl ServerCertVerifier for PinVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.pinned.iter().any(|pinned| pinned == end_entity) {
            let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
            let judge = self.by_authority.as_ref().ok_or(unknown)?;
            return judge.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        self.check_dates(end_entity, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns advice for the operator about a certificate refused with this error.
pub(super) fn advice(error: &Error) -> &'static str {
    let Error::InvalidCertificate(why) = error else { return "" };
    match why {
        CertificateError::UnknownIssuer => {
            "; name its authority in upstream.ca_file, or the certificate itself in upstream.pinned_certificates"
        }
        CertificateError::Other(other)
            if matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
        {
            "; it is self-signed and calls itself an authority, as openssl req -x509 makes them: name its file in \
             upstream.pinned_certificates"
        }
        _ => "",
    }
}
