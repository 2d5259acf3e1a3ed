//! What a request may be sent on, taken from a place and returned to it.

use super::{OriginPool, OriginPoolHandle, Permit};
use crate::message::Client;
use crate::upstream::exchanged::Caller;
use crate::upstream::http1::H1;
use crate::upstream::http2::H2;
use std::sync::{Arc, Weak};

/// What a request may be sent on.
pub(in crate::upstream) enum Checkout {
    /// A connection that carried requests before.
    Reused(Lease),
    /// A stream of a shared connection.
    Stream(StreamLease),
    /// Leave to open a connection.
    Open(Permit),
}

/// An HTTP/1 connection in use.
pub(in crate::upstream) struct Lease {
    /// The connection.
    pub connection: H1,
    pub(super) permit: Permit,
    pub(super) place: OriginPoolHandle,
    pub(super) bond: Bond,
    /// The permit for what the connection becomes after a 101. Boxed, since few leases have one and
    /// all are moved.
    tunnel: Option<Box<Permit>>,
}

/// Who may send the next request on a connection.
pub(in crate::upstream) enum Bond {
    /// Anybody.
    None,
    /// Nobody: it is closed after the exchange.
    Closing,
    /// This client's connection alone, for which it is kept.
    Pinned {
        /// The client.
        owner: Weak<Client>,
        /// Whether a task looks for the client's end already.
        is_watched: bool,
    },
}

/// A stream of an HTTP/2 connection.
pub(in crate::upstream) struct StreamLease {
    /// The connection.
    pub connection: Arc<H2>,
    pub(super) place: OriginPoolHandle,
    pub(super) _permit: Permit,
}

impl Lease {
    /// A connection that anybody may use.
    pub(super) fn new(connection: H1, permit: Permit, place: OriginPoolHandle) -> Self {
        Self { connection, permit, place, bond: Bond::None, tunnel: None }
    }

    /// The place that it is of.
    pub fn place(&self) -> &Arc<OriginPool> {
        &self.place.0
    }

    /// Parks the connection, keeps it for one client, or lets it go.
    pub fn return_to_pool(self) {
        let Self { connection, permit, place, bond, .. } = self;
        match bond {
            Bond::None => {
                place.park(connection);
                // After parking, so that whoever waits for this permit finds the connection.
                drop(permit);
            }
            Bond::Pinned { owner, is_watched } => place.pin(connection, permit, (owner, is_watched)),
            Bond::Closing => {}
        }
    }

    /// Takes note that `caller`'s request authenticates the connection.
    pub fn bind(&mut self, caller: &Caller) {
        self.bond = match (&self.bond, &caller.client) {
            (Bond::Pinned { .. }, _) => return,
            (_, Some(client)) if caller.pins => {
                Bond::Pinned { owner: Arc::downgrade(client), is_watched: false }
            }
            _ => Bond::Closing,
        };
    }

    /// Takes note that the origin may have authenticated the connection.
    pub fn close_after(&mut self) {
        if matches!(self.bond, Bond::None) {
            self.bond = Bond::Closing;
        }
    }

    /// Takes a permit for the tunnel that the connection may become. False when there is none to be
    /// had.
    pub fn reserve_tunnel(&mut self, caller: &Caller) -> bool {
        self.tunnel = self.place.tunnel(caller.party()).map(Box::new);
        self.tunnel.is_some()
    }

    /// The connection, and what to keep as long as it lives on as a tunnel: others may have its
    /// permit.
    pub fn into_parts(self) -> (H1, (Option<Box<Permit>>, OriginPoolHandle)) {
        (self.connection, (self.tunnel, self.place))
    }
}

impl StreamLease {
    /// The place that it is of.
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
