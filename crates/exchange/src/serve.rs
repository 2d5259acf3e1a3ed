//! The steps of a request that the cache may answer: look up, decide, deliver, validate or fetch.

use super::CacheEngine;
use super::answers;
use super::deliver;
use super::deliver::{BodySource, Delivery};
use super::fetch::{ArrivingResponse, Fetch, FetchFailure, UnsharedResponse};
use super::fetcher::Fetcher;
use super::flight::{FlightKey, FlightOutcome, FlightRole, Leader, PartKey};
use super::handling_report::HandlingReport;
use super::hybrid_cache::HybridCache;
use super::lookup::{Lookup, StoredResponse};
use super::peers::may_lead_in_place;
use super::prefetch;
use super::reloads;
use super::reloads::shared_directives;
use super::request::RequestContext;
use super::ruling::ruled;
use super::stale;
use super::stored_use::{StoredUse, is_for};
use super::upstream_request::upstream_request;
use crate::boxed::in_place;
use crate::clock;
use crate::message::{CacheResult, Reply};
use crate::upstream::UpstreamResponse;
use http::{Method, StatusCode, header};
use shoal_core::{Fields, ObjectKey, Timestamp};
use shoal_semantics::range::RangeAnswer;
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::status_fields::{ForwardReason, Reason};
use shoal_semantics::storage::CachePolicy;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Result of one look at the cache.
pub enum ServeStep {
    /// The reply.
    Done(Box<Reply>),
    /// The state has changed: look again.
    Again,
    /// This request cannot share a fetch: fetch for it alone.
    Alone(ForwardContext),
}

/// Context of a request that goes to the origin.
pub struct ForwardContext {
    /// Reason, in the words of RFC 9211.
    pub forwarded: ForwardReason,
    /// Key of the lookup and of the flight.
    pub key: ObjectKey,
    /// Stored response to validate.
    pub stored: Option<StoredResponse>,
}

/// Boxes the way of a request that is no hit. A plain function does it: the code of a future is
/// made anew in each crate that polls it, and this one has nearly all of this crate in it.
#[inline(never)]
fn forwarding<'a>(
    engine: &'a Arc<CacheEngine>,
    ask: &'a Arc<RequestContext>,
    why: ForwardContext,
) -> Pin<Box<dyn Future<Output = ServeStep> + Send + 'a>> {
    Box::pin(engine.forward(ask, why))
}

impl CacheEngine {
    /// Answers a GET or HEAD without a body.
    pub(super) async fn serve(self: &Arc<Self>, ask: &Arc<RequestContext>) -> Reply {
        let began = self.prefetcher.note_request(ask);
        let reply = look_and_serve(self, ask).await;
        prefetch::learn(self, ask, &reply, began);
        reply
    }

    async fn try_serve(self: &Arc<Self>, ask: &Arc<RequestContext>) -> ServeStep {
        match self.cache.lookup(ask).await {
            Lookup::Response { key, stored } => self.decide_reuse(ask, key, stored).await,
            Lookup::Parts { key, note } => Box::pin(self.decide_parts(ask, key, note)).await,
            Lookup::Absent { key, variants } => {
                if ask.mirror.is_some()
                    && let Some(reply) = self.look_for_promise(ask).await
                {
                    return ServeStep::Done(reply);
                }
                let forwarded = if variants { ForwardReason::VaryMiss } else { ForwardReason::UriMiss };
                let why = ForwardContext { forwarded, key, stored: None };
                // There is nothing to wait for here, so no future is needed.
                let is_plain = !ask.directives.only_if_cached && !ask.has_origin_conditions();
                if is_plain && self.fetcher.skips_collapsing(ask) {
                    return ServeStep::Alone(why);
                }
                forwarding(self, ask, why).await
            }
        }
    }

