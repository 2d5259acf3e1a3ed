//! The target of a request: its effective URI (RFC 9110, section 7.1), and the cache key made from
//! it.

use crate::Client;
use http::uri::{Authority, PathAndQuery};
use http::{Uri, Version, header};
use shoal_core::{Fields, ObjectKey};
use shoal_settings::Mode;
use shoal_wire::RequestParts;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// An absolute http or https URI, normalized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `true` if the scheme is https.
    pub https: bool,
    /// Port, the scheme's default filled in.
    pub port: u16,
    /// The whole URI, without a default port: the URI of RFC 9111's cache key.
    pub url: Arc<str>,
    host: Range<usize>,
    path: usize,
}

/// Reason for which a request has no usable target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// A forward proxy needs the absolute form.
    NotAbsolute,
    /// Neither http nor https.
    Scheme,
    /// No host, or an invalid one.
    Host,
    /// Another host than that of the CONNECT around the request.
    Misdirected,
}

impl Target {
    /// Returns the target of a request that this client sent to a listener of this mode. In reverse
    /// mode the connection determines https, not the client.
    pub fn of(head: &RequestParts, mode: Mode, client: &Client) -> Result<Self, TargetError> {
        if let Some(connect) = &client.intercepted {
            return connect.target(head);
        }
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        match (mode, head.uri.scheme_str(), head.uri.authority()) {
            (Mode::Forward, Some(scheme), Some(authority)) => {
                Self::named(scheme == "https", scheme, authority, path)
            }
            (Mode::Forward, ..) => Err(TargetError::NotAbsolute),
            (Mode::Reverse, Some(scheme), Some(authority)) => {
                Self::named(client.tls, scheme, authority, path)
            }
            (Mode::Reverse, None, Some(authority)) => Self::named(client.tls, "http", authority, path),
            (Mode::Reverse, _, None) => Self::of_host(head, client, path),
        }
    }

    /// Returns the target of a place at an https origin.
    pub fn https(host: &str, port: u16, path: &str) -> Self {
        Self::new(true, host, Some(port), path)
    }

    /// Returns the same place under the other scheme: at its default port, or at the port that the
    /// URL names.
    pub fn of_other_scheme(&self) -> Self {
        let default = if self.https { 443 } else { 80 };
        Self::new(!self.https, self.host(), Some(self.port).filter(|port| *port != default), self.path())
    }

    /// Parses an absolute URL.
    pub fn parse(url: &str) -> Result<Self, TargetError> {
        Self::of_uri(&url.parse().map_err(|_| TargetError::Host)?)
    }

    /// Returns the target of an absolute URI.
    pub fn of_uri(uri: &Uri) -> Result<Self, TargetError> {
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(TargetError::NotAbsolute);
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Self::named(scheme == "https", scheme, authority, path)
    }

    /// Returns the target of a request that names its host in the Host field.
    fn of_host(head: &RequestParts, client: &Client, path: &str) -> Result<Self, TargetError> {
        let said = head.fields.value(&header::HOST);
        if let Some(shoal_wire::Authority { host, port, .. }) = said.and_then(shoal_wire::Authority::plain)
            && let Ok(host) = std::str::from_utf8(host)
        {
            return Ok(Self::new(client.tls, host, port, path));
        }
        Self::named(client.tls, "http", &named_host(head, client)?, path)
    }

    fn named(https: bool, scheme: &str, authority: &Authority, path: &str) -> Result<Self, TargetError> {
        if scheme != "http" && scheme != "https" {
            return Err(TargetError::Scheme);
        }
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(TargetError::Host);
        }
        let port = authority.port_u16();
        // An invalid port must not become the default: the URL would be another one.
        if port.is_none() && authority.as_str().len() > authority.host().len() + ":".len() {
            return Err(TargetError::Host);
        }
        Ok(Self::new(https, authority.host(), port, path))
    }

    fn new(https: bool, host: &str, port: Option<u16>, path: &str) -> Self {
        let default = if https { 443 } else { 80 };
        let port = port.unwrap_or(default);
        URL.with_borrow_mut(|url| {
            url.clear();
            url.push_str(if https { "https://" } else { "http://" });
            let start = url.len();
            url.push_str(host);
            url[start..].make_ascii_lowercase();
            let host = start..url.len();
            if port != default {
                url.push(':');
                url.push_str(itoa::Buffer::new().format(port));
            }
            let path_start = url.len();
            if !matches!(path.as_bytes(), [b'/' | b'*', ..]) {
                url.push('/');
            }
            url.push_str(path);
            Self { https, port, url: url.as_str().into(), host, path: path_start }
        })
    }

    /// Returns the host, in lower case, without port; an IPv6 address keeps its brackets.
    #[inline]
    pub fn host(&self) -> &str {
        &self.url[self.host.clone()]
    }

    /// Returns path and query; at least `/`, or `*`.
    #[inline]
    pub fn path(&self) -> &str {
        &self.url[self.path..]
    }

    /// Returns path and query for the origin, taken from the URI of this target.
    pub fn path_and_query(&self, uri: &Uri) -> PathAndQuery {
        let read = uri.path_and_query().filter(|read| read.as_str() == self.path()).cloned();
        let own = || PathAndQuery::try_from(self.path()).unwrap_or(PathAndQuery::from_static("/"));
        read.unwrap_or_else(own)
    }

    /// Returns the host, with the port unless it is the scheme's default.
    #[inline]
    pub fn authority(&self) -> &str {
        &self.url[self.host.start..self.path]
    }

    /// Returns scheme and authority (RFC 6454).
    pub fn origin(&self) -> &str {
        &self.url[..self.path]
    }

    /// Returns the primary cache key (RFC 9111, section 2): the URI, and the mode. Only responses
    /// to GET are stored. Clients of forward mode mean the host in the URL. Responses from a site's
    /// upstreams are not valid for them, nor the reverse.
    #[inline]
    pub fn key(&self, mode: Mode) -> ObjectKey {
        match mode {
            Mode::Reverse => ObjectKey::new(Arc::<[u8]>::from(Arc::clone(&self.url))),
            Mode::Forward => ObjectKey::new([self.url.as_bytes(), FORWARD].concat()),
        }
    }

    /// Returns the primary key of a mirror's answer from this place at an origin. A site has other
    /// keys: its clients might ask by the same URL, and expect the origin's own bytes. So has a
    /// mirror of another realm, with other checks or rights.
    pub fn mirror_key(&self, realm: &str) -> ObjectKey {
        debug_assert!(!realm.contains('\0'), "the realm ends the key");
        ObjectKey::new([self.url.as_bytes(), MIRROR, b"\0", realm.as_bytes()].concat())
    }

    /// Returns the primary keys of both modes.
    pub fn keys(&self) -> [ObjectKey; 2] {
        [Mode::Reverse, Mode::Forward].map(|mode| self.key(mode))
    }
}

