//! Log record of a request that was abandoned before its answer: the client left, or broke off its
//! request.
//!
//! In this case the transport drops the handler's future, at any point. The record is therefore
//! written when the future is dropped. It has the status 499, as in nginx, which is never sent.

use super::CacheEngine;
use crate::message::{AccessRecord, CacheResult};
use std::time::Instant;

/// A request that waits for its answer. If the guard is dropped before [`AbandonGuard::answered`],
/// the request counts as abandoned.
pub(super) struct AbandonGuard<'e, F: FnOnce() -> Box<AccessRecord>> {
    exchange: &'e CacheEngine,
    received: Instant,
    record: Option<F>,
}

impl<'e, F: FnOnce() -> Box<AccessRecord>> AbandonGuard<'e, F> {
    /// Guards a request that began to arrive at `received`. `record` builds the log record of an
    /// abandoned request.
    pub fn new(exchange: &'e CacheEngine, received: Instant, record: F) -> Self {
        Self { exchange, received, record: Some(record) }
    }

    /// Disarms the guard: there is an answer with its own record.
    pub fn answered(mut self) {
        self.record = None;
    }
}

impl<F: FnOnce() -> Box<AccessRecord>> Drop for AbandonGuard<'_, F> {
    fn drop(&mut self) {
        let Some(record) = self.record.take() else { return };
        let mut record = record();
        let duration = self.received.elapsed().as_micros();
        record.duration_us = u64::try_from(duration).unwrap_or(u64::MAX);
        record.status = ABANDONED;
        record.aborted = true;
        record.outcome = CacheResult::Abandoned;
        self.exchange.log_request(&record);
    }
}

/// nginx's status for a client that closed the connection before its answer.
const ABANDONED: u16 = 499;
