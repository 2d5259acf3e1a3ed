//! What lapses is not served for longer by a guess, and what fails is not asked for as fast as
//! clients ask.

use shoal_testkit::{Answer, Gate, Origin, Request, Setup, wait};
use std::time::{Duration, Instant, SystemTime};

/// An object that nobody changed for ten days: a guess would be a day.
fn old(body: &str) -> Answer {
    let modified = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(864_000));
    Answer::ok(body).field("Last-Modified", &modified).field("ETag", "\"v\"")
}

/// A store of presigned URLs: the first request comes in time, the others after the leave has
/// lapsed.
fn presigned(origin: &Origin) {
    origin.on_each("/object", [old("secret"), Answer::new(403).piece("expired")]);
}

#[test]
fn lapsed_presigned_url_is_refused() {
    for query in [
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=60&X-Amz-Signature=0a",
        "Expires=1&Signature=0a&AWSAccessKeyId=A",
        "se=2026-01-01&sig=0a",
        "Expires=1&Signature=0a&Key-Pair-Id=K",
        "X-Goog-Expires=60&X-Goog-Signature=0a",
        "%58-Amz-Signature=0a",
        "token=0a",
        "",
        "v=1",
    ] {
        let origin = Origin::start();
        presigned(&origin);
        let shoal = Setup::to(&origin).start();
        let target = format!("/object?{query}");
        shoal.get(&target).expect_body("secret");
        shoal.get(&target).expect_status(403);
    }
}

/// `unsigned` is for queries that name versions and pages, and for no leave.
#[test]
fn no_setting_but_always_guesses_for_a_leave() {
    for (setting, query, status) in [
        ("unsigned", "v=1", 200),
        ("unsigned", "X-Amz-Signature=0a", 403),
        ("unsigned", "v=1&to%6ben=0a", 403),
        ("always", "X-Amz-Signature=0a", 200),
        ("never", "v=1", 403),
    ] {
        let origin = Origin::start();
        presigned(&origin);
        let shoal = Setup::to(&origin).set("cache.heuristic_query", setting).start();
        let target = format!("/object?{query}");
        shoal.get(&target).expect_body("secret");
        shoal.get(&target).expect_status(status);
    }
}

/// By `cache.stale_if_error` others would still get it after an hour.
#[test]
fn lapsed_leave_is_not_outlived_by_errors() {
    for (query, status) in [("X-Amz-Signature=0a", 503), ("v=1", 200)] {
        let origin = Origin::start();
        origin.on_each("/object", [old("secret"), Answer::new(503)]);
        let shoal = Setup::to(&origin).start();
        let target = format!("/object?{query}");
        shoal.get(&target).expect_body("secret");
        shoal.get(&target).expect_status(status);
    }
}

/// A page that is stale on arrival, and may be served so for an error.
fn stale() -> Answer {
    Answer::ok("old").field("Age", "15").field("Cache-Control", "max-age=10").field("ETag", "\"v\"")
}

fn refusing(retry_after: Option<&str>) -> Answer {
    let answer = Answer::new(429).piece("enough");
    retry_after.map_or(answer.clone(), |after| answer.field("Retry-After", after))
}

/// RFC 6585, section 4; RFC 5861, section 4, has the 5xx.
#[test]
fn refusing_origin_is_left_alone_while_something_stale_is_there() {
    for (answer, rests) in [
        (refusing(Some("60")), true),
        (Answer::new(503).field("Retry-After", "60"), true),
        (Answer::new(503), false),
        (refusing(Some("0")), false),
    ] {
        let origin = Origin::start();
        let status = answer.status;
        origin.on_each("/a", [stale(), answer]);
        let shoal = Setup::to(&origin).set("cache.retry_after_max", "10 min").start();
        shoal.get("/a").expect_body("old");
        shoal.get("/a").expect_status(200).expect_body("old").expect_forwarded("stale");
        for asked in 3..8 {
            let page = shoal.get("/a");
            page.expect_status(200).expect_body("old");
            let expected = if rests { 2 } else { asked };
            assert_eq!(origin.count("/a"), expected, "{status}");
            let detail = page.cache().word("detail");
            assert_eq!((page.hit(), detail.as_deref()), (rests, rests.then_some("retry-after")), "{status}");
        }
        shoal.ask(&Request::get("/a").field("Cache-Control", "no-cache")).expect_status(status);
    }
}

#[test]
fn rest_of_an_origin_ends() {
    let origin = Origin::start();
    origin.on_each("/a", [stale(), refusing(Some("86400")), Answer::fresh("new", 60)]);
    let shoal = Setup::to(&origin).set("cache.retry_after_max", "1s").start();
    shoal.get("/a").expect_body("old");
    shoal.get("/a").expect_body("old");
    wait::until("the origin is asked again", || shoal.get("/a").body == b"new");
    assert_eq!(origin.count("/a"), 3);
}

#[test]
fn refusal_without_anything_stale_goes_through() {
    let origin = Origin::start();
    origin.on("/none", refusing(Some("60")));
    let strict = stale().field("Cache-Control", "must-revalidate");
    origin.on_each("/strict", [strict, refusing(Some("60"))]);
    let shoal = Setup::to(&origin).start();
    shoal.get("/strict").expect_body("old");
    for path in ["/none", "/strict"] {
        let before = origin.count(path);
        for asked in 1..4 {
            let page = shoal.get(path);
            assert_eq!(page.expect_status(429).text(), "enough", "{path}");
            assert_eq!(page.field("retry-after"), Some("60"), "{path}");
            assert_eq!(origin.count(path), before + asked, "{path}");
        }
    }
}

