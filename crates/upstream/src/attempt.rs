//! One request from choosing a connection to a checked response head, with retries where they are
//! safe.
//!
//! A request is sent again only if its body is untouched, and if the origin cannot have acted on it
//! or may act twice. RFC 9112, 9.3.1: "a proxy MUST NOT automatically retry non-idempotent
//! requests" unless it knows that the first was not processed.
//!
//! If a kept connection was dead, the request is sent once more on a fresh one. A safe request is
//! also sent again if its kept connection had bytes of an earlier exchange. If a site's upstream
//! does not answer, the request goes to the next upstream. If the upstream may have acted on the
//! request, only one more upstream is tried. A request that crashes upstreams therefore does not
//! reach all of them.

use super::Inner;
use super::channel::{AcquiredChannel, Answer, AttemptTarget, ChannelRequirements, NO_SPARE, RequestChannel};
use super::connection_auth;
use super::error::{Cause, UpstreamError};
use super::exchanged::{Caller, Destination, UpstreamRequest, UpstreamResponse};
use super::framing;
use super::group::{GroupMember, InFlight, UpstreamGroup};
use super::head::{AttemptFailure, AttemptHead, AttemptStreams, invalid};
use super::http1::RequestWriter;
use super::pool::HoldingBody;
use super::request_body::Upload;
use super::response_body::{StallTimer, UpstreamBody};
use crate::by_site::MissReason;
use crate::clock;
use crate::message::{InterimSink, RequestBody};
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use shoal_core::{FieldLines, Fields};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One request over all its attempts.
pub(super) struct UpstreamCall<'a> {
    inner: &'a Inner,
    head: AttemptHead,
    /// `true` if the body waits until the origin asks for it.
    hold: bool,
    body: RequestBody,
    interim: Option<InterimSink>,
    caller: Caller,
    in_flight: Option<InFlight>,
}

/// Prepared request. `run` borrows the request, so that the caller's future holds one copy.
pub struct PreparedCall<'a> {
    journey: UpstreamCall<'a>,
    destination: Destination,
}

/// Failed attempt.
pub(super) struct FailedAttempt {
    /// Reason for the failure.
    pub error: UpstreamError,
    again: RetrySafety,
    /// The connection had carried requests before.
    reused: bool,
}

/// Rule for sending a request again after a failed attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RetrySafety {
    /// Never. The origin may have acted on the request and must not act twice, or has begun to
    /// answer, or is not at fault.
    No,
    /// If idempotent: the origin may have acted on the request, and may act again.
    IfIdempotent,
    /// Always: the origin has not acted on the request.
    Always,
}

impl Inner {
    /// Prepares a request for sending to its destination.
    pub(super) fn errand(&self, request: UpstreamRequest) -> PreparedCall<'_> {
        let UpstreamRequest { method, target, absolute, fields, host, upgrade, takes_trailers, .. } = request;
        let head = AttemptHead { method, target, absolute, fields, host, upgrade, takes_trailers };
        let journey = UpstreamCall::new(self, head, request.body, request.interim, request.caller);
        PreparedCall { journey, destination: request.destination }
    }
}

