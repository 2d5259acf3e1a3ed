//! Exporter against a collector that reads the messages by the protocol's field numbers.

use super::*;
use crate::access_log::LogEntry;
use crate::metrics::Metrics;
use shoal_core::Timestamp;
use shoal_semantics::trace_context::TraceContext;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Field of a message, as a reader without a schema sees it.
#[derive(Clone, Debug, PartialEq)]
enum Field {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Vec<u8>),
}

type Fields = BTreeMap<u64, Vec<Field>>;

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().expect("a varint that ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

fn parsed(mut bytes: &[u8]) -> Fields {
    let mut fields = Fields::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Field::Fixed64(u64::from_le_bytes(*value))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(value.to_vec())
            }
            5 => {
                let (value, rest) = bytes.split_first_chunk().expect("four bytes");
                bytes = rest;
                Field::Fixed32(u32::from_le_bytes(*value))
            }
            other => panic!("wire type {other}"),
        };
        fields.entry(tag >> 3).or_default().push(field);
    }
    fields
}

fn nested(fields: &Fields, number: u64) -> Vec<Fields> {
    let all = fields.get(&number).cloned().unwrap_or_default().into_iter();
    all.map(|field| match field {
        Field::Bytes(bytes) => parsed(&bytes),
        other => panic!("{other:?} is no message"),
    })
    .collect()
}

fn text(fields: &Fields, number: u64) -> String {
    match fields.get(&number).map(|all| &all[..]) {
        Some([Field::Bytes(bytes)]) => String::from_utf8(bytes.clone()).expect("UTF-8"),
        other => panic!("{other:?} is no text"),
    }
}

/// Returns the attributes as texts.
fn attributes(fields: &Fields, number: u64) -> BTreeMap<String, String> {
    let pairs = nested(fields, number).into_iter();
    pairs
        .map(|pair| {
            let value = &nested(&pair, 2)[0];
            let shown = match value.get(&3).map(|all| &all[..]) {
                Some([Field::Number(number)]) => number.to_string(),
                _ => text(value, 1),
            };
            (text(&pair, 1), shown)
        })
        .collect()
}

/// Starts a collector that answers `status`. Returns its authority, and the paths and bodies that
/// arrive.
fn collector(status: &'static str) -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let authority = listener.local_addr().expect("bound").to_string();
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut bytes = Vec::new();
            let head_end = loop {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).expect("a request");
                assert!(read > 0, "a request that is cut off");
                bytes.extend_from_slice(&part[..read]);
                if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                    break at + 4;
                }
            };
            let head = String::from_utf8(bytes[..head_end].to_vec()).expect("ASCII");
            assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .and_then(|length| length.parse().ok())
                .expect("a length");
            let mut body = bytes[head_end..].to_vec();
            while body.len() < length {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).expect("a body");
                body.extend_from_slice(&part[..read]);
            }
            let path = head.split(' ').nth(1).expect("a path").to_owned();
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes());
            if sender.send((path, body)).is_err() {
                return;
            }
        }
    });
    (authority, received)
}

fn endpoint(authority: String, sample: f64, metrics_ms: u64) -> Endpoint {
    let metrics_interval = Duration::from_millis(metrics_ms);
    Endpoint { authority, path: "/otlp".into(), service: "edge".into(), sample, metrics_interval }
}

fn entry() -> LogEntry<'static> {
    LogEntry {
        time: Timestamp::from_millis(971_186_136_004),
        duration_us: 1500,
        client: Some(([192, 0, 2, 7], 40_000).into()),
        method: "GET",
        url: b"http://example.org/a",
        version: "1.1",
        status: 503,
        body_bytes: 0,
        ..LogEntry::default()
    }
}

