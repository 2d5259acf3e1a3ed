//! One HTTP/1 connection: reads heads and writes replies until one side ends it.
//!
//! ```text
//!   next_head ──► answer (handler, request body, interim responses) ──► send ──► next_head
//!     │                   │ client gone: the handler is dropped   │
//!     └── refuse ─────────┴───────────────────────────────────────┴──► close, linger or reset
//! ```
//!
//! A hit takes one read and one write. While a client asks only for hits, its connection has no
//! task ([`super::idle`]). Buffers, the timer and the channel for interim responses are created
//! once per connection and serve every request.

mod answer;
pub(super) mod fast_path;
mod head;
mod incoming;
mod interim;
mod messages;
mod send;

use super::client_io::ClientIo;
use super::drain::DrainWatch;
use super::idle::HITS_TO_RETURN;
use super::idle::lanes::{self, ReplyWaiter};
use super::limits::ConnectionLimits;
use super::reply_guard::ReplyGuard;
use super::socket::BufferedConnection;
use super::{ServerState, tunnel};
use crate::boxed::in_place;
use crate::message::{Client, Handler, PeerAsk, Reply, Request};
use answer::HandlerOutcome;
use fast_path::FastReply;
use http::{Method, StatusCode, Version};
use incoming::RequestBodyReader;
use interim::Interim;
use shoal_wire::{HeadParser, RequestRefusal};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::oneshot;

/// State in which a connection starts to be served.
pub(super) enum StartState {
    /// No code has parsed the input.
    New,
    /// The request at the start of the input cannot be answered at once.
    Asking,
    /// A reply is being sent, to a request received at this time.
    Answering(FastReply, Instant),
}

/// Serves one connection to its end, or until it can wait without a task. In that case the
/// connection is returned.
pub(super) async fn serve<T: ClientIo, H: Handler>(
    socket: BufferedConnection<T>,
    start: StartState,
    shared: Arc<ServerState<H>>,
    live: Arc<ConnectionLimits>,
    client: Arc<Client>,
) -> Option<T> {
    let drain = shared.drain.watch();
    let (parser, interim) = (HeadParser::new(), Interim::default());
    let (deferred, has_long_messages) = (None, false);
    let connection = Connection { socket, live, client, drain, parser, interim, deferred, has_long_messages };
    connection.serve(&shared, start).await
}

struct Connection<T> {
    socket: BufferedConnection<T>,
    live: Arc<ConnectionLimits>,
    client: Arc<Client>,
    drain: DrainWatch,
    parser: HeadParser,
    interim: Interim,
    /// Request at the start of the input, if it may wait for another node.
    deferred: Option<PeerAsk>,
    /// The last message of another node was longer than one read.
    has_long_messages: bool,
}

/// Facts about a request that are needed after the handler has it.
struct RequestSummary {
    method: Method,
    version: Version,
    keep_alive: bool,
    accepts_trailers: bool,
    upgrade: bool,
    received: Instant,
}

/// Next state of the connection after a reply.
enum AfterReply {
    /// Wait for the next request.
    Keep,
    /// Close: the client sends no more.
    Close,
    /// Close, while the client may still be sending.
    Linger,
    /// Close likewise, after refusing invalid bytes.
    Refuse(RequestRefusal),
    /// Drop: the client has gone, or must notice that its response was cut.
    Drop,
    /// Carry a tunnel.
    Tunnel(Box<dyn crate::message::TunnelIo>),
}

/// Next request of a connection.
enum NextRequest {
    /// The read buffer holds a whole head. The first byte arrived at this time.
    Head(Instant),
    /// The reply is sent, or its rest is in the output. The first byte of the request arrived at
    /// this time.
    Glanced(FastReply, Instant),
}

/// Reason for ending the connection without a further request.
enum NoRequest {
    /// The client left or was idle for too long, or the server is stopping.
    Over,
    /// The bytes received are refused.
    Refused(RequestRefusal),
}

