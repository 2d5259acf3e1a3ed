//! Certificates of origins that are accepted as they stand, without an authority:
//! `upstream.pinned_certificates`.
//!
//! `openssl req -x509` makes certificates that name themselves an authority. RFC 5280, 4.2.1.9 lets
//! such a one sign others, and it is refused as a server's own. An operator who gives it to this
//! node means this certificate and no other.
//!
//! | of a pinned certificate | checked |
//! |---|---|
//! | all of its bytes | equal to the file's |
//! | its key | proven by the handshake, as always |
//! | its names | one is the upstream's, as always |
//! | its dates | as always |
//! | its issuer, and whether it calls itself an authority | no |
//!
//! Others are judged by the authorities, among which a pinned certificate is not.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;
use webpki::{EndEntityCert, KeyUsage};

/// Judges certificates by the pinned ones first.
#[derive(Debug)]
pub(super) struct Pinning {
    pinned: Vec<CertificateDer<'static>>,
    /// Judges by authorities; `None` without any.
    by_authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Pinning {
    /// Accepts `pinned`, and what `by_authority` accepts.
    pub fn new(
        pinned: Vec<CertificateDer<'static>>,
        by_authority: Option<Arc<WebPkiServerVerifier>>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self { pinned, by_authority, provider }
    }

    /// Checks the dates of a certificate whose issuer does not matter.
    fn check_dates(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
        let parsed = EndEntityCert::try_from(certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let usage = KeyUsage::server_auth();
        let outcome = parsed.verify_for_usage(algorithms, &[], &[], now, usage, None, None);
        match outcome.map(drop) {
            // The dates are looked at before either of these is found.
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

impl ServerCertVerifier for Pinning {
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

/// What an operator may do about a certificate that was refused for this reason.
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
