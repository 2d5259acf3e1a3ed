//! Record of a reply that is being sent. The handler gets the record back however sending ends.

use super::ServerState;
use crate::message::{AccessRecord, CacheResult, Client, Handler};
use crate::metrics::Metrics;
use http::HeaderValue;
use std::time::Instant;

/// Completes a record. A guard dropped before [`ReplyGuard::complete`] counts the reply as cut.
/// This covers tasks that end early, for instance at a shutdown.
pub(super) struct ReplyGuard<'s, H: Handler> {
    shared: &'s ServerState<H>,
    /// `None` for a hit in RAM without an access log. Such a hit was counted at its start, except
    /// for its body bytes.
    record: Option<Box<AccessRecord>>,
    received: Instant,
    is_settled: bool,
    /// Bytes of head sent.
    pub head_bytes: u64,
    /// Bytes of body sent.
    pub body_bytes: u64,
}

/// Open tunnel, counted until dropped.
pub(super) struct OpenTunnel<'s>(Option<&'s Metrics>);

impl OpenTunnel<'_> {
    /// Counts bytes received from the client.
    pub fn received(&self, bytes: u64) {
        if let Some(metrics) = self.0 {
            metrics.tunnel_received.add(bytes);
        }
    }
}

impl Drop for OpenTunnel<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.0 {
            metrics.tunnels_open.subtract(1);
        }
    }
}

impl<'s, H: Handler> ReplyGuard<'s, H> {
    /// Opens the record of a reply. The request began to arrive at `received`.
    pub fn open(shared: &'s ServerState<H>, record: Option<Box<AccessRecord>>, received: Instant) -> Self {
        Self { shared, record, received, is_settled: false, head_bytes: 0, body_bytes: 0 }
    }

    /// Counts a tunnel as open until the returned value is dropped. A CONNECT that this node
    /// answers itself is none.
    pub fn open_tunnel(&self) -> OpenTunnel<'s> {
        if self.record.as_ref().is_some_and(|record| record.carries_requests) {
            return OpenTunnel(None);
        }
        self.shared.metrics.tunnels_open.increment();
        OpenTunnel(Some(&self.shared.metrics))
    }

    /// Returns the value of Alt-Svc for replies to this client, if there is one.
    pub fn alt_svc(&self, client: &Client) -> Option<HeaderValue> {
        self.shared.alt_svc(client)
    }

    /// Returns the record to the handler: the whole reply was sent at `now`.
    pub fn complete(mut self, now: Instant) {
        self.finish_record(now, false);
    }

    fn finish_record(&mut self, now: Instant, aborted: bool) {
        self.is_settled = true;
        if aborted {
            self.shared.metrics.responses_cut.increment();
        }
        let Some(mut record) = self.record.take() else {
            return self.shared.metrics.body_bytes.of(CacheResult::MemoryHit).add(self.body_bytes);
        };
        let duration = now.saturating_duration_since(self.received);
        record.duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        record.head_bytes = self.head_bytes;
        record.body_bytes = self.body_bytes;
        record.aborted = aborted;
        self.shared.handler.record_sent(record);
    }
}

impl<H: Handler> Drop for ReplyGuard<'_, H> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.finish_record(Instant::now(), true);
        }
    }
}
