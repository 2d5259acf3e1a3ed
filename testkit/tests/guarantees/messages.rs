//! What a proxy does to messages on their way: connection fields, Via, Date, trailers, framing.

use shoal_testkit::origin::{After, Framing};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Fields, Origin, Request, Setup};

/// RFC 9110 section 7.6.1: "Intermediaries MUST parse a received Connection header field before a
/// message is forwarded and, for each connection-option in this field, remove any header or trailer
/// field(s) from the message with the same name as the connection-option, and then remove the
/// Connection header field itself".
#[test]
fn connection_fields_end_at_each_hop() {
    let origin = Origin::start();
    let answer = Answer::fresh("body", 60)
        .field("Connection", "X-Origin-Hop, keep-alive")
        .field("X-Origin-Hop", "1")
        .field("Keep-Alive", "timeout=5")
        .field("Proxy-Connection", "keep-alive")
        .field("X-End", "2");
    origin.on("/a", answer);
    let shoal = Setup::to(&origin).start();
    let request = Request::get("/a")
        .field("Connection", "X-Client-Hop, TE")
        .field("X-Client-Hop", "1")
        .field("Keep-Alive", "300")
        .field("Proxy-Connection", "keep-alive")
        .field("TE", "gzip")
        .field("X-End", "1");
    let first = shoal.ask(&request);
    let received = origin.last("/a").fields;
    for name in ["X-Client-Hop", "Keep-Alive", "Proxy-Connection"] {
        assert!(!received.has(name), "{name} reached the origin");
    }
    assert!(received.first("te").is_none_or(|value| value == "trailers"), "{received:?}");
    assert_eq!(received.first("x-end"), Some("1"));
    for answer in [first, shoal.get("/a")] {
        for name in ["X-Origin-Hop", "Proxy-Connection"] {
            assert!(!answer.fields.has(name), "{name} reached the client: {:?}", answer.fields);
        }
        assert_eq!(answer.field("x-end"), Some("2"));
    }
}

/// RFC 9110 section 7.6.3: "A proxy MUST send an appropriate Via header field ... in each message
/// that it forwards."
#[test]
fn via_names_the_proxy_in_both_directions() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).field("Via", "1.0 inner"));
    let shoal = Setup::to(&origin).set("cache.name", "north").start();
    let first = shoal.ask(&Request::get("/a").field("Via", "1.1 outer"));
    assert_eq!(origin.last("/a").fields.joined("via"), "1.1 outer, 1.1 north");
    assert_eq!(first.fields.joined("via"), "1.0 inner, 1.1 north");
    assert_eq!(shoal.get("/a").fields.joined("via"), "1.0 inner, 1.1 north", "from the cache too");
}

/// A 304 replaces the stored Via by that of its own way, on which this proxy is the last hop again.
#[test]
fn via_names_the_proxy_after_a_validation_too() {
    let origin = Origin::start();
    let answer = |status| {
        let answer = Answer::new(status).field("Via", "1.1 before").field("ETag", "\"v\"");
        answer.field("Age", "15").field("Cache-Control", "max-age=10")
    };
    origin.on_each("/a", [answer(200).piece("body"), answer(304)]);
    let shoal = Setup::to(&origin).start();
    for _ in 0..3 {
        let via = shoal.get("/a").fields.joined("via");
        assert!(via.starts_with("1.1 before, 1.1 shoal") && via.matches("shoal").count() == 1, "{via}");
    }
    assert_eq!(origin.count("/a"), 3);
}

/// RFC 9110 section 6.6.1: "A recipient with a clock that receives a response message without a
/// Date header field MUST record the time it was received and append a corresponding Date header
/// field to the message's header section if it is cached or forwarded downstream."
#[test]
fn a_missing_date_is_added_once() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).undated());
    let shoal = Setup::to(&origin).start();
    let first = shoal.get("/a");
    let date = first.field("date").map(str::to_string).expect("a Date was added");
    assert!(httpdate::parse_http_date(&date).is_ok(), "{date}");
    let hit = shoal.get("/a");
    hit.expect_hit();
    assert_eq!(hit.fields.all("date"), [date.as_str()], "the time of arrival stays");
}

#[test]
fn trailers_pass_in_both_directions() {
    let origin = Origin::start();
    origin.on("/a", Answer::ok("body").field("Cache-Control", "no-store").trailer("X-Sum", "42"));
    let shoal = Setup::to(&origin).start();
    let trailers = Fields::parse("X-Check: 7\r\n");
    let request = Request::new("POST", "/a")
        .field("TE", "trailers")
        .field("Trailer", "X-Check")
        .chunked(b"sent", &trailers);
    let response = shoal.ask(&request);
    response.expect_body("body");
    assert_eq!(response.trailers.first("x-sum"), Some("42"));
    let received = origin.last("/a");
    assert_eq!((received.body.as_slice(), received.trailers.first("x-check")), (&b"sent"[..], Some("7")));
}

/// RFC 9110 section 6.5.1: trailer fields are kept apart, "A recipient MUST NOT merge a field from
/// a trailer section into a header section unless" it is defined to allow that.
#[test]
fn trailers_never_become_fields() {
    let origin = Origin::start();
    let tricky = Answer::fresh("body", 60)
        .trailer("X-Sum", "42")
        .trailer("Content-Length", "1")
        .trailer("Set-Cookie", "a=b");
    origin.on("/a", tricky);
    let shoal = Setup::to(&origin).start();
    for _ in 0..2 {
        let response = shoal.get("/a");
        response.expect_body("body");
        for name in ["X-Sum", "Set-Cookie"] {
            assert!(!response.fields.has(name), "{name} moved into the header section");
        }
        assert!(!response.trailers.has("content-length"), "framing fields have no place in trailers");
    }
}

