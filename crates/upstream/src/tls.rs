//! TLS to origins: trust, and the negotiated protocol.

use super::SetupError;
use super::error::Cause;
use super::pinning::{PinVerifier, advice};
use super::socket::OriginStream;
use crate::access::{HostPattern, HostPatterns};
use crate::message::target::Target;
use crate::settings_file;
use crate::transport::hybrid_provider;
use parking_lot::Mutex;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use shoal_settings::{Acme, Mirror, Upstream};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

/// Authorities that verify origins' certificates. The system's are read at the first https request,
/// so that a node without https spends no memory on them.
///
/// An authority that a mirror names is trusted for the hosts of that mirror alone: others may run
/// it. Hosts of the same mirrors share their settings of handshakes.
pub(super) struct TrustStore {
    further: Vec<CertificateDer<'static>>,
    scopes: Vec<AuthorityScope>,
    /// Certificates accepted without an authority.
    pinned: Vec<CertificateDer<'static>>,
    /// Hosts that get no share of the hybrid group.
    classical: HostPatterns,
    /// Settings by the group of hosts; most hosts are in no scope.
    configs: Mutex<HashMap<HostGroup, Arc<OnceCell<Configs>>>>,
}

/// Authorities that are trusted for some hosts alone.
pub(super) struct AuthorityScope {
    hosts: HostPatterns,
    authorities: Vec<CertificateDer<'static>>,
}

/// Hosts that share their settings of handshakes: the scopes that they are in, and `true` if they
/// get no share of the hybrid group.
type HostGroup = (Vec<usize>, bool);

struct Configs {
    /// Offers HTTP/2 and HTTP/1.1.
    any: Arc<ClientConfig>,
    /// Offers only HTTP/1.1, for Upgrade, which HTTP/2 lacks.
    http1: Arc<ClientConfig>,
}

/// Negotiated protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1, also without negotiation.
    Http1,
    /// HTTP/2.
    Http2,
}

impl TrustStore {
    /// Creates a store of the system's authorities, those of `ca_file` and of `scopes`, and the
    /// certificates that are pinned.
    pub fn new(settings: &Upstream, scopes: Vec<AuthorityScope>) -> Result<Self, SetupError> {
        let certificates = |file: Option<&Path>, wrong: fn(PathBuf, io::Error) -> SetupError| {
            let read = file.map(|path| read(path).map_err(|error| wrong(path.into(), error)));
            Ok(read.transpose()?.unwrap_or_default())
        };
        let further = certificates(settings.ca_file.as_deref(), SetupError::CaFile)?;
        let pinned = certificates(settings.pinned_certificates.as_deref(), SetupError::PinnedCertificates)?;
        let classical = settings.classical_hosts.iter();
        let classical = classical.filter_map(|host| HostPattern::parse(host).ok()).collect();
        Ok(Self { further, scopes, pinned, classical, configs: Mutex::default() })
    }

    /// Performs the handshake. The certificate must be valid for `host`, a name or an address.
    pub async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
        http1_only: bool,
    ) -> Result<(OriginStream, Protocol), (Cause, String)> {
        let bare = host.trim_end_matches('.').to_ascii_lowercase();
        let is_within = |(_, scope): &(usize, &AuthorityScope)| scope.hosts.match_name(&bare);
        let scopes: Vec<usize> =
            self.scopes.iter().enumerate().filter(is_within).map(|(index, _)| index).collect();
        let group = (scopes, self.classical.match_name(&bare));
        let configs = Arc::clone(self.configs.lock().entry(group.clone()).or_default());
        let configs = configs.get_or_try_init(|| self.load(&group)).await?;
        let config = if http1_only { &configs.http1 } else { &configs.any };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| (Cause::TlsCertificate, format!("{host:?} cannot stand in a certificate")))?;
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(name, stream).await.map_err(|error| cause_of(&error))?;
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Protocol::Http2,
            _ => Protocol::Http1,
        };
        Ok((OriginStream::Tls(Box::new(stream)), protocol))
    }

    async fn load(&self, (scopes, is_classical): &HostGroup) -> Result<Configs, (Cause, String)> {
        let native = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs)
            .await
            .map_err(|error| (Cause::TrustRoots, error.to_string()))?;
        let why = native.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        let of_scopes = scopes.iter().flat_map(|index| &self.scopes[*index].authorities);
        let roots = roots(self.further.iter().chain(of_scopes).cloned().chain(native.certs));
        if roots.is_none() && self.pinned.is_empty() {
            let advice = "install the system's certificate authorities or set upstream.ca_file";
            return Err((Cause::TrustRoots, format!("no certificate authority to trust{why}: {advice}")));
        }
        let provider = if *is_classical { default_provider() } else { hybrid_provider() };
        Configs::new(roots, self.pinned.clone(), provider).map_err(|error| (Cause::TrustRoots, error))
    }
}

