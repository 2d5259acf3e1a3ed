//! Requests between nodes of a cluster: asks of the homes of a key, and answers to such asks.
//!
//! ```text
//!  entry node: miss ─► fetch_from_homes ─┬─ ask ─► home: answer_ask ─► serve ─► cache or origin
//!                                        └─ no home answers ─► origin
//!  listener for peers:
//!   POST /shoal/NAME ───────────────► service of that name
//!   GET, HEAD with Shoal-Peer ──────► answer_ask
//!   POST /shoal/objects/hits ───────► answer_hits: RAM alone, many asks at once
//!   POST /shoal/memory/ask ─────────► shared memory: pages to keep or to return
//!   POST /shoal/objects/offer ──────► take_offer: what a drained node had
//!   anything else ──────────────────► 403 or 404, counted
//! ```
//!
//! A node asked as home asks the origin, and before that an earlier home for its stored copy. Its
//! flight is of another kind than that of the entry node. No circle of
//! waits exists, even if the nodes disagree about the members.

mod ask_timer;
mod calls;
mod contents;
mod entry;
mod fast_path;
mod hand_over;
mod hierarchy;
mod hits_entry;
mod hits_home;
mod holder;
mod home;
mod in_place;
mod messages;
mod one_ask;
mod sums;
mod whereabouts;

pub use contents::EngineContents;
pub(super) use entry::HomeOutcome;
pub use hand_over::HandOver;
pub use hierarchy::ParentRules;
pub(crate) use hierarchy::{parents_of, upward};
pub(crate) use hits_entry::{HitEntry, PeerHitLines};
pub use hits_home::HitService;
pub(super) use in_place::may_lead_in_place;
pub(crate) use messages::MessageDesk;
pub use whereabouts::{NodeWithObject, Whereabouts};

use super::CacheEngine;
use super::request::RequestContext;
use crate::cluster::{CALLS, ClusterHandle};
use crate::message::{AccessRecord, Reply, ReplyBody, ReplyHead, Request};
use crate::upstream::connection_auth;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use shoal_cluster::PEER_FIELD;
use shoal_cooperation::NodeId;
use shoal_core::Fields;
use std::sync::Arc;

impl CacheEngine {
    /// Answers a request that came to the listener for peers.
    pub(super) async fn answer_peer(self: Arc<Self>, request: Request) -> Reply {
        let Some(cluster) = self.cluster.clone() else { return plain(StatusCode::FORBIDDEN, NO_CLUSTER) };
        let path = request.head.uri.path();
        let is_absolute = request.head.uri.authority().is_some();
        let is_call = request.head.method == Method::POST && !is_absolute;
        let is_ask = is_absolute && request.head.fields.has(&HeaderName::from_static(PEER_FIELD));
        match path.strip_prefix(CALLS).filter(|_| is_call) {
            Some(_) if is_from_a_client(&request) => self.not_a_member(),
            Some(name) if may_call(&cluster, &request, name) => {
                let name = name.to_owned();
                calls::answer(&cluster, &self.metrics, request, &name).await
            }
            None if is_ask && is_member(&cluster, &request) => self.answer_ask(&cluster, request).await,
            Some(_) => self.not_a_member(),
            None if is_ask => self.not_a_member(),
            None => {
                self.metrics.cluster_malformed.increment();
                plain(StatusCode::NOT_FOUND, NOTHING_HERE)
            }
        }
    }

    fn not_a_member(&self) -> Reply {
        self.metrics.cluster_no_member.increment();
        plain(StatusCode::FORBIDDEN, NO_MEMBER)
    }
}

/// Returns `true` if a home would answer the request as this node would: rules have not sent it
/// elsewhere, and no connection is its own.
pub(super) fn may_ask(ask: &RequestContext) -> bool {
    let is_answered_alike = match &ask.mirror {
        None => asks_anybody(ask) && ask.ruling.leaves_request(),
        // The home finds the meaning of the place itself.
        Some(asked) => ask.live.asks_homes && ask.live.rule_set.is_empty() && asked.is_for_homes(),
    };
    is_answered_alike && !ask.is_for_peer && is_plain(ask)
}

fn asks_anybody(ask: &RequestContext) -> bool {
    ask.live.asks_homes || ask.live.asks_holders || ask.live.parents.is_some()
}

/// Returns `true` if the cache of another node may answer the request.
fn is_plain(ask: &RequestContext) -> bool {
    ask.is_lookup()
        && !ask.directives.no_store
        && !ask.has_origin_conditions()
        && !connection_auth::authenticates(&ask.fields)
}

/// Returns the previous home of the key of a request, if this node asks the origin as home and the
/// homes have changed lately.
fn previous_home(ask: &RequestContext) -> Option<NodeId> {
    let cluster = ask.live.cluster.as_ref()?;
    let is_home = match ask.is_for_peer {
        true => {
            ask.live.asks_homes && ask.is_lookup() && !ask.directives.no_store && !ask.has_origin_conditions()
        }
        false => ask.live.parents.is_none() && may_ask(ask) && ask.homes().is_none(),
    };
    cluster.previous_home(ask.primary.full()).filter(|_| is_home)
}

/// Returns `true` if the caller is a member, by certificate or address. A node that is about to
/// join may make the calls of membership, which have proofs of their own.
fn may_call(cluster: &ClusterHandle, request: &Request, name: &str) -> bool {
    name.starts_with(MEMBERSHIP) || is_member(cluster, request)
}

/// Returns `true` if the request came from a member. A certificate under the cluster's key proves
/// that; in the clear the address does.
fn is_member(cluster: &ClusterHandle, request: &Request) -> bool {
    let client = &request.client;
    client.certificate.is_some() || cluster.members().has_address(client.address.ip())
}

/// Returns `true` if a program that is no node wrote the call, or passed it on: a page in a browser
/// on this machine, or a proxy on a member's. Their addresses prove nothing. Nodes send none of
/// these fields with a call.
fn is_from_a_client(request: &Request) -> bool {
    FIELDS_OF_CLIENTS.iter().any(|name| request.head.fields.has(&HeaderName::from_static(name)))
}

/// Returns an answer of this node to a peer, with a line of text.
fn plain(status: StatusCode, why: &str) -> Reply {
    reply(status, Bytes::from(format!("{why}\n")))
}

fn reply(status: StatusCode, body: Bytes) -> Reply {
    let mut fields = HeaderMap::with_capacity(2);
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let record = AccessRecord { status: status.as_u16(), is_for_peer: true, ..AccessRecord::default() };
    let body = if body.is_empty() { ReplyBody::Empty } else { ReplyBody::Memory(body) };
    Reply { head: ReplyHead::Built(status, fields), body, record: Box::new(record) }
}

/// Fields that browsers add to the requests of pages, and proxies to those of their clients.
const FIELDS_OF_CLIENTS: [&str; 10] = [
    "origin",
    "referer",
    "sec-fetch-site",
    "sec-fetch-mode",
    "cookie",
    "via",
    "cdn-loop",
    "forwarded",
    "x-forwarded-for",
    "max-forwards",
];

/// First part of the names of calls that a node makes before it is a member.
const MEMBERSHIP: &str = "members/";

const NO_CLUSTER: &str = "This node is in no cluster.";
const NO_MEMBER: &str = "Only members of the cluster are answered here.";
const NOTHING_HERE: &str = "This listener answers nodes of a cluster alone.";
