//! Trace of a request: begun when it arrives, told to the exporter when its answer has been sent.

use super::ids::Ids;
use super::messages::{Span, SpanKind, SpanValue};
use crate::access_log::LogEntry;
use crate::metrics::Metrics;
use crate::record::NextHop;
use parking_lot::Mutex;
use shoal_semantics::trace_context::TraceContext;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

/// Receiver of finished requests, which samples them.
pub struct TraceSink {
    pub(super) spans: SyncSender<Vec<Span>>,
    pub(super) ids: Ids,
    /// A request is sampled if a number falls below this.
    pub(super) threshold: u64,
    pub(super) metrics: Arc<Metrics>,
}

/// Trace of one request.
#[derive(Debug)]
pub struct RequestTrace {
    /// Context for servers that are asked: the span is this request's.
    pub context: TraceContext,
    /// Span of the caller.
    pub parent_id: Option<[u8; 8]>,
    /// Finished steps.
    steps: Mutex<Vec<TraceStep>>,
    began: Instant,
}

impl RequestTrace {
    /// Notes a step that ends now and took `duration_us`. Steps beyond a limit are left out.
    pub fn note_step(&self, name: &'static str, kind: SpanKind, duration_us: u64) {
        let to_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.push(TraceStep { name, kind, from_us: to_us.saturating_sub(duration_us), to_us });
    }

    pub(super) fn push(&self, step: TraceStep) {
        let mut steps = self.steps.lock();
        if steps.len() < STEPS_MAX {
            steps.push(step);
        }
    }
}

/// Step of a request, in microseconds since it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// Name of the step.
    pub name: &'static str,
    /// Role of the step.
    pub kind: SpanKind,
    /// Begin.
    pub from_us: u64,
    /// End.
    pub to_us: u64,
}

impl TraceSink {
    /// Begins the trace of a request. A trusted caller's flag decides if the trace is recorded. Of
    /// other requests, the share in the settings is recorded; a caller may only leave it.
    pub fn begin(&self, caller: Option<TraceContext>, is_trusted: bool) -> RequestTrace {
        let is_sampled = match caller {
            Some(caller) => caller.is_sampled && (is_trusted || self.takes_next()),
            None => self.takes_next(),
        };
        self.begin_sampled(caller, is_sampled)
    }

    fn begin_sampled(&self, caller: Option<TraceContext>, is_sampled: bool) -> RequestTrace {
        let trace_id = caller.map_or_else(|| self.ids.trace_id(), |caller| caller.trace_id);
        let context = TraceContext { trace_id, span_id: self.ids.span_id(), is_sampled };
        RequestTrace {
            context,
            parent_id: caller.map(|caller| caller.span_id),
            steps: Mutex::default(),
            began: Instant::now(),
        }
    }

    /// Returns `true` if this node's own sampling takes the next request.
    fn takes_next(&self) -> bool {
        self.ids.next() < self.threshold
    }

    /// Tells of a finished request. Without a trace of its own, it begins one now. Never waits:
    /// spans that find the queue full are dropped and counted.
    pub fn end(&self, entry: &LogEntry<'_>, trace: Option<&RequestTrace>) {
        let begun;
        let trace = match trace {
            Some(trace) => trace,
            None if !self.takes_next() => return,
            None => {
                begun = self.begin_sampled(None, true);
                &begun
            }
        };
        if !trace.context.is_sampled {
            return;
        }
        let spans = self.spans_of(entry, trace);
        let count = spans.len() as u64;
        if self.spans.try_send(spans).is_err() {
            self.metrics.spans_dropped.add(count);
        }
    }

    fn spans_of(&self, entry: &LogEntry<'_>, trace: &RequestTrace) -> Vec<Span> {
        let start_ns = entry.time.millis() * 1_000_000;
        assert_ne!(trace.context.span_id, [0; 8], "an id of zero is none");
        let at = |us: u64| start_ns + us * 1000;
        let TraceContext { trace_id, span_id, .. } = trace.context;
        let mut spans = vec![Span {
            trace_id,
            span_id,
            parent_id: trace.parent_id,
            name: entry.method.into(),
            kind: SpanKind::Server,
            start_ns,
            end_ns: at(entry.duration_us),
            attributes: attributes_of(entry),
            is_error: entry.status >= 500,
        }];
        let steps = trace.steps.lock();
        let steps = steps.iter().map(|step| Span {
            trace_id,
            span_id: self.ids.span_id(),
            parent_id: Some(span_id),
            name: step.name.into(),
            kind: step.kind,
            start_ns: at(step.from_us),
            end_ns: at(step.to_us.max(step.from_us)),
            attributes: Vec::new(),
            is_error: false,
        });
        spans.extend(steps);
        spans
    }
}

/// Returns the attributes of a request, by OpenTelemetry's names where it has one.
fn attributes_of(entry: &LogEntry<'_>) -> Vec<(&'static str, SpanValue)> {
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]).into_owned();
        SpanValue::Text(text)
    };
    let mut attributes = vec![
        ("http.request.method", text(entry.method.as_bytes())),
        ("url.full", text(entry.url)),
        ("http.response.status_code", SpanValue::Number(entry.status.into())),
        ("http.response.body.size", SpanValue::Number(entry.body_bytes)),
        ("network.protocol.version", text(entry.version.as_bytes())),
        ("shoal.outcome", text(crate::access_log::outcome_name(entry.outcome).as_bytes())),
    ];
    if let Some(client) = entry.client {
        attributes.push(("client.address", SpanValue::Text(client.ip().to_canonical().to_string())));
    }
    if !entry.site.is_empty() {
        attributes.push(("shoal.site", text(entry.site.as_bytes())));
    }
    if let Some(upstream) = entry.upstream.map(NextHop::to_text).filter(|upstream| !upstream.is_empty()) {
        attributes.push(("shoal.upstream", text(upstream.as_bytes())));
    }
    attributes
}

/// Longest text of an attribute, in bytes.
const TEXT_MAX: usize = 2048;
/// Most steps of a request that are told.
const STEPS_MAX: usize = 16;