#[test]
fn spans_arrive_with_their_steps() {
    let (authority, received) = collector("200 OK");
    let metrics = Arc::new(Metrics::default());
    let exporter = Exporter::start(endpoint(authority, 0.0, 0), 7, &metrics).expect("a thread");
    let caller = TraceContext { trace_id: [1; 16], span_id: [2; 8], is_sampled: true };
    let trace = exporter.sink().begin(Some(caller), true);
    assert_eq!((trace.context.trace_id, trace.parent_id), ([1; 16], Some([2; 8])));
    trace.push(TraceStep { name: "fetch", kind: SpanKind::Client, from_us: 100, to_us: 1400 });
    exporter.sink().end(&entry(), Some(&trace));
    // Without a caller none is sampled here, and one that is not sampled is not told.
    exporter.sink().end(&entry(), None);
    let unsampled = exporter.sink().begin(Some(TraceContext { is_sampled: false, ..caller }), true);
    exporter.sink().end(&entry(), Some(&unsampled));
    exporter.stop();
    let (path, body) = received.recv_timeout(Duration::from_secs(10)).expect("a message");
    assert_eq!(path, "/otlp/v1/traces");
    let resource_spans = &nested(&parsed(&body), 1)[0];
    assert_eq!(attributes(&nested(resource_spans, 1)[0], 1)["service.name"], "edge");
    let scope_spans = &nested(resource_spans, 2)[0];
    assert_eq!(text(&nested(scope_spans, 1)[0], 1), "shoal");
    let spans = nested(scope_spans, 2);
    assert_eq!(spans.len(), 2);
    let (server, fetch) = (&spans[0], &spans[1]);
    assert!(spans.iter().all(|span| span[&1] == [Field::Bytes(vec![1; 16])]));
    assert_eq!(server[&4], [Field::Bytes(vec![2; 8])]);
    assert_eq!(fetch[&4], server[&2], "the step is the request's child");
    assert_eq!((text(server, 5), text(fetch, 5)), ("GET".into(), "fetch".into()));
    assert_eq!((&server[&6][0], &fetch[&6][0]), (&Field::Number(2), &Field::Number(3)));
    let start = 971_186_136_004_000_000;
    assert_eq!(
        (&server[&7][0], &server[&8][0]),
        (&Field::Fixed64(start), &Field::Fixed64(start + 1_500_000))
    );
    assert_eq!(fetch[&7], [Field::Fixed64(start + 100_000)]);
    let shown = attributes(server, 9);
    assert_eq!(shown["http.response.status_code"], "503");
    assert_eq!(shown["http.response.body.size"], "0");
    assert_eq!(shown["url.full"], "http://example.org/a");
    assert_eq!(nested(server, 15)[0][&3], [Field::Number(2)], "an error");
    assert_eq!(server[&16], [Field::Fixed32(1)]);
    assert_eq!((metrics.spans_sent.value(), metrics.spans_dropped.value()), (2, 0));
    assert!(received.try_recv().is_err(), "one message is enough");
}

/// Starts a collector that takes all and answers a byte each `pause`.
fn dripping_collector(pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let authority = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let answer = b"HTTP/1.1 200 OK\r\n\r\n".chunks(1);
            let is_open = |part: &[u8]| {
                std::thread::sleep(pause);
                stream.write_all(part).is_ok()
            };
            answer.map(is_open).take_while(|is_open| *is_open).for_each(drop);
        }
    });
    authority
}

#[test]
fn dripping_answer_ends_at_the_deadline() {
    let endpoint = endpoint(dripping_collector(Duration::from_millis(50)), 1.0, 0);
    let until = |ms| Instant::now() + Duration::from_millis(ms);
    let error = exporter::post(&endpoint, "/v1/traces", b"x", until(120)).expect_err("600 ms of drops");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    exporter::post(&endpoint, "/v1/traces", b"x", until(60_000)).expect("in time");
}

#[test]
fn slow_collector_does_not_hold_the_end() {
    let metrics = Arc::new(Metrics::default());
    let authority = dripping_collector(Duration::from_secs(1));
    let exporter = Exporter::start(endpoint(authority, 1.0, 0), 7, &metrics).expect("a thread");
    // More than the batch at hand and the queue.
    let began = Instant::now();
    (0..10_000).for_each(|_| exporter.sink().end(&entry(), None));
    exporter.stop_within(Duration::from_millis(50));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(metrics.spans_dropped.value() > 0, "the queue was full");
}

