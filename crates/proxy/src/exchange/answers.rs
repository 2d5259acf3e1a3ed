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
use shoal_semantics::status_fields::ProxyError;
use shoal_settings::Mode;
use shoal_wire::RequestParts;

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
    mut fields: HeaderMap,
    body: ReplyBody,
    verdict: HandlingReport,
) -> Reply {
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
    let page = page(status, why, &head.method);
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
    let record = verdict.early_record(cache_status, client, status, clock::now());
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
    let verdict = match refusal {
        AccessRefusal::Site => HandlingReport::local("site"),
        AccessRefusal::Misdirected => HandlingReport::local("misdirected"),
        AccessRefusal::Tunnels => HandlingReport::local("method"),
        AccessRefusal::Purge(_) => HandlingReport::local("purge").outcome(CacheResult::Denied),
        _ => HandlingReport::local("denied").outcome(CacheResult::Denied).error(refusal.proxy_status()),
    };
    let mut reply = early(live, head, client, (status, denial(refusal)), verdict);
    if let ReplyHead::Built(_, fields) = &mut reply.head
        && status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
    {
        fields.insert(header::PROXY_AUTHENTICATE, live.forward.challenge().clone());
    }
    reply
}

/// Refuses a request that has already passed this node: RFC 8586, and Via (RFC 9110, section
/// 7.6.3).
pub(super) fn loop_detected(live: &ExchangeSettings, head: &RequestParts, client: &Client) -> Option<Reply> {
    let hop = &live.hop;
    let been_here = fields::via_contains(&head.fields, hop) || fields::cdn_loop_contains(&head.fields, hop);
    been_here.then(|| {
        let status = StatusCode::LOOP_DETECTED;
        let verdict = HandlingReport::local("loop").error(ProxyError::ProxyLoopDetected);
        early(live, head, client, (status, explain(status)), verdict)
    })
}

/// Answers TRACE and OPTIONS that may go no further (RFC 9110, section 7.6.2).
pub(super) fn max_forwards(ask: &RequestContext) -> Option<Reply> {
    if ask.max_forwards()? > 0 {
        return None;
    }
    let mut fields = HeaderMap::new();
    fields.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"));
    let status = if ask.method == Method::OPTIONS { StatusCode::OK } else { StatusCode::METHOD_NOT_ALLOWED };
    Some(own_fields(ask, status, fields, ReplyBody::Empty, HandlingReport::local("max-forwards")))
}
