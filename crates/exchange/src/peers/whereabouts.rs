//! Whereabouts of an object: the homes of its key, how they are, and which nodes hold it now.

use super::one_ask::{OneAnswer, OneAsk};
use super::parents_of;
use crate::CacheEngine;
use crate::clock;
use crate::cluster::peer_state;
use crate::lookup::Lookup;
use crate::message::Client;
use crate::message::target::Target;
use crate::request::{AdmittedRequest, RequestContext};
use http::Method;
use serde::{Deserialize, Serialize};
use shoal_cooperation::{Ask, AskKind, AskResult};
use shoal_semantics::NextHopFields;
use std::sync::Arc;

/// Whereabouts of the object of a URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// URL in its normal form.
    pub url: String,
    /// `site` or `forward`.
    pub mode: String,
    /// All members, the homes of the key first and in order.
    pub nodes: Vec<NodeWithObject>,
}

/// A member, as far as the object is concerned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeWithObject {
    /// Name of the node.
    pub name: String,
    /// Address of the node for its peers.
    pub address: String,
    /// Place among the homes of the key, or among the parents in a hierarchy, from 1; 0 for none.
    pub home: usize,
    /// `here`, `asked`, or the reason for which this node does not ask the other one.
    pub state: String,
    /// Usual longest time to an answer, in milliseconds, if known.
    pub p99_ms: Option<f64>,
    /// `true` if the node holds a response; `None` if it did not say.
    pub holds: Option<bool>,
}

impl CacheEngine {
    /// Finds the object of a URL in the cluster. Asks each member whether it holds a response.
    ///
    /// # Errors
    /// In a line, if this node is in no cluster or the URL cannot be read.
    pub async fn whereabouts(self: &Arc<Self>, url: &str) -> Result<Whereabouts, String> {
        let cluster = self.cluster.clone().ok_or("this node is in no cluster")?;
        let target = Target::parse(url).map_err(|_| format!("{url:?} is no http or https URL"))?;
        let context = self.supposed(target, Method::HEAD, cluster.address())?;
        let members = Arc::clone(&cluster.members());
        let homes = parents_of(&context).unwrap_or_else(|| members.view.homes(context.primary.full()));
        let homes: Vec<_> = homes.iter().collect();
        let mut nodes = Vec::new();
        for member in members.view.members() {
            let place = homes.iter().position(|home| *home == member.id).map_or(0, |at| at + 1);
            let (state, p99, holds) = if member.id == cluster.own() {
                let found = self.cache.lookup(&context).await;
                ("here", None, Some(!matches!(found, Lookup::Absent { .. })))
            } else {
                let peer = members.peer(member.id).expect("each member is a peer");
                let status = peer.status();
                let fields = NextHopFields::default();
                let (metrics, method) = (&self.metrics, Method::HEAD);
                let asker = OneAsk { cluster: &cluster, metrics, context: &context, method, fields: &fields };
                let (kind, timeout) = (AskKind::Holder, cluster.peer_timeout());
                let answer = asker.send(peer, Ask { node: member.id, kind, hops: 1, timeout }).await;
                (peer_state(status.skipped), status.p99, holds(&answer))
            };
            nodes.push(NodeWithObject {
                name: member.name.to_string(),
                address: member.address.to_string(),
                home: place,
                state: state.to_owned(),
                p99_ms: p99.map(|p99| p99.as_secs_f64() * 1000.0),
                holds,
            });
        }
        nodes.sort_by_key(|node| if node.home == 0 { usize::MAX } else { node.home });
        let mode = if context.site.is_some() { "site" } else { "forward" };
        Ok(Whereabouts { url: context.target.url.to_string(), mode: mode.to_owned(), nodes })
    }

    /// Returns the names of a URL's homes, or of its parents in a hierarchy, in order; none outside
    /// a cluster.
    pub fn home_names(&self, url: &str) -> Vec<String> {
        let Some(cluster) = self.cluster.as_ref() else { return Vec::new() };
        let target = Target::parse(url).ok();
        let context = target.and_then(|target| self.supposed(target, Method::HEAD, cluster.address()).ok());
        let Some(context) = context else { return Vec::new() };
        let view = Arc::clone(&cluster.members().view);
        let homes = parents_of(&context).unwrap_or_else(|| view.homes(context.primary.full()));
        debug_assert!(homes.iter().all(|home| view.member(home).is_some()), "homes are members");
        homes.iter().filter_map(|home| Some(view.member(home)?.name.to_string())).collect()
    }

    /// Returns a supposed request for the target, of this node itself.
    pub(super) fn supposed(
        &self,
        target: Target,
        method: Method,
        own: std::net::SocketAddr,
    ) -> Result<RequestContext, String> {
        let head = http::Request::builder().method(method).uri(&*target.url);
        let head = head.body(()).map_err(|error| error.to_string())?;
        let (head, live) = (head.into_parts().0.into(), self.live());
        let site = live.routes.find(target.host().as_bytes(), target.path()).cloned();
        let ruling = live.outcome_for_peer(&head, &target, site.as_ref());
        let (tls, listener) = (target.https, Client::PEER_LISTENER);
        let client = Client {
            address: own,
            local: own,
            listener,
            tls,
            server_name: None,
            certificate: None,
            intercepted: None,
        };
        let client = Arc::new(client);
        let admitted = AdmittedRequest { head, target, ruling, client, way: None, site, user: None, live };
        Ok(RequestContext::new(admitted, (None, clock::now(), self.cache.purge_table.sequence())))
    }
}

/// Returns whether the node holds a response.
fn holds(answer: &OneAnswer) -> Option<bool> {
    match answer {
        OneAnswer::Response(_) => Some(true),
        OneAnswer::None(AskResult::Missing) => Some(false),
        OneAnswer::Failed(_) | OneAnswer::None(_) => None,
    }
}