    /// Decides whether the selected response may be reused (RFC 9111, section 4).
    async fn decide_reuse(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        key: ObjectKey,
        stored: StoredResponse,
    ) -> ServeStep {
        if ask.mirror.is_some()
            && let Some(reply) = Box::pin(self.refuse_young(ask, &stored.head)).await
        {
            return ServeStep::Done(reply);
        }
        if self.cache.is_unconfirmed(ask) && self.drop_replaced(ask, (&key, &stored.head)).await {
            return ServeStep::Again;
        }
        match self.fetcher.judge_stored(ask, &key, &stored.head) {
            StoredUse::Hit => {}
            StoredUse::WhileRevalidated => {
                if !self.fetcher.is_resting(ask) {
                    self.revalidate_in_background(ask, &key, &stored);
                }
                let stored = self.coder.form_for(ask, &key, stored).await;
                return reply_or_retry(deliver_stored(
                    &self.cache.objects,
                    ask,
                    stored,
                    CacheResult::StaleWhileRevalidate,
                ));
            }
            StoredUse::AfterReload => {
                let stored = self.coder.form_for(ask, &key, stored).await;
                let reply = reloads::reply_to_reload(&self.cache.objects, ask, stored);
                return reply_or_retry(reply);
            }
            StoredUse::Forwarded { forwarded, while_resting } => {
                let why = ForwardContext { forwarded, key, stored: Some(stored) };
                if ask.mirror.is_some()
                    && let Some(reply) = self.look_for_promise(ask).await
                {
                    return ServeStep::Done(reply);
                }
                if while_resting && let Some(reply) = stale::stale_unasked(&self.cache.objects, ask, &why) {
                    return ServeStep::Done(Box::new(reply));
                }
                return forwarding(self, ask, why).await;
            }
        }
        let stored = self.coder.form_for(ask, &key, stored).await;
        let outcome = if stored.in_memory { CacheResult::MemoryHit } else { CacheResult::Hit };
        reply_or_retry(deliver_stored(&self.cache.objects, ask, stored, outcome))
    }

    /// Starts a validation without a waiting client, unless one is in progress.
    fn revalidate_in_background(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        key: &ObjectKey,
        stored: &StoredResponse,
    ) {
        if let FlightRole::Lead(leader) = self.cache.flights.join(ask.flight(key))
            && !self.cache.has_come_since(ask, key, Some(stored))
        {
            let stored = Some((key.clone(), stored.clone()));
            drop(
                self.fetcher
                    .spawn_fetch(Fetch { leader: Some(leader), ..self.fetcher.plan_fetch(ask, stored) }),
            );
        }
    }

    /// Joins a fetch for the request, or starts one.
    pub(super) async fn forward(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        why: ForwardContext,
    ) -> ServeStep {
        if ask.joins_origin_flights
            && why.stored.is_none()
            && let Some(reply) = self.reply_from_origin_flight(ask, &why).await
        {
            return ServeStep::Done(Box::new(reply));
        }
        if ask.directives.only_if_cached {
            let held = self.pass_from_holder(ask, &why).await;
            return reply_or_retry(Some(held.unwrap_or_else(|| only_if_cached(ask))));
        }
        if ask.has_origin_conditions() {
            return ServeStep::Done(Box::new(self.pass(ask, None).await));
        }
        if self.fetcher.skips_collapsing(ask) || self.fetcher.waits_in_vain(ask, &why.key) {
            return ServeStep::Alone(why);
        }
        if let Some(reply) = self.range_of_arriving(ask, &why).await {
            return ServeStep::Done(Box::new(reply));
        }
        // The request may have waited for a response that was not shareable: once is enough.
        if self.fetcher.skips_collapsing(ask) || self.fetcher.waits_in_vain(ask, &why.key) {
            return ServeStep::Alone(why);
        }
        match self.cache.flights.join(flight_key(ask, &why)) {
            FlightRole::Lead(leader) if self.cache.has_come_since(ask, &why.key, why.stored.as_ref()) => {
                leader.publish(FlightOutcome::Refreshed);
                ServeStep::Again
            }
            FlightRole::Lead(leader) => ServeStep::Done(Box::new(self.lead(ask, why, Some(leader)).await)),
            FlightRole::Follow(follower) => {
                let may_leave = why.stored.is_none() && ask.brings_credentials();
                let landing = match may_leave {
                    true => follower.landed_before_turn().await,
                    false => Some(follower.wait_outcome().await),
                };
                match landing {
                    Some(landing) => self.reply_from_flight(ask, why, landing),
                    None => ServeStep::Alone(why),
                }
            }
        }
    }

