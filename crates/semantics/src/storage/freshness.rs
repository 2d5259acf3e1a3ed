//! Freshness lifetime of a response, and its age on arrival (RFC 9111, sections 4.2.1 to 4.2.3).

use super::{ForwardedExchange, LifetimeSource, is_heuristically_cacheable, may_share_by_rule};
use crate::targeted::EffectiveDirectives;
use crate::vary::{self, Vary};
use crate::{CacheRules, HeuristicQuery, date, lapsing, lists};
use http::HeaderName;
use http::header::{AGE, AUTHORIZATION, COOKIE, DATE, EXPIRES, LAST_MODIFIED};
use shoal_core::{Fields, Timestamp};
use std::time::Duration;

/// Times that a response's fields give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Freshness {
    /// Freshness lifetime in seconds.
    pub lifetime: u32,
    /// Source of the lifetime.
    pub basis: LifetimeSource,
    /// `true` if a rule's `lifetime_max` has shortened the lifetime.
    pub is_limited: bool,
    /// Age on arrival, in milliseconds.
    pub initial_age_ms: u64,
    /// The Date field, in seconds since the epoch.
    pub date: Option<u64>,
    /// The Last-Modified field, in seconds since the epoch.
    pub last_modified: Option<u64>,
    /// `true` if the URL's leave may lapse at any time, and no field gives that time.
    pub lapses: bool,
    /// `true` if the response may be a page of the requesting client alone. See [`is_personal`].
    pub is_personal: bool,
}

impl Freshness {
    pub fn of(
        exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
        governing: &EffectiveDirectives,
        rules: &CacheRules,
    ) -> Self {
        let now = exchanged.response_time;
        let date = date_of(exchanged.response, &DATE, now);
        let last_modified = date_of(exchanged.response, &LAST_MODIFIED, now);
        let generated = date.unwrap_or(now.seconds());
        let initial_age_ms = initial_age_ms(exchanged, date);
        let guessed = last_modified.map(|modified| heuristic_lifetime(generated, modified, rules));
        let (lifetime, basis) = match explicit_lifetime(exchanged.response, governing, generated, now) {
            Some(said) => said,
            None if is_personal(exchanged, governing, rules) => (0, LifetimeSource::RequestCookie),
            None if may_be_guessed(exchanged, governing, rules) => {
                match guessed.filter(|lifetime| *lifetime > 0) {
                    Some(lifetime) => (lifetime, LifetimeSource::Heuristic),
                    None if is_negative(exchanged, rules) => {
                        (negative_lifetime(initial_age_ms, rules), LifetimeSource::Negative)
                    }
                    None => (
                        0,
                        if guessed.is_some() { LifetimeSource::Heuristic } else { LifetimeSource::Nothing },
                    ),
                }
            }
            None => (0, LifetimeSource::Nothing),
        };
        let ruled = ruled_lifetime((lifetime, basis), initial_age_ms, exchanged.query, rules);
        let (lifetime, basis, is_limited) = ruled;
        let lapses = !basis.is_explicit() && !outlasts_its_leave(exchanged.query, rules);
        let is_personal = basis == LifetimeSource::RequestCookie;
        Self { lifetime, basis, is_limited, initial_age_ms, date, last_modified, lapses, is_personal }
    }

    pub fn is_explicit(&self) -> bool {
        self.basis.is_explicit()
    }
}

