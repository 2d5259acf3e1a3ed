//! Reverse mode: the settings name the origins; upstreams learn who asked.

use shoal_testkit::fields::members;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::wait;
use shoal_testkit::{Answer, Connection, Gate, Origin, Request, Response, Setup, Shoal};

fn named(name: &str) -> Origin {
    let origin = Origin::start();
    origin.on("/*", Answer::ok(name).field("Cache-Control", "no-store"));
    origin
}

fn ask(shoal: &Shoal, host: &str, path: &str) -> Response {
    shoal.connect().ask(&Request::get(path), host)
}

#[test]
fn sites_are_chosen_by_host_name() {
    let (exact, below, any) = (named("exact"), named("below"), named("any"));
    let site = |host: &str, origin: &Origin| {
        format!("hosts = ['{host}']\nupstreams = [{{ url = '{}' }}]", origin.url())
    };
    let shoal = Setup::to(&any)
        .without_sites()
        .site(&site("example.test", &exact))
        .site(&site("*.example.test", &below))
        .site(&site("*", &any))
        .start();
    for (host, body) in [
        ("example.test", "exact"),
        ("EXAMPLE.test", "exact"),
        ("example.test:8080", "exact"),
        ("www.example.test", "below"),
        ("a.b.example.test", "below"),
        ("otherexample.test", "any"),
    ] {
        ask(&shoal, host, "/").expect_body(body);
    }
}

#[test]
fn a_host_without_a_site_is_not_served() {
    let origin = named("here");
    let shoal = Setup::to(&origin)
        .without_sites()
        .site(&format!("hosts = ['here.test']\nupstreams = [{{ url = '{}' }}]", origin.url()))
        .start();
    ask(&shoal, "here.test", "/").expect_body("here");
    let response = ask(&shoal, "elsewhere.test", "/");
    assert!(matches!(response.status, 404 | 421), "{}", response.status);
    assert_eq!(origin.total(), 1);
}

#[test]
fn the_longest_path_prefix_wins() {
    let (root, api, deep) = (named("root"), named("api"), named("deep"));
    let site = |prefix: &str, origin: &Origin| {
        format!("hosts = ['*']\npath_prefix = '{prefix}'\nupstreams = [{{ url = '{}' }}]", origin.url())
    };
    let shoal = Setup::to(&root)
        .without_sites()
        .site(&site("/", &root))
        .site(&site("/api/", &api))
        .site(&site("/api/deep/", &deep))
        .start();
    for (path, body) in [("/x", "root"), ("/api/x", "api"), ("/api/deep/x", "deep"), ("/apix", "root")] {
        ask(&shoal, "site.test", path).expect_body(body);
    }
    assert_eq!(api.last("/api/x").target, "/api/x", "the prefix chooses, and is not taken off");
}

#[test]
fn upstreams_learn_who_asked() {
    let origin = named("x");
    let shoal = Setup::to(&origin).start();
    let request =
        Request::get("/a").field("X-Forwarded-For", "203.0.113.9").field("X-Forwarded-Proto", "https");
    shoal.ask(&request).expect_status(200);
    let received = origin.last("/a").fields;
    let chain = members(&received.joined("x-forwarded-for"));
    assert_eq!(chain.last().map(String::as_str), Some("127.0.0.1"), "{chain:?}");
    assert_eq!(received.first("x-forwarded-host"), Some("site.test"));
    assert_eq!(members(&received.joined("x-forwarded-proto")).last().map(String::as_str), Some("http"));
    let forwarded = members(&received.joined("forwarded")).pop().unwrap_or_default();
    let mut parameters: Vec<_> = forwarded.split(';').map(|pair| pair.trim().replace('"', "")).collect();
    parameters.retain(|pair| !pair.starts_with("by="));
    parameters.sort();
    assert_eq!(parameters, ["for=127.0.0.1", "host=site.test", "proto=http"], "RFC 7239 section 4");
    assert_eq!(received.first("host"), Some("site.test"), "Host is kept unless the site says otherwise");
}

#[test]
fn a_site_may_ask_upstreams_by_their_own_name() {
    let origin = named("x");
    let url = origin.url();
    let shoal = Setup::to(&origin)
        .without_sites()
        .site(&format!("hosts = ['*']\npreserve_host = false\nupstreams = [{{ url = '{url}' }}]"))
        .start();
    ask(&shoal, "site.test", "/a").expect_status(200);
    let received = origin.last("/a").fields;
    assert_eq!(received.first("host"), Some(origin.address().to_string().as_str()));
    assert_eq!(received.first("x-forwarded-host"), Some("site.test"));
}

const PROXY: &str = "mode = 'reverse'\nproxy_protocol_from = ['127.0.0.0/8']";

