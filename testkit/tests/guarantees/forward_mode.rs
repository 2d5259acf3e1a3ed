//! Forward mode: clients name the origin; rules decide whom they may reach.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use shoal_testkit::address::closed_port;
use shoal_testkit::origin::After;
use shoal_testkit::{Answer, Gate, Origin, Request, Resource, Setup, Shoal};
use std::time::{Duration, Instant};

#[test]
fn an_absolute_target_is_fetched_once_and_then_served_from_the_cache() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let shoal = Setup::bare().start();
    let request = Request::get(&format!("{}/a?q=1", origin.url()));
    shoal.ask_forward(&request).expect_body("body").expect_forwarded("uri-miss");
    shoal.ask_forward(&request).expect_body("body").expect_hit();
    assert_eq!(origin.count("/a"), 1);
    assert_eq!(origin.last("/a").target, "/a?q=1", "origins get the origin form (RFC 9112 section 3.2.1)");
    shoal.expect_responses("miss", 1);
    shoal.expect_responses("memory_hit", 1);
}

/// RFC 9112 section 3.2.2 has a proxy ignore a Host field beside an absolute target. Shoal refuses
/// one that differs, since whoever filters by Host in front of it would have judged another
/// request.
#[test]
fn a_host_field_that_differs_from_the_target_is_refused() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let shoal = Setup::bare().start();
    let request = Request::get(&format!("{}/a", origin.url())).field("Host", "elsewhere.test");
    shoal.ask_forward(&request).expect_status(400);
    assert_eq!(origin.connections(), 0);
    let request = Request::get(&format!("{}/a", origin.url()));
    shoal.ask_forward(&request).expect_body("body");
    assert_eq!(origin.last("/a").fields.all("host"), [origin.address().to_string()]);
}

/// Whoever asks a site that takes any host names the host, and with it the URL under which the
/// answer is stored.
#[test]
fn what_a_site_answered_for_a_host_is_not_that_hosts_for_clients_of_the_proxy() {
    let (site, host) = (Origin::start(), Origin::start());
    site.on("/a", Answer::fresh("the site's", 60));
    host.on("/a", Answer::fresh("the host's", 60));
    let shoal = Setup::to(&site).start();
    let named = host.address().to_string();
    let through_proxy = || shoal.ask_forward(&Request::get(&format!("http://{named}/a")));
    let from_site = || shoal.connect().ask(&Request::get("/a"), &named);
    from_site().expect_body("the site's");
    from_site().expect_body("the site's").expect_hit();
    through_proxy().expect_body("the host's").expect_forwarded("uri-miss");
    through_proxy().expect_body("the host's").expect_hit();
    from_site().expect_body("the site's").expect_hit();
}

/// Nor does a client of the one wait for what was asked of the other, which may take its time.
#[test]
fn a_site_does_not_wait_for_a_host_that_clients_of_the_proxy_ask() {
    let (site, host, gate) = (Origin::start(), Origin::start(), Gate::new());
    site.on("/a", Answer::fresh("the site's", 60));
    host.on("/a", Answer::raw("").held_by(&gate).then(After::Reset));
    let shoal = Setup::to(&site).start();
    let named = host.address().to_string();
    let mut through_proxy = shoal.connect_forward();
    through_proxy.send(Request::get(&format!("http://{named}/a")).to_bytes(&named));
    host.wait_for("/a", 1);
    let start = Instant::now();
    let mut from_site = shoal.connect();
    from_site.send(Request::get("/a").to_bytes(&named));
    site.wait_for("/a", 1);
    from_site.response("GET").expect_body("the site's");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    gate.open();
    assert_eq!(through_proxy.response("GET").status, 502);
}

