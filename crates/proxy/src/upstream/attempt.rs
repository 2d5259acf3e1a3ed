//! One request's way to an answer: choose a connection, send, judge the head; again where that is
//! safe.
//!
//! A request is sent a second time only with its body untouched, and only if the origin cannot have
//! acted on it, or may act twice: RFC 9112, 9.3.1: "a proxy MUST NOT automatically retry
//! non-idempotent requests" unless it knows that the first was not processed. Where a kept
//! connection was dead it is sent again, once, on a fresh one. What a site's upstream does not
//! answer goes to the next one; what it may have acted on to one more at most, so that a request by
//! which upstreams die does not reach all.

use super::Inner;
use super::channel::{AcquiredChannel, Answer, AttemptTarget, ChannelRequirements, RequestChannel};
use super::connection_auth;
use super::error::{Cause, UpstreamError};
use super::exchanged::{Caller, Destination, UpstreamRequest, UpstreamResponse};
use super::framing;
use super::group::{InFlight, UpstreamGroup};
use super::head::{AttemptFailure, AttemptHead, AttemptStreams};
use super::http1::RequestWriter;
use super::pool::HoldingBody;
use super::request_body::Upload;
use super::response_body::{StallTimer, UpstreamBody};
use crate::clock;
use crate::message::{InterimSink, RequestBody};
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use shoal_core::{FieldLines, Fields, Timestamp};
use std::sync::Arc;
use tokio::time::Instant;

/// A request under way, over all its attempts.
pub(super) struct UpstreamCall<'a> {
    inner: &'a Inner,
    head: AttemptHead,
    /// Whether the body waits for the origin to ask for it.
    hold: bool,
    body: RequestBody,
    interim: Option<InterimSink>,
    caller: Caller,
    in_flight: Option<InFlight>,
}

/// A request that is ready to be sent. It is run in place: who waits for it holds it once.
pub struct PreparedCall<'a> {
    journey: UpstreamCall<'a>,
    destination: Destination,
}

/// An attempt that failed.
pub(super) struct FailedAttempt {
    /// Why.
    pub error: UpstreamError,
    again: RetrySafety,
    /// It was made on a connection that had carried requests before.
    reused: bool,
}

/// Whether a request whose attempt failed may be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RetrySafety {
    /// The origin may have acted on it and must not do so twice, or it began to answer, or the
    /// fault is not the origin's.
    No,
    /// The origin may have acted on it, and may do so again.
    IfIdempotent,
    /// The origin has not acted on it.
    Always,
}

impl Inner {
    /// Makes a request ready to be sent wherever it is meant to go.
    pub(super) fn errand(&self, request: UpstreamRequest) -> PreparedCall<'_> {
        let UpstreamRequest { method, target, fields, host, upgrade, takes_trailers, .. } = request;
        let head = AttemptHead { method, target, fields, host, upgrade, takes_trailers };
        let journey = UpstreamCall::new(self, head, request.body, request.interim, request.caller);
        PreparedCall { journey, destination: request.destination }
    }
}

impl PreparedCall<'_> {
    /// Sends the request and waits for the head of its response.
    ///
    /// # Errors
    /// When no usable response head came; see [`Cause`].
    pub async fn run(&mut self) -> Result<UpstreamResponse, UpstreamError> {
        let outcome = self.journey.run(&self.destination).await;
        if let Err(error) = &outcome {
            error.cause.counter(&self.journey.inner.metrics).increment();
        }
        outcome
    }
}

impl<'a> UpstreamCall<'a> {
    pub fn new(
        inner: &'a Inner,
        mut head: AttemptHead,
        body: RequestBody,
        interim: Option<InterimSink>,
        caller: Caller,
    ) -> Self {
        let hold = head.prepare(body.is_some());
        Self { inner, head, hold, body, interim, caller, in_flight: None }
    }

    /// Asks whom the request is meant for.
    async fn run(&mut self, destination: &Destination) -> Result<UpstreamResponse, UpstreamError> {
        let now = Instant::now();
        match destination {
            Destination::Origin { origin, rules } => match rules.destination(&origin.host) {
                Ok(()) => {
                    let caller = self.caller.clone();
                    let aim = AttemptTarget {
                        origin,
                        rules: Some(rules),
                        is_check: false,
                        place: None,
                        caller: &caller,
                    };
                    self.fetch_from_origin(aim, now).await.map_err(|lost| lost.error)
                }
                Err(refusal) => Err(UpstreamError::refused(refusal, origin)),
            },
            Destination::Group { group, key } => self.fetch_from_group(group, *key, now).await,
        }
    }

