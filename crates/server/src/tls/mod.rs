//! TLS towards clients: rustls, with certificates chosen by server name and replaced at run time.

mod certificates;
mod client_certificates;

use super::Error;
use super::drain::Drain;
use crate::message::ServerName;
use crate::transport::Rewind;
use arc_swap::ArcSwap;
use certificates::Certificates;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use shoal_rules::CertificateNames;
use shoal_settings::Listen;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(super) use client_certificates::shown as certificate_names;

/// TLS setup of a listener. Clones share the certificates.
#[derive(Clone)]
pub(super) struct Tls {
    /// Handshakes as the settings in force want them.
    acceptor: Arc<ArcSwap<Acceptor>>,
    certificates: Arc<Certificates>,
}

/// Handshakes, and the judge of clients' certificates.
pub(super) struct Acceptor {
    acceptor: TlsAcceptor,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

/// Certificates and authorities that were read for a [`Tls`].
pub(super) struct ReadTls {
    certificates: Certificates,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// First certificate file, for messages.
    path: PathBuf,
}

/// Encrypted client connection.
pub(super) type Stream = TlsStream<Rewind<TcpStream>>;

/// ALPN name of HTTP/2 over TLS (RFC 9113 section 3.1).
pub(super) const ALPN_H2: &[u8] = b"h2";

const ALPN_HTTP1: &[u8] = b"http/1.1";

impl Tls {
    /// Reads the certificates. Returns `None` for a plain listener, which has none.
    pub fn load(listen: &Listen) -> Result<Option<Self>, Error> {
        let sources = &listen.tls;
        if sources.is_empty() {
            return Ok(None);
        }
        let certificates = Arc::new(Certificates::read(sources)?);
        let verifier = client_certificates::verifier(listen)?;
        let acceptor = Acceptor::new(&certificates, verifier, &sources[0].certificate)?;
        Ok(Some(Self { acceptor: Arc::new(ArcSwap::from_pointee(acceptor)), certificates }))
    }

    /// Performs the TLS handshake. Returns the stream with the names in the client's certificate.
    pub async fn accept(
        &self,
        io: Rewind<TcpStream>,
    ) -> std::io::Result<(Stream, Option<Arc<CertificateNames>>)> {
        let acceptor = self.acceptor.load_full();
        let stream = acceptor.acceptor.accept(io).await?;
        let names = match &acceptor.verifier {
            None => None,
            Some(verifier) => {
                client_certificates::proven(stream.get_ref().1, &**verifier).map_err(std::io::Error::other)?
            }
        };
        Ok((stream, names))
    }

    /// Returns the requested server name with the certificate shown for it.
    pub fn server_name(&self, name: &str) -> ServerName {
        ServerName::new(name, self.certificates.shown_for(name))
    }

    /// Reads certificates and authorities for [`Self::replace`].
    pub fn read(&self, listen: &Listen) -> Result<ReadTls, Error> {
        Ok(ReadTls {
            certificates: Certificates::read(&listen.tls)?,
            verifier: client_certificates::verifier(listen)?,
            path: listen.tls[0].certificate.clone(),
        })
    }

    /// Replaces the certificates in use, and the authorities of clients. Sessions that began under
    /// other authorities are not resumed.
    ///
    /// # Errors
    /// If the system gives no key for tickets. Nothing has changed then.
    pub fn replace(&self, read: ReadTls) -> Result<(), Error> {
        if read.verifier.is_some() || self.acceptor.load().verifier.is_some() {
            let acceptor = Acceptor::new(&self.certificates, read.verifier, &read.path)?;
            self.acceptor.store(Arc::new(acceptor));
        }
        self.certificates.replace(read.certificates);
        Ok(())
    }
}

impl Acceptor {
    fn new(
        certificates: &Arc<Certificates>,
        verifier: Option<Arc<dyn ClientCertVerifier>>,
        path: &Path,
    ) -> Result<Self, Error> {
        let unusable =
            |error: rustls::Error| Error::Certificate { path: path.to_owned(), problem: error.to_string() };
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(certificates) as Arc<_>);
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
        // Tickets let clients resume on any worker without server state. Their keys change every
        // few hours.
        config.ticketer = ring::Ticketer::new().map_err(unusable)?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), verifier })
    }
}

/// Checks the certificate files until the server drains, and reads changed ones again. Blocks the
/// thread.
pub(super) fn watch<'a>(all: impl Iterator<Item = &'a Tls>, drain: &Drain) {
    let all: Vec<&Tls> = all.collect();
    while !drain.wait_for(LOOK_EVERY) {
        for tls in &all {
            tls.certificates.replace_if_changed();
        }
    }
}

/// Interval between two checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(3);