#[test]
fn an_origin_form_target_is_refused_since_it_names_nobody() {
    let origin = Origin::start();
    let shoal = Setup::bare().start();
    let host = origin.address().to_string();
    let response = shoal.connect_forward().ask(&Request::get("/a"), &host);
    assert!((400..500).contains(&response.status), "{}", response.status);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn connect_reaches_the_listed_ports_alone() {
    let origin = Origin::start();
    origin.on("/inside", Answer::ok("through the tunnel"));
    let port = i64::from(origin.address().port());
    let shoal = Setup::bare().set("forward.connect_ports", vec![port]).start();

    let mut tunnel = shoal.connect_forward();
    let connect = Request::new("CONNECT", &origin.address().to_string());
    assert_eq!(tunnel.ask(&connect, &origin.address().to_string()).status, 200);
    tunnel.ask(&Request::get("/inside"), "inside.test").expect_body("through the tunnel");
    assert_eq!(origin.last("/inside").fields.first("via"), None, "nothing is added inside a tunnel");
    drop(tunnel);

    // At another address it may be the same.
    let other = std::iter::repeat_with(closed_port).find(|other| i64::from(other.port()) != port);
    let refused = shoal.ask_forward(&Request::new("CONNECT", &other.expect("there are others").to_string()));
    refused.expect_status(403);
    assert_eq!(refused.proxy().word("error").as_deref(), Some("http_request_denied"));
    shoal.expect_responses("tunnel", 1);
    shoal.expect_responses("denied", 1);
}

#[test]
fn destinations_inside_are_refused_whatever_their_spelling() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("secret", 60));
    let port = origin.address().port();
    let setup = Setup::bare().set_list("forward.allow_private_destinations", &[]);
    let shoal = setup.set("forward.connect_ports", vec![i64::from(port)]).start();
    let inside = [
        "127.0.0.1",
        "127.9.9.9",
        "localhost",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00::1]",
    ];
    for host in inside {
        let get = shoal.ask_forward(&Request::get(&format!("http://{host}:{port}/a")));
        assert_eq!(get.status, 403, "GET {host}: {}", get.text());
        assert_eq!(get.proxy().word("error").as_deref(), Some("destination_ip_prohibited"), "{host}");
        let connect = shoal.ask_forward(&Request::new("CONNECT", &format!("{host}:{port}")));
        assert_eq!(connect.status, 403, "CONNECT {host}");
    }
    assert_eq!(origin.connections(), 0, "not even a connection was made");
    shoal.expect_responses("denied", 2 * inside.len() as u64);
}

