//! The request target: its four forms, and what Host must say beside each (RFC 9112 section 3.2).

use super::Authority;
use crate::RequestRefusal;
use bytes::Bytes;
use http::{Method, Uri, Version};

/// Reads the target of a request with `method`, and checks it against the value of Host.
pub(super) fn read(
    target: Bytes,
    method: &Method,
    version: Version,
    host: Option<&[u8]>,
) -> Result<Uri, RequestRefusal> {
    let named = named_by_host(version, host)?;
    // A fragment has no place in any of the forms; the URI parser would drop it silently.
    if target.contains(&b'#') {
        return Err(INVALID);
    }
    match target.as_ref() {
        [b'/', ..] if *method != Method::CONNECT => uri(target),
        _ if *method == Method::CONNECT => authority_form(target, named),
        b"*" if *method == Method::OPTIONS => uri(target),
        _ => absolute_form(target, named),
    }
}

/// "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message that
/// lacks a Host header field and to any request message that contains … a Host header field with an
/// invalid field value."
fn named_by_host(version: Version, host: Option<&[u8]>) -> Result<Option<Authority<'_>>, RequestRefusal> {
    match host {
        Some(value) => {
            Authority::parse(value).map(Some).ok_or(RequestRefusal::bad_request("invalid Host field"))
        }
        None if version == Version::HTTP_10 => Ok(None),
        None => Err(RequestRefusal::bad_request("no Host field")),
    }
}

/// Section 3.2.2 has a proxy replace Host by the target's authority. A request in which the two
/// differ is refused instead: whoever stands before us and routes or filters by Host would have
/// judged another request than the one that we answer and store.
fn absolute_form(target: Bytes, host: Option<Authority<'_>>) -> Result<Uri, RequestRefusal> {
    let uri = uri(target)?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(INVALID);
    };
    let default_port = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let named = Authority::parse(authority.as_str().as_bytes()).ok_or(INVALID)?;
    match host {
        Some(host) if !named.matches(&host, default_port) => Err(HOST_DIFFERS),
        _ => Ok(uri),
    }
}

/// Section 3.2.3: host and port, both required. Clients that leave the port out of Host are known
/// and harmless.
fn authority_form(target: Bytes, host: Option<Authority<'_>>) -> Result<Uri, RequestRefusal> {
    let port = match Authority::parse(&target) {
        Some(named @ Authority { port: Some(port), .. }) => {
            if host.is_some_and(|host| !host.matches(&named, Some(port))) {
                return Err(HOST_DIFFERS);
            }
            port
        }
        _ => return Err(INVALID),
    };
    let uri = uri(target)?;
    if uri.scheme().is_some() || uri.port_u16() != Some(port) {
        return Err(INVALID);
    }
    Ok(uri)
}

/// RFC 9112 section 3.2: recipients of an invalid request-line "SHOULD respond with either a 400
/// (Bad Request) error or a 301 (Moved Permanently) redirect", and a URI is ASCII (RFC 3986 section
/// 2).
fn uri(target: Bytes) -> Result<Uri, RequestRefusal> {
    if !target.is_ascii() {
        return Err(INVALID);
    }
    Uri::from_maybe_shared(target).map_err(|_| INVALID)
}

const INVALID: RequestRefusal = RequestRefusal::bad_request("invalid request target");
const HOST_DIFFERS: RequestRefusal = RequestRefusal::bad_request("Host differs from the request target");