    /// Asks a site's upstreams in turn, until one answers or the request may not be sent again.
    async fn fetch_from_group(
        &mut self,
        group: &Arc<UpstreamGroup>,
        key: u64,
        mut now: Instant,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let mut tried = Vec::new();
        let caller = self.caller.clone();
        let pinned = self.inner.pool.member_with_pin(group, &caller);
        let (mut last, mut was_repeated) = (None, false);
        let choose = |tried: &[usize], now: Instant| {
            pinned.filter(|_| tried.is_empty()).or_else(|| group.choose(key, tried, now.into_std()))
        };
        while let Some(index) = choose(&tried, now) {
            if !tried.is_empty() {
                self.inner.metrics.upstream_failovers.increment();
            }
            self.in_flight = Some(InFlight::begin(group, index));
            let member = &group.members()[index];
            let place = member.place(&self.inner.pool);
            let aim = AttemptTarget {
                origin: &member.origin,
                rules: None,
                is_check: false,
                place,
                caller: &caller,
            };
            let outcome = self.fetch_from_origin(aim, now).await;
            let FailedAttempt { mut error, again, .. } = match outcome {
                Ok(response) => {
                    group.answered(index);
                    return Ok(response);
                }
                Err(lost) => lost,
            };
            now = Instant::now();
            if error.cause.blames_upstream() {
                error.is_told = group.failed(index, now.into_std(), &error);
            }
            tried.push(index);
            last = Some(error);
            let goes_on = match again {
                RetrySafety::Always => true,
                RetrySafety::IfIdempotent => !std::mem::replace(&mut was_repeated, true),
                RetrySafety::No => false,
            };
            if !goes_on {
                break;
            }
        }
        let mut error = last.expect("a group has a member, so one was tried");
        error.retry_after = error.retry_after.or(group.back_in(now.into_std()));
        Err(error)
    }

    /// Asks one origin, at `now`.
    pub async fn fetch_from_origin(
        &mut self,
        aim: AttemptTarget<'_>,
        now: Instant,
    ) -> Result<UpstreamResponse, FailedAttempt> {
        match self.attempt(aim, false, now).await {
            Err(lost) if lost.reused && lost.again != RetrySafety::No => {
                self.inner.metrics.upstream_retries.increment();
                // Rare, and every request would carry the room for it.
                Box::pin(self.attempt(aim, true, Instant::now())).await
            }
            outcome => outcome,
        }
    }

    /// Sends the request once, from `now` on; `fresh` asks for a connection that carried none
    /// before.
    async fn attempt(
        &mut self,
        aim: AttemptTarget<'_>,
        fresh: bool,
        now: Instant,
    ) -> Result<UpstreamResponse, FailedAttempt> {
        // HTTP/2 has no authenticated connections: RFC 9113, 9.1 lets all requests share one.
        let http1_only = self.head.upgrade.is_some() || aim.caller.authenticates;
        let wish = ChannelRequirements { fresh, http1_only };
        let found =
            RequestChannel::find(self.inner, aim, wish, now).await.map_err(FailedAttempt::before_sending)?;
        let AcquiredChannel { carrier, reused, at } = found;
        let is_sent_once = self.body.is_some() || !self.head.method.is_idempotent();
        let sending = AttemptStreams::new(self.body.take(), self.hold, self.interim.clone(), at);
        let request_time = clock::time_at(at.into_std());
        let timeout = self.inner.settings.first_byte_timeout;
        let answered = match carrier {
            RequestChannel::H1(mut lease) => {
                if aim.caller.authenticates {
                    lease.bind(aim.caller);
                }
                if self.head.upgrade.is_some() && !lease.reserve_tunnel(aim.caller) {
                    let why = "too many tunnels to it: upstream.tunnels_per_origin, or this client's share";
                    let error = UpstreamError::new(Cause::ConnectionLimit, aim.origin.authority(), why);
                    return Err(FailedAttempt { error, again: RetrySafety::No, reused });
                }
                if reused && is_sent_once {
                    // An end that has come meanwhile is heard of here, and not when it is too late.
                    tokio::task::yield_now().await;
                }
                match RequestWriter::new(&self.head, aim.origin.authority(), &sending.upload) {
                    Ok(mut requesting) => {
                        let head = lease.connection.send(&mut requesting, &sending, timeout).await;
                        head.map(|head| Answer::over_http1(head, requesting, lease))
                    }
                    Err(failure) => Err(failure),
                }
            }
            RequestChannel::H2(lease) => {
                Box::pin(Answer::over_http2(lease, &self.head, aim.origin, &sending, timeout)).await
            }
        };
        match answered {
            Ok(answer) => self
                .check_response(aim, answer, request_time, &sending.upload)
                .map_err(|error| FailedAttempt { error, again: RetrySafety::No, reused }),
            Err(failure) => {
                let again = self.again(&failure, &sending.upload);
                Err(FailedAttempt { error: failure.into_error(aim.origin), again, reused })
            }
        }
    }

