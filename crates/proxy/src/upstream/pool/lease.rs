//! What a request may be sent on, taken from a place and returned to it.

use super::PlaceHandle;
use crate::upstream::http1::H1;
use crate::upstream::http2::H2;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// What a request may be sent on.
pub(in crate::upstream) enum Ticket {
    /// A connection that carried requests before.
    Reused(Lease),
    /// A stream of a shared connection.
    Stream(StreamLease),
    /// Leave to open a connection.
    Open(OwnedSemaphorePermit),
}

/// An HTTP/1 connection in use.
pub(in crate::upstream) struct Lease {
    /// The connection.
    pub connection: H1,
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) place: PlaceHandle,
}

/// A stream of an HTTP/2 connection.
pub(in crate::upstream) struct StreamLease {
    /// The connection.
    pub connection: Arc<H2>,
    pub(super) place: PlaceHandle,
}

impl Lease {
    /// Parks the connection, or lets it go.
    pub fn give_back(self) {
        let Self { connection, permit, place } = self;
        place.park(connection);
        // After parking, so that whoever waits for this permit finds the connection.
        drop(permit);
    }

    /// The connection, and what to keep as long as it lives on as a tunnel.
    pub fn into_parts(self) -> (H1, (OwnedSemaphorePermit, PlaceHandle)) {
        (self.connection, (self.permit, self.place))
    }
}

impl StreamLease {
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
