//! Fields that speak for a client reach an origin from trusted proxies alone, and poison no stored
//! answer.

use shoal_testkit::fields::{Fields, members};
use shoal_testkit::h2::H2Connection;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal};

/// Fields by which clients have poisoned caches or posed as others, in the spellings that origins
/// take for them.
const SPOKEN: [&str; 30] = [
    "Forwarded",
    "X-Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Server",
    "X-Forwarded-Scheme",
    "X-Forwarded-Ssl",
    "X-Forwarded-User",
    "X-Real-IP",
    "True-Client-IP",
    "X-Client-IP",
    "Client-IP",
    "CF-Connecting-IP",
    "X-Original-URL",
    "X-Rewrite-URL",
    "X-Host",
    "X-HTTP-Host-Override",
    "X-HTTP-Method-Override",
    "Proxy",
    "Surrogate-Capability",
    "X_Forwarded_For",
    "X_Forwarded_Host",
    "X-Forwarded_Proto",
    "x.forwarded.host",
    "X_Original_URL",
    "If_None_Match",
    "Accept_Encoding",
];

fn with_all(request: Request) -> Request {
    SPOKEN.iter().fold(request, |request, name| request.field(name, "evil.test"))
}

/// An origin that answers with all fields that it was sent, as an application that believes them
/// might.
fn gullible() -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |received| Answer::fresh(received.fields.lines(), 600));
    origin
}

fn body(connection: &mut Connection, request: &Request) -> String {
    let answer = connection.ask(request, "site.test");
    answer.expect_status(200);
    String::from_utf8(answer.body).expect("text")
}

#[test]
fn clients_speak_for_nobody_in_reverse_mode() {
    let origin = gullible();
    let shoal = Setup::to(&origin).start();
    for (number, request) in [
        with_all(Request::get("/0")),
        with_all(Request::new("HEAD", "/1")),
        with_all(Request::get("/2").field("Range", "bytes=0-1")),
    ]
    .iter()
    .enumerate()
    {
        let path = format!("/{number}");
        shoal.ask(request);
        let lines = origin.last(&path).fields.lines();
        assert!(!lines.contains("evil.test"), "{path} of HTTP/1: {lines}");
        let path = format!("/h2{number}");
        let request = Request { target: path.clone(), ..request.clone() };
        H2Connection::open(shoal.address("reverse")).ask(&request, "site.test");
        let lines = origin.last(&path).fields.lines();
        assert!(!lines.contains("evil.test"), "{path} of HTTP/2: {lines}");
    }
    // What was stored for the attacker is served to others.
    let stored = String::from_utf8(shoal.get("/0").expect_hit().body.clone()).expect("text");
    assert!(!stored.contains("evil.test"), "{stored}");
}

#[test]
fn methods_that_are_not_stored_keep_their_override() {
    let origin = gullible();
    let shoal = Setup::to(&origin).start();
    shoal.ask(&with_all(Request::new("POST", "/a").body(b"x"))).expect_status(200);
    let fields = origin.last("/a").fields;
    assert_eq!(fields.first("x-http-method-override"), Some("evil.test"));
    assert_eq!(fields.lines().matches("evil.test").count(), 1, "{}", fields.lines());
}

#[test]
fn trailers_speak_for_nobody() {
    let origin = gullible();
    let shoal = Setup::to(&origin).start();
    let mut trailers = Fields::default();
    SPOKEN.iter().for_each(|name| trailers.push(name, "evil.test"));
    trailers.push("X-Checksum", "good");
    shoal.ask(&Request::new("POST", "/a").chunked(b"data", &trailers)).expect_status(200);
    let received = origin.last("/a");
    assert!(!format!("{received:?}").contains("evil.test"), "{received:?}");
}

