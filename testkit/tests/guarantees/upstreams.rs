//! How origins are reached: pooled connections, HTTP/2, TLS, retries.

use shoal_testkit::certificates::Authority;
use shoal_testkit::origin::After;
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::time::Duration;

fn site(url: &str, more: &str) -> String {
    format!("hosts = ['*']\nupstreams = [{{ url = '{url}'{more} }}]")
}

#[test]
fn connections_are_used_again() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("body").field("Cache-Control", "no-store"));
    let shoal = Setup::to(&origin).set("workers", 1).start();
    for number in 0..20 {
        shoal.get(&format!("/{number}")).expect_body("body");
    }
    assert_eq!((origin.total(), origin.connections()), (20, 1));
}

#[test]
fn an_origin_may_speak_http_2_without_tls() {
    let origin = Origin::start_h2c();
    let large = body("large", 1_000_000);
    origin
        .on("/large", Answer::fresh(large.clone(), 60))
        .on_request("/echo", |request| Answer::ok(request.body.clone()));
    origin.on("/trailers", Answer::ok("body").field("cache-control", "no-store").trailer("x-sum", "42"));
    origin.on("/cut", Answer::ok("part").field("content-length", "100").then(After::Reset));
    let shoal = Setup::to(&origin).without_sites().site(&site(&origin.url(), ", h2c = true")).start();
    shoal.get("/large").expect_body(&large);
    shoal.get("/large").expect_body(&large).expect_hit();
    shoal.ask(&Request::new("POST", "/echo").body(b"sent")).expect_body("sent");
    let trailers = shoal.ask(&Request::get("/trailers").field("TE", "trailers"));
    assert_eq!(trailers.expect_body("body").trailers.first("x-sum"), Some("42"));
    let cut = shoal.get("/cut");
    assert!(!cut.complete() || cut.status == 502, "{cut:?}");
    let received = origin.last("/large");
    assert_eq!(
        (received.version.as_str(), received.fields.first(":authority")),
        ("HTTP/2", Some("site.test"))
    );
    assert!(received.fields.first("via").is_some_and(|via| via.contains("shoal")));
}

#[test]
fn an_origin_with_tls_is_verified() {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["127.0.0.1"]));
    origin.on("/a", Answer::fresh("secure", 60));
    let url = origin.url();
    let trusted = Setup::to(&origin);
    let file = trusted.file("ca.pem", &authority.pem()).to_string_lossy().into_owned();
    let trusted = trusted.set("upstream.ca_file", file).start();
    trusted.get("/a").expect_body("secure");
    trusted.get("/a").expect_body("secure").expect_hit();

    let untrusted = Setup::to(&origin).without_sites().site(&site(&url, "")).start();
    let answer = untrusted.get("/a");
    answer.expect_status(502);
    assert_eq!(answer.proxy().word("error").as_deref(), Some("tls_certificate_error"));
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["elsewhere.test"]));
    let setup = Setup::to(&origin);
    let file = setup.file("ca.pem", &authority.pem()).to_string_lossy().into_owned();
    let shoal = setup.set("upstream.ca_file", file).start();
    let answer = shoal.get("/a");
    answer.expect_status(502);
    assert_eq!(answer.proxy().word("error").as_deref(), Some("tls_certificate_error"));
    assert_eq!(origin.total(), 0);
}

/// RFC 9110 section 9.2.2: idempotent requests may be retried automatically; "A client SHOULD NOT
/// automatically retry a request with a non-idempotent method".
#[test]
fn a_dead_pooled_connection_is_not_the_clients_problem() {
    for (name, dead) in [("closed", Answer::raw("")), ("reset", Answer::raw("").then(After::Reset))] {
        let origin = Origin::start();
        origin.on("/first", Answer::ok("first").field("Cache-Control", "no-store"));
        origin.on_each("/get", [dead.clone(), Answer::ok("second").field("Cache-Control", "no-store")]);
        origin.on_each("/post", [dead, Answer::ok("second")]);
        let shoal = Setup::to(&origin).set("workers", 1).start();
        shoal.get("/first").expect_body("first");
        shoal.get("/get").expect_body("second");
        assert_eq!(origin.count("/get"), 2, "{name}: asked again on a new connection");
        shoal.get("/first").expect_body("first");
        let post = shoal.ask(&Request::new("POST", "/post").body(b"once"));
        assert_eq!((post.status, origin.count("/post")), (502, 1), "{name}: never twice");
    }
}

#[test]
fn a_connection_that_the_origin_closed_meanwhile_is_not_used() {
    let origin = Origin::start();
    origin.on("/a", Answer::ok("body").field("Cache-Control", "no-store").then(After::Close));
    let shoal = Setup::to(&origin).set("workers", 1).start();
    for round in 0..4 {
        shoal.get("/a").expect_body("body");
        // What is sent before that goes down with the connection.
        origin.wait_for_ends(2 * round + 1);
        shoal.ask(&Request::new("POST", "/a").body(b"x")).expect_body("body");
        origin.wait_for_ends(2 * round + 2);
    }
    assert_eq!(origin.total(), 8);
}

