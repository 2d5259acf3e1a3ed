//! TLS and HTTP/2 to clients: ALPN, SNI, certificates reloaded, streams, limits.

use rustix::process::Signal;
use shoal_testkit::certificates::Authority;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::origin::{After, Framing};
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup};
use std::time::Duration;

/// A setup with a TLS listener and certificates for a.test and b.test.
fn secured(origin: &Origin, authority: &Authority) -> Setup {
    let setup = Setup::to(origin);
    for name in ["a.test", "b.test"] {
        authority.issue(&[name]).write(setup.folder(), name);
    }
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let pair = |name: &str| {
        let (certificate, key) = (file(&format!("{name}.pem")), file(&format!("{name}.key")));
        format!("{{ certificate = '{certificate}', key = '{key}' }}")
    };
    let listen = format!("mode = 'reverse'\ntls = [{}, {}]", pair("a.test"), pair("b.test"));
    setup.listen("tls", &listen)
}

#[test]
fn each_server_name_gets_its_certificate() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let authority = Authority::new();
    let shoal = secured(&origin, &authority).start();
    for name in ["a.test", "b.test"] {
        // the handshake fails unless the certificate is for this name
        let mut client = Connection::open_tls(shoal.address("tls"), name, authority.client(&["http/1.1"]));
        client.ask(&Request::get("/a"), name).expect_body("body");
    }
    assert_eq!(origin.last("/a").fields.first("x-forwarded-proto"), Some("https"));
}

#[test]
fn alpn_chooses_between_http_2_and_http_1_1() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let authority = Authority::new();
    let shoal = secured(&origin, &authority).start();
    let mut h2 =
        H2Connection::open_tls(shoal.address("tls"), "a.test", authority.client(&["h2", "http/1.1"]));
    h2.ask(&Request::get("/a"), "a.test").expect_body("body");
    h2.ask(&Request::get("/a"), "a.test").expect_body("body").expect_hit();
    let mut h1 = Connection::open_tls(shoal.address("tls"), "a.test", authority.client(&[]));
    h1.ask(&Request::get("/a"), "a.test").expect_body("body").expect_hit();
    assert_eq!(origin.count("/a"), 1);
    let log = shoal.access_log(3);
    assert!(log.iter().any(|line| line.contains("\"version\":\"2\"")), "{log:?}");
}

/// http and https are different origins, so they do not share stored responses.
#[test]
fn the_scheme_is_part_of_the_key() {
    let origin = Origin::start();
    origin.on_request("/a", |request| Answer::fresh(request.fields.joined("x-forwarded-proto"), 60));
    let authority = Authority::new();
    let shoal = secured(&origin, &authority).start();
    shoal.connect().ask(&Request::get("/a"), "a.test").expect_body("http");
    let mut tls = Connection::open_tls(shoal.address("tls"), "a.test", authority.client(&[]));
    tls.ask(&Request::get("/a"), "a.test").expect_body("https");
}

#[test]
fn certificates_are_taken_up_anew_on_reload() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let (old, new) = (Authority::new(), Authority::new());
    let shoal = secured(&origin, &old).start();
    let mut before = Connection::open_tls(shoal.address("tls"), "a.test", old.client(&[]));
    before.ask(&Request::get("/a"), "a.test").expect_body("body");
    for name in ["a.test", "b.test"] {
        new.issue(&[name]).write(shoal.folder(), name);
    }
    shoal.signal(Signal::HUP);
    let address = shoal.address("tls");
    wait::until("the new certificate is shown", || {
        let mut client = Connection::open_tls(address, "a.test", new.client(&[]));
        client.send(Request::get("/a").to_bytes("a.test"));
        client.try_response("GET").is_ok_and(|response| response.status == 200)
    });
    before.ask(&Request::get("/a"), "a.test").expect_body("body");
}

#[test]
fn a_broken_certificate_on_reload_leaves_the_old_one() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let authority = Authority::new();
    let shoal = secured(&origin, &authority).start();
    std::fs::write(shoal.folder().join("a.test.pem"), "not a certificate").expect("writable");
    let answer = shoal.ask_admin(&Request::new("POST", "/reload"));
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("a.test.pem"), "{}", answer.text());
    let mut client = Connection::open_tls(shoal.address("tls"), "a.test", authority.client(&[]));
    client.ask(&Request::get("/a"), "a.test").expect_body("body");
}

#[test]
fn plain_text_at_a_tls_port_is_closed() {
    let origin = Origin::start();
    let authority = Authority::new();
    let shoal = secured(&origin, &authority).set("client.head_timeout", "1s").start();
    let mut client = Connection::open(shoal.address("tls"));
    client.send(Request::get("/a").to_bytes("a.test"));
    let (_, ending) = client.everything();
    assert!(ending.is_none_or(|why| why.starts_with("reset")), "the connection stays open");
    assert_eq!(origin.total(), 0);
}

