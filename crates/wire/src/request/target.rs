//! Request target: its four forms, and the Host that each requires (RFC 9112 section 3.2).

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
    // No form allows a fragment; the URI parser would drop it silently.
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

/// Reads Host. "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request
/// message that lacks a Host header field and to any request message that contains … a Host header
/// field with an invalid field value."
fn named_by_host(version: Version, host: Option<&[u8]>) -> Result<Option<Authority<'_>>, RequestRefusal> {
    match host {
        Some(value) => {
            Authority::parse(value).map(Some).ok_or(RequestRefusal::bad_request("invalid Host field"))
        }
        None if version == Version::HTTP_10 => Ok(None),
        None => Err(RequestRefusal::bad_request("no Host field")),
    }
}

/// Reads a target in absolute form. Section 3.2.2 has a proxy replace Host by the target's
/// authority. A request in which the two differ is refused instead. A frontend that routes or
/// filters by Host would otherwise have judged another request than the one that this node answers
/// and stores.
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

/// Reads a target in authority form. Section 3.2.3: host and port, both required. Some harmless
/// clients leave the port out of Host.
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

/// Reads a URI, which must be ASCII (RFC 3986 section 2). RFC 9112 section 3.2: recipients of an
/// invalid request-line "SHOULD respond with either a 400 (Bad Request) error or a 301 (Moved
/// Permanently) redirect".
fn uri(target: Bytes) -> Result<Uri, RequestRefusal> {
    if !target.is_ascii() {
        return Err(INVALID);
    }
    Uri::from_maybe_shared(target).map_err(|_| INVALID)
}

const INVALID: RequestRefusal = RequestRefusal::bad_request("invalid request target");
const HOST_DIFFERS: RequestRefusal = RequestRefusal::bad_request("Host differs from the request target");
