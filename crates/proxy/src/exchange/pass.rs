//! Passing on: requests that the cache has no part in, and responses that only one client gets.

use super::Exchange;
use super::answers;
use super::ask::Ask;
use super::fetch::{Failure, Fetch, Received};
use super::record::Head;
use super::serve::Why;
use super::verdict::Verdict;
use crate::message::{Client, Outcome, Reply, ReplyBody, ReplyHead, RequestBody};
use crate::tunnel;
use crate::upstream::{Destination, Origin, Scheme, UpstreamRequest, UpstreamResponse};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use shoal_semantics::status_fields::ForwardReason;
use shoal_semantics::storage::{self, Exchanged, Storage};
use shoal_semantics::validation::HeadUpdate;
use shoal_semantics::{date, fields, surrogate, validation};
use shoal_settings::Mode;
use std::sync::Arc;

impl Exchange {
    /// Sends a request on as it is, and its response back.
    pub(super) async fn pass(self: &Arc<Self>, ask: &Ask, body: RequestBody) -> Reply {
        let safe = ask.is_lookup();
        let forwarded = if safe { ForwardReason::Bypass } else { ForwardReason::Method };
        let mut request = self.request_for(ask, self.forwardable(ask));
        request.body = body;
        request.upgrade = tunnel::upgrade_offer(ask.version, &ask.fields);
        let verdict = Verdict::forwarded(forwarded).outcome(Outcome::Pass);
        match self.upstreams.fetch(request).await {
            Ok(response) => {
                self.invalidate_after(ask, response.status, &response.fields).await;
                let tunnel = response.upgraded.is_some();
                let verdict = verdict.forward_status(response.status).upstream(&response.peer.to_string());
                let verdict = if tunnel { verdict.outcome(Outcome::Tunnel) } else { verdict };
                self.pass_on(ask, response, verdict)
            }
            Err(error) => {
                tracing::info!(url = %ask.target.url, %error, "an origin could not be used");
                let failure = Failure::of(&error);
                self.failure_answer(ask, &failure, verdict.failure(&failure))
            }
        }
    }

    /// A HEAD that nothing stored answers. Its response may freshen what is stored (RFC 9111, section 4.3.5).
    pub(super) async fn pass_head(self: &Arc<Self>, ask: &Ask, why: Why) -> Reply {
        let validity = self.invalidations.begin(&ask.primary);
        let request = self.request_for(ask, self.forwardable(ask));
        let response = match self.upstreams.fetch(request).await {
            Ok(response) => response,
            Err(error) => return self.failed(ask, &why, &Failure::of(&error)),
        };
        if let Some(stored) = &why.stored {
            let (held, length) = (&stored.head.stored, stored.body.length());
            let head =
                match validation::head_update(&held.fields(), length, response.status, &response.fields) {
                    HeadUpdate::Freshen => Some(self.freshen(ask, &stored.head, Received::of(&response)).0),
                    HeadUpdate::Invalidate => Some(stored.head.invalidated()),
                    HeadUpdate::Leave => None,
                };
            if let Some(head) = head.map(Arc::new) {
                self.shelf.refresh(&why.key, (&stored.head, &head), &stored.body, &validity).await;
            }
        }
        let verdict =
            Verdict::forwarded(why.forwarded).outcome(Outcome::Pass).forward_status(response.status);
        self.pass_on(ask, response, verdict)
    }

