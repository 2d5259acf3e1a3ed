//! Record of one request, from which the log and the counters are filled.

use crate::by_site::SiteMeter;
use crate::otlp::RequestTrace;
use bytes::Bytes;
use http::{HeaderValue, Method};
use shoal_core::{Key, Timestamp};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

/// Record of one request for the access log.
#[derive(Debug, Default)]
pub struct AccessRecord {
    /// Arrival time of the request.
    pub time: Timestamp,
    /// Time from the request's first byte to the reply's last, in microseconds. Set by the
    /// transport.
    pub duration_us: u64,
    /// Client address.
    pub client: Option<SocketAddr>,
    /// Authenticated user.
    pub user: Option<String>,
    /// Request method; `None` if the request could not be parsed.
    pub method: Option<Method>,
    /// Target URL of the client's request: an absolute URL, or the authority for CONNECT.
    pub url: Arc<str>,
    /// HTTP version: 1.0, 1.1, 2 or 3.
    pub version: &'static str,
    /// Final status; 499, which is never sent, for a request abandoned before its answer.
    pub status: u16,
    /// Number of body bytes sent. Set by the transport.
    pub body_bytes: u64,
    /// Number of head bytes sent; for HTTP/2 the bytes of names and values before compression. Set
    /// by the transport.
    pub head_bytes: u64,
    /// `true` if the reply was cut: the client left, or the body failed. Set by the transport.
    pub aborted: bool,
    /// Result of the cache lookup.
    pub outcome: CacheResult,
    /// Next hop that was asked, if any.
    pub upstream: Option<NextHop>,
    /// Referer, for the combined format.
    pub referer: Option<HeaderValue>,
    /// User-Agent, for the combined format.
    pub user_agent: Option<HeaderValue>,
    /// Content type of the reply.
    pub content_type: Option<HeaderValue>,
    /// The Cache-Status value of the reply.
    pub cache_status: Bytes,
    /// Coding of the body, if this node coded it; else empty.
    pub coding: &'static str,
    /// `true` if the answer is the proxy's own since the origin failed.
    pub failed: bool,
    /// Meter of the site.
    pub site: Option<Arc<SiteMeter>>,
    /// Keyed hash of the primary cache key; `None` for an answer without one.
    pub key: Option<Key>,
    /// `true` if this node stores the response that it fetched.
    pub is_stored: bool,
    /// `true` for the answer to another node of the cluster, which counts and logs the request of
    /// its client itself.
    pub is_for_peer: bool,
    /// `true` for a CONNECT that this node answers itself. The requests inside are counted; the
    /// CONNECT is only logged.
    pub carries_requests: bool,
    /// Trace of the request; `None` unless traces are on.
    pub trace: Option<Arc<RequestTrace>>,
}

/// The server asked for a response.
#[derive(Clone, Debug)]
pub enum NextHop {
    /// Address of the server that answered.
    Address(SocketAddr),
    /// Server without an answer, or known by name only: a host with its port, or a code of Squid's
    /// hierarchy with a host.
    Name(String),
}

impl NextHop {
    /// Returns the address with its port, or the name.
    pub fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Address(address) => address.to_string().into(),
            Self::Name(name) => name.as_str().into(),
        }
    }
}

/// Result of the cache for a request; the log uses Squid's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheResult {
    /// Refused or answered by the proxy itself.
    #[default]
    None,
    /// Served from RAM.
    MemoryHit,
    /// Served from disk.
    Hit,
    /// Served from the cache of another node of the cluster.
    PeerHit,
    /// Fetched from the next hop.
    Miss,
    /// Shared another request's fetch.
    Collapsed,
    /// A stored response was validated and is still valid.
    RefreshUnmodified,
    /// A stored response was validated and replaced.
    RefreshModified,
    /// Stale, served during a validation in the background.
    StaleWhileRevalidate,
    /// Stale, served because the origin failed.
    StaleIfError,
    /// Passed through: the request or response may not be stored.
    Pass,
    /// A tunnel.
    Tunnel,
    /// Refused by an access rule.
    Denied,
    /// Abandoned before the answer: the client left, or broke off its request.
    Abandoned,
}

impl CacheResult {
    /// Returns `true` if the answer came from the cache.
    pub fn is_hit(self) -> bool {
        matches!(self, Self::MemoryHit | Self::Hit | Self::StaleWhileRevalidate | Self::StaleIfError)
    }
}
