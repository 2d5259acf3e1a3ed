//! Interception: a CONNECT to a listed host is answered by the node, and the requests inside are
//! those of a forward client. Every other CONNECT stays a tunnel.

use shoal_testkit::certificates::Authority;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::interception::{connect, connect_over_http2, inside, over, root, trusting};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};

/// An https origin called `localhost`, and a forward proxy that intercepts it.
pub(crate) fn intercepted(settings: impl FnOnce(Setup) -> Setup) -> (Origin, Shoal) {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["localhost", "127.0.0.1"]));
    let setup = Setup::bare();
    let trusted = setup.file("origins.pem", &authority.pem()).to_string_lossy().into_owned();
    let port = origin.address().port();
    let setup = setup.intercepting(&["localhost"], &[port], &["localhost"]).set("upstream.ca_file", trusted);
    (origin, settings(setup).start())
}

/// Host and port of the origin.
pub(crate) fn authority(origin: &Origin) -> String {
    format!("localhost:{}", origin.address().port())
}

/// A client inside a CONNECT to the origin.
pub(crate) fn client(shoal: &Shoal, origin: &Origin) -> Connection {
    let trusted = trusting(&root(shoal.folder()), &["http/1.1"]);
    inside(shoal.address("forward"), &authority(origin), "localhost", trusted)
}

#[test]
fn requests_inside_share_the_cache_of_forward_mode() {
    let (origin, shoal) = intercepted(|setup| setup);
    origin.on("/a", Answer::fresh(body("a", 100_000), 60));
    let host = authority(&origin);
    let mut first = client(&shoal, &origin);
    first.ask(&Request::get("/a"), &host).expect_status(200).expect_body(body("a", 100_000));
    first.ask(&Request::get("/a"), &host).expect_hit();
    client(&shoal, &origin).ask(&Request::get("/a"), &host).expect_hit().expect_body(body("a", 100_000));
    let url = format!("https://{host}/a");
    shoal.ask_forward(&Request::get(&url)).expect_hit();
    assert_eq!((origin.count("/a"), origin.connections()), (1, 1));
    let log = shoal.access_log(4).join("\n");
    assert_eq!(log.matches(&url).count(), 4, "{log}");
    // A purge of the URL holds for both.
    let purge = Request::new("POST", &format!("/purge?url={url}"));
    shoal.ask_admin(&purge).expect_status(200);
    client(&shoal, &origin).ask(&Request::get("/a"), &host).expect_forwarded("uri-miss");
    shoal.expect_metric("shoal_intercepted_connections_total", "", 3);
    shoal.expect_metric("shoal_intercept_leaves_total", "", 1);
    shoal.expect_metric("shoal_tunnels", "", 0);
    assert_eq!(shoal.responses("tunnel"), 0);
}

