//! Streams of HTTP/2 connections, of which each client has a share as it has of connections.
//!
//! A place counts the streams that its connections can carry at once: [`STREAMS_MAX`] each, or as
//! many as the origin has said. A request takes a permit for one of them, and then the stream of
//! whichever connection has most room. Where none is to be had, or the client has its share,
//! another connection is opened, as long as there are permits for that; then streams are waited
//! for.

use super::{Connections, OriginPool, OriginPoolHandle, Party, Permit, StreamLease};
use crate::upstream::http2::H2;
use std::sync::Arc;

impl OriginPoolHandle {
    /// A stream, if one is free and within the party's share.
    pub fn stream_with_capacity(&self, party: Party) -> Option<StreamLease> {
        if !self.0.carries_streams() {
            return None;
        }
        self.0.recount();
        let permit = self.0.streams.try_acquire(party)?;
        self.stream(permit)
    }

    /// The stream that the permit is for; `None` when the last connection has ended meanwhile.
    pub(super) fn stream(&self, permit: Permit) -> Option<StreamLease> {
        let connections = self.0.connections.lock();
        let connection = Arc::clone(connections.h2.iter().max_by_key(|connection| connection.room())?);
        Some(self.begin(connection, permit))
    }

    /// A new HTTP/2 connection, shared from now on, and the stream of who opened it.
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
    /// Whether there are HTTP/2 connections to be used.
    pub(super) fn carries_streams(&self) -> bool {
        !self.connections.lock().h2.is_empty()
    }

    /// Counts the streams anew: an origin may say at any time how many it takes.
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

    /// Takes HTTP/2 connection `id`, if it is one, out of use.
    pub(super) fn take_out(&self, connections: &mut Connections, id: u64) {
        if let Some(index) = connections.h2.iter().position(|connection| connection.id() == id) {
            self.discount(connections.h2.swap_remove(index));
        }
    }

    /// Counts on the connection's streams no longer.
    pub(super) fn discount(&self, connection: Arc<H2>) {
        self.streams.remove(connection.discount());
    }
}

/// Requests on one HTTP/2 connection. RFC 9113, 6.5.2: "It is recommended that this value be no
/// smaller than 100" of SETTINGS_MAX_CONCURRENT_STREAMS, so that most origins take as many.
pub(in crate::upstream) const STREAMS_MAX: usize = 100;
