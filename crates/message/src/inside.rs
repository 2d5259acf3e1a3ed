//! Requests inside an intercepted CONNECT: their target, and the server that reads them.

use super::ConnectionPlace;
use crate::Client;
use crate::target::{Target, TargetError};
use http::{HeaderValue, Version, header};
use rustls::ServerConfig;
use shoal_core::Fields;
use shoal_wire::{Authority, RequestParts};
use std::sync::{Arc, Weak};
use tokio::io::DuplexStream;

/// CONNECT around the requests of a client.
#[derive(Clone, Debug)]
pub struct OuterConnect {
    /// Host of the CONNECT, in lower case.
    pub host: Box<str>,
    /// Port of the CONNECT.
    pub port: u16,
    /// Proxy-Authorization of the CONNECT, by which the requests inside are admitted too.
    pub authorization: Option<HeaderValue>,
}

/// Part of the server that serves requests inside a CONNECT.
pub trait InnerServer: Send + Sync {
    /// Starts a task that performs the handshake on `stream` and serves the requests inside. `open`
    /// is dropped at its end.
    fn serve_inside(
        self: Arc<Self>,
        stream: DuplexStream,
        tls: Arc<ServerConfig>,
        client: Client,
        open: ConnectionPlace,
    );
}

/// Handle of the server that serves requests inside a CONNECT.
pub struct ServerInside(pub Weak<dyn InnerServer>);

impl OuterConnect {
    /// Returns the target of a request inside. Its host is that of the CONNECT.
    ///
    /// # Errors
    /// [`TargetError::Misdirected`] for another host, port or scheme: the certificate was not for
    /// it.
    pub fn target(&self, head: &RequestParts) -> Result<Target, TargetError> {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let is_own = |authority: &[u8]| {
            Authority::plain(authority).is_some_and(|named| {
                let host = named.host.strip_suffix(b".").unwrap_or(named.host);
                host.eq_ignore_ascii_case(self.host.as_bytes()) && named.port.unwrap_or(443) == self.port
            })
        };
        let named = match (head.uri.authority(), head.fields.value(&header::HOST)) {
            (Some(authority), _) if head.uri.scheme_str() == Some("https") => {
                is_own(authority.as_str().as_bytes())
            }
            (Some(_), _) => false,
            (None, Some(host)) => is_own(host),
            (None, None) if head.version <= Version::HTTP_10 => true,
            (None, None) => return Err(TargetError::Host),
        };
        match named {
            true => Ok(Target::https(&self.host, self.port, path)),
            false => Err(TargetError::Misdirected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_inside_is_that_of_the_connect() {
        let inside = OuterConnect { host: "a.test".into(), port: 8443, authorization: None };
        let target = |uri: &str, host: Option<&str>| {
            let mut request = http::Request::get(uri);
            if let Some(host) = host {
                request = request.header("host", host);
            }
            let head = request.body(()).expect("a request").into_parts().0.into();
            inside.target(&head).map(|target| target.url.to_string())
        };
        let own = Ok("https://a.test:8443/p?q".to_owned());
        assert_eq!(target("/p?q", Some("A.test:8443")), own);
        assert_eq!(target("/p?q", Some("a.test.:8443")), own);
        assert_eq!(target("https://a.test:8443/p?q", Some("b.test")), own);
        assert_eq!(target("/p", None), Err(TargetError::Host));
        for (uri, host) in [
            ("/p", "a.test"),
            ("/p", "b.test:8443"),
            ("/p", "a.test:443"),
            ("https://b.test:8443/p", "a.test:8443"),
            ("http://a.test:8443/p", "a.test:8443"),
        ] {
            assert_eq!(target(uri, Some(host)), Err(TargetError::Misdirected), "{uri} {host}");
        }
    }
}
