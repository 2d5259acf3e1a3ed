//! The transports: bytes of client connections into requests, replies back into bytes.
//!
//! ```text
//!   listen ──► worker ──► connection ──► http1 ──┐
//!   (sockets)  (thread)   PROXY, TLS    http2 ──┴──► Handler ──► Reply
//!                 │           ▲ │                        ▲
//!                 └────► waiting ◄┘ ──── hits in RAM ────┘
//! ```
//!
//! Each worker is an OS thread with a runtime of its own and its own `SO_REUSEPORT` listener per
//! address, so that a connection lives its whole life on one core. Connections in the clear wait
//! for their requests together, without a task, and are served hits in RAM right there. Both
//! protocols are our own loops on `shoal_wire`, and know of the exchange nothing but [`Handler`].
//!
//! A request's field values are slices of the connection's read buffer. What outlives the request
//! must copy them, or it keeps the whole buffer in memory.

mod body_pipe;
mod client_io;
mod connection;
mod dates;
mod detached;
mod drain;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod http1;
mod http2;
mod idle;
mod limits;
mod listen;
mod proxied;
mod reply_guard;
mod running;
mod slow_clients;
mod socket;
mod tls;
mod tunnel;
mod worker;

pub use detached::StreamServer;
pub use error::Error;
pub use running::{BoundServer, Reloader, RunningServer, bind, check};

use crate::message::Handler;
use crate::metrics::Metrics;
use std::sync::Arc;

/// What every connection of this process shares.
struct Shared<H> {
    handler: Arc<H>,
    metrics: Arc<Metrics>,
    live: arc_swap::ArcSwap<limits::ConnectionLimits>,
    drain: drain::Drain,
}

impl<H: Handler> Shared<H> {
    /// An answer of the server's own to something that is not a request.
    fn refuse(
        &self,
        refusal: shoal_wire::RequestRefusal,
        client: &crate::message::Client,
    ) -> crate::message::Reply {
        self.metrics.refused.increment();
        tracing::debug!(client = %client.address, status = %refusal.status, reason = refusal.reason, "request refused");
        self.handler.error_reply(refusal.status, refusal.reason, client)
    }
}

#[cfg(test)]
mod tests;
