//! What a request may be sent on, taken from a place and returned to it.

use super::PlaceHandle;
use crate::upstream::http1::H1;
use crate::upstream::http2::H2;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

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
    /// Parks the connection as soon as its codec has finished, or lets it go.
    pub fn give_back(self) {
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn(async move {
            let Self { mut connection, permit, place } = self;
            if timeout(READY_WAIT, connection.ready()).await.unwrap_or(false) {
                place.park(connection);
            }
            // After parking, so that whoever waits for this permit finds the connection.
            drop(permit);
        });
    }

    /// What to keep as long as the connection lives on as a tunnel.
    pub fn into_permit(self) -> (OwnedSemaphorePermit, PlaceHandle) {
        (self.permit, self.place)
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

/// How long a codec may take to finish a request whose response has been read.
const READY_WAIT: Duration = Duration::from_secs(1);
