//! TLS towards clients: rustls, with certificates chosen by server name and replaced at run time.

mod certificates;
mod challenges;
mod client_certificates;
mod policy;
mod private;

use super::Error;
use super::drain::Drain;
use crate::message::ServerName;
use crate::transport::Rewind;
use arc_swap::ArcSwap;
pub use certificates::{CertificateState, certificate_states};
use certificates::{Certificates, Source};
use challenges::ChallengeResolver;
use policy::TlsPolicy;
use quinn::crypto::rustls::QuicServerConfig;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{Acceptor as HelloReader, ResolvesServerCert};
use shoal_acme::Challenges;
use shoal_rules::CertificateNames;
use shoal_settings::{Acme, Listen};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

pub(super) use client_certificates::shown as certificate_names;
pub use private::{PrivateTls, private_tls};

/// TLS setup of a listener. Clones share the certificates.
#[derive(Clone)]
pub(super) struct Tls {
    /// Handshakes as the settings in force want them.
    acceptor: Arc<ArcSwap<Acceptor>>,
    parts: HandshakeParts,
}

/// Parts of a listener's handshakes that a reload keeps.
#[derive(Clone)]
struct HandshakeParts {
    certificates: Arc<Certificates>,
    /// Open challenges of the authority of `[acme]`.
    challenges: Arc<Challenges>,
}

/// Handshakes, and the judge of clients' certificates.
pub(super) struct Acceptor {
    acceptor: TlsAcceptor,
    /// Handshakes of challenges. They want no certificate of the client: the authority has none.
    challenges: Arc<ServerConfig>,
    /// Handshakes over QUIC, if the listener offers HTTP/3.
    quic: Option<Arc<QuicServerConfig>>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    policy: TlsPolicy,
}

/// Certificates that were read for a [`Tls`], with its new handshakes.
pub(super) struct ReadTls {
    certificates: Certificates,
    /// `None` if the handshakes stay.
    acceptor: Option<Acceptor>,
}

/// Encrypted client connection.
pub(super) type Stream = TlsStream<Rewind<TcpStream>>;

/// ALPN name of HTTP/2 over TLS (RFC 9113 section 3.1).
pub(super) const ALPN_H2: &[u8] = b"h2";

/// ALPN name of HTTP/3 (RFC 9114 section 3.1).
const ALPN_H3: &[u8] = b"h3";

const ALPN_HTTP1: &[u8] = b"http/1.1";

/// ALPN name of a challenge (RFC 8737 section 6.2).
const ALPN_ACME: &[u8] = b"acme-tls/1";

impl Tls {
    /// Reads the certificates. Returns `None` for a plain listener, which has none. `challenges`
    /// are answered in handshakes while one is open.
    pub fn load(listen: &Listen, acme: &Acme, challenges: &Arc<Challenges>) -> Result<Option<Self>, Error> {
        if !listen.is_tls() {
            return Ok(None);
        }
        let certificates = Arc::new(Certificates::read(&Source::of_listener(listen, acme))?);
        let verifier = client_certificates::verifier(listen)?;
        let parts = HandshakeParts { certificates, challenges: Arc::clone(challenges) };
        let acceptor = parts.acceptor(verifier, TlsPolicy::of(listen), &first_file(listen, acme))?;
        Ok(Some(Self { acceptor: Arc::new(ArcSwap::from_pointee(acceptor)), parts }))
    }

    /// Performs the TLS handshake. Returns the stream with the names in the client's certificate.
    pub async fn accept(
        &self,
        io: Rewind<TcpStream>,
    ) -> std::io::Result<(Stream, Option<Arc<CertificateNames>>)> {
        let acceptor = self.acceptor.load_full();
        let stream = match self.parts.challenges.awaits_handshake() {
            false => acceptor.acceptor.accept(io).await?,
            true => {
                let begun = LazyConfigAcceptor::new(HelloReader::default(), io).await?;
                if challenges::is_challenge(&begun.client_hello()) {
                    begun.into_stream(Arc::clone(&acceptor.challenges)).await?;
                    // The handshake is the whole protocol (RFC 8737, section 4).
                    return Err(std::io::Error::other(
                        "it was a challenge of the authority, and is answered",
                    ));
                }
                begun.into_stream(Arc::clone(acceptor.acceptor.config())).await?
            }
        };
        let names = match &acceptor.verifier {
            None => None,
            Some(verifier) => {
                client_certificates::proven(stream.get_ref().1, &**verifier).map_err(std::io::Error::other)?
            }
        };
        Ok((stream, names))
    }

    /// Returns the handshakes over QUIC in force; `None` if the listener does not offer HTTP/3.
    pub fn quic(&self) -> Option<QuicHandshakes> {
        let acceptor = self.acceptor.load_full();
        let crypto = Arc::clone(acceptor.quic.as_ref()?);
        Some(QuicHandshakes { crypto, verifier: acceptor.verifier.clone() })
    }

    /// Returns the requested server name with the certificate shown for it.
    pub fn server_name(&self, name: &str) -> ServerName {
        ServerName::new(name, self.parts.certificates.shown_for(name))
    }

