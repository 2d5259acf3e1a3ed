//! Passing on: requests that the cache has no part in, and responses that only one client gets.

use super::CacheEngine;
use super::answers;
use super::fetch::{Fetch, FetchFailure, ReceivedHead};
use super::handling_report::HandlingReport;
use super::metadata::{Provenance, ResponseMetadata};
use super::request::RequestContext;
use super::serve::ForwardContext;
use super::settings::ExchangeSettings;
use crate::clock;
use crate::ip_text::push_address;
use crate::message::{
    CacheResult, Client, NextHop, RelayedHead, Reply, ReplyBody, ReplyHead, RequestBody, StreamBody,
};
use crate::route::{self, Speaking};
use crate::tunnel;
use crate::upstream::{
    Caller, Destination, Origin, Scheme, UpstreamRequest, UpstreamResponse, connection_auth,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use shoal_core::{FieldLines, Fields, Key};
use shoal_semantics::status_fields::ForwardReason;
use shoal_semantics::storage::{self, ForwardedExchange, StorageDecision};
use shoal_semantics::validation::HeadUpdate;
use shoal_semantics::{NextHopFields, NextHopFieldsBuilder, date, fields, reuse, surrogate, validation};
use shoal_wire::RequestParts;
use std::sync::Arc;

/// A stored head after a 304 or a HEAD that is about it.
pub(super) struct FreshenedHead {
    /// The head, for the client who asked.
    pub head: Arc<ResponseMetadata>,
    /// Fields that this client alone gets.
    pub own: HeaderMap,
    /// What becomes of what is stored.
    pub fate: FreshenAction,
}

/// What becomes of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreshenAction {
    /// The freshened head takes the place of its own.
    Replace,
    /// It is left as it was.
    Keep,
    /// It is removed: other requests select it now than those that find it.
    Remove,
}

impl CacheEngine {
    /// Sends a request on as it is, and its response back.
    pub(super) async fn pass(self: &Arc<Self>, ask: &RequestContext, body: RequestBody) -> Reply {
        let safe = ask.is_lookup();
        let forwarded = if safe { ForwardReason::Bypass } else { ForwardReason::Method };
        let is_left_out = |name: &[u8]| body.is_none() && is_for_body(ask, name);
        let mut request = self.request_for(ask, self.forwardable(ask, is_left_out).finish());
        request.body = body.map(|body| without_spoken_trailers(ask, body));
        // One request at a time is sent on such a connection, and its response goes to nobody else.
        request.caller.pins = pins(ask);
        request.upgrade = tunnel::upgrade_offer(ask.version, &ask.fields);
        let verdict = HandlingReport::forwarded(forwarded).outcome(CacheResult::Pass);
        match self.upstreams.fetch(request).await {
            Ok(response) => {
                self.invalidate_after(ask, response.status, &response.fields).await;
                let tunnel = response.upgraded.is_some();
                let verdict = verdict.forward_status(response.status);
                let verdict = if tunnel { verdict.outcome(CacheResult::Tunnel) } else { verdict };
                self.pass_on(ask, response, verdict)
            }
            Err(error) => {
                let failure = FetchFailure::of(&ask.target.url, &error);
                self.failure_answer(ask, &failure, verdict.failure(&failure))
            }
        }
    }

    /// A HEAD that nothing stored answers. Its response may freshen what is stored (RFC 9111,
    /// section 4.3.5).
    pub(super) async fn pass_head(self: &Arc<Self>, ask: &RequestContext, why: ForwardContext) -> Reply {
        let validity = self.invalidations.snapshot(&ask.primary);
        let lines = self.forwardable(ask, |name| is_for_body(ask, name)).finish();
        let request = self.request_for(ask, lines);
        let response = match self.upstreams.fetch(request).await {
            Ok(response) => response,
            Err(error) => return self.failed(ask, &why, &FetchFailure::of(&ask.target.url, &error)),
        };
        if reuse::is_error(response.status)
            && let Some(reply) = self.serve_stale_on_error(ask, &why, Some(response.status), None)
        {
            self.heed_retry_after(ask, ReceivedHead::of(&response));
            return reply;
        }
        if let Some(stored) = &why.stored {
            let (held, length) = (stored.head.stored.fields(), stored.body.length());
            let (fields, status) = (response.fields.to_map(), response.status);
            let before = (stored.head.stored.status(), &held);
            let update = validation::head_update(before, length, status, &fields);
            let (head, fate) = match update {
                HeadUpdate::Freshen => {
                    let freshened =
                        self.freshen(ask, (&stored.head, held), (ReceivedHead::of(&response), fields));
                    self.note_reload(ask, &why.key, response.response_time);
                    (freshened.head, freshened.fate)
                }
                HeadUpdate::Invalidate => (Arc::new(stored.head.invalidated()), FreshenAction::Replace),
                HeadUpdate::Leave => (Arc::clone(&stored.head), FreshenAction::Keep),
            };
            match fate {
                FreshenAction::Replace => self.shelf.refresh(&why.key, &head, &validity).await,
                FreshenAction::Remove => drop(self.shelf.remove(&why.key).await),
                FreshenAction::Keep => {}
            }
        }
        let verdict = HandlingReport::forwarded(why.forwarded)
            .outcome(CacheResult::Pass)
            .forward_status(response.status);
        self.pass_on(ask, response, verdict)
    }