    /// Whether the request may be sent again after `failure`; takes its body back for that.
    fn again(&mut self, failure: &AttemptFailure, upload: &Upload) -> RetrySafety {
        let again = match failure {
            AttemptFailure { unsent: true, .. } => RetrySafety::Always,
            // RFC 9110, 9.2.2: "a client SHOULD NOT automatically retry a request with a
            // non-idempotent method".
            AttemptFailure { dead: true, .. } if self.head.method.is_idempotent() => {
                RetrySafety::IfIdempotent
            }
            _ => return RetrySafety::No,
        };
        let Some(body) = upload.take_untouched() else { return RetrySafety::No };
        self.body = body;
        again
    }

    /// Checks an answer's head and makes the response of it.
    fn check_response(
        &mut self,
        aim: AttemptTarget<'_>,
        mut answer: Answer,
        request_time: Timestamp,
        upload: &Arc<Upload>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let response_time = clock::time_at(Instant::now().into_std());
        let fail = |(cause, what): (Cause, &str)| UpstreamError::new(cause, aim.origin.authority(), what);
        let (status, version, peer) = (answer.status(), answer.version(), answer.peer());
        let switches = status == StatusCode::SWITCHING_PROTOCOLS;
        let mut fields = answer.take_fields();
        if connection_auth::is_of_connection(&fields) {
            answer.close_after();
        }
        let checked = if switches {
            switched(self.head.upgrade.as_ref(), &fields).map(|()| Some(0))
        } else {
            framing::check(&self.head.method, status, &mut fields)
        };
        let length = match checked {
            // An HTTP/2 stream may end with the head, which announces no length.
            Ok(None) if answer.ends_with_head() => Some(0),
            Ok(length) => length,
            Err(fault) => return Err(fail(fault)),
        };
        let (body, upgraded) = if switches {
            let io = answer.upgraded(self.in_flight.take()).map_err(fail)?;
            (Empty::new().map_err(|never| match never {}).boxed_unsync(), Some(io))
        } else {
            let stall = StallTimer::new(self.inner.settings.idle_timeout, upload);
            let metrics = (!aim.is_check).then(|| Arc::clone(&self.inner.metrics));
            let (source, in_flight) = (answer.source(length), self.in_flight.take());
            let body = UpstreamBody::new(source, length, stall, in_flight, metrics);
            let body = match body.place().cloned() {
                Some(place) => HoldingBody::new(body, place).boxed_unsync(),
                None => body.boxed_unsync(),
            };
            (body, None)
        };
        Ok(UpstreamResponse {
            status,
            version,
            fields,
            body,
            length,
            request_time,
            response_time,
            peer,
            upgraded,
        })
    }
}

impl FailedAttempt {
    /// No connection was to be had.
    fn before_sending(error: UpstreamError) -> Self {
        let again = if error.cause.is_of_connecting() { RetrySafety::Always } else { RetrySafety::No };
        Self { error, again, reused: false }
    }
}

/// Whether the origin switched to a protocol that it was offered. RFC 9110, 7.8: "A server MUST NOT
/// switch to a protocol that was not indicated by the client in the corresponding request's Upgrade
/// header field."
fn switched(offer: Option<&HeaderValue>, fields: &FieldLines) -> Result<(), (Cause, &'static str)> {
    let protocols = |value: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(value).to_ascii_lowercase();
        text.split(',').map(|protocol| protocol.trim().to_owned()).collect()
    };
    let offered = offer
        .map(|value| protocols(value.as_bytes()))
        .ok_or((Cause::UpgradeFailed, "101 that was not asked for"))?;
    let chosen: Vec<String> = fields.values(&header::UPGRADE).flat_map(protocols).collect();
    if chosen.is_empty() || !chosen.iter().all(|protocol| offered.contains(protocol)) {
        return Err((Cause::UpgradeFailed, "101 for a protocol that was not offered"));
    }
    Ok(())
}
