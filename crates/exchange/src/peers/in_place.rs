//! The entry's short way: asks the homes within the client's own request, and passes a small
//! response on as it came.
//!
//! The entry keeps no response without a lease. If no other request waits for it, there is nothing
//! to share either: no task, no plan to store, no shared body. A small body that has arrived with
//! its head leaves with the head. A client that leaves ends the ask; requests that wait for it then
//! ask for themselves, and meet at the home.

use super::entry::HomeOutcome;
use crate::CacheEngine;
use crate::fetch::{Fetch, FetchOutcome};
use crate::flight::{FlightOutcome, Leader};
use crate::handling_report::HandlingReport;
use crate::message::{BodyError, CacheResult, Reply, ReplyBody, StreamBody};
use crate::pass::pass_on;
use crate::request::RequestContext;
use crate::serve::ForwardContext;
use crate::upstream::UpstreamResponse;
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use shoal_core::Fields;
use shoal_semantics::validation::is_condition;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

impl CacheEngine {
    /// Leads a fetch that [`may_lead_in_place`] allows.
    pub(crate) async fn lead_in_place(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        why: &ForwardContext,
        mut fetch: Fetch,
    ) -> Reply {
        debug_assert!(may_lead_in_place(ask, &fetch), "such a fetch needs a task");
        let response = match Box::pin(self.fetcher.ask_homes_in_place(&mut fetch)).await {
            HomeOutcome::Answered(response) => *response,
            HomeOutcome::Failed(failure) => {
                publish(&fetch, FlightOutcome::Failed(Arc::clone(&failure)));
                return self.failed(ask, why, &failure);
            }
            HomeOutcome::Landed(arrived) => {
                publish(&fetch, FlightOutcome::Shared(Arc::clone(&arrived)));
                let first = arrived.body.attach(0);
                return self.reply_from_fetch(ask, why, FetchOutcome::Shared(arrived, first));
            }
            HomeOutcome::Deserted | HomeOutcome::Origin => {
                fetch.homes_asked = true;
                return self.reply_from_task(ask, why, self.fetcher.spawn_fetch(fetch)).await;
            }
        };
        if !is_for_owner_alone(&fetch, &response) {
            return self.reply_from_task(ask, why, self.fetcher.spawn_answered(fetch, response)).await;
        }
        // Requests that have come just now ask for themselves.
        drop(fetch);
        relay(ask, why, response).await
    }
}

/// Returns `true` if the homes may be asked within the request: for the whole response, and without
/// conditions of the client.
pub(crate) fn may_lead_in_place(ask: &RequestContext, fetch: &Fetch) -> bool {
    ask.method == Method::GET
        && fetch.stored.is_none()
        && fetch.range.is_none()
        && !fetch.conditional
        && ask.homes().is_some()
        && !ask.fields.lines().any(|(name, _)| is_condition(name))
}

/// Returns `true` if nobody but the owner of the fetch needs the response, which is small. A
/// hierarchy keeps a copy on the way. With digests a copy here would take RAM from an object that
/// no other node holds.
fn is_for_owner_alone(fetch: &Fetch, response: &UpstreamResponse) -> bool {
    response.status == StatusCode::OK
        && fetch.ask.live.parents.is_none()
        && response.from_peer.is_some_and(|terms| terms.is_shared && terms.lease.is_zero())
        && response.length.is_some_and(|length| (1..=RELAYED_MAX).contains(&length))
        && fetch.leader.as_ref().is_none_or(Leader::is_deserted)
}

/// Returns the reply that carries a small response of a home.
async fn relay(ask: &RequestContext, why: &ForwardContext, mut response: UpstreamResponse) -> Reply {
    let arrived = arrived(&mut response).await;
    debug_assert!(arrived.as_ref().is_none_or(|whole| response.length == Some(whole.len() as u64)));
    let outcome = match response.from_peer.is_some_and(|terms| terms.was_hit) {
        true => CacheResult::PeerHit,
        false => CacheResult::Miss,
    };
    let verdict = HandlingReport::forwarded(why.forwarded).outcome(outcome).forward_status(response.status);
    let reply = pass_on(ask, response, verdict);
    match arrived {
        Some(whole) => Reply { body: ReplyBody::Memory(whole), ..reply },
        None => reply,
    }
}

/// Takes the body if it has arrived whole, without a wait.
async fn arrived(response: &mut UpstreamResponse) -> Option<Bytes> {
    let length = response.length?;
    let first = next_at_once(&mut response.body).await??;
    match first.map(Frame::into_data) {
        Ok(Ok(data)) if data.len() as u64 == length => {
            // The end of the body gives its connection back.
            let _ = next_at_once(&mut response.body).await;
            Some(data)
        }
        other => {
            let first = other.map(|frame| frame.map_or_else(|frame| frame, Frame::data));
            let rest = std::mem::take(&mut response.body);
            response.body = BodyRemainder { first: Some(first), rest }.boxed_unsync();
            None
        }
    }
}

/// Returns the next frame if it is there; `Some(None)` at the end.
async fn next_at_once(body: &mut StreamBody) -> Option<Option<Result<Frame<Bytes>, BodyError>>> {
    poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
        Poll::Ready(frame) => Poll::Ready(Some(frame)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// A body of which one frame was taken and is given back.
struct BodyRemainder {
    first: Option<Result<Frame<Bytes>, BodyError>>,
    rest: StreamBody,
}

impl Body for BodyRemainder {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => Pin::new(&mut self.rest).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }
}

fn publish(fetch: &Fetch, outcome: FlightOutcome) {
    fetch.leader.iter().for_each(|leader| leader.publish(outcome.clone()));
}

/// Largest body, in bytes, that later requests do not share while it arrives.
const RELAYED_MAX: u64 = 64 << 10;
