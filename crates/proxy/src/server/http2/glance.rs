//! The short way of a stream: a hit in RAM is handed to the connection where its request was accepted.
//!
//! The ordinary way starts a task for each stream, with a channel for interim responses. A hit needs none of that: its head and
//! body go to the connection at once, when the client's window takes the whole body. Where it does not, the rest is
//! sent by a task, at the pace of the client.

use super::Streams;
use super::send::{self, BodySender};
use crate::message::{Glance, Handler, Hit, Record, Sent};
use crate::server::account::Account;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::Request;
use shoal_wire::PlainGet;
use std::sync::Arc;
use std::time::Instant;

/// Answers a plain request that is fresh in RAM. `None` leaves everything as it was; nothing has been sent then.
pub(super) fn answer<H: Handler>(
    streams: &Arc<Streams<H>>,
    request: &Request<RecvStream>,
    respond: &mut SendResponse<Bytes>,
) -> Option<()> {
    if !request.body().is_end_stream() {
        return None;
    }
    let (method, uri, fields) = (request.method(), request.uri(), request.headers());
    let get = PlainGet::of_http2(method, uri, fields, &streams.live.limits)?;
    let received = Instant::now();
    let mut rest = None;
    let handler = &streams.shared.handler;
    let glance = handler.glance(&get, &streams.client, received, |hit| {
        let (sent, unsent) = send(respond, hit, received);
        rest = unsent;
        sent
    });
    match glance {
        Glance::Ordinary => return None,
        Glance::Sent => *streams.quiet_since.lock() = received,
        Glance::Sending(record) => {
            tokio::spawn(finish(Arc::clone(streams), rest, record, received));
        }
    }
    streams.shared.metrics.requests.count();
    Some(())
}

/// What of a reply is still to be sent.
struct Rest {
    stream: SendStream<Bytes>,
    body: Bytes,
    head_bytes: u64,
}

/// Hands the reply to a hit to the connection, or its head when the window takes no more. Nothing is left of a stream that
/// the client has given up meanwhile.
fn send(respond: &mut SendResponse<Bytes>, hit: &Hit<'_>, received: Instant) -> (Sent, Option<Rest>) {
    let head = send::hit(hit, received);
    let head_bytes = send::head_bytes(&head);
    let Ok(mut stream) = respond.send_response(head, hit.body.is_empty()) else {
        return (Sent::Partly, None);
    };
    if hit.body.is_empty() {
        return (Sent::Whole { head_bytes }, None);
    }
    stream.reserve_capacity(hit.body.len());
    if stream.capacity() >= hit.body.len() && stream.send_data(hit.body.bytes(), true).is_ok() {
        return (Sent::Whole { head_bytes }, None);
    }
    (Sent::Partly, Some(Rest { stream, body: hit.body.bytes(), head_bytes }))
}

/// Sends the rest of a reply and settles its record.
async fn finish<H: Handler>(
    streams: Arc<Streams<H>>,
    rest: Option<Rest>,
    record: Option<Box<Record>>,
    received: Instant,
) {
    let mut account = record.map(|record| Account::open(&*streams.shared.handler, record, received));
    let Some(Rest { stream, body, head_bytes }) = rest else { return };
    let mut sender = BodySender::new(stream, &streams.live.patience);
    let sent = sender.bytes(body, true).await;
    if let Some(account) = &mut account {
        (account.head_bytes, account.body_bytes) = (head_bytes, sender.sent);
    }
    let now = Instant::now();
    match sent {
        Ok(()) => {
            if let Some(account) = account {
                account.complete(now);
            }
        }
        Err(why) => sender.stop(&why),
    }
    *streams.quiet_since.lock() = now;
}
