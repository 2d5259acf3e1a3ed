//! The new home's side after a change of the homes: asks the previous home before the origin.
//!
//! The ask is one as holder: the previous home answers from its cache or not at all. Differing
//! views therefore make no circle of waits.

use super::entry::HomeOutcome;
use super::one_ask::{OneAnswer, OneAsk};
use crate::fetch::{Fetch, FetchOutcome};
use crate::fetcher::Fetcher;
use crate::request::RequestContext;
use crate::upstream::UpstreamResponse;
use crate::upstream_request::fetch_fields;
use http::Method;
use shoal_cooperation::{AskResult, Homes, Miss, MissSteps, NodeId, Part, Step};
use shoal_semantics::NextHopFields;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

impl Fetcher {
    /// Asks the nodes of the cluster that come before the origin, if there are any.
    pub(crate) async fn fetch_from_cluster(
        &self,
        fetch: &mut Fetch,
        owner: &mut oneshot::Sender<FetchOutcome>,
    ) -> HomeOutcome {
        if fetch.conditional || fetch.homes_asked {
            return HomeOutcome::Origin;
        }
        if fetch.ask.homes().is_some() {
            return Box::pin(self.fetch_from_homes(fetch, owner)).await;
        }
        match super::previous_home(&fetch.ask).filter(|_| fetch.is_whole()) {
            Some(node) => Box::pin(self.fetch_from_previous_home((fetch, node), owner)).await,
            None => HomeOutcome::Origin,
        }
    }

    /// Asks the previous home of the key while a request waits.
    async fn fetch_from_previous_home(
        &self,
        (fetch, node): (&mut Fetch, NodeId),
        owner: &mut oneshot::Sender<FetchOutcome>,
    ) -> HomeOutcome {
        let asking = |fetch: &Fetch| {
            let (context, fields) = (Arc::clone(&fetch.ask), fetch_fields(fetch).finish());
            async move { self.ask_previous_home(&context, node, fields).await }
        };
        match self.ask_while_wanted(fetch, owner, asking).await {
            None => HomeOutcome::Deserted,
            Some(Some(response)) => HomeOutcome::Answered(response),
            Some(None) => HomeOutcome::Origin,
        }
    }

    async fn ask_previous_home(
        &self,
        context: &RequestContext,
        node: NodeId,
        fields: NextHopFields,
    ) -> Option<Box<UpstreamResponse>> {
        let cluster = context.live.cluster.as_ref()?;
        let mut steps = MissSteps::new(Miss {
            here: cluster.own(),
            part: Part::Home,
            entry: cluster.own(),
            homes: Homes::default(),
            previous_home: Some(node),
            // The only hop to a home is the first.
            hops: u8::from(context.is_for_peer),
            budget: cluster.peer_timeout() / BUDGET_SHARE,
            origin_allowed: true,
        });
        let peer = cluster.members().peer(node).cloned()?;
        let Step::Ask(ask) = steps.next(Duration::ZERO, |_| peer.admit()) else { return None };
        let asker = OneAsk { cluster, metrics: &self.metrics, context, method: Method::GET, fields: &fields };
        match asker.send(&peer, ask).await {
            OneAnswer::Response(response) if response.from_peer.is_some_and(|terms| terms.is_shared) => {
                cluster.note_previous_home(true);
                self.metrics.cluster_moved.increment();
                Some(response)
            }
            OneAnswer::None(AskResult::Missing) => {
                cluster.note_previous_home(false);
                None
            }
            _ => None,
        }
    }
}

impl Fetch {
    /// Returns `true` if the fetch asks for a whole response, and validates none.
    pub(super) fn is_whole(&self) -> bool {
        self.range.is_none() && self.stored.is_none()
    }
}

/// Part of `cluster.peer_timeout` that a previous home may take: the entry waits meanwhile.
const BUDGET_SHARE: u32 = 2;
