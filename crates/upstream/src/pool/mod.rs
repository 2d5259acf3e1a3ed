//! Kept connections, and the limit of connections to one origin.
//!
//! An HTTP/1 connection is either leased, with a permit of its origin, or parked, without one. A
//! request takes its permit first, then a parked connection, and opens a new one only if none is
//! parked. Connections to one origin therefore never outnumber its permits. Each client has a share
//! of the permits ([`gate`]). Connections of the calling thread's runtime are preferred, since
//! others are woken across threads. To other nodes a thread opens its own. An HTTP/2 connection
//! keeps one permit for its whole life. Its streams are divided in the same way ([`streams`]).
//!
//! A connection that becomes a tunnel returns its permit and takes a tunnel permit, which has its
//! own limit. A connection with an unread body is closed when others wait ([`stalled`]).
//!
//! A connection that its origin has authenticated is kept for one client only, with its permit
//! ([`pinned`]). An origin that sent bytes beyond its responses has no kept connections for some
//! time ([`distrust`]). A connection rests after a response that may have a body in error.
//!
//! Each connection's driver task closes it after the idle timeout. A pool is removed with its last
//! connection.

mod distrust;
mod few;
mod gate;
mod lease;
mod pinned;
mod spare;
mod stalled;
mod streams;
mod threads;

pub(super) use gate::{Gate, Party, Permit};
pub(super) use lease::{Checkout, Lease, StreamLease};
pub(super) use stalled::HoldingBody;
pub(super) use streams::STREAMS_MAX;
pub(super) use threads::ThreadUse;

use crate::background::{Backgrounds, SPARE_SHARE};
use crate::error::Cause;
use crate::exchanged::Origin;
use crate::http1::H1;
use crate::http2::H2;
use crate::metrics::Metrics;
use distrust::DistrustedOrigins;
use parking_lot::Mutex;
use pinned::{Owners, PinnedConnection};
use shoal_settings::Upstream;
use stalled::HoldingBodies;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Key of interchangeable connections: the same origin under the same rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OriginPoolKey {
    /// The origin.
    pub origin: Origin,
    /// [`crate::access::ForwardRules::id`]; 0 for the operator's own upstreams.
    pub rules: u64,
    /// `true` for the connections of health checks.
    pub is_check: bool,
}

/// All connections to origins.
pub(super) struct Pool {
    places: Mutex<HashMap<OriginPoolKey, Arc<OriginPool>>>,
    settings: Upstream,
    parked: AtomicUsize,
    owners: Owners,
    distrusted: DistrustedOrigins,
    metrics: Arc<Metrics>,
    sharing: ThreadUse,
}

/// Connections of one origin.
pub(super) struct OriginPool {
    key: OriginPoolKey,
    permits: Arc<Gate>,
    /// Permits for connections that became tunnels.
    tunnels: Arc<Gate>,
    /// Permits for streams, as many as the HTTP/2 connections can carry at once.
    streams: Arc<Gate>,
    /// Bodies that hold connections or streams.
    holding: Mutex<HoldingBodies>,
    /// Requests that give way when a client's request waits.
    background: Mutex<Backgrounds>,
    /// Permits or streams that background requests leave free.
    spare: usize,
    connections: Mutex<Connections>,
    /// Held while opening a connection that may become HTTP/2, so that a burst opens only one.
    opening: tokio::sync::Mutex<()>,
    /// Number of handles. A first handle is counted under the lock of the pool's map.
    handles: AtomicUsize,
    keep_alive: Duration,
    sharing: ThreadUse,
    pool: Weak<Pool>,
}

#[derive(Default)]
struct Connections {
    parked: Vec<ParkedConnection>,
    /// Connections kept for one client each; the longest unused first.
    pinned: Vec<PinnedConnection>,
    h2: Vec<Arc<H2>>,
    /// The last connection was HTTP/1, so several may be opened at once.
    speaks_http1: bool,
    /// End of the time in which no connection is parked, since the origin sent surplus bytes.
    distrusted_until: Option<Instant>,
}

struct ParkedConnection {
    connection: H1,
    since: Instant,
    /// The connection carries no request before this time.
    rests_until: Option<Instant>,
}

impl ParkedConnection {
    fn is_resting(&self) -> bool {
        self.rests_until.is_some_and(|end| Instant::now() < end)
    }
}

