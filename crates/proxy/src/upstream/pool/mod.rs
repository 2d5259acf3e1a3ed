//! Connections kept for further requests, and the limit of connections to one origin.
//!
//! An HTTP/1 connection is either leased, with a permit of its origin, or parked, without. A
//! request takes its permit first, then a parked connection, and opens one only when none is
//! parked; so connections to one origin never outnumber its permits, of which each client has a
//! share ([`gate`]). Connections opened by the calling thread's runtime are preferred, since the
//! others are woken across threads. An HTTP/2 connection keeps one permit for as long as it lives;
//! its streams are shared out likewise ([`streams`]).
//!
//! A connection that becomes a tunnel gives its permit back for one of the tunnels', which are a
//! limit of their own. One whose body nobody takes gives way when others wait ([`stalled`]).
//!
//! A connection that its origin has authenticated is kept for one client alone, with its permit
//! ([`pinned`]).
//!
//! Each connection's driver task ends it when it was idle for too long; a place is forgotten with
//! its last connection.

mod few;
mod gate;
mod lease;
mod pinned;
mod stalled;
mod streams;

pub(super) use gate::{Gate, Party, Permit};
pub(super) use lease::{Checkout, Lease, StreamLease};
pub(super) use stalled::HoldingBody;
pub(super) use streams::STREAMS_MAX;

use crate::metrics::Metrics;
use crate::upstream::error::Cause;
use crate::upstream::exchanged::Origin;
use crate::upstream::http1::H1;
use crate::upstream::http2::H2;
use parking_lot::Mutex;
use pinned::{Owners, Pinned};
use shoal_settings::Upstream;
use stalled::HoldingBodies;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Whose connections may stand in for each other: the same origin under the same rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OriginPoolKey {
    /// The origin.
    pub origin: Origin,
    /// [`crate::access::ForwardRules::id`]; 0 for the operator's own upstreams.
    pub rules: u64,
    /// For checks of its health alone.
    pub is_check: bool,
}

/// All connections to origins.
pub(super) struct Pool {
    places: Mutex<HashMap<OriginPoolKey, Arc<OriginPool>>>,
    settings: Upstream,
    parked: AtomicUsize,
    owners: Owners,
    metrics: Arc<Metrics>,
}

/// One origin's connections.
pub(super) struct OriginPool {
    key: OriginPoolKey,
    permits: Arc<Gate>,
    /// Permits for connections that became tunnels.
    tunnels: Arc<Gate>,
    /// Permits for streams, as many as the HTTP/2 connections can carry at once.
    streams: Arc<Gate>,
    /// The bodies that hold connections and streams.
    holding: Mutex<HoldingBodies>,
    connections: Mutex<Connections>,
    /// Held while a connection is opened that may turn out as HTTP/2, so that a burst opens one and
    /// not many.
    opening: tokio::sync::Mutex<()>,
    /// Handles to it; counted while the pool's map is locked, or while there is one already.
    handles: AtomicUsize,
    keep_alive: Duration,
    pool: Weak<Pool>,
}

#[derive(Default)]
struct Connections {
    parked: Vec<ParkedConnection>,
    /// Kept for one client each; the longest unused first.
    pinned: Vec<Pinned>,
    h2: Vec<Arc<H2>>,
    /// Whether the last connection was HTTP/1: then several may be opened at once.
    speaks_http1: bool,
}

struct ParkedConnection {
    connection: H1,
    since: Instant,
}

/// A place in use; the last one to go forgets a place without connections.
pub(super) struct OriginPoolHandle(Arc<OriginPool>);

impl Pool {
    pub fn new(settings: &Upstream, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            places: Mutex::default(),
            settings: settings.clone(),
            parked: AtomicUsize::new(0),
            owners: Owners::default(),
            metrics,
        })
    }

    /// The place of an origin.
    pub fn place(self: &Arc<Self>, key: &OriginPoolKey) -> OriginPoolHandle {
        let mut places = self.places.lock();
        if let Some(place) = places.get(key) {
            return OriginPoolHandle::new(place);
        }
        let permits = self.settings.connections_per_origin.max(1);
        let place = Arc::new(OriginPool {
            key: key.clone(),
            permits: Gate::new(permits, WAITING_MAX),
            tunnels: Gate::new(self.settings.tunnels_per_origin.max(1), 0),
            streams: Gate::new(0, WAITING_MAX),
            holding: Mutex::default(),
            connections: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
            handles: AtomicUsize::new(0),
            keep_alive: self.settings.keep_alive,
            pool: Arc::downgrade(self),
        });
        places.insert(key.clone(), Arc::clone(&place));
        OriginPoolHandle::new(&place)
    }

    /// Whether no connection is kept or in use.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.places.lock().is_empty()
    }
}

