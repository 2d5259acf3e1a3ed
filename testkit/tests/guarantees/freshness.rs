//! Freshness as a shared cache sees it, end to end (RFC 9111): the main rules, each with the
//! origin's counter. The public conformance suite goes into the details.

use shoal_testkit::origin::Framing;
use shoal_testkit::{Answer, Origin, Request, Resource, Setup};
use std::time::{Duration, SystemTime};

/// Whether a second request for a response with these fields is answered without the origin.
fn reused(fields: &[(&str, &str)], request: &[(&str, &str)]) -> bool {
    let origin = Origin::start();
    let answer = fields.iter().fold(Answer::ok("body"), |answer, (name, value)| answer.field(name, value));
    origin.on("/a", answer);
    let shoal = Setup::to(&origin).start();
    let request =
        request.iter().fold(Request::get("/a"), |request, (name, value)| request.field(name, value));
    shoal.ask(&request).expect_body("body");
    shoal.ask(&request).expect_body("body");
    origin.count("/a") == 1
}

/// RFC 9111 section 5.2.2.7: a qualified `private` says that "only the listed header fields are
/// limited to a single user", and that user is who asked; section 5.2.2.4 has the like of
/// `no-cache`.
#[test]
fn fields_that_are_for_one_client_reach_that_client_alone() {
    for directive in ["private=\"Set-Cookie\"", "no-cache=\"set-cookie\""] {
        let origin = Origin::start();
        let first =
            Answer::ok("body").field("Set-Cookie", "session=1").field("Age", "15").field("ETag", "\"v\"");
        let again = Answer::new(304).field("Set-Cookie", "session=2").field("ETag", "\"v\"");
        let control = |answer: Answer, seconds| {
            answer.field("Cache-Control", &format!("{directive}, max-age={seconds}"))
        };
        origin.on_each("/a", [control(first, 10), control(again, 60)]);
        let shoal = Setup::to(&origin).start();
        for (cookie, asked) in [(Some("session=1"), 1), (Some("session=2"), 2), (None, 2)] {
            let response = shoal.get("/a");
            response.expect_body("body");
            assert_eq!(response.field("set-cookie"), cookie, "{directive}");
            assert_eq!(origin.count("/a"), asked, "{directive}");
        }
    }
}

#[test]
fn explicit_freshness_is_heeded_and_the_shared_ones_go_first() {
    let cases: [(&[(&str, &str)], bool); 12] = [
        (&[("Cache-Control", "max-age=60")], true),
        (&[("Cache-Control", "max-age=0")], false),
        (&[("Cache-Control", "max-age=0, s-maxage=60")], true),
        (&[("Cache-Control", "max-age=60, s-maxage=0")], false),
        (&[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "max-age=0")], false),
        (&[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=60")], true),
        (&[("Cache-Control", "private, max-age=60")], false),
        (&[("Cache-Control", "no-store, max-age=60")], false),
        (&[("Cache-Control", "no-cache, max-age=60")], false),
        (&[("Cache-Control", "max-age=60"), ("Age", "59")], true),
        (&[("Cache-Control", "max-age=60"), ("Age", "61")], false),
        (&[], false),
    ];
    for (fields, expected) in cases {
        assert_eq!(reused(fields, &[]), expected, "{fields:?}");
    }
}

#[test]
fn dates_give_explicit_and_heuristic_freshness() {
    let ago = |seconds| httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(seconds));
    let ahead = |seconds| httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds));
    assert!(reused(&[("Expires", &ahead(60))], &[]));
    assert!(!reused(&[("Expires", &ago(60))], &[]));
    assert!(!reused(&[("Expires", "0")], &[]), "invalid dates are in the past (RFC 9111 section 5.3)");
    assert!(reused(&[("Last-Modified", &ago(86_400))], &[]), "a tenth of a day");
    assert!(!reused(&[("Last-Modified", &ago(1))], &[]));
}

/// RFC 9111 section 3.5.
#[test]
fn authorized_responses_need_leave_to_be_shared() {
    let authorized: &[(&str, &str)] = &[("Authorization", "Bearer x")];
    for (directives, expected) in [
        ("max-age=60", false),
        ("max-age=60, public", true),
        ("s-maxage=60", true),
        ("max-age=60, must-revalidate", true),
        ("max-age=60, private", false),
    ] {
        assert_eq!(reused(&[("Cache-Control", directives)], authorized), expected, "{directives}");
    }
}

