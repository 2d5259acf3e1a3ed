//! HTTP/1.1 to an origin: one request at a time on a connection.
//!
//! ```text
//!   H1::send ──► Requesting (head, body as it comes) ──► response head ──► Responding ──► park
//!                                                                                          │
//!                     next request ◄── unpark ◄── keeper: watches until asked for, ends ◄──┘
//! ```
//!
//! The task that sends a request reads and writes the socket itself, and parses bytes in the read
//! buffer. Each connection has one task of its own, its *keeper*. The keeper only watches the
//! parked connection: for its end, for unrequested bytes, and for its idle timeout.
//!
//! Bytes that answer no request (a body after the response to HEAD, more than Content-Length says)
//! must not become the next response. A parked connection with such bytes is closed. A connection
//! that is used again is looked at once more, in the kernel. Bytes that come after the request and
//! are no response end the connection, and a safe request is sent again.

mod io;
mod request;
mod response;

pub(super) use request::RequestWriter;
pub(super) use response::{ResponseReader, persists};

use super::driver::{OpenGauge, drive, next_id};
use super::error::Cause;
use super::head::{AttemptFailure, AttemptStreams, HEAD_MAX};
use super::pool::OriginPoolHandle;
use super::socket::{Disturbance, OriginStream};
use crate::metrics::Metrics;
use crate::transport::Rewind;
use crate::transport::spare::BufferClass;
use http::header::TRANSFER_ENCODING;
use http::{StatusCode, Version};
use io::Io;
use parking_lot::Mutex;
use shoal_core::Fields;
use shoal_wire::{BadHead, ResponseHead};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::thread::ThreadId;
use std::time::Duration;

/// HTTP/1 connection to an origin.
pub(super) struct H1 {
    /// Stream, while the connection is in use. Boxed, since it moves with each request.
    io: Option<Box<Io>>,
    shared: Arc<SharedConnection>,
    peer: SocketAddr,
    /// Thread of the runtime that watches the stream.
    thread: ThreadId,
    /// Thread that used the connection last.
    user: ThreadId,
    /// The connection was parked before.
    is_kept: bool,
    /// The far end is another node. Its answers name their keys, so that bytes of an earlier
    /// exchange cannot pass for one.
    is_of_peer: bool,
    id: u64,
}

/// State shared by a connection and its keeper.
struct SharedConnection(Mutex<ConnectionState>);

struct ConnectionState {
    held: StreamOwner,
    keeper: Option<Waker>,
    /// The origin sent bytes that answer no request.
    had_surplus: bool,
}

/// Owner of the stream.
enum StreamOwner {
    /// The user of the connection.
    InUse,
    /// The keeper, which watches the stream.
    Parked(Box<Io>),
    /// The keeper, which closes the stream.
    Leaving(Box<Io>),
    /// None: the stream is closed, or has become a tunnel.
    Gone,
}

impl H1 {
    /// Wraps a connected socket. Its keeper runs on this thread's runtime.
    pub fn open(
        socket: OriginStream,
        peer: SocketAddr,
        place: &OriginPoolHandle,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let io = Io::new(socket, OpenGauge::new(Arc::clone(metrics)));
        let shared = Arc::new(SharedConnection(Mutex::new(ConnectionState {
            held: StreamOwner::InUse,
            keeper: None,
            had_surplus: false,
        })));
        let (id, thread) = (next_id(), std::thread::current().id());
        let keeper = ParkedWatcher(Arc::clone(&shared));
        let watch = async move { poll_fn(|context| keeper.0.poll_gone(context)).await };
        tokio::spawn(drive(watch, id, place.downgrade()));
        Self {
            io: Some(Box::new(io)),
            shared,
            peer,
            thread,
            user: thread,
            is_kept: false,
            is_of_peer: false,
            id,
        }
    }

    /// Marks the far end as another node of the cluster.
    pub fn into_peer_link(mut self) -> Self {
        self.is_of_peer = true;
        self
    }

    /// Sends a request and waits for the head of the final response, at most `timeout` after the
    /// last progress.
    pub async fn send(
        &mut self,
        requesting: &mut RequestWriter,
        sending: &AttemptStreams,
        timeout: Duration,
    ) -> Result<ResponseHead, AttemptFailure> {
        // An unparked connection may have ended before anything is sent.
        if let Some(disturbance) = self.disturbance().await {
            let detail = "the connection ended before it was used".to_owned();
            let surplus = disturbance == Disturbance::Surplus;
            return Err(AttemptFailure {
                cause: Cause::Terminated,
                detail,
                unsent: true,
                dead: true,
                surplus,
            });
        }
        let mut progress = HeadProgress { is_silent: true, has_head: false, is_kept: self.is_kept };
        let io = self.io();
        poll_fn(|context| io.poll_head(context, requesting, sending, timeout, &mut progress)).await
    }