impl OriginPoolHandle {
    fn new(place: &Arc<OriginPool>) -> Self {
        place.handles.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(place))
    }

    /// Whether it is a place of this pool.
    pub fn is_of(&self, pool: &Arc<Pool>) -> bool {
        std::ptr::eq(self.0.pool.as_ptr(), Arc::as_ptr(pool))
    }

    /// Something to send a request on, if it is there; `fresh` asks for a new HTTP/1 connection.
    pub fn try_checkout(&self, fresh: bool, party: Party) -> Option<Checkout> {
        if !fresh && let Some(stream) = self.stream_with_capacity(party) {
            return Some(Checkout::Stream(stream));
        }
        let permit = self.0.permits.try_acquire(party)?;
        Some(self.ticket_with(permit, fresh, party))
    }

    /// The same, waited for until `deadline`.
    pub async fn checkout(
        &self,
        fresh: bool,
        party: Party,
        deadline: Instant,
    ) -> Result<Checkout, (Cause, String)> {
        let place = &self.0;
        let for_stream = !fresh && place.carries_streams();
        let Some(mut waiting) = place.gate(for_stream).queue(party) else {
            let why = format!("{WAITING_MAX} requests wait for a connection, or too many of this client's");
            return Err((Cause::ConnectionLimit, why));
        };
        let _counted = place.pool.upgrade().map(|pool| Counted::new(&pool.metrics));
        while Instant::now() < deadline {
            place.make_way(for_stream);
            let pause = deadline.min(Instant::now() + SHED_PAUSE);
            if let Ok(permit) = timeout_at(pause, &mut waiting).await {
                if !for_stream {
                    return Ok(self.ticket_with(permit, fresh, party));
                }
                return match self.stream(permit) {
                    Some(stream) => Ok(Checkout::Stream(stream)),
                    // The last connection has ended just now.
                    None => Box::pin(self.checkout(fresh, party, deadline)).await,
                };
            }
            // A connection may have been opened that has streams, or the last of those have ended.
            if let Some(ticket) = self.try_checkout(fresh, party) {
                return Ok(ticket);
            }
        }
        Err((Cause::ConnectionLimit, "waited too long for a connection".into()))
    }

    fn ticket_with(&self, permit: Permit, fresh: bool, party: Party) -> Checkout {
        if fresh {
            self.make_room();
            return Checkout::Open(permit);
        }
        if let Some(stream) = self.stream_with_capacity(party) {
            return Checkout::Stream(stream);
        }
        match self.unpark() {
            Some(connection) => Checkout::Reused(Lease::new(connection, permit, self.clone())),
            None => Checkout::Open(permit),
        }
    }

    /// Waits for the right to open a connection that may be HTTP/2; `None` when HTTP/1 is known,
    /// and several may be opened at once.
    pub async fn wait_to_open(
        &self,
        deadline: Instant,
    ) -> Result<Option<tokio::sync::MutexGuard<'_, ()>>, (Cause, String)> {
        let known = || self.0.connections.lock().speaks_http1;
        if known() {
            return Ok(None);
        }
        let late = |_| (Cause::ConnectTimeout, "waited too long for a connection".to_owned());
        let turn = timeout_at(deadline, self.0.opening.lock()).await.map_err(late)?;
        Ok((!known()).then_some(turn))
    }

    /// A new HTTP/1 connection, leased to its opener; `chosen` when the origin could have chosen
    /// HTTP/2.
    pub fn lease(&self, connection: H1, permit: Permit, chosen: bool) -> Lease {
        if chosen {
            self.0.connections.lock().speaks_http1 = true;
        }
        Lease::new(connection, permit, self.clone())
    }

    /// A permit for a connection that becomes a tunnel, if one is free and within the client's
    /// share.
    pub(super) fn tunnel(&self, party: Party) -> Option<Permit> {
        let permit = self.0.tunnels.try_acquire(party);
        if let Some(pool) = self.0.pool.upgrade().filter(|_| permit.is_none()) {
            pool.metrics.upstream_tunnels_refused.increment();
        }
        permit
    }

    /// For the connection's driver task.
    pub fn downgrade(&self) -> Weak<OriginPool> {
        Arc::downgrade(&self.0)
    }

    /// A parked connection that still lives: the last parked, of this thread if there is one.
    fn unpark(&self) -> Option<H1> {
        let this_thread = std::thread::current().id();
        let mut connections = self.0.connections.lock();
        loop {
            let mine =
                connections.parked.iter().rposition(|parked| parked.connection.thread() == this_thread);
            let chosen = mine.or(connections.parked.len().checked_sub(1))?;
            let mut connection = connections.parked.remove(chosen).connection;
            self.0.unparked(1);
            if connection.unpark() {
                return Some(connection);
            }
        }
    }

    /// Ends the connection that was parked first, if one more beside the parked ones would be too
    /// many.
    fn make_room(&self) {
        let mut connections = self.0.connections.lock();
        if connections.parked.len() > self.0.permits.free() {
            connections.parked.remove(0);
            self.0.unparked(1);
        }
    }

    /// Keeps a connection for the next request, unless enough are kept or it has ended: its driver
    /// may be on another thread, and have told the place so before it was here.
    fn park(&self, mut connection: H1) {
        let Some(pool) = self.0.pool.upgrade().filter(|_| connection.park()) else { return };
        let mut connections = self.0.connections.lock();
        if connection.is_closed() {
            return;
        }
        let awaited = self.0.permits.waiting() > 0;
        let room = connections.parked.len() < pool.settings.idle_per_origin
            && pool.parked.load(Ordering::Relaxed) < PARKED_MAX;
        if awaited || room {
            pool.parked.fetch_add(1, Ordering::Relaxed);
            connections.parked.push(ParkedConnection { connection, since: Instant::now() });
        }
    }
}