    /// Serves another node, which asks for a stored copy, from a fetch that is at the origin. No
    /// circle of waits exists, since such a fetch waits for no node.
    async fn reply_from_origin_flight(&self, ask: &RequestContext, why: &ForwardContext) -> Option<Reply> {
        let follower = self.cache.flights.follow_at_origin(&FlightKey::of(&why.key))?;
        let FlightOutcome::Shared(arrived) = follower.wait_outcome().await else { return None };
        if !self.may_share(ask, &arrived) {
            return None;
        }
        let verdict = arrived_verdict(why, &arrived, CacheResult::Collapsed).collapsed();
        let body = BodySource::Growing(Arc::clone(&arrived.body), arrived.length, None);
        let delivery = Delivery { head: Arc::clone(&arrived.head), body, choice: None };
        deliver::deliver(&self.cache.objects, ask, delivery, verdict)
    }

    /// Serves a range of a whole response being fetched, if the range has arrived or is about to.
    async fn range_of_arriving(&self, ask: &RequestContext, why: &ForwardContext) -> Option<Reply> {
        ask.range().filter(|_| why.stored.is_none())?;
        let FlightOutcome::Shared(arrived) =
            self.cache.flights.follow(&ask.flight(&why.key))?.wait_outcome().await
        else {
            return None;
        };
        let RangeAnswer::Parts(ranges) = deliver::resolve_ranges(ask, &arrived.head, arrived.length?)? else {
            return None;
        };
        let end = ranges.iter().map(|range| range.end).max()?;
        if end > arrived.body.appended() + ABOUT_TO_ARRIVE || !self.may_share(ask, &arrived) {
            return None;
        }
        let verdict = arrived_verdict(why, &arrived, CacheResult::Collapsed).collapsed();
        let body = BodySource::Growing(Arc::clone(&arrived.body), arrived.length, None);
        deliver::deliver(
            &self.cache.objects,
            ask,
            Delivery { head: Arc::clone(&arrived.head), body, choice: None },
            verdict,
        )
    }

    /// Fetches without followers. Boxed, so that a hit does not carry room for this future.
    pub(super) fn fetch_alone<'a>(
        self: &'a Arc<Self>,
        ask: &'a Arc<RequestContext>,
        why: ForwardContext,
    ) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        if ask.method == Method::HEAD {
            return Box::pin(self.pass_head(ask, why));
        }
        if why.stored.is_some() && ask.homes().is_none() {
            return in_place(|| self.validate_in_place(ask, why));
        }
        if ask.directives.no_store || self.fetcher.is_pass(ask) {
            return in_place(|| self.fetch_in_place(ask, why));
        }
        Box::pin(self.lead(ask, why, None))
    }

    async fn lead(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        why: ForwardContext,
        leader: Option<Leader>,
    ) -> Reply {
        let fetch = self.fetcher.plan_for(ask, &why, leader);
        if may_lead_in_place(ask, &fetch) {
            return Box::pin(self.lead_in_place(ask, &why, fetch)).await;
        }
        self.reply_from_task(ask, &why, self.fetcher.spawn_fetch(fetch)).await
    }

    /// Fetches for the owner only a response that is not expected to be stored. The fetch runs
    /// within the owner's own future, so that it ends when the owner leaves. Only a response that
    /// may be stored after all becomes a task.
    async fn fetch_in_place(self: &Arc<Self>, ask: &Arc<RequestContext>, why: ForwardContext) -> Reply {
        let fetch = self.fetcher.plan_for(ask, &why, None);
        let response = match self.fetcher.ask_in_place(&fetch).await {
            Ok(response) => response,
            Err(failure) => return self.failed(ask, &why, &failure),
        };
        let refusal = response.neighbours_refusal().or_else(|| self.fetcher.refused(&fetch, &response));
        match refusal {
            Some(refusal) => self.deliver_unshared(ask, &why, UnsharedResponse { response, why: refusal }),
            None => self.reply_from_task(ask, &why, self.fetcher.spawn_answered(fetch, response)).await,
        }
    }

    /// Returns `true` if another request's response may answer this one: the selected variant,
    /// still valid, and not purged.
    pub(super) fn may_share(&self, ask: &RequestContext, arrived: &ArrivingResponse) -> bool {
        let selecting = arrived.selecting.as_ref();
        let names = &arrived.head.names;
        let selects = selecting.is_none_or(|selecting| ask.selecting(&selecting.names) == selecting.values);
        selects
            && is_for(ask, &arrived.head.policy)
            && arrived.validity.is_unchanged()
            && names.via_site == ask.site.is_some()
            && ask.live.allowed_address(&arrived.head)
            && !self.cache.purge_table.is_purged(&names.slots, &names.groups, arrived.head.requested)
            && matches!(
                reuse::decide(&arrived.head.policy, &shared_directives(ask), clock::now()),
                Reuse::Fresh
            )
    }
}