    /// A reply that carries an upstream's response to one client.
    pub(super) fn pass_on(&self, ask: &Ask, response: UpstreamResponse, verdict: Verdict) -> Reply {
        let live = &ask.live;
        let protocol = response.upgraded.as_ref().and_then(|_| response.fields.get(header::UPGRADE).cloned());
        let mut head = response.fields;
        fields::remove_hop_by_hop(&mut head);
        fields::append_via(&mut head, response.version, &live.hop);
        if !head.contains_key(header::DATE) {
            head.insert(header::DATE, date::format(response.response_time));
        }
        let cache_status = verdict.add_to(&mut head, live);
        let content_type = head.get(header::CONTENT_TYPE).cloned();
        let record = verdict.record(ask, cache_status, response.status, content_type);
        if let Some(far_end) = response.upgraded {
            if let Some(protocol) = protocol {
                head.insert(header::UPGRADE, protocol);
            }
            return Reply {
                head: ReplyHead::Built(response.status, head),
                body: ReplyBody::Tunnel(far_end),
                record,
            };
        }
        let empty = ask.method == Method::HEAD || response.length == Some(0);
        let body = if empty {
            ReplyBody::Empty
        } else {
            ReplyBody::Stream { frames: response.body, length: response.length }
        };
        Reply { head: ReplyHead::Built(response.status, head), body, record }
    }

    /// CONNECT: a tunnel to where the rules allow one.
    pub(super) async fn connect(&self, head: &Parts, client: &Arc<Client>, mode: Mode) -> Reply {
        if mode == Mode::Reverse {
            return self.early(
                head,
                client,
                StatusCode::METHOD_NOT_ALLOWED,
                NO_TUNNELS,
                Verdict::local("method"),
            );
        }
        let live = self.live();
        let Some(authority) = head.uri.authority() else {
            return self.early(head, client, StatusCode::BAD_REQUEST, NO_AUTHORITY, Verdict::local("target"));
        };
        let port = authority.port_u16().unwrap_or(443);
        match tunnel::connect(&self.upstreams, &live.forward, authority.host(), port).await {
            Ok(far_end) => {
                let mut reply = self.early(
                    head,
                    client,
                    StatusCode::OK,
                    "",
                    Verdict::local("tunnel").outcome(Outcome::Tunnel),
                );
                reply.head = ReplyHead::Built(StatusCode::OK, HeaderMap::new());
                reply.body = ReplyBody::Tunnel(far_end.io);
                reply.record.upstream = Some(far_end.peer.to_string());
                reply
            }
            Err(error) => {
                tracing::info!(%authority, %error, "no tunnel");
                let verdict = Verdict::local("tunnel").failure(&Failure::of(&error));
                self.early(head, client, error.status(), answers::explain(error.status()), verdict)
            }
        }
    }

    /// The request that a fetch sends: conditions of ours instead of the client's.
    pub(super) fn upstream_request(&self, fetch: &Fetch) -> UpstreamRequest {
        let mut fields = self.forwardable(&fetch.ask);
        fields.remove(header::RANGE);
        match &fetch.stored {
            Some((_, stored)) => drop(validation::add_conditions(&stored.head.stored.fields(), &mut fields)),
            None if fetch.conditional => {}
            None => validation::remove_conditions(&mut fields),
        }
        if let Some(range) = &fetch.range {
            fields.insert(header::RANGE, range.clone());
            if let Some(validator) = &fetch.if_range {
                fields.insert(header::IF_RANGE, validator.clone());
            }
        }
        let mut request = self.request_for(&fetch.ask, fields);
        request.method = Method::GET;
        request
    }

