//! The server name that a client requested in its TLS handshake, with the certificate shown.

use std::fmt;
use std::sync::Arc;

/// A server name (SNI).
#[derive(Clone)]
pub struct ServerName {
    name: Box<str>,
    certificate: Arc<dyn Shown>,
}

/// Certificate that a client was shown.
pub trait Shown: Send + Sync {
    /// Returns `true` if the certificate is for this host, in lower case, or the listener has no
    /// better one for it.
    fn is_for(&self, host: &str) -> bool;
}

impl ServerName {
    /// Stores `name` as the client wrote it.
    pub fn new(name: &str, certificate: Arc<dyn Shown>) -> Self {
        Self { name: name.trim_end_matches('.').to_ascii_lowercase().into(), certificate }
    }

    /// Returns `true` if requests for `host`, in lower case, may come over the connection. Either
    /// the client asked for this server, or the certificate is for both hosts. Browsers share
    /// connections between such hosts (RFC 9113, section 9.1.1). RFC 9110, section 7.4: "a request
    /// for an \"https\" resource MUST be rejected unless it has been received over a connection
    /// that has been secured via a certificate valid for that target URI's origin".
    ///
    /// Two more cases are accepted, since another connection would offer nothing better. One is a
    /// host that the client asked for by name. The other is a host for which the listener would
    /// show the same certificate, as when a balancer names the node and not the host.
    #[inline]
    pub fn serves(&self, host: &[u8]) -> bool {
        self.name.as_bytes() == host || self.certifies(host)
    }

    fn certifies(&self, host: &[u8]) -> bool {
        let host = std::str::from_utf8(host.strip_suffix(b".").unwrap_or(host));
        host.is_ok_and(|host| *self.name == *host || self.certificate.is_for(host))
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}
