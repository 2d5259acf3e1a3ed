//! A client's conditions, evaluated on a stored response (RFC 9111, section 4.3.2; RFC 9110, section 13).

use crate::storage::Policy;
use crate::{EntityTag, date, lists};
use http::header::{ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName, StatusCode};
use shoal_core::Timestamp;

/// What a request's conditions ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Send the stored response, or the range of it.
    Proceed,
    /// Send 304.
    NotModified,
    /// The condition is one for the origin to answer: forward the request as it is.
    ///
    /// RFC 9110, section 13.1.1: If-Match is for state-changing methods, and a cache that answered 412 from storage would
    /// speak for an origin whose representation may have changed since.
    Forward,
}

/// Evaluates the conditions of a GET or HEAD request on a stored response that may be reused.
///
/// RFC 9111, section 4.3.2: "A cache MUST NOT evaluate conditional header fields that only apply to an origin server, occur
/// in a request with semantics that cannot be satisfied with a cached response, or occur in a request with a target
/// resource for which it has no stored responses". Section 13.2.1 of RFC 9110: conditions are evaluated only where the
/// answer without them would be a 2xx.
pub fn evaluate(
    request: &HeaderMap,
    status: StatusCode,
    stored: &HeaderMap,
    policy: &Policy,
    now: Timestamp,
) -> Condition {
    if request.contains_key(IF_MATCH) || request.contains_key(IF_UNMODIFIED_SINCE) {
        return match holds_as_it_is(request, stored, policy, now) {
            true => read_conditions(request, status, stored, policy, now),
            false => Condition::Forward,
        };
    }
    read_conditions(request, status, stored, policy, now)
}

/// If-None-Match and If-Modified-Since.
///
/// RFC 9111, section 4.3.2: "A request containing an If-None-Match header field indicates that the client wants to
/// validate one or more of its own stored responses in comparison to whichever stored response is selected by the cache."
/// RFC 9110, section 13.1.3: "A recipient MUST ignore If-Modified-Since if the request contains an If-None-Match header
/// field".
fn read_conditions(
    request: &HeaderMap,
    status: StatusCode,
    stored: &HeaderMap,
    policy: &Policy,
    now: Timestamp,
) -> Condition {
    if !status.is_success() {
        return Condition::Proceed;
    }
    let unmodified = if request.contains_key(IF_NONE_MATCH) {
        lists_tag_of(request, &IF_NONE_MATCH, stored, |one, other| one.matches_weakly(other))
    } else if let Some(since) = only_date(request, &IF_MODIFIED_SINCE, now) {
        modified(policy) <= since
    } else {
        false
    };
    match unmodified {
        true => Condition::NotModified,
        false => Condition::Proceed,
    }
}

/// If-Match (strong comparison) or, without it, If-Unmodified-Since hold of the stored response.
fn holds_as_it_is(request: &HeaderMap, stored: &HeaderMap, policy: &Policy, now: Timestamp) -> bool {
    if request.contains_key(IF_MATCH) {
        return lists_tag_of(request, &IF_MATCH, stored, |one, other| one.matches_strongly(other));
    }
    // A date that cannot be read is no condition: "A recipient MUST ignore the If-Unmodified-Since header field if the
    // received field value is not a valid HTTP-date".
    only_date(request, &IF_UNMODIFIED_SINCE, now)
        .is_none_or(|since| policy.last_modified().is_some_and(|modified| modified <= since))
}

/// Whether a list of entity tags has `*` or the stored response's.
fn lists_tag_of(
    request: &HeaderMap,
    name: &HeaderName,
    stored: &HeaderMap,
    matches: fn(EntityTag<'_>, EntityTag<'_>) -> bool,
) -> bool {
    let held = EntityTag::of(stored);
    // The bytes as they stand: an ETag that breaks the grammar may hold commas and quotes of its own.
    if held.is_some_and(|tag| !tag.is_well_formed())
        && request.get_all(name).iter().any(|line| Some(line) == stored.get(ETAG))
    {
        return name == IF_NONE_MATCH;
    }
    lists::field_members(request, name).any(|member| {
        let same = |listed| held.is_some_and(|held| matches(listed, held));
        member == b"*" || EntityTag::parse(member).is_some_and(same)
    })
}

/// When the stored response was last modified, as far as it knows.
///
/// RFC 9111, section 4.3.2: "If a request contains an If-Modified-Since header field and the Last-Modified header field is
/// not present in a stored response, a cache SHOULD use the stored response's Date field value (or, if no Date field is
/// present, the time that the stored response was received) to evaluate the conditional."
fn modified(policy: &Policy) -> u64 {
    policy.last_modified().or(policy.date()).unwrap_or(policy.response_time().seconds())
}

/// The date of a field that has one line; several, or no date, is as good as none.
fn only_date(request: &HeaderMap, name: &HeaderName, now: Timestamp) -> Option<u64> {
    let mut lines = request.get_all(name).iter();
    let line = lines.next()?;
    lines.next().is_none().then(|| date::parse(line.as_bytes(), now)).flatten()
}
