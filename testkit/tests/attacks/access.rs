//! Access lists hold on every listener, for whatever is asked in whatever way.

use shoal_testkit::address::{free_port, fresh_ip};
use shoal_testkit::h2::H2Connection;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};
use std::process::Command;

/// A list that has nobody of this machine.
const CLOSED: &str = "allow_clients = ['192.0.2.0/24']";

fn origin() -> Origin {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("body", 600));
    origin
}

/// A node with open listeners, and others that serve the same and do not serve this machine.
fn guarded(origin: &Origin) -> Shoal {
    Setup::to(origin)
        .listen("closed", &format!("mode = 'reverse'\n{CLOSED}"))
        .listen("proxied", &format!("mode = 'reverse'\n{CLOSED}\nproxy_protocol_from = ['127.0.0.0/8']"))
        .listen("forward-closed", &format!("mode = 'forward'\n{CLOSED}"))
        .start()
}

#[test]
fn reverse_lists_hold_for_hits_and_misses() {
    let origin = origin();
    let shoal = guarded(&origin);
    shoal.get("/a").expect_body("body");
    shoal.get("/a").expect_body("body").expect_hit();
    let closed = shoal.address("closed");
    for path in ["/a", "/b"] {
        for request in [
            Request::get(path),
            Request::new("HEAD", path),
            Request::get(path).field("Cache-Control", "max-stale"),
            Request::get(path).field("Range", "bytes=0-1"),
            Request::new("POST", path).body(b"x"),
            Request::new("PURGE", path),
            Request::new("OPTIONS", path),
        ] {
            let answer = Connection::open(closed).ask(&request, "site.test");
            assert_eq!(answer.status, 403, "HTTP/1: {} {path}", request.method);
            let answer = H2Connection::open(closed).ask(&request, "site.test");
            assert_eq!(answer.status, 403, "HTTP/2: {} {path}", request.method);
        }
    }
    assert_eq!(origin.total(), 1);
    shoal.get("/a").expect_hit();
}

#[test]
fn connect_and_absolute_targets_are_refused_alike() {
    let origin = origin();
    let shoal = guarded(&origin);
    let url = format!("{}/a", origin.url());
    shoal.ask_forward(&Request::get(&url)).expect_body("body");
    let authority = origin.address().to_string();
    for listener in ["closed", "forward-closed"] {
        for request in [Request::get(&url), Request::new("CONNECT", &authority), Request::new("PURGE", &url)]
        {
            let answer = Connection::open(shoal.address(listener)).ask(&request, &authority);
            assert_eq!(answer.status, 403, "{listener}: {} {}", request.method, request.target);
        }
    }
    assert_eq!(origin.total(), 1);
}

#[test]
fn the_client_that_a_proxy_header_names_is_judged() {
    let origin = origin();
    let shoal = guarded(&origin);
    for (address, status) in [("192.0.2.7", 200), ("198.51.100.7", 403), ("127.0.0.1", 403)] {
        for _ in 0..2 {
            let mut connection = Connection::open(shoal.address("proxied"));
            connection.send(format!("PROXY TCP4 {address} 203.0.113.1 4000 80\r\n"));
            connection.ask(&Request::get("/a"), "site.test").expect_status(status);
        }
    }
}

#[test]
fn a_list_that_is_added_holds_for_open_connections() {
    let origin = origin();
    let mut shoal = Setup::to(&origin).start();
    let mut connection = shoal.connect();
    connection.ask(&Request::get("/a"), "site.test").expect_body("body");
    connection.ask(&Request::get("/a"), "site.test").expect_hit();
    shoal.change(|text| text.replace("mode = \"reverse\"", &format!("mode = \"reverse\"\n{CLOSED}")));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    connection.ask(&Request::get("/a"), "site.test").expect_status(403);
}

#[test]
fn sites_without_a_list_serve_everybody() {
    let origin = origin();
    let shoal = Setup::to(&origin).listen("proxied", PROXIED).start();
    let mut connection = Connection::open(shoal.address("proxied"));
    connection.send("PROXY TCP4 198.51.100.7 203.0.113.1 4000 80\r\n");
    connection.ask(&Request::get("/a"), "site.test").expect_body("body");
}

const PROXIED: &str = "mode = 'reverse'\nproxy_protocol_from = ['127.0.0.0/8']";

/// Whoever writes a list believes that it guards something.
#[test]
fn a_list_without_effect_stops_the_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ip = fresh_ip();
    let site = "[[site]]\nhosts = ['*']\nupstreams = [{ url = 'http://127.0.0.1:1' }]\n";
    let listen = |mode: &str, more: &str| {
        format!("[[listen]]\naddress = '{}'\nmode = '{mode}'\n{more}\n", free_port(ip))
    };
    let reverse = listen("reverse", "");
    for (name, value) in [
        ("allow_clients", "['10.0.0.0/8']"),
        ("users_file", "'/dev/null'"),
        ("deny_destinations", "['a.test']"),
        ("connect_ports", "[443]"),
        ("request_ports", "[80]"),
        ("allow_private_destinations", "['10.0.0.0/8']"),
    ] {
        refused(
            &folder,
            &format!("{reverse}{site}[forward]\n{name} = {value}\n"),
            &format!("forward.{name}"),
        );
    }
    let own = listen("forward", CLOSED);
    refused(&folder, &format!("{own}[forward]\nallow_clients = ['10.0.0.0/8']\n"), "forward.allow_clients");
}

/// The node does not start with this file, and names the setting.
fn refused(folder: &tempfile::TempDir, text: &str, setting: &str) {
    std::fs::write(folder.path().join("bad.toml"), text).expect("writable");
    for command in [&["check", "bad.toml"][..], &["run", "--config", "bad.toml"]] {
        let output =
            Command::new(binary()).args(command).current_dir(folder.path()).output().expect("it runs");
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{command:?} of {text}\n{said}");
        assert!(said.contains(setting) && said.contains("no effect"), "{command:?} of {text}\n{said}");
    }
}