impl fmt::Debug for OriginPoolHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlaceHandle").field(&self.0.key).finish()
    }
}

impl Clone for OriginPoolHandle {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for OriginPoolHandle {
    fn drop(&mut self) {
        let Some(pool) = self.0.pool.upgrade() else { return };
        let mut places = pool.places.lock();
        if self.0.handles.fetch_sub(1, Ordering::Relaxed) > 1 || !self.0.is_empty() {
            return;
        }
        // A driver that ends late may hold a place that was forgotten and made anew since.
        if places.get(&self.0.key).is_some_and(|place| Arc::ptr_eq(place, &self.0)) {
            places.remove(&self.0.key);
        }
    }
}

impl OriginPool {
    /// Asked by the driver of connection `id`: when to ask again; `None` when it is over, because
    /// it was unused for too long. It is then no longer kept here.
    pub fn expire(&self, id: u64) -> Option<Instant> {
        let now = Instant::now();
        let mut connections = self.connections.lock();
        if let Some(index) = connections.parked.iter().position(|parked| parked.connection.id() == id) {
            let expires = connections.parked[index].since + self.keep_alive;
            if now < expires {
                return Some(expires);
            }
            connections.parked.swap_remove(index);
            self.unparked(1);
            return None;
        }
        if let Some(expires) = self.expire_pinned(&mut connections, id, now) {
            return expires;
        }
        if let Some(index) = connections.h2.iter().position(|connection| connection.id() == id) {
            let unused_since = connections.h2[index].unused_since();
            let expires = unused_since.map_or(now + self.keep_alive, |since| since + self.keep_alive);
            if now < expires {
                return Some(expires);
            }
            self.discount(connections.h2.swap_remove(index));
            return None;
        }
        Some(now + self.keep_alive.max(CHECK_MIN))
    }

    /// Told by a connection's driver that connection `id` has ended.
    pub fn ended(self: &Arc<Self>, id: u64) {
        let _handle = self.pool.upgrade().map(|pool| {
            let _places = pool.places.lock();
            OriginPoolHandle::new(self)
        });
        let mut connections = self.connections.lock();
        let before = connections.parked.len();
        connections.parked.retain(|parked| parked.connection.id() != id);
        self.unparked(before - connections.parked.len());
        connections.forget_pinned(id);
        self.take_out(&mut connections, id);
    }

    /// While no permit is free, connections that are kept and hardly used give way to those who
    /// wait, one at a time.
    fn make_way(&self, for_stream: bool) {
        if self.gate(for_stream).free() > 0 {
            return;
        }
        match for_stream {
            true => self.recount(),
            false => self.shed_pinned(),
        }
        self.shed_stalled();
    }

    fn gate(&self, for_stream: bool) -> &Arc<Gate> {
        if for_stream { &self.streams } else { &self.permits }
    }

    fn is_empty(&self) -> bool {
        let connections = self.connections.lock();
        connections.parked.is_empty() && connections.h2.is_empty() && connections.pinned.is_empty()
    }

    fn unparked(&self, count: usize) {
        if let Some(pool) = self.pool.upgrade() {
            pool.parked.fetch_sub(count, Ordering::Relaxed);
        }
    }
}

/// Counts a request as waiting.
struct Counted(Arc<Metrics>);

impl Counted {
    fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.upstream_waits.increment();
        metrics.upstream_waiting.increment();
        Self(Arc::clone(metrics))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.upstream_waiting.subtract(1);
    }
}

/// Requests that wait for a connection to one origin; further ones fail at once.
const WAITING_MAX: usize = 1024;
/// Connections parked over all origins.
const PARKED_MAX: usize = 4096;
/// How often one who waits looks for a connection that may give way.
const SHED_PAUSE: Duration = Duration::from_millis(250);
/// How often, at most, the driver of a connection in use asks whether it is over.
const CHECK_MIN: Duration = Duration::from_secs(1);

const _: () = {
    assert!(WAITING_MAX <= PARKED_MAX);
    assert!(SHED_PAUSE.as_millis() < CHECK_MIN.as_millis());
};
