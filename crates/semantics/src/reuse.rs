//! Whether a stored response may answer a request, and how (RFC 9111, section 4; RFC 5861; RFC
//! 8246).
//!
//! That the response belongs to the request (key, Vary, range) has been settled before; this is
//! about time.

use crate::directives::RequestDirectives;
use crate::storage::CachePolicy;
use crate::{CacheRules, date, lists};
use http::StatusCode;
use http::header::RETRY_AFTER;
use shoal_core::{Fields, Timestamp};
use std::time::Duration;

/// What to do with a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Send it.
    Fresh,
    /// Send it: it is stale, and the request takes that (`max-stale`).
    StaleAllowed,
    /// Send it, and validate it in the background.
    StaleWhileRevalidate,
    /// Validate it first.
    Validate,
}

/// Decides about reuse at `now`. `only-if-cached` is the caller's: where this says
/// [`Reuse::Validate`], such a request is answered with 504.
pub fn decide(policy: &CachePolicy, request: &RequestDirectives, now: Timestamp) -> Reuse {
    if request.no_cache || policy.always_validates() {
        return Reuse::Validate;
    }
    if policy.is_fresh(now) {
        return match is_fresh_enough(policy, request, now) {
            true => Reuse::Fresh,
            false => Reuse::Validate,
        };
    }
    if policy.forbids_stale() {
        return Reuse::Validate;
    }
    debug_assert!(!policy.is_fresh(now));
    let staleness = policy.staleness(now);
    if accepts_stale(request, staleness) && is_young_enough(policy, request, now) {
        return Reuse::StaleAllowed;
    }
    // RFC 5861, section 3: "caches MAY serve the response in which it appears after it becomes
    // stale, up to the indicated number of seconds." A request with an age or freshness of its own
    // in mind does not take it.
    match staleness < policy.stale_while_revalidate() && !refuses_stale(request) {
        true => Reuse::StaleWhileRevalidate,
        false => Reuse::Validate,
    }
}

/// Whether a stored response may be sent because the origin cannot be reached or answered with an
/// error ([`is_error`]).
///
/// RFC 5861, section 4: "The stale-if-error Cache-Control extension indicates that when an error is
/// encountered, a cached stale response MAY be used to satisfy the request, regardless of other
/// freshness information." It may stand in the response or in the request; without either the
/// operator's default counts, unless the request wants no stale response (RFC 9111, section 4.2.4:
/// a stale response may be sent when the cache "is disconnected or doing so is explicitly permitted
/// by the client or origin server").
pub fn may_serve_on_error(
    policy: &CachePolicy,
    request: &RequestDirectives,
    now: Timestamp,
    rules: &CacheRules,
) -> bool {
    if request.no_cache || policy.always_validates() {
        return false;
    }
    if policy.is_fresh(now) {
        return true;
    }
    if policy.forbids_stale() {
        return false;
    }
    let staleness = policy.staleness(now);
    let asked = request.stale_if_error.map(|seconds| Duration::from_secs(u64::from(seconds)));
    if let Some(window) = asked.max(policy.stale_if_error()) {
        return staleness < window;
    }
    staleness < rules.stale_if_error && !refuses_stale(request)
}

/// RFC 5861, section 4: "an error is any situation that would result in a 500, 502, 503, or 504
/// HTTP response status code being returned."
///
/// Deliberately 429 (RFC 6585) too: an origin that says it has had too many requests is spared one
/// by a stale response, and says nothing about the representation.
pub fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504)
}

/// How long an origin that answered with an error is not to be asked for the same where a stale
/// response stands in: as long as its Retry-After says, within the operator's limit; after a 429
/// without one a second.
///
/// RFC 9110, section 10.2.3: "Servers send the "Retry-After" header field to indicate how long the
/// user agent ought to wait before making a follow-up request."
pub fn rest_asked_for(
    status: StatusCode,
    response: &impl Fields,
    now: Timestamp,
    rules: &CacheRules,
) -> Duration {
    let until = |text: &[u8]| Some(date::parse(text, now)?.saturating_sub(now.seconds()));
    let said = response
        .value(&RETRY_AFTER)
        .and_then(|text| lists::delta_seconds(text).map(u64::from).or_else(|| until(text)));
    let unsaid = u64::from(status == StatusCode::TOO_MANY_REQUESTS);
    Duration::from_secs(said.unwrap_or(unsaid)).min(rules.retry_after_max)
}

/// Whether a fresh response meets the request's `max-age` and `min-fresh`.
///
/// RFC 9111, section 5.2.1.3: `min-fresh` "indicates that the client prefers a response whose
/// freshness lifetime is no less than its current age plus the specified time in seconds."
fn is_fresh_enough(policy: &CachePolicy, request: &RequestDirectives, now: Timestamp) -> bool {
    let lasts = |seconds: u32| {
        let left = policy.freshness_lifetime().saturating_sub(policy.current_age(now));
        left >= Duration::from_secs(u64::from(seconds))
    };
    // RFC 8246, section 2: "The immutable extension only applies during the freshness lifetime of
    // the stored response", and reloads, which browsers send as max-age=0, are what it is meant to
    // spare.
    request.min_fresh.is_none_or(lasts) && (policy.is_immutable() || is_young_enough(policy, request, now))
}

/// RFC 9111, section 5.2.1.1: `max-age` "indicates that the client prefers a response whose age is
/// less than or equal to the specified number of seconds." `max-age=0` is how clients ask for
/// validation, so it is not met by an age of 0.
fn is_young_enough(policy: &CachePolicy, request: &RequestDirectives, now: Timestamp) -> bool {
    request.max_age.is_none_or(|most| most > 0 && policy.current_age(now).as_secs() <= u64::from(most))
}

/// RFC 9111, section 5.2.1.2: `max-stale` "indicates that the client will accept a response that
/// has exceeded its freshness lifetime. If a value is present, then the client is willing to accept
/// a response that has exceeded its freshness lifetime by no more than the specified number of
/// seconds."
fn accepts_stale(request: &RequestDirectives, staleness: Duration) -> bool {
    let within = |most: u32| most == u32::MAX || staleness <= Duration::from_secs(u64::from(most));
    request.max_stale.is_some_and(within) && request.min_fresh.is_none()
}

/// RFC 9111, section 5.2.1.1: "Unless the max-stale request directive is also present, the client
/// does not wish to receive a stale response."
fn refuses_stale(request: &RequestDirectives) -> bool {
    request.min_fresh.is_some() || (request.max_age.is_some() && request.max_stale.is_none())
}

#[cfg(test)]
mod tests;
