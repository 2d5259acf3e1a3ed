//! Request body on an HTTP/2 stream.

use super::receiving::StreamReceiver;
use super::state::ClosedStream;
use crate::limits::ConnectionLimits;
use crate::message::{BodyError, InterimSink};
use crate::slow_clients::{ClientProgress, TooSlow};
use crate::transport::Deadline;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use shoal_wire::chunk::may_trail;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// Reads data and trailers. Flow control opens the stream's window only for the bytes taken.
pub(super) struct H2Body {
    stream: StreamReceiver,
    /// Sink for `100 Continue` once the body is wanted, if the client waits for it.
    continue_to: Option<InterimSink>,
    /// Bytes still to come, if the client announced the length.
    remaining: Option<u64>,
    live: Arc<ConnectionLimits>,
    stall: Option<Deadline>,
    pace: ClientProgress,
    /// Bytes of the current frame that had arrived at the last timeout.
    arrived: usize,
    /// Other streams held the connection's window at the last look.
    was_held: bool,
    state: BodyState,
}

#[derive(PartialEq)]
enum BodyState {
    Data,
    End,
}

impl H2Body {
    /// Creates the body of a stream. `live` sets the minimum speed of the client.
    pub fn new(
        stream: StreamReceiver,
        continue_to: Option<InterimSink>,
        length: Option<u64>,
        live: Arc<ConnectionLimits>,
    ) -> Self {
        let pace = ClientProgress::default();
        let (stall, arrived, state) = (None, 0, BodyState::Data);
        let was_held = false;
        Self { stream, continue_to, remaining: length, live, stall, pace, arrived, was_held, state }
    }

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.stream.poll_data(context) {
            Poll::Ready(Some(Ok(data))) => {
                if let Some(stall) = &mut self.stall {
                    stall.lift();
                }
                self.arrived = 0;
                if self.pace.moved(data.len(), &self.live.patience) == Err(TooSlow) {
                    return self.fail(BodyError::Timeout);
                }
                if let Some(remaining) = &mut self.remaining {
                    *remaining = remaining.saturating_sub(data.len() as u64);
                }
                self.stream.release(data.len());
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Poll::Ready(Some(Err(ClosedStream))) => self.fail(BodyError::Cut("stream reset".into())),
            Poll::Ready(None) => Poll::Ready(self.trailers()),
            Poll::Pending => {
                ready!(self.poll_stalled(context));
                self.fail(BodyError::Timeout)
            }
        }
    }

    fn trailers(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        self.state = BodyState::End;
        let trailers = self.stream.trailers()?;
        let kept: HeaderMap = trailers
            .iter()
            .filter(|(name, _)| may_trail(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        (!kept.is_empty()).then(|| Ok(Frame::trailers(kept)))
    }

    fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<TooSlow> {
        let patience = &self.live.patience;
        let stall = self.stall.get_or_insert_with(|| Deadline::after(patience.pause));
        loop {
            let may_come = self.stream.may_come();
            if !may_come {
                // Other streams hold the connection's window, so the client is not at fault. Its
                // time starts again.
                self.pace = ClientProgress::default();
            } else if self.was_held {
                stall.set(Instant::now() + patience.pause);
            }
            self.was_held = !may_come;
            let arriving = self.stream.arriving();
            let comes = arriving.saturating_sub(self.arrived) as u64 >= patience.bytes_min();
            if may_come && !comes {
                return self.pace.poll_stalled(stall, context, patience);
            }
            if may_come {
                self.pace.waits();
            }
            stall.set_if_lifted(patience.pause);
            ready!(stall.poll_passed(context));
            // A frame may be longer than a slow client sends within one pause.
            self.arrived = arriving;
            stall.set(Instant::now() + patience.pause);
        }
    }

    fn fail(&mut self, error: BodyError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.state = BodyState::End;
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for H2Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(sink) = self.continue_to.take() {
            // A full channel means that the client has got other interim responses and does not
            // wait.
            let _ = sink.try_send((StatusCode::CONTINUE, HeaderMap::new()));
        }
        match self.state {
            BodyState::Data => self.poll_data(context),
            BodyState::End => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.state == BodyState::End || self.stream.is_ended()
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
