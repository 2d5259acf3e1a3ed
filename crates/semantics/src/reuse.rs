//! Decides by time if a stored response may answer a request (RFC 9111, section 4; RFC 5861; RFC
//! 8246).
//!
//! The caller has already established that the response belongs to the request (key, Vary, range).

use crate::directives::RequestDirectives;
use crate::storage::CachePolicy;
use crate::{CacheRules, date, lists};
use http::StatusCode;
use http::header::RETRY_AFTER;
use shoal_core::{Fields, Timestamp};
use std::time::Duration;

/// Use of a stored response for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Send the response.
    Fresh,
    /// Send the response: it is stale, and the request accepts that (`max-stale`).
    StaleAllowed,
    /// Send the response, and validate it in the background.
    StaleWhileRevalidate,
    /// Validate the response first.
    Validate,
}

/// Decides about reuse at `now`. The caller handles `only-if-cached`: such a request gets a 504
/// where this function returns [`Reuse::Validate`].
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
    // stale, up to the indicated number of seconds."
    //
    // A request that limits age or freshness itself does not accept such a response.
    match staleness < policy.stale_while_revalidate() && !refuses_stale(request) {
        true => Reuse::StaleWhileRevalidate,
        false => Reuse::Validate,
    }
}

/// Returns `true` if a stored response may be sent after the origin failed. The origin is then
/// unreachable or has answered with an error ([`is_error`]).
///
/// RFC 5861, section 4: "The stale-if-error Cache-Control extension indicates that when an error is
/// encountered, a cached stale response MAY be used to satisfy the request, regardless of other
/// freshness information." The extension may stand in the response or in the request. Without
/// either the operator's default counts, unless the request wants no stale response. RFC 9111,
/// section 4.2.4: a stale response may be sent when the cache "is disconnected or doing so is
/// explicitly permitted by the client or origin server".
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

/// Returns `true` for an error status. RFC 5861, section 4: "an error is any situation that would
/// result in a 500, 502, 503, or 504 HTTP response status code being returned."
///
/// Deliberately 429 (RFC 6585) too. A stale response spares one request to an origin that reports
/// too many requests, and a 429 says nothing about the representation.
pub fn is_error(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 500 | 502 | 503 | 504)
}

/// Returns the time for which the cache does not repeat a request that the origin answered with an
/// error, while a stale response stands in. This is the time in Retry-After, within the operator's
/// limit; one second after a 429 without Retry-After.
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

/// Returns `true` if a fresh response meets the request's `max-age` and `min-fresh`.
///
/// RFC 9111, section 5.2.1.3: `min-fresh` "indicates that the client prefers a response whose
/// freshness lifetime is no less than its current age plus the specified time in seconds."
fn is_fresh_enough(policy: &CachePolicy, request: &RequestDirectives, now: Timestamp) -> bool {
    let lasts = |seconds: u32| {
        let left = policy.freshness_lifetime().saturating_sub(policy.current_age(now));
        left >= Duration::from_secs(u64::from(seconds))
    };
    // RFC 8246, section 2: "The immutable extension only applies during the freshness lifetime of
    // the stored response". The extension is meant to spare reloads, which browsers send as
    // max-age=0.
    request.min_fresh.is_none_or(lasts) && (policy.is_immutable() || is_young_enough(policy, request, now))
}

/// Returns `true` if the response is young enough for the request.
///
/// RFC 9111, section 5.2.1.1: `max-age` "indicates that the client prefers a response whose age is
/// less than or equal to the specified number of seconds."
///
/// Clients send `max-age=0` to ask for validation, so an age of 0 does not meet it.
fn is_young_enough(policy: &CachePolicy, request: &RequestDirectives, now: Timestamp) -> bool {
    request.max_age.is_none_or(|most| most > 0 && policy.current_age(now).as_secs() <= u64::from(most))
}

/// Returns `true` if the request accepts this staleness. RFC 9111, section 5.2.1.2: `max-stale`
/// "indicates that the client will accept a response that has exceeded its freshness lifetime. If a
/// value is present, then the client is willing to accept a response that has exceeded its
/// freshness lifetime by no more than the specified number of seconds."
fn accepts_stale(request: &RequestDirectives, staleness: Duration) -> bool {
    let within = |most: u32| most == u32::MAX || staleness <= Duration::from_secs(u64::from(most));
    request.max_stale.is_some_and(within) && request.min_fresh.is_none()
}

/// Returns `true` if the request refuses stale responses. RFC 9111, section 5.2.1.1: "Unless the
/// max-stale request directive is also present, the client does not wish to receive a stale
/// response."
fn refuses_stale(request: &RequestDirectives) -> bool {
    request.min_fresh.is_some() || (request.max_age.is_some() && request.max_stale.is_none())
}

#[cfg(test)]
mod tests;
