//! A reply's record while the reply is being sent, given back however sending ends.

use super::Shared;
use crate::message::{AccessRecord, CacheResult, Handler};
use crate::metrics::Metrics;
use std::time::Instant;

/// Completes a record. When it is dropped before [`ReplyGuard::complete`], the reply counts as cut:
/// so do the paths on which a task simply ends, at a shutdown for one.
pub(super) struct ReplyGuard<'s, H: Handler> {
    shared: &'s Shared<H>,
    /// `None` of a hit in RAM that nobody logs: counted when it began, but for the bytes of its
    /// body.
    record: Option<Box<AccessRecord>>,
    received: Instant,
    is_settled: bool,
    /// Bytes of head sent.
    pub head_bytes: u64,
    /// Bytes of body sent.
    pub body_bytes: u64,
}

/// A tunnel that is open.
pub(super) struct OpenTunnel<'s>(&'s Metrics);

impl OpenTunnel<'_> {
    /// Notes bytes that came from the client.
    pub fn received(&self, bytes: u64) {
        self.0.tunnel_received.add(bytes);
    }
}

impl Drop for OpenTunnel<'_> {
    fn drop(&mut self) {
        self.0.tunnels_open.subtract(1);
    }
}

impl<'s, H: Handler> ReplyGuard<'s, H> {
    /// Opens the account of a reply to the request that began to arrive at `received`.
    pub fn open(shared: &'s Shared<H>, record: Option<Box<AccessRecord>>, received: Instant) -> Self {
        Self { shared, record, received, is_settled: false, head_bytes: 0, body_bytes: 0 }
    }

    /// Counts a tunnel as open while this is held.
    pub fn open_tunnel(&self) -> OpenTunnel<'s> {
        self.shared.metrics.tunnels_open.increment();
        OpenTunnel(&self.shared.metrics)
    }

    /// Gives the record back: the reply was sent whole at `now`.
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
