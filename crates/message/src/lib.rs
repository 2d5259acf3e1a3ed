//! Messages between the transport and the exchange: a request in, a reply out.
//!
//! The transport (HTTP/1, HTTP/2, plain or TLS) has framed and checked each request; the exchange
//! never sees a chunk or a frame. A reply names the place of its body, so that the transport can
//! send it in the cheapest way.

#![forbid(unsafe_code)]

pub mod boxed;
mod deferred;
mod hit;
pub mod holds;
mod inside;
mod places;
mod server_name;
mod stored_head;
pub mod target;

pub use crate::deferred::{PeerAsk, PeerReplies};
pub use crate::hit::{FastPathOutcome, HitFields, Keeper, RamHit, ReplyForm, SendProgress, VARY_OF_CODINGS};
pub use crate::holds::Hold;
pub use crate::inside::{InnerServer, OuterConnect, ServerInside};
pub use crate::places::{ConnectionPlace, Places};
pub use crate::server_name::{ServerName, Shown};
pub use crate::stored_head::StoredHead;
pub use shoal_telemetry::record::{AccessRecord, CacheResult, NextHop};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use shoal_rules::CertificateNames;
use shoal_semantics::NextHopFields;
use shoal_wire::{FastPathRequest, RequestParts};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};

/// A framed and checked request, with its client.
pub struct Request {
    /// Method, target, version and fields as received, hop-by-hop fields included.
    pub head: RequestParts,
    /// Body of the request; trailers are its last frame.
    pub body: RequestBody,
    /// Client connection and listener of the request.
    pub client: Arc<Client>,
    /// Receiver of interim (1xx) responses before the final one. Sending never waits; a transport
    /// that cannot carry interim responses drops them.
    pub interim: Option<InterimSink>,
    /// Arrival of the request's first byte.
    pub received: Instant,
}

/// Body of a request; `None` if the framing says that there is no body.
pub type RequestBody = Option<StreamBody>;

/// Body that arrives in frames: data, then perhaps trailers.
pub type StreamBody = UnsyncBoxBody<Bytes, BodyError>;

/// Receiver of interim responses.
pub type InterimSink = tokio::sync::mpsc::Sender<(StatusCode, HeaderMap)>;

/// A client connection.
#[derive(Debug)]
pub struct Client {
    /// The client's address, from the PROXY protocol if the listener accepts it, otherwise from the
    /// socket.
    pub address: SocketAddr,
    /// Local address of the connection.
    pub local: SocketAddr,
    /// Index of the `listen` entry that accepted the connection.
    pub listener: usize,
    /// `true` if the connection is TLS.
    pub tls: bool,
    /// Server name that the client requested (SNI). `None` behind a trusted proxy, which itself
    /// decides which names its clients may use.
    pub server_name: Option<ServerName>,
    /// Names in the certificate that the connection's far end has proven; that of the nearest
    /// proxy, if there is one.
    pub certificate: Option<Arc<CertificateNames>>,
    /// CONNECT around the requests, if this node answers it itself.
    pub intercepted: Option<Arc<OuterConnect>>,
}

impl Client {
    /// Index of the listener for peers, which has no `listen` entry. No rule serves clients there.
    pub const PEER_LISTENER: usize = usize::MAX;

    /// Returns `true` if the connection came to the listener for peers.
    #[inline]
    pub fn is_peer(&self) -> bool {
        self.listener == Self::PEER_LISTENER
    }
}

/// The answer to a request.
pub struct Reply {
    /// Status and fields.
    pub head: ReplyHead,
    /// ConnectionPlace of the body.
    pub body: ReplyBody,
    /// Record for the access log. The transport completes the record and returns it through
    /// [`Handler::record_sent`].
    pub record: Box<AccessRecord>,
}

/// Status and fields of a reply.
pub enum ReplyHead {
    /// Built for this request. Contains no hop-by-hop fields, and no framing fields other than
    /// Content-Length.
    Built(StatusCode, HeaderMap),
    /// An origin's response to this request alone.
    Relayed(RelayedHead),
    /// A stored response's head, ready to send, with the fields that this reply adds.
    Stored {
        /// The stored part.
        stored: Arc<StoredHead>,
        /// Form of the reply.
        form: ReplyForm,
        /// Current age in seconds, for the Age field.
        age_seconds: u64,
        /// The Cache-Status value of this node.
        cache_status: Bytes,
        /// The Proxy-Status value of this node.
        proxy_status: HeaderValue,
        /// `true` if the form of the body depends on the request's Accept-Encoding; Vary then says
        /// so.
        varies: bool,
        /// Shoal-Answer, in an answer to another node.
        peer_answer: Option<HeaderValue>,
    },
}

