//! Interception fails closed: other names, untrusted origins, exposed keys, hosts outside the
//! constraints, too many connections.

use crate::interception::{authority, client, intercepted};
use shoal_testkit::certificates::Authority;
use shoal_testkit::interception::{connect, inside, over, root, shoal as run, trusting};
use shoal_testkit::{Answer, Connection, Origin, Request, Setup};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn other_server_name_gets_an_alert() {
    let (origin, shoal) = intercepted(|setup| setup);
    let host = authority(&origin);
    let trusted = trusting(&root(shoal.folder()), &[]);
    let mut nameless = (*trusted).clone();
    nameless.enable_sni = false;
    for (name, config) in [("other.test", trusted), ("localhost", Arc::new(nameless))] {
        let mut client = inside(shoal.address("forward"), &host, name, config);
        client.send(Request::get("/a").to_bytes(&host));
        let why = client.try_response("GET").expect_err("an alert");
        assert!(why.contains("alert"), "{why}");
    }
    shoal.expect_metric("shoal_intercept_refused_total", "reason=\"server_name\"", 2);
    assert!(shoal.log().contains("the client asked for server name"), "{}", shoal.log());
    assert_eq!(origin.connections(), 0);
}

#[test]
fn other_host_inside_is_misdirected() {
    let (origin, shoal) = intercepted(|setup| setup);
    origin.on("/a", Answer::fresh("body", 60));
    let host = authority(&origin);
    let mut client = client(&shoal, &origin);
    client.ask(&Request::get("/a"), "other.test").expect_status(421);
    client.ask(&Request::get("/a"), "localhost").expect_status(421);
    client.ask(&Request::get(&format!("http://{host}/a")), &host).expect_status(421);
    client.ask(&Request::get(&format!("https://{host}/a")), &host).expect_status(200);
    client.ask(&Request::get("/a"), &host).expect_hit();
    shoal.expect_metric("shoal_intercept_refused_total", "reason=\"host\"", 3);
    client.ask(&Request::new("CONNECT", &host), &host).expect_status(405);
    assert_eq!(origin.total(), 1);
}

#[test]
fn origin_with_an_untrusted_certificate_is_a_502() {
    let stranger = Authority::new();
    let origin = Origin::start_tls(&stranger.issue(&["localhost"]));
    origin.on("/a", Answer::ok("body"));
    let port = origin.address().port();
    let shoal = Setup::bare().intercepting(&["localhost"], &[port], &["localhost"]).start();
    let answer = client(&shoal, &origin).ask(&Request::get("/a"), &authority(&origin));
    answer.expect_status(502);
    assert!(answer.text().contains("certificate"), "{}", answer.text());
    assert_eq!(answer.proxy().word("error").as_deref(), Some("tls_certificate_error"), "{answer:?}");
    assert_eq!(origin.total(), 0);
    assert_eq!(shoal.responses("tunnel"), 0, "never a tunnel");
    assert!(shoal.log().contains("localhost"), "{}", shoal.log());
}

#[test]
fn client_that_trusts_others_alone_is_noted() {
    let (origin, shoal) = intercepted(|setup| setup);
    let stranger = Authority::new();
    let (stream, _) = connect(shoal.address("forward"), &authority(&origin), "");
    let mut client = over(stream, "localhost", stranger.client(&[]));
    client.send(Request::get("/a").to_bytes("localhost"));
    assert!(client.try_response("GET").is_err());
    shoal.expect_metric("shoal_intercept_refused_total", "reason=\"handshake\"", 1);
    assert!(shoal.log().contains("does the client trust root.pem?"), "{}", shoal.log());
}

