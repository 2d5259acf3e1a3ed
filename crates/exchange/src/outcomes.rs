//! Replies made from the outcome of a fetch or a flight.

use super::CacheEngine;
use super::answers;
use super::deliver;
use super::deliver::{BodySource, Delivery};
use super::fetch::{ArrivingResponse, FetchFailure, FetchOutcome, UnsharedResponse};
use super::flight::FlightOutcome;
use super::handling_report::HandlingReport;
use super::hybrid_cache::HybridCache;
use super::lookup::StoredResponse;
use super::pass;
use super::request::RequestContext;
use super::serve;
use super::serve::{ENDED, ForwardContext, ServeStep, wants_validation};
use super::shared_body::BodyReader;
use super::stale;
use crate::clock;
use crate::message::{CacheResult, Reply};
use http::StatusCode;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::oneshot;

impl CacheEngine {
    /// Returns the reply for the owner of a fetch that is a task.
    pub(super) async fn reply_from_task(
        &self,
        ask: &RequestContext,
        why: &ForwardContext,
        told: oneshot::Receiver<FetchOutcome>,
    ) -> Reply {
        match told.await {
            Ok(fetched) => self.reply_from_fetch(ask, why, fetched),
            Err(_) => {
                let verdict = HandlingReport::forwarded(why.forwarded);
                answers::own_answer(ask, StatusCode::INTERNAL_SERVER_ERROR, ENDED, verdict)
            }
        }
    }

    /// Returns the reply for the owner of a fetch.
    pub(super) fn reply_from_fetch(
        &self,
        ask: &RequestContext,
        why: &ForwardContext,
        fetched: FetchOutcome,
    ) -> Reply {
        match fetched {
            FetchOutcome::Shared(arrived, first) => {
                deliver_own(&self.cache.objects, ask, why, &arrived, first)
            }
            FetchOutcome::Refreshed(stored, peer) => {
                deliver_refreshed(&self.cache.objects, ask, why, stored, peer)
            }
            FetchOutcome::Private(private) => self.deliver_unshared(ask, why, *private),
            FetchOutcome::Failed(failure) => self.failed(ask, why, &failure),
        }
    }

    /// Replies with a response for this request only. A stored response may be used in place of an
    /// error (RFC 5861, section 4).
    pub(super) fn deliver_unshared(
        &self,
        ask: &RequestContext,
        why: &ForwardContext,
        private: UnsharedResponse,
    ) -> Reply {
        let status = private.response.status;
        if let Some(reply) = stale::serve_stale_on_error(&self.cache.objects, ask, why, Some(status), None) {
            return reply;
        }
        let outcome = if why.stored.is_some() { CacheResult::RefreshModified } else { CacheResult::Miss };
        let verdict = HandlingReport::forwarded(why.forwarded)
            .outcome(outcome)
            .forward_status(status)
            .detail(private.why);
        pass::pass_on(ask, private.response, verdict)
    }

    /// Replies without a response from the origin: with a stored response, unless the proxy refused
    /// to ask, or with an error.
    pub(super) fn failed(&self, ask: &RequestContext, why: &ForwardContext, failure: &FetchFailure) -> Reply {
        if !failure.denied
            && let Some(reply) =
                stale::serve_stale_on_error(&self.cache.objects, ask, why, None, Some(failure))
        {
            return reply;
        }
        let verdict = HandlingReport::forwarded(why.forwarded).failure(failure);
        // Clients of a registry go elsewhere after some errors, and past the mirror (Go after 404).
        // All know that 504 says nothing about the package.
        if ask.mirror.is_some() && !failure.denied {
            let failure = FetchFailure { status: StatusCode::GATEWAY_TIMEOUT, ..failure.clone() };
            return answers::failure_answer(ask, &failure, verdict);
        }
        answers::failure_answer(ask, failure, verdict)
    }

    /// Replies to a follower after its fetch has landed.
    pub(super) fn reply_from_flight(
        &self,
        ask: &RequestContext,
        why: ForwardContext,
        landing: FlightOutcome,
    ) -> ServeStep {
        match landing {
            FlightOutcome::Shared(arrived) if self.may_share(ask, &arrived) => {
                let verdict = serve::arrived_verdict(&why, &arrived, CacheResult::Collapsed).collapsed();
                let body = BodySource::Growing(Arc::clone(&arrived.body), arrived.length, None);
                match deliver::deliver(
                    &self.cache.objects,
                    ask,
                    Delivery { head: Arc::clone(&arrived.head), body, choice: None },
                    verdict,
                ) {
                    Some(reply) => ServeStep::Done(Box::new(reply)),
                    None => ServeStep::Alone(why),
                }
            }
            FlightOutcome::Shared(_) | FlightOutcome::Unshareable => ServeStep::Alone(why),
            // The stored response would need another validation, at any age.
            FlightOutcome::Refreshed if wants_validation(ask, &why) => ServeStep::Alone(why),
            FlightOutcome::Refreshed => ServeStep::Again,
            FlightOutcome::Erred(status) => {
                match stale::serve_stale_on_error(&self.cache.objects, ask, &why, Some(status), None) {
                    Some(reply) => ServeStep::Done(Box::new(reply)),
                    None => ServeStep::Alone(why),
                }
            }
            FlightOutcome::Failed(failure) => ServeStep::Done(Box::new(self.failed(ask, &why, &failure))),
        }
    }
}

/// Delivers the arriving response to the owner of the fetch.
pub(super) fn deliver_own(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    why: &ForwardContext,
    arrived: &Arc<ArrivingResponse>,
    first: Option<BodyReader>,
) -> Reply {
    let outcome = if why.stored.is_some() { CacheResult::RefreshModified } else { CacheResult::Miss };
    let verdict = serve::arrived_verdict(why, arrived, outcome);
    let body = BodySource::Growing(Arc::clone(&arrived.body), arrived.length, first);
    let delivery = Delivery { head: Arc::clone(&arrived.own_head), body, choice: None };
    deliver::deliver(objects, ask, delivery, verdict).unwrap_or_else(|| {
        answers::own_answer(ask, StatusCode::BAD_GATEWAY, ENDED, HandlingReport::forwarded(why.forwarded))
    })
}

pub(super) fn deliver_refreshed(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    why: &ForwardContext,
    stored: StoredResponse,
    peer: SocketAddr,
) -> Reply {
    let ttl = stored.head.policy.time_to_live(clock::now());
    let delivery = Delivery { head: stored.head, body: BodySource::Held(stored.body), choice: stored.choice };
    let verdict = HandlingReport::forwarded(why.forwarded)
        .outcome(CacheResult::RefreshUnmodified)
        .forward_status(StatusCode::NOT_MODIFIED)
        .ttl(ttl)
        .upstream(peer);
    deliver::deliver(objects, ask, delivery, verdict).expect("a stored body is at hand")
}
