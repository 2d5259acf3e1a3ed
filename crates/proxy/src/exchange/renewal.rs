//! Validation: what a response makes of the stored one that its request asked about (RFC 9111,
//! section 4.3).

use super::CacheEngine;
use super::fetch::{Fetch, FetchOutcome, ReceivedHead, UnsharedResponse};
use super::flight::FlightOutcome;
use super::hybrid_cache::{Pace, Renewal};
use super::lookup::StoredResponse;
use super::metadata::ResponseMetadata;
use super::pass::FreshenAction;
use super::request::RequestContext;
use super::serve::ForwardContext;
use crate::clock;
use crate::message::Reply;
use crate::upstream::UpstreamResponse;
use http::StatusCode;
use shoal_core::ObjectKey;
use shoal_semantics::{reuse, validation};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A stored response that a 304 has renewed.
struct Renewed {
    /// As who asked gets it: its head may have fields for this client alone.
    told: StoredResponse,
    /// Whether it is fresh for others.
    is_shared: bool,
    /// What the disk does not have yet.
    due: Option<(Arc<ResponseMetadata>, Pace)>,
}

impl CacheEngine {
    /// Goes on with a fetch whose response has come.
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
                // a 304 for another representation than ours: ask again for the whole
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
                self.shelf.refresh_on_disk(&key, &head, pace).await;
            }
            return;
        }
        if self.may_stand_in(&fetch.ask, &stored, response.status) {
            self.heed_retry_after(&fetch.ask, ReceivedHead::of(&response));
            // Errors are shared.
            self.unshared.forget(&key);
            // RFC 5861, section 4: also where the error itself might be stored
            if let Some(leader) = &fetch.leader {
                leader.publish(FlightOutcome::Erred(response.status));
            }
            let _ = owner
                .send(FetchOutcome::Private(Box::new(UnsharedResponse { response, why: "stale-if-error" })));
            return;
        }
        self.receive(fetch, owner, response).await;
    }

    /// Validates a stored response for one request within that request's own future, so that it
    /// ends when its client leaves. Only what is not renewed becomes a task.
    pub(super) async fn validate_in_place(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        why: ForwardContext,
    ) -> Reply {
        let mut fetch = self.plan_for(ask, &why, None);
        let response = match self.ask_in_place(&fetch).await {
            Ok(response) => response,
            Err(failure) => return self.failed(ask, &why, &failure),
        };
        let is_unmodified = response.status == StatusCode::NOT_MODIFIED;
        let Some((key, stored)) = fetch.stored.take_if(|_| is_unmodified) else {
            return self.reply_from_task(ask, &why, self.spawn_answered(fetch, response)).await;
        };
        let Some(renewed) = self.renew(&fetch, (&key, stored), ReceivedHead::of(&response)).await else {
            return self.reply_from_task(ask, &why, self.spawn_fetch(fetch)).await;
        };
        if let Some((head, pace)) = renewed.due {
            let shelf = Arc::clone(&self.shelf);
            match pace {
                Pace::Soon => shelf.refresh_on_disk(&key, &head, pace).await,
                Pace::AtOnce => {
                    tokio::spawn(async move { shelf.refresh_on_disk(&key, &head, pace).await });
                }
            }
        }
        self.reply_from_fetch(ask, &why, FetchOutcome::Refreshed(renewed.told, response.peer))
    }

    /// A 304 for what we hold: it stands renewed (RFC 9111, section 4.3.4), as soon as a lookup
    /// would find it so. `None` when it is for another representation.
    async fn renew(
        &self,
        fetch: &Fetch,
        (key, stored): (&ObjectKey, StoredResponse),
        response: ReceivedHead<'_>,
    ) -> Option<Renewed> {
        let (newer, fields) = (response.fields.to_map(), stored.head.stored.fields());
        if !validation::selects(&newer, &fields) {
            return None;
        }
        let freshened = self.freshen(&fetch.ask, (&stored.head, fields), (response, newer));
        let head = freshened.head;
        let told = StoredResponse { head: head.with(&freshened.own), ..stored };
        if freshened.fate == FreshenAction::Remove {
            self.shelf.remove(key).await;
        }
        let keep = freshened.fate == FreshenAction::Replace && fetch.validity.is_unchanged();
        let renewal =
            if keep { self.shelf.refresh_in_memory(key, &head, &fetch.validity) } else { Renewal::Outrun };
        if renewal == Renewal::Absent {
            self.shelf.refresh_on_disk(key, &head, Pace::AtOnce).await;
        }
        let was_in_vain = self.waits_in_vain(&fetch.ask, key);
        // What is not fresh for any time would send the followers into a second flight, one after
        // the other.
        let is_fresh = self.note_sharing(&fetch.ask, key, &head.policy, head.policy.response_time());
        // Where each request renews it, the disk need not be told of each.
        let pace = if was_in_vain && self.waits_in_vain(&fetch.ask, key) { Pace::Soon } else { Pace::AtOnce };
        let due = (renewal == Renewal::Kept).then_some((head, pace));
        Some(Renewed { told, is_shared: keep && is_fresh, due })
    }

    /// Whether a stored response may be sent in place of one with this status, an error.
    fn may_stand_in(&self, ask: &RequestContext, stored: &StoredResponse, status: StatusCode) -> bool {
        let rules = ask.live.rules(ask);
        reuse::is_error(status)
            && ask.live.allowed_address(&stored.head)
            && reuse::may_serve_on_error(&stored.head.policy, &ask.directives, self.now(), rules)
    }

    /// Remembers for how long the origin asks to be left alone, where a stale response may stand in
    /// for its error.
    pub(super) fn heed_retry_after(&self, ask: &RequestContext, response: ReceivedHead<'_>) {
        let (now, rules) = (response.response_time, ask.live.rules(ask));
        let rest = reuse::rest_asked_for(response.status, response.fields, clock::date_at(now), rules);
        if !rest.is_zero() {
            self.resting.remember(&ask.primary, now.plus(rest));
        }
    }
}
