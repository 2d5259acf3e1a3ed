//! Messages of OTLP 1 that are sent: spans and numbers, by the field numbers of
//! `opentelemetry/proto`.

use super::protobuf::Message;

/// Span of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) parent_id: Option<[u8; 8]>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) attributes: Vec<(&'static str, SpanValue)>,
    pub(super) is_error: bool,
}

/// Role of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within the node.
    Internal = 1,
    /// Request of a client.
    Server = 2,
    /// Request to an origin or a peer.
    Client = 3,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
}

/// Value of a counter or a gauge: kind, name, labels as in Prometheus' format, help, value.
pub(super) type MetricRow = (&'static str, &'static str, &'static str, &'static str, u64);

/// Encodes an `ExportTraceServiceRequest`.
pub(super) fn traces(service: &str, spans: &[Span]) -> Vec<u8> {
    let mut request = Message::default();
    request.nested(1, |resource_spans| {
        resource_spans.nested(1, |resource| attributes(resource, 1, &named(service)));
        resource_spans.nested(2, |scope_spans| {
            scope_spans.nested(1, scope);
            spans.iter().for_each(|span| scope_spans.nested(2, |out| write_span(out, span)));
        });
    });
    request.into_bytes()
}

/// Encodes an `ExportMetricsServiceRequest` of values since `start_ns`.
pub(super) fn metrics(service: &str, rows: &[MetricRow], (start_ns, now_ns): (u64, u64)) -> Vec<u8> {
    let mut request = Message::default();
    request.nested(1, |resource_metrics| {
        resource_metrics.nested(1, |resource| attributes(resource, 1, &named(service)));
        resource_metrics.nested(2, |scope_metrics| {
            scope_metrics.nested(1, scope);
            // Rows of one name stand together, and are points of one metric.
            for rows in rows.chunk_by(|one, other| one.1 == other.1) {
                scope_metrics.nested(2, |metric| write_metric(metric, rows, (start_ns, now_ns)));
            }
        });
    });
    request.into_bytes()
}

fn named(service: &str) -> [(&'static str, SpanValue); 2] {
    let version = SpanValue::Text(env!("CARGO_PKG_VERSION").into());
    [("service.name", SpanValue::Text(service.into())), ("service.version", version)]
}

fn scope(scope: &mut Message) {
    scope.bytes(1, b"shoal");
    scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
}

fn write_span(out: &mut Message, span: &Span) {
    out.bytes(1, &span.trace_id);
    out.bytes(2, &span.span_id);
    if let Some(parent) = &span.parent_id {
        out.bytes(4, parent);
    }
    out.bytes(5, span.name.as_bytes());
    out.number(6, span.kind as u64);
    out.fixed64(7, span.start_ns);
    out.fixed64(8, span.end_ns);
    attributes(out, 9, &span.attributes);
    if span.is_error {
        out.nested(15, |status| status.number(3, STATUS_ERROR));
    }
    // The trace is sampled.
    out.fixed32(16, 1);
}

fn write_metric(out: &mut Message, rows: &[MetricRow], times: (u64, u64)) {
    assert!(!rows.is_empty(), "a metric without a point");
    let (kind, name, _, help, _) = rows[0];
    out.bytes(1, name.as_bytes());
    out.bytes(2, help.as_bytes());
    let points = |data: &mut Message| {
        rows.iter().for_each(|row| data.nested(1, |point| write_point(point, row, times)))
    };
    match kind {
        "counter" => out.nested(7, |sum| {
            points(sum);
            sum.number(2, CUMULATIVE);
            sum.number(3, 1);
        }),
        _ => out.nested(5, points),
    }
}

fn write_point(out: &mut Message, (_, _, labels, _, value): &MetricRow, (start_ns, now_ns): (u64, u64)) {
    out.fixed64(2, start_ns);
    out.fixed64(3, now_ns);
    out.fixed64(6, *value);
    for label in labels.split("\",").filter(|label| !label.is_empty()) {
        if let Some((name, value)) = label.trim_end_matches('"').split_once("=\"") {
            attribute(out, 7, name, &SpanValue::Text(value.into()));
        }
    }
}

fn attributes(out: &mut Message, field: u32, all: &[(&'static str, SpanValue)]) {
    all.iter().for_each(|(name, value)| attribute(out, field, name, value));
}

fn attribute(out: &mut Message, field: u32, name: &str, value: &SpanValue) {
    out.nested(field, |pair| {
        pair.bytes(1, name.as_bytes());
        pair.nested(2, |any| match value {
            SpanValue::Text(text) => any.bytes(1, text.as_bytes()),
            // A member of a `oneof` is written even if it is 0.
            SpanValue::Number(0) => any.zero(3),
            SpanValue::Number(number) => any.number(3, *number),
        });
    });
}

/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u64 = 2;
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;
