//! Reloads: requests that a fresh response may not do for (`no-cache`, `max-age`, `min-fresh`), of
//! which a client may send as many as it likes.
//!
//! A reload waits with others for one fetch. When the response has come, further reloads of it are
//! hits for as long as `cache.reload_interval` says. So a URL that is fresh costs its origin one
//! request in that time, and a reload gets what is at most so old.
//!
//! RFC 9111, section 5.2.1.4: `no-cache` says that the client "prefers stored response not be used
//! to satisfy the request without successful validation on the origin server." Deliberately a
//! validation counts that another request has just had. What the response itself says of validation
//! (`no-cache` in the response) holds for each request, as does a purge.

use super::deliver;
use super::deliver::{BodySource, Delivery};
use super::fetcher::Fetcher;
use super::handling_report::HandlingReport;
use super::hybrid_cache::HybridCache;
use super::lookup::StoredResponse;
use super::request::RequestContext;
use super::serve;
use crate::clock;
use crate::message::{CacheResult, Reply};
use shoal_core::{ObjectKey, Timestamp};
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::reuse::{self, Reuse};
use std::sync::Arc;
use std::time::Duration;

/// The directives by which a response that has just come is judged for `ask`: a reload takes it as
/// the answer to its own.
pub(super) fn shared_directives(ask: &RequestContext) -> RequestDirectives {
    match is_limited(ask) {
        true => ask.directives.without_reload(),
        false => ask.directives,
    }
}

impl Fetcher {
    /// Remembers that a reload has brought or validated what is stored under the key.
    pub(super) fn note_reload(&self, ask: &RequestContext, key: &ObjectKey, now: Timestamp) {
        if is_limited(ask) {
            self.reloaded.remember(key, now.plus(ask.live.reload_interval));
        }
    }

    /// Whether the request is a reload of what another reload has brought or validated so lately
    /// that it is a hit.
    pub(super) fn was_reloaded(
        &self,
        ask: &RequestContext,
        key: &ObjectKey,
        stored: &StoredResponse,
    ) -> bool {
        let (now, policy) = (clock::now(), &stored.head.policy);
        is_limited(ask)
            && self.reloaded.holds(key, now)
            // A reload that is arriving is remembered before a lookup finds it.
            && now < policy.response_time().plus(ask.live.reload_interval)
            && serve::may_have(ask, stored)
            && reuse::decide(policy, &ask.directives.without_reload(), now) == Reuse::Fresh
    }
}

/// The stored response as the answer to a reload.
pub(super) fn reply_to_reload(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    stored: StoredResponse,
) -> Option<Reply> {
    let outcome = if stored.in_memory { CacheResult::MemoryHit } else { CacheResult::Hit };
    let verdict = HandlingReport::hit(outcome, stored.head.policy.time_to_live(clock::now()));
    let delivery = Delivery { head: stored.head, body: BodySource::Held(stored.body) };
    deliver::deliver(objects, ask, delivery, verdict.detail("reload-interval"))
}

/// Whether it is a reload that others may answer.
fn is_limited(ask: &RequestContext) -> bool {
    ask.directives.is_reload() && ask.live.reload_interval > Duration::ZERO
}
