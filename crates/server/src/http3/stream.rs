//! One HTTP/3 stream with a task: passes a request to the handler and sends its reply.

use super::receive::{ReceiveError, RequestStream};
use super::request_body::H3Body;
use super::send::{Http3Reply, QuicSender, ReplyError, frame_of};
use super::{Http3Context, TaskPermit, fast_path};
use crate::http2::check;
use crate::http2::held_heads::HeldHead;
use crate::message::{Handler, InterimSink, Reply, ReplyBody, Request, StreamBody};
use crate::reply_fields::{self, Qpack, content_length, is_empty};
use crate::reply_guard::ReplyGuard;
use crate::transport::Deadline;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Version, header};
use shoal_http2::Http2Head;
use shoal_http2::hpack::FieldList;
use shoal_http3::{ErrorCode, StreamFault, qpack};
use shoal_wire::RequestRefusal;
use shoal_wire::response::is_bodiless;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::mpsc;

type Interim = mpsc::Receiver<(StatusCode, HeaderMap)>;

/// Outcome of reading a head.
enum ReadHead {
    /// A sound head, with the memory that it takes.
    Sound(Box<Parts>, HeldHead),
    /// A head that gets an answer of this server.
    Refused(RequestRefusal),
    /// No request. The stream ends with this code.
    Faulty(ErrorCode),
}

/// Answers one stream.
pub(super) async fn serve<H: Handler>(
    task: TaskPermit<H>,
    sender: QuicSender,
    mut request: RequestStream,
    received: Instant,
) {
    let context = &task.0;
    let was_whole = request.is_ended();
    if let Err(error) = arrival(&mut request, context).await {
        return end_early(context, sender, request, error, received).await;
    }
    let mut sender = sender;
    // A client may end the stream with a packet of its own.
    if !was_whole && request.is_ended() {
        sender = match fast_path::answer(context, &request, sender, received) {
            Ok(()) => return,
            Err(sender) => sender,
        };
    }
    let mut exchange = Exchange { task: &task, sender, method: Method::GET, received };
    let head = read_head(&request, context);
    request.forget_head();
    match head {
        ReadHead::Sound(parts, _held) => {
            let metrics = &context.shared.metrics;
            metrics.requests.increment();
            metrics.h3_requests.increment();
            exchange.method = parts.method.clone();
            exchange.run(*parts, request).await;
        }
        ReadHead::Refused(refusal) => exchange.refuse(refusal).await,
        ReadHead::Faulty(code) => {
            context.note_error();
            request.stop(code);
            exchange.sender.reset(code);
        }
    }
}

/// Waits for the head; of a GET or HEAD, for the end of the stream or the first bytes behind the
/// head. Nearly all have no body, and then are lookups. Ends in an error if that takes too long.
async fn arrival<H: Handler>(
    request: &mut RequestStream,
    context: &Http3Context<H>,
) -> Result<(), ReceiveError> {
    let mut deadline = Deadline::after(context.live.head_timeout);
    poll_fn(|task| {
        let arrived = match request.poll_head(task) {
            Poll::Ready(Ok(())) if begins_a_lookup(request) => request.poll_body_or_end(task),
            polled => polled,
        };
        if arrived.is_pending() && deadline.poll_passed(task).is_ready() {
            let late = StreamFault::Stream(ErrorCode::REQUEST_INCOMPLETE);
            return Poll::Ready(Err(ReceiveError::Fault(late)));
        }
        arrived
    })
    .await
}

/// Returns `true` if the head has the method GET or HEAD and announces no body.
fn begins_a_lookup(request: &RequestStream) -> bool {
    let Some(section) = request.head() else { return false };
    FIELDS.with_borrow_mut(|fields| {
        if qpack::decode(section, fields, FIELD_BYTES_LOOKED_AT).is_err() {
            return false;
        }
        let is_lookup =
            fields.iter().any(|(name, value)| name == b":method" && matches!(value, b"GET" | b"HEAD"));
        is_lookup && fields.iter().all(|(name, _)| name != b"content-length")
    })
}

