//! HTTP/2 to an origin: many requests at once on a connection.
//!
//! The h2 crate is used directly. The HTTP/2 client of hyper drops interim responses, and does not
//! distinguish a refused stream from a failed one.

use super::driver::{OpenGauge, drive, next_id};
use super::error::Cause;
use super::head::{AttemptFailure, AttemptStreams, HEAD_MAX};
use super::pool::{OriginPoolHandle, Permit, STREAMS_MAX};
use super::request_body::{Upload, UploadStream};
use super::socket::OriginStream;
use crate::message::BodyError;
use crate::metrics::Metrics;
use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use http_body::{Body, Frame};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// HTTP/2 connection to an origin.
pub(super) struct H2 {
    sender: SendRequest<Bytes>,
    peer: SocketAddr,
    id: u64,
    usage: Mutex<Usage>,
    /// Permit held for the connection's whole life.
    _permit: Permit,
}

struct Usage {
    in_flight: usize,
    /// Streams that the pool counts as available.
    counted: usize,
    /// Time of the last change of `in_flight`.
    changed: Instant,
}

/// Task that sends a request's body. Dropping this ends the task, and resets the stream unless
/// everything was sent.
pub(super) struct UploadTask(AbortHandle);

impl H2 {
    /// Wraps a connected socket. Its driver runs on this thread's runtime.
    pub async fn open(
        socket: OriginStream,
        peer: SocketAddr,
        mut permit: Permit,
        place: &OriginPoolHandle,
        metrics: &Arc<Metrics>,
    ) -> Result<Arc<Self>, (Cause, String)> {
        let handshake = Builder::new()
            .enable_push(false)
            .max_header_list_size(HEAD_MAX as u32)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(socket)
            .await;
        let (sender, connection) = handshake.map_err(|error| (Cause::Terminated, error.to_string()))?;
        let id = next_id();
        let gauge = OpenGauge::new(Arc::clone(metrics));
        let codec = async move {
            let _gauge = gauge;
            connection.await
        };
        tokio::spawn(drive(codec, id, place.downgrade()));
        // From now on the connection serves all clients.
        permit.disown();
        let usage = Mutex::new(Usage { in_flight: 0, counted: 0, changed: Instant::now() });
        Ok(Arc::new(Self { sender, peer, id, usage, _permit: permit }))
    }

    /// Sends a request and waits for the head of the final response.
    pub async fn send(
        &self,
        request: Request<()>,
        sending: &AttemptStreams,
    ) -> Result<(Response<RecvStream>, Option<UploadTask>), AttemptFailure> {
        let failed = |error: h2::Error| failure_of(&error, &sending.upload);
        // Waits while the origin accepts no further streams.
        let mut sender = self.sender.clone().ready().await.map_err(failed)?;
        let body = sending.upload.outgoing();
        // HTTP treats a body that has ended without a byte as none. But gRPC ends such a request
        // with an empty DATA frame, and some servers wait for the frame forever.
        let bodiless = sending.upload.is_absent();
        let (response, stream) = sender.send_request(request, bodiless).map_err(failed)?;
        let pump = (!bodiless).then(|| UploadTask(tokio::spawn(pump(body, stream)).abort_handle()));
        let response = head(response, sending).await.map_err(failed)?;
        Ok((response, pump))
    }

    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    /// Updates the number of streams that the pool may use: the origin's limit, at most `most`.
    /// Returns the numbers before and after.
    pub fn count(&self, most: usize) -> (usize, usize) {
        let now = self.sender.current_max_send_streams().min(most);
        (std::mem::replace(&mut self.usage.lock().counted, now), now)
    }

    /// Sets that number to 0 for a connection out of use. Returns the number before.
    pub fn discount(&self) -> usize {
        std::mem::take(&mut self.usage.lock().counted)
    }

    /// Returns the number of streams that can begin at once.
    pub fn room(&self) -> usize {
        let usage = self.usage.lock();
        usage.counted.saturating_sub(usage.in_flight)
    }

    /// Returns the time since which the connection is unused, or `None` if it is in use.
    pub fn unused_since(&self) -> Option<Instant> {
        let usage = self.usage.lock();
        (usage.in_flight == 0).then_some(usage.changed)
    }

    /// Records that a request begins to use the connection.
    pub fn begin(&self) {
        let mut usage = self.usage.lock();
        usage.in_flight += 1;
        usage.changed = Instant::now();
    }

    /// Records the end of a request.
    pub fn end(&self) {
        let mut usage = self.usage.lock();
        usage.in_flight -= 1;
        usage.changed = Instant::now();
    }
}

