//! Validation, both ways (RFC 9111, section 4.3): asking the origin whether a stored response still
//! holds, answering a client's conditions from storage, and bringing a stored response up to date.

mod conditions;
mod update;

pub use conditions::{Condition, evaluate};
pub use update::{HeadUpdate, freshen, head_update, selects};

use http::header::{
    CACHE_CONTROL, CONTENT_LOCATION, DATE, ETAG, EXPIRES, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Whether a request has conditions, If-Range included.
pub fn is_conditional(request: &HeaderMap) -> bool {
    CONDITIONS.iter().any(|name| request.contains_key(name))
}

/// Whether a field of this name, in lower case, is a condition, or If-Range.
pub fn is_condition(name: &[u8]) -> bool {
    CONDITIONS.iter().any(|condition| condition.as_str().as_bytes() == name)
}

/// Takes a request's conditions out, If-Range included.
pub fn remove_conditions(request: &mut HeaderMap) {
    for name in &CONDITIONS {
        request.remove(name);
    }
}

/// Makes a request one that validates a stored 200: the stored validators take the place of the
/// client's conditions. False when the stored response has none; the request is then unconditional.
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

/// The conditions by which a stored response of this status is validated, as [`add_conditions`]
/// sets them.
///
/// What is no success is not asked for by its date: that of an error page, say, may be later than
/// that of the representation that has come since, and a 304 about this would renew the error.
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

/// Whether a 304 that stands for a stored response has its fields of this name, which is in lower
/// case.
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