/// Ends a stream that brought no whole head.
async fn end_early<H: Handler>(
    context: &Http3Context<H>,
    mut sender: QuicSender,
    mut request: RequestStream,
    error: ReceiveError,
    received: Instant,
) {
    match error {
        ReceiveError::Fault(StreamFault::FieldsTooLarge) => {
            let refusal = RequestRefusal::fields_too_large("fields too large");
            request.stop(ErrorCode::NO_ERROR);
            let reply = context.shared.refuse(refusal, &context.client());
            send(context, sender, reply, (&Method::GET, received)).await;
        }
        ReceiveError::Fault(StreamFault::Connection(code)) => context.give_up(code),
        ReceiveError::Fault(StreamFault::Stream(code)) => {
            context.note_error();
            request.stop(code);
            sender.reset(code);
        }
        ReceiveError::Reset => {
            context.note_reset();
            sender.reset(ErrorCode::REQUEST_CANCELLED);
        }
        ReceiveError::Gone => {}
    }
}

/// Decodes and checks the head.
fn read_head<H: Handler>(request: &RequestStream, context: &Http3Context<H>) -> ReadHead {
    let limits = &context.live.limits;
    let Some(section) = request.head() else { return ReadHead::Faulty(ErrorCode::REQUEST_INCOMPLETE) };
    FIELDS.with_borrow_mut(|fields| {
        if qpack::decode(section, fields, limits.head_bytes_max).is_err() {
            context.give_up(ErrorCode::DECOMPRESSION_FAILED);
            return ReadHead::Faulty(ErrorCode::DECOMPRESSION_FAILED);
        }
        if fields.is_too_large() {
            fields.shrink();
            return ReadHead::Refused(RequestRefusal::fields_too_large("fields too large"));
        }
        // A request without a body that announces one is malformed.
        let parts = Http2Head::read(fields).and_then(|head| head.to_parts());
        let announced = |parts: &Parts| announced_length(parts).is_some_and(|length| length > 0);
        let Some(mut parts) = parts.ok().filter(|parts| !(request.is_ended() && announced(parts))) else {
            return ReadHead::Faulty(ErrorCode::MESSAGE_ERROR);
        };
        parts.version = Version::HTTP_3;
        if let Err(refusal) = check::head(&mut parts, limits) {
            return ReadHead::Refused(refusal);
        }
        match context.heads.hold(fields.text().len()) {
            Some(held) => ReadHead::Sound(Box::new(parts), held),
            None => ReadHead::Refused(RequestRefusal::fields_too_large(
                "the requests that wait for an answer have too many fields",
            )),
        }
    })
}

fn announced_length(parts: &Parts) -> Option<u64> {
    parts.headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

struct Exchange<'t, H: Handler> {
    task: &'t TaskPermit<H>,
    sender: QuicSender,
    method: Method,
    received: Instant,
}