#[test]
fn a_fresh_connection_that_fails_is_not_tried_for_ever() {
    let origin = Origin::start();
    origin.on("/a", Answer::raw("").then(After::Reset));
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_status(502);
    assert!(origin.count("/a") <= 3, "{}", origin.count("/a"));
}

#[test]
fn an_address_that_does_not_answer_is_504_in_time() {
    let origin = Origin::start();
    // a listener whose queue is full: further connections get no answer
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").expect("a loopback address takes listeners");
    let address = deaf.local_addr().expect("bound");
    let _queue: Vec<_> = (0..4200)
        .map_while(|_| std::net::TcpStream::connect_timeout(&address, Duration::from_millis(60)).ok())
        .collect();
    let shoal = Setup::to(&origin)
        .without_sites()
        .set("upstream.connect_timeout", "500ms")
        .site(&site(&format!("http://{address}"), ""))
        .start();
    let start = std::time::Instant::now();
    let answer = shoal.get("/a");
    answer.expect_status(504);
    assert_eq!(answer.proxy().word("error").as_deref(), Some("connection_timeout"));
    assert!(start.elapsed() < Duration::from_secs(3));
}

/// Lines of the error log with this text, once there is one.
fn lines(shoal: &Shoal, text: &str) -> Vec<String> {
    let found =
        || shoal.log().lines().filter(|line| line.contains(text)).map(str::to_owned).collect::<Vec<_>>();
    wait::until(text, || !found().is_empty());
    found()
}

#[test]
fn an_upstream_that_goes_down_and_up_is_told_once_each() {
    let origin = Origin::start();
    origin.on("/*", Answer::raw("").then(After::Reset));
    let shoal = Setup::to(&origin).start();
    for _ in 0..30 {
        shoal.get("/a").expect_status(502);
    }
    let down = lines(&shoal, "an upstream is down; being the only one, it is asked all the same");
    let facts = ["WARN", "site=\"*/\"", &format!("upstream={}", origin.url()), "connection_terminated"];
    assert!(facts.iter().all(|fact| down[0].contains(fact)), "{down:?}");
    origin.on("/*", Answer::ok("body").field("Cache-Control", "no-store"));
    for _ in 0..10 {
        shoal.get("/a").expect_body("body");
    }
    let up = lines(&shoal, "an upstream is up again: it answers");
    assert!(up[0].contains("INFO") && up[0].contains(&origin.url()), "{up:?}");
    assert_eq!((down.len(), up.len()), (1, 1));
    let requests = shoal.log().lines().filter(|line| line.contains("could not be used")).count();
    assert_eq!(requests, 2, "those before it was down: {}", shoal.log());
}

#[test]
fn an_upstream_that_others_stand_in_for_is_told_to_be_left_alone() {
    let (origin, closed) = (Origin::start(), shoal_testkit::address::closed_port());
    origin.on("/*", Answer::ok("body").field("Cache-Control", "no-store"));
    let two =
        format!("hosts = ['*']\nupstreams = [{{ url = 'http://{closed}' }}, {{ url = '{}' }}]", origin.url());
    let shoal = Setup::to(&origin).without_sites().site(&two).start();
    for _ in 0..30 {
        shoal.get("/a").expect_body("body");
    }
    let down = lines(&shoal, "an upstream is down and left alone, each time for longer");
    assert_eq!(down.len(), 1, "{down:?}");
    let facts = [&format!("upstream=http://{closed}"), "connection_refused", "left_alone="];
    assert!(facts.iter().all(|fact| down[0].contains(fact)), "{down:?}");
}

#[test]
fn an_upstream_that_fails_its_checks_is_told_once_and_that_it_passes_them() {
    let origin = Origin::start();
    origin.on("/health", Answer::new(503).piece("sick"));
    let checked = "hosts = ['*']\nhealth = { path = '/health', interval = '100ms', threshold = 2 }";
    let checked = format!("{checked}\nupstreams = [{{ url = '{}' }}]", origin.url());
    let shoal = Setup::to(&origin).without_sites().site(&checked).start();
    let down = lines(&shoal, "an upstream is down and left alone until it passes its health checks");
    assert!(down[0].contains("status 503") && down[0].contains(&origin.url()), "{down:?}");
    let asked = origin.count("/health");
    wait::until("further checks", || origin.count("/health") > asked + 5);
    origin.on("/health", Answer::ok("well"));
    let up = lines(&shoal, "an upstream is up again: it passes its health checks");
    let all = lines(&shoal, "an upstream is");
    assert_eq!((up.len(), all.len()), (1, 2), "{all:?}");
}
