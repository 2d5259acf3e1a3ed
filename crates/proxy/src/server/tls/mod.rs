//! TLS towards clients: rustls, with certificates chosen by server name and replaced while running.

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

/// A TLS listener's side of the handshake. Clones share it.
#[derive(Clone)]
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
}

/// An encrypted connection.
pub(super) type Stream = TlsStream<Rewind<TcpStream>>;

/// HTTP/2 over TLS (RFC 9113 section 3.1).
pub(super) const ALPN_H2: &[u8] = b"h2";

const ALPN_HTTP1: &[u8] = b"http/1.1";

impl Tls {
    /// Reads the certificates. `None` when there are none: then the listener is plain.
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
        // Tickets let clients resume on any worker without state of ours; their keys change every
        // few hours.
        config.ticketer = ring::Ticketer::new().map_err(unusable)?;
        Ok(Some(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificates }))
    }

    /// Shakes hands.
    pub async fn accept(&self, io: Rewind<TcpStream>) -> std::io::Result<Stream> {
        self.acceptor.accept(io).await
    }

    /// The server that a client has asked for, with the certificate that it is shown for that.
    pub fn server_name(&self, name: &str) -> ServerName {
        ServerName::new(name, self.certificates.shown_for(name))
    }

    /// Reads these certificates, for [`Self::replace`].
    pub fn read(&self, sources: &[Certificate]) -> Result<Certificates, Error> {
        Certificates::read(sources)
    }

    /// Takes these certificates in the place of those in use.
    pub fn replace(&self, read: Certificates) {
        self.certificates.replace(read);
    }
}

/// Reads certificates again whose files have changed, until the server drains. Blocks the thread.
pub(super) fn watch<'a>(all: impl Iterator<Item = &'a Tls>, drain: &Drain) {
    let all: Vec<&Tls> = all.collect();
    while !drain.wait_for(LOOK_EVERY) {
        for tls in &all {
            tls.certificates.replace_if_changed();
        }
    }
}

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(3);