    /// Reads certificates and authorities for [`Self::replace`]. Handshakes stay as they are unless
    /// the settings choose other ones, or clients are judged: sessions that began under other
    /// choices or authorities are not resumed.
    ///
    /// # Errors
    /// If a file cannot be used, or the system gives no key for tickets.
    pub fn read(&self, listen: &Listen, acme: &Acme) -> Result<ReadTls, Error> {
        let certificates = self.parts.certificates.read_anew(&Source::of_listener(listen, acme))?;
        let verifier = client_certificates::verifier(listen)?;
        let in_force = self.acceptor.load();
        let is_judged = verifier.is_some() || in_force.verifier.is_some();
        let acceptor = (is_judged || !in_force.policy.is_of(listen))
            .then(|| self.parts.acceptor(verifier, TlsPolicy::of(listen), &first_file(listen, acme)));
        Ok(ReadTls { certificates, acceptor: acceptor.transpose()? })
    }

    /// Returns the states of the certificates, in the settings' order.
    pub fn states(&self) -> Vec<CertificateState> {
        self.parts.certificates.states()
    }

    /// Replaces the certificates in use, and the handshakes if they change.
    pub fn replace(&self, read: ReadTls) {
        self.parts.certificates.replace(read.certificates);
        if let Some(acceptor) = read.acceptor {
            self.acceptor.store(Arc::new(acceptor));
        }
    }
}

impl HandshakeParts {
    /// Returns handshakes with the certificates in use, and this judge of clients.
    fn acceptor(
        &self,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
        policy: TlsPolicy,
        path: &Path,
    ) -> Result<Acceptor, Error> {
        let resolver = Arc::clone(&self.certificates) as Arc<dyn ResolvesServerCert>;
        let protocols = [ALPN_H2, ALPN_HTTP1];
        let config = server_config(resolver, verifier.as_ref(), (path, &policy), &protocols)?;
        let resolver = Arc::new(ChallengeResolver(Arc::clone(&self.challenges)));
        // Tickets have keys of their own here: a challenge resumes no session of a client.
        let challenges = Arc::new(server_config(resolver, None, (path, &policy), &[ALPN_ACME])?);
        let quic = match policy.http3 {
            true => Some(quic_config(&self.certificates, verifier.as_ref(), (path, &policy))?),
            false => None,
        };
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Acceptor { acceptor, challenges, quic, verifier, policy })
    }
}

/// Returns the first certificate file of a listener, for messages.
fn first_file(listen: &Listen, acme: &Acme) -> PathBuf {
    let ordered = || listen.acme.first().map(|certificate| certificate.file(&acme.folder));
    listen.tls.first().map(|pair| pair.certificate.clone()).or_else(ordered).unwrap_or_default()
}

/// Handshakes over QUIC, with the judge of clients' certificates.
pub(super) struct QuicHandshakes {
    /// Setup of the handshakes.
    pub crypto: Arc<QuicServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl QuicHandshakes {
    /// Returns the names in the certificate that the client has proven. A resumed session may carry
    /// an old one, so each is judged again.
    ///
    /// # Errors
    /// If the certificate is not accepted.
    pub fn proven(
        &self,
        chain: Option<&[CertificateDer<'static>]>,
    ) -> Result<Option<Arc<CertificateNames>>, rustls::Error> {
        match &self.verifier {
            None => Ok(None),
            Some(verifier) => client_certificates::proven_chain(chain, true, &**verifier),
        }
    }
}

/// Returns the setup of handshakes over QUIC (RFC 9001): TLS 1.3, and no early data, since others
/// can send a request in it again (RFC 8470).
fn quic_config(
    certificates: &Arc<Certificates>,
    verifier: Option<&Arc<dyn ClientCertVerifier>>,
    (path, policy): (&Path, &TlsPolicy),
) -> Result<Arc<QuicServerConfig>, Error> {
    let policy = policy.of_quic();
    let config = server_config(Arc::clone(certificates) as Arc<_>, verifier, (path, &policy), &[ALPN_H3])?;
    debug_assert_eq!(config.max_early_data_size, 0);
    // This suite protects the first packets, also where the listener's own list lacks it.
    let initial = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    let problem = || Error::Certificate { path: path.to_owned(), problem: "no suite for QUIC".into() };
    let config = QuicServerConfig::with_initial(Arc::new(config), initial.ok_or_else(problem)?);
    Ok(Arc::new(config.map_err(|_| problem())?))
}

/// Returns the setup of handshakes with these certificates, and protocols in order of preference.
fn server_config(
    certificates: Arc<dyn ResolvesServerCert>,
    verifier: Option<&Arc<dyn ClientCertVerifier>>,
    (path, policy): (&Path, &TlsPolicy),
    protocols: &[&[u8]],
) -> Result<ServerConfig, Error> {
    let unusable =
        |error: rustls::Error| Error::Certificate { path: path.to_owned(), problem: error.to_string() };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&policy.provider))
        .with_protocol_versions(policy.versions)
        .map_err(unusable)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // Tickets let clients resume on any worker without server state. Their keys change every few
    // hours.
    config.ticketer = ring::Ticketer::new().map_err(unusable)?;
    Ok(config)
}

/// Checks the certificate files until the server drains, and reads changed ones again. Blocks the
/// thread.
pub(super) fn watch<'a>(all: impl Iterator<Item = &'a Tls>, drain: &Drain) {
    let all: Vec<&Tls> = all.collect();
    while !drain.wait_for(LOOK_EVERY) {
        for tls in &all {
            tls.parts.certificates.replace_if_changed();
        }
    }
}

/// Interval between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(3);