#[test]
fn streams_of_one_connection_run_side_by_side() {
    let origin = Origin::start();
    origin.on_request("/*", |request| {
        Answer::fresh(body(request.path(), 100_000), 60).delay(Duration::from_millis(1000))
    });
    let shoal = Setup::to(&origin).start();
    let mut client = H2Connection::open(shoal.address("reverse"));
    let requests: Vec<_> = (0..20).map(|number| Request::get(&format!("/{number}"))).collect();
    let start = std::time::Instant::now();
    for (request, response) in requests.iter().zip(client.ask_all(&requests, "site.test")) {
        response.expect_body(body(&request.target, 100_000));
    }
    assert!(start.elapsed() < Duration::from_secs(12), "one after the other: {:?}", start.elapsed());
    for (request, response) in requests.iter().zip(client.ask_all(&requests, "site.test")) {
        response.expect_body(body(&request.target, 100_000)).expect_hit();
    }
    assert_eq!(origin.total(), 20);
}

#[test]
fn bodies_trailers_and_head_pass_over_http_2() {
    let origin = Origin::start();
    let large = body("large", 3_000_000);
    origin.on_request("/echo", |request| Answer::ok(request.body.clone()).field("Cache-Control", "no-store"));
    origin.on("/trailers", Answer::ok("body").field("Cache-Control", "no-store").trailer("X-Sum", "42"));
    origin.on("/a", Answer::fresh("12345", 60));
    let shoal = Setup::to(&origin).start();
    let mut client = H2Connection::open(shoal.address("reverse"));
    let mut post = Request::new("POST", "/echo");
    post.body.clone_from(&large);
    client.ask(&post, "site.test").expect_body(&large);
    assert!(origin.last("/echo").body == large);
    let trailers = client.ask(&Request::get("/trailers").field("te", "trailers"), "site.test");
    assert_eq!(trailers.expect_body("body").trailers.first("x-sum"), Some("42"));
    client.ask(&Request::get("/a"), "site.test").expect_body("12345");
    let head = client.ask(&Request::new("HEAD", "/a"), "site.test");
    assert_eq!((head.expect_status(200).number("content-length"), head.body.len()), (Some(5), 0));
    let part = client.ask(&Request::get("/a").field("range", "bytes=1-2"), "site.test");
    assert_eq!(part.expect_status(206).text(), "23");
    for response in [head, part] {
        assert!(!response.fields.has("connection") && !response.fields.has("transfer-encoding"));
    }
}

#[test]
fn a_cut_body_resets_the_stream_and_not_the_connection() {
    let origin = Origin::start();
    let cut = Answer::fresh("part", 60)
        .framed(Framing::Claimed(100))
        .pause(Duration::from_millis(50))
        .then(After::Reset);
    origin.on("/cut", cut).on("/a", Answer::fresh("body", 60));
    let shoal = Setup::to(&origin).start();
    let mut client = H2Connection::open(shoal.address("reverse"));
    let response = client.ask(&Request::get("/cut"), "site.test");
    assert!(!response.complete() || response.status == 502, "{response:?}");
    client.ask(&Request::get("/a"), "site.test").expect_body("body");
}

/// RFC 9113 section 8.2.2: "An endpoint MUST NOT generate an HTTP/2 message containing
/// connection-specific header fields"; section 8.3.1 on Host and :authority; section 8.5 on
/// CONNECT.
#[test]
fn malformed_http_2_requests_are_not_forwarded() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("forwarded"));
    let shoal = Setup::to(&origin).start();
    // Whoever gets the request over HTTP/1.1 takes what is behind a length for another one.
    let post = |lengths: &[&str]| {
        let request = Request { body: b"abc".to_vec(), ..Request::new("POST", "/a") };
        lengths.iter().fold(request, |request, length| request.field("content-length", length))
    };
    for (name, request) in [
        ("connection", Request::get("/a").field("connection", "close")),
        ("transfer-encoding", Request::get("/a").field("transfer-encoding", "chunked")),
        ("te", Request::get("/a").field("te", "gzip")),
        ("another host", Request::get("/a").field("host", "other.test")),
        ("a length too large", post(&["5"])),
        ("a length too small", post(&["2"])),
        ("two lengths", post(&["3", "4"])),
        ("a list of lengths", post(&["3, 3"])),
        ("a signed length", post(&["+3"])),
        ("a length without a body", Request::get("/a").field("content-length", "5")),
    ] {
        let response = H2Connection::open(shoal.address("reverse")).ask(&request, "site.test");
        let refused = !response.complete() || (400..500).contains(&response.status);
        assert!(refused, "{name}: {}", response.status);
    }
    assert_eq!(origin.total(), 0, "{:?}", origin.received());
    let sound = Request::get("/a").field("te", "trailers").field("host", "site.test");
    H2Connection::open(shoal.address("reverse")).ask(&sound, "site.test").expect_body("forwarded");
}

#[test]
fn forward_mode_speaks_http_2_too() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let shoal = Setup::bare().start();
    let mut client = H2Connection::open(shoal.address("forward"));
    let authority = origin.address().to_string();
    client.ask(&Request::get("/a"), &authority).expect_body("body");
    client.ask(&Request::get("/a"), &authority).expect_body("body").expect_hit();
    assert_eq!(origin.count("/a"), 1);
}
