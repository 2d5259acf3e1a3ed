//! The task that runs one connection to an origin, and ends it when it was unused for too long.

use super::pool::OriginPool;
use crate::metrics::Metrics;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{sleep_until, timeout};

/// Runs a connection's codec, or what watches it, until the connection ends. What goes wrong is
/// told to its requests; between requests an origin may close as it likes.
pub(super) async fn drive(codec: impl Future, id: u64, place: Weak<OriginPool>) {
    let ended = EndReporter { place, id };
    let mut codec = pin!(codec);
    // Without a place the connection is kept nowhere, and ends with its request.
    while let Some(place) = ended.place.upgrade() {
        let Some(check) = place.expire(id) else {
            // Taken out of its place, the codec says goodbye and ends.
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

/// A number that no other connection of this process has.
pub(super) fn next_id() -> u64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// Reports the end of a connection, also when its driver is aborted.
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

/// Counts a connection as open.
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

/// Time for a closing connection's last bytes.
const GOODBYE: Duration = Duration::from_secs(1);
