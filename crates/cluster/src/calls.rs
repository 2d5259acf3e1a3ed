//! Calls between nodes: a name and bytes there, bytes back.
//!
//! The proxy implements [`PeerCalls`] over its connections to the peer listeners of other nodes. It
//! hands calls that arrive at its own listener to the [`PeerService`].

use bytes::Bytes;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// Answer to a call, once it has come.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// Sends calls to other nodes.
pub trait PeerCalls: Send + Sync {
    /// Calls a node. `name` is lower case, such as `members/join`. The answer has at most
    /// [`CALL_BYTES_MAX`] bytes and comes within the peer time-out.
    fn call(&self, to: SocketAddr, name: &'static str, body: Bytes) -> CallFuture<'_>;
}

/// Answers calls of other nodes.
pub trait PeerService: Send + Sync {
    /// Answers a call with at most [`CALL_BYTES_MAX`] bytes of body. The caller has proved that it
    /// belongs to the cluster.
    fn answer(&self, from: Caller, name: &str, body: Bytes) -> CallFuture<'_>;
}

/// Node that calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Name in the node's certificate; `None` without TLS.
    pub name: Option<Arc<str>>,
    /// Address that the call came from; its port is not that of the node's listener.
    pub address: SocketAddr,
}

/// Failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// No answer came: refused, reset or too late.
    Unreachable(String),
    /// The node refused the call, with its reason in a line.
    Refused(String),
    /// Nobody answers calls of this name.
    Unknown,
    /// The answer or the body cannot be read.
    Malformed(&'static str),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "no answer: {why}"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Unknown => f.write_str("the node does not know this call"),
            Self::Malformed(why) => write!(f, "malformed message: {why}"),
        }
    }
}

impl std::error::Error for CallError {}

/// Most bytes of a call's body, and of its answer.
pub const CALL_BYTES_MAX: usize = 1 << 20;
