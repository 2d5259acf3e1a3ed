//! Decides if a response may be stored, and which of its fields (RFC 9111, section 3).
//!
//! [`may_store`] judges a response once and returns the [`CachePolicy`] that is kept beside it. The
//! same function freshens a policy. After a 304 or a HEAD has changed the stored fields, the caller
//! judges them again with the times of that exchange.
//!
//! Responses to GET are stored. A response to HEAD freshens a stored one
//! ([`crate::validation::head_update`]) and is not stored itself. RFC 9110, section 9.3.3, allows
//! storing a response to POST with explicit freshness and a Content-Location equal to its target.
//! This cache declines, as nearly all do. Such responses are rare, and storing them would make the
//! answer to a GET depend on one client's POST.

mod apart;
mod freshness;
mod judgement;
mod policy;

use crate::directives::Scope;
use crate::range::ContentRange;
use crate::status_fields::Reason;
use crate::targeted::{self, EffectiveDirectives};
use crate::vary::{self, Vary};
use crate::{CacheRules, EntityTag, directives::RequestDirectives};
pub use apart::{sets_cookie, split_fields, stored_fields, take_apart, unstored_fields};
use freshness::Freshness;
pub use freshness::brings_credentials;
use http::header::{AUTHORIZATION, COOKIE, LAST_MODIFIED};
use http::{HeaderMap, Method, StatusCode};
pub use judgement::{Judgement, LifetimeSource};
pub use policy::CachePolicy;
use shoal_core::{Fields, Timestamp};

/// Forwarded request and its final response, as exchanged with the origin.
#[derive(Debug)]
pub struct ForwardedExchange<'a, Q = HeaderMap, R = HeaderMap> {
    /// Method of the request.
    pub method: &'a Method,
    /// Query of the target; `None` without a `?`.
    pub query: Option<&'a str>,
    /// Fields of the request.
    pub request: &'a Q,
    /// Status of the response.
    pub status: StatusCode,
    /// Fields of the response; on freshening, the stored fields updated by the new ones.
    pub response: &'a R,
    /// Time when the request was sent.
    pub request_time: Timestamp,
    /// Time when the response's head had arrived.
    pub response_time: Timestamp,
}

/// Decision about storing a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StorageDecision {
    /// Store the response, with this policy.
    Store(CachePolicy),
    /// Do not store the response.
    Refuse(StoreRefusal),
}

/// Reason for not storing a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRefusal {
    /// The method is not GET.
    Method,
    /// The status is never stored, or is unknown and must be understood.
    Status,
    /// The request said `no-store`.
    RequestNoStore,
    /// The response said `no-store`.
    NoStore,
    /// The response said `private`.
    Private,
    /// The request was authorized and the response does not permit sharing.
    Authorization,
    /// The response sets a cookie, and neither the response nor the rules permit storing it without
    /// the cookie.
    SetCookie,
    /// `Vary: *`: no request would ever match.
    VaryAny,
    /// The response is a 206 with an unreadable Content-Range.
    ContentRange,
    /// Nothing permits storing: no directive, no Expires, and no status that is cacheable by
    /// default.
    NotPermitted,
    /// The response would never be fresh and has no validator.
    NeverReusable,
    /// A rule of the operator forbids storing.
    Rule,
    /// The request had cookies, and the origin gives neither a lifetime nor an ETag. Or the
    /// lifetime is of a rule that does not name the cookies.
    RequestCookie,
}

impl StoreRefusal {
    /// Returns `true` if the refusal concerns the request alone: the response to another request
    /// may be stored.
    pub fn is_of_request(self) -> bool {
        matches!(self, Self::Method | Self::RequestNoStore | Self::Authorization | Self::RequestCookie)
    }

