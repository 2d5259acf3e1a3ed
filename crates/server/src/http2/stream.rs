//! One HTTP/2 stream: passes a request to the handler and sends its reply.

use super::held_heads::HeldHead;
use super::receiving::StreamReceiver;
use super::request_body::H2Body;
use super::send::BodySender;
use super::sending::StreamSender;
use super::tunnel_io::{StreamIo, TunnelPeer};
use super::{StreamContext, check};
use crate::message::{Handler, InterimSink, Reply, ReplyBody, Request, StreamBody, TunnelIo};
use crate::reply_fields::{self, Hpack, content_length, is_empty};
use crate::reply_guard::ReplyGuard;
use crate::tunnel;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use shoal_http2::ErrorCode;
use shoal_wire::RequestRefusal;
use shoal_wire::response::is_bodiless;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Request with the two halves of its stream.
pub(super) struct StreamRequest {
    /// Head of the request, or the reason for refusing it.
    pub head: Result<Parts, RequestRefusal>,
    /// Sending half.
    pub sending: StreamSender,
    /// Receiving half.
    pub receiving: StreamReceiver,
    /// Arrival time of the request.
    pub received: Instant,
    /// Memory share of the head.
    pub held: Option<HeldHead>,
}

/// Answers one stream.
pub(super) async fn serve<H: Handler>(asked: StreamRequest, streams: Arc<StreamContext<H>>) {
    let StreamRequest { head, sending, receiving, received, held } = asked;
    let checked = head.and_then(|mut parts| {
        check::head(&mut parts, &streams.live.limits)?;
        Ok(parts)
    });
    let method = checked.as_ref().map_or(Method::GET, |parts| parts.method.clone());
    let stream = StreamTask { streams: &streams, sending, method, received };
    match checked {
        Ok(parts) => {
            streams.shared.metrics.requests.increment();
            stream.exchange(parts, receiving).await;
        }
        Err(refusal) => {
            let reply = streams.shared.refuse(refusal, &streams.client);
            stream.send(reply, None).await;
        }
    }
    drop(held);
    streams.link.lock().note_end(Instant::now());
}

struct StreamTask<'s, H: Handler> {
    streams: &'s StreamContext<H>,
    sending: StreamSender,
    method: Method,
    received: Instant,
}

type Interim = mpsc::Receiver<(StatusCode, HeaderMap)>;

