//! Response body from an origin. Reports stalls, cuts and wrong lengths as errors; its end frees
//! the connection.

use super::framing::clean_trailers;
use super::group::InFlight;
use super::http1::ResponseReader;
use super::http2::{self, UploadTask};
use super::pool::{Lease, OriginPool, StreamLease};
use super::request_body::Upload;
use crate::by_site::CostAccount;
use crate::message::BodyError;
use crate::metrics::Metrics;
use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Body of a response.
pub(super) struct UpstreamBody {
    source: FrameSource,
    stall: StallTimer,
    /// Bytes still to come, if the framing gives a length.
    remaining: Option<u64>,
    ended: bool,
    /// Counts the request as in flight for its upstream until the body ends or is dropped.
    in_flight: Option<InFlight>,
    /// Metrics for the body's bytes; `None` for a health check.
    metrics: Option<Arc<Metrics>>,
    /// Account of the body's bytes.
    account: Option<Arc<CostAccount>>,
}

/// Source of the frames, with the connection or stream that it holds.
#[expect(clippy::large_enum_variant, reason = "one a response, and boxed with it")]
pub(super) enum FrameSource {
    /// HTTP/1 connection, returned to the pool after the last frame.
    H1 {
        /// Reader of the frames.
        responding: ResponseReader,
        /// The connection.
        lease: Option<Lease>,
    },
    /// HTTP/2 stream, which ends by itself.
    H2 {
        /// The frames.
        frames: RecvStream,
        /// Lease of the stream, returned after the last frame.
        lease: Option<StreamLease>,
        /// Task that may still send the request's body.
        pump: Option<UploadTask>,
    },
}

impl UpstreamBody {
    /// Creates the body from `source`. `length` is its length if the framing gives one. `stall`
    /// limits pauses.
    pub fn new(
        source: FrameSource,
        length: Option<u64>,
        stall: StallTimer,
        in_flight: Option<InFlight>,
        metrics: Option<Arc<Metrics>>,
    ) -> Self {
        let mut body =
            Self { source, stall, remaining: length, ended: false, in_flight, metrics, account: None };
        let empty = match &body.source {
            FrameSource::H1 { responding, .. } => responding.is_ended(),
            FrameSource::H2 { frames, .. } => frames.is_end_stream(),
        };
        if empty {
            body.end();
        }
        body
    }

    /// Adds the body's bytes to this account, too.
    pub fn charged_to(self, account: Option<Arc<CostAccount>>) -> Self {
        Self { account, ..self }
    }

    /// Returns the pool of the connection or stream that the body holds, if any.
    pub fn place(&self) -> Option<&Arc<OriginPool>> {
        match &self.source {
            FrameSource::H1 { lease, .. } => lease.as_ref().map(Lease::place),
            FrameSource::H2 { lease, .. } => lease.as_ref().map(StreamLease::place),
        }
    }

    /// Returns `true` if the body holds an HTTP/1 connection or a stream.
    pub fn holds_carrier(&self) -> bool {
        matches!(self.source, FrameSource::H1 { lease: Some(_), .. } | FrameSource::H2 { lease: Some(_), .. })
    }

    /// Frees the connection or stream after the last frame.
    fn end(&mut self) {
        self.ended = true;
        match &mut self.source {
            FrameSource::H1 { lease, responding } => {
                if let Some(lease) = lease.take().filter(|_| responding.is_reusable()) {
                    lease.return_to_pool();
                }
            }
            // The rest of a request's body is of no use after the response.
            FrameSource::H2 { pump, lease, .. } => drop((pump.take(), lease.take())),
        }
        self.in_flight = None;
    }

    /// Counts received bytes. Returns an error if they exceed the announced length.
    fn account(&mut self, bytes: usize) -> Result<(), BodyError> {
        if let Some(metrics) = &self.metrics {
            metrics.upstream_body_bytes.add(bytes as u64);
        }
        if let Some(account) = &self.account {
            account.add_bytes(bytes as u64);
        }
        let Some(remaining) = &mut self.remaining else { return Ok(()) };
        *remaining = remaining
            .checked_sub(bytes as u64)
            .ok_or(BodyError::Malformed("more bytes than Content-Length announced"))?;
        Ok(())
    }

    /// Checks one frame of the source; `None` is the end.
    fn take(
        &mut self,
        frame: Option<Result<Frame<Bytes>, BodyError>>,
    ) -> Option<Result<Frame<Bytes>, BodyError>> {
        let mut frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Some(Err(error)),
            None if self.remaining.is_some_and(|remaining| remaining > 0) => {
                return Some(Err(BodyError::Cut("fewer bytes than Content-Length announced".into())));
            }
            None => {
                self.end();
                return None;
            }
        };
        if let Err(error) = self.account(frame.data_ref().map_or(0, Bytes::len)) {
            return Some(Err(error));
        }
        if let Some(trailers) = frame.trailers_mut() {
            clean_trailers(trailers);
        }
        let last = match &self.source {
            FrameSource::H1 { responding, .. } => responding.is_ended(),
            FrameSource::H2 { frames, .. } => frame.is_trailers() || frames.is_end_stream(),
        };
        if last {
            self.end();
        }
        Some(Ok(frame))
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let frame = match &mut this.source {
            FrameSource::H1 { responding, lease: Some(lease) } => {
                responding.poll_frame(&mut lease.connection, cx)
            }
            FrameSource::H1 { lease: None, .. } => Poll::Ready(None),
            FrameSource::H2 { frames, .. } => http2::poll_frame(frames, cx),
        };
        let frame = match frame {
            Poll::Ready(frame) => {
                this.stall.progressed();
                this.take(frame)
            }
            Poll::Pending => {
                ready!(this.stall.poll(cx));
                if let FrameSource::H2 { lease: Some(lease), .. } = &this.source {
                    lease.retire();
                }
                Some(Err(BodyError::Timeout))
            }
        };
        if matches!(frame, Some(Err(_))) {
            this.ended = true;
            match &mut this.source {
                FrameSource::H1 { lease, .. } => drop(lease.take()),
                FrameSource::H2 { lease, .. } => drop(lease.take()),
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Timer that runs only while a frame is awaited.
pub(super) struct StallTimer {
    pause: Duration,
    /// Rest of the request when its response began: an origin may wait for it.
    upload: Option<Arc<Upload>>,
    timer: Option<Pin<Box<Sleep>>>,
    running: bool,
}

impl StallTimer {
    /// Creates a timer that limits pauses to `pause`. Sending some of `upload` also ends a pause.
    pub fn new(pause: Duration, upload: &Arc<Upload>) -> Self {
        let upload = (!upload.is_finished()).then(|| Arc::clone(upload));
        Self { pause, upload, timer: None, running: false }
    }

    fn progressed(&mut self) {
        self.running = false;
    }

    /// Returns ready after a pause that is too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.pause)));
        if !self.running {
            timer.as_mut().reset(Instant::now() + self.pause);
            self.running = true;
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            let sent = self.upload.as_ref().map(|upload| upload.progress() + self.pause);
            match sent.filter(|due| *due > Instant::now()) {
                Some(due) => timer.as_mut().reset(due),
                None => return Poll::Ready(()),
            }
        }
    }
}
