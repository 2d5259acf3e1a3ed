//! Passes on requests outside the cache, and responses for one client only.

use super::CacheEngine;
use super::answers;
use super::destination;
use super::fetch::{FetchFailure, ReceivedHead};
use super::handling_report::HandlingReport;
use super::renewal::{FreshenAction, freshen};
use super::request::RequestContext;
use super::serve::{self, ForwardContext};
use super::settings::ExchangeSettings;
use super::stale;
use super::upstream_request::{forwardable, is_for_body, request_for};
use crate::by_site::MissReason;
use crate::clock;
use crate::message::{
    CacheResult, Client, NextHop, RelayedHead, Reply, ReplyBody, ReplyHead, RequestBody, StreamBody,
};
use crate::route::FieldStatement;
use crate::tunnel;
use crate::upstream::{Caller, UpstreamResponse, connection_auth};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use shoal_core::Fields;
use shoal_semantics::status_fields::{ForwardReason, Reason};
use shoal_semantics::validation::HeadUpdate;
use shoal_semantics::{NextHopFieldsBuilder, date, fields, validation};
use shoal_wire::RequestParts;
use std::sync::Arc;

impl CacheEngine {
    /// Sends a request on unchanged, and its response back.
    pub(super) async fn pass(self: &Arc<Self>, ask: &RequestContext, body: RequestBody) -> Reply {
        let safe = ask.is_lookup();
        if safe && ask.ruling.passes && ask.directives.only_if_cached {
            return serve::only_if_cached(ask);
        }
        let forwarded = if safe { ForwardReason::Bypass } else { ForwardReason::Method };
        let destination = destination::at_origin(ask);
        let is_left_out = |name: &[u8]| {
            body.is_none() && is_for_body(ask, name) || destination.is_some() && name == b"destination"
        };
        let mut onward = forwardable(ask, is_left_out);
        if let Some(path) = &destination {
            onward.field(&destination::DESTINATION, path.as_bytes());
        }
        let upgrade = tunnel::upgrade_offer(ask.version, &ask.fields);
        let reason = if upgrade.is_some() { MissReason::Upgrade } else { forwarded.into() };
        let mut request = request_for(ask, onward.finish(), reason);
        request.body = body.map(|body| without_spoken_trailers(ask, body));
        // Such a connection carries one request at a time, and no other client gets its response.
        request.caller.pins = pins(ask);
        request.upgrade = upgrade;
        let verdict = HandlingReport::forwarded(forwarded).outcome(CacheResult::Pass);
        let verdict = if safe && ask.ruling.passes { verdict.detail(Reason::Rule) } else { verdict };
        match self.upstreams.fetch(request).await {
            Ok(mut response) => {
                ask.live.apply_to_response(ask, None, &mut response, &self.metrics);
                self.invalidate_after(ask, response.status, &response.fields).await;
                let tunnel = response.upgraded.is_some();
                let verdict = verdict.forward_status(response.status);
                let verdict = if tunnel { verdict.outcome(CacheResult::Tunnel) } else { verdict };
                pass_on(ask, response, verdict)
            }
            Err(error) => {
                let failure = FetchFailure::of(&ask.target.url, &error);
                answers::failure_answer(ask, &failure, verdict.failure(&failure))
            }
        }
    }

