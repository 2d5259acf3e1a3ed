//! Reloads: requests that reject a fresh response (`no-cache`, `max-age`, `min-fresh`). A client
//! may send them at any rate.
//!
//! A reload waits with others for one fetch. After the response has come, further reloads of it are
//! hits for `cache.reload_interval`. A fresh URL therefore costs its origin one request in this
//! time, and a reload gets a response that is at most this old.
//!
//! RFC 9111, section 5.2.1.4: `no-cache` says that the client "prefers stored response not be used
//! to satisfy the request without successful validation on the origin server." A validation for
//! another recent request counts too; this is deliberate. Validation demanded by the response
//! (`no-cache` in the response) applies to each request, as does a purge.

use super::deliver;
use super::deliver::{BodySource, Delivery};
use super::fetcher::Fetcher;
use super::handling_report::HandlingReport;
use super::hybrid_cache::HybridCache;
use super::lookup::StoredResponse;
use super::metadata::ResponseMetadata;
use super::request::RequestContext;
use super::stored_use::may_have;
use crate::clock;
use crate::message::{CacheResult, Reply};
use shoal_core::{ObjectKey, Timestamp};
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::status_fields::Reason;
use std::sync::Arc;
use std::time::Duration;

/// Returns the directives that judge a newly arrived response for `ask`. A reload accepts it as its
/// own answer.
pub(super) fn shared_directives(ask: &RequestContext) -> RequestDirectives {
    match is_limited(ask) {
        true => ask.directives.without_reload(),
        false => ask.directives,
    }
}

impl Fetcher {
    /// Remembers that a reload has fetched or validated the response under the key.
    pub(super) fn note_reload(&self, ask: &RequestContext, key: &ObjectKey, now: Timestamp) {
        if is_limited(ask) {
            self.reloaded.remember(key, now.plus(ask.live.reload_interval));
        }
    }

    /// Returns `true` if the request is a reload and another reload has recently fetched or
    /// validated the response. The request is then a hit.
    pub(super) fn was_reloaded(
        &self,
        ask: &RequestContext,
        key: &ObjectKey,
        head: &ResponseMetadata,
    ) -> bool {
        let (now, policy) = (clock::now(), &head.policy);
        is_limited(ask)
            && self.reloaded.holds(key, now)
            // An arriving reload is remembered before a lookup finds it.
            && now < policy.response_time().plus(ask.live.reload_interval)
            && may_have(ask, head)
            && reuse::decide(policy, &ask.directives.without_reload(), now) == Reuse::Fresh
    }
}

/// Delivers the stored response as the answer to a reload.
pub(super) fn reply_to_reload(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    stored: StoredResponse,
) -> Option<Reply> {
    let outcome = if stored.in_memory { CacheResult::MemoryHit } else { CacheResult::Hit };
    let verdict = HandlingReport::hit(outcome, stored.head.policy.time_to_live(clock::now()));
    let delivery = Delivery { head: stored.head, body: BodySource::Held(stored.body), choice: stored.choice };
    deliver::deliver(objects, ask, delivery, verdict.detail(Reason::ReloadInterval))
}

/// Returns `true` if the request is a reload that others may answer.
fn is_limited(ask: &RequestContext) -> bool {
    ask.directives.is_reload() && ask.live.reload_interval > Duration::ZERO
}