/// `inet_aton` spellings reach the same place where the resolver takes them; refusing them as bad
/// names is as good.
#[test]
fn numeric_spellings_of_loopback_do_not_pass() {
    let origin = Origin::start();
    let shoal = Setup::bare()
        .set_list("forward.allow_private_destinations", &[])
        .set("upstream.connect_timeout", "2s")
        .start();
    for host in ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1."] {
        let response =
            shoal.ask_forward(&Request::get(&format!("http://{host}:{}/a", origin.address().port())));
        assert!(response.status >= 400, "{host} gave {}", response.status);
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_private_destination_may_be_allowed_by_name_or_network() {
    let origin = Origin::start();
    origin.on("/a", Answer::ok("allowed").field("Cache-Control", "no-store"));
    let port = origin.address().port();
    for (allowed, host, status) in [
        ("localhost", "localhost", 200),
        ("localhost", "127.0.0.1", 403),
        ("127.0.0.1/32", "127.0.0.1", 200),
        ("127.0.0.1/32", "localhost", 200),
        ("127.0.0.2/32", "127.0.0.1", 403),
    ] {
        let shoal = Setup::bare().set_list("forward.allow_private_destinations", &[allowed]).start();
        let response = shoal.ask_forward(&Request::get(&format!("http://{host}:{port}/a")));
        assert_eq!(response.status, status, "{host} where {allowed} is allowed");
    }
}

#[test]
fn denied_destinations_are_refused_by_name_suffix_and_network() {
    let origin = Origin::start();
    let shoal = Setup::bare()
        .set_list("forward.deny_destinations", &["bad.test", "*.worse.test", "127.0.0.0/8"])
        .start();
    let denied = [
        "http://bad.test/",
        "http://BAD.test./",
        "http://bad.test../",
        "http://a.worse.test/",
        &format!("{}/", origin.url()),
    ];
    for url in denied {
        let response = shoal.ask_forward(&Request::get(url));
        assert_eq!(response.status, 403, "{url}");
    }
    assert_eq!(origin.connections(), 0);
    shoal.expect_responses("denied", denied.len() as u64);
}

/// What is stored of a destination is refused with it: in RAM the short way, and for a request that
/// takes the ordinary one.
#[test]
fn a_destination_denied_later_is_refused_though_it_is_stored() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let mut shoal = Setup::bare().start();
    let url = format!("http://localhost:{}/a", origin.address().port());
    let (plain, odd) = (Request::get(&url), Request::get(&url).field("Cache-Control", "max-stale=1"));
    shoal.ask_forward(&plain).expect_body("body");
    shoal.ask_forward(&plain).expect_body("body").expect_hit();
    shoal.change(|text| text.replace("[forward]", "[forward]\ndeny_destinations = [\"localhost\"]"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    for request in [&plain, &odd] {
        shoal.ask_forward(request).expect_status(403);
    }
    shoal.expect_responses("denied", 2);
}

#[test]
fn requests_reach_listed_ports_only_and_what_is_stored_of_others_is_refused() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let mut shoal = Setup::bare().start();
    let url = format!("{}/a", origin.url());
    let (plain, odd) = (Request::get(&url), Request::get(&url).field("Cache-Control", "max-stale=1"));
    shoal.ask_forward(&Request::get("http://127.0.0.1:25/")).expect_status(403);
    shoal.ask_forward(&Request::new("POST", "http://127.0.0.1:22/").body(b"x")).expect_status(403);
    shoal.ask_forward(&plain).expect_body("body");
    shoal.ask_forward(&plain).expect_body("body").expect_hit();
    shoal.change(|text| text.replace("[forward]", "[forward]\nrequest_ports = [80, \"443-444\"]"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    for request in [&plain, &odd] {
        shoal.ask_forward(request).expect_status(403);
    }
    shoal.expect_responses("denied", 4);
}

/// Only a fetch can tell the address that a host has: after a reload that changes what is said of
/// addresses, what is stored is asked for again before it is served.
#[test]
fn what_is_stored_of_an_address_denied_later_is_refused() {
    let deny = |networks: &str| format!("[forward]\ndeny_destinations = [{networks}]");
    for (before, after, refused) in [
        ("[forward]", deny("\"127.0.0.0/8\", \"::1/128\""), true),
        ("allow_private_destinations = [\"127.0.0.0/8\"]", "allow_private_destinations = []".into(), true),
        ("[forward]", deny("\"192.0.2.0/24\""), false),
    ] {
        let origin = Origin::start();
        origin.serve("/a", Resource::new("body").etag("\"v\"").cache_control("max-age=60"));
        let mut shoal = Setup::bare().start();
        let url = format!("http://localhost:{}/a", origin.address().port());
        let (plain, odd) = (Request::get(&url), Request::get(&url).field("Cache-Control", "max-stale=1"));
        shoal.ask_forward(&plain).expect_body("body");
        shoal.ask_forward(&plain).expect_body("body").expect_hit();
        shoal.change(|text| {
            assert!(text.contains(before), "{text}");
            text.replace(before, &after)
        });
        shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
        for request in [&plain, &odd] {
            let answer = shoal.ask_forward(request);
            answer.expect_status(if refused { 403 } else { 200 });
        }
        if !refused {
            shoal.ask_forward(&plain).expect_body("body").expect_hit();
            assert_eq!(origin.count("/a"), 2, "{after}: validated once");
        }
    }
}

/// Nor are parts that came before such a reload joined to those that come after it.
#[test]
fn parts_of_an_address_denied_later_are_asked_for_again() {
    for (deny, asked) in [("", 2), ("deny_destinations = [\"192.0.2.0/24\"]", 3)] {
        let origin = Origin::start();
        origin.serve("/a", Resource::new("0123456789").etag("\"v\"").cache_control("max-age=60"));
        let mut shoal = Setup::bare().start();
        let url = format!("http://localhost:{}/a", origin.address().port());
        let ask = |shoal: &Shoal, range: &str, body: &str| {
            let request = Request::get(&url).field("Range", &format!("bytes={range}"));
            assert_eq!(shoal.ask_forward(&request).expect_status(206).text(), body, "{range}");
        };
        ask(&shoal, "0-4", "01234");
        shoal.change(|text| text.replace("[forward]", &format!("[forward]\n{deny}")));
        shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
        ask(&shoal, "5-9", "56789");
        ask(&shoal, "0-9", "0123456789");
        assert_eq!(origin.count("/a"), asked, "{deny}");
    }
}

/// A refusal is no failure of the origin, for which a stale response would stand in (RFC 5861
/// section 4).
#[test]
fn a_stale_response_does_not_stand_in_for_a_refusal() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 10).field("Age", "15").field("ETag", "\"v\""));
    let mut shoal = Setup::bare().start();
    let request = Request::get(&format!("http://localhost:{}/a", origin.address().port()));
    shoal.ask_forward(&request).expect_body("body");
    shoal.change(|text| {
        text.replace("[forward]", "[forward]\ndeny_destinations = [\"127.0.0.0/8\", \"::1/128\"]")
    });
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    shoal.ask_forward(&request).expect_status(403);
}

