//! Leases of connections and streams, taken from an origin's pool and returned to it.

use super::{OriginPool, OriginPoolHandle, Permit};
use crate::exchanged::Caller;
use crate::http1::H1;
use crate::http2::H2;
use crate::message::Client;
use std::sync::{Arc, Weak};

/// Result of asking a pool for a connection.
pub(crate) enum Checkout {
    /// Connection that carried requests before.
    Reused(Lease),
    /// Stream of a shared connection.
    Stream(StreamLease),
    /// Permit to open a connection.
    Open(Permit),
}

/// HTTP/1 connection in use.
pub(crate) struct Lease {
    /// The connection.
    pub connection: H1,
    pub(super) permit: Permit,
    pub(super) place: OriginPoolHandle,
    pub(super) bond: Bond,
    /// Permit for the tunnel after a 101. Boxed, since few leases have one and all are moved.
    tunnel: Option<Box<Permit>>,
    /// The connection rests before its next request.
    pub rests: bool,
}

/// Client that may send the next request on a connection.
pub(crate) enum Bond {
    /// Any client.
    None,
    /// None: the connection is closed after the exchange.
    Closing,
    /// Only this client's connection, for which the connection is kept.
    Pinned {
        /// The client.
        owner: Weak<Client>,
        /// `true` if a task already watches for the client's end.
        is_watched: bool,
    },
}

/// Stream of an HTTP/2 connection.
pub(crate) struct StreamLease {
    /// The connection.
    pub connection: Arc<H2>,
    pub(super) place: OriginPoolHandle,
    pub(super) _permit: Permit,
}

impl Lease {
    /// Creates a lease of a connection that any client may use.
    pub(super) fn new(connection: H1, permit: Permit, place: OriginPoolHandle) -> Self {
        Self { connection, permit, place, bond: Bond::None, tunnel: None, rests: false }
    }

    /// Returns the pool of the connection.
    pub fn place(&self) -> &Arc<OriginPool> {
        &self.place.0
    }

    /// Parks the connection, keeps it for one client, or closes it.
    pub fn return_to_pool(self) {
        let Self { connection, permit, place, bond, rests, .. } = self;
        match bond {
            Bond::None => {
                place.park(connection, rests);
                // Drop the permit after parking, so that the next waiter finds the connection.
                drop(permit);
            }
            Bond::Pinned { owner, is_watched } => place.pin(connection, permit, (owner, is_watched)),
            Bond::Closing => {}
        }
    }

    /// Records that `caller`'s request authenticates the connection.
    pub fn bind(&mut self, caller: &Caller) {
        self.bond = match (&self.bond, &caller.client) {
            (Bond::Pinned { .. }, _) => return,
            (_, Some(client)) if caller.pins => {
                Bond::Pinned { owner: Arc::downgrade(client), is_watched: false }
            }
            _ => Bond::Closing,
        };
    }

    /// Records that the origin may have authenticated the connection.
    pub fn close_after(&mut self) {
        if matches!(self.bond, Bond::None) {
            self.bond = Bond::Closing;
        }
    }

    /// Takes a permit for the tunnel that the connection may become. Returns `false` if none is
    /// available.
    pub fn reserve_tunnel(&mut self, caller: &Caller) -> bool {
        self.tunnel = self.place.tunnel(caller.party()).map(Box::new);
        self.tunnel.is_some()
    }

    /// Returns the connection, and the parts to keep during its life as a tunnel. Its own permit
    /// becomes free.
    pub fn into_parts(self) -> (H1, (Option<Box<Permit>>, OriginPoolHandle)) {
        (self.connection, (self.tunnel, self.place))
    }
}

impl StreamLease {
    /// Returns the pool of the connection.
    pub fn place(&self) -> &Arc<OriginPool> {
        &self.place.0
    }

    /// Takes the connection out of use for further requests.
    pub fn retire(&self) {
        self.place.retire(self.connection.id());
    }
}

impl Drop for StreamLease {
    fn drop(&mut self) {
        self.connection.end();
    }
}
