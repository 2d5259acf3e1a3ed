//! Stored responses that an unsafe request makes invalid (RFC 9111, section 4.4).
//!
//! "Because unsafe request methods […] such as PUT, POST, or DELETE have the potential for changing
//! state on the origin server, intervening caches are required to invalidate stored responses to
//! keep their contents up to date."

use http::header::{CONTENT_LOCATION, LOCATION};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri};

/// Returns `true` if a method is safe. RFC 9111, section 4.4: caches "MUST invalidate the target
/// URI when [they receive] a non-error status code in response to an unsafe request method
/// (including methods whose safety is unknown)."
///
/// Known to be safe are GET, HEAD, OPTIONS, TRACE (RFC 9110), PROPFIND, REPORT, SEARCH (WebDAV) and
/// QUERY.
pub fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
        || matches!(method.as_str(), "PROPFIND" | "REPORT" | "SEARCH" | "QUERY")
}

/// Returns `true` if a response invalidates: "A "non-error response" is one with a 2xx (Successful)
/// or 3xx (Redirection) status code."
pub fn applies(method: &Method, status: StatusCode) -> bool {
    !is_safe(method) && *method != Method::CONNECT && (status.is_success() || status.is_redirection())
}

/// Returns the absolute URIs that a response to `method` on `target` invalidates. The target comes
/// first, then the URIs in Location and Content-Location. Empty when the response invalidates
/// nothing.
///
/// "A cache MAY invalidate other URIs when it receives a non-error status code in response to an
/// unsafe request method […]. In particular, the URI(s) in the Location and Content-Location
/// response header fields (if present) are candidates for invalidation […]. However, a cache MUST
/// NOT trigger an invalidation under these conditions if the origin […] of the URI to be
/// invalidated differs from that of the target URI".
pub fn targets(method: &Method, target: &Uri, status: StatusCode, response: &HeaderMap) -> Vec<Uri> {
    if !applies(method, status) {
        return Vec::new();
    }
    let mut uris = vec![target.clone()];
    for name in [LOCATION, CONTENT_LOCATION] {
        let named = reference(response, &name).and_then(|reference| resolve(target, reference));
        uris.extend(named.filter(|uri| same_origin(uri, target)));
    }
    uris
}

/// Returns the URI reference in the only line of a field.
fn reference<'a>(response: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut lines = response.get_all(name).iter();
    let line = lines.next()?.to_str().ok()?;
    lines.next().is_none().then(|| line.trim())
}

/// Returns `true` if scheme, host and port are the same (RFC 6454). The default port of a scheme
/// counts as written.
pub fn same_origin(one: &Uri, other: &Uri) -> bool {
    let port = |uri: &Uri| uri.port_u16().or_else(|| default_port(uri));
    let host = |uri: &Uri| uri.host().map(str::to_ascii_lowercase);
    one.scheme() == other.scheme()
        && host(one).is_some()
        && host(one) == host(other)
        && port(one) == port(other)
}

fn default_port(uri: &Uri) -> Option<u16> {
    match uri.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    }
}

/// Resolves a reference against an absolute http or https URI (RFC 3986, section 5.2.2), without
/// its fragment. `None` when the result is no such URI.
pub fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next().unwrap_or_default();
    let (scheme, authority) = (base.scheme()?, base.authority()?);
    if let Some(rest) = reference.strip_prefix("//") {
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        return compose(scheme, &authority.parse().ok()?, path);
    }
    if has_scheme(reference) {
        let absolute: Uri = reference.parse().ok()?;
        let path = absolute.path_and_query().map_or("/", |path| path.as_str());
        return compose(absolute.scheme()?, absolute.authority()?, path);
    }
    if reference.starts_with('/') {
        return compose(scheme, authority, reference);
    }
    if reference.is_empty() {
        return compose(scheme, authority, base.path_and_query().map_or("/", |path| path.as_str()));
    }
    if reference.starts_with('?') {
        return compose(scheme, authority, &format!("{}{reference}", base.path()));
    }
    let folder = base.path().rfind('/').map_or("/", |end| &base.path()[..=end]);
    compose(scheme, authority, &format!("{folder}{reference}"))
}

/// Returns `true` if a reference begins with `scheme:`.
fn has_scheme(reference: &str) -> bool {
    let end = reference.find([':', '/', '?']).filter(|end| reference.as_bytes()[*end] == b':');
    end.is_some_and(|end| {
        end > 0 && reference[..end].bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+')
    })
}

