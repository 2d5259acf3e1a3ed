//! Task that runs one connection to an origin, and ends it when it is unused for too long.

use super::pool::OriginPool;
use crate::metrics::Metrics;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{sleep_until, timeout};

/// Runs a connection's codec, or its watcher, until the connection ends. Requests learn of errors
/// by themselves. Between requests an origin may close at any time.
pub(super) async fn drive(codec: impl Future, id: u64, place: Weak<OriginPool>) {
    let ended = EndReporter { place, id };
    let mut codec = pin!(codec);
    // Without a pool the connection is not kept, and ends with its request.
    while let Some(place) = ended.place.upgrade() {
        let Some(check) = place.expire(id) else {
            // The connection is no longer in the pool, so the codec closes it and ends.
            let _ = timeout(GOODBYE, codec).await;
            return;
        };
        drop(place);
        tokio::select! {
            _ = &mut codec => return,
            () = sleep_until(check) => {}
        }
    }
    codec.await;
}

/// Returns a number that is unique among this process's connections.
pub(super) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// Reports the end of a connection, even if its driver is aborted.
struct EndReporter {
    place: Weak<OriginPool>,
    id: u64,
}

impl Drop for EndReporter {
    fn drop(&mut self) {
        if let Some(place) = self.place.upgrade() {
            place.ended(self.id);
        }
    }
}

/// Counts a connection as open until dropped.
pub(super) struct OpenGauge(Arc<Metrics>);

impl OpenGauge {
    pub fn new(metrics: Arc<Metrics>) -> Self {
        metrics.upstream_opened.increment();
        metrics.upstream_connections.increment();
        Self(metrics)
    }
}

impl Drop for OpenGauge {
    fn drop(&mut self) {
        self.0.upstream_connections.subtract(1);
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Maximum time for a closing connection's last bytes.
const GOODBYE: Duration = Duration::from_secs(1);
