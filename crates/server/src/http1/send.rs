//! Sends a reply: the head, then the body from its source.

use super::incoming::RequestBodyFailure;
use super::{AfterReply, Connection, RequestBodyReader, RequestSummary, head};
use crate::client_io::ClientIo;
use crate::message::{Handler, ReplyBody, ReplyHead, StreamBody};
use crate::reply_guard::ReplyGuard;
use crate::socket::LostClient;
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Body, Frame};
use shoal_wire::chunk;
use shoal_wire::response::{Persistence, ResponseFraming};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// State of sending one reply.
pub(super) struct ReplySender<'a, H: Handler> {
    /// Request that the reply answers.
    pub asked: &'a RequestSummary,
    /// `true` if the connection is kept afterwards.
    pub keep: bool,
    /// Record of the reply.
    pub account: ReplyGuard<'a, H>,
    /// Body of the request, which may still be arriving.
    pub incoming: Option<RequestBodyReader>,
}

/// Body that is sent frame by frame.
struct StreamedBody {
    frames: StreamBody,
    framing: ResponseFraming,
    /// Bytes still missing, if the length is known.
    due: Option<u64>,
    trailers: bool,
    state: StreamState,
}

/// Progress of a streamed body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamState {
    Open,
    /// The body has ended; only the output is left to write.
    Ended,
    /// The body has failed behind the output, which is still written.
    Failed,
}

/// Error: a body was not sent whole. The client has gone, or the body failed or differed from its
/// announced length.
struct CutBody;

impl<T: ClientIo> Connection<T> {
    /// Sends a reply to its end or to its failure.
    pub(super) async fn send<H: Handler>(
        &mut self,
        sending: &mut ReplySender<'_, H>,
        reply_head: ReplyHead,
        body: ReplyBody,
    ) -> AfterReply {
        while let Some((status, fields)) = self.interim.next_waiting() {
            self.write_interim(status, &fields, &mut sending.incoming);
        }
        let status = reply_head.status();
        let framing = head::framing(sending.asked, status, &body);
        sending.keep &= framing != ResponseFraming::UntilClose;
        // Some clients send the tunnel's first bytes along with CONNECT. Without a tunnel these
        // bytes must not be parsed as a request: their author may not be the client that sent
        // CONNECT.
        sending.keep &= sending.asked.method != Method::CONNECT;
        if matches!(body, ReplyBody::Tunnel(_)) && !sending.may_tunnel(status) {
            tracing::error!(%status, "a tunnel was offered for a request that asked for none");
            return AfterReply::Drop;
        }
        self.write_head(sending, &reply_head, framing, &body);
        match body {
            ReplyBody::Tunnel(far) => match self.send_memory(sending, Bytes::new()).await {
                Ok(()) => AfterReply::Tunnel(far),
                Err(LostClient) => AfterReply::Drop,
            },
            ReplyBody::Stream { frames, length } if framing != ResponseFraming::Bodiless => {
                self.send_stream(sending, frames, framing, length).await
            }
            body => {
                let bytes = match body {
                    ReplyBody::Memory(bytes) if framing != ResponseFraming::Bodiless => bytes,
                    _ => Bytes::new(),
                };
                match self.send_memory(sending, bytes).await {
                    Ok(()) => sending.next(),
                    Err(LostClient) => AfterReply::Drop,
                }
            }
        }
    }

    fn write_head<H: Handler>(
        &mut self,
        sending: &mut ReplySender<'_, H>,
        reply_head: &ReplyHead,
        framing: ResponseFraming,
        body: &ReplyBody,
    ) {
        let asked = sending.asked;
        let status = reply_head.status();
        let persistence = match body {
            ReplyBody::Tunnel(_) if asked.method == Method::CONNECT => Persistence::Keep,
            _ => head::persistence(asked, sending.keep, status),
        };
        let declared = head::declared(asked, reply_head, body);
        let alt_svc = sending.account.alt_svc(&self.client);
        let out = &mut self.socket.output.head;
        let before = out.len();
        head::write(out, reply_head, (framing, persistence), declared, (alt_svc.as_ref(), asked.received));
        sending.account.head_bytes = (out.len() - before) as u64;
    }

    /// Sends the output, then `bytes`.
    async fn send_memory<H: Handler>(
        &mut self,
        sending: &mut ReplySender<'_, H>,
        bytes: Bytes,
    ) -> Result<(), LostClient> {
        let length = bytes.len();
        self.socket.output.set_data(bytes, false);
        let sent = self.socket.send(&self.live.patience).await;
        sending.account.body_bytes = match sent {
            Ok(()) => length,
            Err(LostClient) => self.socket.output.data_written(),
        } as u64;
        sent
    }