impl<H: Handler> Exchange<'_, H> {
    async fn run(mut self, parts: Parts, stream: RequestStream) {
        let context = &self.task.0;
        let (sink, mut interim) = mpsc::channel(INTERIM_MAX);
        let body = self.request_body(&parts, stream, &sink);
        let (client, received) = (context.client(), self.received);
        let request = Request { head: parts.into(), body, client, interim: Some(sink), received };
        let handler = &context.shared.handler;
        let reply = {
            let mut answering = pin!(handler.handle(request));
            let mut stopped = pin!(self.sender.stopped());
            poll_fn(|task| self.poll_reply(task, answering.as_mut(), stopped.as_mut(), &mut interim)).await
        };
        let Some(reply) = reply else {
            context.note_reset();
            return self.sender.reset(ErrorCode::REQUEST_CANCELLED);
        };
        while let Ok((status, fields)) = interim.try_recv() {
            self.send_interim(status, fields);
        }
        send(context, self.sender, reply, (&self.method, received)).await;
    }

    async fn refuse(self, refusal: RequestRefusal) {
        let context = &self.task.0;
        let reply = context.shared.refuse(refusal, &context.client());
        send(context, self.sender, reply, (&self.method, self.received)).await;
    }

    fn request_body(&self, parts: &Parts, stream: RequestStream, sink: &InterimSink) -> Option<StreamBody> {
        // With other methods than GET and HEAD the origin sees the same end of the body as the
        // client sent. There are no tunnels here: a CONNECT has no body.
        if stream.is_ended() || parts.method == Method::CONNECT {
            return None;
        }
        let continue_to = parts.headers.contains_key(header::EXPECT).then(|| sink.clone());
        let context = self.task.0.clone();
        Some(StreamBody::new(H3Body::new(stream, context, continue_to, announced_length(parts))))
    }

    /// Polls for the handler's reply. Returns `None` if the client stopped the stream; the caller
    /// then drops the handler.
    fn poll_reply(
        &mut self,
        task: &mut Context<'_>,
        answering: Pin<&mut impl Future<Output = Reply>>,
        stopped: Pin<&mut impl Future<Output = ()>>,
        interim: &mut Interim,
    ) -> Poll<Option<Reply>> {
        if let Poll::Ready(reply) = answering.poll(task) {
            return Poll::Ready(Some(reply));
        }
        while let Poll::Ready(Some((status, fields))) = interim.poll_recv(task) {
            self.send_interim(status, fields);
        }
        stopped.poll(task).map(|()| None)
    }

    /// Sends an interim response if QUIC takes it at once. RFC 9114 section 4.5: HTTP/3 has no 101.
    fn send_interim(&mut self, status: StatusCode, fields: HeaderMap) {
        if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
            let frame = frame_of(reply_fields::interim::<Qpack>(status, fields));
            let (length, mut buffers) = (frame.len(), [frame]);
            // Half a frame would spoil the frames behind it.
            if self.sender.write_now(&mut buffers) == Ok(false) && buffers[0].len() < length {
                self.sender.reset(ErrorCode::INTERNAL_ERROR);
            }
        }
    }
}

/// Sends a reply and completes its record.
async fn send<H: Handler>(
    context: &Http3Context<H>,
    mut sender: QuicSender,
    reply: Reply,
    (method, received): (&Method, Instant),
) {
    let mut account = ReplyGuard::open(&context.shared, Some(reply.record), received);
    let status = reply.head.status();
    if matches!(reply.body, ReplyBody::Tunnel(_)) {
        tracing::error!(%status, "a tunnel was offered over HTTP/3");
        return sender.reset(ErrorCode::INTERNAL_ERROR);
    }
    let length = content_length(method, status, &reply.head, &reply.body);
    let (status, fields) = reply_fields::head(reply.head, length, None, received);
    account.head_bytes = reply_fields::head_bytes(&fields);
    let block = reply_fields::block::<Qpack>(status, &fields);
    let is_bodiless = method == Method::HEAD || is_bodiless(status) || is_empty(&reply.body);
    let body = if is_bodiless { ReplyBody::Empty } else { reply.body };
    let mut sender = Http3Reply::new(sender, &context.live.patience);
    let sent = send_all(&mut sender, block, body).await;
    account.body_bytes = sender.sent;
    match sent.and_then(|()| sender.stream.finish()) {
        Ok(()) => {
            let now = Instant::now();
            account.complete(now);
            context.note_end(now);
        }
        Err(why) => return sender.stop(why),
    }
    // The stream has its task until the client has everything: the connection stays that long.
    let acknowledged = sender.stream.stopped();
    let _ = tokio::time::timeout(context.live.patience.pause, acknowledged).await;
}

async fn send_all(sender: &mut Http3Reply<'_>, block: Vec<u8>, body: ReplyBody) -> Result<(), ReplyError> {
    sender.section(block).await?;
    match body {
        ReplyBody::Memory(bytes) => sender.bytes(bytes).await,
        ReplyBody::Stream { frames, length } => sender.frames(frames, length).await,
        ReplyBody::Empty | ReplyBody::Tunnel(_) => Ok(()),
    }
}

thread_local! {
    /// Fields of the section being decoded.
    static FIELDS: RefCell<FieldList> = RefCell::default();
}

/// Maximum number of queued interim responses; more are dropped.
const INTERIM_MAX: usize = 4;

/// Bytes of fields in which the method and the length of a body are looked for.
const FIELD_BYTES_LOOKED_AT: usize = 64 * 1024;
