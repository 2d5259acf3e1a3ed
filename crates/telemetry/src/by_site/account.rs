//! Account of one request to an origin: opened when the request is made, closed when its response
//! has ended.
//!
//! The response's body and the exchange share the account. The body adds bytes; the exchange notes
//! the reason once it knows whether the response may be stored. The last holder's drop closes it.

use super::costs::Cost;
use super::meter::SiteMeter;
use super::reason::MissReason;
use crate::otlp::{RequestTrace, SpanKind};
use shoal_core::Key;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The account.
#[derive(Debug)]
pub struct CostAccount {
    meter: Arc<SiteMeter>,
    key: Key,
    url: Arc<str>,
    reason: AtomicU8,
    body_bytes: AtomicU64,
    time_us: AtomicU64,
    opened: Instant,
    /// Microseconds from the opening until the head of the response; 0 without one.
    head_at_us: AtomicU64,
    /// Trace of the request that asks.
    trace: Option<Arc<RequestTrace>>,
}

impl CostAccount {
    /// Opens the account of a request for `url`, which has the key `key`, at the meter of its site.
    pub fn open(meter: &Arc<SiteMeter>, key: Key, url: &Arc<str>, reason: MissReason) -> Arc<Self> {
        Self::open_in(None, (meter, key, url), reason)
    }

    /// Opens the account of a request within a trace.
    pub fn open_in(
        trace: Option<&Arc<RequestTrace>>,
        (meter, key, url): (&Arc<SiteMeter>, Key, &Arc<str>),
        reason: MissReason,
    ) -> Arc<Self> {
        Arc::new(Self {
            trace: trace.map(Arc::clone),
            meter: Arc::clone(meter),
            key,
            url: Arc::clone(url),
            reason: AtomicU8::new(reason.number() as u8),
            body_bytes: AtomicU64::new(0),
            time_us: AtomicU64::new(0),
            opened: Instant::now(),
            head_at_us: AtomicU64::new(0),
        })
    }

    /// Replaces the reason by a more exact one.
    #[inline]
    pub fn note_reason(&self, reason: MissReason) {
        self.reason.store(reason.number() as u8, Relaxed);
    }

    /// Notes that a rule refused the request before it reached an origin: it costs nothing.
    pub fn note_refused(&self) {
        self.reason.store(REFUSED, Relaxed);
    }

    /// Notes the time that the origin took until the head of its response, or until its failure.
    #[inline]
    pub fn note_time(&self, time_us: u64) {
        self.time_us.store(time_us, Relaxed);
        self.head_at_us.store(self.since_opening(), Relaxed);
        if let Some(trace) = &self.trace {
            trace.note_step("origin", SpanKind::Client, time_us);
        }
    }

    fn since_opening(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Adds bytes of the response's body. The body alone calls this.
    #[inline]
    pub fn add_bytes(&self, bytes: u64) {
        debug_assert!(self.reason.load(Relaxed) != REFUSED, "no body comes of a refused request");
        self.meter.add_upstream_bytes(bytes);
        self.body_bytes.store(self.body_bytes.load(Relaxed).saturating_add(bytes), Relaxed);
    }
}

impl Drop for CostAccount {
    fn drop(&mut self) {
        let number = *self.reason.get_mut();
        if number == REFUSED {
            return;
        }
        let reason = MissReason::from_number(usize::from(number));
        let (body_bytes, time_us) = (*self.body_bytes.get_mut(), *self.time_us.get_mut());
        if body_bytes > 0 {
            let body_us = self.since_opening().saturating_sub(*self.head_at_us.get_mut());
            self.meter.add_upstream_body_time(body_us);
        }
        self.meter.add_upstream_head_time(time_us);
        let cost = Cost { requests: 1, body_bytes, time_us };
        self.meter.asked_origin(self.key, &self.url, cost, reason);
    }
}

/// Number in place of a reason for requests that a rule refused.
const REFUSED: u8 = u8::MAX;

const _: () = assert!(MissReason::COUNT < REFUSED as usize);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_site::CostKind;
    use shoal_semantics::status_fields::ForwardReason;
    use shoal_semantics::status_fields::Reason;

    #[test]
    fn account_is_closed_by_its_last_holder() {
        let meter = SiteMeter::new("a.test/", 4);
        let url: Arc<str> = "http://a.test/".into();
        let account = CostAccount::open(&meter, Key::of(b"a"), &url, ForwardReason::UriMiss.into());
        let body = Arc::clone(&account);
        account.note_reason(Reason::NoStore.into());
        account.note_time(70);
        drop(account);
        body.add_bytes(3);
        body.add_bytes(4);
        assert_eq!(meter.listed(CostKind::Requests).1, 0);
        drop(body);
        let (listed, total) = meter.listed(CostKind::Bytes);
        assert_eq!((total, listed[0].cost.time_us, listed[0].reason), (7, 70, Reason::NoStore.into()));
        let sums = meter.read();
        assert_eq!((sums.upstream_body_bytes, sums.upstream_head_us), (7, 70));
    }

    #[test]
    fn refused_request_costs_nothing() {
        let meter = SiteMeter::new("a.test/", 4);
        let account =
            CostAccount::open(&meter, Key::of(b"a"), &"http://a.test/".into(), ForwardReason::UriMiss.into());
        account.note_refused();
        drop(account);
        assert_eq!(meter.listed(CostKind::Requests), (Vec::new(), 0));
    }
}