#[test]
fn users_and_destinations_hold_for_both() {
    let (origin, mut shoal) = intercepted(|setup| {
        let users = setup.file("users", "ann:secret\n").to_string_lossy().into_owned();
        setup.set("forward.users_file", users)
    });
    origin.on("/a", Answer::fresh("body", 60));
    let host = authority(&origin);
    assert_eq!(connect(shoal.address("forward"), &host, "").1.status, 407);
    let credentials = "Proxy-Authorization: Basic YW5uOnNlY3JldA==\r\n";
    let (stream, head) = connect(shoal.address("forward"), &host, credentials);
    assert_eq!(head.status, 200);
    let trusted = trusting(&root(shoal.folder()), &[]);
    let mut inner = over(stream, "localhost", trusted);
    inner.ask(&Request::get("/a"), &host).expect_status(200);
    assert!(!origin.last("/a").fields.has("proxy-authorization"));
    // New rules hold for the next request inside.
    shoal.change(|text| text.replace("[forward]\n", "[forward]\ndeny_destinations = [\"localhost\"]\n"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    inner.ask(&Request::get("/a"), &host).expect_status(403);
    assert_eq!(connect(shoal.address("forward"), &host, credentials).1.status, 403);
}

#[test]
fn user_who_is_gone_is_refused_inside() {
    let (origin, shoal) = intercepted(|setup| {
        let users = setup.file("users", "ann:secret\n").to_string_lossy().into_owned();
        setup.set("forward.users_file", users)
    });
    origin.on("/a", Answer::fresh("body", 60));
    let host = authority(&origin);
    let credentials = "Proxy-Authorization: Basic YW5uOnNlY3JldA==\r\n";
    let (stream, _) = connect(shoal.address("forward"), &host, credentials);
    let mut inner = over(stream, "localhost", trusting(&root(shoal.folder()), &[]));
    inner.ask(&Request::get("/a"), &host).expect_status(200);
    std::fs::write(shoal.folder().join("users"), "bob:other\n").expect("writable");
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    inner.ask(&Request::get("/a"), &host).expect_status(407);
}

#[test]
fn host_that_is_listed_no_more_is_misdirected() {
    let (origin, mut shoal) = intercepted(|setup| setup);
    origin.on("/a", Answer::fresh("body", 60));
    let host = authority(&origin);
    let mut inner = client(&shoal, &origin);
    inner.ask(&Request::get("/a"), &host).expect_status(200);
    shoal.change(|text| text.replace("hosts = [\"localhost\"]", "hosts = []"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    inner.ask(&Request::get("/a"), &host).expect_status(421);
    let (_stream, head) = connect(shoal.address("forward"), &host, "");
    assert_eq!(head.status, 200);
    shoal.expect_metric("shoal_tunnels", "", 1);
}

#[test]
fn drain_ends_idle_connections_inside() {
    let (origin, mut shoal) = intercepted(|setup| setup);
    origin.on("/a", Answer::ok("body"));
    let mut inner = client(&shoal, &origin);
    inner.ask(&Request::get("/a"), &authority(&origin)).expect_status(200);
    shoal.signal(rustix::process::Signal::TERM);
    assert!(inner.closes(), "an idle connection is closed");
    let status = shoal.wait_for_exit(Duration::from_secs(20)).expect("it ends before its drain_timeout");
    assert!(status.success(), "{status}");
}

#[test]
fn silent_handshakes_end_and_places_are_bounded() {
    let (origin, shoal) =
        intercepted(|setup| setup.set("intercept.connections", 2).set("client.head_timeout", "1s"));
    origin.on("/a", Answer::ok("body"));
    let host = authority(&origin);
    let silent: Vec<_> = (0..2).map(|_| connect(shoal.address("forward"), &host, "")).collect();
    assert!(silent.iter().all(|(_, head)| head.status == 200));
    assert_eq!(connect(shoal.address("forward"), &host, "").1.status, 503);
    shoal.expect_metric("shoal_intercept_refused_total", "reason=\"full\"", 1);
    for (stream, _) in silent {
        assert!(Connection::over(Box::new(stream)).closes(), "a silent client is closed");
    }
    shoal.expect_metric("shoal_intercepted_connections", "", 0);
    client(&shoal, &origin).ask(&Request::get("/a"), &host).expect_status(200);
}

#[test]
fn cut_body_inside_is_seen_as_cut() {
    let (origin, shoal) = intercepted(|setup| setup);
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nCache-Control: max-age=60\r\n\r\nhalf".to_vec();
    origin.on("/a", Answer::raw(cut));
    let answer = client(&shoal, &origin).ask(&Request::get("/a"), &authority(&origin));
    assert!(!answer.complete() || answer.status == 502, "{answer:?}");
}

#[test]
fn hosts_outside_the_constraints_are_refused() {
    let setup = Setup::bare().intercepting(&["other.test"], &[443], &["a.test", "*.b.test"]);
    let text = setup.text();
    let folder = setup.folder();
    for (host, is_sound) in [
        ("a.test", true),
        ("x.a.test", true),
        ("*.b.test", true),
        ("c.test", false),
        ("xa.test", false),
        ("*.test", false),
    ] {
        std::fs::write(folder.join("f.toml"), text.replace("other.test", host)).expect("writable");
        let checked = run(folder, &["check", "f.toml"]);
        let shown = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        assert_eq!(checked.status.code(), Some(if is_sound { 0 } else { 2 }), "{host}: {shown}");
        let says = if is_sound { "this node reads and may store" } else { "may not sign for" };
        assert!(shown.contains(says), "{host}: {shown}");
    }
}

#[test]
fn key_that_others_can_read_is_refused() {
    let setup = Setup::bare().intercepting(&["a.test"], &[443], &["a.test"]);
    let key = setup.folder().join("ca/intermediate.key");
    let mode = std::fs::metadata(&key).expect("the key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).expect("ours");
    std::fs::write(setup.folder().join("f.toml"), setup.text()).expect("writable");
    for command in [&["check", "f.toml"][..], &["run", "--config", "f.toml"]] {
        let refused = run(setup.folder(), command);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("chmod 600 "), "{command:?}: {said}");
    }
}

#[test]
fn authority_is_not_overwritten() {
    let setup = Setup::bare().intercepting(&["a.test"], &[443], &["a.test"]);
    let again = run(setup.folder(), &["ca", "init", "--folder", "ca", "--hosts", "b.test"]);
    assert_eq!(again.status.code(), Some(1));
    let lines = run(setup.folder(), &["ca", "lines", "--folder", "ca"]);
    assert!(lines.status.success());
    let lines = String::from_utf8_lossy(&lines.stdout).into_owned();
    for variable in ["NODE_EXTRA_CA_CERTS=", "PIP_CERT=", "SSL_CERT_FILE=", "CARGO_HTTP_CAINFO="] {
        assert!(lines.contains(variable), "{lines}");
    }
    let bundle = std::fs::read_to_string(setup.folder().join("ca/bundle.pem")).expect("the bundle");
    let own = std::fs::read_to_string(root(setup.folder())).expect("the root");
    assert!(bundle.starts_with(&own));
}
