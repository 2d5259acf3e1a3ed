//! Requests that two readers would understand in two ways, and what is told of those that are
//! refused.

use shoal_testkit::certificates::Authority;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup};

/// 2^63 and more: negative to readers with signed numbers.
const HUGE: [&str; 3] = ["9223372036854775808", "18446744073709551615", "18446744073709551616"];

#[test]
fn lengths_that_turn_negative_are_refused() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("x"));
    let shoal = Setup::to(&origin).start();
    for length in HUGE {
        for method in ["GET", "POST"] {
            let mut connection = shoal.connect();
            connection
                .send(format!("{method} /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: {length}\r\n\r\n"));
            connection.response(method).expect_status(400);
            assert!(connection.closes(), "{method} {length}");
            let mut connection = Connection::open(shoal.address("forward"));
            let target = format!("{}/a", origin.url());
            let host = origin.address();
            connection.send(format!(
                "{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n"
            ));
            connection.response(method).expect_status(400);
        }
        let request = Request::new("POST", "/a").field("Content-Length", length);
        let answer = H2Connection::open(shoal.address("reverse")).ask(&request, "site.test");
        // Refused, or the stream is reset (0), since its end comes before so many bytes.
        assert!(matches!(answer.status, 0 | 400), "HTTP/2: {length}: {}", answer.status);
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn chunks_that_turn_negative_are_refused() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("x"));
    let shoal = Setup::to(&origin).start();
    for size in ["8000000000000000", "ffffffffffffffff", "10000000000000000"] {
        let mut connection = shoal.connect();
        connection.send(format!(
            "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nabc"
        ));
        connection.response("POST").expect_status(400);
    }
}

#[test]
fn lengths_of_origins_that_turn_negative_are_an_error() {
    let origin = Origin::start();
    for (number, length) in HUGE.iter().enumerate() {
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n");
        origin.on(&format!("/{number}"), Answer::raw(head));
    }
    let shoal = Setup::to(&origin).start();
    for number in 0..HUGE.len() {
        for method in ["GET", "HEAD"] {
            shoal.ask(&Request::new(method, &format!("/{number}"))).expect_status(502);
        }
    }
}

/// An operator learns which setting refused, from the page and from the log; a client that is
/// refused often fills no log.
#[test]
fn a_refusal_names_its_setting() {
    let origin = Origin::start();
    let shoal = Setup::bare()
        .set_list("forward.allow_private_destinations", &[])
        .set_list("forward.deny_destinations", &["denied.test"])
        .start();
    let private = format!("{}/a", origin.url());
    let port = "http://127.0.0.1:25/a".to_owned();
    for (request, setting) in [
        (Request::get(&private), "forward.allow_private_destinations"),
        (Request::get(&port), "forward.request_ports"),
        (Request::get("http://denied.test/a"), "forward.deny_destinations"),
        (Request::new("CONNECT", "origin.test:25"), "forward.connect_ports"),
        (Request::new("CONNECT", "127.0.0.1:443"), "forward.allow_private_destinations"),
    ] {
        for _ in 0..20 {
            let answer = shoal.ask_forward(&request);
            answer.expect_status(403);
            let page = String::from_utf8(answer.body).expect("text");
            assert!(page.contains(setting), "{} {}: {page}", request.method, request.target);
        }
        wait::until("the line of the log", || shoal.log().contains(&format!("\"{setting}\"")));
    }
    let lines = shoal.log().matches("refused by a setting").count();
    assert!(lines < 20, "{lines} lines of 100 refusals");
    assert_eq!(origin.connections(), 0);
}

/// A terminal that shows the log obeys C1 controls, and shows text behind a mark of direction as
/// another.
#[test]
fn logs_hold_no_character_that_hides_others() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("x"));
    let hidden =
        ['\u{7f}', '\u{85}', '\u{9b}', '\u{61c}', '\u{200e}', '\u{2028}', '\u{2029}', '\u{202e}', '\u{2066}'];
    let agent: String = hidden.iter().filter(|character| **character != '\u{7f}').collect();
    for format in ["json", "squid", "combined"] {
        let shoal = Setup::to(&origin).set("log.format", format).start();
        for path in ["/a", "/a"] {
            shoal
                .ask(&Request::get(path).field("User-Agent", &agent).field("Referer", &agent))
                .expect_status(200);
        }
        let log = shoal.access_log(2).concat();
        assert!(!log.contains(hidden), "{format}: {log:?}");
        assert!(format != "json" || log.contains("\\u202E"), "{log:?}");
    }
}

/// RFC 9113, section 8.3.1: ":scheme" is not restricted to http and https. A cache of both serves
/// no other, and takes from the connection which of both it is.
#[test]
fn schemes_that_are_not_of_the_web_are_refused() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("the page", 60));
    let shoal = Setup::to(&origin).start();
    shoal.get("/a").expect_body("the page");
    for (scheme, status) in [("http", 200), ("https", 200), ("ftp", 400), ("file", 400), ("javascript", 400)]
    {
        let mut client = H2Connection::open(shoal.address("reverse")).scheme(scheme);
        assert_eq!(client.ask(&Request::get("/a"), "site.test").status, status, "{scheme}");
        let mut client = shoal.connect();
        client.send(format!("GET {scheme}://site.test/a HTTP/1.1\r\nHost: site.test\r\n\r\n"));
        assert_eq!(client.response("GET").status, status, "{scheme} over HTTP/1.1");
    }
    assert_eq!(origin.count("/a"), 1, "the scheme that a client names chooses no key");
}

/// RFC 9110, section 7.4: what comes over a connection that was secured for another host is
/// refused, unless its certificate is for both, or there is none for that.
#[test]
fn requests_over_anothers_connection_are_refused() {
    let origin = Origin::start();
    origin.on("/*", Answer::fresh("the page", 60));
    let authority = Authority::new();
    let setup = Setup::to(&origin);
    let pair = |name: &str, names: &[&str]| {
        authority.issue(names).write(setup.folder(), name);
        let file = |suffix: &str| setup.folder().join(format!("{name}.{suffix}")).display().to_string();
        format!("{{ certificate = '{}', key = '{}' }}", file("pem"), file("key"))
    };
    let tls = [pair("first", &["a.test", "*.shared.test"]), pair("second", &["b.test"])].join(", ");
    let shoal = setup.listen("tls", &format!("mode = 'reverse'\ntls = [{tls}]")).start();
    let address = shoal.address("tls");
    let cases = [
        ("a.test", "a.test", 200),
        ("a.test", "A.test.:443", 200),
        ("a.test", "x.shared.test", 200),
        ("x.shared.test", "a.test", 200),
        ("a.test", "b.test", 421),
        ("b.test", "a.test", 421),
        ("b.test", "b.test.evil.test", 421),
        ("b.test", "127.0.0.1", 421),
        // Who asked for it by name would be shown the first certificate, too.
        ("a.test", "c.test", 200),
    ];
    for (server_name, host, status) in cases {
        let mut client = Connection::open_tls(address, server_name, authority.client(&["http/1.1"]));
        // The second time it would be a hit.
        for _ in 0..2 {
            assert_eq!(client.ask(&Request::get("/a"), host).status, status, "{server_name}, {host}");
        }
        let mut client = H2Connection::open_tls(address, server_name, authority.client(&["h2"]));
        for _ in 0..2 {
            assert_eq!(client.ask(&Request::get("/a"), host).status, status, "{server_name}, {host}: HTTP/2");
        }
    }
}
