//! Stale responses in place of errors (RFC 5861, section 4), and during a pause that an origin
//! asked for.

use super::deliver;
use super::deliver::{BodySource, Delivery};
use super::fetch::FetchFailure;
use super::fetcher::Fetcher;
use super::handling_report::HandlingReport;
use super::hybrid_cache::HybridCache;
use super::metadata::ResponseMetadata;
use super::request::RequestContext;
use super::serve::ForwardContext;
use crate::clock;
use crate::message::{CacheResult, Reply};
use http::StatusCode;
use shoal_semantics::reuse;
use shoal_semantics::status_fields::Reason;
use std::sync::Arc;

impl Fetcher {
    /// Returns `true` if the origin recently asked for a pause for this URL.
    pub(super) fn is_resting(&self, ask: &RequestContext) -> bool {
        self.resting.holds(&ask.primary, clock::now())
    }
}

/// Serves the stored response in place of an error, if all rules allow it.
pub(super) fn serve_stale_on_error(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    why: &ForwardContext,
    status: Option<StatusCode>,
    failure: Option<&FetchFailure>,
) -> Option<Reply> {
    let is_covered = status.is_none_or(|status| covers_status(ask, status))
        && failure.is_none_or(|failure| covers_failure(ask, failure));
    if !is_covered {
        return None;
    }
    let stored = why.stored.clone().filter(|stored| may_stand_in(ask, &stored.head))?;
    let ttl = stored.head.policy.time_to_live(clock::now());
    let mut verdict = HandlingReport::forwarded(why.forwarded).outcome(CacheResult::StaleIfError).ttl(ttl);
    if let Some(status) = status {
        verdict = verdict.forward_status(status);
    }
    if let Some(failure) = failure {
        verdict = verdict.failure(failure);
    }
    deliver::deliver(
        objects,
        ask,
        Delivery { head: stored.head, body: BodySource::Held(stored.body), choice: stored.choice },
        verdict,
    )
}

/// Serves the stored response in place of the origin's recent error, without asking the origin
/// again.
pub(super) fn stale_unasked(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    why: &ForwardContext,
) -> Option<Reply> {
    let stored = why.stored.clone().filter(|stored| may_stand_in(ask, &stored.head))?;
    let ttl = stored.head.policy.time_to_live(clock::now());
    let verdict = HandlingReport::hit(CacheResult::StaleIfError, ttl).detail(Reason::RetryAfter);
    deliver::deliver(
        objects,
        ask,
        Delivery { head: stored.head, body: BodySource::Held(stored.body), choice: stored.choice },
        verdict,
    )
}

/// Returns `true` if a stored response may stand in for an answer with this status, by the rules or
/// by default.
pub(super) fn covers_status(ask: &RequestContext, status: StatusCode) -> bool {
    match ask.live.rule_set.stale_on(ask.ruling.matching()) {
        Some(errors) => errors.has_status(status),
        None => reuse::is_error(status),
    }
}

/// Returns `true` if a stored response may stand in after such a failure.
fn covers_failure(ask: &RequestContext, failure: &FetchFailure) -> bool {
    let errors = ask.live.rule_set.stale_on(ask.ruling.matching());
    errors.is_none_or(|errors| errors.has_failure(failure.kind))
}

/// Returns `true` if a stored response may be sent in place of an error.
pub(super) fn may_stand_in(ask: &RequestContext, head: &ResponseMetadata) -> bool {
    ask.live.allowed_address(head)
        && reuse::may_serve_on_error(&head.policy, &ask.directives, clock::now(), ask.live.rules(ask))
}
