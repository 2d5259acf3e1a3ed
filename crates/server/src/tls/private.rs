//! TLS of a listener that is not for clients: HTTP/1 alone, without names of clients.

use super::certificates::{Certificates, Source};
use super::{ALPN_HTTP1, TlsPolicy, server_config};
use crate::Error;
use parking_lot::Mutex;
use rustls::server::ResolvesServerCert;
use shoal_settings::Certificate;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Handshakes of such a listener. Changed certificate files are read again.
pub struct PrivateTls {
    acceptor: TlsAcceptor,
    certificates: Arc<Certificates>,
    /// Time of the last look at the files.
    looked: Mutex<Instant>,
}

/// Reads the certificates. Returns `None` if there are none.
///
/// # Errors
/// If a certificate or key cannot be used.
pub fn private_tls(sources: &[Certificate]) -> Result<Option<PrivateTls>, Error> {
    let [first, ..] = sources else { return Ok(None) };
    let certificates = Arc::new(Certificates::read(&Source::of(sources))?);
    let resolver = Arc::clone(&certificates) as Arc<dyn ResolvesServerCert>;
    let policy = TlsPolicy::default();
    let config = server_config(resolver, None, (&first.certificate, &policy), &[ALPN_HTTP1])?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Ok(Some(PrivateTls { acceptor, certificates, looked: Mutex::new(Instant::now()) }))
}

impl PrivateTls {
    /// Performs the handshake.
    ///
    /// # Errors
    /// If the client makes none.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let is_due = {
            let mut looked = self.looked.lock();
            let is_due = looked.elapsed() >= LOOK_EVERY;
            if is_due {
                *looked = Instant::now();
            }
            is_due
        };
        if is_due {
            let certificates = Arc::clone(&self.certificates);
            let looked = tokio::task::spawn_blocking(move || certificates.replace_if_changed());
            // The panic hook has already reported a look that panicked; the old ones stay.
            let _ = looked.await;
        }
        self.acceptor.accept(stream).await
    }
}

/// Least time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(3);
