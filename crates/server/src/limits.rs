//! Client limits as connections use them. A reload swaps the limits. A connection keeps the limits
//! from its start.

use super::slow_clients::SlowClientPolicy;
use crate::metrics::Metrics;
use shoal_settings::ClientLimits;
use shoal_wire::HeadLimits;
use std::sync::Arc;
use std::time::Duration;

/// Limits on sizes and times of clients.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimits {
    /// Maximum sizes of request heads.
    pub limits: HeadLimits,
    /// Maximum time until a whole head, TLS handshake or PROXY protocol header has arrived.
    pub head_timeout: Duration,
    /// Minimum speed at which clients send request bodies and take responses.
    pub patience: SlowClientPolicy,
    /// Maximum time for which an idle connection is kept. Zero closes after each response.
    pub keep_alive: Duration,
    /// Maximum time for which a tunnel may carry nothing.
    pub tunnel_timeout: Duration,
    /// Maximum number of concurrent HTTP/2 streams per connection.
    pub h2_streams: u32,
}

impl ConnectionLimits {
    /// Takes the limits on connections from the settings.
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
