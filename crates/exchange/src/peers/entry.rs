//! The entry's side: asks the homes of a key, or its probable holders, before the origin.
//!
//! All asks of a request share one budget of time. After it, or if no home answers, this node takes
//! the home's part: it joins a flight that is at the origin already, or asks the origin itself.

use super::one_ask::{OneAnswer, OneAsk};
use crate::cluster::ClusterHandle;
use crate::fetch::{ArrivingResponse, Fetch, FetchFailure, FetchOutcome};
use crate::fetcher::Fetcher;
use crate::flight::{FlightKey, FlightOutcome};
use crate::request::RequestContext;
use crate::upstream::UpstreamResponse;
use crate::upstream_request::fetch_fields;
use http::Method;
use shoal_cooperation::{AskKind, AskResult, Homes, Miss, MissSteps, NodeId, Part, Step};
use shoal_rules::FailureKind;
use shoal_semantics::NextHopFields;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Outcome of asking the homes.
pub enum HomeOutcome {
    /// A home answered.
    Answered(Box<UpstreamResponse>),
    /// A home could not ask the origin.
    Failed(Arc<FetchFailure>),
    /// A flight of this node, made as home of the key, brings the response.
    Landed(Arc<ArrivingResponse>),
    /// No request waits any more.
    Deserted,
    /// The origin is to be asked.
    Origin,
}

impl Fetcher {
    /// Asks the homes of the key while a request waits.
    pub(crate) async fn fetch_from_homes(
        &self,
        fetch: &mut Fetch,
        owner: &mut oneshot::Sender<FetchOutcome>,
    ) -> HomeOutcome {
        let asking = |fetch: &Fetch| {
            let (context, fields) = (Arc::clone(&fetch.ask), fetch_fields(fetch).finish());
            async move { self.ask_homes(&context, Method::GET, fields).await }
        };
        match self.ask_while_wanted(fetch, owner, asking).await {
            None => HomeOutcome::Deserted,
            Some(Some(Ok(response))) => HomeOutcome::Answered(response),
            Some(Some(Err(failure))) => HomeOutcome::Failed(Arc::new(*failure)),
            Some(None) => self.take_homes_part(fetch).await,
        }
    }

    /// Asks the homes of the key within the owner's request.
    pub(super) async fn ask_homes_in_place(&self, fetch: &mut Fetch) -> HomeOutcome {
        let fields = fetch_fields(fetch).finish();
        match self.ask_homes(&fetch.ask, Method::GET, fields).await {
            Some(Ok(response)) => HomeOutcome::Answered(response),
            Some(Err(failure)) => HomeOutcome::Failed(Arc::new(*failure)),
            None => self.take_homes_part(fetch).await,
        }
    }

    /// Joins the flight that this node makes as home of the key, if there is one. Otherwise the
    /// fetch becomes that flight.
    async fn take_homes_part(&self, fetch: &mut Fetch) -> HomeOutcome {
        // Probable holders and siblings may lack the object; homes and parents fetch it.
        let fetches = |homes: &Homes| !fetch.ask.live.asks_holders && homes.first().is_some();
        if fetch.ask.homes().is_some_and(fetches) {
            self.metrics.cluster_asks_given_up.increment();
        }
        let key = FlightKey::of(&fetch.ask.primary);
        let is_whole = fetch.is_whole();
        let Some(leader) = fetch.leader.as_mut().filter(|_| is_whole) else { return HomeOutcome::Origin };
        if let Some(follower) = self.cache.flights.follow(&key)
            && let FlightOutcome::Shared(arrived) = follower.wait_outcome().await
            && may_have(&fetch.ask, &arrived)
        {
            return HomeOutcome::Landed(arrived);
        }
        leader.add_key(key);
        HomeOutcome::Origin
    }

    /// Asks the homes of the key in order. Returns `None` if this node has to ask the origin, and
    /// the failure of a home that has asked the origin in vain.
    pub(crate) async fn ask_homes(
        &self,
        context: &RequestContext,
        method: Method,
        fields: NextHopFields,
    ) -> Option<Result<Box<UpstreamResponse>, Box<FetchFailure>>> {
        let (cluster, homes) = (context.live.cluster.as_ref()?, *context.homes()?);
        let miss = Miss {
            here: cluster.own(),
            part: if context.live.asks_holders { Part::Directory } else { Part::Entry },
            entry: cluster.own(),
            homes,
            previous_home: None,
            hops: context.hops,
            budget: cluster.peer_timeout(),
            origin_allowed: !context.directives.only_if_cached,
        };
        let mut steps = match context.live.parents {
            Some(_) => MissSteps::upward(miss, context.siblings()),
            None => MissSteps::new(miss),
        };
        let asker = OneAsk { cluster, metrics: &self.metrics, context, method, fields: &fields };
        let began = Instant::now();
        // Waiting for a home that is at work does not count.
        let mut worked = Duration::ZERO;
        loop {
            let elapsed = began.elapsed().saturating_sub(worked);
            let Step::Ask(ask) = steps.next(elapsed, |node| admitted(cluster, node)) else { return None };
            let Some(peer) = cluster.members().peer(ask.node).cloned() else { continue };
            if peer.was_late_for(context.requested) {
                // The request has waited for this node already, together with others.
                steps.answered(AskResult::TimedOut);
                continue;
            }
            let sent = Instant::now();
            let answer = asker.send(&peer, ask).await;
            if ask.kind == AskKind::Holder && !context.directives.only_if_cached {
                note_holder(cluster, ask.node, &answer);
            }
            match answer {
                OneAnswer::Response(response) => return Some(Ok(response)),
                // The home's way to the origin may be cut, and this node's open.
                OneAnswer::Failed(failure) if failure.kind == FailureKind::Connect => return None,
                OneAnswer::Failed(failure) => return Some(Err(failure)),
                OneAnswer::None(result) => steps.answered(result),
            }
            worked += sent.elapsed().saturating_sub(ask.timeout);
        }
    }
}

/// Records whether a probable holder had the object. An ask without an answer says nothing.
fn note_holder(cluster: &ClusterHandle, node: NodeId, answer: &OneAnswer) {
    let found = match answer {
        OneAnswer::Response(_) => true,
        OneAnswer::None(AskResult::Missing) => false,
        OneAnswer::Failed(_) | OneAnswer::None(_) => return,
    };
    cluster.digests().into_iter().for_each(|digests| digests.asked(node, found));
}

/// Returns the time-out for a node; `None` if the node is not asked now.
fn admitted(cluster: &ClusterHandle, node: NodeId) -> Option<Duration> {
    cluster.members().peer(node)?.admit()
}

/// Returns `true` if the response of another flight may answer this request: no variant, and not
/// invalid by now. Any other request asks for itself.
fn may_have(ask: &RequestContext, arrived: &ArrivingResponse) -> bool {
    arrived.selecting.is_none()
        && arrived.validity.is_unchanged()
        && arrived.head.names.via_site == ask.site.is_some()
        && arrived.head.policy.is_fresh(crate::clock::now())
        && !arrived.head.policy.is_negative()
        && ask.live.allowed_address(&arrived.head)
}
