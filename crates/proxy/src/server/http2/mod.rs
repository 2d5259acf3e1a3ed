//! One HTTP/2 connection: streams in, each answered where it is accepted, when it is a hit in RAM, or by a task of its own.
//!
//! The `h2` crate frames, multiplexes and counts what a client may abuse (resets, empty frames, header lists); it
//! is used directly because a server built on hyper cannot send interim responses. What this file adds: idle
//! connections are closed, dead ones are found out by pings, and draining sends GOAWAY.

mod check;
mod glance;
mod pressed_io;
mod request_body;
mod send;
mod stream;
mod tunnel_io;

use super::Shared;
use super::client_io::ClientIo;
use super::drain::DrainWatch;
use super::live::Live;
use crate::message::{Client, Handler};
use crate::transport::Deadline;
use bytes::Bytes;
use h2::server::{Builder, Connection};
use h2::{Ping, PingPong};
use parking_lot::Mutex;
use pressed_io::{Pressed, PressedIo};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Serves one connection to its end.
pub(super) async fn serve<T: ClientIo, H: Handler>(
    io: T,
    shared: Arc<Shared<H>>,
    live: Arc<Live>,
    client: Arc<Client>,
) {
    let (io, pressed) = PressedIo::new(io);
    // The handshake's memory goes when it is over.
    let Some(mut h2) = Box::pin(shake_hands(io, &live)).await else {
        tracing::debug!(client = %client.address, "no HTTP/2 handshake");
        return;
    };
    let drain = shared.drain.watch();
    let watch = Watch::new(&live, drain, h2.ping_pong(), pressed);
    let streams = Arc::new(Streams { shared, live, client, quiet_since: Mutex::new(Instant::now()) });
    run(h2, watch, streams).await;
}

/// The connection of a client that begins in time. Boxed, since it is large, and a task keeps room for every place that it was
/// ever moved through.
async fn shake_hands<T: ClientIo>(io: T, live: &Live) -> Option<Box<Connection<T, Bytes>>> {
    let shaken = tokio::time::timeout(live.head_timeout, builder(live).handshake(io)).await;
    shaken.ok()?.ok().map(Box::new)
}

/// What the streams of one connection share.
struct Streams<H> {
    shared: Arc<Shared<H>>,
    live: Arc<Live>,
    client: Arc<Client>,
    /// When the last stream ended.
    quiet_since: Mutex<Instant>,
}

impl<H> Streams<H> {
    /// Streams being answered: each holds this, and so does the connection.
    fn open(self: &Arc<Self>) -> usize {
        Arc::strong_count(self) - 1
    }
}

async fn run<T: ClientIo, H: Handler>(
    mut h2: Box<Connection<T, Bytes>>,
    mut watch: Watch,
    streams: Arc<Streams<H>>,
) {
    loop {
        let event = poll_fn(|context| {
            if let Poll::Ready(accepted) = h2.poll_accept(context) {
                return Poll::Ready(Event::Accepted(accepted));
            }
            watch.poll(context, &streams)
        });
        match event.await {
            Event::Accepted(Some(Ok((request, mut respond)))) => {
                if glance::answer(&streams, &request, &mut respond).is_none() {
                    tokio::spawn(stream::serve(request, respond, Arc::clone(&streams)));
                }
            }
            Event::Accepted(Some(Err(error))) => {
                tracing::debug!(client = %streams.client.address, %error, "HTTP/2 connection failed");
                return;
            }
            Event::Accepted(None) | Event::Dead => return,
            Event::GoAway => h2.graceful_shutdown(),
        }
    }
}

#[expect(clippy::large_enum_variant, reason = "made and taken apart once a stream")]
enum Event {
    /// A request, an error, or the connection's end.
    Accepted(Option<Result<Stream, h2::Error>>),
    /// No further streams are to be opened.
    GoAway,
    /// The client does not answer, or does not leave.
    Dead,
}

/// A request, and where its response goes.
type Stream = (http::Request<h2::RecvStream>, h2::server::SendResponse<Bytes>);

