//! TLS towards clients: rustls, with certificates chosen by server name and replaced at run time.

mod certificates;

use super::Error;
use super::drain::Drain;
use crate::message::ServerName;
use crate::transport::Rewind;
use certificates::Certificates;
use rustls::ServerConfig;
use rustls::crypto::ring;
use shoal_settings::{Certificate, Listen};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// TLS setup of a listener. Clones share the certificates.
#[derive(Clone)]
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
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
        let provider = Arc::new(ring::default_provider());
        let unusable = |error: rustls::Error| Error::Certificate {
            path: sources[0].certificate.clone(),
            problem: error.to_string(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificates) as Arc<_>);
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
        // Tickets let clients resume on any worker without server state. Their keys change every
        // few hours.
        config.ticketer = ring::Ticketer::new().map_err(unusable)?;
        Ok(Some(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificates }))
    }

    /// Performs the TLS handshake.
    pub async fn accept(&self, io: Rewind<TcpStream>) -> std::io::Result<Stream> {
        self.acceptor.accept(io).await
    }

    /// Returns the requested server name with the certificate shown for it.
    pub fn server_name(&self, name: &str) -> ServerName {
        ServerName::new(name, self.certificates.shown_for(name))
    }

    /// Reads certificates for [`Self::replace`].
    pub fn read(&self, sources: &[Certificate]) -> Result<Certificates, Error> {
        Certificates::read(sources)
    }

    /// Replaces the certificates in use.
    pub fn replace(&self, read: Certificates) {
        self.certificates.replace(read);
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