/// Returns the lifetime by the operator's rules, and `true` if their limit shortens it. Durations
/// of rules count from the arrival, regardless of the age that the origin gives.
fn ruled_lifetime(
    (lifetime, basis): (u32, LifetimeSource),
    initial_age_ms: u64,
    query: Option<&str>,
    rules: &CacheRules,
) -> (u32, LifetimeSource, bool) {
    let overrides = &rules.overrides;
    let from_arrival = |duration: Duration| {
        let seconds = (initial_age_ms / 1000).saturating_add(duration.as_secs());
        seconds.min(u64::from(lists::SECONDS_MAX)) as u32
    };
    if let Some(instead) = overrides.lifetime {
        return (from_arrival(instead), LifetimeSource::RuleLifetime, false);
    }
    let default = overrides.lifetime_default.filter(|_| outlasts_its_leave(query, rules));
    let (mut lifetime, mut basis) = match (basis, default) {
        (said, _) if said.is_explicit() => (lifetime, basis),
        (_, None) => (lifetime, basis),
        (_, Some(default)) => (from_arrival(default), LifetimeSource::RuleDefault),
    };
    if let Some(least) = overrides.lifetime_min.map(from_arrival).filter(|least| *least > lifetime) {
        (lifetime, basis) = (least, LifetimeSource::RuleLeast);
    }
    let most = overrides.lifetime_max.map(from_arrival).filter(|most| *most < lifetime);
    (most.unwrap_or(lifetime), basis, most.is_some())
}

/// Returns `true` if a lifetime may be guessed: by status or `public`, and by the URL.
///
/// RFC 9111, section 4.2.2: "Section 13.9 of [RFC2616] prohibited caches from calculating heuristic
/// freshness for URIs with query components (i.e., those containing "?"). In practice, this has not
/// been widely implemented."
///
/// Here the prohibition is the default. The response that a query selects is mostly made for the
/// request. Last-Modified does not say how long a signature in the query holds.
fn may_be_guessed(
    exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
    governing: &EffectiveDirectives,
    rules: &CacheRules,
) -> bool {
    let asks_for_it = exchanged.query.is_none() || rules.heuristic_query != HeuristicQuery::Never;
    asks_for_it
        && outlasts_its_leave(exchanged.query, rules)
        && (governing.directives.public || is_heuristically_cacheable(exchanged.status))
}

/// Returns `true` if the response may be a page of the requesting client alone: the request had
/// cookies that the key does not have, and the origin said nothing. Such a response is kept for
/// validation alone. The origin then judges the cookies of each client.
///
/// RFC 9111, section 4.2.2: "Since origin servers do not always provide explicit expiration times,
/// a cache MAY assign a heuristic expiration time". Many applications send Last-Modified or an ETag
/// with pages that need a login, and nothing else.
fn is_personal(
    exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
    governing: &EffectiveDirectives,
    rules: &CacheRules,
) -> bool {
    let is_keyed = || match vary::nominated(exchanged.response) {
        Vary::Fields(names) => names.contains(&COOKIE),
        Vary::Nothing | Vary::Any => false,
    };
    exchanged.request.has(&COOKIE) && !may_share_by_rule(exchanged, governing, rules) && !is_keyed()
}

/// Returns `true` if no lapsing leave limits the response's use. Its URL then carries no leave, or
/// the operator's setting ignores leaves.
fn outlasts_its_leave(query: Option<&str>, rules: &CacheRules) -> bool {
    rules.heuristic_query == HeuristicQuery::Always || !query.is_some_and(lapsing::has_leave)
}

/// Returns the explicit lifetime. RFC 9111, section 4.2.1, by the first match of:
///
/// - "If the cache is shared and the s-maxage response directive is present, use its value, or
/// - If the max-age response directive is present, use its value, or
/// - If the Expires response header field is present, use its value minus the value of the Date
///   response header field (using the time the message was received if it is not present […])"
///
/// Section 5.3: "A cache recipient MUST interpret invalid date formats, especially the value "0",
/// as representing a time in the past". Of several lines the first counts.
fn explicit_lifetime(
    response: &impl Fields,
    governing: &EffectiveDirectives,
    generated: u64,
    now: Timestamp,
) -> Option<(u32, LifetimeSource)> {
    let directives = &governing.directives;
    if let Some(seconds) = directives.s_maxage {
        return Some((seconds, LifetimeSource::SharedMaxAge));
    }
    if let Some(seconds) = directives.max_age {
        return Some((seconds, LifetimeSource::MaxAge));
    }
    if governing.targeted || !response.has(&EXPIRES) {
        return None;
    }
    let expires = date_of(response, &EXPIRES, now).unwrap_or(0);
    let seconds = expires.saturating_sub(generated).min(u64::from(lists::SECONDS_MAX)) as u32;
    Some((seconds, LifetimeSource::Expires))
}