    /// A reply that carries an upstream's response to one client.
    pub(super) fn pass_on(
        &self,
        ask: &RequestContext,
        response: UpstreamResponse,
        verdict: HandlingReport,
    ) -> Reply {
        let verdict = verdict.upstream(response.peer);
        let (head, cache_status, content_type) = relayed(ask, &response, &verdict);
        let record = verdict.record(ask, cache_status, response.status, content_type);
        let body = match response.upgraded {
            Some(far_end) => ReplyBody::Tunnel(far_end),
            None if ask.method == Method::HEAD => ReplyBody::Empty,
            // Over HTTP/2, trailers may follow a head that announces a body of no bytes.
            None if response.length == Some(0) && response.body.is_end_stream() => ReplyBody::Empty,
            None => ReplyBody::Stream { frames: response.body, length: response.length },
        };
        Reply { head: ReplyHead::Relayed(head), body, record }
    }

    /// CONNECT: a tunnel to where the rules allow one, name and port of which were judged.
    pub(super) async fn connect(
        &self,
        live: &Arc<ExchangeSettings>,
        head: &RequestParts,
        client: &Arc<Client>,
    ) -> Reply {
        let Some(authority) = head.uri.authority() else {
            let verdict = HandlingReport::local("target");
            return self.early(live, head, client, (StatusCode::BAD_REQUEST, NO_AUTHORITY), verdict);
        };
        let port = authority.port_u16().unwrap_or(443);
        let caller = Caller { client: Some(Arc::clone(client)), ..Caller::default() };
        match tunnel::connect(&self.upstreams, &live.forward, authority.host(), port, &caller).await {
            Ok(far_end) => {
                let verdict = HandlingReport::local("tunnel").outcome(CacheResult::Tunnel);
                let mut reply = self.early(live, head, client, (StatusCode::OK, ""), verdict);
                reply.head = ReplyHead::Built(StatusCode::OK, HeaderMap::new());
                reply.body = ReplyBody::Tunnel(far_end.io);
                reply.record.upstream = Some(NextHop::Address(far_end.peer));
                reply
            }
            Err(error) => {
                let failure = FetchFailure::of(authority.as_str(), &error);
                let verdict = HandlingReport::local("tunnel").failure(&failure);
                self.early(live, head, client, (error.status(), failure.explanation), verdict)
            }
        }
    }

    /// The request that a fetch sends: conditions of ours instead of the client's.
    pub(super) fn upstream_request(&self, fetch: &Fetch) -> UpstreamRequest {
        let ask = &*fetch.ask;
        let keeps_conditions = fetch.conditional && fetch.stored.is_none();
        let mut onward = self.forwardable(ask, |name| {
            let is_range = matches!(name, b"range" | b"if-range");
            let is_replaced = is_range || !keeps_conditions && validation::is_condition(name);
            is_replaced || is_for_body(ask, name)
        });
        if let Some((_, stored)) = &fetch.stored {
            let held = &stored.head.stored;
            for (name, value) in validation::conditions_of(held.status(), &held.fields()) {
                onward.field(&name, value.as_bytes());
            }
        }
        if let Some(range) = &fetch.range {
            onward.field(&header::RANGE, range.as_bytes());
            if let Some(validator) = &fetch.if_range {
                onward.field(&header::IF_RANGE, validator.as_bytes());
            }
        }
        let mut request = self.request_for(ask, onward.finish());
        request.method = Method::GET;
        request
    }

    fn request_for(&self, ask: &RequestContext, fields: NextHopFields) -> UpstreamRequest {
        let (destination, host) = match &ask.site {
            Some(site) => {
                let group = Arc::clone(&site.group);
                let host = site.preserve_host.then(|| named_host(ask)).flatten();
                (Destination::Group { group, key: Key::unkeyed(ask.primary.full()).low() }, host)
            }
            None => {
                let scheme = if ask.target.https { Scheme::Https } else { Scheme::Http };
                let origin = Origin::new(scheme, ask.target.host(), ask.target.port);
                (Destination::Origin { origin, rules: Arc::clone(&ask.live.forward) }, None)
            }
        };
        UpstreamRequest {
            method: ask.method.clone(),
            destination,
            target: ask.path.clone(),
            fields,
            host,
            takes_trailers: takes_trailers(&ask.fields),
            body: None,
            interim: ask.interim.clone(),
            upgrade: None,
            caller: Caller {
                client: Some(Arc::clone(&ask.client)),
                pins: false,
                authenticates: connection_auth::authenticates(&ask.fields),
            },
        }
    }