/// Handle to a pool in use. Dropping the last handle removes a pool without connections.
pub(super) struct OriginPoolHandle(Arc<OriginPool>);

impl Pool {
    pub fn new(settings: &Upstream, sharing: ThreadUse, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            places: Mutex::default(),
            settings: settings.clone(),
            parked: AtomicUsize::new(0),
            owners: Owners::default(),
            distrusted: DistrustedOrigins::default(),
            metrics,
            sharing,
        })
    }

    /// Returns the pool of an origin.
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
            background: Mutex::default(),
            spare: (permits / SPARE_SHARE).max(1),
            connections: Mutex::new(Connections {
                distrusted_until: self.distrusted.until(key),
                ..Connections::default()
            }),
            opening: tokio::sync::Mutex::new(()),
            handles: AtomicUsize::new(0),
            keep_alive: self.settings.keep_alive,
            sharing: self.sharing,
            pool: Arc::downgrade(self),
        });
        places.insert(key.clone(), Arc::clone(&place));
        OriginPoolHandle::new(&place)
    }

    /// Returns the counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns `true` if no connection is kept or in use.
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

    /// Cuts the body that is unread for longest, if it is unread for too long.
    pub fn shed_stalled(&self) {
        self.0.shed_stalled();
    }

    /// Returns the number of permits that nobody holds.
    pub fn free_permits(&self) -> usize {
        self.0.permits.free()
    }

    /// Returns `true` if this handle belongs to `pool`.
    pub fn is_of(&self, pool: &Arc<Pool>) -> bool {
        std::ptr::eq(self.0.pool.as_ptr(), Arc::as_ptr(pool))
    }

    /// Returns a stream, a connection or a permit, if available at once. `fresh` requires a new
    /// HTTP/1 connection.
    pub fn try_checkout(&self, fresh: bool, party: Party) -> Option<Checkout> {
        if !fresh && let Some(stream) = self.stream_with_capacity(party) {
            return Some(Checkout::Stream(stream));
        }
        let permit = self.0.permits.try_acquire(party)?;
        Some(self.ticket_with(permit, fresh, party))
    }

    /// Waits for a stream, a connection or a permit until `deadline`.
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
        let _counted = place.pool.upgrade().map(|pool| WaitCount::new(&pool.metrics));
        self.give_way();
        while Instant::now() < deadline {
            place.make_way(for_stream);
            let pause = deadline.min(Instant::now() + SHED_PAUSE);
            if let Ok(permit) = timeout_at(pause, &mut waiting).await {
                if !for_stream {
                    return Ok(self.ticket_with(permit, fresh, party));
                }
                return match self.stream(permit) {
                    Some(stream) => Ok(Checkout::Stream(stream)),
                    // The last connection has just ended.
                    None => Box::pin(self.checkout(fresh, party, deadline)).await,
                };
            }
            // A connection with streams may have been opened, or the last of them may have ended.
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
            None => {
                // Connections that rest are parked still.
                self.make_room();
                Checkout::Open(permit)
            }
        }
    }

    /// Waits for the right to open a connection that may be HTTP/2. Returns `None` if the origin is
    /// known to use HTTP/1, so that several may be opened at once.
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

    /// Leases a new HTTP/1 connection to its opener. `chosen` means that the origin could have
    /// chosen HTTP/2.
    pub fn lease(&self, connection: H1, permit: Permit, chosen: bool) -> Lease {
        if chosen {
            self.0.connections.lock().speaks_http1 = true;
        }
        Lease::new(connection, permit, self.clone())
    }

    /// Takes a permit for a connection that becomes a tunnel, if one is free and within the
    /// client's share.
    pub(super) fn tunnel(&self, party: Party) -> Option<Permit> {
        let permit = self.0.tunnels.try_acquire(party);
        if let Some(pool) = self.0.pool.upgrade().filter(|_| permit.is_none()) {
            pool.metrics.upstream_tunnels_refused.increment();
        }
        permit
    }

    /// Returns a weak reference for the connection's driver task.
    pub fn downgrade(&self) -> Weak<OriginPool> {
        Arc::downgrade(&self.0)
    }

    /// Takes a live parked connection: the last one parked, preferably by this thread. Threads
    /// apart take those of others only if many are parked.
    fn unpark(&self) -> Option<H1> {
        let this_thread = std::thread::current().id();
        let mut connections = self.0.connections.lock();
        loop {
            let last = |is_mine: bool| {
                let fits = |parked: &ParkedConnection| {
                    (!is_mine || parked.connection.thread() == this_thread) && !parked.is_resting()
                };
                connections.parked.iter().rposition(fits)
            };
            let of_others = || self.0.sharing.allows(connections.parked.len()).then(|| last(false)).flatten();
            let chosen = last(true).or_else(of_others)?;
            let mut connection = connections.parked.remove(chosen).connection;
            self.0.unparked(1);
            if connection.unpark() {
                return Some(connection);
            }
        }
    }

    /// Closes the oldest parked connection if one more connection would exceed the limit.
    fn make_room(&self) {
        let mut connections = self.0.connections.lock();
        if connections.parked.len() > self.0.permits.free() {
            connections.parked.remove(0);
            self.0.unparked(1);
        }
    }

    /// Keeps a connection for the next request, unless enough are kept or it has ended. Its driver
    /// may run on another thread, and may have reported the end before this call.
    fn park(&self, mut connection: H1, rests: bool) {
        let is_parked = connection.park();
        if !is_parked && connection.had_surplus() {
            self.0.note_surplus();
        }
        let Some(pool) = self.0.pool.upgrade().filter(|_| is_parked) else { return };
        let mut connections = self.0.connections.lock();
        if connection.is_closed() || connections.is_distrusted() {
            return;
        }
        let awaited = self.0.permits.waiting() > 0;
        let room = connections.parked.len() < pool.settings.idle_per_origin
            && pool.parked.load(Ordering::Relaxed) < PARKED_MAX;
        if awaited || room {
            pool.parked.fetch_add(1, Ordering::Relaxed);
            let since = Instant::now();
            let rests_until = rests.then(|| since + REST);
            connections.parked.push(ParkedConnection { connection, since, rests_until });
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
        // A driver that ends late may hold a pool that was removed and created again since.
        if places.get(&self.0.key).is_some_and(|place| Arc::ptr_eq(place, &self.0)) {
            places.remove(&self.0.key);
        }
    }
}