/// RFC 9110 section 7.6.2: with Max-Forwards 0 "the intermediary MUST NOT forward the request";
/// otherwise it "MUST generate an updated Max-Forwards" that is one less.
#[test]
fn max_forwards_is_counted_down() {
    let origin = Origin::start();
    origin.on("/a", Answer::ok("reached"));
    let shoal = Setup::to(&origin).start();
    for method in ["TRACE", "OPTIONS"] {
        shoal.ask(&Request::new(method, "/a").field("Max-Forwards", "0"));
        assert_eq!(origin.count_of(method, "/a"), 0, "{method}");
    }
    shoal.ask(&Request::new("OPTIONS", "/a").field("Max-Forwards", "5")).expect_body("reached");
    assert_eq!(origin.last("/a").fields.first("max-forwards"), Some("4"));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start();
    origin.on("/slow", Answer::fresh("slow", 60).delay(std::time::Duration::from_millis(200)));
    origin.on("/fast", Answer::fresh("fast", 60));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    let requests: Vec<u8> = ["/slow", "/fast", "/slow"]
        .iter()
        .flat_map(|path| Request::get(path).to_bytes("site.test"))
        .collect();
    client.send(requests);
    for body in ["slow", "fast", "slow"] {
        client.response("GET").expect_body(body);
    }
}

/// RFC 9112 section 9.3: persistence follows the version and Connection.
#[test]
fn connections_persist_as_their_version_says() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    origin.on("/chunked", Answer::ok("chunks").framed(Framing::Chunked));
    let shoal = Setup::to(&origin).start();
    for (version, connection, persists) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "connection: Close\r\n", false),
        ("1.0", "", false),
        ("1.0", "Connection: keep-alive\r\n", true),
    ] {
        let mut client = shoal.connect();
        client.send(format!("GET /a HTTP/{version}\r\nHost: site.test\r\n{connection}\r\n"));
        client.response("GET").expect_body("body");
        if persists {
            client.send("GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n");
            client.response("GET").expect_body("body");
        } else {
            assert!(client.closes(), "{version} {connection:?}");
        }
    }
    let mut old = shoal.connect();
    old.send("GET /chunked HTTP/1.0\r\nHost: site.test\r\n\r\n");
    let response = old.response("GET");
    response.expect_body("chunks");
    assert!(!response.fields.has("transfer-encoding"), "RFC 9112 section 6.1: never to HTTP/1.0");
}

#[test]
fn large_bodies_pass_exactly_in_both_directions() {
    let origin = Origin::start();
    let large = body("large", 8_000_000);
    origin.on_request("/echo", |request| Answer::ok(request.body.clone()).field("Cache-Control", "no-store"));
    let shoal = Setup::to(&origin).start();
    for request in [
        Request::new("PUT", "/echo").body(&large),
        Request::new("PUT", "/echo").chunked(&large, &Fields::default()),
    ] {
        shoal.ask(&request).expect_body(&large);
        assert!(origin.last("/echo").body == large);
    }
}

#[test]
fn bodiless_statuses_and_head_have_no_body() {
    let origin = Origin::start();
    origin.on("/204", Answer::new(204)).on("/304", Answer::new(304)).on("/head", Answer::ok("12345"));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    for (method, path, status) in [("GET", "/204", 204), ("HEAD", "/head", 200), ("GET", "/204", 204)] {
        let response = client.ask(&Request::new(method, path), "site.test");
        assert_eq!(
            (response.expect_status(status).body.len(), response.field("transfer-encoding")),
            (0, None)
        );
    }
    assert_eq!(shoal.ask(&Request::new("HEAD", "/head")).number("content-length"), Some(5));
}

#[test]
fn a_close_delimited_body_is_complete_when_the_origin_closes() {
    let origin = Origin::start();
    let long = body("long", 300_000);
    origin.on("/a", Answer::fresh(long.clone(), 60).framed(Framing::Close));
    origin.on(
        "/old",
        Answer::raw([b"HTTP/1.0 200 OK\r\nCache-Control: max-age=60\r\n\r\n", &long[..]].concat()),
    );
    let shoal = Setup::to(&origin).start();
    for path in ["/a", "/old"] {
        shoal.get(path).expect_body(&long);
        shoal.get(path).expect_body(&long);
    }
}

#[test]
fn fields_pass_unchanged_and_in_order() {
    let origin = Origin::start();
    let odd = "t\u{e9}st \"quoted; \\\" value\", \tand more";
    let answer =
        Answer::fresh("body", 60).field("Set-Cookie", "a=1").field("Set-Cookie", "b=2").field("X-Odd", odd);
    origin.on("/a", answer.then(After::Keep));
    let shoal = Setup::to(&origin).start();
    let response =
        shoal.ask(&Request::get("/a").field("X-Empty", "").field("X-Odd", "a:b").field("Cookie", "x=y"));
    assert_eq!(response.fields.all("set-cookie"), ["a=1", "b=2"]);
    assert!(response.field("x-odd").is_some_and(|value| value.contains("quoted; \\\" value")));
    let received = origin.last("/a").fields;
    assert_eq!(
        (received.first("x-empty"), received.first("x-odd"), received.first("cookie")),
        (Some(""), Some("a:b"), Some("x=y"))
    );
}