impl Drop for UploadTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the final response, and passes on interim ones.
async fn head(
    mut response: ResponseFuture,
    sending: &AttemptStreams,
) -> Result<Response<RecvStream>, h2::Error> {
    poll_fn(|cx| {
        while let Poll::Ready(Some(earlier)) = response.poll_informational(cx) {
            let earlier = earlier?;
            sending.received(earlier.status(), || earlier.headers().clone());
        }
        Pin::new(&mut response).poll(cx)
    })
    .await
}

/// Sends a body as fast as the origin's flow control allows.
async fn pump(mut body: UploadStream, mut stream: SendStream<Bytes>) {
    loop {
        let frame = poll_fn(|cx| {
            // An origin that has answered may reset the stream if it needs no more of the body.
            match stream.poll_reset(cx) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => Pin::new(&mut body).poll_frame(cx).map(Some),
            }
        });
        let sent = match frame.await {
            None => return,
            Some(None) => stream.send_data(Bytes::new(), true),
            Some(Some(Ok(frame))) => match send(frame, &mut stream, body.is_end_stream()).await {
                Ok(false) => continue,
                Ok(true) => return,
                Err(error) => Err(error),
            },
            Some(Some(Err(_))) => {
                stream.send_reset(Reason::CANCEL);
                return;
            }
        };
        // The response reports the reason of a stream that takes no more bytes.
        drop(sent);
        return;
    }
}

/// Sends one frame. Returns `true` if it was the last.
async fn send(frame: Frame<Bytes>, stream: &mut SendStream<Bytes>, last: bool) -> Result<bool, h2::Error> {
    let mut data = match frame.into_data() {
        Ok(data) => data,
        Err(frame) => {
            let trailers = frame.into_trailers().unwrap_or_default();
            return stream.send_trailers(trailers).map(|()| true);
        }
    };
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(capacity) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return Ok(true) };
        let part = data.split_to(capacity?.min(data.len()));
        let ends = last && data.is_empty();
        stream.send_data(part, ends)?;
    }
    Ok(last)
}

/// Polls for the next frame of a response's body. Returned bytes count as read, so that the origin
/// may send more.
pub(super) fn poll_frame(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    match ready!(stream.poll_data(cx)) {
        Some(Ok(data)) => {
            // Fails only for more bytes than were received.
            let _ = stream.flow_control().release_capacity(data.len());
            Poll::Ready(Some(Ok(Frame::data(data))))
        }
        // RFC 9113, 8.1: after a complete response, RST_STREAM with NO_ERROR asks to stop sending
        // the request.
        Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) && error.is_reset() => Poll::Ready(None),
        Some(Err(error)) => Poll::Ready(Some(Err(body_error(&error)))),
        None => match ready!(stream.poll_trailers(cx)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) => Poll::Ready(Some(Err(body_error(&error)))),
        },
    }
}

fn body_error(error: &h2::Error) -> BodyError {
    match error.reason() {
        Some(Reason::PROTOCOL_ERROR | Reason::FRAME_SIZE_ERROR | Reason::COMPRESSION_ERROR) => {
            BodyError::Malformed("HTTP/2 framing, or a body of another length than announced")
        }
        Some(reason) if error.is_reset() && error.is_remote() => BodyError::Reset(reason.into()),
        _ => BodyError::Cut(error.to_string()),
    }
}

fn failure_of(error: &h2::Error, upload: &Upload) -> AttemptFailure {
    // RFC 9113, 8.7: "The REFUSED_STREAM error code ... indicate[s] that the stream is being closed
    // prior to any processing having occurred". The same holds for streams above GOAWAY's last
    // stream identifier. Such streams get the GOAWAY as their error.
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    let unsent = error.is_remote() && (refused || error.is_go_away());
    let cause = match error.reason() {
        _ if upload.failure().is_some() => Cause::RequestBody,
        _ if unsent || error.is_io() => Cause::Terminated,
        Some(
            Reason::PROTOCOL_ERROR
            | Reason::FRAME_SIZE_ERROR
            | Reason::COMPRESSION_ERROR
            | Reason::FLOW_CONTROL_ERROR,
        ) => Cause::Malformed,
        _ => Cause::Terminated,
    };
    let dead = error.is_io() || error.is_go_away();
    AttemptFailure { cause, detail: error.to_string(), unsent, dead, surplus: false }
}

/// Bytes of one response that may wait here for a slow reader.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Bytes of all responses of one connection that may wait: enough for every stream, so that unread
/// responses do not block others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS_MAX as u32;

const _: () = {
    assert!(STREAM_WINDOW as i64 <= shoal_http2::WINDOW_MAX);
    // All streams may fill their windows.
    assert!(CONNECTION_WINDOW as u64 == STREAM_WINDOW as u64 * STREAMS_MAX as u64);
};
