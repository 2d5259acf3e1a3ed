//! A plain request whose response is fresh in RAM is answered on a short way. Its answer, its line
//! in the log and its count are those of the ordinary way, which a field that is not plain leads
//! to.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::{Answer, Origin, Request, Setup};
use std::time::SystemTime;

/// A token that changes nothing, but makes the request one that is not plain.
const ORDINARY: (&str, &str) = ("Connection", "keep-alive, x-nothing");

#[test]
fn answers_are_alike_on_both_ways() {
    let origin = Origin::start();
    origin
        .on("/plain", Answer::fresh("body", 6000).field("Date", &httpdate::fmt_http_date(SystemTime::now())));
    origin.on(
        "/rich",
        Answer::fresh("x".repeat(20_000), 6000).field("ETag", "\"a\"").field("X-A", "1").field("X-A", "2"),
    );
    origin.on("/empty", Answer::fresh("", 6000));
    origin.on("/gone", Answer { status: 404, ..Answer::fresh("gone", 6000) });
    origin.on("/moved", Answer { status: 301, ..Answer::fresh("moved", 6000) }.field("Location", "/plain"));
    origin.on("/none", Answer { status: 204, ..Answer::fresh("", 6000) });
    origin.on("/varied", Answer::fresh("varied", 6000).field("Vary", "Accept-Language"));
    origin.on("/old", Answer::fresh("old", 6000).field("Age", "6001"));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    for path in ["/plain", "/rich", "/empty", "/gone", "/moved", "/none", "/varied", "/old", "/plain?q=%20#"]
    {
        for host in ["site.test", "SITE.test", "site.test:80"] {
            let plain = Request::get(path).field("User-Agent", "x").field("Cookie", "a=b");
            let ordinary = plain.clone().field(ORDINARY.0, ORDINARY.1);
            let mut ask = |request: &Request| client.ask_exactly(request, host);
            if path.contains('#') {
                assert_eq!(shoal.connect().ask(&plain, host).status, 400);
                continue;
            }
            ask(&ordinary);
            let (first, second) = (ask(&ordinary), ask(&plain));
            assert_eq!(second.head.contains(";hit;"), path != "/old", "{path} of {host}: {}", second.head);
            second.expect_like(first, &format!("{path} of {host}"));
        }
    }
}

#[test]
fn requests_in_a_row_are_answered_in_order() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    let mut row = Vec::new();
    for turn in 0..40 {
        let path = format!("/{}", turn % 4);
        origin.on(&path, Answer::fresh(format!("body of {path}").repeat(3000), 6000));
        let request = Request::get(&path);
        let request = if turn % 3 == 0 { request.field(ORDINARY.0, ORDINARY.1) } else { request };
        row.extend(request.to_bytes("site.test"));
    }
    client.send(&row);
    for turn in 0..40 {
        let path = format!("/{}", turn % 4);
        client.response("GET").expect_status(200).expect_body(format!("body of {path}").repeat(3000));
    }
}

#[test]
fn lines_in_the_log_are_alike() {
    let origin = Origin::start();
    let answer = Answer::fresh("12345", 6000).field("Content-Type", "text/plain");
    origin.on("/a", answer.field("ETag", "\"e\""));
    let shoal = Setup::to(&origin).set("log.format", "json").start();
    let mut client = shoal.connect();
    let request = |method| {
        let request = Request::new(method, "/a?b=c").field("Referer", "http://r.test/");
        request.field("User-Agent", "tester \"x\"")
    };
    client.ask(&request("GET"), "Site.test").expect_body("12345");
    let kinds = [
        (request("GET"), 200),
        (request("HEAD"), 200),
        (request("GET").field("If-None-Match", "\"e\""), 304),
        (request("GET").field("Range", "bytes=1-2"), 206),
    ];
    for (plain, status) in &kinds {
        for request in [&plain.clone().field(ORDINARY.0, ORDINARY.1), plain] {
            assert_eq!(client.ask(request, "Site.test").status, *status);
        }
    }
    let timeless = |line: &String| {
        let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let fields = line.as_object_mut().expect("an object");
        fields.retain(|name, _| !["time", "duration_us", "head_bytes"].contains(&name.as_str()));
        let status = fields.get_mut("cache_status").and_then(|value| value.as_str().map(str::to_owned));
        let status = status.expect("every line has one");
        fields.insert("cache_status".into(), status.split(";ttl=").next().unwrap_or_default().into());
        line
    };
    let log = shoal.access_log(1 + 2 * kinds.len());
    for (pair, (request, status)) in log[1..].chunks(2).zip(&kinds) {
        assert_eq!(timeless(&pair[1]), timeless(&pair[0]), "{request:?}");
        let says = |what: &str| assert!(pair[1].contains(what), "{what} is not in {}", pair[1]);
        ["memory_hit", &status.to_string(), &request.method].into_iter().for_each(says);
    }
    shoal.expect_responses("memory_hit", 2 * kinds.len() as u64);
    shoal.expect_responses("miss", 1);
}

