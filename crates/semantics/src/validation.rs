//! Validation, both ways (RFC 9111, section 4.3): asking the origin whether a stored response still holds, answering a
//! client's conditions from storage, and bringing a stored response up to date.

mod conditions;
mod update;

pub use conditions::{Condition, evaluate};
pub use update::{HeadUpdate, freshen, head_update, selects};

use http::header::{
    CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderName};

/// Whether a request has conditions, If-Range included.
pub fn is_conditional(request: &HeaderMap) -> bool {
    CONDITIONS.iter().any(|name| request.contains_key(name))
}

/// Takes a request's conditions out, If-Range included.
pub fn remove_conditions(request: &mut HeaderMap) {
    for name in &CONDITIONS {
        request.remove(name);
    }
}

/// Makes a request one that validates a stored response: the stored validators take the place of the client's
/// conditions. False when the stored response has none; the request is then unconditional.
///
/// RFC 9111, section 4.3.1: "One such precondition [is] the If-Modified-Since header field […] whose value is that of the
/// Last-Modified header field from the selected (target) stored response, if available. Another is the If-None-Match
/// header field, whose value is that of the ETag header field(s) from relevant responses that the cache is trying to
/// validate, if available." Both are sent, for origins that know only one.
pub fn add_conditions(stored: &HeaderMap, request: &mut HeaderMap) -> bool {
    remove_conditions(request);
    let mut added = false;
    for (validator, condition) in [(&ETAG, &IF_NONE_MATCH), (&LAST_MODIFIED, &IF_MODIFIED_SINCE)] {
        if let Some(value) = stored.get(validator).filter(|value| !value.is_empty()) {
            request.insert(condition.clone(), value.clone());
            added = true;
        }
    }
    added
}

/// The fields of a 304 that stands for a stored response.
///
/// RFC 9110, section 15.4.5: "The server generating a 304 response MUST generate any of the following header fields that
/// would have been sent in a 200 (OK) response to the same request: Content-Location, Date, ETag, and Vary;
/// Cache-Control and Expires". Last-Modified is added because clients without ETag support rely on it, the others because
/// their owners expect them with every answer.
pub fn not_modified_fields(stored: &HeaderMap) -> HeaderMap {
    let sent =
        |name: &HeaderName| SENT_WITH_304.contains(name) || SENT_WITH_304_BY_NAME.contains(&name.as_str());
    stored.iter().filter(|(name, _)| sent(name)).map(|(name, value)| (name.clone(), value.clone())).fold(
        HeaderMap::new(),
        |mut fields, (name, value)| {
            fields.append(name, value);
            fields
        },
    )
}

const CONDITIONS: [HeaderName; 5] =
    [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE];
const SENT_WITH_304: [HeaderName; 8] =
    [CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, LAST_MODIFIED, SET_COOKIE, VARY];
const SENT_WITH_304_BY_NAME: [&str; 4] = [
    "access-control-allow-origin",
    "access-control-expose-headers",
    "cdn-cache-control",
    "timing-allow-origin",
];

#[cfg(test)]
mod tests;
