//! What passes between the transport and the exchange: a request in, a reply out.
//!
//! The transport (HTTP/1, HTTP/2, plain or TLS) has framed and checked what it hands over; the
//! exchange never sees a chunk or a frame. A reply says where its body is, so that the transport
//! can send it in the cheapest way it has.

pub use crate::hit::{FastPathOutcome, HitFields, Keeper, RamHit, ReplyForm, SendProgress};
pub use crate::holds::Hold;
pub use crate::server_name::{ServerName, Shown};
pub use crate::stored_head::StoredHead;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use shoal_core::Timestamp;
use shoal_semantics::NextHopFields;
use shoal_wire::{FastPathRequest, RequestParts};
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};

/// A request, framed and checked, with who sent it.
pub struct Request {
    /// Method, target, version and fields as received, hop-by-hop fields included.
    pub head: RequestParts,
    /// Its body; trailers come as its last frame.
    pub body: RequestBody,
    /// Who sent it, and where it came in.
    pub client: Arc<Client>,
    /// Where interim (1xx) responses go while the final one is awaited. Sending never waits; a
    /// transport that cannot carry them drops them.
    pub interim: Option<InterimSink>,
    /// When its first byte arrived.
    pub received: Instant,
}

/// The body of a request: `None` when its framing says that it has none.
pub type RequestBody = Option<StreamBody>;

/// A body that arrives in frames: data, then perhaps trailers.
pub type StreamBody = UnsyncBoxBody<Bytes, BodyError>;

/// Where interim responses go.
pub type InterimSink = tokio::sync::mpsc::Sender<(StatusCode, HeaderMap)>;

/// A client connection.
#[derive(Debug)]
pub struct Client {
    /// The client's address: the PROXY protocol's when the listener takes it, else the socket's.
    pub address: SocketAddr,
    /// The address that it connected to.
    pub local: SocketAddr,
    /// Which `listen` entry of the settings accepted it.
    pub listener: usize,
    /// Whether the connection is TLS.
    pub tls: bool,
    /// The server name that the client asked for (SNI). `None` where a trusted proxy stands
    /// between: what it may ask for is its matter.
    pub server_name: Option<ServerName>,
}

/// The answer to a request.
pub struct Reply {
    /// Status and fields.
    pub head: ReplyHead,
    /// Where the body is.
    pub body: ReplyBody,
    /// What the access log will say; the transport completes it and gives it back through
    /// [`Handler::record_sent`].
    pub record: Box<AccessRecord>,
}

/// Status and fields of a reply.
pub enum ReplyHead {
    /// Made for this request. Holds no hop-by-hop and no framing fields other than Content-Length.
    Built(StatusCode, HeaderMap),
    /// An origin's response to this request alone, on its way through.
    Relayed(RelayedHead),
    /// A stored response's, kept ready to send, with what this reply adds.
    Stored {
        /// The stored part.
        stored: Arc<StoredHead>,
        /// What becomes of it.
        form: ReplyForm,
        /// Current age in seconds, for the Age field.
        age_seconds: u64,
        /// The Cache-Status value of this node.
        cache_status: Bytes,
        /// The Proxy-Status value of this node.
        proxy_status: HeaderValue,
    },
}

/// The head of a reply that an origin's response becomes for one client. It has a Date.
pub struct RelayedHead {
    /// The status.
    pub status: StatusCode,
    /// The fields. Holds no hop-by-hop and no framing fields, but Upgrade with status 101.
    pub lines: NextHopFields,
    /// What Content-Length said, if anything.
    pub length: Option<u64>,
}

impl ReplyHead {
    /// The status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Built(status, _) => *status,
            Self::Relayed(head) => head.status,
            Self::Stored { stored, form, .. } => form.status(stored),
        }
    }

    /// What its own Content-Length says; `None` where the body tells.
    pub fn declared_length(&self) -> Option<u64> {
        match self {
            Self::Built(_, fields) => fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok(),
            Self::Relayed(head) => head.length,
            Self::Stored { form: ReplyForm::Head { length }, .. } => *length,
            Self::Stored { .. } => None,
        }
    }
}

/// Where a reply's body is.
pub enum ReplyBody {
    /// No body (HEAD, 204, 304, or length 0). `Content-Length` in the head is sent as it stands.
    Empty,
    /// In memory, complete.
    Memory(Bytes),
    /// Arriving; `length` when it is known beforehand. Fewer bytes than that, or an error, must
    /// reach the client as a cut response: a closed connection, or RST_STREAM.
    Stream {
        /// The frames.
        frames: StreamBody,
        /// Length in bytes, when known.
        length: Option<u64>,
    },
    /// The connection (HTTP/1 after 101 or a 2xx to CONNECT) or stream (HTTP/2 CONNECT) becomes a
    /// tunnel to this.
    Tunnel(Box<dyn TunnelIo>),
}

