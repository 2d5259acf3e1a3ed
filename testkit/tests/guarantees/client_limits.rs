//! Limits of clients: requests a second by rule, connections at once by listener.

use shoal_testkit::h2::H2Connection;
use shoal_testkit::{Answer, Connection, Origin, Request, Response, Setup, Shoal, wait};

/// A reverse proxy for `origin` with these rules; a second listener believes X-Forwarded-For.
fn shoal(origin: &Origin, rules: &str) -> Shoal {
    let rules: toml::Table = rules.parse().expect("rules in TOML");
    Setup::to(origin)
        .set("rule", rules["rule"].clone())
        .listen("behind", "mode = 'reverse'\ntrusted_proxies = ['127.0.0.0/8']")
        .start()
}

fn origin() -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |_| Answer::fresh("body", 600).field("ETag", "\"a\""));
    origin
}

fn from(shoal: &Shoal, client: &str, path: &str) -> Response {
    let request = Request::get(path).field("X-Forwarded-For", client);
    Connection::open(shoal.address("behind")).ask(&request, "site.test")
}

#[test]
fn rate_holds_for_misses_and_hits_in_ram() {
    let origin = origin();
    let shoal = shoal(&origin, "[[rule]]\nclient_rate = 0.01\nclient_burst = 3\n");
    assert!(!shoal.get("/a").hit());
    shoal.get("/a").expect_body("body").expect_hit();
    shoal.get("/a").expect_body("body").expect_hit();
    let refused = shoal.get("/a");
    refused.expect_status(429);
    let wait = refused.number("Retry-After").expect("a time to wait");
    assert!((50..=100).contains(&wait), "{wait}");
    assert_eq!(refused.cache().word("detail").as_deref(), Some("client-rate"));
    assert_eq!(refused.proxy().word("error").as_deref(), Some("http_request_denied"));
    for path in ["/a", "/b", "/c"] {
        shoal.get(path).expect_status(429);
    }
    assert_eq!(origin.total(), 1);
    shoal.expect_metric("shoal_limited_total", "limit=\"client_rate\"", 4);
    shoal.expect_responses("memory_hit", 2);
    assert_eq!(shoal.log().matches("setting=\"client_rate\"").count(), 1, "{}", shoal.log());
}

#[test]
fn each_network_and_each_rule_has_its_own_bucket() {
    let origin = origin();
    let rules = "[[rule]]\npaths = ['/a*']\nclient_rate = 0.01\nclient_burst = 1\n\
                 [[rule]]\npaths = ['/b*']\nclient_rate = 0.01\nclient_burst = 2\n";
    let shoal = shoal(&origin, rules);
    for (client, path, status) in [
        ("192.0.2.1", "/a", 200),
        ("192.0.2.1", "/a", 429),
        ("192.0.2.2", "/a", 200),
        ("192.0.2.1", "/b", 200),
        ("192.0.2.1", "/b", 200),
        ("192.0.2.1", "/b", 429),
        ("192.0.2.1", "/free", 200),
        ("2001:db8::1", "/a", 200),
        ("2001:db8::2", "/a", 429),
        ("2001:db8:0:1::1", "/a", 200),
    ] {
        from(&shoal, client, path).expect_status(status);
    }
}