#[test]
fn http_2_inside_is_served() {
    let (origin, shoal) = intercepted(|setup| setup);
    origin.on("/a", Answer::fresh(body("a", 100_000), 60));
    let host = authority(&origin);
    let (stream, _) = connect(shoal.address("forward"), &host, "");
    let trusted = trusting(&root(shoal.folder()), &["h2", "http/1.1"]);
    let mut h2 = H2Connection::over_tls(stream, "localhost", trusted);
    h2.ask(&Request::get("/a"), &host).expect_status(200).expect_body(body("a", 100_000));
    h2.ask(&Request::get("/a"), &host).expect_hit();
    client(&shoal, &origin).ask(&Request::get("/a"), &host).expect_hit();
    h2.ask(&Request::get("/a"), "other.test").expect_status(421);
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn connect_over_http_2_is_answered_too() {
    let (origin, shoal) = intercepted(|setup| setup);
    origin.on("/a", Answer::fresh(body("a", 300_000), 60));
    let host = authority(&origin);
    let trusted = |protocol| trusting(&root(shoal.folder()), &[protocol]);
    let stream = connect_over_http2(shoal.address("forward"), &host);
    let mut h1 = over(stream, "localhost", trusted("http/1.1"));
    h1.ask(&Request::get("/a"), &host).expect_status(200).expect_body(body("a", 300_000));
    let stream = connect_over_http2(shoal.address("forward"), &host);
    let mut h2 = H2Connection::over_tls(stream, "localhost", trusted("h2"));
    h2.ask(&Request::get("/a"), &host).expect_hit().expect_body(body("a", 300_000));
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn bodies_of_clients_reach_the_origin() {
    let (origin, shoal) = intercepted(|setup| setup);
    origin.on_request("/echo", |request| Answer::ok(request.body.clone()).field("Cache-Control", "no-store"));
    let sent = body("sent", 300_000);
    let host = authority(&origin);
    let mut client = client(&shoal, &origin);
    client.ask(&Request::new("POST", "/echo").body(&sent), &host).expect_status(200).expect_body(&sent);
    client.ask(&Request::new("PUT", "/echo").body(b"x"), &host).expect_body("x");
}

#[test]
fn unlisted_host_shows_its_own_certificate() {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["localhost", "127.0.0.1"]));
    origin.on("/a", Answer::fresh("body", 60));
    let port = origin.address().port();
    let shoal = Setup::bare().intercepting(&["other.test"], &[port], &["other.test"]).start();
    let host = format!("localhost:{port}");
    for _ in 0..2 {
        let (stream, head) = connect(shoal.address("forward"), &host, "");
        assert_eq!(head.status, 200);
        // The client trusts the origin's authority alone.
        over(stream, "localhost", authority.client(&[])).ask(&Request::get("/a"), &host).expect_body("body");
    }
    assert_eq!(origin.count("/a"), 2, "nothing of a tunnel is cached");
    shoal.expect_responses("tunnel", 2);
    shoal.expect_metric("shoal_intercepted_connections_total", "", 0);
}

#[test]
fn listed_host_at_another_port_stays_a_tunnel() {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["localhost"]));
    origin.on("/a", Answer::ok("body"));
    let port = i64::from(origin.address().port());
    let setup = Setup::bare().intercepting(&["localhost"], &[443], &["localhost"]);
    let shoal = setup.set("forward.connect_ports", vec![port]).start();
    let host = format!("localhost:{port}");
    let (stream, _) = connect(shoal.address("forward"), &host, "");
    over(stream, "localhost", authority.client(&[])).ask(&Request::get("/a"), &host).expect_body("body");
}

#[test]
fn rules_hold_for_requests_inside() {
    let (origin, shoal) = intercepted(|setup| {
        let rule = "paths = ['/secret']\ndeny = 403".parse::<toml::Table>().expect("a rule");
        setup.set("rule", vec![toml::Value::Table(rule)])
    });
    origin.on("/secret", Answer::ok("body"));
    let host = authority(&origin);
    client(&shoal, &origin).ask(&Request::get("/secret"), &host).expect_status(403);
    assert_eq!(origin.total(), 0);
}

#[test]
fn status_and_log_say_that_it_is_on() {
    let (origin, shoal) = intercepted(|setup| setup);
    origin.on("/a", Answer::ok("body"));
    client(&shoal, &origin).ask(&Request::get("/a"), &authority(&origin)).expect_status(200);
    let status = shoal.status();
    let interception = &status["interception"];
    assert_eq!(interception["hosts"][0], "localhost");
    assert_eq!((&interception["connections"], &interception["leaves"]), (&1.into(), &1.into()));
    assert!(shoal.log().contains("interception is on"), "{}", shoal.log());
    let off = Setup::bare().start();
    assert!(off.status()["interception"].is_null() && !off.log().contains("interception"));
}

#[test]
fn explain_tells_of_interception() {
    let (origin, shoal) = intercepted(|setup| setup);
    let ask = |method: &str, url: &str| {
        let body = format!("{{\"method\":\"{method}\",\"url\":\"{url}\"}}");
        let request = Request::new("POST", "/explain").body(body.as_bytes());
        shoal.ask_admin(&request).expect_status(200).text()
    };
    let host = authority(&origin);
    assert!(ask("CONNECT", &host).contains("intercept.hosts"), "{}", ask("CONNECT", &host));
    assert!(!ask("CONNECT", "other.test:443").contains("intercept.hosts"));
}
