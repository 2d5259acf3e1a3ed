//! HTTP/3: connections over QUIC, each with its streams.
//!
//! ```text
//!   UDP socket ──► endpoint ──► handshake ──► connection ──► stream ──► head ──► glance ──► write
//!   (one a worker)   │ Retry under load            │            └──► task ──► handler ──► send ──┘
//!                    └ refused when full           └──► control streams
//! ```
//!
//! `quinn` has the packets, their loss and congestion, and the handshake. `shoal_http3` reads and
//! writes the frames; the checks of heads are those of HTTP/2. A hit in RAM is
//! answered by the connection's task: head and body go to QUIC in one call, the body as a
//! reference to its pages.
//!
//! A packet reaches the worker that has its connection as long as the client keeps its address and
//! port: the kernel chooses the socket by both. A client with a new port may reach another
//! worker. That worker answers with a stateless reset, by a key that all share, and the client
//! connects anew. A client at another host always connects anew.
//!
//! The following have limits, since a client may abuse them:
//!
//! - handshakes under way: beyond a few, addresses must be proven first by Retry,
//! - bytes to an unproven address: three times the bytes from it (RFC 9000 section 8.1),
//! - streams open at once, reset before their reply, or in error,
//! - the fields of a head, and heads of requests that wait for a reply,
//! - bytes that the client sends before they are read, or that it does not acknowledge,
//! - frames and streams that ask for nothing.

mod connection;
mod endpoint;
mod fast_path;
mod handshake;
mod port;
mod receive;
mod request_body;
mod send;
mod stream;
mod turns;
mod uni_streams;
mod unread_bodies;

pub(super) use endpoint::{Http3Listener, listeners, serve};
pub(super) use port::Http3Port;

use http::HeaderValue;
use shoal_settings::Listen;
use std::net::SocketAddr;

use super::ServerState;
use super::drain::Drain;
use super::http2::held_heads::HeldHeads;
use super::limits::ConnectionLimits;
use crate::http2::{ERRORS_MAX, resets_max};
use crate::message::{Client, Handler};
use parking_lot::Mutex;
use quinn::{Connection, VarInt};
use shoal_http3::ErrorCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;
use unread_bodies::UnreadBodies;

/// State shared by the streams of one connection.
struct Http3Context<H> {
    shared: Arc<ServerState<H>>,
    live: Arc<ConnectionLimits>,
    connection: Connection,
    /// Signal to leave since a reload closes the port.
    period: Drain,
    /// Client, at the host that it has proven in the handshake.
    client: Mutex<Arc<Client>>,
    /// Memory of the heads of unanswered requests.
    heads: HeldHeads,
    /// Bodies of requests that may hold the window for all.
    unread: UnreadBodies,
    /// Streams with a task.
    tasks: AtomicUsize,
    /// Time at which the last reply ended.
    quiet_since: Mutex<Instant>,
    /// Streams reset by the client before their reply, less the streams answered.
    resets: AtomicU32,
    /// Streams ended for the client's errors, less the streams answered.
    errors: AtomicU32,
}

/// Stream with a task, counted until dropped.
struct TaskPermit<H: Handler>(Arc<Http3Context<H>>);

impl<H: Handler> Http3Context<H> {
    fn new(
        shared: Arc<ServerState<H>>,
        live: Arc<ConnectionLimits>,
        (connection, client): (Connection, Client),
        period: Drain,
    ) -> Self {
        Self {
            shared,
            live,
            connection,
            period,
            client: Mutex::new(Arc::new(client)),
            heads: HeldHeads::default(),
            unread: UnreadBodies::default(),
            tasks: AtomicUsize::new(0),
            quiet_since: Mutex::new(Instant::now()),
            resets: AtomicU32::new(0),
            errors: AtomicU32::new(0),
        }
    }

    /// Returns the client. Its port may have changed.
    ///
    /// Packets from another host prove nothing: QUIC asks that host only after it has taken the
    /// streams in them (RFC 9000 section 9.1), and the sender may have forged its address. The
    /// rules for clients therefore go on with the proven host, and the connection ends. A client
    /// that has moved begins another.
    fn client(&self) -> Arc<Client> {
        let address = self.connection.remote_address();
        let mut client = self.client.lock();
        if client.address.ip() != address.ip() {
            let client = Arc::clone(&client);
            self.give_up(ErrorCode::REQUEST_REJECTED);
            return client;
        }
        if client.address != address {
            let Client { local, listener, tls, ref server_name, ref certificate, .. } = **client;
            let (server_name, certificate) = (server_name.clone(), certificate.clone());
            *client = Arc::new(Client {
                address,
                local,
                listener,
                tls,
                server_name,
                certificate,
                intercepted: None,
            });
        }
        Arc::clone(&client)
    }

    /// Ends the connection for a fault or abuse of the client.
    fn give_up(&self, code: ErrorCode) {
        if self.connection.close_reason().is_none() {
            self.shared.metrics.h3_given_up.increment();
            let client = self.connection.remote_address();
            tracing::debug!(%client, code = format_args!("{:#x}", code.0), "HTTP/3 connection given up");
            self.close(code);
        }
    }

    fn close(&self, code: ErrorCode) {
        self.connection.close(VarInt::from_u32(code.0), b"");
    }

    /// Counts a stream that the client reset before its reply. Too many end the connection
    /// (CVE-2023-44487).
    fn note_reset(&self) {
        if self.resets.fetch_add(1, Relaxed) >= resets_max(self.live.h2_streams) {
            self.give_up(ErrorCode::EXCESSIVE_LOAD);
        }
    }

    /// Counts a stream that ended for an error of the client. Too many end the connection.
    fn note_error(&self) {
        self.shared.metrics.refused.increment();
        if self.errors.fetch_add(1, Relaxed) as usize >= ERRORS_MAX as usize {
            self.give_up(ErrorCode::EXCESSIVE_LOAD);
        }
    }

    /// Notes the end of a reply.
    fn note_end(&self, now: Instant) {
        *self.quiet_since.lock() = now;
        for count in [&self.resets, &self.errors] {
            // Two replies that end at once may count as one.
            let before = count.load(Relaxed);
            if before > 0 {
                count.store(before - 1, Relaxed);
            }
        }
    }

    fn begin_task(self: &Arc<Self>) -> TaskPermit<H> {
        self.tasks.fetch_add(1, Relaxed);
        TaskPermit(Arc::clone(self))
    }
}

impl<H: Handler> Drop for TaskPermit<H> {
    fn drop(&mut self) {
        let before = self.0.tasks.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a task ends once");
        *self.0.quiet_since.lock() = Instant::now();
    }
}

/// Returns the value of Alt-Svc (RFC 7838) of each `listen` entry that offers HTTP/3.
pub(super) fn alt_svc(entries: &[Listen], bound: &[SocketAddr]) -> Vec<Option<HeaderValue>> {
    let value = |(entry, bound): (&Listen, &SocketAddr)| {
        let max_age = entry.http3_max_age.as_secs();
        let port = entry.http3_port.unwrap_or(bound.port());
        match (entry.http3, max_age) {
            (false, _) => None,
            (true, 0) => Some(HeaderValue::from_static("clear")),
            (true, _) => HeaderValue::try_from(format!("h3=\":{port}\"; ma={max_age}")).ok(),
        }
    };
    entries.iter().zip(bound).map(value).collect()
}

/// Bytes that the server may have on the way or waiting on one connection, before the client
/// acknowledges them. A reply's sender then waits.
const SEND_WINDOW: u64 = 1 << 20;

/// Streams in one direction that a client may have open: three are needed.
const UNI_STREAMS_MAX: u32 = 8;
