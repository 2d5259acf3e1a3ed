//! Pace of a job: bytes a second over all of its connections, and pauses that origins ask for.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Time from which the next bytes may be taken.
pub(super) struct WarmPace {
    bytes_per_second: u64,
    free_at: Mutex<Instant>,
}

impl WarmPace {
    /// Makes a pace; 0 means no limit.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, free_at: Mutex::new(Instant::now()) }
    }

    /// Counts bytes that were taken.
    pub fn take(&self, bytes: usize) {
        if self.bytes_per_second > 0 {
            let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
            let mut free_at = self.free_at.lock();
            *free_at = (*free_at).max(Instant::now()) + cost;
        }
    }

    /// Lets all connections rest.
    pub fn pause(&self, pause: Duration) {
        let mut free_at = self.free_at.lock();
        *free_at = (*free_at).max(Instant::now() + pause);
    }

    /// Waits until bytes may be taken.
    pub async fn wait(&self) {
        let free_at = *self.free_at.lock();
        if free_at > Instant::now() {
            tokio::time::sleep_until(free_at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_and_pauses_take_their_time() {
        let pace = WarmPace::new(1000);
        let begin = Instant::now();
        pace.wait().await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        pace.take(500);
        pace.take(1500);
        pace.wait().await;
        assert!(begin.elapsed() >= Duration::from_secs(2));
        pace.pause(Duration::from_secs(5));
        pace.wait().await;
        assert!(begin.elapsed() >= Duration::from_secs(7));
        let free = WarmPace::new(0);
        free.take(usize::MAX);
        free.wait().await;
        assert!(begin.elapsed() < Duration::from_secs(8));
    }
}