    /// Forwards a HEAD that no stored response answers. The response may freshen the stored one
    /// (RFC 9111, section 4.3.5).
    pub(super) async fn pass_head(self: &Arc<Self>, ask: &RequestContext, why: ForwardContext) -> Reply {
        let validity = self.cache.invalidations.snapshot(&ask.primary);
        let lines = forwardable(ask, |name| is_for_body(ask, name)).finish();
        let from_home = match ask.homes().is_some() && !self.fetcher.is_pass(ask) {
            true => Box::pin(self.fetcher.ask_homes(ask, Method::HEAD, lines.clone())).await,
            false => None,
        };
        let answered = match from_home {
            Some(Ok(response)) => Ok(*response),
            Some(Err(failure)) => return self.failed(ask, &why, &failure),
            None => {
                let request = || request_for(ask, lines.clone(), why.forwarded.into());
                match self.upstreams.fetch(request()).await {
                    Ok(response) if ask.mirror.is_some() => {
                        Box::pin(self.fetcher.follow(ask, &request, response)).await
                    }
                    answered => answered,
                }
            }
        };
        let response = match answered {
            Ok(response) if response.from_peer.is_some() => response,
            Ok(mut response) => {
                ask.live.apply_to_response(ask, why.stored.as_ref(), &mut response, &self.metrics);
                response
            }
            Err(error) => return self.failed(ask, &why, &FetchFailure::of(&ask.target.url, &error)),
        };
        if let Some(reply) =
            stale::serve_stale_on_error(&self.cache.objects, ask, &why, Some(response.status), None)
        {
            self.fetcher.heed_retry_after(ask, ReceivedHead::of(&response));
            return reply;
        }
        if let Some(stored) = &why.stored {
            let (held, length) = (stored.head.stored.fields(), stored.body.length());
            let (fields, status) = (response.fields.to_map(), response.status);
            let before = (stored.head.stored.status(), &held);
            let update = validation::head_update(before, length, status, &fields);
            let (head, fate) = match update {
                HeadUpdate::Freshen => {
                    let freshened = freshen(ask, (&stored.head, held), (ReceivedHead::of(&response), fields));
                    self.fetcher.note_reload(ask, &why.key, response.response_time);
                    (freshened.head, freshened.fate)
                }
                HeadUpdate::Invalidate => (Arc::new(stored.head.invalidated()), FreshenAction::Replace),
                HeadUpdate::Leave => (Arc::clone(&stored.head), FreshenAction::Keep),
            };
            match fate {
                FreshenAction::Replace => self.cache.objects.refresh(&why.key, &head, &validity).await,
                FreshenAction::Remove => drop(self.cache.objects.remove(&why.key).await),
                FreshenAction::Keep => {}
            }
        }
        let verdict = HandlingReport::forwarded(why.forwarded)
            .outcome(CacheResult::Pass)
            .forward_status(response.status);
        pass_on(ask, response, verdict)
    }

    /// Answers a request that wants a stored response only, from another node that holds one.
    /// Returns `None` if no home does.
    pub(super) async fn pass_from_holder(&self, ask: &RequestContext, why: &ForwardContext) -> Option<Reply> {
        if why.stored.is_some() || ask.homes().is_none() || self.fetcher.is_pass(ask) {
            return None;
        }
        let lines = forwardable(ask, |name| is_for_body(ask, name)).finish();
        let response = Box::pin(self.fetcher.ask_homes(ask, ask.method.clone(), lines)).await?.ok()?;
        let verdict = HandlingReport::forwarded(why.forwarded)
            .outcome(CacheResult::Pass)
            .forward_status(response.status);
        Some(pass_on(ask, *response, verdict))
    }

    /// Opens a CONNECT tunnel if the rules allow the address. Name and port were checked before.
    pub(super) async fn connect(
        &self,
        live: &Arc<ExchangeSettings>,
        head: &RequestParts,
        client: &Arc<Client>,
    ) -> Reply {
        let Some(authority) = head.uri.authority() else {
            let verdict = HandlingReport::local(Reason::Target);
            return answers::early(live, head, client, (StatusCode::BAD_REQUEST, NO_AUTHORITY), verdict);
        };
        let port = authority.port_u16().unwrap_or(443);
        let caller = Caller { client: Some(Arc::clone(client)), ..Caller::default() };
        match tunnel::connect(&self.upstreams, &live.forward, authority.host(), port, &caller).await {
            Ok(far_end) => {
                let verdict = HandlingReport::local(Reason::Tunnel).outcome(CacheResult::Tunnel);
                let mut reply = answers::early(live, head, client, (StatusCode::OK, ""), verdict);
                reply.head = ReplyHead::Built(StatusCode::OK, HeaderMap::new());
                reply.body = ReplyBody::Tunnel(far_end.io);
                reply.record.upstream = Some(NextHop::Address(far_end.peer));
                reply
            }
            Err(error) => {
                let failure = FetchFailure::of(authority.as_str(), &error);
                let verdict = HandlingReport::local(Reason::Tunnel).failure(&failure);
                answers::early(live, head, client, (error.status(), failure.explanation), verdict)
            }
        }
    }
}

