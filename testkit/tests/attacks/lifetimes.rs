//! What lapses is not served for longer by a guess, and what fails is not asked for as fast as clients ask.

use shoal_testkit::origin::Received;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::time::{Duration, Instant, SystemTime};

/// An object that nobody changed for ten days: a guess would be a day.
fn old(body: &str) -> Answer {
    let modified = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(864_000));
    Answer::ok(body).field("Last-Modified", &modified).field("ETag", "\"v\"")
}

/// A store of presigned URLs: the first request comes in time, the others after the leave has lapsed.
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