    /// Returns the event on this connection since its last use, if any.
    async fn disturbance(&mut self) -> Option<Disturbance> {
        let (is_kept, is_of_peer) = (self.is_kept, self.is_of_peer);
        let io = self.io();
        if let Poll::Ready(event) = poll_fn(|context| Poll::Ready(io.poll_disturbed(context))).await {
            return Some(event);
        }
        if !is_kept || is_of_peer {
            return None;
        }
        io.stream.arrived()?;
        // The yield lets the runtime report the bytes that arrived. A session ticket of TLS is then
        // read, and is no event.
        tokio::task::yield_now().await;
        match poll_fn(|context| Poll::Ready(io.poll_disturbed(context))).await {
            Poll::Ready(event) => Some(event),
            Poll::Pending => io.stream.arrived(),
        }
    }

    /// Returns the stream. The connection must have been unparked before.
    fn io(&mut self) -> &mut Io {
        self.io.as_mut().expect("a connection in use has its stream")
    }

    /// Gives the stream to the keeper. Returns `false` if it cannot carry another request; the
    /// keeper then closes it.
    pub fn park(&mut self) -> bool {
        let Some(mut io) = self.io.take() else { return false };
        let is_clean = io.input.is_empty();
        io.rest();
        if is_clean {
            return self.shared.park(io);
        }
        self.shared.0.lock().had_surplus = true;
        self.shared.hold(StreamOwner::Leaving(io));
        false
    }

    /// Returns `true` if the origin sent bytes that answer no request.
    pub fn had_surplus(&self) -> bool {
        self.shared.0.lock().had_surplus
    }

    /// Takes the stream back from the keeper. Returns `false` if it has ended meanwhile.
    pub fn unpark(&mut self) -> bool {
        let mut state = self.shared.0.lock();
        match std::mem::replace(&mut state.held, StreamOwner::InUse) {
            StreamOwner::Parked(mut io) => {
                let user = std::thread::current().id();
                if user != self.user {
                    io.forget_timer();
                    self.user = user;
                }
                self.io = Some(io);
                self.is_kept = true;
                true
            }
            other => {
                state.held = other;
                false
            }
        }
    }

    /// Returns the stream for a tunnel, and its gauge.
    pub fn into_tunnel(mut self) -> (Rewind<OriginStream>, OpenGauge) {
        let io = self.io.take().expect("a connection in use has its stream");
        self.shared.hold(StreamOwner::Gone);
        io.into_stream()
    }

    /// Returns a function that tells if the connection still exists.
    pub fn held(&self) -> impl Fn() -> bool + Send + 'static + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || shared.strong_count() > 0
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.shared.0.lock().held, StreamOwner::Gone)
    }

    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    pub fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for H1 {
    fn drop(&mut self) {
        if self.io.take().is_some() {
            return self.shared.hold(StreamOwner::Gone);
        }
        let mut state = self.shared.0.lock();
        state.held = match std::mem::replace(&mut state.held, StreamOwner::Gone) {
            // A parked connection that is no longer wanted is closed in order.
            StreamOwner::Parked(io) | StreamOwner::Leaving(io) => StreamOwner::Leaving(io),
            StreamOwner::InUse | StreamOwner::Gone => StreamOwner::Gone,
        };
        state.wake();
    }
}

impl SharedConnection {
    fn hold(&self, held: StreamOwner) {
        let mut state = self.0.lock();
        state.held = held;
        state.wake();
    }

    /// Leaves the stream to the keeper. Polling the stream once with the keeper's waker makes later
    /// events wake the keeper, without running it now. Returns `false` if an event has already
    /// happened.
    fn park(&self, mut io: Box<Io>) -> bool {
        let mut state = self.0.lock();
        let polled = state.keeper.as_ref().map(|keeper| io.poll_disturbed(&mut Context::from_waker(keeper)));
        if let Some(Poll::Ready(event)) = polled {
            state.had_surplus |= event == Disturbance::Surplus;
            state.held = StreamOwner::Gone;
            state.wake();
            return false;
        }
        state.held = StreamOwner::Parked(io);
        true
    }