    /// The request's fields as they may travel on, but for those that `is_left_out` names, with
    /// what this node adds.
    fn forwardable<'a>(
        &self,
        ask: &'a RequestContext,
        is_left_out: impl Fn(&[u8]) -> bool,
    ) -> NextHopFieldsBuilder<'a> {
        let live = &ask.live;
        let forwards_left = ask.max_forwards();
        let is_ours = |name: &[u8]| match name {
            b"host" | b"via" | b"cdn-loop" => true,
            b"max-forwards" => forwards_left.is_some(),
            _ => ask.keeps_back(name),
        };
        let mut onward = NextHopFieldsBuilder::of(&ask.fields, |name| is_ours(name) || is_left_out(name));
        if let Some(left) = forwards_left {
            onward.field(&header::MAX_FORWARDS, HeaderValue::from(left.saturating_sub(1)).as_bytes());
        }
        // RFC 9110, 7.6.3: "An HTTP-to-HTTP gateway MUST send an appropriate Via header field in
        // each inbound request message". An operator may have a site deviate, whose upstreams
        // answer otherwise for proxies; CDN-Loop finds loops as well.
        if ask.site.as_ref().is_none_or(|site| site.via) {
            onward.member(&header::VIA, |out| fields::write_via(ask.version, &live.hop, out));
        }
        onward.member(&fields::CDN_LOOP, |out| out.extend_from_slice(live.hop.as_bytes()));
        if ask.site.is_some() {
            if let Some(capability) = &live.surrogate_capability {
                onward.field(&surrogate::SURROGATE_CAPABILITY, capability.as_bytes());
            }
            add_client(&mut onward, ask);
        }
        onward
    }

    /// The stored head, freshened by a 304 or a HEAD; its fields and the response's come along as
    /// maps.
    pub(super) fn freshen(
        &self,
        ask: &RequestContext,
        (stored, mut fields): (&ResponseMetadata, HeaderMap),
        (response, mut newer): (ReceivedHead<'_>, HeaderMap),
    ) -> FreshenedHead {
        let live = &ask.live;
        let rules = live.rules(ask);
        // What it brings for this client, a cookie say, is no reason to judge the stored response
        // anew.
        let names = storage::unstored_fields(&newer, rules);
        let mut own = storage::take_apart(&mut newer, &names);
        let is_selected_as_before = validation::freshen(&mut fields, &newer);
        // As with a full response; by the stored Date it would be old already.
        if !newer.contains_key(header::DATE) {
            fields.insert(header::DATE, date::format(clock::date_at(response.response_time)));
        }
        if newer.contains_key(header::VIA) {
            fields::append_via(&mut fields, response.version, &live.hop);
        }
        let exchanged = ForwardedExchange {
            method: &Method::GET,
            query: ask.path.query(),
            request: &ask.fields,
            status: stored.stored.status(),
            response: &fields,
            request_time: clock::date_at(response.request_time),
            response_time: clock::date_at(response.response_time),
        };
        let (policy, fate) = match storage::may_store(&exchanged, rules) {
            StorageDecision::Store(policy) => {
                (policy.received(response.response_time), FreshenAction::Replace)
            }
            // what this request brings may not be stored, but what others brought stays theirs
            StorageDecision::Refuse(refusal) if refusal.is_of_request() && !stored.policy.is_authorized() => {
                (stored.policy.invalidated(), FreshenAction::Keep)
            }
            // what may not be stored any longer is used once more, for this request
            StorageDecision::Refuse(_) => (stored.policy.invalidated(), FreshenAction::Replace),
        };
        let fate = if is_selected_as_before { fate } else { FreshenAction::Remove };
        let names = self.names(ask, &fields);
        let (fields, apart) = storage::split_fields(&fields, rules);
        // Not what was stored before, and for others then.
        for (name, value) in apart.iter().filter(|(name, _)| newer.contains_key(*name)) {
            own.append(name.clone(), value.clone());
        }
        let origin = Provenance { requested: ask.sequence, names, identity: stored.identity.renewed() };
        let head = ResponseMetadata::new(stored.stored.status(), fields, policy, origin);
        FreshenedHead { head: Arc::new(head), own, fate }
    }

    /// An answer of our own to a request that went as far as an [`RequestContext`].
    pub(super) fn own_answer(
        &self,
        ask: &RequestContext,
        status: StatusCode,
        why: &str,
        verdict: HandlingReport,
    ) -> Reply {
        let (fields, body) = answers::page(status, why, &ask.method);
        self.own_fields(ask, status, fields, body, verdict)
    }

    /// The same with fields and body of one's own.
    pub(super) fn own_fields(
        &self,
        ask: &RequestContext,
        status: StatusCode,
        mut fields: HeaderMap,
        body: ReplyBody,
        verdict: HandlingReport,
    ) -> Reply {
        let cache_status = verdict.add_to(&mut fields, &ask.live);
        let record = verdict.record(ask, cache_status, status, fields.get(header::CONTENT_TYPE).cloned());
        Reply { head: ReplyHead::Built(status, fields), body, record }
    }

    /// The answer when no origin could be asked.
    pub(super) fn failure_answer(
        &self,
        ask: &RequestContext,
        failure: &FetchFailure,
        verdict: HandlingReport,
    ) -> Reply {
        let (mut fields, body) = answers::page(failure.status, failure.explanation, &ask.method);
        if let Some(seconds) = failure.retry_after_seconds {
            fields.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        self.own_fields(ask, failure.status, fields, body, verdict)
    }
}

/// The head of a reply that carries this response; the Cache-Status member of this node, and the
/// content type, in it.
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
    // Of a response without a body the field may say something else.
    let length = response.length.filter(|length| *length > 0).or_else(|| {
        let said = fields.value(&header::CONTENT_LENGTH)?;
        std::str::from_utf8(said).ok()?.parse().ok()
    });
    let stays = onward.is_nominated(&header::CONTENT_TYPE);
    let content_type = fields.shared_value(&header::CONTENT_TYPE).filter(|_| !stays);
    (RelayedHead { status: response.status, lines: onward.finish(), length }, cache_status, content_type)
}