    /// Returns the reason as Cache-Status says it.
    pub fn reason(self) -> Reason {
        match self {
            Self::Method => Reason::Method,
            Self::Status => Reason::Status,
            Self::RequestNoStore => Reason::RequestNoStore,
            Self::NoStore => Reason::NoStore,
            Self::Private => Reason::Private,
            Self::Authorization => Reason::Authorization,
            Self::SetCookie => Reason::SetCookie,
            Self::VaryAny => Reason::VaryAny,
            Self::ContentRange => Reason::ContentRange,
            Self::NotPermitted => Reason::NotPermitted,
            Self::NeverReusable => Reason::NeverReusable,
            Self::Rule => Reason::Rule,
            Self::RequestCookie => Reason::RequestCookie,
        }
    }
}

/// Decides about storing a response.
pub fn may_store(
    exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
    rules: &CacheRules,
) -> StorageDecision {
    judge(exchanged, rules).decision
}

/// Judges a response like [`may_store`], and names the grounds.
pub fn judge(exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>, rules: &CacheRules) -> Judgement {
    let governing = targeted::effective_directives(exchanged.response, rules);
    if let Some(refusal) = refusal(exchanged, &governing, rules) {
        let decision = StorageDecision::Refuse(refusal);
        return Judgement { decision, source: None, is_limited: false, is_targeted: governing.targeted };
    }
    let freshness = Freshness::of(exchanged, &governing, rules);
    debug_assert!(freshness.basis != LifetimeSource::Nothing || freshness.lifetime == 0);
    Judgement {
        decision: decide(exchanged, &governing, freshness, rules),
        source: Some(freshness.basis),
        is_limited: freshness.is_limited,
        is_targeted: governing.targeted,
    }
}

/// Decides about a response that nothing forbids to store.
fn decide(
    exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
    governing: &EffectiveDirectives,
    freshness: Freshness,
    rules: &CacheRules,
) -> StorageDecision {
    if !freshness.is_explicit()
        && !governing.directives.public
        && !is_heuristically_cacheable(exchanged.status)
    {
        return StorageDecision::Refuse(StoreRefusal::NotPermitted);
    }
    if freshness.basis.is_rule() && !may_share_by_rule(exchanged, governing, rules) {
        return StorageDecision::Refuse(StoreRefusal::RequestCookie);
    }
    // The date of a page is the same for all clients, also for those that may not see it.
    if freshness.is_personal && EntityTag::of(exchanged.response).is_none() {
        return StorageDecision::Refuse(StoreRefusal::RequestCookie);
    }
    let policy = CachePolicy::new(exchanged, &governing.directives, freshness, rules);
    match is_reusable(&policy, exchanged) {
        true => StorageDecision::Store(policy),
        false => StorageDecision::Refuse(StoreRefusal::NeverReusable),
    }
}

/// Returns the first rule of RFC 9111, section 3, or of the operator, that forbids storing.
fn refusal(
    exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
    governing: &EffectiveDirectives,
    rules: &CacheRules,
) -> Option<StoreRefusal> {
    let directives = &governing.directives;
    let understood = is_understood(exchanged.status);
    // 5.2.2.3: "When a cache that implements the must-understand directive receives a response that
    // includes it, the cache SHOULD ignore the no-store directive if it understands and implements
    // the status code's caching requirements."
    let no_store = directives.no_store && !directives.must_understand;
    let refused = |is: bool, why: StoreRefusal| is.then_some(why);
    refused(exchanged.method != Method::GET, StoreRefusal::Method)
        .or_else(|| refused(is_never_stored(exchanged.status), StoreRefusal::Status))
        .or_else(|| refused(rules.overrides.store == Some(false), StoreRefusal::Rule))
        .or_else(|| refused(directives.must_understand && !understood, StoreRefusal::Status))
        .or_else(|| refused(no_store, StoreRefusal::NoStore))
        .or_else(|| refused(directives.private == Scope::Response, StoreRefusal::Private))
        .or_else(|| {
            refused(
                !apart::may_go_without_cookie(exchanged.response, directives, rules),
                StoreRefusal::SetCookie,
            )
        })
        .or_else(|| refused(vary::nominated(exchanged.response) == Vary::Any, StoreRefusal::VaryAny))
        .or_else(|| refused(is_broken_partial(exchanged), StoreRefusal::ContentRange))
        // Last come reasons of the request, which do not apply to other requests.
        .or_else(|| refused(!may_share_authorized(exchanged, governing, rules), StoreRefusal::Authorization))
        .or_else(|| refused(RequestDirectives::of(exchanged.request).no_store, StoreRefusal::RequestNoStore))
}

