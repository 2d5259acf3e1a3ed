//! The limits on clients in the form that connections use. A reload swaps them; connections take
//! the ones that hold when they begin.

use super::slow_clients::SlowClientPolicy;
use crate::metrics::Metrics;
use shoal_settings::ClientLimits;
use shoal_wire::HeadLimits;
use std::sync::Arc;
use std::time::Duration;

/// Limits on what clients send, and how long they may take.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimits {
    /// Sizes of request heads.
    pub limits: HeadLimits,
    /// Time for a whole head, a TLS handshake or a PROXY protocol header to arrive.
    pub head_timeout: Duration,
    /// How slowly a request body may come, or a response be taken.
    pub patience: SlowClientPolicy,
    /// How long an idle connection is kept; zero closes after each response.
    pub keep_alive: Duration,
    /// How long a tunnel may carry nothing.
    pub tunnel_timeout: Duration,
    /// Concurrent HTTP/2 streams per connection.
    pub h2_streams: u32,
}

impl ConnectionLimits {
    /// Takes what concerns connections out of the settings.
    pub fn new(settings: &ClientLimits, metrics: Arc<Metrics>) -> Self {
        Self {
            limits: HeadLimits {
                head_bytes_max: bytes(settings.head_max),
                fields_max: settings.fields_max,
                target_bytes_max: bytes(settings.target_max),
            },
            head_timeout: settings.head_timeout,
            patience: SlowClientPolicy {
                pause: settings.idle_timeout,
                rate_min: settings.rate_min.0,
                metrics,
            },
            keep_alive: settings.keep_alive,
            tunnel_timeout: settings.tunnel_timeout,
            h2_streams: settings.h2_streams,
        }
    }
}

fn bytes(count: shoal_core::ByteCount) -> usize {
    usize::try_from(count.0).unwrap_or(usize::MAX)
}
