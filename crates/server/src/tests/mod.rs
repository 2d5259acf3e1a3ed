//! Tests of the transports over loopback sockets, with a handler that replies by path.

mod challenges;
mod client;
pub(crate) mod handler;
mod http1;
mod http1_bodies;
mod http2;
mod http2_abuse;
pub(crate) mod http2_frames;
mod http2_sequences;
mod http3;
mod http3_abuse;
mod http3_client;
mod lifecycle;
mod proxied;
mod tls;
mod waiting;

use super::{RunningServer, bind};
use crate::metrics::Metrics;
use handler::Scripted;
use shoal_settings::{Listen, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Server under test; dropping it cuts all connections.
struct Server {
    running: Option<RunningServer>,
    handler: Arc<Scripted>,
    metrics: Arc<Metrics>,
}

impl Server {
    /// Starts one listener and two workers with default limits.
    fn start() -> Self {
        Self::with(|_| {})
    }

    /// Starts a server with changed settings.
    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings { workers: 2, ..Settings::default() };
        settings.listen = vec![Listen::forward(([127, 0, 0, 1], 0).into())];
        change(&mut settings);
        let (handler, metrics) = (Arc::new(Scripted::default()), Arc::new(Metrics::default()));
        let bound = bind(&settings).expect("loopback is there");
        let running = bound.start(Arc::clone(&handler), Arc::clone(&metrics), |_| {}).expect("threads start");
        Self { running: Some(running), handler, metrics }
    }

    fn address(&self) -> SocketAddr {
        self.running().addresses()[0]
    }

    fn running(&self) -> &RunningServer {
        self.running.as_ref().expect("only stopping takes it")
    }

    fn connect(&self) -> client::Client {
        client::Client::connect(self.address())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::ZERO);
        }
    }
}

/// Waits until `condition` holds. Fails after 10 s.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "in vain for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits likewise, without blocking the test's runtime.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
