//! Validation: applies a response to the stored one that the request asked about (RFC 9111, section
//! 4.3).

use super::CacheEngine;
use super::fetch::{Fetch, FetchOutcome, ReceivedHead, UnsharedResponse};
use super::fetcher::Fetcher;
use super::flight::FlightOutcome;
use super::hybrid_cache::{Pace, Renewal};
use super::lookup::StoredResponse;
use super::metadata::{Provenance, ResponseMetadata};
use super::request::RequestContext;
use super::serve::ForwardContext;
use super::stale;
use super::store_plan;
use crate::clock;
use crate::message::Reply;
use crate::upstream::UpstreamResponse;
use http::{HeaderMap, Method, StatusCode, header};
use shoal_core::ObjectKey;
use shoal_semantics::status_fields::Reason;
use shoal_semantics::storage::{self, CachePolicy, ForwardedExchange, StorageDecision};
use shoal_semantics::{date, fields, reuse, validation};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A stored response that a 304 has renewed.
struct RenewedResponse {
    /// The response for the requesting client: its head may have fields for this client alone.
    told: StoredResponse,
    /// `true` if the response is fresh for others.
    is_shared: bool,
    /// Head that the disk does not have yet.
    due: Option<(Arc<ResponseMetadata>, Pace)>,
}

/// A stored head after a 304 or a HEAD about the same response.
pub(super) struct FreshenedHead {
    /// Head for the requesting client.
    pub head: Arc<ResponseMetadata>,
    /// Fields for this client alone.
    pub own: HeaderMap,
    /// Fate of the stored response.
    pub fate: FreshenAction,
}

/// Fate of a stored response after its validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FreshenAction {
    /// The freshened head replaces the stored one.
    Replace,
    /// The stored head stays unchanged.
    Keep,
    /// The response is removed: other requests now select it than the ones that find it.
    Remove,
}

impl CacheEngine {
    /// Validates a stored response within the request's own future, which ends when the client
    /// leaves. Only a response other than a renewal becomes a task.
    pub(super) async fn validate_in_place(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        why: ForwardContext,
    ) -> Reply {
        let mut fetch = self.fetcher.plan_for(ask, &why, None);
        let response = match self.fetcher.ask_in_place(&fetch).await {
            Ok(response) => response,
            Err(failure) => return self.failed(ask, &why, &failure),
        };
        let is_unmodified = response.status == StatusCode::NOT_MODIFIED;
        let Some((key, stored)) = fetch.stored.take_if(|_| is_unmodified) else {
            return self.reply_from_task(ask, &why, self.fetcher.spawn_answered(fetch, response)).await;
        };
        let Some(renewed) = self.fetcher.renew(&fetch, (&key, stored), ReceivedHead::of(&response)).await
        else {
            return self.reply_from_task(ask, &why, self.fetcher.spawn_fetch(fetch)).await;
        };
        if let Some((head, pace)) = renewed.due {
            let objects = Arc::clone(&self.cache.objects);
            match pace {
                Pace::Soon => objects.refresh_on_disk(&key, &head, pace).await,
                Pace::AtOnce => {
                    tokio::spawn(async move { objects.refresh_on_disk(&key, &head, pace).await });
                }
            }
        }
        self.reply_from_fetch(ask, &why, FetchOutcome::Refreshed(renewed.told, response.peer))
    }
}

impl Fetcher {
    /// Continues a fetch after its response has come.
    pub(super) async fn answered(
        self: Arc<Self>,
        mut fetch: Fetch,
        owner: oneshot::Sender<FetchOutcome>,
        response: UpstreamResponse,
    ) {
        let Some((key, stored)) = fetch.stored.take() else {
            return self.receive(fetch, owner, response).await;
        };
        if response.status == StatusCode::NOT_MODIFIED {
            let Some(renewed) = self.renew(&fetch, (&key, stored), ReceivedHead::of(&response)).await else {
                // a 304 for another representation than the stored one: ask again for the whole
                return Box::pin(self.fetch(fetch, owner)).await;
            };
            if let Some(leader) = &fetch.leader {
                leader.publish(if renewed.is_shared {
                    FlightOutcome::Refreshed
                } else {
                    FlightOutcome::Unshareable
                });
            }
            let _ = owner.send(FetchOutcome::Refreshed(renewed.told, response.peer));
            if let Some((head, pace)) = renewed.due {
                self.cache.objects.refresh_on_disk(&key, &head, pace).await;
            }
            return;
        }
        if may_stand_in(&fetch.ask, &stored, response.status) {
            self.heed_retry_after(&fetch.ask, ReceivedHead::of(&response));
            response.note_refusal(Reason::StaleIfError);
            // Errors are shared.
            self.unshared.forget(&key);
            // RFC 5861, section 4: this holds even if the error itself might be stored
            if let Some(leader) = &fetch.leader {
                leader.publish(FlightOutcome::Erred(response.status));
            }
            let _ = owner.send(FetchOutcome::Private(Box::new(UnsharedResponse {
                response,
                why: Reason::StaleIfError,
            })));
            return;
        }
        self.receive(fetch, owner, response).await;
    }

