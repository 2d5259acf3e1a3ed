//! Connections that an origin has authenticated, each kept for one client's connection.
//!
//! NTLM and Negotiate authenticate a connection. All messages of a login need the same connection,
//! and every later request on it is that user's. Such a connection keeps its permit while unused,
//! and only its client finds it. It is closed with the client's connection, or after
//! `upstream.keep_alive` without use. It is closed earlier if others wait for a permit, or if more
//! than a quarter of the permits is kept this way. The client then logs in again.

use super::{Connections, Lease, OriginPool, OriginPoolHandle, Permit, Pool};
use crate::exchanged::Caller;
use crate::group::UpstreamGroup;
use crate::http1::H1;
use crate::message::Client;
use crate::pool::lease::Bond;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Connection kept for one client.
pub(super) struct PinnedConnection {
    connection: H1,
    /// Permit of the connection, which stays open.
    permit: Permit,
    since: Instant,
    counted: PinCount,
}

/// Clients with kept connections, over all origins.
#[derive(Default)]
pub(super) struct Owners {
    /// Number of kept connections. Most nodes have none, and skip the map.
    count: AtomicUsize,
    /// Number for each client, by the memory address of its connection's [`Client`].
    by_client: Mutex<BTreeMap<usize, usize>>,
}

/// Counts a kept connection for its owner. The weak reference keeps the owner's memory address from
/// being reused.
struct PinCount {
    owner: Weak<Client>,
    pool: Weak<Pool>,
}

impl Pool {
    /// Returns `true` if a connection is kept for this client.
    pub fn has_pinned(&self, client: &Arc<Client>) -> bool {
        self.owners.count.load(Ordering::Relaxed) > 0
            && self.owners.by_client.lock().contains_key(&Arc::as_ptr(client).addr())
    }

    /// Returns the index of the site's upstream with a connection kept for `caller`.
    pub fn member_with_pin(self: &Arc<Self>, group: &UpstreamGroup, caller: &Caller) -> Option<usize> {
        let client = caller.client.as_ref().filter(|client| caller.pins && self.has_pinned(client))?;
        let has_pin = |place: &OriginPoolHandle| place.0.connections.lock().pinned_of(client).is_some();
        group.members().iter().position(|member| member.place(self).is_some_and(has_pin))
    }
}

impl OriginPoolHandle {
    /// Takes the connection kept for `caller`, if it is still alive.
    pub fn pinned_for(&self, caller: &Caller) -> Option<Lease> {
        let client = caller.client.as_ref().filter(|_| caller.pins)?;
        self.0.pool.upgrade().filter(|pool| pool.has_pinned(client))?;
        let mut pinned = {
            let mut connections = self.0.connections.lock();
            let index = connections.pinned_of(client)?;
            connections.pinned.remove(index)
        };
        let is_alive = pinned.connection.unpark();
        is_alive.then(|| {
            let owner = Weak::clone(&pinned.counted.owner);
            let mut lease = Lease::new(pinned.connection, pinned.permit, self.clone());
            lease.bond = Bond::Pinned { owner, is_watched: true };
            lease
        })
    }

    /// Keeps a connection for `owner`, unless either has ended.
    pub(super) fn pin(&self, mut connection: H1, permit: Permit, (owner, is_watched): (Weak<Client>, bool)) {
        let Some(pool) = self.0.pool.upgrade().filter(|_| owner.strong_count() > 0 && connection.park())
        else {
            return;
        };
        if !is_watched {
            self.0.watch(&connection, Weak::clone(&owner));
        }
        let share = (pool.settings.connections_per_origin / SHARE).max(1);
        let mut connections = self.0.connections.lock();
        if connection.is_closed() {
            return;
        }
        let counted = PinCount::new(owner, &pool);
        connections.pinned.push(PinnedConnection { connection, permit, since: Instant::now(), counted });
        let is_full = connections.pinned.len() > share;
        drop(connections);
        if is_full {
            self.0.shed_pinned();
        }
    }
}

impl OriginPool {
    /// Closes the kept connection that is unused for longest.
    pub(super) fn shed_pinned(&self) {
        let shed = {
            let mut connections = self.connections.lock();
            (!connections.pinned.is_empty()).then(|| connections.pinned.remove(0))
        };
        if let Some(pool) = shed.and_then(|shed| shed.counted.pool.upgrade()) {
            pool.metrics.upstream_pinned_shed.increment();
        }
    }

    /// Returns expiry information to the driver of connection `id`. The outer `None` means that it
    /// is not kept for one client. The inner value is the time to ask again, or `None` if the
    /// connection is closed for disuse.
    pub(super) fn expire_pinned(
        &self,
        connections: &mut Connections,
        id: u64,
        now: Instant,
    ) -> Option<Option<Instant>> {
        let index = connections.pinned.iter().position(|pinned| pinned.connection.id() == id)?;
        let expires = connections.pinned[index].since + self.keep_alive;
        if now < expires {
            return Some(Some(expires));
        }
        connections.pinned.remove(index);
        Some(None)
    }

    /// Closes a kept connection soon after its owner has left. The task polls for the owner's end,
    /// since no event reports it.
    fn watch(self: &Arc<Self>, connection: &H1, owner: Weak<Client>) {
        let (id, is_held, place) = (connection.id(), connection.held(), Arc::downgrade(self));
        tokio::spawn(async move {
            while is_held() {
                sleep(OWNER_CHECK).await;
                let Some(place) = place.upgrade().filter(|_| owner.strong_count() == 0) else { continue };
                place.connections.lock().forget_pinned(id);
            }
        });
    }
}

impl Connections {
    /// Removes connection `id`, if it is kept for a client.
    pub(super) fn forget_pinned(&mut self, id: u64) {
        self.pinned.retain(|pinned| pinned.connection.id() != id);
    }

    fn pinned_of(&self, client: &Arc<Client>) -> Option<usize> {
        self.pinned.iter().position(|pinned| std::ptr::eq(pinned.counted.owner.as_ptr(), Arc::as_ptr(client)))
    }
}

impl PinCount {
    fn new(owner: Weak<Client>, pool: &Arc<Pool>) -> Self {
        pool.owners.count.fetch_add(1, Ordering::Relaxed);
        *pool.owners.by_client.lock().entry(owner.as_ptr().addr()).or_default() += 1;
        pool.metrics.upstream_pinned.increment();
        Self { owner, pool: Arc::downgrade(pool) }
    }
}

impl Drop for PinCount {
    fn drop(&mut self) {
        let Some(pool) = self.pool.upgrade() else { return };
        pool.owners.count.fetch_sub(1, Ordering::Relaxed);
        let mut by_client = pool.owners.by_client.lock();
        let owner = self.owner.as_ptr().addr();
        if let Some(count) = by_client.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                by_client.remove(&owner);
            }
        }
        pool.metrics.upstream_pinned.subtract(1);
    }
}

/// Inverse of the share of permits that unused kept connections may hold.
const SHARE: usize = 4;
/// Interval of checks for the owner's end.
const OWNER_CHECK: Duration = Duration::from_secs(1);