/// Looks at the cache until there is a reply, a few times at most.
async fn look_and_serve(engine: &Arc<CacheEngine>, ask: &Arc<RequestContext>) -> Reply {
    for _ in 0..LOOKS_MAX {
        match engine.try_serve(ask).await {
            ServeStep::Done(reply) => return *reply,
            ServeStep::Again => {}
            ServeStep::Alone(why) => return engine.fetch_alone(ask, why).await,
        }
    }
    let why = ForwardContext { forwarded: ForwardReason::Miss, key: ask.primary.clone(), stored: None };
    engine.fetch_alone(ask, why).await
}

impl Fetcher {
    /// Returns `true` if no other request may share the request's fetch.
    fn skips_collapsing(&self, ask: &RequestContext) -> bool {
        ask.method == Method::HEAD || ask.directives.no_store || !ask.live.collapse || self.is_pass(ask)
    }

    /// Returns `true` if recent responses under the key were never fresh. Each request then needs
    /// its own answer.
    pub(super) fn waits_in_vain(&self, ask: &RequestContext, key: &ObjectKey) -> bool {
        self.unshared.holds(key, ask.requested)
    }

    /// Remembers whether waiting for the response under the key is useless. Returns `true` if the
    /// response is fresh, and so usable for waiting requests.
    pub(super) fn note_sharing(
        &self,
        ask: &RequestContext,
        key: &ObjectKey,
        policy: &CachePolicy,
        now: Timestamp,
    ) -> bool {
        let place = key;
        let each_needs_its_own =
            policy.freshness_lifetime().is_zero() || policy.always_validates() && !policy.is_invalidated();
        match each_needs_its_own {
            true => self.unshared.remember(place, now.plus(UNSHARED_MEMORY)),
            false => self.unshared.forget(place),
        }
        self.note_reload(ask, key, now);
        policy.is_fresh(now)
    }

    /// Asks the origin within the request's own future.
    pub(super) async fn ask_in_place(&self, fetch: &Fetch) -> Result<UpstreamResponse, FetchFailure> {
        let outcome = if self.neighbours_for(fetch).is_some() || fetch.ask.mirror.is_some() {
            Box::pin(self.send(fetch)).await
        } else {
            let mut errand = self.upstreams.errand(upstream_request(fetch));
            errand.run().await
        };
        let outcome = outcome.map(|response| ruled(fetch, response, &self.metrics));
        outcome.map_err(|error| FetchFailure::of(&fetch.ask.target.url, &error))
    }

