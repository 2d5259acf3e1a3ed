//! Evaluation of a client's conditions on a stored response (RFC 9111, section 4.3.2; RFC 9110,
//! section 13).

use crate::storage::CachePolicy;
use crate::{EntityTag, date, lists};
use http::header::{ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderName, StatusCode};
use shoal_core::{Fields, Timestamp};

/// Answer to a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Send the stored response, or the requested range of it.
    Proceed,
    /// Send 304.
    NotModified,
    /// Forward the request unchanged: its condition is for the origin.
    Forward,
}

/// Evaluates the conditions of a GET or HEAD request on a stored response that may be reused.
///
/// RFC 9111, section 4.3.2: "A cache MUST NOT evaluate conditional header fields that only apply to
/// an origin server […]. In summary, the If-Match and If-Unmodified-Since conditional header fields
/// are not applicable to a cache, and If-None-Match takes precedence over If-Modified-Since." A
/// client that sends If-Match or If-Unmodified-Since asks if nothing has changed at the origin.
/// Such a request is therefore forwarded, not answered as if it had no condition.
///
/// RFC 9110, section 13.2.1: conditions count only where the response without them would be a
/// success.
pub fn evaluate(
    request: &impl Fields,
    status: StatusCode,
    stored: &impl Fields,
    policy: &CachePolicy,
    now: Timestamp,
) -> Condition {
    if request.has(&IF_MATCH) || request.has(&IF_UNMODIFIED_SINCE) {
        return Condition::Forward;
    }
    if !status.is_success() {
        return Condition::Proceed;
    }
    let unmodified = if request.has(&IF_NONE_MATCH) {
        lists_stored_tag(request, stored)
    } else {
        only_date(request, &IF_MODIFIED_SINCE, now).is_some_and(|since| modified(policy) <= since)
    };
    match unmodified {
        true => Condition::NotModified,
        false => Condition::Proceed,
    }
}

/// Returns `true` if If-None-Match has `*` or the stored response's tag, weakly compared.
fn lists_stored_tag(request: &impl Fields, stored: &impl Fields) -> bool {
    let line = stored.value(&ETAG);
    let held = line.and_then(EntityTag::parse);
    // A tag that breaks the grammar may hold commas and quotes of its own. Such a tag is compared
    // with whole lines.
    if held.is_some_and(|tag| !tag.is_well_formed())
        && request.values(&IF_NONE_MATCH).any(|asked| Some(asked) == line)
    {
        return true;
    }
    lists::field_members(request, &IF_NONE_MATCH).any(|member| {
        let same = |listed: EntityTag<'_>| held.is_some_and(|held| listed.matches_weakly(held));
        member == b"*" || EntityTag::parse(member).is_some_and(same)
    })
}

/// Returns the time when the stored response was last modified, as far as its fields tell.
///
/// RFC 9111, section 4.3.2: "If a request contains an If-Modified-Since header field and the
/// Last-Modified header field is not present in a stored response, a cache SHOULD use the stored
/// response's Date field value (or, if no Date field is present, the time that the stored response
/// was received) to evaluate the conditional."
fn modified(policy: &CachePolicy) -> u64 {
    policy.last_modified().or(policy.date()).unwrap_or(policy.response_time().seconds())
}

/// Returns the date of a field that has one line.
///
/// RFC 9110, section 13.1.3: "A recipient MUST ignore the If-Modified-Since header field if the
/// received field value is not a valid HTTP-date, the field value has more than one member, or if
/// the request method is neither GET nor HEAD."
fn only_date(request: &impl Fields, name: &HeaderName, now: Timestamp) -> Option<u64> {
    let mut lines = request.values(name);
    let line = lines.next()?;
    lines.next().is_none().then(|| date::parse(line, now)).flatten()
}
