//! Connections that an origin has authenticated, each kept for one client's connection.
//!
//! NTLM and Negotiate authenticate a connection, so that a login needs the same one for all of its
//! messages, and whatever follows on it is that user's. Such a connection keeps its permit while it
//! is unused, and only the client that it was authenticated for finds it. It is closed with that
//! client's connection, when it was unused for `upstream.keep_alive`, and before its time when
//! others wait for a permit or a quarter of the permits is kept so: its client logs in again.

use super::{Connections, Lease, OriginPool, OriginPoolHandle, Permit, Pool};
use crate::message::Client;
use crate::upstream::exchanged::Caller;
use crate::upstream::group::UpstreamGroup;
use crate::upstream::http1::H1;
use crate::upstream::pool::lease::Bond;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A connection kept for one client.
pub(super) struct Pinned {
    connection: H1,
    /// Kept with the connection, which stands open.
    permit: Permit,
    since: Instant,
    counted: Counted,
}

/// The clients for which connections are kept, over all origins.
#[derive(Default)]
pub(super) struct Owners {
    /// Connections kept now; most nodes have none, and look no further.
    count: AtomicUsize,
    /// How many for each client, by the address of what tells of its connection.
    by_client: Mutex<BTreeMap<usize, usize>>,
}

/// Counts a kept connection for its owner. It holds the owner's address, which no other client gets
/// meanwhile.
struct Counted {
    owner: Weak<Client>,
    pool: Weak<Pool>,
}

impl Pool {
    /// Whether a connection is kept for this client.
    pub fn has_pinned(&self, client: &Arc<Client>) -> bool {
        self.owners.count.load(Ordering::Relaxed) > 0
            && self.owners.by_client.lock().contains_key(&Arc::as_ptr(client).addr())
    }

    /// The member of a site's upstreams at which a connection is kept for `caller`.
    pub fn member_with_pin(self: &Arc<Self>, group: &UpstreamGroup, caller: &Caller) -> Option<usize> {
        let client = caller.client.as_ref().filter(|client| caller.pins && self.has_pinned(client))?;
        let has_pin = |place: &OriginPoolHandle| place.0.connections.lock().pinned_of(client).is_some();
        group.members().iter().position(|member| member.place(self).is_some_and(has_pin))
    }
}

impl OriginPoolHandle {
    /// The connection that is kept for `caller`, if it still lives.
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
        let counted = Counted::new(owner, &pool);
        connections.pinned.push(Pinned { connection, permit, since: Instant::now(), counted });
        let is_full = connections.pinned.len() > share;
        drop(connections);
        if is_full {
            self.0.shed_pinned();
        }
    }
}

impl OriginPool {
    /// Closes the connection that was kept unused for longest.
    pub(super) fn shed_pinned(&self) {
        let shed = {
            let mut connections = self.connections.lock();
            (!connections.pinned.is_empty()).then(|| connections.pinned.remove(0))
        };
        if let Some(pool) = shed.and_then(|shed| shed.counted.pool.upgrade()) {
            pool.metrics.upstream_pinned_shed.increment();
        }
    }

    /// For the driver of connection `id`: `None` when it is not kept for one client; else when to
    /// ask again, which is never when it was unused for too long and is closed.
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

    /// Closes a kept connection soon after its owner has left. Its owner's end is looked for, since
    /// nobody tells it.
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
    /// Lets connection `id` go, if it is kept for a client.
    pub(super) fn forget_pinned(&mut self, id: u64) {
        self.pinned.retain(|pinned| pinned.connection.id() != id);
    }

    fn pinned_of(&self, client: &Arc<Client>) -> Option<usize> {
        self.pinned.iter().position(|pinned| std::ptr::eq(pinned.counted.owner.as_ptr(), Arc::as_ptr(client)))
    }
}

impl Counted {
    fn new(owner: Weak<Client>, pool: &Arc<Pool>) -> Self {
        pool.owners.count.fetch_add(1, Ordering::Relaxed);
        *pool.owners.by_client.lock().entry(owner.as_ptr().addr()).or_default() += 1;
        pool.metrics.upstream_pinned.increment();
        Self { owner, pool: Arc::downgrade(pool) }
    }
}

impl Drop for Counted {
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

/// One of so many permits may be kept with an unused connection.
const SHARE: usize = 4;
/// How often the owner of a kept connection is looked for.
const OWNER_CHECK: Duration = Duration::from_secs(1);