/// Looks after a connection between its frames.
struct Watch {
    drain: DrainWatch,
    idle: Deadline,
    keep_alive: Duration,
    pings: Option<PingPong>,
    ping: Deadline,
    ping_every: Duration,
    ping_unanswered: bool,
    leaving: bool,
    pressed: Pressed,
    /// Bytes that the client had sent and taken when the time between two pings began.
    moved_before: (u64, u64),
    /// Bytes a second that a client takes at least; 0 for no such rule.
    rate_min: u64,
}

impl Watch {
    fn new(live: &Live, drain: DrainWatch, pings: Option<PingPong>, pressed: Pressed) -> Self {
        let keep_alive = live.keep_alive.max(KEEP_ALIVE_MIN);
        Self {
            drain,
            idle: Deadline::after(keep_alive),
            keep_alive,
            pings,
            ping: Deadline::after(live.patience.pause),
            ping_every: live.patience.pause,
            ping_unanswered: false,
            leaving: false,
            pressed,
            moved_before: (0, 0),
            rate_min: live.patience.rate_min,
        }
    }

    fn poll<H>(&mut self, context: &mut Context<'_>, streams: &Arc<Streams<H>>) -> Poll<Event> {
        if !self.leaving && self.drain.poll_draining(context).is_ready() {
            return Poll::Ready(self.leave());
        }
        while self.idle.poll_passed(context).is_ready() {
            let now = Instant::now();
            if self.leaving {
                // A stream ends when its last bytes are handed over; a slow client has yet to take them.
                if streams.open() == 0 && !self.pressed.is_pressed() {
                    return Poll::Ready(Event::Dead);
                }
                self.idle.set(now + LEAVE_TIME);
                continue;
            }
            let due = match streams.open() {
                0 => *streams.quiet_since.lock() + self.keep_alive,
                _ => now + self.keep_alive,
            };
            if due <= now {
                return Poll::Ready(self.leave());
            }
            self.idle.set(due);
        }
        self.poll_ping(context, streams.open())
    }

    fn leave(&mut self) -> Event {
        self.leaving = true;
        self.idle.set(Instant::now() + LEAVE_TIME);
        Event::GoAway
    }

    /// A client that neither answers a ping within the time between two nor moves anything else is gone, whatever streams it has
    /// open. The ping waits behind all that the kernels hold, which may be megabytes.
    fn poll_ping(&mut self, context: &mut Context<'_>, open_streams: usize) -> Poll<Event> {
        let Some(pings) = &mut self.pings else { return Poll::Pending };
        if self.ping_unanswered && pings.poll_pong(context).is_ready() {
            self.ping_unanswered = false;
        }
        while self.ping.poll_passed(context).is_ready() {
            let lives =
                self.pressed.lives(&mut self.moved_before, open_streams, self.rate_min, self.ping_every);
            if self.ping_unanswered && !lives {
                return Poll::Ready(Event::Dead);
            }
            self.ping.set(Instant::now() + self.ping_every);
            if self.ping_unanswered {
                continue;
            }
            self.ping_unanswered = pings.send_ping(Ping::opaque()).is_ok();
            if self.ping_unanswered && pings.poll_pong(context).is_ready() {
                self.ping_unanswered = false;
            }
        }
        Poll::Pending
    }
}

/// Limits that bound what one connection may cost.
fn builder(live: &Live) -> Builder {
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(live.h2_streams)
        .max_header_list_size(u32::try_from(live.limits.head_bytes_max).unwrap_or(u32::MAX))
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER_BYTES)
        .max_concurrent_reset_streams(RESET_STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(Some(LOCAL_RESETS_MAX));
    builder
}

/// A connection without streams lives at least so long: the first request needs time to arrive.
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);

/// After GOAWAY: how often to look whether the last stream has ended and its client has taken it.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// Bytes that a client may send on one stream before somebody has read them.
const STREAM_WINDOW: u32 = 128 * 1024;

/// The same over all streams.
const CONNECTION_WINDOW: u32 = 512 * 1024;

/// Bytes of one stream that wait to be written.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// Streams reset by the client whose traces are kept, or that were reset before we had accepted them; a client that
/// goes beyond is sent away ("rapid reset", CVE-2023-44487).
const RESET_STREAMS_MAX: usize = 20;

/// Streams that we reset for the client's errors, over the connection's life.
const LOCAL_RESETS_MAX: usize = 512;
