//! The proxy's own answers: error pages and refusals, with the right status and no internals.

use super::denials;
use super::fetch::FetchFailure;
use super::handling_report::{self, HandlingReport};
use super::request::RequestContext;
use super::settings::ExchangeSettings;
use super::target::Target;
use crate::access::AccessRefusal;
use crate::clock;
use crate::message::{CacheResult, Client, Reply, ReplyBody, ReplyHead};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use shoal_semantics::fields;
use shoal_semantics::status_fields::{ProxyError, Reason};
use shoal_settings::Mode;
use shoal_wire::RequestParts;
use std::sync::Arc;

/// Builds the fields and body of the proxy's own answer. `why` is one sentence for the reader.
pub fn page(status: StatusCode, why: &str, method: &Method) -> (HeaderMap, ReplyBody) {
    let reason = status.canonical_reason().unwrap_or("Error");
    let text = format!("{} {reason}\n\n{why}\n", status.as_u16());
    let mut fields = HeaderMap::with_capacity(8);
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    if method == Method::HEAD {
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
        return (fields, ReplyBody::Empty);
    }
    (fields, ReplyBody::Memory(Bytes::from(text)))
}

/// Returns the explanation of a failed fetch for a person, without internals.
pub fn explain(status: StatusCode) -> &'static str {
    match status {
        StatusCode::GATEWAY_TIMEOUT => "The origin server did not answer in time.",
        StatusCode::SERVICE_UNAVAILABLE => "The origin server cannot take the request now.",
        StatusCode::FORBIDDEN => "This proxy does not serve that destination.",
        StatusCode::LOOP_DETECTED => "The request came back to this proxy.",
        _ => "The origin server could not be reached, or its answer could not be understood.",
    }
}

/// Explanation of a failed check of the origin's certificate.
pub const UNTRUSTED: &str = "The origin server's certificate is not trusted, or is not for this host.";

/// Returns the explanation of a refusal for a person, with the setting that an operator would
/// change.
pub fn denial(refusal: &AccessRefusal) -> &'static str {
    match refusal {
        AccessRefusal::Client(_) => "This proxy does not serve your network (allow_clients).",
        AccessRefusal::Credentials => "This proxy wants a user name and a password.",
        AccessRefusal::Port(_) => "This proxy makes no tunnels to that port (forward.connect_ports).",
        AccessRefusal::RequestPort(_) => "This proxy makes no requests to that port (forward.request_ports).",
        AccessRefusal::Own(_) => "The request leads back to this proxy.",
        AccessRefusal::Denied(_) => "This proxy does not serve that destination (forward.deny_destinations).",
        AccessRefusal::Private(..) => {
            "This proxy does not serve that destination: its network is not public (forward.allow_private_destinations)."
        }
        AccessRefusal::Site => "No site is served under this host and path.",
        AccessRefusal::Misdirected => {
            "The connection was made for another server, whose certificate is not for this host: ask over one of its own."
        }
        AccessRefusal::Tunnels => "This server makes no tunnels.",
        AccessRefusal::Purge(_) => "Your network may not purge (admin.purge_from).",
        AccessRefusal::Unauthorized => "This server wants a user name and a password.",
        AccessRefusal::Certificate => "This server wants another client certificate (allow_certificates).",
        AccessRefusal::Rate(_) => "Your network asks too often (client_rate). Try again later.",
        AccessRefusal::Guessing(_) => "Your network has sent too many wrong passwords. Try again later.",
    }
}

/// Builds the proxy's own answer to a request with a [`RequestContext`].
pub(super) fn own_answer(
    ask: &RequestContext,
    status: StatusCode,
    why: &str,
    verdict: HandlingReport,
) -> Reply {
    let (fields, body) = page(status, why, &ask.method);
    own_fields(ask, status, fields, body, verdict)
}

/// Builds an answer with the caller's fields and body.
pub(super) fn own_fields(
    ask: &RequestContext,
    status: StatusCode,
    fields: HeaderMap,
    body: ReplyBody,
    verdict: HandlingReport,
) -> Reply {
    let own = (fields, body);
    let (mut fields, body) = ask.live.own_page(ask.ruling.matching(), status, &ask.method, own);
    let cache_status = verdict.add_to(&mut fields, &ask.live);
    let record = verdict.record(ask, cache_status, status, fields.get(header::CONTENT_TYPE).cloned());
    Reply { head: ReplyHead::Built(status, fields), body, record }
}

