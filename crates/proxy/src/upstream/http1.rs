//! HTTP/1.1 to an origin: one request at a time on a connection, through hyper.

use super::driver::{drive, next_id};
use super::error::Cause;
use super::head::{Failure, HEAD_MAX, Sending};
use super::outgoing::{Outgoing, Upload};
use super::pool::PlaceHandle;
use super::socket::Socket;
use crate::metrics::Metrics;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use std::fmt::Write;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread::ThreadId;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// A connection.
pub(super) struct H1 {
    sender: SendRequest<Outgoing>,
    /// Bytes received since it was opened.
    received: Arc<AtomicU64>,
    peer: SocketAddr,
    thread: ThreadId,
    id: u64,
    driver: AbortHandle,
    /// Closed when the driver has ended and the codec is gone.
    driven: watch::Receiver<()>,
}

impl H1 {
    /// Takes a connected socket; its driver runs on this thread's runtime.
    pub async fn open(
        socket: Socket,
        peer: SocketAddr,
        place: &PlaceHandle,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, (Cause, String)> {
        let received = socket.received();
        let handshake = builder().handshake(TokioIo::new(socket)).await;
        let (sender, connection) = handshake.map_err(|error| (Cause::Terminated, describe(&error)))?;
        let id = next_id();
        let driver = drive(connection.with_upgrades(), id, place.downgrade(), Arc::clone(metrics));
        let (driving, driven) = watch::channel(());
        let driver = async move {
            driver.await;
            drop(driving);
        };
        let driver = tokio::spawn(driver).abort_handle();
        Ok(Self { sender, received, peer, thread: std::thread::current().id(), id, driver, driven })
    }

    /// Sends a request and waits for the head of the final response.
    pub async fn send(
        &mut self,
        mut request: Request<Outgoing>,
        sending: &Sending,
    ) -> Result<Response<Incoming>, Failure> {
        let before = self.received.load(Ordering::Relaxed);
        let receiver = Arc::clone(&sending.interim);
        hyper::ext::on_informational(&mut request, move |response| {
            receiver.received(response.status(), response.headers());
        });
        let answer = self.sender.try_send_request(request);
        let error = match answer_or_end(answer, &mut self.driven).await {
            Some(Ok(response)) => return Ok(response),
            Some(Err(error)) => error,
            None => {
                let (cause, detail) = (Cause::Terminated, NOT_TAKEN.to_owned());
                return Err(Failure { cause, detail, unsent: true, dead: false });
            }
        };
        let unsent = error.message().is_some();
        let silent = self.received.load(Ordering::Relaxed) == before;
        let error = error.into_error();
        let cause = cause_of(&error, &sending.upload, silent);
        let dead = silent && cause == Cause::Terminated;
        Err(Failure { cause, detail: describe(&error), unsent, dead })
    }

    /// Waits until the next request may be sent; false when there will be no next one.
    pub async fn ready(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Closes the connection at once.
    pub fn abort(&self) {
        self.driver.abort();
    }

    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
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

/// Waits for the answer to what was handed to the codec. `None` when it can never come, because the codec never took
/// it: on another thread, the codec may empty its queue for the last time while a request is being put there, and such a
/// request stays in the queue, unanswered, for as long as the queue does.
async fn answer_or_end<T>(answer: impl Future<Output = T>, driven: &mut watch::Receiver<()>) -> Option<T> {
    let mut answer = pin!(answer);
    tokio::select! {
        biased;
        answered = &mut answer => return Some(answered),
        // Nothing is ever sent here: it is the end.
        _ = driven.changed() => {}
    }
    // What the codec answered before its end stands ready.
    poll_fn(|context| match answer.as_mut().poll(context) {
        Poll::Ready(answered) => Poll::Ready(Some(answered)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Limits and tolerances for responses.
fn builder() -> Builder {
    let mut builder = Builder::new();
    builder
        .max_header_size(HEAD_MAX)
        .max_buf_size(BUFFER_MAX)
        // RFC 9112, 5.1: "A proxy MUST remove any such whitespace from a response message before forwarding the
        // message downstream", that is, whitespace between name and colon.
        .allow_spaces_after_header_name_in_responses(true)
        // RFC 9112, 5.2: a proxy that receives an obs-fold in a response "MUST either discard the message and
        // replace it with a 502 (Bad Gateway) response ... or replace each received obs-fold with one or more SP
        // octets". hyper does the latter.
        .allow_obsolete_multiline_headers_in_responses(true);
    builder
}

/// What an error of hyper means; `silent` when the origin sent nothing since the request.
fn cause_of(error: &hyper::Error, upload: &Upload, silent: bool) -> Cause {
    if upload.failure().is_some() {
        Cause::RequestBody
    } else if error.is_parse() {
        // hyper tells a head that is too large from a malformed one in its message only.
        if error.to_string().contains("too large") { Cause::HeadTooLarge } else { Cause::Malformed }
    } else if error.is_user() {
        Cause::RequestInvalid
    } else if silent {
        Cause::Terminated
    } else {
        Cause::Incomplete
    }
}

/// Most bytes read at once: a head, and a little more. What a slow client makes wait is as much.
const BUFFER_MAX: usize = HEAD_MAX + 8192;

const NOT_TAKEN: &str = "the connection ended before it took the request";

/// The error with its sources, in one line.
fn describe(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}