    fn request_for(&self, ask: &Ask, fields: HeaderMap) -> UpstreamRequest {
        let (destination, host) = match &ask.site {
            Some(site) => {
                let group = Arc::clone(&site.group);
                let host = if site.preserve_host {
                    HeaderValue::from_str(ask.target.authority()).ok()
                } else {
                    None
                };
                (Destination::Group { group, key: ask.primary.hash().low() }, host)
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
            target: PathAndQuery::try_from(ask.target.path()).unwrap_or(PathAndQuery::from_static("/")),
            fields,
            host,
            body: None,
            interim: ask.interim.clone(),
            upgrade: None,
        }
    }

    /// The request's fields as they may travel on, with what this node adds.
    fn forwardable(&self, ask: &Ask) -> HeaderMap {
        let live = &ask.live;
        let mut onward = fields::end_to_end(&ask.fields, OWN_FIELDS);
        onward.remove(header::HOST);
        if ask.is_lookup() && !ask.fields.contains_key(header::UPGRADE) {
            onward.remove(header::CONTENT_LENGTH);
        }
        if let Some(left) = ask.max_forwards() {
            onward.insert(header::MAX_FORWARDS, HeaderValue::from(left.saturating_sub(1)));
        }
        fields::append_via(&mut onward, ask.version, &live.hop);
        fields::append_cdn_loop(&mut onward, &live.hop);
        if ask.site.is_some() {
            if let Some(capability) = &live.surrogate_capability {
                onward.append(surrogate::SURROGATE_CAPABILITY, capability.clone());
            }
            crate::route::add_forwarded(&mut onward, &ask.client, host_asked_for(ask).as_ref());
        }
        onward
    }

    /// The stored head, freshened by a 304 or a HEAD; and what this brings for the one client who asked.
    pub(super) fn freshen(&self, ask: &Ask, stored: &Head, response: Received<'_>) -> (Head, HeaderMap) {
        let live = &ask.live;
        let mut fields = stored.stored.fields();
        validation::freshen(&mut fields, response.fields);
        // As with a full response; by the stored Date it would be old already.
        if !response.fields.contains_key(header::DATE) {
            fields.insert(header::DATE, date::format(response.response_time));
        }
        if response.fields.contains_key(header::VIA) {
            fields::append_via(&mut fields, response.version, &live.hop);
        }
        let exchanged = Exchanged {
            method: &Method::GET,
            request: &ask.fields,
            status: stored.stored.status(),
            response: &fields,
            request_time: response.request_time,
            response_time: response.response_time,
        };
        let policy = match storage::assess(&exchanged, live.rules(ask)) {
            Storage::Store(policy) => policy,
            // what may not be stored any longer is used once more, for this request
            Storage::Refuse(_) => stored.policy.invalidated(),
        };
        let names = self.names(ask, &fields);
        let (fields, apart) = storage::split_fields(&fields, live.rules(ask));
        // Not what was stored before, and for others then.
        let mut brought = HeaderMap::new();
        for (name, value) in apart.iter().filter(|(name, _)| response.fields.contains_key(*name)) {
            brought.append(name.clone(), value.clone());
        }
        (Head::new(stored.stored.status(), fields, policy, (response.request_time, names)), brought)
    }

    /// An answer of our own to a request that went as far as an [`Ask`].
    pub(super) fn own_answer(&self, ask: &Ask, status: StatusCode, why: &str, verdict: Verdict) -> Reply {
        let (fields, body) = answers::page(status, why, &ask.method);
        self.own_fields(ask, status, fields, body, verdict)
    }

    /// The same with fields and body of one's own.
    pub(super) fn own_fields(
        &self,
        ask: &Ask,
        status: StatusCode,
        mut fields: HeaderMap,
        body: ReplyBody,
        verdict: Verdict,
    ) -> Reply {
        let cache_status = verdict.add_to(&mut fields, &ask.live);
        let record = verdict.record(ask, cache_status, status, fields.get(header::CONTENT_TYPE).cloned());
        Reply { head: ReplyHead::Built(status, fields), body, record }
    }

    /// The answer when no origin could be asked.
    pub(super) fn failure_answer(&self, ask: &Ask, failure: &Failure, verdict: Verdict) -> Reply {
        let (mut fields, body) = answers::page(failure.status, answers::explain(failure.status), &ask.method);
        if let Some(seconds) = failure.retry_after_seconds {
            fields.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        self.own_fields(ask, failure.status, fields, body, verdict)
    }
}

/// The host that the client asked for: in HTTP/2 `:authority` stands for the Host field (RFC 9113, section 8.3.1).
fn host_asked_for(ask: &Ask) -> Option<HeaderValue> {
    let host = ask.fields.get(header::HOST).cloned();
    let authority =
        || HeaderValue::from_str(ask.target.authority()).ok().filter(|_| ask.version == Version::HTTP_2);
    host.or_else(authority)
}

const NO_TUNNELS: &str = "This server makes no tunnels.";
const NO_AUTHORITY: &str = "CONNECT needs a host and a port.";
/// Fields that a forwarded request gets from us, at most.
const OWN_FIELDS: usize = 8;