    /// Plans the fetch that a request leads, or makes alone.
    pub(super) fn plan_for(
        &self,
        ask: &Arc<RequestContext>,
        why: &ForwardContext,
        leader: Option<Leader>,
    ) -> Fetch {
        let stored = why.stored.clone().map(|stored| (why.key.clone(), stored));
        let mut fetch = Fetch { leader, ..self.plan_fetch(ask, stored) };
        if why.stored.is_none() && ask.range().is_some() && !ask.fetches_whole() {
            fetch.range = ask.fields.shared_value(&header::RANGE);
            fetch.if_range = ask.fields.shared_value(&header::IF_RANGE);
        }
        fetch.conditional = self.is_pass(ask);
        fetch.reason = why.forwarded.into();
        fetch
    }

    /// Returns `true` if responses to such requests recently could not be stored.
    pub(super) fn is_pass(&self, ask: &RequestContext) -> bool {
        self.passes.holds(ask.pass_key(), ask.requested)
    }
}

/// Delivers a complete stored response without asking the origin.
pub(super) fn deliver_stored(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    stored: StoredResponse,
    outcome: CacheResult,
) -> Option<Reply> {
    let ttl = stored.head.policy.time_to_live(clock::now());
    let delivery = Delivery { head: stored.head, body: BodySource::Held(stored.body), choice: stored.choice };
    deliver::deliver(objects, ask, delivery, HandlingReport::hit(outcome, ttl))
}

/// Returns the report about a response that is being stored.
pub(super) fn arrived_verdict(
    why: &ForwardContext,
    arrived: &ArrivingResponse,
    outcome: CacheResult,
) -> HandlingReport {
    HandlingReport::forwarded(why.forwarded)
        .outcome(outcome)
        .forward_status(arrived.head.stored.status())
        .stored(arrived.is_stored)
        .ttl(arrived.head.policy.time_to_live(clock::now()))
        .upstream(arrived.upstream)
}

/// RFC 9111, section 5.2.1.7: "if it's unable to use a stored response … it SHOULD respond with a
/// 504".
pub(super) fn only_if_cached(ask: &RequestContext) -> Reply {
    answers::own_answer(
        ask,
        StatusCode::GATEWAY_TIMEOUT,
        NOT_CACHED,
        HandlingReport::local(Reason::OnlyIfCached),
    )
}

/// Wraps a reply. Without one, asks for another look.
pub(super) fn reply_or_retry(reply: Option<Reply>) -> ServeStep {
    reply.map_or(ServeStep::Again, |reply| ServeStep::Done(Box::new(reply)))
}

/// Returns the key of the shared fetch. Requests for one key, one range and one If-Range share a
/// fetch. A validation asks for the whole at any range. A 206 answers the If-Range of its own
/// request: it would be wrong for a client with bytes of another representation.
fn flight_key(ask: &RequestContext, why: &ForwardContext) -> FlightKey {
    let whole = ask.flight(&why.key);
    match ask.range() {
        Some(range) if why.stored.is_none() && !ask.fetches_whole() => {
            let validators = ask.fields.values(&header::IF_RANGE).map(Into::into).collect();
            whole.for_part(PartKey { range: range.as_bytes().into(), validators })
        }
        _ => whole,
    }
}

/// Returns `true` if the request, or its stored response, demands a validation of its own.
pub(super) fn wants_validation(ask: &RequestContext, why: &ForwardContext) -> bool {
    let each_time = |policy: &CachePolicy| policy.always_validates() && !policy.is_invalidated();
    let stored = why.stored.as_ref().is_some_and(|stored| each_time(&stored.head.policy));
    let directives = shared_directives(ask);
    stored || directives.no_cache || directives.max_age == Some(0)
}

/// Time for which useless waiting is remembered, as in `passes`.
const UNSHARED_MEMORY: Duration = Duration::from_secs(120);

/// Maximum distance in bytes from the arrived bytes to a range's end for which a request waits.
const ABOUT_TO_ARRIVE: u64 = 1 << 20;

/// Maximum looks at the cache for one request, each after a change.
const LOOKS_MAX: usize = 3;

const NOT_CACHED: &str = "Nothing stored can answer the request, and it forbids to ask the origin.";
pub(super) const ENDED: &str = "The fetch of this response ended early.";
