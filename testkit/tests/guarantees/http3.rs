//! HTTP/3 to clients: the same answers as over TLS and HTTP/2, announced, counted, handed over.

use rustix::process::Signal;
use shoal_testkit::certificates::Authority;
use shoal_testkit::h3::H3Connection;
use shoal_testkit::seeded::body;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup};

/// A setup with a TLS listener for a.test that offers HTTP/3.
pub(crate) fn offering(origin: &Origin, authority: &Authority, more: &str) -> Setup {
    let setup = Setup::to(origin);
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let pair = format!("{{ certificate = '{}', key = '{}' }}", file("a.test.pem"), file("a.test.key"));
    setup.listen("tls", &format!("mode = 'reverse'\nhttp3 = true\ntls = [{pair}]\n{more}"))
}

#[test]
fn clients_get_hits_and_misses() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    origin.on("/large", Answer::fresh(body("large", 3_000_000), 60));
    let authority = Authority::new();
    let shoal = offering(&origin, &authority, "").start();
    let config = authority.client(&[]);
    let mut client = H3Connection::open(shoal.address("tls"), "a.test", &config);
    client.ask(&Request::get("/a"), "a.test").expect_body("body");
    client.ask(&Request::get("/a"), "a.test").expect_body("body").expect_hit();
    for _ in 0..3 {
        let came = client.ask(&Request::get("/large"), "a.test");
        assert!(came.body == body("large", 3_000_000), "{} bytes", came.body.len());
    }
    let part = client.ask(&Request::get("/large").field("Range", "bytes=1000000-1000009"), "a.test");
    assert_eq!((part.status, part.body.len()), (206, 10));
    let head = client.ask(&Request::new("HEAD", "/large"), "a.test");
    assert_eq!((head.status, head.fields.first("content-length")), (200, Some("3000000")));
    assert_eq!((origin.count("/a"), origin.count("/large")), (1, 1));
    let log = shoal.access_log(7);
    assert!(log.iter().all(|line| line.contains("\"version\":\"3\"")), "{log:?}");
    assert!(log.iter().all(|line| line.contains("127.0.0.1")), "{log:?}");
    assert_eq!(shoal.metric("shoal_http3_requests_total", ""), 7);
    assert_eq!(shoal.metric("shoal_http3_connections_total", ""), 1);
    assert_eq!(origin.last("/a").fields.first("x-forwarded-proto"), Some("https"));
}

#[test]
fn uploads_reach_the_origin() {
    let origin = Origin::start();
    origin.on_request("/up", |request| Answer::ok(request.body.len().to_string()));
    let authority = Authority::new();
    let shoal = offering(&origin, &authority, "").start();
    let mut client = H3Connection::open(shoal.address("tls"), "a.test", &authority.client(&[]));
    for bytes in [0, 1, 3_000_000] {
        let request = Request::new("POST", "/up").body("x".repeat(bytes).as_bytes());
        client.ask(&request, "a.test").expect_body(bytes.to_string());
    }
}

#[test]
fn http3_is_told_and_withdrawn() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let authority = Authority::new();
    for (more, expected) in [
        ("http3_port = 443\nhttp3_max_age = '1h'", "h3=\":443\"; ma=3600"),
        ("http3_max_age = '0s'", "clear"),
    ] {
        let shoal = offering(&origin, &authority, more).start();
        let mut tls = Connection::open_tls(shoal.address("tls"), "a.test", authority.client(&[]));
        for _ in 0..2 {
            let came = tls.ask(&Request::get("/a"), "a.test");
            assert_eq!(came.fields.first("alt-svc"), Some(expected));
        }
        assert!(!shoal.get("/a").fields.has("alt-svc"), "cleartext clients are not told");
    }
}

#[test]
fn certificates_are_read_again() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let (old, new) = (Authority::new(), Authority::new());
    let shoal = offering(&origin, &old, "").start();
    let mut before = H3Connection::open(shoal.address("tls"), "a.test", &old.client(&[]));
    before.ask(&Request::get("/a"), "a.test").expect_body("body");
    new.issue(&["a.test"]).write(shoal.folder(), "a.test");
    shoal.signal(Signal::HUP);
    wait::until("the new certificate is shown", || {
        H3Connection::try_open(shoal.address("tls"), "a.test", &new.client(&[])).is_ok()
    });
    before.ask(&Request::get("/a"), "a.test").expect_body("body").expect_hit();
}

/// A client whose port changes goes on at the same worker, or connects anew: another worker tells
/// it at once that it does not know the connection.
#[test]
fn client_may_change_its_port() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let authority = Authority::new();
    let shoal = offering(&origin, &authority, "").start();
    let mut stayed = 0;
    for _ in 0..8 {
        let mut client = H3Connection::open(shoal.address("tls"), "a.test", &authority.client(&[]));
        client.ask(&Request::get("/a"), "a.test").expect_body("body");
        client.rebind();
        let came = client.ask(&Request::get("/a"), "a.test");
        if came.status == 200 {
            stayed += 1;
        } else {
            assert!(matches!(client.closed(), quinn::ConnectionError::Reset), "{came:?}");
        }
    }
    assert!(stayed > 0);
}

/// Packets may name any sender. A client that has proven one host asks as no other.
#[test]
fn requests_from_another_host_end_the_connection() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let authority = Authority::new();
    let shoal = offering(&origin, &authority, "allow_clients = ['127.0.0.2']").set("workers", 1).start();
    let mut client = H3Connection::open(shoal.address("tls"), "a.test", &authority.client(&[]));
    client.ask(&Request::get("/a"), "a.test").expect_status(403);
    client.move_to([127, 0, 0, 2]);
    let came = client.ask(&Request::get("/a"), "a.test");
    assert!([0, 403].contains(&came.status), "{came:?}");
    assert!(matches!(client.closed(), quinn::ConnectionError::ApplicationClosed(_)));
    assert_eq!(origin.count("/a"), 0);
    let log = shoal.access_log(1);
    assert!(log.iter().all(|line| !line.contains("127.0.0.2")), "{log:?}");
}

/// The process that goes closes its connections with GOAWAY; the new one then has the port.
#[test]
fn an_upgrade_moves_clients_to_the_new_process() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let authority = Authority::new();
    let mut shoal = offering(&origin, &authority, "").start();
    let config = authority.client(&[]);
    let mut client = H3Connection::open(shoal.address("tls"), "a.test", &config);
    client.ask(&Request::get("/a"), "a.test").expect_body("body");
    shoal.upgrade(None).expect("it takes over");
    // The old process tells its client to leave.
    let closed = client.closed();
    assert!(
        matches!(&closed, quinn::ConnectionError::ApplicationClosed(close) if close.error_code.into_inner() == 0x100),
        "{closed}"
    );
    wait::until("the new process serves HTTP/3", || {
        let Ok(mut client) = H3Connection::try_open(shoal.address("tls"), "a.test", &config) else {
            return false;
        };
        client.ask(&Request::get("/a"), "a.test").status == 200
    });
    assert_eq!(origin.count("/a"), 1);
}