#[test]
fn share_of_requests_is_sampled() {
    let metrics = Arc::new(Metrics::default());
    let (authority, _received) = collector("200 OK");
    for (share, range) in [(0.0, 0..1), (0.25, 400..600), (1.0, 2000..2001)] {
        let exporter = Exporter::start(endpoint(authority.clone(), share, 0), 5, &metrics).expect("a thread");
        let sampled = (0..2000).filter(|_| exporter.sink().begin(None, false).context.is_sampled).count();
        assert!(range.contains(&sampled), "{share}: {sampled}");
    }
}

#[test]
fn only_trusted_callers_flag_decides() {
    let metrics = Arc::new(Metrics::default());
    let (authority, _received) = collector("200 OK");
    let caller = TraceContext { trace_id: [1; 16], span_id: [2; 8], is_sampled: true };
    for (share, is_trusted, range) in
        [(0.0, true, 2000..2001), (0.0, false, 0..1), (0.25, false, 400..600), (1.0, false, 2000..2001)]
    {
        let exporter = Exporter::start(endpoint(authority.clone(), share, 0), 5, &metrics).expect("a thread");
        let begin =
            |is_sampled| exporter.sink().begin(Some(TraceContext { is_sampled, ..caller }), is_trusted);
        let sampled = (0..2000).filter(|_| begin(true).context.is_sampled).count();
        assert!(range.contains(&sampled), "{share} {is_trusted}: {sampled}");
        // The trace goes on in each case, and a caller may leave it unrecorded.
        let unsampled = begin(false);
        assert_eq!((unsampled.context.trace_id, unsampled.parent_id), ([1; 16], Some([2; 8])));
        assert!(!unsampled.context.is_sampled);
    }
}

#[test]
fn metrics_arrive_as_sums_and_gauges() {
    let (authority, received) = collector("200 OK");
    let metrics = Arc::new(Metrics::default());
    metrics.requests.add(7);
    let exporter = Exporter::start(endpoint(authority, 0.0, 20), 7, &metrics).expect("a thread");
    let (path, body) = received.recv_timeout(Duration::from_secs(10)).expect("a message");
    exporter.stop();
    assert_eq!(path, "/otlp/v1/metrics");
    let scope_metrics = &nested(&nested(&parsed(&body), 1)[0], 2)[0];
    let all = nested(scope_metrics, 2);
    let of = |name: &str| all.iter().find(|metric| text(metric, 1) == name).expect("there");
    let sum = &nested(of("shoal_requests_total"), 7)[0];
    assert_eq!((&sum[&2][0], &sum[&3][0]), (&Field::Number(2), &Field::Number(1)));
    assert_eq!(nested(sum, 1)[0][&6], [Field::Fixed64(7)]);
    assert_eq!(nested(of("shoal_connections"), 5).len(), 1, "a gauge");
    let asks = &nested(of("shoal_cluster_answers_total"), 7)[0];
    let results: Vec<String> =
        nested(asks, 1).iter().map(|point| attributes(point, 7)["result"].clone()).collect();
    assert!(results.len() > 3 && results.contains(&"missing".to_owned()), "{results:?}");
}

#[test]
fn spans_are_dropped_and_counted_without_a_collector() {
    let refused = TcpListener::bind("127.0.0.1:0").expect("a listener").local_addr().expect("bound");
    let metrics = Arc::new(Metrics::default());
    let exporter = Exporter::start(endpoint(refused.to_string(), 1.0, 0), 7, &metrics).expect("a thread");
    (0..10).for_each(|_| exporter.sink().end(&entry(), None));
    exporter.stop();
    assert_eq!((metrics.spans_sent.value(), metrics.spans_dropped.value()), (0, 10));
    let (authority, received) = collector("503 Busy");
    let exporter = Exporter::start(endpoint(authority, 1.0, 0), 7, &metrics).expect("a thread");
    exporter.sink().end(&entry(), None);
    exporter.stop();
    assert!(received.recv_timeout(Duration::from_secs(10)).is_ok());
    assert_eq!(metrics.spans_dropped.value(), 11);
}
