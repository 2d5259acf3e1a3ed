//! Traces for a collector: contexts of clients are checked and passed on, and spans arrive.

use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Returns a node that tells `collector`, and samples no request by itself. Its listener `behind`
/// trusts this machine.
fn traced(origin: &Origin, collector: &Origin) -> shoal_testkit::Shoal {
    collector.on("/v1/traces", Answer::ok(""));
    Setup::to(origin)
        .set("otlp.endpoint", collector.url())
        .set("otlp.sample", 0.0)
        .listen("behind", "mode = 'reverse'\ntrusted_proxies = ['127.0.0.0/8']")
        .start()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn proxys_trace_goes_on_to_origin_and_collector() {
    let (origin, collector) = (Origin::start(), Origin::start());
    origin.on("/*", Answer::fresh("body", 60));
    let shoal = traced(&origin, &collector);
    let ask = |path: &str, parent: &str, state: &str| {
        let request = Request::get(path).field("traceparent", parent).field("tracestate", state);
        Connection::open(shoal.address("behind")).ask(&request, "site.test").expect_body("body");
    };
    ask("/a", PARENT, "rojo=1");
    let told = origin.last("/a");
    let own = told.fields.first("traceparent").expect("it is passed on").to_owned();
    assert!(own.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && own.ends_with("-01"), "{own}");
    assert_ne!(own, PARENT, "the node's own span asks");
    assert_eq!(told.fields.first("tracestate"), Some("rojo=1"));
    // A hit in RAM joins the trace too.
    ask("/a", PARENT, "rojo=1");
    ask("/b", "00-nonsense", "rojo=1");
    let told = origin.last("/b");
    let begun = told.fields.first("traceparent").expect("a trace begins");
    assert!(begun.len() == 55 && begun.ends_with("-00"), "{begun}");
    assert_eq!(told.fields.first("tracestate"), None, "the state belongs to no trace");
    wait::until("the spans arrive", || shoal.metric("shoal_otlp_spans_sent_total", "") >= 3);
    let bodies: Vec<Vec<u8>> =
        collector.received().into_iter().map(|received| received.body.clone()).collect();
    let all = bodies.concat();
    let trace_id =
        [0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c];
    let spans = all.windows(16).filter(|window| **window == trace_id).count();
    // Two requests, and the one to the origin.
    assert_eq!((spans, shoal.metric("shoal_otlp_spans_dropped_total", "")), (3, 0));
    assert!(has(&all, b"http://site.test/a") && !has(&all, b"http://site.test/b"), "only sampled requests");
    assert!(has(&all, b"memory_hit") && has(&all, b"origin"));
}

#[test]
fn clients_flag_does_not_record_its_trace() {
    let (origin, collector) = (Origin::start(), Origin::start());
    origin.on("/*", Answer::fresh("body", 60));
    let shoal = traced(&origin, &collector);
    let request = Request::get("/a").field("traceparent", PARENT).field("tracestate", "rojo=1");
    shoal.ask(&request).expect_body("body");
    let told = origin.last("/a");
    let own = told.fields.first("traceparent").expect("it is passed on").to_owned();
    assert!(own.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && own.ends_with("-00"), "{own}");
    assert_eq!(told.fields.first("tracestate"), Some("rojo=1"));
    // The trace of a trusted proxy's request arrives after it, and alone.
    let trusted = Request::get("/b").field("traceparent", PARENT);
    Connection::open(shoal.address("behind")).ask(&trusted, "site.test").expect_body("body");
    wait::until("the spans arrive", || shoal.metric("shoal_otlp_spans_sent_total", "") >= 2);
    let bodies = collector.received().into_iter().map(|received| received.body.clone());
    let all = bodies.collect::<Vec<_>>().concat();
    assert!(!has(&all, b"http://site.test/a") && has(&all, b"http://site.test/b"));
}

#[test]
fn without_a_collector_nothing_is_touched() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 60));
    let shoal = Setup::to(&origin).start();
    shoal.ask(&Request::get("/a").field("traceparent", "any thing")).expect_body("body");
    assert_eq!(origin.last("/a").fields.first("traceparent"), Some("any thing"));
    shoal.get("/b").expect_body("body");
    assert_eq!(origin.last("/b").fields.first("traceparent"), None);
    shoal.expect_metric("shoal_otlp_spans_sent_total", "", 0);
}