#[test]
fn request_directives_are_heeded() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).field("Age", "20").field("ETag", "\"a\""));
    let shoal = Setup::to(&origin).set("cache.reload_interval", "0s").start();
    shoal.get("/a").expect_body("body");
    for (directive, hit) in [
        ("max-age=100", true),
        ("max-age=5", false),
        ("min-fresh=10", true),
        ("min-fresh=100", false),
        ("no-cache", false),
    ] {
        let answer = shoal.ask(&Request::get("/a").field("Cache-Control", directive));
        assert_eq!(answer.hit(), hit, "{directive}");
        if !hit {
            answer.expect_forwarded("request");
        }
    }
    shoal.ask(&Request::get("/a").field("Cache-Control", "only-if-cached")).expect_body("body");
    let unknown = shoal.ask(&Request::get("/unknown").field("Cache-Control", "only-if-cached"));
    unknown.expect_status(504);
    assert_eq!(origin.count("/unknown"), 0, "RFC 9111 section 5.2.1.7");
}

#[test]
fn age_is_told_and_grows() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).field("Age", "7"));
    let shoal = Setup::to(&origin).start();
    let begin = std::time::Instant::now();
    shoal.get("/a").expect_body("body");
    std::thread::sleep(Duration::from_millis(1100));
    let answer = shoal.get("/a");
    answer.expect_hit();
    // Seconds are counted whole, at either end.
    let most = 7 + begin.elapsed().as_secs() + 2;
    let age = answer.number("age").unwrap_or_default();
    assert!((8..=most).contains(&age), "{age} of at most {most}");
    let ttl = answer.cache().number("ttl").unwrap_or_default();
    assert!((60 - most as i64..=52).contains(&ttl), "{ttl}");
}

/// RFC 9111 section 4.3.2: conditional requests of clients are answered from the stored response.
#[test]
fn conditional_requests_are_answered_from_the_cache() {
    let origin = Origin::start();
    let modified = "Sat, 29 Oct 1994 19:43:31 GMT";
    origin.on("/a", Answer::fresh("body", 60).field("ETag", "\"a\"").field("Last-Modified", modified));
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    for (field, value, status) in [
        ("If-None-Match", "\"a\"", 304),
        ("If-None-Match", "\"x\", W/\"a\"", 304),
        ("If-None-Match", "*", 304),
        ("If-None-Match", "\"x\"", 200),
        ("If-Modified-Since", modified, 304),
        ("If-Modified-Since", "Sat, 29 Oct 1994 19:43:30 GMT", 200),
    ] {
        let answer = shoal.ask(&Request::get("/a").field(field, value));
        answer.expect_status(status).expect_hit();
        assert_eq!(answer.field("etag"), Some("\"a\""), "{field}: {value}");
    }
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn a_validation_renews_what_is_stored() {
    let origin = Origin::start();
    let old = Answer::fresh("body", 10).field("Age", "20").field("ETag", "\"a\"").field("X-Note", "old");
    let renewed =
        Answer::new(304).field("Cache-Control", "max-age=60").field("ETag", "\"a\"").field("X-Note", "new");
    origin.on_each("/a", [old, renewed]);
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    let validated = shoal.get("/a");
    validated.expect_body("body").expect_forwarded("stale");
    assert_eq!(validated.cache().number("fwd-status"), Some(304));
    assert_eq!(origin.last("/a").fields.first("if-none-match"), Some("\"a\""));
    let hit = shoal.get("/a");
    hit.expect_body("body").expect_hit();
    assert_eq!(hit.field("x-note"), Some("new"), "RFC 9111 section 3.2");
    assert_eq!(origin.count("/a"), 2);
    shoal.expect_responses("refresh_unmodified", 1);
}

/// RFC 9110 section 6.6.1: a response without Date is given the time that it was received; so is a
/// 304, whose age would be reckoned from the Date of the response that it validates otherwise.
#[test]
fn a_validation_without_a_date_begins_a_new_age() {
    let origin = Origin::start();
    let answer = |status, body: &str| {
        let answer =
            Answer::new(status).undated().field("ETag", "\"v\"").field("Cache-Control", "max-age=60");
        if body.is_empty() {
            answer
        } else {
            answer.piece(body).field("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
        }
    };
    origin.on_each("/a", [answer(200, "body"), answer(304, "")]);
    let shoal = Setup::to(&origin).start();
    for asked in [1, 2, 2] {
        shoal.get("/a").expect_body("body");
        assert_eq!(origin.count("/a"), asked);
    }
    assert!(shoal.get("/a").number("age").is_some_and(|age| age < 60));
}

#[test]
fn a_head_request_is_answered_from_a_stored_get() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("12345", 60));
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("12345");
    let head = shoal.ask(&Request::new("HEAD", "/a"));
    head.expect_status(200).expect_hit();
    assert_eq!((head.number("content-length"), head.body.len()), (Some(5), 0));
    assert_eq!(origin.total(), 1);
}

