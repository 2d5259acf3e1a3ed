//! Ends of fetches without a response of their own: their owner and followers learn it.

use super::fetch::{ArrivingResponse, Fetch, FetchFailure, FetchOutcome};
use super::flight::FlightOutcome;
use crate::upstream::UpstreamError;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Lands a fetch as a flight that this node made as home of the key.
pub(super) fn land(fetch: &Fetch, owner: oneshot::Sender<FetchOutcome>, arrived: Arc<ArrivingResponse>) {
    if let Some(leader) = &fetch.leader {
        leader.publish(FlightOutcome::Shared(Arc::clone(&arrived)));
    }
    let _ = owner.send(FetchOutcome::Shared(Arc::clone(&arrived), arrived.body.attach(0)));
}

/// Lands a fetch that got no response.
pub(super) fn fail(fetch: &Fetch, owner: oneshot::Sender<FetchOutcome>, error: &UpstreamError) {
    let failure = match fetch.ask.background {
        None => FetchFailure::of(&fetch.ask.target.url, error),
        Some(_) => FetchFailure::untold(error),
    };
    land_failed(fetch, owner, Arc::new(failure));
}

/// Lands a fetch that failed for this reason.
pub(super) fn land_failed(fetch: &Fetch, owner: oneshot::Sender<FetchOutcome>, failure: Arc<FetchFailure>) {
    if let Some(leader) = &fetch.leader {
        // A prefetch may fail where a client's request would not: its followers ask for themselves.
        leader.publish(match fetch.ask.background {
            None => FlightOutcome::Failed(Arc::clone(&failure)),
            Some(_) => FlightOutcome::Unshareable,
        });
    }
    let _ = owner.send(FetchOutcome::Failed(failure));
}
