//! What comes besides one request and one final response: 1xx, Expect, Upgrade.

use shoal_testkit::origin::Framing;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Gate, Origin, Request, Setup};
use std::time::Duration;

/// RFC 9110 section 15.2: "A proxy MUST forward 1xx responses unless the proxy itself requested the
/// generation of the 1xx response."
#[test]
fn early_hints_are_forwarded_before_the_response() {
    let origin = Origin::start();
    let gate = Gate::new();
    let links = [("Link", "</style.css>; rel=preload")];
    let answer = Answer::fresh("body", 60).interim(103, &links).interim(103, &[("Link", "</b.js>")]);
    origin.on("/a", answer.wait_for(&gate));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    client.send(Request::get("/a").to_bytes("site.test"));
    let hint = client.head().expect("the hint comes while the origin still works");
    assert_eq!((hint.status, hint.fields.first("link")), (103, Some("</style.css>; rel=preload")));
    gate.open();
    let response = client.response("GET");
    response.expect_body("body");
    assert_eq!(response.interim.len(), 1);
    assert!(shoal.get("/a").interim.is_empty(), "hints are not stored");
}

#[test]
fn interim_responses_come_over_http_2_too() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60).interim(103, &[("Link", "</style.css>")]));
    let shoal = Setup::to(&origin).start();
    let response =
        shoal_testkit::h2::H2Connection::open(shoal.address("reverse")).ask(&Request::get("/a"), "site.test");
    response.expect_body("body");
    let hints: Vec<_> =
        response.interim.iter().map(|head| (head.status, head.fields.joined("link"))).collect();
    assert_eq!(hints, [(103, "</style.css>".to_string())]);
}

/// RFC 9110 section 15.2: "a server MUST NOT send a 1xx response to an HTTP/1.0 client."
#[test]
fn an_http_1_0_client_gets_no_interim_response() {
    let origin = Origin::start();
    origin.on("/a", Answer::ok("body").interim(103, &[("Link", "</style.css>")]));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    client.send("GET /a HTTP/1.0\r\nHost: site.test\r\n\r\n");
    let response = client.response("GET");
    response.expect_body("body");
    assert!(response.interim.is_empty());
}

#[test]
fn an_endless_stream_of_interim_responses_ends() {
    let origin = Origin::start();
    let flood = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100_000);
    origin.on("/a", Answer::raw(flood));
    let shoal = Setup::to(&origin).start();
    let before = shoal.resident_bytes();
    let mut client = shoal.connect();
    client.send(Request::get("/a").to_bytes("site.test"));
    assert_eq!(client.try_response("GET").map(|response| response.status), Ok(502));
    assert!(shoal.resident_bytes() < before + 32_000_000, "interim responses do not pile up");
}

/// RFC 9110 section 10.1.1: the client waits for 100, and the origin decides.
#[test]
fn expectations_reach_the_origin() {
    let origin = Origin::start();
    origin.on("/upload", Answer::ok("taken"));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    client.send(
        "POST /upload HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.head().map(|head| head.status), Ok(100));
    client.send("body");
    client.response("POST").expect_body("taken");
    assert_eq!(origin.last("/upload").body, b"body");
}

#[test]
fn a_final_response_instead_of_100_reaches_the_client_before_the_body() {
    let origin = Origin::start();
    origin.on_head("/upload", Answer::new(413).piece("too much"));
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    client.send(
        "POST /upload HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4000\r\nExpect: 100-continue\r\n\r\n",
    );
    let response = client.response("POST");
    assert_eq!(response.status, 413);
    assert!(response.interim.iter().all(|head| head.status != 100), "nobody asked for the body");
}

#[test]
fn an_unknown_expectation_fails() {
    let origin = Origin::start();
    let shoal = Setup::to(&origin).start();
    let answer = shoal.ask(&Request::new("POST", "/a").field("Expect", "the-unexpected").body(b"x"));
    // RFC 9110 section 10.1.1: a server "MAY respond with a 417"; passing it on for the origin to
    // judge is as good
    assert!(answer.status == 417 || origin.count("/a") == 1, "{}", answer.status);
}

fn echo() -> Answer {
    let answer = Answer::new(101).field("Upgrade", "websocket").field("Connection", "Upgrade");
    answer.field("Sec-WebSocket-Accept", "x").framed(Framing::Length).step(shoal_testkit::origin::Step::Echo)
}

#[test]
fn an_upgraded_connection_is_a_tunnel() {
    let origin = Origin::start();
    origin.on("/socket", echo());
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    let request = Request::get("/socket")
        .field("Connection", "Upgrade")
        .field("Upgrade", "websocket")
        .field("Sec-WebSocket-Key", "k");
    client.send(request.to_bytes("site.test"));
    let head = client.head().expect("an answer");
    assert_eq!((head.status, head.fields.first("upgrade")), (101, Some("websocket")));
    assert_eq!(origin.last("/socket").fields.first("upgrade"), Some("websocket"));
    for message in [b"hello".to_vec(), vec![0; 100_000], b"\xff\x00\r\n\r\n".to_vec()] {
        client.send(&message);
        assert_eq!(client.exactly(message.len()), Ok(message));
    }
    client.end_sending();
    assert!(client.closes(), "the end of one side ends the other");
    shoal.expect_responses("tunnel", 1);
}

#[test]
fn an_upgrade_that_the_origin_declines_is_an_ordinary_answer() {
    let origin = Origin::start();
    origin.on("/plain", Answer::ok("no socket here"));
    let shoal = Setup::to(&origin).start();
    let request = Request::get("/plain").field("Connection", "Upgrade").field("Upgrade", "websocket");
    let mut client = shoal.connect();
    client.ask(&request, "site.test").expect_body("no socket here");
    client.ask(&Request::get("/plain"), "site.test").expect_body("no socket here");
}

/// RFC 9110 section 15.2.2: 101 answers a request to upgrade; unasked, it makes no sense.
#[test]
fn switching_protocols_unasked_is_an_error() {
    let origin = Origin::start();
    origin.on("/a", echo());
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_status(502);
}

#[test]
fn an_idle_tunnel_ends_with_its_client() {
    let origin = Origin::start();
    origin.on("/socket", echo());
    let shoal = Setup::to(&origin).start();
    let mut client = shoal.connect();
    client.send(
        Request::get("/socket")
            .field("Connection", "Upgrade")
            .field("Upgrade", "websocket")
            .to_bytes("site.test"),
    );
    assert_eq!(client.head().map(|head| head.status), Ok(101));
    assert!(client.stays_silent(Duration::from_millis(50)));
    client.reset();
    wait::until("the tunnel is closed", || shoal.metric("shoal_connections", "") == 0);
}