    /// Sends a body frame by frame as the frames arrive. A failed body is cut visibly: the
    /// connection ends before the last chunk or the announced length.
    async fn send_stream<H: Handler>(
        &mut self,
        sending: &mut ReplySender<'_, H>,
        frames: StreamBody,
        framing: ResponseFraming,
        length: Option<u64>,
    ) -> AfterReply {
        let trailers = framing == ResponseFraming::Chunked && sending.asked.accepts_trailers;
        // Without a length or chunks, an orderly close would look like the body's end. This would
        // hide a failed body, a client given up or a task that ends with its worker.
        let until_close = framing == ResponseFraming::UntilClose;
        if until_close {
            self.socket.io.reset_on_close(true);
        }
        // A body that ends with trailers is in chunks, and may know its length all the same.
        let due = length.or_else(|| frames.size_hint().exact());
        let mut stream = StreamedBody { frames, framing, due, trailers, state: StreamState::Open };
        match poll_fn(|context| self.poll_stream(context, &mut stream, sending)).await {
            Ok(()) => {
                if until_close {
                    self.socket.io.reset_on_close(false);
                }
                sending.next()
            }
            Err(CutBody) => AfterReply::Drop,
        }
    }

    fn poll_stream<H: Handler>(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut StreamedBody,
        sending: &mut ReplySender<'_, H>,
    ) -> Poll<Result<(), CutBody>> {
        loop {
            // The first frame leaves together with the head if it is already there.
            let fresh = self.socket.output.data.is_empty() && stream.state == StreamState::Open;
            let waiting = fresh && !self.fill_from(context, stream)?;
            if !self.socket.output.is_empty() {
                ready!(self.poll_output(context, sending))?;
            }
            match stream.state {
                StreamState::Open => {}
                StreamState::Ended => return Poll::Ready(Ok(())),
                StreamState::Failed => return Poll::Ready(Err(CutBody)),
            }
            if waiting {
                return self.poll_waiting(context, &mut sending.incoming).map(Err);
            }
        }
    }

    /// Writes the output, and counts its data once written or lost.
    fn poll_output<H: Handler>(
        &mut self,
        context: &mut Context<'_>,
        sending: &mut ReplySender<'_, H>,
    ) -> Poll<Result<(), CutBody>> {
        let data_bytes = self.socket.output.data.len();
        match self.socket.poll_send(context, &self.live.patience) {
            Poll::Ready(Ok(())) => {
                sending.account.body_bytes += data_bytes as u64;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(LostClient)) => {
                sending.account.body_bytes += self.socket.output.data_written() as u64;
                Poll::Ready(Err(CutBody))
            }
            // A client that takes the reply slowly may still be sending its request.
            Poll::Pending => match &mut sending.incoming {
                Some(body) if body.is_active() => self.poll_request_body(context, body).map(Err),
                _ => Poll::Pending,
            },
        }
    }

    /// Waits for the next frame: reads the request's body, and notices a client that leaves.
    fn poll_waiting(
        &mut self,
        context: &mut Context<'_>,
        incoming: &mut Option<RequestBodyReader>,
    ) -> Poll<CutBody> {
        match self.poll_client(context, incoming) {
            Poll::Ready(RequestBodyFailure::Gone) => Poll::Ready(CutBody),
            // The reply continues without the rest of the request. The connection ends after the
            // reply.
            Poll::Ready(RequestBodyFailure::Refused(_)) | Poll::Pending => Poll::Pending,
        }
    }

    fn poll_request_body(
        &mut self,
        context: &mut Context<'_>,
        body: &mut RequestBodyReader,
    ) -> Poll<CutBody> {
        match body.poll(&mut self.socket, context, &self.live.patience) {
            Poll::Ready(RequestBodyFailure::Gone) => Poll::Ready(CutBody),
            Poll::Ready(RequestBodyFailure::Refused(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// Puts the next frame into the output, and also the body's end if it follows. Returns `false`
    /// if no frame is ready. One frame at a time: a body asked for more while its client takes
    /// nothing would seem to wait for its origin, and keep the connection from others.
    fn fill_from(&mut self, context: &mut Context<'_>, stream: &mut StreamedBody) -> Result<bool, CutBody> {
        let chunked = stream.framing == ResponseFraming::Chunked;
        loop {
            let frame = match Pin::new(&mut stream.frames).poll_frame(context) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(None) => {
                    stream.end(&mut self.socket.output.tail, None)?;
                    return Ok(true);
                }
                Poll::Ready(Some(Err(error))) => {
                    tracing::debug!(client = %self.client.address, %error, "reply cut");
                    return Err(CutBody);
                }
            };
            match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => {
                    stream.count(data.len())?;
                    self.socket.output.set_data(data, chunked);
                    if stream.frames.is_end_stream() {
                        stream.end(&mut self.socket.output.tail, None)?;
                    } else if stream.due == Some(0) && self.fill_end(context, stream).is_err() {
                        stream.state = StreamState::Failed;
                    }
                    return Ok(true);
                }
                Err(frame) => {
                    stream.end(&mut self.socket.output.tail, Some(frame))?;
                    return Ok(true);
                }
            }
        }
    }

    /// Puts the end of a whole body behind its last bytes if the end is there already. Trailers
    /// then leave with the body, and the receiver is woken once.
    fn fill_end(&mut self, context: &mut Context<'_>, stream: &mut StreamedBody) -> Result<(), CutBody> {
        match Pin::new(&mut stream.frames).poll_frame(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(None) => stream.end(&mut self.socket.output.tail, None),
            Poll::Ready(Some(Err(error))) => {
                tracing::debug!(client = %self.client.address, %error, "reply cut");
                Err(CutBody)
            }
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => stream.count(data.len()),
                Err(frame) => stream.end(&mut self.socket.output.tail, Some(frame)),
            },
        }
    }
}

impl<H: Handler> ReplySender<'_, H> {
    /// Returns the connection's next state. A client that expected to continue may have sent more
    /// already, hence `Linger`.
    fn next(&self) -> AfterReply {
        match (self.keep, self.asked.keep_alive) {
            (true, _) => AfterReply::Keep,
            (false, true) => AfterReply::Linger,
            (false, false) => AfterReply::Close,
        }
    }

