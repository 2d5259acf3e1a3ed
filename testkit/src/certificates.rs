//! A certificate authority for one test, and a client that takes any certificate.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, PublicKeyData,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// An authority that signs certificates for names and addresses.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Issued {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// Its private key, PEM.
    pub key_pem: String,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes a new authority.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names to be wrong");
        // a name of its own: a leaf of the same name would look as if it had signed itself
        params.distinguished_name.push(DnType::CommonName, "testkit authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("ring makes P-256 keys");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority signs itself");
        Self { issuer }
    }

    /// The authority's own certificate, PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for `names`, which are host names or addresses.
    pub fn issue(&self, names: &[&str]) -> Issued {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let params = CertificateParams::new(names).expect("names are ASCII");
        self.signed(params)
    }

    /// Issues a certificate for a client with this common name, and `names` beside it.
    pub fn issue_client(&self, common_name: &str, names: &[&str]) -> Issued {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let mut params = CertificateParams::new(names).expect("names are ASCII");
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example, Inc");
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.signed(params)
    }

    /// Signs a certificate for a key of another, valid from now on. Gives the chain, PEM.
    pub fn issue_for(&self, names: &[String], key: &impl PublicKeyData, lifetime: Duration) -> String {
        let mut params = CertificateParams::new(names.to_vec()).expect("names are ASCII");
        let now = SystemTime::now();
        (params.not_before, params.not_after) = (now.into(), (now + lifetime).into());
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(key, &self.issuer).expect("the authority signs");
        certificate.pem() + &self.issuer.pem()
    }

    fn signed(&self, params: CertificateParams) -> Issued {
        let key = KeyPair::generate().expect("ring makes P-256 keys");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority signs");
        Issued {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        }
    }

    /// A TLS client like [`Self::client`] that presents `issued`.
    pub fn client_with(&self, protocols: &[&str], issued: &Issued) -> Arc<rustls::ClientConfig> {
        let mut config = Arc::unwrap_or_clone(self.client(protocols));
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.key.clone()));
        let signing = provider().key_provider.load_private_key(key).expect("ring reads its own keys");
        let certified = CertifiedKey::new(vec![issued.certificate.clone()], signing);
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        Arc::new(config)
    }

    /// The roots of a client that trusts this authority alone.
    pub fn roots(&self) -> rustls::RootCertStore {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority's certificate is a root");
        roots
    }

    /// What a TLS client that trusts this authority uses, offering `protocols` by ALPN.
    pub fn client(&self, protocols: &[&str]) -> Arc<rustls::ClientConfig> {
        let builder = rustls::ClientConfig::builder_with_provider(provider());
        let versions = builder.with_safe_default_protocol_versions().expect("ring speaks TLS 1.2 and 1.3");
        let mut config = versions.with_root_certificates(self.roots()).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

impl Issued {
    /// Writes `NAME.pem` and `NAME.key` into `folder`.
    pub fn write(&self, folder: &Path, name: &str) {
        let files = [("pem", &self.certificate_pem), ("key", &self.key_pem)];
        for (suffix, text) in files {
            std::fs::write(folder.join(format!("{name}.{suffix}")), text)
                .expect("a temporary folder takes files");
        }
    }

    /// What a TLS server with this certificate uses.
    pub fn server(&self) -> Arc<rustls::ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let builder = rustls::ServerConfig::builder_with_provider(provider());
        let versions = builder.with_safe_default_protocol_versions().expect("ring speaks TLS 1.2 and 1.3");
        let config = versions.with_no_client_auth().with_single_cert(vec![self.certificate.clone()], key);
        Arc::new(config.expect("the key belongs to the certificate"))
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Verifier that takes any certificate.
#[derive(Debug)]
pub struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
    checks_signatures: bool,
}

impl AnyCertificate {
    /// Checks at least that the server has the key of its certificate.
    pub fn with_its_key() -> Self {
        Self { checks_signatures: true, ..Self::unread() }
    }

    /// Checks nothing, also of a certificate that rustls cannot read.
    pub fn unread() -> Self {
        Self { algorithms: default_provider().signature_verification_algorithms, checks_signatures: false }
    }
}

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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.checks_signatures {
            true => verify_tls12_signature(message, certificate, signature, &self.algorithms),
            false => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.checks_signatures {
            true => verify_tls13_signature(message, certificate, signature, &self.algorithms),
            false => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
