//! Fields of a response that are for one client alone: what is stored, and so what others get, does
//! without them.
//!
//! | field | why it is one client's |
//! |---|---|
//! | Set-Cookie, Set-Cookie2 | it makes its receiver a session of the origin; who gets another's is that other |
//! | Secure-Session-Registration, Secure-Session-Challenge, and with `Sec-` | they bind a session to one browser's key |
//! | Authentication-Info | RFC 9110, 11.6.3: it tells of the use of one client's credentials, such as its next nonce |
//! | WWW-Authenticate with Negotiate, NTLM or Kerberos | RFC 4559: a step in authenticating one connection |
//! | what `private="…"` and `no-cache="…"` name | RFC 9111, 5.2.2.4 and 5.2.2.7 |
//!
//! Other challenges stay: they are the same for everybody, and tell a client how to ask. So does
//! Clear-Site-Data, which belongs to the URL: whoever asks for it is to forget. Proxy-Authenticate
//! and Proxy-Authentication-Info concern one hop and are taken out with the others of their kind.

use crate::directives::CacheControl;
use crate::rules::SetCookie;
use crate::{CacheRules, fields, lists, targeted};
use http::header::{AGE, Entry, SET_COOKIE, TRAILER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName};
use shoal_core::Fields;

/// Whether a response sets a cookie.
pub fn sets_cookie(response: &impl Fields) -> bool {
    COOKIES.iter().any(|name| response.has(name))
}

/// Whether a response sets no cookie, or may be stored without it.
///
/// RFC 9111, section 7.3: "the Set-Cookie response header field does not inhibit caching, as a
/// cacheable response with a Set-Cookie field can be (and often is) used to satisfy subsequent
/// requests to caches. Servers that wish to control caching of these responses are encouraged to
/// emit appropriate Cache-Control response header fields". Deliberately stricter: origins whose
/// session middleware adds the field do not know of it, and say `public` or `max-age` of the page.
/// nginx and Varnish do not store such a response either.
pub(super) fn may_go_without_cookie(
    response: &impl Fields,
    directives: &CacheControl,
    rules: &CacheRules,
) -> bool {
    let is_left_out = |name: &HeaderName| limited(directives).any(|limited| limited == name);
    rules.overrides.strip_cookies.unwrap_or(rules.set_cookie == SetCookie::Strip)
        || COOKIES.iter().all(|name| !response.has(name) || is_left_out(name))
}

/// The fields that the stored copy must do without, whether or not the response has them.
///
/// RFC 9111, section 5.2.2.7: "If a qualified private response directive is present, with an
/// argument that lists one or more field names, then only the listed header fields are limited to a
/// single user: a shared cache MUST NOT store the listed header fields if they are present in the
/// original response". Section 5.2.2.4 forbids to reuse those of a qualified no-cache without
/// validation; leaving them out keeps that promise without asking the origin.
pub fn unstored_fields(response: &HeaderMap, rules: &CacheRules) -> Vec<HeaderName> {
    let governing = targeted::effective_directives(response, rules);
    let challenge = has_connection_challenge(response).then_some(WWW_AUTHENTICATE);
    let personal = COOKIES.into_iter().chain(PROOFS).chain(challenge);
    personal.chain(limited(&governing.directives).cloned()).collect()
}

/// The fields of a response as they are to be stored (RFC 9111, section 3.1): without what concerns
/// this hop or this proxy, without the fields of [`unstored_fields`], and without Age and Trailer,
/// which are made anew or do not hold of the stored copy.
pub fn stored_fields(response: &HeaderMap, rules: &CacheRules) -> HeaderMap {
    split_fields(response, rules).0
}

/// The fields of [`stored_fields`], and apart from them those of [`unstored_fields`]: they are for
/// the one client whose request brought the response.
pub fn split_fields(response: &HeaderMap, rules: &CacheRules) -> (HeaderMap, HeaderMap) {
    let mut stored = response.clone();
    fields::remove_hop_by_hop(&mut stored);
    for name in [AGE, TRAILER] {
        stored.remove(name);
    }
    let apart = take_apart(&mut stored, &unstored_fields(response, rules));
    (stored, apart)
}

/// Takes the fields of these names out, and gives them.
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

/// The fields that a qualified `private` or `no-cache` names.
fn limited(directives: &CacheControl) -> impl Iterator<Item = &HeaderName> {
    directives.private.fields().iter().chain(directives.no_cache.fields())
}

/// Whether a challenge is a step in authenticating a connection.
fn has_connection_challenge(response: &impl Fields) -> bool {
    let scheme = |challenge: &[u8]| {
        let end = challenge.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(challenge.len());
        challenge[..end].to_ascii_lowercase()
    };
    lists::field_members(response, &WWW_AUTHENTICATE)
        .any(|challenge| matches!(&*scheme(challenge), b"negotiate" | b"ntlm" | b"kerberos"))
}

const COOKIES: [HeaderName; 2] = [SET_COOKIE, HeaderName::from_static("set-cookie2")];

/// What binds or proves a session of one client.
const PROOFS: [HeaderName; 5] = [
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("secure-session-registration"),
    HeaderName::from_static("secure-session-challenge"),
    HeaderName::from_static("sec-session-registration"),
    HeaderName::from_static("sec-session-challenge"),
];