impl AuthorityScope {
    /// Reads the authorities of a mirror, if it names any, for its registry and its hosts of files.
    pub fn of_mirror(mirror: &Mirror) -> Result<Option<Self>, SetupError> {
        let Some(path) = &mirror.ca_file else { return Ok(None) };
        let authorities = read(path).map_err(|error| SetupError::MirrorCaFile(path.clone(), error))?;
        let registry = Target::parse(mirror.upstream_origin()).ok();
        let registry = registry.as_ref().map(Target::host);
        let hosts = registry.into_iter().chain(mirror.file_hosts.iter().map(String::as_str));
        let hosts = hosts.filter_map(|host| HostPattern::parse(host).ok()).collect();
        Ok(Some(Self { hosts, authorities }))
    }

    /// Reads the authorities for the host that orders of certificates go to, if any are named.
    pub fn of_acme(acme: &Acme) -> Result<Option<Self>, SetupError> {
        let Some(path) = acme.ca_file.as_ref().filter(|_| !acme.directory.is_empty()) else {
            return Ok(None);
        };
        let authorities = read(path).map_err(|error| SetupError::AcmeCaFile(path.clone(), error))?;
        let directory = Target::parse(&acme.directory).ok();
        let host = directory.as_ref().map(Target::host).and_then(|host| HostPattern::parse(host).ok());
        Ok(Some(Self { hosts: host.into_iter().collect(), authorities }))
    }
}

/// Returns the authorities among `certificates`, or `None` without any. Unusable ones are skipped:
/// one bad file among the system's must not disable all https.
fn roots(certificates: impl Iterator<Item = CertificateDer<'static>>) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    (!roots.is_empty()).then_some(roots)
}

impl Configs {
    fn new(
        roots: Option<RootCertStore>,
        pinned: Vec<CertificateDer<'static>>,
        provider: CryptoProvider,
    ) -> Result<Self, String> {
        let provider = Arc::new(provider);
        let by_authority = roots.map(|roots| {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()
        });
        let by_authority = by_authority.transpose().map_err(|error| error.to_string())?;
        let verifier = PinVerifier::new(pinned, by_authority, Arc::clone(&provider));
        let mut http1 = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut any = http1.clone();
        any.alpn_protocols.insert(0, b"h2".to_vec());
        Ok(Self { any: Arc::new(any), http1: Arc::new(http1) })
    }
}

fn read(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let text = settings_file::read(path)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| io::Error::other(error.to_string()))?;
    if certificates.is_empty() {
        return Err(io::Error::other("holds no certificate"));
    }
    Ok(certificates)
}

/// Returns the cause of a failed handshake.
pub(super) fn cause_of(error: &io::Error) -> (Cause, String) {
    let tls = error.get_ref().and_then(|source| source.downcast_ref::<rustls::Error>());
    let cause = match tls {
        Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
            Cause::TlsCertificate
        }
        Some(rustls::Error::AlertReceived(_)) => Cause::TlsAlert,
        Some(_) => Cause::TlsProtocol,
        None => Cause::Terminated,
    };
    (cause, format!("TLS handshake: {error}{}", tls.map_or("", advice)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_usable_authorities_there_is_no_trust() {
        assert!(roots(std::iter::empty()).is_none());
        let garbage = CertificateDer::from(vec![0x30, 0x03, 0x02, 0x01, 0x01]);
        assert!(roots(std::iter::once(garbage.clone())).is_none());
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        let authority = params.self_signed(&key).expect("a certificate").der().clone();
        assert_eq!(roots([garbage, authority].into_iter()).expect("one is usable").len(), 1);
    }
}