/// By default a second: however fast clients ask, the origin is asked about once in that.
#[test]
fn storm_for_a_missing_page_is_one_request_a_second() {
    let origin = Origin::start();
    origin.on("/gone", Answer::new(404).piece("gone"));
    let shoal = Setup::to(&origin).start();
    let begun = Instant::now();
    for _ in 0..200 {
        assert_eq!(shoal.get("/gone").expect_status(404).text(), "gone");
    }
    let most = begun.elapsed().as_secs() as usize + 2;
    assert!(origin.count("/gone") <= most, "{} requests, {most} at most", origin.count("/gone"));
}

/// The time counts from the arrival, so that those who waited have it too.
#[test]
fn slow_missing_page_is_shared_by_all_who_wait() {
    let (origin, gate) = (Origin::start(), Gate::new());
    origin.on("/gone", Answer::new(404).field("Age", "100").piece("gone").held_by(&gate));
    let shoal = Setup::to(&origin).set("cache.negative_ttl", "60s").start();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| shoal.get("/gone"))).collect();
        origin.wait_for("/gone", 1);
        gate.open();
        for client in clients {
            assert_eq!(client.join().expect("a client ends").expect_status(404).text(), "gone");
        }
    });
    assert_eq!(origin.count("/gone"), 1);
}

#[test]
fn missing_page_of_one_is_not_missing_for_a_member() {
    for (field, value) in [("Cookie", "sid=alice"), ("Authorization", "Bearer alice")] {
        let origin = Origin::start();
        origin.on_request("/private", move |request| match request.fields.has(field) {
            true => Answer::ok("the page").field("Cache-Control", "private"),
            false => Answer::new(404).piece("gone"),
        });
        origin.on("/gone", Answer::new(404).piece("gone"));
        let shoal = Setup::to(&origin).set("cache.negative_ttl", "60s").start();
        let member = |path| shoal.ask(&Request::get(path).field(field, value));
        for asked in 1..3 {
            shoal.get("/private").expect_status(404);
            member("/private").expect_status(200).expect_body("the page");
            member("/gone").expect_status(404);
            assert_eq!(origin.count("/gone"), asked, "{field}: what a member got is not kept either");
        }
        assert_eq!(origin.count("/private"), 3, "{field}");
    }
}

#[test]
fn other_errors_are_not_kept_unasked() {
    for status in [400, 401, 403, 429, 500, 502, 503, 504] {
        let origin = Origin::start();
        origin.on("/a", Answer::new(status));
        let shoal = Setup::to(&origin).set("cache.negative_ttl", "60s").start();
        for _ in 0..2 {
            shoal.get("/a").expect_status(status);
        }
        assert_eq!(origin.count("/a"), 2, "{status}");
    }
}

/// An error that is kept for a moment takes no place on disk, nor brings back what it replaced.
#[test]
fn missing_page_is_kept_in_ram_alone() {
    let origin = Origin::start();
    let gone = Answer::new(404).piece("gone");
    origin.on_each("/a", [Answer::fresh("the page", 600), gone.clone(), Answer::fresh("new", 600)]);
    origin.on("/b", gone);
    let mut shoal = Setup::to(&origin).set("cache.negative_ttl", "600s").start();
    shoal.get("/a").expect_body("the page");
    shoal.ask(&Request::get("/a").field("Cache-Control", "no-cache")).expect_status(404);
    for path in ["/a", "/b", "/b"] {
        shoal.get(path).expect_status(404);
    }
    assert_eq!((origin.count("/a"), origin.count("/b")), (2, 1));
    shoal.restart_and_find_all();
    shoal.get("/a").expect_body("new");
    shoal.get("/b").expect_status(404);
    assert_eq!(origin.count("/b"), 2);
}

#[test]
fn guesses_go_by_site() {
    let origin = Origin::start();
    origin.on_request("/*", |_| old("body"));
    let upstreams = format!("upstreams = [{{ url = '{}' }}]\n", origin.url());
    let site =
        |prefix: &str, rules: &str| format!("hosts = ['*']\npath_prefix = '{prefix}'\n{rules}{upstreams}");
    let shoal = Setup::to(&origin)
        .without_sites()
        .site(&site("/", ""))
        .site(&site("/never/", "heuristic_fraction = 0.0\n"))
        .site(&site("/query/", "heuristic_query = 'unsigned'\n"))
        .start();
    for (target, path, asked) in
        [("/a", "/a", 1), ("/never/a", "/never/a", 2), ("/b?v=1", "/b", 2), ("/query/a?v=1", "/query/a", 1)]
    {
        (0..2).for_each(|_| drop(shoal.get(target)));
        assert_eq!(origin.count(path), asked, "{target}");
    }
}

/// A member's page is his own. That says nothing of the page that all others get: they go on to
/// share fetches.
#[test]
fn private_answers_to_one_leave_others_collapsed() {
    for (name, value) in [("Cookie", "sid=1"), ("Authorization", "Basic YTpi")] {
        let (origin, gate) = (Origin::start(), Gate::new());
        let held = gate.clone();
        origin.on_request("/", move |request| match request.fields.has(&name.to_lowercase()) {
            true => Answer::ok("a member's").field("Cache-Control", "private"),
            false => Answer::fresh("the page", 60).held_by(&held),
        });
        let shoal = Setup::to(&origin).start();
        shoal.ask(&Request::get("/").field(name, value)).expect_body("a member's");
        let before = shoal.metric("shoal_requests_total", "");
        let mut clients: Vec<_> = (0..20)
            .map(|_| {
                let mut client = shoal.connect();
                client.send(Request::get("/").to_bytes("site.test"));
                client
            })
            .collect();
        wait::until("all have asked", || shoal.metric("shoal_requests_total", "") >= before + 20);
        gate.open();
        for client in &mut clients {
            client.response("GET").expect_body("the page");
        }
        assert_eq!(origin.count("/"), 2, "{name}");
    }
}