/// Head of an origin's response on its way to one client. The head contains a Date.
pub struct RelayedHead {
    /// The status.
    pub status: StatusCode,
    /// Header fields. They contain no hop-by-hop and no framing fields, except Upgrade with status
    /// 101.
    pub lines: NextHopFields,
    /// Value of Content-Length, if any.
    pub length: Option<u64>,
}

impl ReplyHead {
    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Built(status, _) => *status,
            Self::Relayed(head) => head.status,
            Self::Stored { stored, form, .. } => form.status(stored),
        }
    }

    /// Returns the value of the head's own Content-Length; `None` if the body determines the
    /// length.
    pub fn declared_length(&self) -> Option<u64> {
        match self {
            Self::Built(_, fields) => fields.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok(),
            Self::Relayed(head) => head.length,
            Self::Stored { form: ReplyForm::Head { length }, .. } => *length,
            Self::Stored { .. } => None,
        }
    }
}

/// ConnectionPlace of a reply's body.
pub enum ReplyBody {
    /// No body (HEAD, 204, 304, or length 0). `Content-Length` in the head is sent as it stands.
    Empty,
    /// A complete body in memory.
    Memory(Bytes),
    /// An arriving body. A body that is shorter than `length`, or fails, must reach the client as a
    /// cut response: a closed connection, or RST_STREAM.
    Stream {
        /// Frames of the body.
        frames: StreamBody,
        /// Length in bytes, if known beforehand.
        length: Option<u64>,
    },
    /// A tunnel to this stream. The connection (HTTP/1 after 101 or a 2xx to CONNECT) or stream
    /// (HTTP/2 CONNECT) becomes the tunnel.
    Tunnel(Box<dyn TunnelIo>),
}

/// The far end of a tunnel.
pub trait TunnelIo: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> TunnelIo for T {}

/// Turns requests into replies. The server calls only this part of the exchange.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. Dropping the future means that the client has gone.
    fn handle(&self, request: Request) -> impl Future<Output = Reply> + Send;

    /// Answers a plain request at once if its response is fresh in RAM.
    ///
    /// `received` is the arrival of the request's first byte. `reply` sends as much as the
    /// connection takes. The answer equals the one of [`Self::handle`]. No lock is held while
    /// `reply` runs. Nothing is allocated unless a part of the reply is sent later.
    fn try_fast_path(
        &self,
        plain: &FastPathRequest<'_>,
        client: &Client,
        received: Instant,
        reply: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome;

    /// Answers an ask of another node at once, likewise.
    fn try_ask_fast_path(
        &self,
        _: &FastPathRequest<'_>,
        _: &Client,
        _: Instant,
        _: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome {
        FastPathOutcome::NotTaken
    }

    /// Takes a plain request that is no hit at once, if it may wait for a message to another node
    /// of the cluster.
    fn defer_to_peer(&self, _: &FastPathRequest<'_>, _: &Arc<Client>, _: Instant) -> Option<PeerAsk> {
        None
    }

    /// Answers a message of another node at once, if these bytes are one whole message. Adds the
    /// reply to `replies`. Returns `false`, and adds nothing, for anything else.
    fn try_message(&self, _: &[u8], _: &Client, _: Instant, _: &mut Vec<u8>) -> bool {
        false
    }

    /// Returns the length of the request at the start of these bytes, if it is an incomplete
    /// message of another node. Once it is whole, [`Self::try_message`] may answer it.
    fn awaited_message(&self, _: &[u8], _: &Client) -> Option<usize> {
        None
    }

    /// Asks another node for the responses to these requests, all of which wait for that node.
    fn ask_peer(&self, _: Vec<PeerAsk>) -> impl Future<Output = PeerReplies> + Send {
        std::future::ready(PeerReplies::default())
    }

    /// Takes the server that serves requests inside a CONNECT.
    fn join_server(&self, _: ServerInside) {}

    /// Processes the complete record of a reply that was sent or cut.
    fn record_sent(&self, record: Box<AccessRecord>);

    /// Builds the server's own answer before a request could be parsed: 400, 408, 413, 414, 431,
    /// 505.
    fn error_reply(&self, status: StatusCode, reason: &'static str, client: &Client) -> Reply;
}

/// Reason for which a body ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum BodyError {
    /// The sender closed or reset the connection.
    Cut(String),
    /// The sender reset its HTTP/2 stream with this code (RFC 9113, section 7).
    Reset(u32),
    /// The sender's framing was invalid.
    Malformed(&'static str),
    /// No bytes arrived for too long.
    Timeout,
    /// The store could not read the body.
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