#[test]
fn the_log_may_be_off() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("12345", 6000));
    let shoal = Setup::to(&origin).set("log.access", "none").start();
    let mut client = shoal.connect();
    (0..5).for_each(|_| assert_eq!(client.ask(&Request::get("/a"), "site.test").body, b"12345"));
    shoal.expect_responses("memory_hit", 4);
}

#[test]
fn rules_hold_on_the_short_way_too() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 6000));
    let url = format!("{}/a", origin.url());
    let host = origin.address().to_string();
    let setup = Setup::bare();
    let users = setup.file("users", "alice:open sesame\n");
    let shoal = setup.set("forward.users_file", users.to_str().expect("UTF-8")).start();
    let plain = Request::get(&url);
    let proof = format!("Basic {}", BASE64_STANDARD.encode("alice:open sesame"));
    let known = plain.clone().field("Proxy-Authorization", &proof);
    let mut client = shoal.connect_forward();
    client.ask(&known, &host).expect_body("body");
    client.ask(&known, &host).expect_hit();
    assert_eq!(client.ask(&plain, &host).status, 407);
    client.ask(&known, &host).expect_hit();
}

/// RFC 9113, section 8.2.3: over HTTP/2 a cookie may come in parts, which "MUST be concatenated
/// into a single octet string using the two-octet delimiter of 0x3b, 0x20". So they are not those
/// of a cookie with a comma in it.
#[test]
fn a_cookie_in_parts_selects_as_one() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 6000).field("Vary", "Cookie"));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    let mut h2 = H2Connection::open(shoal.address("reverse"));
    let with = |cookie| Request::get("/a").field("Cookie", cookie);
    client.ask(&with("a=1,b=2"), "site.test").expect_body("body");
    client.ask(&with("a=1,b=2"), "site.test").expect_hit();
    h2.ask(&with("a=1").field("Cookie", "b=2"), "site.test").expect_forwarded("vary-miss");
    h2.ask(&with("a=1").field("Cookie", "b=2"), "site.test").expect_hit();
    client.ask(&with("a=1; b=2"), "site.test").expect_hit();
    h2.ask(&with("a=1; b=2"), "site.test").expect_hit();
    h2.ask(&with("a=1,b=2"), "site.test").expect_hit();
}

/// A whole response that says Content-Range, which means nothing there.
#[test]
fn a_part_has_one_content_range() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("0123456789", 6000).field("Content-Range", "bytes 0-9/10"));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    let mut h2 = H2Connection::open(shoal.address("reverse"));
    client.ask(&Request::get("/a"), "site.test").expect_body("0123456789");
    let part = Request::get("/a").field("Range", "bytes=2-4");
    let ordinary = part.clone().field(ORDINARY.0, ORDINARY.1);
    for answer in
        [client.ask(&part, "site.test"), client.ask(&ordinary, "site.test"), h2.ask(&part, "site.test")]
    {
        assert_eq!((answer.status, &*answer.body), (206, &b"234"[..]));
        assert_eq!(answer.fields.joined("content-range"), "bytes 2-4/10");
    }
}

/// In forward mode no origin sees the X-Forwarded-For of a GET: it selects nothing.
#[test]
fn variants_are_told_apart_in_forward_mode() {
    let origin = Origin::start();
    let url = format!("{}/a", origin.url());
    let host = origin.address().to_string();
    origin.on("/a", Answer::fresh("body", 6000).field("Vary", "X-Forwarded-For, Accept-Encoding"));
    let shoal = Setup::bare().start();
    let mut client = shoal.connect_forward();
    let asked = |field| Request::get(&url).field("Accept-Encoding", field);
    client.ask(&asked("br"), &host).expect_body("body");
    client.ask(&asked("br"), &host).expect_hit();
    client.ask(&asked("BR;q=1"), &host).expect_hit();
    client.ask(&asked("br").field("X-Forwarded-For", "192.0.2.1"), &host).expect_hit();
    client.ask(&asked("gzip"), &host).expect_forwarded("vary-miss");
}

#[test]
fn what_was_purged_is_not_served() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 6000).field("Cache-Tag", "news"));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    let plain = Request::get("/a");
    client.ask(&plain, "site.test").expect_body("body");
    client.ask(&plain, "site.test").expect_hit();
    shoal.ask_admin(&Request::new("POST", "/purge?tag=news")).expect_status(200);
    client.ask(&plain, "site.test").expect_forwarded("uri-miss");
}
