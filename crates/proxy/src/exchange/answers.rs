//! Answers of the proxy's own: error pages and refusals, with the right status and no internals.

use crate::access::AccessRefusal;
use crate::message::ReplyBody;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

/// The fields and body of an answer of our own. `why` is one sentence for the person who reads it.
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

/// What a person is told about a failed fetch; nothing of the inside.
pub fn explain(status: StatusCode) -> &'static str {
    match status {
        StatusCode::GATEWAY_TIMEOUT => "The origin server did not answer in time.",
        StatusCode::SERVICE_UNAVAILABLE => "The origin server cannot take the request now.",
        StatusCode::FORBIDDEN => "This proxy does not serve that destination.",
        StatusCode::LOOP_DETECTED => "The request came back to this proxy.",
        _ => "The origin server could not be reached, or its answer could not be understood.",
    }
}

/// What a person is told who may not have what was asked for, with the setting that an operator
/// would change.
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