fn compose(scheme: &Scheme, authority: &Authority, path_and_query: &str) -> Option<Uri> {
    if ![Scheme::HTTP, Scheme::HTTPS].contains(scheme) {
        return None;
    }
    let (path, query) = path_and_query.split_at(path_and_query.find('?').unwrap_or(path_and_query.len()));
    let path_and_query = format!("{}{query}", without_dot_segments(path));
    Uri::builder()
        .scheme(scheme.clone())
        .authority(authority.clone())
        .path_and_query(path_and_query)
        .build()
        .ok()
}

/// Removes dot segments (RFC 3986, section 5.2.4) from a path that begins at the root or is empty.
fn without_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    const TARGET: &str = "http://example.org:8000/a/b/c?q=1";

    fn resolved(reference: &str) -> Option<String> {
        resolve(&TARGET.parse().expect("a URI"), reference).map(|uri| uri.to_string())
    }

    fn invalidated(method: &str, status: u16, lines: &[(HeaderName, &'static str)]) -> Vec<String> {
        let fields =
            lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let status = StatusCode::from_u16(status).expect("a status");
        let target = TARGET.parse().expect("a URI");
        targets(&method, &target, status, &fields).iter().map(Uri::to_string).collect()
    }

    #[test]
    fn unsafe_methods_invalidate_on_success() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "MKCOL", "get"] {
            assert_eq!(invalidated(method, 200, &[]), [TARGET], "{method}");
            assert_eq!(invalidated(method, 303, &[]), [TARGET], "{method}");
            for status in [400, 404, 500, 503] {
                assert!(invalidated(method, status, &[]).is_empty(), "{method} {status}");
            }
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "CONNECT"] {
            assert!(invalidated(method, 200, &[]).is_empty(), "{method}");
        }
    }

    #[test]
    fn location_fields_add_invalidation_targets() {
        let lines = [(LOCATION, "/x"), (CONTENT_LOCATION, "d")];
        assert_eq!(
            invalidated("POST", 201, &lines),
            [TARGET, "http://example.org:8000/x", "http://example.org:8000/a/b/d"]
        );
    }

    #[test]
    fn other_origins_are_left_alone() {
        for location in
            ["http://example.com:8000/x", "https://example.org:8000/x", "http://example.org/x", "//other/x"]
        {
            assert_eq!(invalidated("POST", 201, &[(LOCATION, location)]), [TARGET], "{location}");
        }
        assert_eq!(invalidated("POST", 201, &[(LOCATION, "http://EXAMPLE.org:8000/x")]).len(), 2);
        assert_eq!(invalidated("POST", 201, &[(LOCATION, "/x"), (LOCATION, "/y")]), [TARGET]);
    }

    #[test]
    fn implied_ports() {
        let same =
            |one: &str, other: &str| same_origin(&one.parse().expect(one), &other.parse().expect(other));
        assert!(same("http://a/", "http://a:80/x"));
        assert!(same("https://a:443/", "https://A/"));
        assert!(!same("http://a:443/", "https://a/"));
        assert!(!same("/a", "/a"));
    }

    #[test]
    fn references() {
        for (reference, uri) in [
            ("d", "http://example.org:8000/a/b/d"),
            ("./d", "http://example.org:8000/a/b/d"),
            ("../d/", "http://example.org:8000/a/d/"),
            ("../../../d", "http://example.org:8000/d"),
            ("..", "http://example.org:8000/a/"),
            ("/d?x#y", "http://example.org:8000/d?x"),
            ("?x", "http://example.org:8000/a/b/c?x"),
            ("", "http://example.org:8000/a/b/c?q=1"),
            ("//other:1/d", "http://other:1/d"),
            ("//other", "http://other/"),
            ("https://other", "https://other/"),
            ("http://other/a/../b", "http://other/b"),
            ("d:e", ""),
            ("mailto:x@example.org", ""),
            ("ftp://other/x", ""),
            ("/a b", ""),
        ] {
            let expected = Some(uri).filter(|uri| !uri.is_empty()).map(str::to_owned);
            assert_eq!(resolved(reference), expected, "{reference}");
        }
    }

    proptest! {
        #[test]
        fn resolve_gives_absolute_uri_without_dots_or_none(reference in "[a-z./?:#%]{0,24}") {
            if let Some(uri) = resolved(&reference) {
                let uri: Uri = uri.parse().expect("was composed");
                prop_assert!(uri.scheme().is_some() && uri.path().starts_with('/'));
                prop_assert!(uri.path().split('/').all(|segment| segment != ".." && segment != "."));
            }
        }
    }
}
