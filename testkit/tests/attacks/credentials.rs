//! Credentials of one client that others might use: a connection that an origin has authenticated
//! serves its client alone.

use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, wait};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// An origin that authenticates connections as IIS does: NTLM's three messages, and then every
/// request on the connection is the user's.
fn ntlm_origin(fields: &'static [(&'static str, &'static str)]) -> Origin {
    let origin = Origin::start();
    let begun: Arc<Mutex<HashSet<usize>>> = Arc::default();
    let known: Arc<Mutex<HashSet<usize>>> = Arc::default();
    origin.on_request("/*", move |request| {
        let said = request.fields.first("authorization").unwrap_or_default();
        let with_fields =
            |answer: Answer| fields.iter().fold(answer, |answer, (name, value)| answer.field(name, value));
        let challenge = |token| Answer::new(401).field("WWW-Authenticate", token).piece("who are you?");
        match said {
            "NTLM one" => {
                begun.lock().expect("no panic").insert(request.connection);
                challenge("NTLM two")
            }
            "NTLM three" if begun.lock().expect("no panic").contains(&request.connection) => {
                known.lock().expect("no panic").insert(request.connection);
                with_fields(Answer::ok("the page of alice"))
            }
            _ if known.lock().expect("no panic").contains(&request.connection) => {
                with_fields(Answer::ok("the page of alice"))
            }
            _ => challenge("NTLM"),
        }
    });
    origin
}

/// Logs in on this connection; the status of the last answer.
fn log_in(client: &mut Connection) -> u16 {
    let ask = |token: &str| Request::get("/page").field("Authorization", token);
    assert_eq!(client.ask(&Request::get("/page"), "site.test").status, 401);
    let challenge = client.ask(&ask("NTLM one"), "site.test");
    assert_eq!((challenge.status, challenge.fields.first("www-authenticate")), (401, Some("NTLM two")));
    client.ask(&ask("NTLM three"), "site.test").status
}

/// What somebody without credentials gets on a connection of his own.
fn stranger_gets(shoal: &Shoal, path: &str) -> u16 {
    shoal.get(path).status
}

#[test]
fn an_authenticated_connection_serves_its_client_alone() {
    let origin = ntlm_origin(&[]);
    let shoal = Setup::to(&origin).set("workers", 1).start();
    let mut alice = shoal.connect();
    assert_eq!(log_in(&mut alice), 200);
    for number in 0..5 {
        assert_eq!(stranger_gets(&shoal, &format!("/{number}")), 401, "the connection is alice's");
    }
    let page = alice.ask(&Request::get("/other"), "site.test");
    page.expect_status(200).expect_body("the page of alice");
    shoal.expect_metric("shoal_upstream_pinned_connections", "", 1);
    drop(alice);
    shoal.expect_metric("shoal_upstream_pinned_connections", "", 0);
    assert_eq!(stranger_gets(&shoal, "/page"), 401);
}

#[test]
fn pages_of_an_authenticated_connection_are_not_stored() {
    let origin = ntlm_origin(&[("Cache-Control", "public, max-age=600")]);
    let shoal = Setup::to(&origin).set("workers", 1).start();
    let mut alice = shoal.connect();
    assert_eq!(log_in(&mut alice), 200);
    // without credentials of its own, which would keep it out of the cache anyway
    alice.ask(&Request::get("/later"), "site.test").expect_body("the page of alice");
    assert_eq!((stranger_gets(&shoal, "/page"), stranger_gets(&shoal, "/later")), (401, 401));
}

#[test]
fn negotiate_over_http_2_is_closed_and_not_shared() {
    let origin = ntlm_origin(&[]);
    let setup = Setup::to(&origin).set("workers", 1);
    let shoal = setup.start();
    let mut alice = shoal_testkit::h2::H2Connection::open(shoal.address("reverse"));
    let ask = |token: &str| Request::get("/page").field("authorization", token);
    assert_eq!(alice.ask(&ask("NTLM one"), "site.test").status, 401);
    assert_eq!(alice.ask(&ask("NTLM three"), "site.test").status, 401, "no connection is kept for it");
    assert_eq!(stranger_gets(&shoal, "/page"), 401);
    let seen: HashSet<usize> = origin.received().iter().map(|request| request.connection).collect();
    assert_eq!(seen.len(), 3, "each had a connection of its own");
}

#[test]
fn kept_connections_give_way_to_those_who_wait() {
    let origin = ntlm_origin(&[]);
    let shoal = Setup::to(&origin).set("workers", 1).set("upstream.connections_per_origin", 1).start();
    let mut alice = shoal.connect();
    assert_eq!(log_in(&mut alice), 200);
    assert_eq!(stranger_gets(&shoal, "/page"), 401, "answered, on a connection of its own");
    wait::until("alice's connection was given up", || {
        shoal.metric("shoal_upstream_pinned_shed_total", "") == 1
    });
    assert_eq!(alice.ask(&Request::get("/page"), "site.test").status, 401, "alice logs in again");
    assert_eq!(log_in(&mut alice), 200);
}

/// A login needs the connection that it was begun on, also where a site has several upstreams.
#[test]
fn a_login_stays_with_one_upstream() {
    let origins = [ntlm_origin(&[]), ntlm_origin(&[]), ntlm_origin(&[])];
    let urls: Vec<String> = origins.iter().map(|origin| format!("{{ url = '{}' }}", origin.url())).collect();
    let site = format!("hosts = ['*']\nupstreams = [{}]", urls.join(", "));
    let shoal = Setup::to(&origins[0]).without_sites().site(&site).set("workers", 1).start();
    let mut alice = shoal.connect();
    assert_eq!(log_in(&mut alice), 200);
    for _ in 0..6 {
        assert_eq!(alice.ask(&Request::get("/page"), "site.test").status, 200);
    }
}

/// RFC 4559, section 6: a client may log in through a proxy that says so with the challenge. One
/// that speaks HTTP/2, for which no connection is kept, is not told.
#[test]
fn proxy_says_with_a_challenge_that_logins_work() {
    let origin = ntlm_origin(&[]);
    let shoal = Setup::to(&origin).start();
    let url = |path: &str| format!("{}{path}", origin.url());
    let mut client = shoal.connect_forward();
    for (token, status, said) in [
        ("", 401, Some("Session-Based-Authentication")),
        ("NTLM one", 401, Some("Session-Based-Authentication")),
        ("NTLM three", 200, None),
    ] {
        let request = Request::get(&url("/page"));
        let request = if token.is_empty() { request } else { request.field("Authorization", token) };
        let answer = client.ask(&request, &origin.address().to_string());
        assert_eq!((answer.status, answer.field("proxy-support")), (status, said), "{token:?}");
    }
    // Who asks a site knows of no proxy.
    assert_eq!(shoal.get("/page").field("proxy-support"), None);
    // Other challenges need no such thing.
    let basic = Origin::start();
    basic.on("/*", Answer::new(401).field("WWW-Authenticate", "Basic realm=\"a\""));
    let answer = shoal.ask_forward(&Request::get(&format!("{}/page", basic.url())));
    assert_eq!((answer.status, answer.field("proxy-support")), (401, None));
    let mut http2 = shoal_testkit::h2::H2Connection::open(shoal.address("forward"));
    let answer = http2.ask(&Request::get("/page"), &origin.address().to_string());
    assert_eq!((answer.status, answer.field("proxy-support")), (401, None));
}
