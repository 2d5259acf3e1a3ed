//! Types passed between the exchange and an upstream.

use crate::access::ForwardRules;
use crate::background::Background;
use crate::by_site::{CostAccount, MissReason};
use crate::group::UpstreamGroup;
use crate::links::PeerTarget;
use crate::message::{Client, InterimSink, RequestBody, StreamBody, TunnelIo};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode, Version};
use shoal_core::{FieldLines, Timestamp};
use shoal_semantics::NextHopFields;
use shoal_semantics::status_fields::Reason;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Request as it must reach the origin, independent of the connection.
pub struct UpstreamRequest {
    /// Method. CONNECT goes through [`crate::tunnel`] instead.
    pub method: Method,
    /// Destination of the request.
    pub destination: Destination,
    /// Path and query in origin form, or `*` for OPTIONS.
    pub target: PathAndQuery,
    /// Fields without hop-by-hop ones and without Host. `Expect: 100-continue` may stay. The body
    /// is then held back until the origin asks for it, or for [`super::CONTINUE_WAIT`].
    /// `Content-Length` stays if the body's length is known. Without a body there must be no
    /// `Expect`.
    pub fields: NextHopFields,
    /// Scheme and authority put before `target`, for a request in absolute form.
    pub absolute: Option<Arc<str>>,
    /// Host (`:authority`) to send; `None` sends the destination's own.
    pub host: Option<HeaderValue>,
    /// The client accepts trailers (`TE: trailers`). An HTTP/2 origin gets the field, since some
    /// refuse gRPC without it. In HTTP/1 the field concerns only the next hop and is not needed.
    pub takes_trailers: bool,
    /// Body, or `None` without one.
    pub body: RequestBody,
    /// Sink for 1xx responses other than 100 and 101.
    pub interim: Option<InterimSink>,
    /// Upgrade value to offer. `None` offers none, and a 101 is then an error.
    pub upgrade: Option<HeaderValue>,
    /// Client that asks.
    pub caller: Caller,
}

/// Client for which a request is sent.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Connection of the client; `None` for requests of this node itself.
    pub client: Option<Arc<Client>>,
    /// `true` if connections authenticated by the origin may be kept for this client's connection
    /// only. The client must send one request at a time, and the response must be for this client
    /// only.
    pub pins: bool,
    /// `true` if the request's credentials authenticate its connection.
    pub authenticates: bool,
    /// Account of the request's cost; `None` for requests of this node itself.
    pub account: Option<Arc<CostAccount>>,
    /// State of a request that gives way to those of clients; `None` for an ordinary one.
    pub background: Option<Arc<Background>>,
}

impl Caller {
    /// Returns the state of a request that gives way, while no client wants its answer.
    pub(super) fn unwanted(&self) -> Option<&Arc<Background>> {
        self.background.as_ref().filter(|background| background.is_unwanted())
    }

    /// Returns the client's address and port, under which its share of limited resources is
    /// counted.
    pub(super) fn party(&self) -> Option<SocketAddr> {
        self.client.as_ref().map(|client| client.address)
    }
}

/// Destination of a request.
#[derive(Clone)]
pub enum Destination {
    /// Origin named by the client (forward mode). Each of its addresses is checked against the
    /// rules.
    Origin {
        /// The origin.
        origin: Origin,
        /// The rules in force.
        rules: Arc<ForwardRules>,
    },
    /// One of a site's upstreams (reverse mode). They are the operator's and therefore not checked.
    Group {
        /// The site's upstreams.
        group: Arc<UpstreamGroup>,
        /// Key for `balance = "hash"`: the low bits of the cache key.
        key: u64,
    },
    /// Another node of the cluster. Only [`crate::Upstreams::to_peers`] reaches it.
    Peer(Arc<PeerTarget>),
}

/// Scheme, host and port of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Protocol of the origin.
    pub scheme: Scheme,
    /// Host name in lower case, or address; IPv6 without brackets.
    pub host: Arc<str>,
    /// Port.
    pub port: u16,
    authority: Arc<str>,
    /// Name in TLS, where it is not the host.
    server_name: Option<Arc<str>>,
    /// Time to connect, where it is not `upstream.connect_timeout`.
    connect_timeout: Option<Duration>,
}