/// Returns `true` unless the rule on authorized requests forbids storing.
///
/// RFC 9111, section 3.5: "A shared cache MUST NOT use a cached response to a request with an
/// Authorization header field to satisfy any subsequent request unless the response contains a
/// Cache-Control field with a response directive that allows it to be stored by a shared cache […]
/// In this specification, the following response directives have such an effect: must-revalidate,
/// public, and s-maxage."
fn may_share_authorized(
    exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
    governing: &EffectiveDirectives,
    rules: &CacheRules,
) -> bool {
    let directives = &governing.directives;
    !exchanged.request.has(&AUTHORIZATION)
        || rules.overrides.share_private == Some(true)
        || directives.must_revalidate
        || directives.public
        || directives.s_maxage.is_some()
}

/// Returns `true` if a response may be shared to which only a rule or a guess gives a lifetime. The
/// origin has not said that the page is the same for all. A request with cookies that the key does
/// not include may have received a page of its own.
fn may_share_by_rule(
    exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>,
    governing: &EffectiveDirectives,
    rules: &CacheRules,
) -> bool {
    !exchanged.request.has(&COOKIE)
        || governing.directives.public
        || rules.overrides.cookies_are_keyed == Some(true)
        || rules.overrides.share_private == Some(true)
}

/// Returns `true` for a partial response of unknown place within the whole; nothing can use such a
/// response.
fn is_broken_partial(exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>) -> bool {
    exchanged.status == StatusCode::PARTIAL_CONTENT
        && ContentRange::of(exchanged.response).is_none_or(|range| range.range().is_none())
}

/// Returns `true` if keeping the response can spare a transfer. The response then has a validator,
/// is fresh for a while, or may be served stale.
fn is_reusable(policy: &CachePolicy, exchanged: &ForwardedExchange<'_, impl Fields, impl Fields>) -> bool {
    let validator = EntityTag::of(exchanged.response).is_some() || exchanged.response.has(&LAST_MODIFIED);
    let fresh = policy.is_fresh(exchanged.response_time) && !policy.always_validates();
    validator || fresh || policy.may_be_stale()
}

/// Returns `true` for statuses that are never stored, regardless of the response's fields.
///
/// 206 is stored as partial. 304, 412 and 416 answer the conditions or the range of one request and
/// would be wrong for the next. 407 is about this hop. 226 (RFC 3229) is a delta to a response that
/// the next client may not have. 101 ends HTTP. RFC 6585: "Responses with the 428 [429, 431, 511]
/// status code MUST NOT be stored by a cache."
fn is_never_stored(status: StatusCode) -> bool {
    status.is_informational()
        || matches!(status.as_u16(), 226 | 304 | 407 | 412 | 416 | 428 | 429 | 431 | 511)
}

/// Returns `true` for statuses with caching requirements that this cache implements. These are the
/// registered ones: only 206, 304 and the statuses of [`is_never_stored`] have special
/// requirements.
fn is_understood(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200..=208 | 300..=303 | 305 | 307 | 308 | 400..=406 | 408..=411 | 413..=415 | 417 | 421..=426 | 451 | 500..=508 | 510
    )
}

/// Returns `true` for statuses that are cacheable by default.
///
/// RFC 9110, section 15.1: "Responses with status codes that are defined as heuristically cacheable
/// (e.g., 200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, and 501 in this specification) can
/// be reused by a cache with heuristic expiration unless otherwise indicated by the method
/// definition or explicit cache controls".
pub(crate) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

#[cfg(test)]
mod tests;
