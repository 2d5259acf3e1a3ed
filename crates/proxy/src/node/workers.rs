//! Work of the first worker: checks of upstreams, and news for the log.

use crate::exchange::CacheEngine;
use crate::intercept::Interception;
use crate::per_core::own_place;
use crate::route::{Route, Routes};
use crate::upstream::Upstreams;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Handle;

/// Returns the setup of each worker before it accepts clients: the worker takes a place of its own.
/// The first worker also checks the upstreams.
pub(super) fn begin_worker(
    checks: &Arc<OnceLock<Handle>>,
    exchange: &Arc<CacheEngine>,
    upstreams: &Arc<Upstreams>,
) -> impl Fn(usize) + Send + Sync + 'static {
    let (checks, exchange, upstreams) = (Arc::clone(checks), Arc::clone(exchange), Arc::clone(upstreams));
    move |worker| {
        own_place();
        if worker == 0 {
            let _ = checks.set(Handle::current());
            watch(&exchange, &upstreams, &Routes::default());
            tell_interception(&exchange);
        }
    }
}

/// Logs that interception is on, which a reader of the log must know.
pub(super) fn tell_interception(exchange: &CacheEngine) {
    exchange.live().interception.iter().for_each(Interception::tell);
}

/// Starts the active checks of every site's upstreams on the current runtime. Upstreams already
/// watched since `previous` are left out.
pub(super) fn watch(exchange: &CacheEngine, upstreams: &Upstreams, previous: &Routes) {
    let is_watched = |route: &Route| previous.all().iter().any(|old| Arc::ptr_eq(&old.group, &route.group));
    for route in exchange.live().routes.all().iter().filter(|route| !is_watched(route)) {
        upstreams.watch(&route.group);
    }
}
