//! Checks done by HTTP/1's parser but not by the field decoder: sizes, authority, Host, Expect,
//! cookies.

use http::request::Parts;
use http::{HeaderValue, Method, header};
use shoal_wire::{Authority, BODY_BYTES_MAX, HeadLimits, RequestRefusal};

/// Checks a request head, and joins its cookies as HTTP/1 and the exchange expect.
pub(crate) fn head(parts: &mut Parts, limits: &HeadLimits) -> Result<(), RequestRefusal> {
    if target_bytes(parts) > limits.target_bytes_max {
        return Err(RequestRefusal::target_too_long());
    }
    // A URI is ASCII (RFC 3986 section 2). HTTP/1 would refuse others at the next hop.
    if !parts.uri.path_and_query().is_none_or(|path| path.as_str().is_ascii()) {
        return Err(RequestRefusal::bad_request("invalid request target"));
    }
    // Cookie fields are joined first, so that they count as one field.
    join_cookies(parts);
    if parts.headers.len() > limits.fields_max {
        return Err(RequestRefusal::fields_too_large("too many fields"));
    }
    content_length(parts)?;
    authority(parts)?;
    expectation(parts)
}

fn target_bytes(parts: &Parts) -> usize {
    let authority = parts.uri.authority().map_or(0, |authority| authority.as_str().len());
    authority + parts.uri.path_and_query().map_or(0, |path| path.as_str().len())
}

/// RFC 9113 section 8.3.1: "A server SHOULD treat a request as malformed if it contains a Host
/// header field that identifies an entity that differs from the entity in the ":authority"
/// pseudo-header field". The other rules are HTTP/1.1's: one authority, without user information,
/// with a port for CONNECT.
fn authority(parts: &Parts) -> Result<(), RequestRefusal> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host =
        hosts.next().map(|value| Authority::parse(value.as_bytes()).ok_or(INVALID_HOST)).transpose()?;
    if hosts.next().is_some() {
        return Err(RequestRefusal::bad_request("more than one Host"));
    }
    let authority = parts.uri.authority().map(|text| text.as_str().as_bytes());
    let target = authority.map(|text| Authority::parse(text).ok_or(INVALID_AUTHORITY)).transpose()?;
    let default_port = match (parts.uri.scheme_str(), &target) {
        (Some("http"), _) => Some(80),
        (Some("https"), _) => Some(443),
        (_, target) => target.as_ref().and_then(|target| target.port),
    };
    match (target, host) {
        (Some(target), _) if parts.method == Method::CONNECT && target.port.is_none() => {
            Err(INVALID_AUTHORITY)
        }
        (None, _) if parts.method == Method::CONNECT => Err(INVALID_AUTHORITY),
        (Some(target), Some(host)) if !target.matches(&host, default_port) => {
            Err(RequestRefusal::bad_request("Host differs from the request target"))
        }
        (None, None) => Err(RequestRefusal::bad_request("neither authority nor Host")),
        _ => Ok(()),
    }
}

/// Checks Content-Length as HTTP/1.1 does: one number of digits, in range. The stream ignores an
/// invalid number when it compares lengths, but the next recipient may not.
fn content_length(parts: &Parts) -> Result<(), RequestRefusal> {
    let mut lengths = parts.headers.get_all(header::CONTENT_LENGTH).iter();
    let (length, second) = (lengths.next(), lengths.next());
    let sound = |length: &HeaderValue| {
        let is_digits = length.as_bytes().iter().all(u8::is_ascii_digit);
        is_digits
            && length
                .to_str()
                .is_ok_and(|text| text.parse().is_ok_and(|length: u64| length <= BODY_BYTES_MAX))
    };
    match (length, second) {
        (_, Some(_)) => Err(RequestRefusal::bad_request("more than one Content-Length")),
        (Some(length), None) if !sound(length) => Err(RequestRefusal::bad_request("invalid Content-Length")),
        _ => Ok(()),
    }
}

fn expectation(parts: &Parts) -> Result<(), RequestRefusal> {
    match parts.headers.get(header::EXPECT) {
        Some(value) if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") => {
            Err(RequestRefusal::expectation_failed())
        }
        _ => Ok(()),
    }
}

/// RFC 9113 section 8.2.3: "If there are multiple Cookie header fields after decompression, these
/// MUST be concatenated into a single octet string using the two-octet delimiter of 0x3b, 0x20 (the
/// ASCII string "; ") before being passed into a non-HTTP/2 context".
fn join_cookies(parts: &mut Parts) {
    let crumbs: Vec<&[u8]> =
        parts.headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        parts.headers.insert(header::COOKIE, joined);
    }
}

const INVALID_HOST: RequestRefusal = RequestRefusal::bad_request("invalid Host field");
const INVALID_AUTHORITY: RequestRefusal = RequestRefusal::bad_request("invalid authority");

#[cfg(test)]
mod tests {
    use super::*;

    type Fields = &'static [(&'static str, &'static str)];

    fn check(method: &str, uri: &str, fields: Fields) -> Result<Parts, u16> {
        let limits = HeadLimits { head_bytes_max: 4096, fields_max: 4, target_bytes_max: 40 };
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).expect("valid").into_parts();
        head(&mut parts, &limits).map(|()| parts).map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn heads_are_checked_as_in_http_1() {
        let sound: [(&str, &str, Fields); 5] = [
            ("GET", "https://a/", &[]),
            ("GET", "https://a:443/", &[("host", "A")]),
            ("GET", "/", &[("host", "a")]),
            ("CONNECT", "a:443", &[]),
            ("PUT", "http://a/", &[("expect", "100-Continue")]),
        ];
        for (method, uri, fields) in sound {
            assert!(check(method, uri, fields).is_ok(), "{method} {uri} {fields:?}");
        }
        let long = format!("https://a/{}", "x".repeat(40));
        let refused: [(&str, &str, Fields, u16); 14] = [
            ("PUT", "https://a/", &[("content-length", "18446744073709551616")], 400),
            ("PUT", "https://a/", &[("content-length", "5"), ("content-length", "5")], 400),
            ("PUT", "https://a/", &[("content-length", "5, 5")], 400),
            ("GET", "https://a/\u{e9}", &[], 400),
            ("GET", "https://a/?\u{e9}", &[], 400),
            ("GET", "/", &[], 400),
            ("GET", "https://a/", &[("host", "b")], 400),
            ("GET", "https://a/", &[("host", "a:80")], 400),
            ("GET", "/", &[("host", "a"), ("host", "a")], 400),
            ("GET", "https://u@a/", &[], 400),
            ("CONNECT", "a", &[], 400),
            ("GET", long.as_str(), &[], 414),
            ("GET", "https://a/", &[("x", "1"), ("x", "2"), ("x", "3"), ("x", "4"), ("x", "5")], 431),
            ("GET", "https://a/", &[("expect", "miracle")], 417),
        ];
        for (method, uri, fields, status) in refused {
            assert_eq!(check(method, uri, fields).err(), Some(status), "{method} {uri} {fields:?}");
        }
    }

    #[test]
    fn cookie_crumbs_are_joined() {
        let parts = check("GET", "https://a/", &[("cookie", "a=1"), ("cookie", "b=2")]).expect("sound");
        let cookies: Vec<_> = parts.headers.get_all("cookie").iter().collect();
        assert_eq!(cookies, ["a=1; b=2"]);
    }
}