impl<T: ClientIo> Connection<T> {
    /// Boxes the futures that only some requests need. An idle connection then takes only the
    /// memory of waiting for a head.
    async fn serve<H: Handler>(mut self, shared: &Arc<ServerState<H>>, mut start: StartState) -> Option<T> {
        let mut hits = 0;
        loop {
            let came = match std::mem::replace(&mut start, StartState::New) {
                StartState::Answering(glanced, received) => Ok(NextRequest::Glanced(glanced, received)),
                start => self.next_head(shared, matches!(start, StartState::Asking)).await,
            };
            let came = match self.deferred.take() {
                Some(ask) if came.is_ok() => Box::pin(self.await_peer(shared, ask)).await.unwrap_or(came),
                _ => came,
            };
            let received = match came {
                Ok(NextRequest::Head(received)) => received,
                Ok(NextRequest::Glanced(glanced, received)) => {
                    hits = if glanced.is_short() { hits + 1 } else { 0 };
                    match self.finish_glanced(shared, glanced, received).await {
                        AfterReply::Keep
                            if T::CAN_WAIT && hits >= HITS_TO_RETURN && self.socket.input.is_empty() =>
                        {
                            return Some(self.socket.io);
                        }
                        AfterReply::Keep => continue,
                        _ => return None,
                    }
                }
                Err(NoRequest::Over) => {
                    Box::pin(self.socket.close()).await;
                    return None;
                }
                Err(NoRequest::Refused(refusal)) => {
                    Box::pin(self.refuse(shared, refusal)).await;
                    return None;
                }
            };
            hits = 0;
            match in_place(|| self.exchange(shared, received)).await {
                AfterReply::Keep => continue,
                AfterReply::Close => Box::pin(self.socket.close()).await,
                AfterReply::Linger => Box::pin(self.socket.linger()).await,
                AfterReply::Refuse(refusal) => Box::pin(self.refuse(shared, refusal)).await,
                AfterReply::Drop | AfterReply::Tunnel(_) => {}
            }
            return None;
        }
    }

