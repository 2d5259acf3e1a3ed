//! Traces and metrics for OpenTelemetry collectors: OTLP over HTTP, as protobuf.
//!
//! ```text
//! request ends ─► span(s) ─► bounded queue ─► exporter thread ─► POST /v1/traces
//!                                             every interval ─► POST /v1/metrics
//! ```
//!
//! The messages are a dozen of fixed form, and are only written: `protobuf` writes them in a page
//! of code. The published crates for this (`opentelemetry-otlp`, `opentelemetry-proto`) bring a
//! codec, a second HTTP client and a runtime of their own.
//!
//! No request waits for the collector: spans beyond the queue, and batches that it does not take,
//! are dropped and counted. The end of the process waits for it a few seconds at most. Without an
//! endpoint there is no thread, and no request begins a trace.

mod deadline;
mod exporter;
mod ids;
mod messages;
mod protobuf;
#[cfg(test)]
mod tests;
mod trace;

pub(crate) use deadline::write_until;
pub use exporter::{Endpoint, Exporter};
pub use messages::{SpanKind, SpanValue};
pub use trace::{RequestTrace, TraceSink, TraceStep};
