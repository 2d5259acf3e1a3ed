//! Origins that sent bytes that answer no request: for some time none of their connections is kept.
//!
//! The bytes that were seen did no harm. A second time they might come just after a request, in the
//! form of a response to it, so the origin gets no second time.

use super::{Connections, OriginPool, OriginPoolKey};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Origins that outlast their pools here, the latest last.
#[derive(Default)]
pub(super) struct DistrustedOrigins(Mutex<VecDeque<(OriginPoolKey, Instant)>>);

impl DistrustedOrigins {
    /// Returns the end of the distrust of an origin, if it is remembered.
    pub fn until(&self, key: &OriginPoolKey) -> Option<Instant> {
        self.0.lock().iter().find(|(other, _)| other == key).map(|(_, end)| *end)
    }

    fn remember(&self, key: &OriginPoolKey, end: Instant) {
        let mut origins = self.0.lock();
        origins.retain(|(other, _)| other != key);
        if origins.len() >= ORIGINS_MAX {
            origins.pop_front();
        }
        origins.push_back((key.clone(), end));
        debug_assert!(origins.len() <= ORIGINS_MAX);
    }
}

impl OriginPool {
    /// Records that the origin sent bytes that answer no request.
    pub fn note_surplus(&self) {
        self.distrust(&mut self.connections.lock());
    }

    /// Closes the parked connections, and parks none for some time.
    pub(super) fn distrust(&self, connections: &mut Connections) {
        let end = Instant::now() + DISTRUST;
        connections.distrusted_until = Some(end);
        self.unparked(connections.parked.drain(..).count());
        debug_assert!(connections.is_distrusted());
        if let Some(pool) = self.pool.upgrade() {
            pool.distrusted.remember(&self.key, end);
            pool.metrics.upstream_surplus.increment();
        }
    }
}

impl Connections {
    /// Returns `true` if no connection is to be parked.
    pub fn is_distrusted(&self) -> bool {
        self.distrusted_until.is_some_and(|end| Instant::now() < end)
    }
}

/// Time without kept connections.
const DISTRUST: Duration = Duration::from_secs(60);
/// Maximum number of origins that outlast their pools.
const ORIGINS_MAX: usize = 64;

const _: () = assert!(ORIGINS_MAX > 0);
