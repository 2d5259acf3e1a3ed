//! What a connection holds while it waits for its next request: ten thousand of them in 60 MB.
//!
//! Fewer are opened here than promised for, and what each holds is compared; with
//! `SHOAL_IDLE_CLIENTS` as many as wanted.

use rustix::process::{Resource, getrlimit, setrlimit};
use shoal_testkit::certificates::Authority;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};

/// 60 MB for ten thousand connections.
const PLAIN: u64 = 6_000;

/// The same over TLS, with the session's keys and a read buffer of 4 KiB that rustls keeps.
const TLS: u64 = 16_000;

/// HTTP/2 over TLS, with the table of the client's fields and no buffers.
const HTTP2: u64 = 16_000;

/// What the process holds more for reasons of its own.
const SLACK: u64 = 512 << 10;

fn clients() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    std::env::var("SHOAL_IDLE_CLIENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(400)
}

/// Opens `count` connections by `open`, which has each served once, after some that come and go;
/// none holds more than `each`.
fn check<T>(what: &str, shoal: &Shoal, (count, each): (usize, u64), open: impl Fn() -> T) {
    drop((0..40).map(|_| open()).collect::<Vec<_>>());
    let before = shoal.resident_bytes();
    let connections: Vec<T> = (0..count).map(|_| open()).collect();
    let held = shoal.resident_bytes().saturating_sub(before);
    drop(connections);
    eprintln!("{what}: {} bytes a connection", held / count as u64);
    assert!(held <= SLACK + each * count as u64, "{what}: {held} bytes for {count} connections");
}

fn setup(origin: &Origin) -> Setup {
    origin.on("/a", Answer::fresh("x".repeat(1024), 600));
    Setup::to(origin).set("log.access", "none")
}

#[test]
fn of_plain_text() {
    let origin = Origin::start();
    let shoal = setup(&origin).start();
    check("HTTP/1.1", &shoal, (clients(), PLAIN), || {
        let mut client = shoal.connect();
        client.ask(&Request::get("/a"), "a.test").expect_status(200);
        client
    });
}

/// An instance with a TLS listener. Each test has its own, so that none reuses what connections
/// before have given back.
fn secured(origin: &Origin, authority: &Authority) -> Shoal {
    let setup = setup(origin);
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    let file = |suffix: &str| setup.folder().join(format!("a.test.{suffix}")).display().to_string();
    let pair = format!("{{ certificate = '{}', key = '{}' }}", file("pem"), file("key"));
    setup.listen("tls", &format!("mode = 'reverse'\ntls = [{pair}]")).start()
}

#[test]
fn of_tls() {
    let (origin, authority) = (Origin::start(), Authority::new());
    let shoal = secured(&origin, &authority);
    let (address, client) = (shoal.address("tls"), authority.client(&["http/1.1"]));
    check("HTTP/1.1 over TLS", &shoal, (clients(), TLS), || {
        let mut client = Connection::open_tls(address, "a.test", client.clone());
        client.ask(&Request::get("/a"), "a.test").expect_status(200);
        client
    });
}

#[test]
fn of_http_2() {
    let (origin, authority) = (Origin::start(), Authority::new());
    let shoal = secured(&origin, &authority);
    let (address, client) = (shoal.address("tls"), authority.client(&["h2"]));
    // Each of these clients has a thread.
    check("HTTP/2 over TLS", &shoal, (clients().min(400), HTTP2), || {
        let mut client = H2Connection::open_tls(address, "a.test", client.clone());
        client.ask(&Request::get("/a"), "a.test").expect_status(200);
        client
    });
}
