//! Origins that stall, truncate, lie, send garbage or reset: the client gets 502, 504 or a visibly
//! cut response, nothing partial is stored as whole, and the next answer is right.

use shoal_testkit::origin::{After, Framing};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::time::{Duration, Instant};

fn before(origin: &Origin) -> Shoal {
    let setup =
        Setup::to(origin).set("upstream.first_byte_timeout", "600ms").set("upstream.idle_timeout", "600ms");
    setup.set("cache.stale_if_error", "0").start()
}

/// The origin fails, on POST and on GET, then is sound: what the client gets, and that nothing of
/// it stays.
fn check(name: &str, fault: &Answer, expected: &[u16]) {
    let origin = Origin::start();
    origin.on("/a", fault.clone());
    let shoal = before(&origin);
    for request in [Request::new("POST", "/a").body(b"x"), Request::get("/a")] {
        let start = Instant::now();
        let mut client = shoal.connect();
        client.send(request.to_bytes("site.test"));
        let response = client.try_response(&request.method).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(expected.contains(&response.status), "{name}, {}: {}", request.method, response.status);
        assert!(start.elapsed() < Duration::from_secs(15), "{name}: {:?}", start.elapsed());
    }
    origin.on("/a", Answer::fresh("sound", 60));
    shoal.get("/a").expect_body("sound");
    shoal.get("/a").expect_body("sound").expect_hit();
}

