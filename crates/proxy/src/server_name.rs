//! The server name that a client has asked for in its TLS handshake, and what the certificate that it got for that stands for.

use std::fmt;
use std::sync::Arc;

/// A server name (SNI) with the names of the certificate that answered it.
#[derive(Clone)]
pub struct ServerName {
    name: Box<str>,
    /// In lower case; `*.` stands for one label.
    certified: Arc<[String]>,
}

impl ServerName {
    /// `name` as the client wrote it, and the DNS names of the certificate.
    pub fn new(name: &str, certified: Arc<[String]>) -> Self {
        Self { name: name.trim_end_matches('.').to_ascii_lowercase().into(), certified }
    }

    /// Whether requests for `host`, in lower case, may come over the connection: it is the server that was asked for, or the certificate is
    /// for both, as with connections that browsers share between hosts (RFC 9113, section 9.1.1). RFC 9110, section 7.4: "a request for an
    /// \"https\" resource MUST be rejected unless it has been received over a connection that has been secured via a certificate
    /// valid for that target URI's origin". A client that asked for the host by name has judged the certificate itself.
    #[inline]
    pub fn serves(&self, host: &[u8]) -> bool {
        self.name.as_bytes() == host || self.certifies(host.strip_suffix(b".").unwrap_or(host))
    }

    fn certifies(&self, host: &[u8]) -> bool {
        let parent = host.iter().position(|byte| *byte == b'.').map(|dot| &host[dot + 1..]);
        let is_for = |name: &String| match name.strip_prefix("*.") {
            Some(suffix) => parent == Some(suffix.as_bytes()),
            None => name.as_bytes() == host,
        };
        self.name.as_bytes() == host || self.certified.iter().any(is_for)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_stand_for_their_names_alone() {
        let certified: Arc<[String]> = ["a.test", "*.b.test"].map(str::to_owned).into();
        let name = ServerName::new("A.test.", certified);
        for host in ["a.test", "a.test.", "x.b.test", "y.b.test"] {
            assert!(name.serves(host.as_bytes()), "{host}");
        }
        for host in ["b.test", "x.y.b.test", "xb.test", "c.test", "", ".", "*.b.test.x", "127.0.0.1"] {
            assert!(!name.serves(host.as_bytes()), "{host}");
        }
        let unknown = ServerName::new("c.test", ["a.test".to_owned()].into());
        assert!(unknown.serves(b"c.test") && unknown.serves(b"a.test") && !unknown.serves(b"d.test"));
    }
}