#[test]
fn clients_of_other_networks_are_refused() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let shoal = Setup::bare().set_list("forward.allow_clients", &["192.0.2.0/24"]).start();
    let response = shoal.ask_forward(&Request::get(&format!("{}/a", origin.url())));
    response.expect_status(403);
    assert_eq!(origin.connections(), 0);
    shoal.expect_responses("denied", 1);
}

/// RFC 9110 section 11.7.1: "A proxy MUST send at least one Proxy-Authenticate header field in each
/// 407 (Proxy Authentication Required) response that it generates."
#[test]
fn clients_authenticate_where_users_are_listed() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let setup = Setup::bare();
    let users = setup.file("users", "ann:open sesame\nbob:b:o:b\n");
    let port = i64::from(origin.address().port());
    let shoal = setup
        .set("forward.users_file", users.to_string_lossy().into_owned())
        .set("forward.realm", "the shoal")
        .set("forward.connect_ports", vec![port])
        .start();
    let url = format!("{}/a", origin.url());
    let with = |pair: &str| {
        let credentials = format!("Basic {}", BASE64_STANDARD.encode(pair));
        shoal.ask_forward(&Request::get(&url).field("Proxy-Authorization", &credentials))
    };
    let challenged = shoal.ask_forward(&Request::get(&url));
    challenged.expect_status(407);
    let challenge = challenged.field("proxy-authenticate").unwrap_or_default();
    assert!(challenge.starts_with("Basic realm=\"the shoal\""), "{challenge}");
    for wrong in ["ann:open", "ann:", "eve:open sesame", "ann", ":", "bob:b"] {
        assert_eq!(with(wrong).status, 407, "{wrong}");
    }
    let connect = shoal.ask_forward(&Request::new("CONNECT", &origin.address().to_string()));
    connect.expect_status(407);
    assert_eq!(origin.connections(), 0);

    with("ann:open sesame").expect_body("body");
    with("bob:b:o:b").expect_body("body").expect_hit();
    assert_eq!(
        origin.last("/a").fields.first("proxy-authorization"),
        None,
        "credentials stay with the proxy"
    );
    let log = shoal.access_log(10);
    assert!(log.iter().any(|line| line.contains("\"ann\"")), "{log:?}");
}

#[test]
fn a_name_that_does_not_resolve_is_the_proxys_error() {
    let shoal = Setup::bare().set("upstream.connect_timeout", "2s").start();
    let response = shoal.ask_forward(&Request::get("http://no-such-host.invalid/"));
    assert!(matches!(response.status, 502..=504), "{}", response.status);
    let error = response.proxy().word("error").unwrap_or_default();
    assert!(["dns_error", "dns_timeout", "destination_not_found"].contains(&error.as_str()), "{error}");
}