#[test]
fn every_final_status_is_stored_with_explicit_freshness() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    for status in [
        200, 203, 204, 299, 300, 301, 302, 307, 308, 400, 404, 405, 410, 414, 418, 451, 499, 500, 501, 503,
        599,
    ] {
        let path = format!("/{status}");
        origin.on(&path, Answer::new(status).field("Cache-Control", "max-age=60"));
        assert_eq!(shoal.get(&path).status, status);
        let again = shoal.get(&path);
        assert_eq!(again.status, status);
        assert!(again.hit(), "{status}");
    }
}

#[test]
fn stored_responses_are_kept_across_a_restart() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).field("X-Kept", "yes").field("Content-Type", "text/x"));
    let mut shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("body");
    shoal_testkit::wait::until("it is on disk", || {
        shoal.status()["store"]["space"]["objects"].as_u64() >= Some(1)
    });
    shoal.restart_and_find_all();
    let answer = shoal.get("/a");
    answer.expect_body("body").expect_hit();
    assert_eq!((answer.field("x-kept"), answer.field("content-type")), (Some("yes"), Some("text/x")));
    assert_eq!(origin.count("/a"), 1);
    shoal.expect_responses("hit", 1);
}

/// RFC 9111 section 5.2.1.5: what a `no-store` request brings is not stored; section 3.5: nor is
/// what an authorized one does. What others have had stored is theirs as before.
#[test]
fn a_request_that_nothing_can_be_stored_for_leaves_what_is_stored() {
    for method in ["GET", "HEAD"] {
        for (name, value) in [("Cache-Control", "no-store"), ("Authorization", "Bearer x")] {
            let origin = Origin::start();
            origin.serve("/a", Resource::new("body").etag("\"v\"").cache_control("max-age=60"));
            let shoal = Setup::to(&origin).start();
            shoal.get("/a").expect_body("body");
            let request = Request::new(method, "/a").field("Cache-Control", "no-cache").field(name, value);
            shoal.ask(&request).expect_status(200).expect_forwarded("request");
            shoal.get("/a").expect_body("body").expect_hit();
            assert_eq!(origin.count("/a"), 2, "{method} with {name}: {value}");
        }
    }
}

/// The date of an error page may be later than that of what has come in its place, which a 304 is
/// about.
#[test]
fn an_error_is_not_renewed_by_a_304_about_what_came_in_its_place() {
    let origin = Origin::start();
    let modified = "Sat, 29 Oct 1994 19:43:31 GMT";
    let missing = Answer::new(404).field("Last-Modified", modified).field("Age", "15");
    origin.on("/a", missing.field("Cache-Control", "max-age=10").piece("missing"));
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_status(404);
    origin.serve("/a", Resource::new("here").last_modified(modified).cache_control("max-age=60"));
    shoal.get("/a").expect_body("here");
    shoal.get("/a").expect_body("here").expect_hit();
}

/// RFC 9111 section 4.3.5: the response to a HEAD is what a GET would have got, which is no 404 any
/// more.
#[test]
fn an_error_is_not_renewed_by_a_head_request_that_succeeds() {
    let origin = Origin::start();
    let missing = Answer::new(404).field("Age", "15").field("Cache-Control", "max-age=10");
    origin.on("/a", missing.piece("missing"));
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_status(404);
    origin.on("/a", Answer::fresh("here", 60).framed(Framing::Chunked));
    shoal.ask(&Request::new("HEAD", "/a")).expect_status(200);
    shoal.get("/a").expect_body("here");
}
