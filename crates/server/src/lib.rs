//! Transports: parse the bytes of client connections into requests and write replies as bytes.
//!
//! ```text
//!   listen ──► worker ──► connection ──► http1 ──┐
//!   (sockets)  (thread)   PROXY, TLS    http2 ──┼──► Handler ──► Reply
//!                 └────► QUIC ────────► http3 ──┘        ▲
//!                             ▲ │                        │
//!                        waiting ◄┘ ──── hits in RAM ────┘
//! ```
//!
//! Each worker is an OS thread with its own runtime and one `SO_REUSEPORT` listener per address. A
//! connection therefore stays on one core for its whole life. Cleartext connections wait for
//! requests together, without a task, and get hits in RAM there. Both protocols are our own loops
//! on `shoal_wire`. The loops know only [`Handler`] of the exchange.
//!
//! A request's field values are slices of the connection's read buffer. Code that needs a value
//! after the request must copy the value. A kept slice keeps the whole buffer in memory.

#![forbid(unsafe_code)]

mod body_pipe;
mod client_connections;
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
mod http3;
mod idle;
mod intercepted;
mod limits;
mod listen;
mod peers;
mod proxied;
mod reply_fields;
mod reply_guard;
mod running;
mod slow_clients;
mod socket;
mod tls;
mod tunnel;
mod worker;

pub use detached::StreamServer;
pub use error::Error;
#[cfg(test)]
use running::bind;
pub use running::{BoundServer, Reloader, RunningServer, bind_or_take, check};
pub use tls::{CertificateState, PrivateTls, certificate_states, private_tls};

use shoal_access as access;
use shoal_access::settings_file;
use shoal_clock as clock;
use shoal_message as message;
use shoal_message::boxed;
use shoal_telemetry::metrics;
use shoal_transport as transport;

use crate::message::Handler;
use crate::metrics::Metrics;
use std::sync::Arc;

/// State shared by all connections of this process.
struct ServerState<H> {
    handler: Arc<H>,
    metrics: Arc<Metrics>,
    live: arc_swap::ArcSwap<limits::ConnectionLimits>,
    drain: drain::Drain,
    /// Alt-Svc of each `listen` entry that offers HTTP/3.
    alt_svc: arc_swap::ArcSwap<Vec<Option<http::HeaderValue>>>,
}

impl<H: Handler> ServerState<H> {
    /// Returns the value of Alt-Svc for replies to this client, if there is one.
    #[inline]
    fn alt_svc(&self, client: &message::Client) -> Option<http::HeaderValue> {
        // Cleartext hits need no look at the table.
        if !client.tls || client.intercepted.is_some() {
            return None;
        }
        self.alt_svc.load().get(client.listener)?.clone()
    }

    /// Returns the server's own error reply to bytes that are not a valid request.
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