impl OriginPool {
    /// Returns the time at which the driver of connection `id` must ask again. Returns `None` if
    /// the connection was unused for too long; it is then removed.
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

    /// Records the driver's report that connection `id` has ended.
    pub fn ended(self: &Arc<Self>, id: u64) {
        let _handle = self.pool.upgrade().map(|pool| {
            let _places = pool.places.lock();
            OriginPoolHandle::new(self)
        });
        let mut connections = self.connections.lock();
        let ended = connections.parked.iter().position(|parked| parked.connection.id() == id);
        if let Some(parked) = ended.map(|index| connections.parked.remove(index)) {
            self.unparked(1);
            if parked.connection.had_surplus() {
                self.distrust(&mut connections);
            }
        }
        connections.forget_pinned(id);
        self.take_out(&mut connections, id);
    }

    /// Closes one kept, hardly used connection for the waiters, unless a permit is free.
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

/// Counts a request as waiting until dropped.
struct WaitCount(Arc<Metrics>);

impl WaitCount {
    fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.upstream_waits.increment();
        metrics.upstream_waiting.increment();
        Self(Arc::clone(metrics))
    }
}

impl Drop for WaitCount {
    fn drop(&mut self) {
        self.0.upstream_waiting.subtract(1);
    }
}

/// Maximum number of requests that wait for a connection to one origin. Further ones fail at once.
const WAITING_MAX: usize = 1024;
/// Maximum number of parked connections over all origins.
const PARKED_MAX: usize = 4096;
/// Rest of a connection after a response without the body that its head announced. A body that the
/// origin sends in error arrives within this time.
const REST: Duration = Duration::from_secs(1);
/// Interval at which a waiter looks for a connection to close.
const SHED_PAUSE: Duration = Duration::from_millis(250);
/// Minimum interval at which the driver of a connection in use asks for expiry.
const CHECK_MIN: Duration = Duration::from_secs(1);

const _: () = {
    assert!(WAITING_MAX <= PARKED_MAX);
    assert!(SHED_PAUSE.as_millis() < CHECK_MIN.as_millis());
};
