//! Reloads: `no-cache`, `max-age` and `min-fresh` of clients, which ask the origin whatever is
//! stored.

use shoal_testkit::origin::Resource;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Setup, Shoal, wait};

/// The ways to ask for a reload.
const RELOADS: [(&str, &str); 6] = [
    ("Cache-Control", "no-cache"),
    ("Cache-Control", "max-age=0"),
    ("Pragma", "no-cache"),
    ("Cache-Control", "max-age=0, no-cache"),
    ("Cache-Control", "min-fresh=4000000000"),
    ("Cache-Control", "no-cache, min-fresh=1"),
];

fn reload(number: usize) -> Request {
    let (name, value) = RELOADS[number % RELOADS.len()];
    Request::get("/a").field(name, value)
}

/// The resource `/a`, fresh for an hour, in this version.
fn version(origin: &Origin, version: &str) -> Resource {
    let resource = Resource::new(version).etag(&format!("\"{version}\"")).cache_control("max-age=3600");
    origin.serve("/a", resource.clone());
    resource
}

/// A proxy that has the first version.
fn with_interval(origin: &Origin, interval: &str) -> Shoal {
    version(origin, "one");
    let shoal = Setup::to(origin)
        .set("cache.reload_interval", interval)
        .set_list("admin.purge_from", &["127.0.0.0/8"])
        .start();
    shoal.get("/a").expect_body("one");
    shoal
}

#[test]
fn reloads_in_a_row_ask_the_origin_once() {
    let origin = Origin::start();
    let shoal = with_interval(&origin, "60s");
    shoal.ask(&reload(0)).expect_body("one").expect_forwarded("request");
    for number in 1..100 {
        let answer = shoal.ask(&reload(number));
        answer.expect_body("one").expect_hit();
        assert!(answer.number("age").is_some_and(|age| age < 60), "{:?}", answer.field("age"));
    }
    assert_eq!(origin.count("/a"), 2);
    // What the client has it is not sent again.
    shoal.ask(&reload(0).field("If-None-Match", "\"one\"")).expect_status(304).expect_hit();
}

#[test]
fn reloads_at_once_share_a_request() {
    for changes in [false, true] {
        let (origin, gate) = (Origin::start(), Gate::new());
        let shoal = with_interval(&origin, "60s");
        let resource = version(&origin, if changes { "two" } else { "one" });
        let held = gate.clone();
        origin.on_request("/a", move |request| resource.answer(request).held_by(&held));
        let before = shoal.metric("shoal_requests_total", "");
        let clients: Vec<Connection> = (0..100)
            .map(|number| {
                let mut client = shoal.connect();
                client.send(reload(number).to_bytes("site.test"));
                client
            })
            .collect();
        wait::until("every request has arrived", || {
            shoal.metric("shoal_requests_total", "") >= before + clients.len() as u64
        });
        gate.open();
        for mut client in clients {
            client.response("GET").expect_body(if changes { "two" } else { "one" });
        }
        let reloads = origin.count("/a") - 1;
        assert!(reloads <= 2, "{reloads} requests for 100 reloads, a new version: {changes}");
    }
}

#[test]
fn reload_after_the_interval_gets_the_new_version() {
    let origin = Origin::start();
    let shoal = with_interval(&origin, "200ms");
    shoal.ask(&reload(0)).expect_body("one");
    version(&origin, "two");
    wait::until("a reload gets the new version", || shoal.ask(&reload(0)).text() == "two");
    shoal.get("/a").expect_body("two").expect_hit();
}

/// A first reload of what a miss has just brought asks all the same.
#[test]
fn first_reload_is_never_a_hit() {
    let origin = Origin::start();
    let shoal = with_interval(&origin, "60s");
    version(&origin, "two");
    shoal.ask(&reload(0)).expect_body("two");
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn purges_and_invalidations_end_the_interval() {
    let origin = Origin::start();
    let shoal = with_interval(&origin, "60s");
    shoal.ask(&reload(0)).expect_body("one");
    shoal.ask(&Request::new("PURGE", "/a")).expect_status(200);
    version(&origin, "two");
    shoal.ask(&reload(0)).expect_body("two");
    // An unsafe method invalidates (RFC 9111, section 4.4).
    origin.on("/a", Answer::new(204));
    shoal.ask(&Request::new("POST", "/a")).expect_status(204);
    version(&origin, "three");
    shoal.ask(&reload(0)).expect_body("three");
}

/// What the origin wants validated each time is, however lately it was.
#[test]
fn response_that_is_always_validated_stays_so() {
    let origin = Origin::start();
    let resource = Resource::new("one").etag("\"one\"").cache_control("max-age=60, no-cache");
    origin.serve("/a", resource);
    let shoal = Setup::to(&origin).set("cache.reload_interval", "60s").start();
    for number in 0..5 {
        shoal.ask(&reload(number)).expect_body("one");
    }
    assert_eq!(origin.count("/a"), 5);
}

#[test]
fn interval_of_zero_limits_nothing() {
    let origin = Origin::start();
    let shoal = with_interval(&origin, "0s");
    for number in 0..5 {
        let answer = shoal.ask(&reload(number));
        // What the one before brought may not stand in storage yet: then it is told as a miss.
        assert!(!answer.expect_body("one").hit(), "{answer:?}");
    }
    assert_eq!(origin.count("/a"), 6);
}

/// HEAD asks and freshens; the next HEAD is answered from storage.
#[test]
fn reloads_by_head_are_limited() {
    let origin = Origin::start();
    let shoal = with_interval(&origin, "60s");
    for _ in 0..20 {
        shoal.ask(&Request::new("HEAD", "/a").field("Cache-Control", "no-cache")).expect_status(200);
    }
    assert_eq!(origin.total(), 2);
}
