//! The server name that a client has asked for in its TLS handshake, with the certificate that
//! answered it.

use std::fmt;
use std::sync::Arc;

/// A server name (SNI).
#[derive(Clone)]
pub struct ServerName {
    name: Box<str>,
    certificate: Arc<dyn Shown>,
}

/// The certificate that a client was shown.
pub trait Shown: Send + Sync {
    /// Whether it is for this host, in lower case, or the listener has no better one for it.
    fn is_for(&self, host: &str) -> bool;
}

impl ServerName {
    /// `name` as the client wrote it.
    pub fn new(name: &str, certificate: Arc<dyn Shown>) -> Self {
        Self { name: name.trim_end_matches('.').to_ascii_lowercase().into(), certificate }
    }

    /// Whether requests for `host`, in lower case, may come over the connection: it is the server
    /// that was asked for, or the certificate is for both, as with connections that browsers share
    /// between hosts (RFC 9113, section 9.1.1). RFC 9110, section 7.4: "a request for an \"https\"
    /// resource MUST be rejected unless it has been received over a connection that has been
    /// secured via a certificate valid for that target URI's origin".
    ///
    /// Two are taken beyond that, since another connection would bring nothing better: a host that
    /// the client asked for by name, and one for which the listener would show the same
    /// certificate, as where a balancer names the node and not the host.
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
