//! What the exchange hands to an upstream, and what it gets back.

use crate::access::ForwardRules;
use crate::message::{Client, InterimSink, RequestBody, StreamBody, TunnelIo};
use crate::upstream::group::UpstreamGroup;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode, Version};
use shoal_core::{FieldLines, Timestamp};
use shoal_semantics::NextHopFields;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

/// A request as it should reach the origin, whichever connection carries it.
pub struct UpstreamRequest {
    /// The method; CONNECT goes through [`crate::tunnel`] instead.
    pub method: Method,
    /// Who is asked.
    pub destination: Destination,
    /// Path and query in origin form, or `*` for OPTIONS.
    pub target: PathAndQuery,
    /// The fields without hop-by-hop ones and without Host. `Expect: 100-continue` may stay: the
    /// body is then held back until the origin asks for it, or for [`super::CONTINUE_WAIT`].
    /// `Content-Length` stays when the body's length is known. Without a body there is no `Expect`
    /// among them.
    pub fields: NextHopFields,
    /// The Host (`:authority`) to send; `None` sends the destination's own.
    pub host: Option<HeaderValue>,
    /// The client takes trailers (`TE: trailers`). An HTTP/2 origin is told, since some refuse gRPC
    /// without it. HTTP/1 has the field name the next hop alone, and needs it for nothing.
    pub takes_trailers: bool,
    /// The body. `None` means that there is none.
    pub body: RequestBody,
    /// Where 1xx responses other than 100 and 101 go.
    pub interim: Option<InterimSink>,
    /// The Upgrade value to offer; `None` offers none, and a 101 is then an error.
    pub upgrade: Option<HeaderValue>,
    /// The client that it is sent for.
    pub caller: Caller,
}

/// The client that a request is sent for.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The client's connection; `None` for what this node asks by itself.
    pub client: Option<Arc<Client>>,
    /// Whether connections that the origin has authenticated may be kept for this client's
    /// connection alone. The client must send one request at a time, and the response must be for
    /// this client alone.
    pub pins: bool,
    /// Whether the request's credentials authenticate the connection that it is sent on.
    pub authenticates: bool,
}

impl Caller {
    /// The client's side of its connection, by which its share of what is limited is counted.
    pub(super) fn party(&self) -> Option<SocketAddr> {
        self.client.as_ref().map(|client| client.address)
    }
}

/// Who is asked.
#[derive(Clone)]
pub enum Destination {
    /// An origin that the client named (forward mode): every address it resolves to is checked
    /// against the rules.
    Origin {
        /// The origin.
        origin: Origin,
        /// The rules in force.
        rules: Arc<ForwardRules>,
    },
    /// One of a site's upstreams (reverse mode), which are the operator's and therefore not
    /// checked.
    Group {
        /// The site's upstreams.
        group: Arc<UpstreamGroup>,
        /// What `balance = "hash"` goes by: the low bits of the cache key.
        key: u64,
    },
}

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Host name in lower case, or address; IPv6 without brackets.
    pub host: Arc<str>,
    /// Port.
    pub port: u16,
    authority: Arc<str>,
}

/// How an origin is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`: HTTP/1.1 on TCP.
    Http,
    /// `http` with HTTP/2 by prior knowledge.
    H2c,
    /// `https`: HTTP/2 or HTTP/1.1 as TLS negotiates (ALPN).
    Https,
}

/// A response whose head has arrived.
pub struct UpstreamResponse {
    /// The final status: never 1xx but 101.
    pub status: StatusCode,
    /// The version that the origin spoke.
    pub version: Version,
    /// The fields as received, hop-by-hop ones included. Framing has been checked: at most one
    /// Content-Length, valid, and never together with Transfer-Encoding.
    pub fields: FieldLines,
    /// The body. A stall, a cut, a length that is not kept and senseless chunks surface as errors;
    /// trailers come as the last frame, without those that RFC 9110, 6.5.1 forbids.
    pub body: StreamBody,
    /// Length of `body` in bytes when the framing tells; 0 when there is none (HEAD, 204, 304).
    pub length: Option<u64>,
    /// When the request was sent: `request_time` of RFC 9111, 4.2.3.
    pub request_time: Timestamp,
    /// When the response's head had arrived: `response_time` of RFC 9111, 4.2.3.
    pub response_time: Timestamp,
    /// The address that answered.
    pub peer: SocketAddr,
    /// The connection's far end, after 101.
    pub upgraded: Option<Box<dyn TunnelIo>>,
}

impl Origin {
    /// An origin; `host` is brought to lower case and loses IPv6 brackets and final dots.
    pub fn new(scheme: Scheme, host: &str, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let bare = bare.trim_end_matches('.');
        let host: Arc<str> = bare.to_ascii_lowercase().into();
        let authority = match (host.contains(':'), port == scheme.default_port()) {
            (false, true) => Arc::clone(&host),
            (false, false) => format!("{host}:{port}").into(),
            (true, true) => format!("[{host}]").into(),
            (true, false) => format!("[{host}]:{port}").into(),
        };
        Self { scheme, host, port, authority }
    }

    /// Host and, unless it is the scheme's default, port: what the Host field says (RFC 9110, 7.2).
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// The authority tells host and port, but for the scheme's default; hashing it alone takes half of
/// what all would.
impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.authority.hash(state);
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority())
    }
}

impl Scheme {
    /// The port that a URL without one means.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http | Self::H2c => 80,
            Self::Https => 443,
        }
    }

    /// As URLs spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http | Self::H2c => "http",
            Self::Https => "https",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_shown_as_the_host_field_wants_it() {
        for (scheme, host, port, shown) in [
            (Scheme::Http, "Example.ORG", 80, "http://example.org"),
            (Scheme::Https, "example.org.", 443, "https://example.org"),
            (Scheme::Http, "example.org..", 80, "http://example.org"),
            (Scheme::Https, "example.org", 80, "https://example.org:80"),
            (Scheme::H2c, "[::1]", 8080, "http://[::1]:8080"),
            (Scheme::Http, "2001:db8::1", 80, "http://[2001:db8::1]"),
        ] {
            assert_eq!(Origin::new(scheme, host, port).to_string(), shown);
        }
    }
}
