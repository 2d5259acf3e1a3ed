//! Certificates that an https address may show, and errors of the handshake in an operator's words.
//!
//! | trust | accepted |
//! |---|---|
//! | system | certificates of the system's authorities, with the right name and dates |
//! | file | certificates of the file's authorities, likewise; a certificate in the file itself |
//! | own | certificates that the node's settings name here, byte by byte; else as system |
//! | unchecked | any; for requests that carry no secret |
//!
//! The key is proven in every case.

use crate::failure::Failure;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use shoal_proxy::admin::PinVerifier;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Certificates that are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates of the system's authorities.
    System,
    /// Certificates of a file.
    File(PathBuf),
    /// Certificates that the node's settings name.
    Own(Vec<PathBuf>),
    /// All certificates.
    Unchecked,
}

impl Trust {
    /// Returns the settings of a handshake.
    pub fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (mut pinned, mut own) = (Vec::new(), Vec::new());
        let mut roots = RootCertStore::empty();
        match self {
            Self::File(file) => {
                pinned = certificates(file)
                    .map_err(|why| Failure::Usage(format!("--admin-ca {}: {why}", file.display())))?;
                roots.add_parsable_certificates(pinned.iter().cloned());
            }
            Self::Own(files) => {
                // Others than the node's user may not be able to read them.
                own = files.iter().filter_map(|file| certificates(file).ok()?.into_iter().next()).collect();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Self::System => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Self::Unchecked => {}
        }
        let by_authority = (!roots.is_empty())
            .then(|| {
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()
            })
            .transpose()
            .map_err(|error| Failure::Runtime(format!("the authorities cannot be used: {error}")))?;
        debug_assert!(pinned.is_empty() || own.is_empty(), "one source of certificates");
        let verifier = CommandVerifier {
            is_unchecked: *self == Self::Unchecked,
            own,
            further: PinVerifier::new(pinned, by_authority, Arc::clone(&provider)),
            provider: Arc::clone(&provider),
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Verifier by [`Trust`].
#[derive(Debug)]
struct CommandVerifier {
    is_unchecked: bool,
    own: Vec<CertificateDer<'static>>,
    further: PinVerifier,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for CommandVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.is_unchecked || self.own.iter().any(|own| own == end_entity) {
            true => Ok(ServerCertVerified::assertion()),
            false => {
                self.further.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.further.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.further.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Reads the certificates of a PEM file.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    if certificates.is_empty() { Err("holds no certificate in PEM".into()) } else { Ok(certificates) }
}

/// Returns the reason of a failed handshake with the host of `authority`, with the remedy.
pub fn reason(error: &Error, authority: &str) -> String {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    match error {
        Error::InvalidCertificate(why) => certificate_reason(why, host),
        Error::InvalidMessage(_) => format!("no TLS is spoken there; write http://{authority}"),
        Error::AlertReceived(alert) => format!("the other side ended the handshake: {alert:?}"),
        other => format!("the handshake failed: {other}"),
    }
}

fn certificate_reason(why: &CertificateError, host: &str) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired, or the clock of this machine is wrong; replace the files of [[admin.tls]], which \
             the node then reads by itself"
                .into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet, or the clock of this machine is wrong".into()
        }
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => format!(
            "its certificate is not for {host}; it is for {}: ask it by that name",
            presented.iter().map(|name| plain_name(name)).collect::<Vec<_>>().join(", ")
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for {host}; ask it by a name that stands in the certificate")
        }
        CertificateError::UnknownIssuer => {
            "no trusted authority has signed its certificate; --admin-ca FILE names the authority, or the certificate itself"
                .into()
        }
        // webpki: an authority shows itself as a server, as `openssl req -x509` makes certificates.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is self-signed; --admin-ca FILE names the certificate itself".into()
        }
        other => format!("its certificate cannot be used: {other}"),
    }
}

/// Returns a name of a certificate as rustls tells it, `DnsName("a")`, without the wrapping.
fn plain_name(name: &str) -> &str {
    name.split_once('"').and_then(|(_, rest)| rest.split_once('"')).map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_tell_the_way_out() {
        let certificate = |why| reason(&Error::InvalidCertificate(why), "cache1.test:3129");
        assert!(certificate(CertificateError::Expired).contains("[[admin.tls]]"));
        assert!(certificate(CertificateError::UnknownIssuer).contains("--admin-ca FILE"));
        assert!(certificate(CertificateError::NotValidForName).contains("not for cache1.test;"));
        let plain = Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        assert!(reason(&plain, "cache1.test:3129").ends_with("http://cache1.test:3129"));
        assert_eq!(plain_name("DnsName(\"a.test\")"), "a.test");
    }

    #[test]
    fn file_without_certificate_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.pem");
        for text in ["", "nonsense"] {
            std::fs::write(&file, text).expect("written");
            let failure = Trust::File(file.clone()).config().map(drop).expect_err(text);
            assert!(failure.lines().concat().contains("holds no certificate"));
        }
        assert!(Trust::System.config().is_ok(), "even on a machine without authorities");
    }
}
