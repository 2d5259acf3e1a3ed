//! One HTTP/2 connection: streams in, each answered where its request is read, when it is a hit in
//! RAM, or by a task of its own.
//!
//! ```text
//!   read ──► frames ──► field lists ──► glance ───────────────────────► output ──► write
//!                           │ or a task for the stream                     ▲
//!                           └──► stream ──► handler ──► Sending ──► pump ──┘
//! ```
//!
//! The frames are `shoal_wire`'s, the streams are [`state`]'s. What a client may ask for is
//! answered in the order that it was read, and all that a turn of the connection's task has framed
//! leaves in one call. A hit opens no stream and starts no task. A connection that waits holds no
//! buffer.
//!
//! What a client may abuse has a limit: the fields of a head and the frames that carry them,
//! streams that it resets before they are answered (CVE-2023-44487), the heads of those that wait
//! for an answer, its own errors, frames that ask for nothing, and what it does not take.

mod check;
mod connection;
mod fast_path;
mod held_heads;
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

use super::Shared;
use super::client_io::ClientIo;
use super::limits::ConnectionLimits;
use crate::message::{Client, Handler};
use bytes::BytesMut;
use connection::Connection;
use held_heads::HeldHeads;
use state::SharedState;
use std::future::poll_fn;
use std::sync::Arc;

#[cfg(any(test, feature = "fuzzing"))]
pub(super) use state::{CONNECTION_WINDOW, STREAM_WINDOW};

/// Serves one connection to its end; `input` was read from it already.
pub(super) async fn serve<T: ClientIo, H: Handler>(
    io: T,
    input: BytesMut,
    shared: Arc<Shared<H>>,
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
    let mut connection = Connection::new(io, input, streams);
    poll_fn(|context| connection.poll(context)).await;
}

/// What the streams of one connection share.
struct StreamContext<H> {
    shared: Arc<Shared<H>>,
    live: Arc<ConnectionLimits>,
    client: Arc<Client>,
    link: SharedState,
    /// Memory of the heads of requests that are not answered.
    heads: HeldHeads,
}