/// The far end of a tunnel.
pub trait TunnelIo: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> TunnelIo for T {}

/// What the access log says of one request.
#[derive(Debug, Default)]
pub struct AccessRecord {
    /// When the request arrived.
    pub time: Timestamp,
    /// From its first byte to the reply's last, in microseconds. Set by the transport.
    pub duration_us: u64,
    /// Client address.
    pub client: Option<SocketAddr>,
    /// Authenticated user.
    pub user: Option<String>,
    /// Method; `None` when the request could not be made out.
    pub method: Option<Method>,
    /// Target as the client meant it: an absolute URL, or authority for CONNECT.
    pub url: Arc<str>,
    /// 1.0, 1.1 or 2.
    pub version: &'static str,
    /// Final status; 499, which is never sent, for a request that was given up before it was
    /// answered.
    pub status: u16,
    /// Bytes of body sent. Set by the transport.
    pub body_bytes: u64,
    /// Bytes of head sent; with HTTP/2 those of its names and values, before compression. Set by
    /// the transport.
    pub head_bytes: u64,
    /// Whether the reply was cut: the client left, or the body failed. Set by the transport.
    pub aborted: bool,
    /// What the cache did.
    pub outcome: CacheResult,
    /// Who was asked; `None` when nobody was.
    pub upstream: Option<NextHop>,
    /// Referer and User-Agent for the combined format.
    pub referer: Option<HeaderValue>,
    /// User agent.
    pub user_agent: Option<HeaderValue>,
    /// Content type of the reply.
    pub content_type: Option<HeaderValue>,
    /// The Cache-Status value of the reply.
    pub cache_status: Bytes,
}

/// Who was asked for a response.
#[derive(Clone, Debug)]
pub enum NextHop {
    /// Who answered, at this address.
    Address(SocketAddr),
    /// Who did not answer, or is known by name only: a host with its port, or a code of Squid's
    /// hierarchy with a host.
    Name(String),
}

impl NextHop {
    /// As text: an address with its port, or the name.
    pub fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Address(address) => address.to_string().into(),
            Self::Name(name) => name.as_str().into(),
        }
    }
}

/// What the cache did with a request, in Squid's words in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheResult {
    /// Refused or answered by the proxy itself.
    #[default]
    None,
    /// Served from RAM.
    MemoryHit,
    /// Served from disk.
    Hit,
    /// Fetched.
    Miss,
    /// Fetched, sharing another request's fetch.
    Collapsed,
    /// A stored response was validated and still held.
    RefreshUnmodified,
    /// A stored response was validated and replaced.
    RefreshModified,
    /// Stale, served while it is validated in the background.
    StaleWhileRevalidate,
    /// Stale, served because the origin failed.
    StaleIfError,
    /// Passed through: the request or response may not be stored.
    Pass,
    /// A tunnel.
    Tunnel,
    /// Refused by an access rule.
    Denied,
    /// Given up before it was answered: the client left, or broke off its request.
    Abandoned,
}

/// Turns requests into replies. The server calls this and nothing else of the exchange.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. Dropping the future means that the client has gone.
    fn handle(&self, request: Request) -> impl Future<Output = Reply> + Send;

    /// Answers a plain request, whose first byte was there at `received`, at once if its response
    /// is fresh in RAM, by calling `reply`, which sends what the connection takes. The answer is
    /// the one that [`Self::handle`] would give. No lock is held while `reply` runs, and nothing is
    /// allocated unless some of it is sent later.
    fn try_fast_path(
        &self,
        plain: &FastPathRequest<'_>,
        client: &Client,
        received: Instant,
        reply: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome;

    /// Takes note of a reply that was sent or cut, its record now complete.
    fn record_sent(&self, record: Box<AccessRecord>);

    /// An answer of the server's own, before any request could be made out: 400, 408, 413, 414,
    /// 431, 505.
    fn error_reply(&self, status: StatusCode, reason: &'static str, client: &Client) -> Reply;
}

/// Why a body ended before its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum BodyError {
    /// The sender closed or reset the connection.
    Cut(String),
    /// The sender has reset its HTTP/2 stream, for a reason that has this code (RFC 9113, section
    /// 7).
    Reset(u32),
    /// The sender's framing made no sense.
    Malformed(&'static str),
    /// Nothing came for too long.
    Timeout,
    /// The store could not give it.
    Store(shoal_store::Error),
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(why) => write!(f, "body cut short: {why}"),
            Self::Reset(code) => write!(f, "body cut short: the stream was reset with code {code}"),
            Self::Malformed(what) => write!(f, "malformed body: {what}"),
            Self::Timeout => f.write_str("body stalled"),
            Self::Store(source) => write!(f, "stored body: {source}"),
        }
    }
}

impl std::error::Error for BodyError {}