/// Each spelling and each kind of request takes from the one bucket, which is empty.
#[test]
fn no_spelling_or_kind_of_request_is_free() {
    let origin = origin();
    let rules =
        "[[rule]]\nhosts = ['site.test']\npaths = ['/limited/*']\nclient_rate = 0.001\nclient_burst = 1\n";
    let shoal = shoal(&origin, rules);
    let ask = |request: &Request, host: &str| shoal.connect().ask(request, host);
    ask(&Request::get("/limited/a"), "site.test").expect_body("body");
    for target in ["/limited/a", "/%6cimited/a", "//limited/a", "/x/../limited/a", "/./limited/a?q=1"] {
        for host in ["site.test", "SITE.TEST", "site.test:8080", "site.test."] {
            ask(&Request::get(target), host).expect_status(429);
        }
    }
    let absolute = Request::get("http://site.test/limited/a");
    ask(&absolute, "site.test").expect_status(429);
    for request in [
        Request::new("HEAD", "/limited/a"),
        Request::new("POST", "/limited/a").body(b"x"),
        Request::get("/limited/a").field("Range", "bytes=0-1"),
        Request::get("/limited/a").field("If-None-Match", "\"a\""),
        Request::get("/limited/a").field("Cache-Control", "only-if-cached"),
        Request::get("/limited/a").field("Connection", "Upgrade").field("Upgrade", "websocket"),
    ] {
        assert_eq!(ask(&request, "site.test").status, 429, "{request:?}");
    }
    let mut pipelined = shoal.connect();
    pipelined.send(Request::get("/limited/a").to_bytes("site.test").repeat(3));
    for _ in 0..3 {
        pipelined.response("GET").expect_status(429);
    }
    let mut h2 = H2Connection::open(shoal.address("reverse"));
    let requests = [Request::get("/limited/a"), Request::new("HEAD", "/%6Cimited/a")];
    assert!(h2.ask_all(&requests, "site.test").iter().all(|response| response.status == 429));
    assert_eq!(origin.total(), 1);
    ask(&Request::get("/free"), "site.test").expect_body("body");
}

#[test]
fn rate_by_method_counts_that_method() {
    let origin = origin();
    let shoal = shoal(&origin, "[[rule]]\nmethods = ['POST']\nclient_rate = 0.01\nclient_burst = 1\n");
    for _ in 0..3 {
        shoal.get("/a").expect_body("body");
    }
    let post = Request::new("POST", "/a").body(b"x");
    shoal.ask(&post).expect_status(200);
    shoal.ask(&post).expect_status(429);
    shoal.get("/a").expect_status(200);
}

#[test]
fn buckets_outlive_a_reload() {
    let origin = origin();
    let shoal = shoal(&origin, "[[rule]]\nclient_rate = 0.001\nclient_burst = 1\n");
    shoal.get("/a").expect_body("body");
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    shoal.get("/a").expect_status(429);
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let origin = origin();
    let shoal = Setup::to(&origin).listen("few", "mode = 'reverse'\nclient_connections = 2").start();
    let open = || Connection::open(shoal.address("few"));
    let ask = |connection: &mut Connection| {
        connection.send(Request::get("/a").to_bytes("site.test"));
        connection.try_response("GET").map(|response| response.status)
    };
    let (mut first, mut second) = (open(), open());
    assert_eq!((ask(&mut first), ask(&mut second)), (Ok(200), Ok(200)));
    for _ in 0..3 {
        assert!(ask(&mut open()).is_err());
    }
    shoal.expect_metric("shoal_limited_total", "limit=\"client_connections\"", 3);
    assert_eq!(shoal.log().matches("setting=\"client_connections\"").count(), 1, "{}", shoal.log());
    assert_eq!(ask(&mut first), Ok(200), "an open connection goes on");
    drop(second);
    wait::until("a place is free", || ask(&mut open()) == Ok(200));
    shoal.get("/a").expect_status(200);
}

#[test]
fn proxy_protocol_names_whom_connections_count_for() {
    let origin = origin();
    let listen = "mode = 'reverse'\nclient_connections = 1\nproxy_protocol_from = ['127.0.0.0/8']";
    let shoal = Setup::to(&origin).listen("proxied", listen).start();
    let open = |client: &str| {
        let mut connection = Connection::open(shoal.address("proxied"));
        connection.send(format!("PROXY TCP4 {client} 192.0.2.1 4000 80\r\n"));
        connection.send(Request::get("/a").to_bytes("site.test"));
        let status = connection.try_response("GET").map(|response| response.status);
        (connection, status)
    };
    let (held, first) = open("192.0.2.7");
    let (_other, other) = open("192.0.2.8");
    assert_eq!((first, other), (Ok(200), Ok(200)));
    assert!(open("192.0.2.7").1.is_err());
    drop(held);
    wait::until("its place is free", || open("192.0.2.7").1 == Ok(200));
}