/// Whether a connection that a login authenticates is kept for the client.
fn pins(ask: &RequestContext) -> bool {
    ask.version != Version::HTTP_2
}

/// Whether the client knows of the proxy through which it may log in so.
fn pins_logins(ask: &RequestContext) -> bool {
    ask.site.is_none() && pins(ask)
}

/// Whether the client said `TE: trailers`.
fn takes_trailers(fields: &FieldLines) -> bool {
    let mut members = fields.values(&header::TE).flat_map(|value| value.split(|byte| *byte == b','));
    members.any(|member| member.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

/// Whether a field says something of a request's body, and does not go along without one. Its
/// length does for methods that are meant for content, and with an Upgrade.
fn is_for_body(ask: &RequestContext, name: &[u8]) -> bool {
    match name {
        // RFC 9110, 10.1.1: "A client MUST NOT generate a 100-continue expectation in a request
        // that does not include content."
        b"expect" => true,
        b"content-length" => ask.is_lookup() && !ask.fields.has(&header::UPGRADE),
        _ => false,
    }
}

/// The effective URI's authority, mostly as the client spelt it.
fn named_host(ask: &RequestContext) -> Option<HeaderValue> {
    let authority = ask.target.authority();
    let said = ask.fields.shared_value(&header::HOST).filter(|said| said.as_bytes() == authority.as_bytes());
    said.or_else(|| HeaderValue::from_str(authority).ok())
}

/// Says who asks, and how. Fields that a trusted proxy named the client by get the address that is
/// gone by here.
fn add_client(onward: &mut NextHopFieldsBuilder<'_>, ask: &RequestContext) {
    let proxies = ask.way.as_ref().map_or(&[][..], |way| &way.proxies);
    route::add_forwarded(onward, &ask.client, proxies, ask.target.authority());
    if ask.way.is_none() {
        return;
    }
    let is_address = |name: &&[u8]| Speaking::of(name) == Some(Speaking::Address) && *name != X_FORWARDED_FOR;
    let mut told: Vec<&[u8]> = ask.fields.lines().map(|(name, _)| name).filter(is_address).collect();
    told.sort_unstable();
    told.dedup();
    let mut address = Vec::new();
    push_address(&mut address, ask.client.address.ip().to_canonical());
    for name in told.iter().filter_map(|name| HeaderName::from_bytes(name).ok()) {
        onward.field(&name, &address);
    }
}

/// The body without trailers that an origin would take for what the head may not say.
fn without_spoken_trailers(ask: &RequestContext, body: StreamBody) -> StreamBody {
    if ask.site.is_none() && !ask.is_lookup() {
        return body;
    }
    let clean = |mut frame: Frame<Bytes>| {
        if let Some(trailers) = frame.trailers_mut() {
            let is_spoken = |name: &&HeaderName| Speaking::of(name.as_str().as_bytes()).is_some();
            let spoken: Vec<HeaderName> = trailers.keys().filter(is_spoken).cloned().collect();
            spoken.iter().for_each(|name| drop(trailers.remove(name)));
        }
        frame
    };
    body.map_frame(clean).boxed_unsync()
}

const X_FORWARDED_FOR: &[u8] = b"x-forwarded-for";
const NO_AUTHORITY: &str = "CONNECT needs a host and a port.";
