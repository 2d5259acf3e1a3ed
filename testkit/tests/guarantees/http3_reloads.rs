//! HTTP/3 that comes and goes by a reload: nothing that is open is cut, over UDP nor over TCP.

use crate::http3::offering;
use rustls::ClientConfig;
use rustls::version::TLS12;
use shoal_testkit::certificates::Authority;
use shoal_testkit::h3::H3Connection;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Shoal, wait};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;

fn reload(shoal: &mut Shoal, from: &str, to: &str) {
    shoal.change(|text| {
        assert!(text.contains(from), "{from} is not in {text}");
        text.replace(from, to)
    });
    let answer = shoal.ask_admin(&Request::new("POST", "/reload"));
    let text = answer.expect_status(200).text().to_string();
    assert!(!text.contains("listen"), "it does not wait for a start: {text}");
}

fn is_free(shoal: &Shoal) -> bool {
    UdpSocket::bind(shoal.address("tls")).is_ok()
}

/// Returns a client of HTTP/3, if the node takes one.
fn client(shoal: &Shoal, config: &Arc<ClientConfig>) -> Option<H3Connection> {
    H3Connection::try_open(shoal.address("tls"), "a.test", config).ok()
}

/// Returns the setup of a client that speaks TLS 1.2 alone.
fn speaking_12(authority: &Authority) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS12]);
    let builder = builder.expect("ring speaks it").with_root_certificates(authority.roots());
    Arc::new(builder.with_no_client_auth())
}

fn shakes_hands(shoal: &Shoal, config: Arc<ClientConfig>) -> bool {
    let name = "a.test".try_into().expect("a name");
    let mut session = rustls::ClientConnection::new(config, name).expect("a sound setup");
    let mut stream = TcpStream::connect(shoal.address("tls")).expect("it listens");
    stream.set_read_timeout(Some(wait::LIMIT)).expect("a socket");
    while session.is_handshaking() {
        if session.complete_io(&mut stream).is_err() {
            return false;
        }
    }
    true
}

#[test]
fn port_opens_and_closes_by_reloads() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let authority = Authority::new();
    let mut shoal = offering(&origin, &authority, "").start();
    let config = authority.client(&[]);
    let mut tcp = Connection::open_tls(shoal.address("tls"), "a.test", authority.client(&[]));
    tcp.ask(&Request::get("/a"), "a.test").expect_body("body");
    for _ in 0..3 {
        let mut open = client(&shoal, &config).expect("HTTP/3 is on");
        open.ask(&Request::get("/a"), "a.test").expect_body("body");
        assert!(tcp.ask(&Request::get("/a"), "a.test").fields.has("alt-svc"));
        reload(&mut shoal, "http3 = true", "http3 = false");
        let closed = open.closed();
        let is_in_order = matches!(&closed, quinn::ConnectionError::ApplicationClosed(close)
            if close.error_code.into_inner() == 0x100);
        assert!(is_in_order, "the client is told to leave: {closed}");
        wait::until("the port is free", || is_free(&shoal));
        assert!(!tcp.ask(&Request::get("/a"), "a.test").fields.has("alt-svc"));
        reload(&mut shoal, "http3 = false", "http3 = true");
    }
    let mut last = client(&shoal, &config).expect("HTTP/3 is on");
    last.ask(&Request::get("/a"), "a.test").expect_body("body").expect_hit();
    tcp.ask(&Request::get("/a"), "a.test").expect_body("body").expect_hit();
    assert_eq!((origin.count("/a"), shoal.metric("shoal_http3_given_up_total", "")), (1, 0));
}

/// Downloads at all workers go on to their end: also at one that has longer to do than the others.
#[test]
fn open_requests_end_while_the_port_closes() {
    let origin = Origin::start();
    let gates: Vec<Gate> = (0..6).map(|_| Gate::new()).collect();
    for (number, gate) in gates.iter().enumerate() {
        let first = Answer::fresh("first ", 600).wait_for(gate).piece(body("second", 200_000));
        origin.on(&format!("/slow/{number}"), first);
    }
    let authority = Authority::new();
    let mut shoal = offering(&origin, &authority, "").set("workers", 3).start();
    let config = authority.client(&[]);
    let clients: Vec<_> = (0..gates.len())
        .map(|number| {
            let mut client = client(&shoal, &config).expect("HTTP/3 is on");
            std::thread::spawn(move || {
                let answer = client.ask(&Request::get(&format!("/slow/{number}")), "a.test");
                (answer.status, answer.body)
            })
        })
        .collect();
    wait::until("all have begun", || origin.total() == gates.len());
    reload(&mut shoal, "http3 = true", "http3 = false");
    wait::until("the port takes no client", || client(&shoal, &config).is_none());
    for (number, gate) in gates.iter().enumerate() {
        assert!(!is_free(&shoal), "{number} responses have ended");
        gate.open();
        // Packets of the others come to their own workers meanwhile.
        wait::until("its response ends", || clients[number].is_finished());
    }
    for client in clients {
        let (status, came) = client.join().expect("an answer");
        assert!(status == 200 && came == [b"first ".to_vec(), body("second", 200_000)].concat());
    }
    wait::until("the port is free", || is_free(&shoal));
}

