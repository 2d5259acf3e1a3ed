//! Response fields for one client alone, which the stored copy and other clients do not get:
//!
//! - Set-Cookie, Set-Cookie2: they make their receiver a session of the origin. Another client with
//!   the cookie would share the session.
//! - Secure-Session-Registration, Secure-Session-Challenge, and both with `Sec-`: they bind a
//!   session to one browser's key.
//! - Authentication-Info: it reports the use of one client's credentials, such as its next nonce
//!   (RFC 9110, 11.6.3).
//! - WWW-Authenticate with Negotiate, NTLM or Kerberos: a step in authenticating one connection
//!   (RFC 4559).
//! - Fields that `private="…"` and `no-cache="…"` name (RFC 9111, 5.2.2.4 and 5.2.2.7).
//!
//! Other challenges stay: they are the same for all clients and say how to authenticate.
//! Clear-Site-Data stays too, since it belongs to the URL: every client that requests the URL is to
//! clear its data. Proxy-Authenticate and Proxy-Authentication-Info concern one hop and are removed
//! with the other hop-by-hop fields.

use crate::directives::CacheControl;
use crate::rules::SetCookie;
use crate::{CacheRules, fields, lists, targeted};
use http::header::{AGE, Entry, SET_COOKIE, TRAILER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName};
use shoal_core::Fields;

/// Returns `true` if a response sets a cookie.
pub fn sets_cookie(response: &impl Fields) -> bool {
    COOKIES.iter().any(|name| response.has(name))
}

/// Returns `true` if a response sets no cookie, or may be stored without it.
///
/// RFC 9111, section 7.3: "the Set-Cookie response header field does not inhibit caching, as a
/// cacheable response with a Set-Cookie field can be (and often is) used to satisfy subsequent
/// requests to caches. Servers that wish to control caching of these responses are encouraged to
/// emit appropriate Cache-Control response header fields".
///
/// This cache is deliberately stricter. Session middleware adds the field without the origin's
/// knowledge, and the origin sends `public` or `max-age` for the page. nginx and Varnish do not
/// store such a response either.
pub(super) fn may_go_without_cookie(
    response: &impl Fields,
    directives: &CacheControl,
    rules: &CacheRules,
) -> bool {
    let is_left_out = |name: &HeaderName| limited(directives).any(|limited| limited == name);
    rules.overrides.strip_cookies.unwrap_or(rules.set_cookie == SetCookie::Strip)
        || COOKIES.iter().all(|name| !response.has(name) || is_left_out(name))
}

/// Returns the fields to leave out of the stored copy, present in the response or not.
///
/// RFC 9111, section 5.2.2.7: "If a qualified private response directive is present, with an
/// argument that lists one or more field names, then only the listed header fields are limited to a
/// single user: a shared cache MUST NOT store the listed header fields if they are present in the
/// original response".
///
/// Section 5.2.2.4 forbids reusing the fields of a qualified no-cache without validation. Leaving
/// them out keeps that promise without a request to the origin.
pub fn unstored_fields(response: &HeaderMap, rules: &CacheRules) -> Vec<HeaderName> {
    let governing = targeted::effective_directives(response, rules);
    let challenge = has_connection_challenge(response).then_some(WWW_AUTHENTICATE);
    let personal = COOKIES.into_iter().chain(PROOFS).chain(challenge);
    personal.chain(limited(&governing.directives).cloned()).collect()
}

/// Returns the fields of a response in the form in which they are stored (RFC 9111, section 3.1).
/// Left out are fields for this hop or this proxy, and the fields of [`unstored_fields`]. Also left
/// out are Age and Trailer, which are made anew or do not hold for the stored copy.
pub fn stored_fields(response: &HeaderMap, rules: &CacheRules) -> HeaderMap {
    split_fields(response, rules).0
}

/// Returns the fields of [`stored_fields`], and apart from them those of [`unstored_fields`]. The
/// latter are for the one client that made the request.
pub fn split_fields(response: &HeaderMap, rules: &CacheRules) -> (HeaderMap, HeaderMap) {
    let mut stored = response.clone();
    fields::remove_hop_by_hop(&mut stored);
    for name in [AGE, TRAILER] {
        stored.remove(name);
    }
    let apart = take_apart(&mut stored, &unstored_fields(response, rules));
    (stored, apart)
}

/// Removes the fields with these names, and returns them.
pub fn take_apart(fields: &mut HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut apart = HeaderMap::new();
    for name in names {
        if let Entry::Occupied(entry) = fields.entry(name) {
            let (name, values) = entry.remove_entry_mult();
            for value in values {
                apart.append(name.clone(), value);
            }
        }
    }
    apart
}

/// Returns the fields that a qualified `private` or `no-cache` names.
fn limited(directives: &CacheControl) -> impl Iterator<Item = &HeaderName> {
    directives.private.fields().iter().chain(directives.no_cache.fields())
}

/// Returns `true` if a challenge is a step in authenticating a connection.
fn has_connection_challenge(response: &impl Fields) -> bool {
    let scheme = |challenge: &[u8]| {
        let end = challenge.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(challenge.len());
        challenge[..end].to_ascii_lowercase()
    };
    lists::field_members(response, &WWW_AUTHENTICATE)
        .any(|challenge| matches!(&*scheme(challenge), b"negotiate" | b"ntlm" | b"kerberos"))
}

const COOKIES: [HeaderName; 2] = [SET_COOKIE, HeaderName::from_static("set-cookie2")];

/// Fields that bind or prove one client's session.
const PROOFS: [HeaderName; 5] = [
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("secure-session-registration"),
    HeaderName::from_static("secure-session-challenge"),
    HeaderName::from_static("sec-session-registration"),
    HeaderName::from_static("sec-session-challenge"),
];
