//! Validation of stored responses at the origin, and of clients' conditions from storage (RFC 9111,
//! section 4.3).
//!
//! Also brings stored responses up to date.

mod conditions;
mod update;

pub use conditions::{Condition, evaluate};
pub use update::{HeadUpdate, freshen, head_update, selects};

use http::header::{
    CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Returns `true` if a request has conditions, If-Range included.
pub fn is_conditional(request: &HeaderMap) -> bool {
    CONDITIONS.iter().any(|name| request.contains_key(name))
}

/// Returns `true` if a field of this name, in lower case, is a condition, or If-Range.
pub fn is_condition(name: &[u8]) -> bool {
    CONDITIONS.iter().any(|condition| condition.as_str().as_bytes() == name)
}

/// Removes a request's conditions, If-Range included.
pub fn remove_conditions(request: &mut HeaderMap) {
    for name in &CONDITIONS {
        request.remove(name);
    }
}

/// Turns a request into one that validates a stored 200: the stored validators replace the client's
/// conditions. Returns `false` when the stored response has no validators; the request is then
/// unconditional.
///
/// RFC 9111, section 4.3.1: "When generating a conditional request for validation, a cache: MUST
/// send the relevant entity tags (using If-Match, If-None-Match, or If-Range) if the entity tags
/// were provided in the stored response(s) being validated. SHOULD send the Last-Modified value
/// (using If-Modified-Since) if the request is not for a subrange, a single stored response is
/// being validated, and that response contains a Last-Modified value. […] In most cases, both
/// validators are generated in cache validation requests, even when entity tags are clearly
/// superior, to allow old intermediaries that do not understand entity tag preconditions to respond
/// appropriately."
pub fn add_conditions(stored: &HeaderMap, request: &mut HeaderMap) -> bool {
    remove_conditions(request);
    let mut added = false;
    for (condition, value) in conditions_of(StatusCode::OK, stored) {
        request.insert(condition, value.clone());
        added = true;
    }
    added
}

/// Returns the conditions that validate a stored response of this status, as [`add_conditions`]
/// sets them.
///
/// Only a success is validated by its date. The date of an error page may be later than that of a
/// newer representation. A 304 to such a date would renew the error.
pub fn conditions_of(
    status: StatusCode,
    stored: &HeaderMap,
) -> impl Iterator<Item = (HeaderName, &HeaderValue)> {
    let pairs = [(ETAG, IF_NONE_MATCH), (LAST_MODIFIED, IF_MODIFIED_SINCE)];
    let dated = status.is_success();
    pairs.into_iter().filter(move |(validator, _)| dated || *validator != LAST_MODIFIED).filter_map(
        |(validator, condition)| {
            let value = stored.get(validator).filter(|value| !value.is_empty())?;
            Some((condition, value))
        },
    )
}

/// Returns `true` if a 304 that stands for a stored response carries its fields of this name, in
/// lower case.
///
/// RFC 9110, section 15.4.5: "The server generating a 304 response MUST generate any of the
/// following header fields that would have been sent in a 200 (OK) response to the same request:
/// Content-Location, Date, ETag, and Vary; Cache-Control and Expires". Last-Modified is for clients
/// that do not know entity tags, CDN-Cache-Control for caches behind this one.
pub fn is_sent_with_304(name: &[u8]) -> bool {
    SENT_WITH_304.iter().any(|sent| sent.as_str().as_bytes() == name)
}

const CONDITIONS: [HeaderName; 5] =
    [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE];
const SENT_WITH_304: [HeaderName; 8] = [
    CACHE_CONTROL,
    CONTENT_LOCATION,
    DATE,
    ETAG,
    EXPIRES,
    LAST_MODIFIED,
    VARY,
    HeaderName::from_static("cdn-cache-control"),
];

#[cfg(test)]
mod tests;