/// The port that is still closing opens again, and both connections are served.
#[test]
fn port_opens_again_while_a_request_is_open() {
    let origin = Origin::start();
    let gate = Gate::new();
    origin.on("/slow", Answer::fresh("first ", 600).wait_for(&gate).piece("second"));
    origin.on("/a", Answer::fresh("body", 600));
    let authority = Authority::new();
    let mut shoal = offering(&origin, &authority, "").start();
    let config = authority.client(&[]);
    let mut slow = client(&shoal, &config).expect("HTTP/3 is on");
    let asking = std::thread::spawn(move || slow.ask(&Request::get("/slow"), "a.test").body);
    wait::until("it has begun", || origin.total() == 1);
    reload(&mut shoal, "http3 = true", "http3 = false");
    wait::until("the port takes no client", || client(&shoal, &config).is_none());
    reload(&mut shoal, "http3 = false", "http3 = true");
    let mut next = None;
    wait::until("the port takes clients", || {
        next = client(&shoal, &config);
        next.is_some()
    });
    let mut next = next.expect("just opened");
    next.ask(&Request::get("/a"), "a.test").expect_body("body");
    gate.open();
    assert_eq!(asking.join().expect("an answer"), b"first second");
    next.ask(&Request::get("/a"), "a.test").expect_body("body").expect_hit();
}

#[test]
fn limits_of_new_connections_change() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 600));
    let authority = Authority::new();
    let setup = offering(&origin, &authority, "http3_port = 443").set("client.target_max", "4 KiB");
    let mut shoal = setup.start();
    let config = authority.client(&[]);
    let long = Request::get(&format!("/{}", "x".repeat(1000)));
    let mut before = client(&shoal, &config).expect("HTTP/3 is on");
    before.ask(&long, "a.test").expect_body("body");
    let mut tcp = Connection::open_tls(shoal.address("tls"), "a.test", authority.client(&[]));
    let came = tcp.ask(&Request::get("/a"), "a.test");
    assert_eq!(came.fields.first("alt-svc"), Some("h3=\":443\"; ma=86400"));
    reload(&mut shoal, "\"4 KiB\"", "\"256 B\"");
    reload(&mut shoal, "http3_port = 443", "http3_port = 8443\nhttp3_max_age = '1h'");
    before.ask(&long, "a.test").expect_body("body").expect_hit();
    let came = tcp.ask(&Request::get("/a"), "a.test");
    assert_eq!(came.fields.first("alt-svc"), Some("h3=\":8443\"; ma=3600"));
    let mut after = client(&shoal, &config).expect("HTTP/3 is on");
    assert_eq!(after.ask(&long, "a.test").status, 414);
    after.ask(&Request::get("/a"), "a.test").expect_body("body");
}

/// A port that another process has refuses the reload, and all stays as it was.
#[test]
fn taken_port_refuses_the_reload() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 600));
    let authority = Authority::new();
    let setup = offering(&origin, &authority, "").set("client.target_max", "4 KiB");
    let mut shoal = setup.start();
    reload(&mut shoal, "http3 = true", "http3 = false");
    wait::until("the port is free", || is_free(&shoal));
    let taken = UdpSocket::bind(shoal.address("tls")).expect("free");
    shoal.change(|text| text.replace("http3 = false", "http3 = true").replace("\"4 KiB\"", "\"256 B\""));
    let refused = shoal.ask_admin(&Request::new("POST", "/reload"));
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains(&shoal.address("tls").to_string()), "{}", refused.text());
    shoal.get(&format!("/{}", "x".repeat(1000))).expect_body("body");
    drop(taken);
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    let mut open = client(&shoal, &authority.client(&[])).expect("HTTP/3 is on");
    open.ask(&Request::get("/a"), "a.test").expect_body("body");
}

/// Versions and groups of TLS change for new handshakes; sessions that are open stay.
#[test]
fn choices_of_tls_change_by_a_reload() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let authority = Authority::new();
    let mut shoal = offering(&origin, &authority, "tls_min_version = '1.2'").start();
    let old = speaking_12(&authority);
    assert!(shakes_hands(&shoal, Arc::clone(&old)));
    let mut open = Connection::open_tls(shoal.address("tls"), "a.test", Arc::clone(&old));
    open.ask(&Request::get("/a"), "a.test").expect_body("body");
    reload(&mut shoal, "tls_min_version = \"1.2\"", "tls_min_version = \"1.3\"");
    assert!(!shakes_hands(&shoal, old), "TLS 1.2 is refused");
    open.ask(&Request::get("/a"), "a.test").expect_body("body").expect_hit();
    let mut new = client(&shoal, &authority.client(&[])).expect("HTTP/3 is on");
    new.ask(&Request::get("/a"), "a.test").expect_body("body");
}
