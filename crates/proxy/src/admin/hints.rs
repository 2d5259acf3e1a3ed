//! `POST /hints` and `GET /hints`: requests that clients will make soon, and the state of
//! prefetching. Prefetching on the metrics page.

use super::Control;
use super::exposition::{escaped, header};
use crate::exchange::prefetch::{HintRefusal, PrefetchStatus, SourceStatus, parse};
use http::StatusCode;
use serde_json::{Value, json};
use std::fmt::Write;

/// Reason for which a list is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintsFailure {
    /// The list cannot be read.
    Invalid(String),
    /// The node refuses lists now.
    Refused(HintRefusal),
    /// The node is not ready.
    Starting,
}

/// Takes a list of hints.
pub(super) fn taken(control: &dyn Control, body: &[u8]) -> (StatusCode, Value) {
    let lines = match parse(body) {
        Ok(lines) if lines.lines.is_empty() => {
            let fault =
                lines.first_fault.map_or_else(String::new, |(line, why)| format!(": line {line}: {why}"));
            return (StatusCode::BAD_REQUEST, json!({ "error": format!("the list has no hint{fault}") }));
        }
        Ok(lines) => lines,
        Err(why) => return (StatusCode::BAD_REQUEST, json!({ "error": why })),
    };
    match control.hints(lines) {
        Ok(report) => (StatusCode::ACCEPTED, json!(report)),
        Err(HintsFailure::Invalid(why)) => (StatusCode::BAD_REQUEST, json!({ "error": why })),
        Err(HintsFailure::Starting) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": "the node has no worker yet" }))
        }
        Err(HintsFailure::Refused(refusal)) => {
            let status = match refusal {
                HintRefusal::Full => StatusCode::TOO_MANY_REQUESTS,
                _ => StatusCode::CONFLICT,
            };
            (status, json!({ "error": refusal.why() }))
        }
    }
}

/// Appends the counts of prefetching to a page in Prometheus' text format.
pub(super) fn write(page: &mut String, status: &PrefetchStatus) {
    if status.sources.is_empty() {
        return;
    }
    for (name, help, value) in COUNTERS {
        header(page, "counter", name, help);
        for source in &status.sources {
            let _ = writeln!(page, "{name}{{source=\"{}\"}} {}", escaped(&source.source), value(source));
        }
    }
    header(page, "gauge", "shoal_prefetch_muted", "Whether a source is muted now.");
    for source in &status.sources {
        let muted = u8::from(source.muted_seconds.is_some());
        let _ = writeln!(page, "shoal_prefetch_muted{{source=\"{}\"}} {muted}", escaped(&source.source));
    }
    for (name, help, value) in [
        ("shoal_prefetch_waiting", "Hints that wait.", status.waiting),
        ("shoal_prefetch_in_flight", "Prefetches on their way.", status.in_flight),
        ("shoal_prefetch_unused", "Answers prefetched that no client has used yet.", status.unused),
        ("shoal_prefetch_unused_bytes", "Bytes of these.", status.unused_bytes),
    ] {
        header(page, "gauge", name, help);
        let _ = writeln!(page, "{name} {value}");
    }
}

/// Counters of one source: name, help, value.
type SourceCounter = (&'static str, &'static str, fn(&SourceStatus) -> u64);

const COUNTERS: [SourceCounter; 12] = [
    ("shoal_prefetch_hints_total", "Hints received, by source.", |it| it.received),
    ("shoal_prefetch_hints_refused_total", "Hints refused, or dropped before their turn.", |it| it.refused),
    ("shoal_prefetch_hints_held_total", "Hints for what the cache had.", |it| it.held),
    ("shoal_prefetch_hints_placed_total", "Hints that another node took, as home.", |it| it.placed),
    ("shoal_prefetch_fetches_total", "Prefetches begun, by source.", |it| it.prefetched),
    ("shoal_prefetch_failed_total", "Prefetches without a usable answer.", |it| it.failed),
    ("shoal_prefetch_used_total", "Prefetches that a client used.", |it| it.used),
    ("shoal_prefetch_wasted_total", "Prefetches that no client used in time.", |it| it.wasted),
    ("shoal_prefetch_bytes_total", "Bytes prefetched, by source.", |it| it.prefetched_bytes),
    ("shoal_prefetch_used_bytes_total", "Bytes of prefetches that a client used.", |it| it.used_bytes),
    ("shoal_prefetch_wasted_bytes_total", "Bytes of prefetches that no client used.", |it| it.wasted_bytes),
    ("shoal_prefetch_mutes_total", "Times that a source was muted.", |it| it.mutes),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_its_rows() {
        let mut page = String::new();
        write(&mut page, &PrefetchStatus::default());
        assert_eq!(page, "");
        let source =
            SourceStatus { source: "link".into(), used: 3, muted_seconds: Some(9), ..Default::default() };
        write(&mut page, &PrefetchStatus { sources: vec![source], in_flight: 2, ..Default::default() });
        for line in [
            "shoal_prefetch_used_total{source=\"link\"} 3",
            "shoal_prefetch_muted{source=\"link\"} 1",
            "shoal_prefetch_in_flight 2",
        ] {
            assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        }
    }
}