    /// Polls for the keeper: ready once the connection is gone.
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        let outcome = match &mut state.held {
            StreamOwner::InUse => Poll::Pending,
            StreamOwner::Parked(io) => io.poll_disturbed(context),
            StreamOwner::Leaving(io) => io.poll_close(context).map(|()| Disturbance::Ended),
            StreamOwner::Gone => Poll::Ready(Disturbance::Ended),
        };
        if let Poll::Ready(event) = outcome {
            state.had_surplus |= event == Disturbance::Surplus;
            state.held = StreamOwner::Gone;
        } else if !state.keeper.as_ref().is_some_and(|keeper| keeper.will_wake(context.waker())) {
            state.keeper = Some(context.waker().clone());
        }
        outcome.map(drop)
    }
}

impl ConnectionState {
    fn wake(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.wake_by_ref();
        }
    }
}

/// Keeper's handle. When the keeper's runtime ends, its parked connection ends too.
struct ParkedWatcher(Arc<SharedConnection>);

impl Drop for ParkedWatcher {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        if matches!(state.held, StreamOwner::Parked(_) | StreamOwner::Leaving(_)) {
            state.held = StreamOwner::Gone;
        }
    }
}

/// Progress of one exchange up to its response's head.
struct HeadProgress {
    /// No byte of a response has arrived.
    is_silent: bool,
    /// An interim head has arrived.
    has_head: bool,
    /// The connection carried requests before.
    is_kept: bool,
}

impl HeadProgress {
    /// Returns the failure for bytes that are no response.
    fn malformed(&self, what: &str) -> AttemptFailure {
        let surplus = self.is_kept && !self.has_head;
        AttemptFailure { surplus, ..failure(Cause::Malformed, what) }
    }
}

impl Io {
    /// Sends and reads until a final head has arrived.
    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        requesting: &mut RequestWriter,
        sending: &AttemptStreams,
        timeout: Duration,
        progress: &mut HeadProgress,
    ) -> Poll<Result<ResponseHead, AttemptFailure>> {
        loop {
            let sent = requesting.poll(&mut self.stream, context);
            if sent.is_ready() && sending.upload.failure().is_some() {
                return Poll::Ready(Err(failure(Cause::RequestBody, "the request's body failed")));
            }
            match self.parser.parse(&mut self.input, HEAD_MAX) {
                Ok(Some(head)) => match judged(head, sending) {
                    Some(outcome) => return Poll::Ready(outcome),
                    // An interim head may have released the request's body, so continue sending.
                    None => {
                        progress.has_head = true;
                        continue;
                    }
                },
                Ok(None) => {}
                Err(BadHead::TooLarge) => {
                    let what = "the head of the response is too large";
                    return Poll::Ready(Err(failure(Cause::HeadTooLarge, what)));
                }
                Err(BadHead::Malformed(what)) => return Poll::Ready(Err(progress.malformed(what))),
            }
            match self.poll_fill(context, BufferClass::Origin.bytes()) {
                Poll::Ready(Ok(count)) if count > 0 => {
                    progress.is_silent = false;
                    if progress.is_kept && requesting.is_unsent() {
                        let early = progress.malformed("bytes came before the request was sent");
                        return Poll::Ready(Err(AttemptFailure { unsent: true, ..early }));
                    }
                }
                Poll::Ready(end) => {
                    let detail = end.map_or_else(|error| error.to_string(), |_| CLOSED.to_owned());
                    let dead = progress.is_silent;
                    let cause = if dead { Cause::Terminated } else { Cause::Incomplete };
                    let unsent = requesting.is_unsent();
                    return Poll::Ready(Err(AttemptFailure { cause, detail, unsent, dead, surplus: false }));
                }
                Poll::Pending => {
                    ready!(self.poll_overdue(context, sending.upload.due(timeout).into_std()));
                    if let Some(cause) = sending.upload.fell_due() {
                        return Poll::Ready(Err(failure(cause, "no sign of a response in time")));
                    }
                }
            }
        }
    }
}

/// Returns the outcome of a head: the response, a failure, or `None` for an interim response.
fn judged(head: ResponseHead, sending: &AttemptStreams) -> Option<Result<ResponseHead, AttemptFailure>> {
    if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
        let is_bearable = sending.received(head.status, || head.fields.to_map());
        return (!is_bearable).then(|| Err(failure(Cause::Malformed, "too many interim responses")));
    }
    // RFC 9112, 6.1: "A server or client that receives an HTTP/1.0 message containing a
    // Transfer-Encoding header field MUST treat the message as if the framing is faulty".
    if head.version == Version::HTTP_10 && head.fields.has(&TRANSFER_ENCODING) {
        return Some(Err(failure(Cause::Malformed, "Transfer-Encoding over HTTP/1.0")));
    }
    Some(Ok(head))
}

fn failure(cause: Cause, what: &str) -> AttemptFailure {
    AttemptFailure { cause, detail: what.to_owned(), unsent: false, dead: false, surplus: false }
}

const CLOSED: &str = "the connection was closed";
