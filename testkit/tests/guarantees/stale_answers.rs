//! Stale responses: served while they are validated, and when the origin fails (RFC 5861, RFC 9111
//! section 4.2.4).
//!
//! A response that arrives with an Age beyond its freshness lifetime is stale from the start, so
//! that these tests need not wait.

use shoal_testkit::origin::{After, Framing};
use shoal_testkit::wait;
use shoal_testkit::{Answer, Gate, Origin, Request, Setup, Shoal};
use std::time::{Duration, Instant};

/// A response that is stale on arrival, by 5 seconds.
fn stale(body: &str, directives: &str) -> Answer {
    let answer = Answer::ok(body).field("Age", "15").field("ETag", "\"old\"");
    answer.field("Cache-Control", &format!("max-age=10{directives}")).framed(Framing::Close)
}

/// RFC 5861 section 3: "caches MAY serve the response in which it appears after it becomes stale,
/// up to the indicated number of seconds", while they revalidate "without blocking".
#[test]
fn a_stale_response_is_served_while_it_is_validated() {
    let origin = Origin::start();
    let gate = Gate::new();
    let renewed = Answer::fresh("new", 60).held_by(&gate);
    origin.on_each("/a", [stale("old", ", stale-while-revalidate=60"), renewed]);
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("old");
    let start = Instant::now();
    for _ in 0..5 {
        let answer = shoal.get("/a");
        answer.expect_body("old").expect_hit();
        assert!(answer.cache().number("ttl").is_some_and(|ttl| ttl <= 0), "{:?}", answer.cache());
    }
    assert!(start.elapsed() < Duration::from_secs(15), "nobody waits for the validation");
    origin.wait_for("/a", 2);
    assert_eq!(origin.last("/a").fields.first("if-none-match"), Some("\"old\""));
    gate.open();
    wait::until("the new response is served", || shoal.get("/a").body == b"new");
    assert_eq!(origin.count("/a"), 2, "one validation for all");
    assert!(shoal.responses("stale") >= 5);
}

#[test]
fn beyond_its_time_a_stale_response_waits_for_validation() {
    let origin = Origin::start();
    origin.on_each("/a", [stale("old", ", stale-while-revalidate=2"), Answer::fresh("new", 60)]);
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("old");
    shoal.get("/a").expect_body("new").expect_forwarded("stale");
}

#[test]
fn a_background_validation_that_fails_leaves_the_stale_response_in_use() {
    let origin = Origin::start();
    origin.on_each(
        "/a",
        [stale("old", ", stale-while-revalidate=60"), Answer::new(500), Answer::fresh("new", 60)],
    );
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("old");
    shoal.get("/a").expect_body("old");
    origin.wait_for("/a", 2);
    let next = shoal.get("/a");
    assert!(next.body == b"old" || next.body == b"new", "{}", next.text());
    wait::until("the next validation succeeds", || shoal.get("/a").body == b"new");
}