/// RFC 9111, section 4.2.2: "If the response has a Last-Modified header field […], caches are
/// encouraged to use a heuristic expiration value that is no more than some fraction of the
/// interval since that time. A typical setting of this fraction might be 10%."
fn heuristic_lifetime(generated: u64, modified: u64, rules: &CacheRules) -> u32 {
    let longest = rules.heuristic_max.as_secs().min(u64::from(lists::SECONDS_MAX));
    let guess = generated.saturating_sub(modified) as f64 * rules.heuristic_fraction.max(0.0);
    // A float cast saturates, and sends NaN to 0.
    (guess as u64).min(longest) as u32
}

/// Returns `true` if the response is an error that is kept for a moment without explicit freshness.
/// The status must allow a guess. The request must carry no credentials: with credentials, a page
/// may be missing for one client and present for another.
///
/// RFC 9111, section 4.2.2: "a cache MAY calculate a heuristic expiration time when an explicit
/// time is not specified". Varnish keeps such errors for two minutes, Cloudflare for three,
/// CloudFront for ten seconds. A moment spares the origin a storm of requests, and hides a newly
/// made page only that long.
fn is_negative(exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>, rules: &CacheRules) -> bool {
    matches!(exchanged.status.as_u16(), 404 | 405 | 410 | 414 | 501)
        && !rules.negative_ttl.is_zero()
        && !brings_credentials(exchanged.request)
}

/// Returns a lifetime that counts from the arrival: a slow response is still new to the clients
/// that wait for it.
fn negative_lifetime(initial_age_ms: u64, rules: &CacheRules) -> u32 {
    let seconds = initial_age_ms.div_ceil(1000).saturating_add(rules.negative_ttl.as_secs());
    seconds.min(u64::from(lists::SECONDS_MAX)) as u32
}

/// Returns `true` if a request carries credentials.
pub fn brings_credentials(request: &impl Fields) -> bool {
    request.has(&COOKIE) || request.has(&AUTHORIZATION)
}

/// Returns the corrected initial age. RFC 9111, section 4.2.3:
///
/// ```text
/// apparent_age = max(0, response_time - date_value);
/// response_delay = response_time - request_time;
/// corrected_age_value = age_value + response_delay;
/// corrected_initial_age = max(apparent_age, corrected_age_value);
/// ```
fn initial_age_ms(exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>, date: Option<u64>) -> u64 {
    let apparent_age = date.map_or(0, |date| exchanged.response_time.seconds().saturating_sub(date));
    let response_delay_ms = exchanged.response_time.since(exchanged.request_time).as_millis() as u64;
    let corrected_age_value_ms = u64::from(age_value(exchanged.response)) * 1000 + response_delay_ms;
    (apparent_age * 1000).max(corrected_age_value_ms).min(u64::from(lists::SECONDS_MAX) * 1000)
}

/// Returns the Age field, in seconds; 0 when it is absent or broken.
///
/// RFC 9111, section 5.1: "Although it is defined as a singleton header field, a cache encountering
/// a message with a list-based Age field value SHOULD use the first member of the field value,
/// discarding subsequent ones. If the field value (after discarding additional members, as per
/// above) is invalid (e.g., it contains something other than a non-negative integer), a cache
/// SHOULD ignore the field."
fn age_value(response: &impl Fields) -> u32 {
    lists::field_members(response, &AGE).next().and_then(lists::delta_seconds).unwrap_or(0)
}

/// Returns the first line of a date field, in seconds since the epoch.
fn date_of(response: &impl Fields, name: &HeaderName, now: Timestamp) -> Option<u64> {
    date::parse(response.value(name)?, now)
}