    /// Renews the stored response by a 304 (RFC 9111, section 4.3.4), as soon as a lookup would
    /// find it so. Returns `None` if the 304 is for another representation.
    async fn renew(
        &self,
        fetch: &Fetch,
        (key, stored): (&ObjectKey, StoredResponse),
        response: ReceivedHead<'_>,
    ) -> Option<RenewedResponse> {
        let (newer, fields) = (response.fields.to_map(), stored.head.stored.fields());
        if !validation::selects(&newer, &fields) {
            return None;
        }
        let freshened = freshen(&fetch.ask, (&stored.head, fields), (response, newer));
        let head = freshened.head;
        let told = StoredResponse { head: head.with(&freshened.own), ..stored };
        if freshened.fate == FreshenAction::Remove {
            self.cache.objects.remove(key).await;
        }
        let keep = freshened.fate == FreshenAction::Replace && fetch.validity.is_unchanged();
        let renewal = if keep {
            self.cache.objects.refresh_in_memory(key, &head, &fetch.validity)
        } else {
            Renewal::Outrun
        };
        if renewal == Renewal::Absent {
            self.cache.objects.refresh_on_disk(key, &head, Pace::AtOnce).await;
        }
        let was_in_vain = self.waits_in_vain(&fetch.ask, key);
        // A response that is never fresh would send the followers into a second flight, one after
        // the other.
        let is_fresh = self.note_sharing(&fetch.ask, key, &head.policy, head.policy.response_time());
        // If each request renews the response, the disk need not get each renewal.
        let pace = if was_in_vain && self.waits_in_vain(&fetch.ask, key) { Pace::Soon } else { Pace::AtOnce };
        let due = (renewal == Renewal::Kept).then_some((head, pace));
        Some(RenewedResponse { told, is_shared: keep && is_fresh, due })
    }

    /// Remembers the pause that the origin asks for, if a stale response may replace its error.
    pub(super) fn heed_retry_after(&self, ask: &RequestContext, response: ReceivedHead<'_>) {
        let (now, rules) = (response.response_time, ask.live.rules(ask));
        let rest = reuse::rest_asked_for(response.status, response.fields, clock::date_at(now), rules);
        if !rest.is_zero() {
            self.resting.remember(&ask.primary, now.plus(rest));
        }
    }
}

/// Returns `true` if a stored response may be sent in place of an error with this status.
fn may_stand_in(ask: &RequestContext, stored: &StoredResponse, status: StatusCode) -> bool {
    let rules = ask.live.rules(ask);
    stale::covers_status(ask, status)
        && ask.live.allowed_address(&stored.head)
        && reuse::may_serve_on_error(&stored.head.policy, &ask.directives, clock::now(), rules)
}

/// Freshens the stored head by a 304 or a HEAD. The caller passes both responses' fields as maps.
pub(super) fn freshen(
    ask: &RequestContext,
    (stored, mut fields): (&ResponseMetadata, HeaderMap),
    (response, mut newer): (ReceivedHead<'_>, HeaderMap),
) -> FreshenedHead {
    let live = &ask.live;
    let rules = &*live.rules_for(ask, stored.stored.status(), &fields);
    // Fields for this client alone, such as a cookie, do not change the judgement of the stored
    // response.
    let names = storage::unstored_fields(&newer, rules);
    let mut own = storage::take_apart(&mut newer, &names);
    let is_selected_as_before = validation::freshen(&mut fields, &newer);
    // As with a full response; by the stored Date the response would already be old.
    if !newer.contains_key(header::DATE) {
        fields.insert(header::DATE, date::format(clock::date_at(response.response_time)));
    }
    if newer.contains_key(header::VIA) {
        fields::append_via(&mut fields, response.version, &live.hop);
    }
    let exchanged = ForwardedExchange {
        method: &Method::GET,
        query: ask.path.query(),
        request: &ask.fields,
        status: stored.stored.status(),
        response: &fields,
        request_time: clock::date_at(response.request_time),
        response_time: clock::date_at(response.response_time),
    };
    let judged = storage::judge(&exchanged, rules);
    // A client without cookies may validate the page of one with cookies. It is still the page of
    // that one, unless the origin now says otherwise.
    let is_by_origin = judged.source.is_some_and(|source| source.is_explicit() && !source.is_rule());
    let of_all = |policy: CachePolicy| match stored.policy.is_personal() && !is_by_origin {
        true => policy.personal(),
        false => policy,
    };
    let (policy, fate) = match judged.decision {
        StorageDecision::Store(policy) => {
            (of_all(policy).received(response.response_time), FreshenAction::Replace)
        }
        // this request's response may not be stored; the stored response of others stays
        StorageDecision::Refuse(refusal) if refusal.is_of_request() && !stored.policy.is_authorized() => {
            (stored.policy.invalidated(), FreshenAction::Keep)
        }
        // a response that may no longer be stored answers this request once more
        StorageDecision::Refuse(_) => (stored.policy.invalidated(), FreshenAction::Replace),
    };
    let fate = if is_selected_as_before { fate } else { FreshenAction::Remove };
    let names = store_plan::names(ask, &fields);
    let (fields, apart) = storage::split_fields(&fields, rules);
    // Only the new fields; fields stored earlier were for other clients.
    for (name, value) in apart.iter().filter(|(name, _)| newer.contains_key(*name)) {
        own.append(name.clone(), value.clone());
    }
    let origin = Provenance { requested: ask.sequence, names, identity: stored.identity.renewed() };
    let head = ResponseMetadata::new(stored.stored.status(), fields, policy, origin);
    FreshenedHead { head: Arc::new(head), own, fate }
}