/// Builds the answer if no origin could be asked.
pub(super) fn failure_answer(ask: &RequestContext, failure: &FetchFailure, verdict: HandlingReport) -> Reply {
    let (mut fields, body) = page(failure.status, failure.explanation, &ask.method);
    if let Some(seconds) = failure.retry_after_seconds {
        fields.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    own_fields(ask, failure.status, fields, body, verdict)
}

/// Builds an answer given before the request has a [`RequestContext`].
pub(super) fn early(
    live: &ExchangeSettings,
    head: &RequestParts,
    client: &Client,
    (status, why): (StatusCode, &str),
    verdict: HandlingReport,
) -> Reply {
    let page = live.early_page(head, client, status, page(status, why, &head.method));
    let mut reply = finish_early(live, client, status, page, verdict);
    reply.record.method = Some(head.method.clone());
    // Includes the host, like the record of a request that gets further.
    reply.record.url = match Target::of(head, Mode::Reverse, client) {
        Ok(target) if head.uri.path().starts_with('/') && head.uri.authority().is_none() => target.url,
        _ => head.uri.to_string().into(),
    };
    reply.record.version = handling_report::version(head.version);
    reply
}

pub(super) fn finish_early(
    live: &ExchangeSettings,
    client: &Client,
    status: StatusCode,
    (mut fields, body): (HeaderMap, ReplyBody),
    verdict: HandlingReport,
) -> Reply {
    let cache_status = verdict.add_to(&mut fields, live);
    let mut record = verdict.early_record(cache_status, client, status, clock::now());
    let meters = live.routes.meters();
    let meter = if live.mode(client) == Mode::Forward { meters.forward() } else { meters.none() };
    record.site = Some(Arc::clone(meter));
    Reply { head: ReplyHead::Built(status, fields), body, record }
}

/// Builds the answer to a request that an access rule refuses.
pub(super) fn denied(
    live: &ExchangeSettings,
    head: &RequestParts,
    client: &Client,
    refusal: &AccessRefusal,
) -> Reply {
    denials::tell(refusal, &head.uri);
    let status = refusal.status();
    let verdict = HandlingReport::local(detail_of(refusal));
    let verdict = match refusal {
        AccessRefusal::Site | AccessRefusal::Misdirected | AccessRefusal::Tunnels => verdict,
        AccessRefusal::Purge(_) => verdict.outcome(CacheResult::Denied),
        _ => verdict.outcome(CacheResult::Denied).error(refusal.proxy_status()).setting(refusal.setting()),
    };
    let mut reply = early(live, head, client, (status, denial(refusal)), verdict);
    if let ReplyHead::Built(_, fields) = &mut reply.head {
        let own = live.listeners.get(client.listener).and_then(|listener| listener.users.as_ref());
        let own = own.map(|users| users.challenge.clone());
        match refusal {
            AccessRefusal::Credentials => {
                let challenge = own.unwrap_or_else(|| live.forward.challenge().clone());
                fields.insert(header::PROXY_AUTHENTICATE, challenge);
            }
            AccessRefusal::Unauthorized => {
                own.map(|challenge| fields.insert(header::WWW_AUTHENTICATE, challenge));
            }
            AccessRefusal::Rate(seconds) | AccessRefusal::Guessing(seconds) => {
                fields.insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
            }
            _ => {}
        }
    }
    reply
}

/// Returns the detail of Cache-Status for a refusal.
pub(super) fn detail_of(refusal: &AccessRefusal) -> Reason {
    match refusal {
        AccessRefusal::Site => Reason::Site,
        AccessRefusal::Misdirected => Reason::Misdirected,
        AccessRefusal::Tunnels => Reason::Method,
        AccessRefusal::Purge(_) => Reason::Purge,
        AccessRefusal::Rate(_) => Reason::ClientRate,
        AccessRefusal::Guessing(_) => Reason::WrongPasswords,
        AccessRefusal::Unauthorized => Reason::User,
        AccessRefusal::Certificate => Reason::Certificate,
        _ => Reason::Denied,
    }
}

/// Refuses a request that has already passed this node: RFC 8586, and Via (RFC 9110, section
/// 7.6.3).
pub(super) fn loop_detected(live: &ExchangeSettings, head: &RequestParts, client: &Client) -> Option<Reply> {
    let hop = &live.hop;
    let been_here = fields::via_contains(&head.fields, hop)
        || fields::cdn_loop_contains(&head.fields, hop)
        || live.cluster.is_some() && fields::cdn_loop_contains(&head.fields, &live.loop_hop);
    been_here.then(|| {
        let status = StatusCode::LOOP_DETECTED;
        let verdict = HandlingReport::local(Reason::Loop).error(ProxyError::ProxyLoopDetected);
        early(live, head, client, (status, explain(status)), verdict)
    })
}

/// Returns the reason for which a TRACE or OPTIONS goes no further: its number of hops (RFC 9110,
/// section 7.6.2), or fields of this node. The answer to a TRACE would show them to the client, and
/// credentials with them (section 9.3.8).
pub(super) fn end_of_way(ask: &RequestContext) -> Option<Reason> {
    if ask.max_forwards() == Some(0) {
        return Some(Reason::MaxForwards);
    }
    let adds_fields = ask.site.is_some() || ask.ruling.sets_fields();
    (ask.method == Method::TRACE && adds_fields).then_some(Reason::Method)
}

/// Answers TRACE and OPTIONS that go no further.
pub(super) fn at_end_of_way(ask: &RequestContext) -> Option<Reply> {
    let reason = end_of_way(ask)?;
    let mut fields = HeaderMap::new();
    fields.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"));
    let status = if ask.method == Method::OPTIONS { StatusCode::OK } else { StatusCode::METHOD_NOT_ALLOWED };
    Some(own_fields(ask, status, fields, ReplyBody::Empty, HandlingReport::local(reason)))
}