fn raw(head: &str, body: &str) -> Answer {
    Answer::raw(format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{head}\r\n{body}"))
}

fn faults() -> Vec<(&'static str, Answer, &'static [u16])> {
    vec![
        ("reset before the head", Answer::raw("").then(After::Reset), &[502]),
        ("close before the head", Answer::raw(""), &[502]),
        ("silence", Answer::raw("").then(After::Stall), &[504]),
        ("half a status line, then silence", Answer::raw("HTTP/1.1 2").then(After::Stall), &[504, 502]),
        ("half a head", Answer::raw("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nX"), &[502]),
        ("garbage", Answer::raw("\u{1}\u{2}\u{3} garbage \r\n\r\n"), &[502]),
        ("another protocol", Answer::raw("SSH-2.0-OpenSSH_9.2\r\n"), &[502]),
        ("a huge head", raw(&format!("X: {}\r\n", "x".repeat(3_000_000)), ""), &[502]),
        ("endless fields", raw(&"X: y\r\n".repeat(200_000), ""), &[502]),
        ("two lengths", raw("Content-Length: 3\r\nContent-Length: 5\r\n", "abcde"), &[502]),
        ("a list of lengths", raw("Content-Length: 3, 5\r\n", "abcde"), &[502]),
        ("a bad length", raw("Content-Length: abc\r\n", "abc"), &[502]),
        ("a negative length", raw("Content-Length: -1\r\n", "abc"), &[502]),
        (
            "length and coding",
            raw("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
            &[502],
        ),
        ("an unknown coding", raw("Transfer-Encoding: mystery\r\n", "abc"), &[502]),
        ("NUL in a field", raw("X-A: a\0b\r\n", "abc"), &[502]),
        ("a bare CR in a field", raw("X-A: a\rb\r\n", "abc"), &[502]),
        ("a status of four digits", Answer::raw("HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"), &[502]),
        ("a status of letters", Answer::raw("HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n"), &[502]),
        ("a status below 100", Answer::raw("HTTP/1.1 042 OK\r\nContent-Length: 0\r\n\r\n"), &[502]),
        ("another version", Answer::raw("HTTP/7.3 200 OK\r\nContent-Length: 0\r\n\r\n"), &[502]),
    ]
}

#[test]
fn a_head_that_makes_no_sense_is_502_or_504() {
    for (name, fault, expected) in faults() {
        check(name, &fault, expected);
    }
}

/// Bodies that end wrongly. The client must be able to see that the response is cut, and it must
/// not be stored.
#[test]
fn a_body_that_ends_wrongly_is_cut_for_the_client_and_not_stored() {
    let part = body("part", 50_000);
    let claimed = |size| Answer::fresh(part.clone(), 60).framed(Framing::Claimed(size));
    let chunked = || Answer::fresh(part.clone(), 60).framed(Framing::Chunked);
    let pause = Duration::from_millis(100);
    let chunk = |text: &str| raw("Transfer-Encoding: chunked\r\n", text);
    for (name, fault) in [
        ("shorter than its length", claimed(60_000).then(After::Close)),
        ("reset before its length", claimed(60_000).pause(pause).then(After::Reset)),
        ("stalled before its length", claimed(60_000).then(After::Stall)),
        ("chunks without an end", chunked().then(After::Close)),
        ("chunks and a reset", chunked().pause(pause).then(After::Reset)),
        ("chunks and a stall", chunked().then(After::Stall)),
        ("a bad chunk size", chunk("3\r\nabc\r\nzzz\r\nabc\r\n0\r\n\r\n")),
        ("a chunk longer than said", chunk("3\r\nabcdef\r\n0\r\n\r\n")),
        ("a chunk size that overflows", chunk("3\r\nabc\r\nfffffffffffffffff\r\nabc")),
        ("a truncated chunk", chunk("3\r\nabc\r\n100\r\nabc")),
        (
            "close-delimited and a reset",
            Answer::fresh(part.clone(), 60).framed(Framing::Close).pause(pause).then(After::Reset),
        ),
    ] {
        let origin = Origin::start();
        origin.on("/a", fault);
        let shoal = before(&origin);
        let mut client = shoal.connect();
        client.send(Request::get("/a").to_bytes("site.test"));
        let response = client.try_response("GET").unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(!response.complete() || matches!(response.status, 502 | 504), "{name} came as complete");
        let mut again = shoal.connect();
        again.send(Request::get("/a").to_bytes("site.test"));
        let second = again.try_response("GET").unwrap_or_else(|why| panic!("{name}, again: {why}"));
        assert!(!second.complete() || matches!(second.status, 502 | 504), "{name} was stored as whole");
        origin.on("/a", Answer::fresh("sound", 60));
        shoal.get("/a").expect_body("sound");
        shoal.get("/a").expect_body("sound").expect_hit();
        let log = shoal.access_log(2);
        assert!(log.len() >= 2, "{name}: cut responses are logged too");
    }
}

/// RFC 9112 section 6.3: a client "MUST NOT process, cache, or forward such extra data as a
/// separate response".
#[test]
fn bytes_beyond_the_length_never_become_another_response() {
    let origin = Origin::start();
    let extra = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\nevil";
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\ngood{extra}");
    origin.on("/a", Answer::raw(answer).then(After::Keep));
    origin.on("/b", Answer::fresh("right", 60));
    let shoal = before(&origin);
    shoal.get("/a").expect_body("good");
    shoal.get("/b").expect_body("right");
    shoal.get("/a").expect_body("good");
}

#[test]
fn a_slow_drip_passes_as_long_as_it_drips() {
    let origin = Origin::start();
    let mut drip = Answer::fresh("0", 60).framed(Framing::Claimed(8));
    for digit in 1..8 {
        drip = drip.pause(Duration::from_millis(200)).piece(digit.to_string());
    }
    origin.on("/a", drip);
    let shoal = before(&origin);
    shoal.get("/a").expect_body("01234567");
    shoal.get("/a").expect_body("01234567").expect_hit();
}

/// RFC 9112 section 5.1: "A proxy MUST remove any such whitespace from a response message before
/// forwarding the message downstream"; section 5.2: "A proxy or gateway that receives an obs-fold
/// in a response message ... MUST either discard the message and replace it with a 502 (Bad
/// Gateway) response ... or replace each received obs-fold with one or more SP octets".
#[test]
fn sloppy_fields_of_origins_are_mended_or_refused() {
    let origin = Origin::start();
    origin.on("/fold", raw("X-A: one\r\n two\r\nContent-Length: 4\r\n", "body"));
    origin.on("/space", raw("X-A : one\r\nContent-Length: 4\r\n", "body"));
    let shoal = before(&origin);
    for (path, value) in [("/fold", "one two"), ("/space", "one")] {
        let response = shoal.get(path);
        if response.status != 502 {
            response.expect_body("body");
            assert_eq!(
                response.field("x-a").map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")),
                Some(value.into())
            );
        }
    }
}

#[test]
fn an_origin_that_refuses_connections_is_502_and_names_it() {
    let origin = Origin::start();
    let closed = shoal_testkit::address::closed_port();
    let shoal = Setup::to(&origin)
        .without_sites()
        .site(&format!("hosts = ['*']\nupstreams = [{{ url = 'http://{closed}' }}]"))
        .start();
    let response = shoal.get("/a");
    response.expect_status(502);
    assert_eq!(response.proxy().word("error").as_deref(), Some("connection_refused"));
}

/// A head that is never followed by a body must not be served to others as if it were coming for
/// ever.
#[test]
fn a_stalled_body_does_not_hold_later_clients() {
    let origin = Origin::start();
    origin.on_each(
        "/a",
        [
            Answer::fresh("part", 60).framed(Framing::Claimed(100)).then(After::Stall),
            Answer::fresh("sound", 60),
        ],
    );
    let shoal = before(&origin);
    let mut first = shoal.connect();
    first.send(Request::get("/a").to_bytes("site.test"));
    assert!(first.try_response("GET").is_ok_and(|response| !response.complete()));
    let start = Instant::now();
    shoal.get("/a").expect_body("sound");
    assert!(start.elapsed() < Duration::from_secs(15));
}
