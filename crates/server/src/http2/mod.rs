//! One HTTP/2 connection. Each stream is answered at its request if that is a hit in RAM, else by
//! its own task.
//!
//! ```text
//!   read ──► frames ──► field lists ──► glance ───────────────────────► output ──► write
//!                           │ or a task for the stream                     ▲
//!                           └──► stream ──► handler ──► Sending ──► pump ──┘
//! ```
//!
//! `shoal_wire` parses the frames, and [`state`] keeps the streams. Control frames are answered in
//! the order of reading. All frames that one turn of the connection's task has produced leave in
//! one call. A hit opens no stream and starts no task. A waiting connection holds no buffer.
//!
//! The following have limits, since a client may abuse them:
//!
//! - the fields of a head and the frames that carry them,
//! - streams reset before their reply (CVE-2023-44487),
//! - heads of requests that wait for a reply,
//! - errors of the client,
//! - frames that ask for nothing,
//! - bytes that the client does not take.

pub(super) mod check;
mod connection;
mod fast_path;
pub(super) mod held_heads;
mod incoming;
mod monitor;
mod output;
mod receiving;
mod request_body;
mod send;
mod sending;
mod state;
mod stream;
mod tunnel_io;

use super::ServerState;
use super::client_io::ClientIo;
use super::limits::ConnectionLimits;
use crate::message::{Client, Handler};
use bytes::BytesMut;
use connection::Http2Connection;
use held_heads::HeldHeads;
use state::SharedState;
use std::future::poll_fn;
use std::sync::Arc;

pub(super) use incoming::{ERRORS_MAX, resets_max};
pub(super) use state::{CONNECTION_WINDOW, STREAM_WINDOW};

/// Serves one connection to its end. `input` holds bytes already read from it.
pub(super) async fn serve<T: ClientIo, H: Handler>(
    io: T,
    input: BytesMut,
    shared: Arc<ServerState<H>>,
    live: Arc<ConnectionLimits>,
    client: Arc<Client>,
) {
    let streams = Arc::new(StreamContext {
        shared,
        live,
        client,
        link: SharedState::new(),
        heads: HeldHeads::default(),
    });
    let mut connection = Http2Connection::new(io, input, streams);
    poll_fn(|context| connection.poll(context)).await;
}

/// State shared by the streams of one connection.
struct StreamContext<H> {
    shared: Arc<ServerState<H>>,
    live: Arc<ConnectionLimits>,
    client: Arc<Client>,
    link: SharedState,
    /// Memory of the heads of unanswered requests.
    heads: HeldHeads,
}
