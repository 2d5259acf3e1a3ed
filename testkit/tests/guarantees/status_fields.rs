//! Cache-Status (RFC 9211) and Proxy-Status (RFC 9209) on every kind of answer. Reading them checks
//! their syntax and parameters strictly (`shoal_testkit::members`).

use shoal_testkit::members::{cache_status, proxy_status};
use shoal_testkit::origin::After;
use shoal_testkit::{Answer, Connection, Origin, Request, Resource, Setup};

#[test]
fn cache_status_says_what_the_cache_did() {
    let origin = Origin::start();
    origin.on("/fresh", Answer::fresh("body", 60));
    origin.on("/no-store", Answer::ok("body").field("Cache-Control", "no-store"));
    origin.on("/post", Answer::ok("done"));
    let shoal = Setup::to(&origin).start();

    let miss = shoal.get("/fresh").cache();
    assert_eq!(miss.name, "shoal");
    assert_eq!((miss.word("fwd").as_deref(), miss.is("stored")), (Some("uri-miss"), true));
    assert_eq!(miss.number("fwd-status").unwrap_or(200), 200);

    let hit = shoal.get("/fresh").cache();
    assert!(hit.is("hit"));
    assert!(hit.number("ttl").is_some_and(|ttl| (55..=60).contains(&ttl)), "RFC 9211 section 2.4: {hit:?}");

    for _ in 0..2 {
        let pass = shoal.get("/no-store").cache();
        assert!(pass.has("fwd") && !pass.is("stored"), "{pass:?}");
    }
    let post = shoal.ask(&Request::new("POST", "/post").body(b"x")).cache();
    assert_eq!(post.word("fwd").as_deref(), Some("method"));
    let request = shoal.ask(&Request::get("/fresh").field("Cache-Control", "no-cache")).cache();
    assert_eq!(request.word("fwd").as_deref(), Some("request"));
}

/// RFC 9211 section 2: "Each member of the list represents a cache that has handled the request ...
/// when adding a value to the Cache-Status header field, caches SHOULD preserve the existing field
/// value".
#[test]
fn the_members_of_caches_before_are_kept_in_front() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).field("Cache-Status", "far; hit; ttl=9"));
    let shoal = Setup::to(&origin).start();
    let names = |members: Vec<shoal_testkit::members::Member>| {
        members.into_iter().map(|member| member.name).collect::<Vec<_>>()
    };
    assert_eq!(names(cache_status(&shoal.get("/a").fields)), ["far", "shoal"]);
    let hit = shoal.get("/a");
    hit.expect_hit();
    assert_eq!(names(cache_status(&hit.fields)).last().map(String::as_str), Some("shoal"));
}

#[test]
fn every_kind_of_answer_carries_cache_status() {
    let origin = Origin::start();
    let modified = "Sat, 29 Oct 1994 19:43:31 GMT";
    origin.serve(
        "/r",
        Resource::new("0123456789").etag("\"a\"").last_modified(modified).cache_control("max-age=60"),
    );
    origin.on("/404", Answer::new(404).piece("none"));
    origin.on("/500", Answer::new(500).piece("broken"));
    origin.on("/204", Answer::new(204));
    origin.on("/chunked", Answer::ok("chunks").framed(shoal_testkit::origin::Framing::Chunked));
    origin.on("/reset", Answer::raw("").then(After::Reset));
    let shoal = Setup::to(&origin).set("client.target_max", "2 KiB").start();
    shoal.get("/r").expect_status(200);
    let long = format!("/{}", "x".repeat(4000));
    let cases: [(Request, u16); 14] = [
        (Request::get("/r"), 200),
        (Request::new("HEAD", "/r"), 200),
        (Request::get("/r").field("If-None-Match", "\"a\""), 304),
        (Request::get("/r").field("Range", "bytes=1-2"), 206),
        (Request::get("/r").field("Range", "bytes=1-2,5-6"), 206),
        (Request::get("/r").field("Range", "bytes=50-"), 416),
        (Request::get("/404"), 404),
        (Request::get("/500"), 500),
        (Request::get("/204"), 204),
        (Request::get("/chunked"), 200),
        (Request::get("/reset"), 502),
        (Request::get("/none").field("Cache-Control", "only-if-cached"), 504),
        (Request::get(&long), 414),
        (Request::new("PURGE", "/r"), 200),
    ];
    for (request, status) in cases {
        let answer = shoal.ask(&request);
        assert_eq!(answer.status, status, "{} {:.20}", request.method, request.target);
        let member = answer.cache();
        assert_eq!(member.name, "shoal");
    }
    let forbidden = shoal.ask_forward(&Request::new("CONNECT", "127.0.0.1:1"));
    assert_eq!((forbidden.status, forbidden.cache().name.as_str()), (403, "shoal"));
    let mut malformed = Connection::open(shoal.address("reverse"));
    malformed.send("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n");
    assert_eq!(malformed.response("GET").cache().name, "shoal");
}

/// RFC 9209 section 2.3 names an error for each way an origin fails, with the status it recommends.
#[test]
fn proxy_status_names_the_error_of_the_origin() {
    let huge = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(2_000_000));
    let cases: [(&str, Answer, u16, &[&str]); 7] = [
        (
            "reset",
            Answer::raw("").then(After::Reset),
            502,
            &["connection_terminated", "http_response_incomplete"],
        ),
        ("close", Answer::raw(""), 502, &["connection_terminated", "http_response_incomplete"]),
        (
            "silence",
            Answer::raw("").then(After::Stall),
            504,
            &["http_response_timeout", "connection_read_timeout"],
        ),
        ("garbage", Answer::raw("garbage\r\n\r\n"), 502, &["http_protocol_error"]),
        (
            "half",
            Answer::raw("HTTP/1.1 200 OK\r\nX: "),
            502,
            &["http_response_incomplete", "connection_terminated"],
        ),
        (
            "huge",
            Answer::raw(huge),
            502,
            &["http_response_header_section_size", "http_response_header_size", "http_protocol_error"],
        ),
        (
            "ambiguous",
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
            502,
            &["http_protocol_error"],
        ),
    ];
    let origin = Origin::start();
    let shoal = Setup::to(&origin).set("upstream.first_byte_timeout", "500ms").start();
    for (name, fault, status, errors) in cases {
        let path = format!("/{name}");
        origin.on(&path, fault);
        let answer = shoal.get(&path);
        answer.expect_status(status);
        let member = answer.proxy();
        assert_eq!(member.name, "shoal");
        let error = member.word("error").unwrap_or_default();
        assert!(errors.contains(&error.as_str()), "{name}: {error}");
        assert!(answer.field("content-type").is_some(), "{name}: an error page says what it is");
        assert!(
            !answer.text().contains(&origin.address().to_string()),
            "{name}: no internals on error pages"
        );
    }
}

#[test]
fn proxy_status_on_forwarded_answers_is_sound() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).field("Proxy-Status", "inner; received-status=200"));
    let shoal = Setup::to(&origin).start();
    let members = proxy_status(&shoal.get("/a").fields);
    assert_eq!(members.first().map(|member| member.name.as_str()), Some("inner"), "{members:?}");
    assert_eq!(members.last().map(|member| member.name.as_str()), Some("shoal"), "{members:?}");
    assert_eq!(members.last().map(|member| member.has("error")), Some(false));
}
