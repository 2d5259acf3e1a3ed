//! Origins that say nothing about sharing: a page that may be for one client's cookies alone is
//! judged by the origin for each client.

use shoal_testkit::origin::Received;
use shoal_testkit::{Answer, Origin, Request, Response, Setup, Shoal};

const AGES_AGO: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// A page for clients with the cookie `session`, as applications send it: with validators, and
/// without a word on caching. Others are refused.
fn page(request: &Received) -> Answer {
    let has_session = request.fields.joined("cookie").contains("session=");
    match (has_session, request.fields.first("if-none-match")) {
        (false, _) => Answer::new(403),
        (true, Some("\"v\"")) => Answer::new(304).field("ETag", "\"v\""),
        (true, _) => Answer::ok("secret").field("ETag", "\"v\"").field("Last-Modified", AGES_AGO),
    }
}

fn member(shoal: &Shoal) -> Response {
    shoal.ask(&Request::get("/page").field("Cookie", "session=1"))
}

#[test]
fn page_for_cookies_is_judged_by_its_origin() {
    let origin = Origin::start();
    origin.on_request("/page", page);
    let shoal = Setup::to(&origin).start();
    for _ in 0..3 {
        member(&shoal).expect_body("secret");
        shoal.get("/page").expect_status(403);
        assert!(!shoal.ask(&Request::get("/page").field("Cookie", "other=1")).text().contains("secret"));
    }
    member(&shoal).expect_body("secret");
    let validated =
        origin.received().iter().any(|request| request.fields.first("if-none-match") == Some("\"v\""));
    assert!(validated, "a copy is kept for validation");
}

/// Neither while the origin fails nor by a rule for all pages.
#[test]
fn page_for_cookies_is_not_served_stale() {
    for rule in [None, Some("stale_if_error = '1h'"), Some("stale_while_revalidate = '1h'")] {
        let origin = Origin::start();
        origin.on_request("/page", page);
        let rule = rule.map_or_else(String::new, |rule| format!("rule = [{{ {rule} }}]\n"));
        let site = format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]\n{rule}", origin.url());
        let shoal = Setup::bare().listen("reverse", "mode = 'reverse'").site(&site).start();
        member(&shoal).expect_body("secret");
        origin.on("/page", Answer::new(503));
        for request in [Request::get("/page"), Request::get("/page").field("Cookie", "other=1")] {
            shoal.ask(&request).expect_status(503);
        }
    }
}

/// A page that a client without cookies got is for all, and so is one by the origin's own word or a
/// rule's.
#[test]
fn page_for_all_is_shared() {
    for (cookie, field, rule) in [
        (None, ("Last-Modified", AGES_AGO), ""),
        (Some("a=1"), ("Cache-Control", "max-age=60"), ""),
        (Some("a=1"), ("Cache-Control", "public"), ""),
        (Some("a=1"), ("Last-Modified", AGES_AGO), "rule = [{ cookies = [] }]"),
    ] {
        let origin = Origin::start();
        origin.on("/page", Answer::ok("for all").field("Last-Modified", AGES_AGO).field(field.0, field.1));
        let site = format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]\n{rule}", origin.url());
        let shoal = Setup::bare().listen("reverse", "mode = 'reverse'").site(&site).start();
        let request = Request::get("/page");
        shoal
            .ask(&cookie.map_or(request.clone(), |cookie| request.field("Cookie", cookie)))
            .expect_status(200);
        for cookie in ["b=1", ""] {
            let request = Request::get("/page");
            let request = if cookie.is_empty() { request } else { request.field("Cookie", cookie) };
            shoal.ask(&request).expect_body("for all").expect_hit();
        }
    }
}

/// With `Vary: Cookie` each set of cookies has its own copy, which is used as long as a guess holds.
#[test]
fn page_by_cookie_has_a_copy_for_each() {
    let origin = Origin::start();
    origin.on_request("/page", |request| {
        Answer::ok(request.fields.joined("cookie")).field("Vary", "Cookie").field("Last-Modified", AGES_AGO)
    });
    let shoal = Setup::to(&origin).start();
    for _ in 0..2 {
        for cookie in ["a=1", "b=2"] {
            shoal.ask(&Request::get("/page").field("Cookie", cookie)).expect_body(cookie);
        }
    }
    assert_eq!(origin.count("/page"), 2);
}

/// An origin may compare validators before it looks at the login. Then its 304 is for a client that
/// may see nothing; the page stays that of the client with the cookie.
#[test]
fn page_for_cookies_stays_so_when_others_validate_it() {
    let origin = Origin::start();
    origin.on_request("/page", |request| match request.fields.first("if-none-match") {
        Some(_) => Answer::new(304).field("ETag", "\"v\"").field("Last-Modified", AGES_AGO),
        None => Answer::ok("page").field("ETag", "\"v\"").field("Last-Modified", AGES_AGO),
    });
    let shoal = Setup::to(&origin).start();
    member(&shoal).expect_body("page");
    for asked in 2..5 {
        shoal.get("/page").expect_status(200);
        assert_eq!(origin.count("/page"), asked, "the origin judges each client");
    }
}

/// A date says nothing about who may see a page.
#[test]
fn page_for_cookies_with_a_date_alone_is_not_stored() {
    let origin = Origin::start();
    origin.on_request("/page", |request| {
        assert!(!request.fields.has("if-modified-since"), "it is not validated by its date");
        Answer::ok("page").field("Last-Modified", AGES_AGO)
    });
    let shoal = Setup::to(&origin).start();
    member(&shoal).expect_body("page").expect_forwarded("uri-miss");
    member(&shoal).expect_body("page").expect_forwarded("uri-miss");
}