/// The PROXY protocol's version 2 header: signature, version and command, family, length,
/// addresses.
fn version_2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x20 | command, family]);
    header.extend((addresses.len() as u16).to_be_bytes());
    header.extend(addresses);
    header
}

#[test]
fn the_proxy_protocol_names_the_client() {
    let origin = named("x");
    let shoal = Setup::to(&origin).listen("proxied", PROXY).start();
    let v4 = version_2(1, 0x11, &[192, 0, 2, 8, 192, 0, 2, 1, 0x10, 0, 0, 80]);
    let mut v6_addresses = [0; 36];
    v6_addresses[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    v6_addresses[15] = 9;
    let with_extension = version_2(1, 0x11, &[192, 0, 2, 10, 192, 0, 2, 1, 0x10, 0, 0, 80, 0x04, 0, 1, 0]);
    let cases: [(Vec<u8>, &str); 7] = [
        (b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 80\r\n".to_vec(), "192.0.2.7"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::1 4000 80\r\n".to_vec(), "2001:db8::7"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (v4, "192.0.2.8"),
        (version_2(1, 0x21, &v6_addresses), "2001:db8::9"),
        (version_2(0, 0x00, &[]), "127.0.0.1"),
        (with_extension, "192.0.2.10"),
    ];
    for (number, (header, client)) in cases.iter().enumerate() {
        let path = format!("/{number}");
        let mut connection = Connection::open(shoal.address("proxied"));
        connection.send(header);
        connection.ask(&Request::get(&path), "site.test").expect_body("x");
        let chain = members(&origin.last(&path).fields.joined("x-forwarded-for"));
        assert_eq!(
            chain.last().map(|member| member.trim_matches(['[', ']', '"'])),
            Some(*client),
            "{number}"
        );
        assert_eq!(connection.ask(&Request::get(&path), "site.test").status, 200, "the header comes once");
    }
    let log = shoal.access_log(cases.len());
    assert!(log.iter().any(|line| line.contains("192.0.2.7")), "{log:?}");
}

#[test]
fn a_broken_proxy_protocol_header_reaches_nobody() {
    let origin = named("x");
    let shoal = Setup::to(&origin).listen("proxied", PROXY).start();
    let get = "GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n";
    let mut long = version_2(1, 0x11, &[0; 12]);
    long[14..16].copy_from_slice(&0xffff_u16.to_be_bytes());
    let cases: [Vec<u8>; 7] = [
        get.into(),
        format!("PROXY TCP4 192.0.2.7 192.0.2.1 4000\r\n{get}").into(),
        format!("PROXY TCP4 nonsense 192.0.2.1 4000 80\r\n{get}").into(),
        format!("PROXY TCP4 192.0.2.7 192.0.2.1 4000 99999\r\n{get}").into(),
        format!("PROXY {}\r\n{get}", "x".repeat(120)).into(),
        [version_2(1, 0x11, &[1, 2, 3]), get.into()].concat(),
        [version_2(7, 0x11, &[0; 12]), get.into()].concat(),
    ];
    for case in &cases {
        let mut connection = Connection::open(shoal.address("proxied"));
        connection.send(case);
        let (bytes, _) = connection.everything();
        assert!(!bytes.starts_with(b"HTTP/1.1 2"), "{:?}", String::from_utf8_lossy(case));
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn a_proxy_protocol_header_from_elsewhere_is_a_bad_request() {
    let origin = named("x");
    let listen = "mode = 'reverse'\nproxy_protocol_from = ['192.0.2.0/24']";
    let shoal = Setup::to(&origin).listen("proxied", listen).start();
    for listener in ["proxied", "reverse"] {
        let mut connection = Connection::open(shoal.address(listener));
        connection
            .send("PROXY TCP4 192.0.2.7 192.0.2.1 4000 80\r\nGET /a HTTP/1.1\r\nHost: site.test\r\n\r\n");
        assert_eq!(connection.response("GET").status, 400, "{listener}");
    }
    assert_eq!(origin.total(), 0);
}

#[test]
fn weights_share_out_the_requests() {
    let (heavy, light) = (named("heavy"), named("light"));
    let (heavy_url, light_url) = (heavy.url(), light.url());
    let shoal = Setup::to(&heavy)
        .without_sites()
        .set("workers", 1)
        .site(&format!(
            "hosts = ['*']\nupstreams = [{{ url = '{heavy_url}', weight = 3 }}, {{ url = '{light_url}', weight = 1 }}]"
        ))
        .start();
    for request in 0..40 {
        ask(&shoal, "site.test", &format!("/{request}")).expect_status(200);
    }
    assert_eq!((heavy.total(), light.total()), (30, 10));
}

#[test]
fn a_hashed_site_keeps_each_url_with_one_upstream() {
    let origins = [named("a"), named("b"), named("c")];
    let urls: Vec<_> = origins.iter().map(|origin| format!("{{ url = '{}' }}", origin.url())).collect();
    let shoal = Setup::to(&origins[0])
        .without_sites()
        .site(&format!("hosts = ['*']\nbalance = 'hash'\nupstreams = [{}]", urls.join(", ")))
        .start();
    let bodies =
        || (0..30).map(|path| ask(&shoal, "site.test", &format!("/{path}")).text()).collect::<Vec<_>>();
    assert_eq!(bodies(), bodies());
    assert!(origins.iter().all(|origin| origin.total() > 0), "thirty URLs spread over three upstreams");
}

#[test]
fn an_upstream_that_fails_its_checks_is_left_out_until_it_recovers() {
    let (good, flaky) = (named("good"), named("flaky"));
    good.on("/health", Answer::new(200));
    flaky.on("/health", Answer::new(503));
    let shoal = Setup::to(&good)
        .without_sites()
        .site(&format!(
            "hosts = ['*']\nhealth = {{ path = '/health', interval = '100ms', threshold = 2 }}\nupstreams = [{{ url = '{}' }}, {{ url = '{}' }}]",
            good.url(),
            flaky.url()
        ))
        .start();
    let healthy = || {
        let status = shoal.status();
        let upstreams = status["upstreams"].as_array().cloned().unwrap_or_default();
        upstreams.iter().filter(|upstream| upstream["healthy"] == true).count()
    };
    wait::until("the flaky upstream is taken out", || healthy() == 1);
    for request in 0..10 {
        ask(&shoal, "site.test", &format!("/out/{request}")).expect_body("good");
    }
    flaky.on("/health", Answer::new(204));
    wait::until("the flaky upstream comes back", || healthy() == 2);
    let answered = |name: &str| {
        (0..10).filter(|request| ask(&shoal, "site.test", &format!("/in/{request}")).text() == name).count()
    };
    assert!(answered("flaky") > 0);
}

/// Checks may be wrong; and when they are not, the error is the same as without asking.
#[test]
fn when_every_upstream_is_out_one_is_asked_nevertheless() {
    let origin = named("still here");
    origin.on("/health", Answer::new(500));
    let shoal = Setup::to(&origin)
        .without_sites()
        .site(&format!(
            "hosts = ['*']\nhealth = {{ path = '/health', interval = '100ms', threshold = 1 }}\nupstreams = [{{ url = '{}' }}]",
            origin.url()
        ))
        .start();
    wait::until("the upstream is taken out", || shoal.status()["upstreams"][0]["healthy"] == false);
    ask(&shoal, "site.test", "/a").expect_body("still here");
}

/// HTTP/2 clients name the host in `:authority` and send no Host field; upstreams are told all the
/// same.
#[test]
fn upstreams_learn_the_host_that_an_http_2_client_asked_for() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 60));
    let shoal = Setup::to(&origin).start();
    let mut client = H2Connection::open(shoal.address("reverse"));
    client.ask(&Request::get("/a"), "Site.test:8080").expect_body("body");
    let received = origin.last("/a").fields;
    assert_eq!(received.first("x-forwarded-host"), Some("site.test:8080"));
    let forwarded = received.first("forwarded").unwrap_or_default().to_owned();
    assert!(forwarded.contains(";host=\"site.test:8080\";"), "{forwarded}");
}

/// Its checks wait for no connection that requests hold: to take out who is busy would leave the
/// others with more.
#[test]
fn an_upstream_whose_connections_are_all_in_use_is_not_taken_out() {
    let origin = named("busy");
    origin.on("/health", Answer::new(200));
    let gate = Gate::new();
    origin.on("/slow", Answer::ok("slow").held_by(&gate));
    let shoal = Setup::to(&origin)
        .without_sites()
        .set("upstream.connections_per_origin", 1)
        .site(&format!(
            "hosts = ['*']\nhealth = {{ path = '/health', interval = '100ms', threshold = 2 }}\nupstreams = [{{ url = '{}' }}]",
            origin.url()
        ))
        .start();
    let mut busy = shoal.connect();
    busy.send(Request::get("/slow").to_bytes("site.test"));
    origin.wait_for("/slow", 1);
    let checks = origin.count("/health");
    wait::until("some more checks", || origin.count("/health") > checks + 3);
    assert_eq!(shoal.status()["upstreams"][0]["healthy"], true);
    assert_eq!(shoal.metric("shoal_upstream_checks_failed_total", ""), 0);
    gate.open();
    busy.response("GET").expect_body("slow");
}
