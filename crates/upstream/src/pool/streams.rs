//! Streams of HTTP/2 connections. Each client has a share of streams, as of connections.
//!
//! A pool counts the streams that its connections can carry at once: [`STREAMS_MAX`] each, or the
//! origin's lower limit. A request takes a permit for a stream, then a stream of the connection
//! with most room. If there is no permit, or the client's share is used, another connection is
//! opened while permits for connections last. After that the request waits for a stream.

use super::{Connections, OriginPool, OriginPoolHandle, Party, Permit, StreamLease};
use crate::http2::H2;
use std::sync::Arc;

impl OriginPoolHandle {
    /// Takes a stream, if one is free and within the party's share.
    pub fn stream_with_capacity(&self, party: Party) -> Option<StreamLease> {
        if !self.0.carries_streams() {
            return None;
        }
        self.0.recount();
        let permit = self.0.streams.try_acquire(party)?;
        self.stream(permit)
    }

    /// Returns the stream for a permit, or `None` if the last connection has ended meanwhile.
    pub(super) fn stream(&self, permit: Permit) -> Option<StreamLease> {
        let connections = self.0.connections.lock();
        let connection = Arc::clone(connections.h2.iter().max_by_key(|connection| connection.room())?);
        Some(self.begin(connection, permit))
    }

    /// Shares a new HTTP/2 connection from now on, and returns a stream for its opener.
    pub fn share(&self, connection: Arc<H2>, party: Party) -> StreamLease {
        let mut connections = self.0.connections.lock();
        connections.speaks_http1 = false;
        connections.h2.push(Arc::clone(&connection));
        let (_, room) = connection.count(STREAMS_MAX);
        self.begin(connection, self.0.streams.enlarge(room, party))
    }

    /// Takes HTTP/2 connection `id` out of use for further requests.
    pub(super) fn retire(&self, id: u64) {
        self.0.take_out(&mut self.0.connections.lock(), id);
    }

    fn begin(&self, connection: Arc<H2>, permit: Permit) -> StreamLease {
        connection.begin();
        StreamLease { connection, place: self.clone(), _permit: permit }
    }
}

impl OriginPool {
    /// Returns `true` if there are usable HTTP/2 connections.
    pub(super) fn carries_streams(&self) -> bool {
        !self.connections.lock().h2.is_empty()
    }

    /// Updates the number of streams, since an origin may change its limit at any time.
    pub(super) fn recount(&self) {
        for connection in &self.connections.lock().h2 {
            let (before, now) = connection.count(STREAMS_MAX);
            if now > before {
                self.streams.add(now - before);
            } else if now < before {
                self.streams.remove(before - now);
            }
        }
    }

    /// Takes connection `id` out of use, if it is HTTP/2.
    pub(super) fn take_out(&self, connections: &mut Connections, id: u64) {
        if let Some(index) = connections.h2.iter().position(|connection| connection.id() == id) {
            self.discount(connections.h2.swap_remove(index));
        }
    }

    /// Removes the connection's streams from the count.
    pub(super) fn discount(&self, connection: Arc<H2>) {
        self.streams.remove(connection.discount());
    }
}

/// Maximum number of concurrent requests on one HTTP/2 connection. Most origins allow this: RFC
/// 9113, 6.5.2 says of SETTINGS_MAX_CONCURRENT_STREAMS: "It is recommended that this value be no
/// smaller than 100".
pub(crate) const STREAMS_MAX: usize = 100;