/// What an origin may do instead of answering.
fn faults() -> Vec<(&'static str, Answer)> {
    vec![
        ("500", Answer::new(500).piece("broken")),
        ("502", Answer::new(502).piece("broken")),
        ("503", Answer::new(503).piece("broken")),
        ("504", Answer::new(504).piece("broken")),
        ("reset", Answer::raw("").then(After::Reset)),
        ("close", Answer::raw("")),
        ("garbage", Answer::raw("\0\u{1}\u{2} not HTTP at all\r\n\r\n")),
        ("half a head", Answer::raw("HTTP/1.1 200 OK\r\nContent-Le")),
        ("ambiguous", Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")),
        ("silence", Answer::raw("").then(After::Stall)),
    ]
}

/// A Shoal that holds a stale response and whose origin then fails so.
fn failing(origin: &Origin, directives: &str, fault: Answer) -> Shoal {
    origin.on_each("/a", [stale("old", directives), fault]);
    let shoal = Setup::to(origin).set("upstream.first_byte_timeout", "500ms").start();
    shoal.get("/a").expect_body("old");
    shoal
}

/// RFC 5861 section 4: "when an error is encountered, a cached stale response MAY be used to
/// satisfy the request, regardless of other freshness information"; an error is "any situation that
/// would result in a 500, 502, 503, or 504 HTTP response status code being returned".
#[test]
fn a_stale_response_is_served_under_every_fault_of_the_origin() {
    for (name, fault) in faults() {
        let origin = Origin::start();
        let shoal = failing(&origin, ", stale-if-error=60", fault);
        let answer = shoal.get("/a");
        assert_eq!((answer.status, answer.text().as_str()), (200, "old"), "{name}");
        assert!(answer.number("age").is_some_and(|age| age >= 15), "{name}: {:?}", answer.fields);
        assert_eq!(answer.cache().word("fwd").as_deref().unwrap_or("stale"), "stale", "{name}");
        shoal.expect_responses("stale", 1);
    }
}

#[test]
fn a_stale_response_is_served_when_nobody_listens_any_more() {
    let origin = Origin::start();
    origin.on("/a", stale("old", ", stale-if-error=60"));
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("old");
    drop(origin);
    shoal.get("/a").expect_body("old");
    let other = shoal.get("/other");
    other.expect_status(502);
    assert_eq!(other.proxy().word("error").as_deref(), Some("connection_refused"));
}

#[test]
fn what_the_operator_allows_is_served_without_a_directive() {
    let origin = Origin::start();
    let shoal = failing(&origin, "", Answer::raw("").then(After::Reset));
    shoal.get("/a").expect_body("old");

    let origin = Origin::start();
    origin.on_each("/a", [stale("old", ""), Answer::raw("").then(After::Reset)]);
    let shoal = Setup::to(&origin).set("cache.stale_if_error", "0").start();
    shoal.get("/a").expect_body("old");
    shoal.get("/a").expect_status(502);
}

/// RFC 9111 section 4.2.4: "A cache MUST NOT generate a stale response if it is prohibited by an
/// explicit in-protocol directive"; section 5.2.2.2: "if a cache ... is disconnected, the cache
/// MUST generate an error response rather than reuse the stale response. The generated response
/// SHOULD use the 504 (Gateway Timeout) status code".
#[test]
fn directives_that_forbid_stale_responses_are_kept_under_faults() {
    for directives in [
        ", must-revalidate",
        ", proxy-revalidate",
        ", s-maxage=1",
        ", no-cache",
        ", must-revalidate, stale-if-error=60",
    ] {
        for (name, fault) in
            [("reset", Answer::raw("").then(After::Reset)), ("silence", Answer::raw("").then(After::Stall))]
        {
            let origin = Origin::start();
            let shoal = failing(&origin, directives, fault);
            let answer = shoal.get("/a");
            assert!(matches!(answer.status, 502 | 504), "{directives} under {name}: {}", answer.status);
            assert_ne!(answer.text(), "old", "{directives} under {name}");
        }
    }
}

#[test]
fn an_error_of_the_origin_is_passed_on_where_stale_is_forbidden() {
    let origin = Origin::start();
    let shoal =
        failing(&origin, ", must-revalidate", Answer::new(503).field("Retry-After", "7").piece("busy"));
    let answer = shoal.get("/a");
    assert_eq!(
        (answer.status, answer.text().as_str(), answer.field("retry-after")),
        (503, "busy", Some("7"))
    );
}

#[test]
fn a_client_error_of_the_origin_is_no_reason_to_serve_stale() {
    let origin = Origin::start();
    let shoal = failing(&origin, ", stale-if-error=60", Answer::new(404).piece("gone"));
    assert_eq!(shoal.get("/a").status, 404);
}

/// The error is no newer form of what is stored, also where it may be stored itself.
#[test]
fn a_stale_response_is_served_under_errors_that_could_be_stored() {
    let origin = Origin::start();
    let shoal =
        failing(&origin, ", stale-if-error=60", Answer::new(503).field("Cache-Control", "max-age=60"));
    shoal.get("/a").expect_body("old");
    shoal.expect_responses("stale", 1);
    origin.on("/a", Answer::fresh("new", 60));
    shoal.get("/a").expect_body("new");
}

#[test]
fn a_head_request_is_answered_as_a_get_under_errors() {
    let origin = Origin::start();
    let shoal = failing(&origin, ", stale-if-error=60", Answer::new(503));
    let answer = shoal.ask(&Request::new("HEAD", "/a"));
    answer.expect_status(200);
    assert_eq!(answer.number("content-length"), Some(3));
    shoal.expect_responses("stale", 1);
}