/// Returns the host of an origin-form request. HTTP/1.0 may name none: the host is then the local
/// address of the connection.
fn named_host(head: &RequestParts, client: &Client) -> Result<Authority, TargetError> {
    let host = match head.fields.value(&header::HOST) {
        Some(host) => Authority::try_from(host),
        None if head.version <= Version::HTTP_10 => client.local.to_string().parse(),
        None => return Err(TargetError::Host),
    };
    host.map_err(|_| TargetError::Host)
}

/// Returns the key of one part of a representation.
pub fn part_key(whole: &ObjectKey, generation: u64, start: u64, end: u64) -> ObjectKey {
    let mut full = whole.full().to_vec();
    full.extend(b"\0part");
    for number in [generation, start, end] {
        full.extend(number.to_le_bytes());
    }
    ObjectKey::new(full)
}

/// Suffix of the URI in the primary keys of forward mode.
pub const FORWARD: &[u8] = b"\0forward";

/// Suffix of the URI in the primary keys of mirrors.
pub const MIRROR: &[u8] = b"\0mirror";

thread_local! {
    /// Buffer for the URL, kept so that the URL is allocated once and at its exact length.
    static URL: RefCell<String> = const { RefCell::new(String::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(tls: bool) -> Client {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 80));
        Client {
            address,
            local: address,
            listener: 0,
            tls,
            server_name: None,
            certificate: None,
            intercepted: None,
        }
    }

    fn forward(uri: &str) -> Result<Target, TargetError> {
        let (head, ()) = http::Request::get(uri).body(()).expect("a request").into_parts();
        Target::of(&head.into(), Mode::Forward, &client(false))
    }

    #[test]
    fn targets_are_normalised() {
        for (uri, url) in [
            ("http://Example.ORG", "http://example.org/"),
            ("http://example.org:80/a?b=C", "http://example.org/a?b=C"),
            ("http://example.org:8080/", "http://example.org:8080/"),
            ("https://[2001:DB8::1]:443/", "https://[2001:db8::1]/"),
            ("http://example.org?q", "http://example.org/?q"),
            ("http://example.org:/", "http://example.org/"),
        ] {
            assert_eq!(forward(uri).map(|target| target.url.to_string()), Ok(url.to_owned()), "{uri}");
        }
        assert_eq!(forward("/a"), Err(TargetError::NotAbsolute));
        assert_eq!(forward("ftp://example.org/"), Err(TargetError::Scheme));
        assert_eq!(forward("http://user@example.org/"), Err(TargetError::Host));
        assert_eq!(forward("http://example.org:99999/"), Err(TargetError::Host));
    }

    #[test]
    fn other_scheme_keeps_a_named_port() {
        for (url, other) in [
            ("http://a.test/b?c", "https://a.test/b?c"),
            ("https://a.test:443/", "http://a.test/"),
            ("http://a.test:8080/b", "https://a.test:8080/b"),
            ("https://[::1]:8443/b", "http://[::1]:8443/b"),
            ("https://a.test:80/b", "http://a.test/b"),
        ] {
            let target = Target::parse(url).expect("a URL");
            let turned = target.of_other_scheme();
            assert_eq!(&*turned.url, other);
            assert_eq!(turned, Target::parse(other).expect("a URL"));
        }
    }

    #[test]
    fn reverse_takes_the_host_field() {
        let request =
            http::Request::get("/a").header("host", "Example.org:8080").body(()).expect("a request");
        let head = request.into_parts().0;
        let target = Target::of(&head.into(), Mode::Reverse, &client(true)).expect("a target");
        assert_eq!(&*target.url, "https://example.org:8080/a");
    }
}
