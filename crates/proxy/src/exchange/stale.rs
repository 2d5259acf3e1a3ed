//! Stale responses in place of errors (RFC 5861, section 4), and during a pause that an origin
//! asked for.

use super::deliver;
use super::deliver::{BodySource, Delivery};
use super::fetch::FetchFailure;
use super::fetcher::Fetcher;
use super::handling_report::HandlingReport;
use super::hybrid_cache::HybridCache;
use super::lookup::StoredResponse;
use super::request::RequestContext;
use super::serve::ForwardContext;
use crate::clock;
use crate::message::{CacheResult, Reply};
use http::StatusCode;
use shoal_semantics::reuse;
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
    let stored = why.stored.clone().filter(|stored| ask.live.allowed_address(&stored.head))?;
    if !may_be_stale(ask, &stored) {
        return None;
    }
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
        Delivery { head: stored.head, body: BodySource::Held(stored.body) },
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
    let allowed =
        |stored: &&StoredResponse| ask.live.allowed_address(&stored.head) && may_be_stale(ask, stored);
    let stored = why.stored.as_ref().filter(allowed)?.clone();
    let ttl = stored.head.policy.time_to_live(clock::now());
    let verdict = HandlingReport::hit(CacheResult::StaleIfError, ttl).detail("retry-after");
    deliver::deliver(
        objects,
        ask,
        Delivery { head: stored.head, body: BodySource::Held(stored.body) },
        verdict,
    )
}

/// Returns `true` if a stored response may be sent in place of an error.
fn may_be_stale(ask: &RequestContext, stored: &StoredResponse) -> bool {
    reuse::may_serve_on_error(&stored.head.policy, &ask.directives, clock::now(), ask.live.rules(ask))
}
