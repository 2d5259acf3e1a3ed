//! Requests of other nodes of the cluster at mirrors: the home finds the meaning of a place itself.
//!
//! ```text
//!   entry: place at the registry ─► home: path below the mirror ─► registry's code ─► same place?
//!                                                             the client's right? ─┘ ─► serve
//! ```
//!
//! The home takes no node's word about checks: class and promise follow from its own settings. A
//! place that it reads in another way is one of which it knows nothing. With `mirror.rights` the
//! home asks the registry about the client itself, with the credentials that came with the ask.

use super::MirrorRequest;
use super::rights::RightsCheck;
use crate::CacheEngine;
use crate::mirror::MirrorRoute;
use crate::purge_table::Sequence;
use crate::request::{AdmittedRequest, RequestContext};
use crate::target::Target;
use shoal_core::Timestamp;
use shoal_mirrors::Route;
use std::sync::Arc;

/// Returns the request for the place that another node asks for.
///
/// # Errors
/// The target, if the mirror has no such place, or the registry does not give it to the client.
pub(crate) async fn context_for_peer(
    engine: &Arc<CacheEngine>,
    admitted: AdmittedRequest,
    name: &str,
    times: (Timestamp, Sequence),
) -> Result<RequestContext, Target> {
    let target = admitted.target.clone();
    find(engine, admitted, name, times).await.ok_or(target)
}

async fn find(
    engine: &Arc<CacheEngine>,
    admitted: AdmittedRequest,
    name: &str,
    times: (Timestamp, Sequence),
) -> Option<RequestContext> {
    let mirror = Arc::clone(admitted.live.mirrors.named(name)?);
    let target = admitted.target.clone();
    let below = path_below(&mirror, &target)?;
    // Documents go to the other node as they are stored.
    let facts = mirror.facts(NODE);
    let request = MirrorRequest::below(admitted, (mirror, facts), (below, true), times);
    debug_assert!(request.is_own, "another node's request counts as this node's own");
    let Route::Fetch(fetch) = request.route() else { return None };
    let is_derived = request.base.decodes(&fetch);
    let context = request.base.asking(&fetch, is_derived, &request.admitted.head)?;
    let asked = context.mirror.as_ref()?;
    let is_same = *asked.url_of(asked.place_at_origin()) == *target.url && asked.is_for_homes();
    if !is_same {
        return None;
    }
    let refusal = RightsCheck { engine, request: &request }.refuse(&fetch).await;
    refusal.is_none().then_some(context)
}

/// Returns the path below a mirror of a place at its registry.
fn path_below(mirror: &MirrorRoute, target: &Target) -> Option<String> {
    let scheme = if target.https { "https" } else { "http" };
    let facts = mirror.as_registry();
    if let Some(rest) = mirror.below_upstream(scheme, target.authority(), target.path()) {
        return Some(mirror.registry.path_of_place(&facts, &rest));
    }
    mirror.registry.path_of_file(&facts, &target.url)
}

/// Address that stands for a node in documents that nobody reads.
const NODE: &str = "http://node.invalid";