    /// Waits for a whole request head and returns the arrival time of its first byte. A hit in RAM
    /// is answered at once.
    async fn next_head<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        is_ordinary: bool,
    ) -> Result<NextRequest, NoRequest> {
        let mut begun = self.socket.begun.take();
        if !self.socket.input.is_empty() && !is_ordinary {
            let received = *begun.get_or_insert_with(Instant::now);
            let glanced = poll_fn(|context| Poll::Ready(self.try_fast_path(shared, received, context))).await;
            if let Some(glanced) = glanced {
                return Ok(NextRequest::Glanced(glanced, received));
            }
        }
        loop {
            if self.socket.input.is_empty() {
                let (glanced, received) = match self.has_long_messages {
                    true => poll_fn(|context| self.poll_long_message(shared, context)).await?,
                    false => poll_fn(|context| self.poll_first(shared, context)).await?,
                };
                if let Some(glanced) = glanced {
                    return Ok(NextRequest::Glanced(glanced, received));
                }
                begun.get_or_insert(received);
            }
            let received = *begun.get_or_insert_with(Instant::now);
            if let Some(whole) = self.awaited_message(shared)
                && let Some(sent) = self.gather_message(shared, whole, received).await?
            {
                return Ok(NextRequest::Glanced(sent, received));
            }
            // The bytes are no message with a place in memory, or too few to tell.
            if std::mem::take(&mut self.has_long_messages) {
                self.socket.narrow();
            }
            match self.parser.find_head(&mut self.socket.input, &self.live.limits) {
                Ok(true) => return Ok(NextRequest::Head(received)),
                Ok(false) => self.socket.deadline.set(received + self.live.head_timeout),
                Err(refusal) => return Err(NoRequest::Refused(refusal)),
            }
            if !self.socket.input.is_empty() {
                poll_fn(|context| self.poll_more(context)).await?;
            }
        }
    }

    /// Waits for the reply of another node to the request at the start of the input. Returns `None`
    /// if the request takes the ordinary path.
    async fn await_peer<H: Handler>(
        &mut self,
        shared: &Arc<ServerState<H>>,
        ask: PeerAsk,
    ) -> Option<Result<NextRequest, NoRequest>> {
        let (told, reply) = oneshot::channel();
        lanes::wait(ask, ReplyWaiter::Task(told)).ok()?;
        lanes::send_waiting(shared);
        let reply = reply.await.ok().flatten()?;
        let received = Instant::now();
        // The request is all that the client has sent.
        self.socket.input.clear();
        self.parser = HeadParser::new();
        self.socket.deadline.lift();
        self.socket.output.resume(&[], reply, 0);
        Some(Ok(NextRequest::Glanced(FastReply::Settled, received)))
    }

    /// Reads more of a head that has begun to arrive.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<(), NoRequest>> {
        match self.socket.poll_fill(context, super::socket::INPUT_BYTES) {
            Poll::Ready(Ok(count)) if count > 0 => return Poll::Ready(Ok(())),
            Poll::Ready(_) => return Poll::Ready(Err(NoRequest::Over)),
            Poll::Pending => {}
        }
        self.socket.deadline.poll_passed(context).map(|()| Err(NoRequest::Refused(REQUEST_TIMEOUT)))
    }

    /// Returns ready if no head has begun and the client is idle for too long, or the server is
    /// stopping.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<NoRequest> {
        let is_over = self.socket.deadline.poll_passed(context).is_ready()
            || self.drain.poll_idle_over(context, &mut self.socket.deadline).is_ready();
        if is_over { Poll::Ready(NoRequest::Over) } else { Poll::Pending }
    }

    /// Answers one request. If the client leaves, dropping this future drops the handler's future
    /// too.
    async fn exchange<H: Handler>(&mut self, shared: &ServerState<H>, received: Instant) -> AfterReply {
        let (asked, mut incoming, answering) = match self.take_request(received) {
            Ok((asked, incoming, request)) => (asked, incoming, shared.handler.handle(request)),
            Err(refusal) => return AfterReply::Refuse(refusal),
        };
        self.socket.deadline.lift();
        if !self.client.is_peer() {
            shared.metrics.requests.increment();
        }
        let answer = {
            let mut answering = pin!(answering);
            poll_fn(|context| self.poll_answer(context, answering.as_mut(), &mut incoming)).await
        };
        match answer {
            HandlerOutcome::Reply(reply) => self.finish(shared, &asked, reply, incoming).await,
            HandlerOutcome::Refused(refusal) => AfterReply::Refuse(refusal),
            HandlerOutcome::Gone => AfterReply::Drop,
        }
    }

    /// Takes a request's head from the read buffer.
    fn take_request(
        &mut self,
        received: Instant,
    ) -> Result<(RequestSummary, Option<RequestBodyReader>, Request), RequestRefusal> {
        let head = self.parser.take_head(&mut self.socket.input)?;
        let (incoming, body) = match RequestBodyReader::of(&head) {
            Some((incoming, body)) => (Some(incoming), body),
            None => (None, None),
        };
        let asked = RequestSummary {
            method: head.parts.method.clone(),
            version: head.parts.version,
            keep_alive: head.keep_alive,
            accepts_trailers: head.accepts_trailers,
            upgrade: head.upgrade,
            received,
        };
        let interim = (asked.version != Version::HTTP_10).then(|| self.interim.sink());
        let client = Arc::clone(&self.client);
        Ok((asked, incoming, Request { head: head.parts, body, client, interim, received }))
    }

    /// Sends the reply and handles the rest of the request.
    async fn finish<H: Handler>(
        &mut self,
        shared: &ServerState<H>,
        asked: &RequestSummary,
        reply: Reply,
        mut incoming: Option<RequestBodyReader>,
    ) -> AfterReply {
        if let Some(body) = &mut incoming {
            body.reply_begins(&mut self.socket);
        }
        let account = ReplyGuard::open(shared, Some(reply.record), asked.received);
        let keep = asked.keep_alive
            && !self.drain.is_draining()
            && !self.live.keep_alive.is_zero()
            && incoming.as_ref().is_none_or(RequestBodyReader::may_keep);
        let mut sending = send::ReplySender { asked, keep, account, incoming };
        let next = self.send(&mut sending, reply.head, reply.body).await;
        let send::ReplySender { mut account, incoming, .. } = sending;
        match next {
            AfterReply::Drop => return AfterReply::Drop,
            AfterReply::Tunnel(far) => {
                Box::pin(self.tunnel(far, &mut account)).await;
                account.complete(Instant::now());
                return AfterReply::Drop;
            }
            _ => {}
        }
        let now = Instant::now();
        account.complete(now);
        let rest_read = match incoming {
            Some(incoming) if !incoming.is_ended() => {
                matches!(next, AfterReply::Keep) && incoming.discard(&mut self.socket).await
            }
            _ => true,
        };
        match next {
            _ if !rest_read => AfterReply::Linger,
            AfterReply::Keep => {
                self.socket.deadline.set(now + self.live.keep_alive);
                self.socket.shrink();
                AfterReply::Keep
            }
            next => next,
        }
    }

    /// Answers an invalid request with a refusal, then closes.
    async fn refuse<H: Handler>(mut self, shared: &ServerState<H>, refusal: RequestRefusal) {
        let reply = shared.refuse(refusal, &self.client);
        let asked = RequestSummary {
            method: Method::GET,
            version: Version::HTTP_11,
            keep_alive: false,
            accepts_trailers: false,
            upgrade: false,
            received: Instant::now(),
        };
        // Drop interim responses of an abandoned request: they must not appear before this reply.
        self.interim = Interim::default();
        self.finish(shared, &asked, reply, None).await;
        self.socket.linger().await;
    }

    /// Copies bytes between the client and `far` until both have ended.
    async fn tunnel<H: Handler>(
        &mut self,
        far: Box<dyn crate::message::TunnelIo>,
        account: &mut ReplyGuard<'_, H>,
    ) {
        let open = account.open_tunnel();
        let read_early = self.socket.input.split().freeze();
        let carried = tunnel::run(&mut self.socket.io, read_early, far, self.live.tunnel_timeout).await;
        account.body_bytes = carried.to_client;
        open.received(carried.from_client);
    }
}

/// RFC 9110 section 15.5.9: the client did not send a whole request within the time limit.
const REQUEST_TIMEOUT: RequestRefusal =
    RequestRefusal { status: StatusCode::REQUEST_TIMEOUT, reason: "request not received in time" };

#[cfg(test)]
mod tests;
