//! What is told of a request that was given up before it was answered: its client left, or broke
//! off what it sent.
//!
//! The transport drops the handler's future then, wherever it waits; so the line is written when
//! the future is dropped. It bears the status 499, as nginx has it, which is never sent.

use super::CacheEngine;
use crate::message::{AccessRecord, CacheResult};
use std::time::Instant;

/// A request whose answer is awaited. When it is dropped before [`AbandonGuard::answered`], the
/// request counts as abandoned.
pub(super) struct AbandonGuard<'e, F: FnOnce() -> Box<AccessRecord>> {
    exchange: &'e CacheEngine,
    received: Instant,
    record: Option<F>,
}

impl<'e, F: FnOnce() -> Box<AccessRecord>> AbandonGuard<'e, F> {
    /// Watches over a request that began to arrive at `received`; `record` tells of it when it
    /// comes to that.
    pub fn new(exchange: &'e CacheEngine, received: Instant, record: F) -> Self {
        Self { exchange, received, record: Some(record) }
    }

    /// There is an answer, whose own record tells the rest.
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

/// nginx's status for a client that closed the connection before it was answered.
const ABANDONED: u16 = 499;