    /// Returns `true` if the connection may become a tunnel: the client asked for one, and its next
    /// bytes belong to the tunnel.
    fn may_tunnel(&self, status: StatusCode) -> bool {
        let asked = self.asked;
        let connected = asked.method == Method::CONNECT && status.is_success();
        let upgraded = asked.upgrade && status == StatusCode::SWITCHING_PROTOCOLS;
        (connected || upgraded) && self.incoming.as_ref().is_none_or(RequestBodyReader::is_ended)
    }
}

impl StreamedBody {
    /// Counts data. Bytes beyond the announced length would be read as the next response, and are
    /// an error.
    fn count(&mut self, bytes: usize) -> Result<(), CutBody> {
        if let Some(due) = &mut self.due {
            *due = due.checked_sub(bytes as u64).ok_or(CutBody)?;
        }
        Ok(())
    }

    /// Appends the end of the body.
    fn end(&mut self, tail: &mut Vec<u8>, last: Option<Frame<Bytes>>) -> Result<(), CutBody> {
        if self.due.is_some_and(|due| due > 0) {
            return Err(CutBody);
        }
        if self.framing == ResponseFraming::Chunked {
            let trailers = last.and_then(|frame| frame.into_trailers().ok()).filter(|_| self.trailers);
            chunk::last(tail, trailers.as_ref());
        }
        self.state = StreamState::Ended;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StreamServer;
    use crate::http1::tests::connection;
    use crate::metrics::Metrics;
    use crate::tests::handler::{Frames, Scripted};
    use http::{HeaderMap, HeaderValue};
    use shoal_settings::ClientLimits;
    use std::sync::Arc;

    /// Fills the output once from `frames`, of which four bytes are due. Returns its tail and the
    /// state.
    async fn tail(frames: impl Into<Frames>) -> (String, StreamState) {
        let handler = Arc::<Scripted>::default();
        let ReplyBody::Stream { frames, .. } = handler.stream(frames.into(), None) else { unreachable!() };
        let server = StreamServer::new(handler, Arc::<Metrics>::default(), &ClientLimits::default());
        let (mut near, _far) = connection(&server).await;
        let mut stream = StreamedBody {
            frames,
            framing: ResponseFraming::Chunked,
            due: Some(4),
            trailers: true,
            state: StreamState::Open,
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(matches!(near.fill_from(&mut context, &mut stream), Ok(true)));
        (String::from_utf8(near.socket.output.tail.clone()).expect("text"), stream.state)
    }

    #[tokio::test]
    async fn trailers_leave_with_the_last_bytes() {
        let data = |bytes: &'static str| Ok(Frame::data(Bytes::from_static(bytes.as_bytes())));
        let sum = HeaderMap::from_iter([("x-sum".parse().expect("a name"), HeaderValue::from_static("7"))]);
        let whole = vec![data("four"), Ok(Frame::trailers(sum))];
        let told = |end: &str, state| (format!("\r\n{end}"), state);
        assert!(tail(whole).await == told("0\r\nx-sum: 7\r\n\r\n", StreamState::Ended));
        assert!(tail(vec![data("four")]).await == told("0\r\n\r\n", StreamState::Ended));
        assert!(tail(vec![data("fo"), data("ur")]).await == told("", StreamState::Open), "more is due");
        // The bytes are sent, without an end.
        assert!(tail(vec![data("four"), data("more")]).await == told("", StreamState::Failed));
    }
}
