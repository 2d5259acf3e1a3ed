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

mod io;
mod request;
mod response;

pub(super) use request::RequestWriter;
pub(super) use response::{ResponseReader, persists};

use super::driver::{OpenGauge, drive, next_id};
use super::error::Cause;
use super::head::{AttemptFailure, AttemptStreams, HEAD_MAX};
use super::pool::OriginPoolHandle;
use super::socket::OriginStream;
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
    shared: Arc<Shared>,
    peer: SocketAddr,
    /// Thread of the runtime that watches the stream.
    thread: ThreadId,
    /// Thread that used the connection last.
    user: ThreadId,
    id: u64,
}

/// State shared by a connection and its keeper.
struct Shared(Mutex<State>);

struct State {
    held: StreamOwner,
    keeper: Option<Waker>,
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
        let shared = Arc::new(Shared(Mutex::new(State { held: StreamOwner::InUse, keeper: None })));
        let (id, thread) = (next_id(), std::thread::current().id());
        let keeper = ParkedWatcher(Arc::clone(&shared));
        let watch = async move { poll_fn(|context| keeper.0.poll_gone(context)).await };
        tokio::spawn(drive(watch, id, place.downgrade()));
        Self { io: Some(Box::new(io)), shared, peer, thread, user: thread, id }
    }

    /// Sends a request and waits for the head of the final response, at most `timeout` after the
    /// last progress.
    pub async fn send(
        &mut self,
        requesting: &mut RequestWriter,
        sending: &AttemptStreams,
        timeout: Duration,
    ) -> Result<ResponseHead, AttemptFailure> {
        let io = self.io();
        // An unparked connection may have ended before anything is sent.
        if poll_fn(|context| Poll::Ready(io.poll_disturbed(context))).await.is_ready() {
            let detail = "the connection ended before it was used".to_owned();
            return Err(AttemptFailure { cause: Cause::Terminated, detail, unsent: true, dead: true });
        }
        let mut silent = true;
        poll_fn(|context| io.poll_head(context, requesting, sending, timeout, &mut silent)).await
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
        self.shared.hold(StreamOwner::Leaving(io));
        false
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

impl Shared {
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
        let is_quiet = !matches!(polled, Some(Poll::Ready(())));
        state.held = if is_quiet { StreamOwner::Parked(io) } else { StreamOwner::Gone };
        if !is_quiet {
            state.wake();
        }
        is_quiet
    }

    /// Polls for the keeper: ready once the connection is gone.
    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        let outcome = match &mut state.held {
            StreamOwner::InUse => Poll::Pending,
            StreamOwner::Parked(io) => io.poll_disturbed(context),
            StreamOwner::Leaving(io) => io.poll_close(context),
            StreamOwner::Gone => Poll::Ready(()),
        };
        if outcome.is_ready() {
            state.held = StreamOwner::Gone;
        } else if !state.keeper.as_ref().is_some_and(|keeper| keeper.will_wake(context.waker())) {
            state.keeper = Some(context.waker().clone());
        }
        outcome
    }
}

impl State {
    fn wake(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.wake_by_ref();
        }
    }
}

/// Keeper's handle. When the keeper's runtime ends, its parked connection ends too.
struct ParkedWatcher(Arc<Shared>);

impl Drop for ParkedWatcher {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        if matches!(state.held, StreamOwner::Parked(_) | StreamOwner::Leaving(_)) {
            state.held = StreamOwner::Gone;
        }
    }
}

impl Io {
    /// Sends and reads until a final head has arrived. `silent` is `true` until the first byte of a
    /// response.
    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        requesting: &mut RequestWriter,
        sending: &AttemptStreams,
        timeout: Duration,
        silent: &mut bool,
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
                    None => continue,
                },
                Ok(None) => {}
                Err(BadHead::TooLarge) => {
                    let what = "the head of the response is too large";
                    return Poll::Ready(Err(failure(Cause::HeadTooLarge, what)));
                }
                Err(BadHead::Malformed(what)) => return Poll::Ready(Err(failure(Cause::Malformed, what))),
            }
            match self.poll_fill(context, BufferClass::Origin.bytes()) {
                Poll::Ready(Ok(count)) if count > 0 => *silent = false,
                Poll::Ready(end) => {
                    let detail = end.map_or_else(|error| error.to_string(), |_| CLOSED.to_owned());
                    let cause = if *silent { Cause::Terminated } else { Cause::Incomplete };
                    let unsent = requesting.is_unsent();
                    return Poll::Ready(Err(AttemptFailure { cause, detail, unsent, dead: *silent }));
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
    AttemptFailure { cause, detail: what.to_owned(), unsent: false, dead: false }
}

const CLOSED: &str = "the connection was closed";