/// Builds the reply that carries an upstream's response to one client.
pub(super) fn pass_on(ask: &RequestContext, response: UpstreamResponse, verdict: HandlingReport) -> Reply {
    let verdict = verdict.upstream(response.peer);
    let (head, cache_status, content_type) = relayed(ask, &response, &verdict);
    let record = verdict.record(ask, cache_status, response.status, content_type);
    let body = match response.upgraded {
        Some(far_end) => ReplyBody::Tunnel(far_end),
        None if ask.method == Method::HEAD => ReplyBody::Empty,
        // Over HTTP/2, trailers may follow a head that announces an empty body.
        None if response.length == Some(0) && response.body.is_end_stream() => ReplyBody::Empty,
        None => ReplyBody::Stream { frames: response.body, length: response.length },
    };
    Reply { head: ReplyHead::Relayed(head), body, record }
}

/// Returns the head of a reply that carries this response, this node's Cache-Status member, and the
/// content type.
fn relayed(
    ask: &RequestContext,
    response: &UpstreamResponse,
    verdict: &HandlingReport,
) -> (RelayedHead, Bytes, Option<HeaderValue>) {
    let (live, fields) = (&*ask.live, &response.fields);
    let is_left_out =
        |name: &[u8]| matches!(name, b"content-length" | b"via" | b"cache-status" | b"proxy-status");
    let mut onward = NextHopFieldsBuilder::of(fields, is_left_out);
    onward.member(&header::VIA, |out| fields::write_via(response.version, &live.hop, out));
    if !fields.has(&header::DATE) {
        onward.field(&header::DATE, date::format(clock::date_at(response.response_time)).as_bytes());
    }
    if pins_logins(ask) && connection_auth::challenges(fields) && !fields.has(&connection_auth::PROXY_SUPPORT)
    {
        onward.field(&connection_auth::PROXY_SUPPORT, connection_auth::SESSION_BASED);
    }
    let cache_status = verdict.join(&mut onward, live);
    if response.upgraded.is_some()
        && let Some(protocol) = fields.value(&header::UPGRADE)
    {
        onward.field(&header::UPGRADE, protocol);
    }
    // The field may differ from the framing in a response without a body.
    let length = response.length.filter(|length| *length > 0).or_else(|| {
        let said = fields.value(&header::CONTENT_LENGTH)?;
        std::str::from_utf8(said).ok()?.parse().ok()
    });
    let stays = onward.is_nominated(&header::CONTENT_TYPE);
    let content_type = fields.shared_value(&header::CONTENT_TYPE).filter(|_| !stays);
    (RelayedHead { status: response.status, lines: onward.finish(), length }, cache_status, content_type)
}

/// Returns `true` if a connection that a login authenticates is kept for the client.
fn pins(ask: &RequestContext) -> bool {
    ask.version < Version::HTTP_2
}

/// Returns `true` if the client knows the proxy through which it may log in.
fn pins_logins(ask: &RequestContext) -> bool {
    ask.site.is_none() && pins(ask)
}

/// Returns the body without trailers that an origin would read as fields forbidden in the head.
fn without_spoken_trailers(ask: &RequestContext, body: StreamBody) -> StreamBody {
    if ask.site.is_none() && !ask.is_lookup() {
        return body;
    }
    let clean = |mut frame: Frame<Bytes>| {
        if let Some(trailers) = frame.trailers_mut() {
            let is_spoken = |name: &&HeaderName| FieldStatement::of(name.as_str().as_bytes()).is_some();
            let spoken: Vec<HeaderName> = trailers.keys().filter(is_spoken).cloned().collect();
            spoken.iter().for_each(|name| drop(trailers.remove(name)));
        }
        frame
    };
    body.map_frame(clean).boxed_unsync()
}

const NO_AUTHORITY: &str = "CONNECT needs a host and a port.";