/// Protocol of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`: HTTP/1.1 on TCP.
    Http,
    /// `http` with HTTP/2 by prior knowledge.
    H2c,
    /// `https`: HTTP/2 or HTTP/1.1 as TLS negotiates (ALPN).
    Https,
}

/// Response with a complete head.
pub struct UpstreamResponse {
    /// Final status; the only possible 1xx is 101.
    pub status: StatusCode,
    /// HTTP version of the origin.
    pub version: Version,
    /// Fields as received, including hop-by-hop ones. Framing has been checked: at most one valid
    /// Content-Length, never together with Transfer-Encoding.
    pub fields: FieldLines,
    /// Body. A stall, a cut, a wrong length or invalid chunks are errors of the body. Trailers are
    /// the last frame, without the fields that RFC 9110, 6.5.1 forbids.
    pub body: StreamBody,
    /// Length of `body` in bytes if the framing gives one; 0 without a body (HEAD, 204, 304).
    pub length: Option<u64>,
    /// Time at which the request was sent: `request_time` of RFC 9111, 4.2.3.
    pub request_time: Timestamp,
    /// Time at which the response's head had arrived: `response_time` of RFC 9111, 4.2.3.
    pub response_time: Timestamp,
    /// Address of the origin.
    pub peer: SocketAddr,
    /// Number of the site's upstream that answered, in the settings' order; 0 in forward mode.
    pub member: usize,
    /// Stream of the connection after 101.
    pub upgraded: Option<Box<dyn TunnelIo>>,
    /// Account of the request's cost.
    pub account: Option<Arc<CostAccount>>,
    /// `true` if the sender is a neighbour with responses that are not stored here.
    pub is_proxy_only: bool,
    /// Terms of the node that answered; `None` for an origin.
    pub from_peer: Option<PeerTerms>,
}

/// Terms under which another node of the cluster answered.
#[derive(Clone, Copy, Debug)]
pub struct PeerTerms {
    /// `true` if other clients of the same flight may have the response too.
    pub is_shared: bool,
    /// Time for which a copy may be kept; zero for none.
    pub lease: Duration,
    /// `true` if the node had the response in its cache.
    pub was_hit: bool,
    /// `true` if this node is the home now, and keeps the copy of an earlier home.
    pub moves: bool,
}

impl UpstreamResponse {
    /// Returns the reason for not storing a neighbour's response, if its settings forbid that.
    pub fn neighbours_refusal(&self) -> Option<Reason> {
        self.is_proxy_only.then_some(Reason::Neighbour)
    }

    /// Notes in the account of the request why the response is not stored.
    pub fn note_refusal(&self, why: Reason) {
        if let Some(account) = &self.account {
            account.note_reason(MissReason::from(why));
        }
    }
}

impl Origin {
    /// Creates an origin. `host` is converted to lower case and loses IPv6 brackets and final dots.
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
        Self { scheme, host, port, authority, server_name: None, connect_timeout: None }
    }

    /// Returns the origin under this name in TLS; `None` leaves its host.
    pub fn with_server_name(self, name: Option<&str>) -> Self {
        let bare = |name: &str| name.trim_start_matches('[').trim_end_matches(']').into();
        Self { server_name: name.map(bare), ..self }
    }

    /// Returns the origin with a time to connect of its own.
    pub fn with_connect_timeout(self, timeout: Duration) -> Self {
        Self { connect_timeout: Some(timeout), ..self }
    }

    /// Returns the time to connect, if the origin has one of its own.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    /// Returns the name asked for in the TLS handshake and checked in the certificate.
    pub fn server_name(&self) -> &str {
        self.server_name.as_deref().unwrap_or(&self.host)
    }

    /// Returns the value for the Host field (RFC 9110, 7.2): the host, with the port unless it is
    /// the scheme's default.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

/// Hashes only the authority, which takes half the time. The authority contains host and port,
/// except for the scheme's default port.
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
    /// Returns the port of a URL that names none.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http | Self::H2c => 80,
            Self::Https => 443,
        }
    }

    /// Returns the scheme's name in URLs.
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