#[test]
fn the_node_says_how_a_request_came() {
    let origin = gullible();
    let shoal = Setup::to(&origin).start();
    shoal.connect().ask(&with_all(Request::get("/a")), "SITE.test:80").expect_status(200);
    let fields = origin.last("/a").fields;
    assert_eq!(fields.all("x-forwarded-host"), ["site.test"], "the authority of the key");
    assert_eq!(fields.all("x-forwarded-proto"), ["http"]);
    assert_eq!(fields.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(fields.all("forwarded"), ["for=127.0.0.1;host=\"site.test\";proto=http"]);
}

#[test]
fn forward_mode_shares_no_poisoned_answer() {
    let origin = gullible();
    let shoal = Setup::bare().start();
    let url = |path: &str| format!("{}{path}", origin.url());
    shoal.ask_forward(&with_all(Request::get(&url("/a")))).expect_status(200);
    let lines = origin.last("/a").fields.lines();
    assert!(!lines.contains("evil.test"), "{lines}");
    // What nobody else is served goes on as it came.
    shoal.ask_forward(&with_all(Request::new("POST", &url("/b")).body(b"x"))).expect_status(200);
    assert_eq!(origin.last("/b").fields.first("x-forwarded-for"), Some("evil.test"));
}

/// A node behind a proxy on this machine, which is trusted.
fn behind_a_proxy(origin: &Origin, more: &str) -> Shoal {
    let listen = format!("mode = 'reverse'\ntrusted_proxies = ['127.0.0.0/8', '10.0.0.0/8']\n{more}");
    Setup::to(origin).listen("behind", &listen).start()
}

/// Django and others send whoever came over http to https; behind a terminator that was without
/// end.
#[test]
fn a_terminators_scheme_reaches_the_origin_and_the_key() {
    let origin = gullible();
    let shoal = behind_a_proxy(&origin, "");
    let mut connection = Connection::open(shoal.address("behind"));
    let over = |scheme: &str| Request::get("/a").field("X-Forwarded-Proto", scheme);
    for (number, scheme) in ["https", "http", "https", "http"].iter().enumerate() {
        let said = body(&mut connection, &over(scheme));
        assert!(said.to_lowercase().contains(&format!("x-forwarded-proto: {scheme}")), "{number}: {said}");
        assert!(said.contains(&format!("proto={scheme}")), "{number}: {said}");
    }
    assert_eq!(origin.count("/a"), 2, "a key for each scheme, and hits after");
    let forwarded = Request::get("/a").field("Forwarded", "for=203.0.113.7;proto=https");
    connection.ask(&forwarded, "site.test").expect_hit();
    let log = shoal.access_log(5);
    assert!(log[0].contains("https://site.test/a") && log[1].contains("http://site.test/a"), "{log:?}");
    // From others it is nothing.
    let said = body(&mut shoal.connect(), &over("https"));
    assert!(!said.contains("https"), "{said}");
}

#[test]
fn the_rightmost_untrusted_address_is_the_client() {
    let origin = gullible();
    let shoal = behind_a_proxy(&origin, "allow_clients = ['203.0.113.0/24']");
    let ask = |path: &str, addresses: &str| {
        let request =
            Request::get(path).field("X-Forwarded-For", addresses).field("X-Real-IP", "198.51.100.9");
        Connection::open(shoal.address("behind")).ask(&request, "site.test")
    };
    for path in ["/a", "/a", "/b"] {
        ask(path, "198.51.100.9, 203.0.113.7, 10.0.0.2").expect_status(200);
        ask(path, "203.0.113.7, 198.51.100.9").expect_status(403);
        ask(path, "").expect_status(403);
    }
    let fields = origin.last("/a").fields;
    assert_eq!(members(&fields.joined("x-forwarded-for")), ["203.0.113.7", "10.0.0.2", "127.0.0.1"]);
    assert_eq!(fields.all("x-real-ip"), ["203.0.113.7"]);
    assert!(!fields.lines().contains("198.51.100.9"), "{}", fields.lines());
    let log = shoal.access_log(9);
    assert_eq!(log.iter().filter(|line| line.contains("\"client\":\"203.0.113.7\"")).count(), 3, "{log:?}");
}

#[test]
fn no_stored_answer_comes_of_what_a_proxy_says_of_a_user() {
    let origin = gullible();
    let shoal = behind_a_proxy(&origin, "");
    let mut connection = Connection::open(shoal.address("behind"));
    let by = |user: &str| Request::get("/a").field("X-Forwarded-User", user);
    for user in ["alice", "bob", "alice"] {
        let said = body(&mut connection, &by(user));
        assert!(said.contains(user), "{said}");
    }
    let said = body(&mut connection, &Request::get("/a"));
    assert!(!said.contains("alice") && !said.contains("bob"), "{said}");
    for user in ["bob", "alice"] {
        assert!(body(&mut connection, &by(user)).contains(user));
    }
    assert_eq!(origin.count("/a"), 6);
}

/// Responses that differ by who asks are told apart by the address that the origin was told.
#[test]
fn variants_by_address_are_the_clients_own() {
    let origin = Origin::start();
    origin.on_request("/*", |received| {
        Answer::fresh(received.fields.joined("x-forwarded-for"), 600).field("Vary", "X-Forwarded-For")
    });
    let shoal = behind_a_proxy(&origin, "");
    let mut connection = Connection::open(shoal.address("behind"));
    for client in ["203.0.113.7", "203.0.113.8", "203.0.113.7", "203.0.113.8"] {
        let request = Request::get("/a").field("X-Forwarded-For", client);
        assert_eq!(body(&mut connection, &request), format!("{client}, 127.0.0.1"));
    }
    assert_eq!(origin.count("/a"), 2);
}