impl<H: Handler> StreamTask<'_, H> {
    async fn exchange(mut self, parts: Parts, body: StreamReceiver) {
        let (sink, mut interim) = mpsc::channel(INTERIM_MAX);
        // Bytes on a CONNECT stream belong to the tunnel, not to the request.
        let (body, tunnelled) = match self.method == Method::CONNECT {
            true => (None, Some(body)),
            false => (self.request_body(&parts, body, &sink), None),
        };
        let client = Arc::clone(&self.streams.client);
        let received = self.received;
        let request = Request { head: parts.into(), body, client, interim: Some(sink), received };
        let handler = &self.streams.shared.handler;
        let reply = {
            let mut answering = pin!(handler.handle(request));
            poll_fn(|context| self.poll_reply(context, answering.as_mut(), &mut interim)).await
        };
        let Some(reply) = reply else { return };
        while let Ok((status, fields)) = interim.try_recv() {
            self.send_interim(status, fields);
        }
        self.send(reply, tunnelled).await;
    }

    fn request_body(&self, parts: &Parts, body: StreamReceiver, sink: &InterimSink) -> Option<StreamBody> {
        // GET and HEAD without bytes are lookups. With other methods the origin sees the same end
        // of the body as the client sent.
        let is_lookup = parts.method == Method::GET || parts.method == Method::HEAD;
        if body.ended_with_head() || is_lookup && body.is_ended() {
            return None;
        }
        let length =
            parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let continue_to = parts.headers.contains_key(header::EXPECT).then(|| sink.clone());
        let live = Arc::clone(&self.streams.live);
        Some(StreamBody::new(H2Body::new(body, continue_to, length, live)))
    }

    /// Polls for the handler's reply. Returns `None` if the client reset the stream; the caller
    /// then drops the handler.
    fn poll_reply(
        &mut self,
        context: &mut Context<'_>,
        answering: Pin<&mut impl Future<Output = Reply>>,
        interim: &mut Interim,
    ) -> Poll<Option<Reply>> {
        if let Poll::Ready(reply) = answering.poll(context) {
            return Poll::Ready(Some(reply));
        }
        while let Poll::Ready(Some((status, fields))) = interim.poll_recv(context) {
            self.send_interim(status, fields);
        }
        self.sending.poll_reset(context).map(|()| None)
    }

    fn send_interim(&mut self, status: StatusCode, fields: HeaderMap) {
        // RFC 9113 section 8.6: "HTTP/2 removes support for the 101 (Switching Protocols)
        // informational status code".
        if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
            // Fails if the stream has ended; the next poll notices.
            let _ = self.sending.interim(reply_fields::interim::<Hpack>(status, fields));
        }
    }

    async fn send(mut self, reply: Reply, tunnelled: Option<StreamReceiver>) {
        let streams = self.streams;
        let mut account = ReplyGuard::open(&streams.shared, Some(reply.record), self.received);
        let status = reply.head.status();
        let tunnels = matches!(reply.body, ReplyBody::Tunnel(_));
        if tunnels && !(tunnelled.is_some() && status.is_success()) {
            tracing::error!(%status, "a tunnel was offered for a request that asked for none");
            self.sending.reset(ErrorCode::INTERNAL_ERROR);
            return;
        }
        let bodiless = self.method == Method::HEAD || is_bodiless(status) || tunnels;
        let length = content_length(&self.method, status, &reply.head, &reply.body);
        let (status, fields) = reply_fields::head(
            reply.head,
            length,
            streams.shared.alt_svc(&streams.client).as_ref(),
            self.received,
        );
        account.head_bytes = reply_fields::head_bytes(&fields);
        let ends = !tunnels && (bodiless || is_empty(&reply.body));
        if self.sending.head(reply_fields::block::<Hpack>(status, &fields), ends).is_err() {
            return;
        }
        if ends {
            return account.complete(Instant::now());
        }
        match (reply.body, tunnelled) {
            (ReplyBody::Tunnel(far), Some(receive)) => {
                let timeout = streams.live.tunnel_timeout;
                tunnel(StreamIo::new(receive, self.sending), far, timeout, account).await;
            }
            (body, _) => self.send_body(body, account).await,
        }
    }

    async fn send_body(self, body: ReplyBody, mut account: ReplyGuard<'_, H>) {
        let mut sender = BodySender::new(self.sending, &self.streams.live.patience);
        let sent = match body {
            ReplyBody::Memory(bytes) => sender.bytes(bytes, true).await,
            ReplyBody::Stream { frames, length } => sender.frames(frames, length).await,
            ReplyBody::Empty | ReplyBody::Tunnel(_) => Ok(()),
        };
        account.body_bytes = sender.sent;
        match sent {
            Ok(()) => account.complete(Instant::now()),
            Err(why) => sender.stop(&why),
        }
    }
}

async fn tunnel<H: Handler>(
    near: StreamIo,
    far: Box<dyn TunnelIo>,
    timeout: Duration,
    mut account: ReplyGuard<'_, H>,
) {
    let open = account.open_tunnel();
    let far = TunnelPeer::new(far, &near);
    let carried = tunnel::run(near, Bytes::new(), far, timeout).await;
    account.body_bytes = carried.to_client;
    open.received(carried.from_client);
    account.complete(Instant::now());
}

/// Maximum number of queued interim responses; more are dropped.
const INTERIM_MAX: usize = 4;