impl PreparedCall<'_> {
    /// Sends the request and waits for the head of its response.
    ///
    /// # Errors
    /// Returns an error if no usable response head arrived; see [`Cause`].
    pub async fn run(&mut self) -> Result<UpstreamResponse, UpstreamError> {
        let began = Instant::now();
        let outcome = match self.journey.caller.background.clone() {
            None => self.journey.run(&self.destination, began).await,
            Some(background) => {
                let unsent = UpstreamError::new(Cause::ConnectionLimit, String::new(), NO_SPARE);
                return tokio::select! {
                    biased;
                    outcome = Box::pin(self.journey.run(&self.destination, began)) => outcome,
                    () = background.given_way() => Err(unsent),
                };
            }
        };
        if let Err(error) = &outcome {
            error.cause.counter(&self.journey.inner.metrics).increment();
            if let Some(account) = &self.journey.caller.account {
                account.note_time(micros(began.elapsed()));
                match error.cause {
                    Cause::Refused(_) => account.note_refused(),
                    _ => account.note_reason(MissReason::Error),
                }
            }
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

    /// Asks the destination of the request.
    async fn run(
        &mut self,
        destination: &Destination,
        now: Instant,
    ) -> Result<UpstreamResponse, UpstreamError> {
        match destination {
            Destination::Origin { origin, rules } => match rules.request(&origin.host, origin.port) {
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
            Destination::Peer(peer) => {
                let caller = self.caller.clone();
                let aim = AttemptTarget {
                    origin: &peer.origin,
                    rules: None,
                    is_check: false,
                    place: Some(peer.place(&self.inner.pool)),
                    caller: &caller,
                };
                self.fetch_from_origin(aim, now).await.map_err(|lost| lost.error)
            }
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
        let turn = match group.limit() {
            Some(turns) => {
                // Boxed because it is rare: other requests' futures stay small.
                let turn = Box::pin(turns.take(group, &self.inner.pool, &caller)).await?;
                now = Instant::now();
                Some(turn)
            }
            None => None,
        };
        let choose = |tried: &[usize], now: Instant| {
            pinned.filter(|_| tried.is_empty()).or_else(|| group.choose(key, tried, now.into_std()))
        };
        while let Some(index) = choose(&tried, now) {
            if !tried.is_empty() {
                self.inner.metrics.upstream_failovers.increment();
            }
            self.in_flight = Some(InFlight::begin(group, index, turn.clone()));
            let member = &group.members()[index];
            let place = member.place(&self.inner.pool);
            let aim = AttemptTarget {
                origin: &member.origin,
                rules: None,
                is_check: false,
                place,
                caller: &caller,
            };
            let outcome = self.fetch_from_member(member, aim, now).await;
            let FailedAttempt { mut error, again, .. } = match outcome {
                Ok(response) => {
                    group.answered(index, now.elapsed());
                    return Ok(UpstreamResponse { member: index, ..response });
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

    /// Asks one upstream of a site, in the words that this upstream gets.
    async fn fetch_from_member(
        &mut self,
        member: &GroupMember,
        aim: AttemptTarget<'_>,
        now: Instant,
    ) -> Result<UpstreamResponse, FailedAttempt> {
        let changed = member
            .changes
            .apply(&self.head)
            .map_err(|what| FailedAttempt::before_sending(invalid(what).into_error(aim.origin)))?;
        let Some(changed) = changed else { return self.fetch_from_origin(aim, now).await };
        let own = Box::new(std::mem::replace(&mut self.head, *changed));
        let outcome = self.fetch_from_origin(aim, now).await;
        self.head = *own;
        outcome
    }

    /// Asks one origin, starting at `now`.
    pub async fn fetch_from_origin(
        &mut self,
        aim: AttemptTarget<'_>,
        now: Instant,
    ) -> Result<UpstreamResponse, FailedAttempt> {
        match self.attempt(aim, false, now).await {
            Err(lost) if lost.reused && lost.again != RetrySafety::No => {
                self.inner.metrics.upstream_retries.increment();
                // Boxed because it is rare: otherwise every request's future would be larger.
                Box::pin(self.attempt(aim, true, Instant::now())).await
            }
            outcome => outcome,
        }
    }

    /// Sends the request once, starting at `now`. `fresh` requires a connection that carried no
    /// request before.
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
        let sending = AttemptStreams::new(self.body.take(), self.hold, self.interim.clone(), at);
        let sending = match self.inner.links {
            // Nodes say all the time that they are at work.
            Some(_) => sending.with_any_interims(),
            None => sending,
        };
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
                match RequestWriter::new(&self.head, aim.origin.authority(), &sending.upload) {
                    Ok(mut requesting) => {
                        match lease.connection.send(&mut requesting, &sending, timeout).await {
                            Ok(head) => Ok(Answer::over_http1(head, requesting, lease)),
                            Err(failure) => {
                                if failure.surplus {
                                    lease.place().note_surplus();
                                }
                                Err(failure)
                            }
                        }
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
                .check_response(aim, answer, at, &sending.upload)
                .map_err(|error| FailedAttempt { error, again: RetrySafety::No, reused }),
            Err(failure) => {
                let again = self.again(&failure, &sending.upload);
                Err(FailedAttempt { error: failure.into_error(aim.origin), again, reused })
            }
        }
    }

    /// Returns the rule for sending the request again after `failure`. Takes the body back if a
    /// retry is allowed.
    fn again(&mut self, failure: &AttemptFailure, upload: &Upload) -> RetrySafety {
        let again = match failure {
            AttemptFailure { unsent: true, .. } => RetrySafety::Always,
            // RFC 9110, 9.2.2: "a client SHOULD NOT automatically retry a request with a
            // non-idempotent method".
            AttemptFailure { dead: true, .. } if self.head.method.is_idempotent() => {
                RetrySafety::IfIdempotent
            }
            // The bytes belong to an earlier exchange. The answer to this request is lost with the
            // connection.
            AttemptFailure { surplus: true, .. } if self.head.method.is_safe() => RetrySafety::IfIdempotent,
            _ => return RetrySafety::No,
        };
        let Some(body) = upload.take_untouched() else { return RetrySafety::No };
        self.body = body;
        again
    }

    /// Checks a response's head and builds the response.
    fn check_response(
        &mut self,
        aim: AttemptTarget<'_>,
        mut answer: Answer,
        sent: Instant,
        upload: &Arc<Upload>,
    ) -> Result<UpstreamResponse, UpstreamError> {
        let now = Instant::now();
        let request_time = clock::time_at(sent.into_std());
        let response_time = clock::time_at(now.into_std());
        if let Some(account) = &aim.caller.account {
            account.note_time(micros(now.duration_since(sent)));
        }
        let fail = |(cause, what): (Cause, &str)| UpstreamError::new(cause, aim.origin.authority(), what);
        let (status, version, peer) = (answer.status(), answer.version(), answer.peer());
        let switches = status == StatusCode::SWITCHING_PROTOCOLS;
        let mut fields = answer.take_fields();
        if connection_auth::is_of_connection(&fields) {
            answer.close_after();
        }
        if framing::may_have_surplus(&self.head.method, status, &fields) {
            answer.rest_after();
        }
        let checked = if switches {
            switched(self.head.upgrade.as_ref(), &fields).map(|()| Some(0))
        } else {
            framing::check(&self.head.method, status, &mut fields)
        };
        let length = match checked {
            // An HTTP/2 stream may end with its head, without an announced length.
            Ok(None) if answer.ends_with_head() => Some(0),
            Ok(length) => length,
            Err(fault) => return Err(fail(fault)),
        };
        let (body, upgraded) = if switches {
            let io = answer.upgraded(self.in_flight.take().map(InFlight::without_turn)).map_err(fail)?;
            (Empty::new().map_err(|never| match never {}).boxed_unsync(), Some(io))
        } else {
            let stall = StallTimer::new(self.inner.settings.idle_timeout, upload);
            let metrics = (!aim.is_check).then(|| Arc::clone(&self.inner.metrics));
            let (source, in_flight) = (answer.source(length), self.in_flight.take());
            let body = UpstreamBody::new(source, length, stall, in_flight, metrics)
                .charged_to(aim.caller.account.clone());
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
            member: 0,
            upgraded,
            account: aim.caller.account.clone(),
            is_proxy_only: false,
            from_peer: None,
        })
    }
}

impl FailedAttempt {
    /// Creates the failure of an attempt that got no connection.
    fn before_sending(error: UpstreamError) -> Self {
        let again = if error.cause.is_of_connecting() { RetrySafety::Always } else { RetrySafety::No };
        Self { error, again, reused: false }
    }
}

/// Returns a duration in microseconds.
fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Checks that the origin switched to an offered protocol. RFC 9110, 7.8: "A server MUST NOT switch
/// to a protocol that was not indicated by the client in the corresponding request's Upgrade header
/// field."
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
