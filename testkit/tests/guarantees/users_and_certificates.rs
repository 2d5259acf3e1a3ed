//! Users and client certificates that rules and listeners ask for, and tries to pass them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};
use shoal_testkit::certificates::Authority;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::{Answer, Connection, Origin, Request, Response, Setup, Shoal};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

const USERS: &str = "ann:secret\nbob:word\n";

fn basic(user_pass: &str) -> String {
    format!("Basic {}", STANDARD.encode(user_pass))
}

fn as_user(path: &str, user_pass: &str) -> Request {
    Request::get(path).field("Authorization", &basic(user_pass))
}

/// An origin that repeats the Authorization field and says that anyone may have its answers.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.on_request("/*", |request| {
        let said = request.fields.joined("Authorization");
        Answer::fresh(format!("body{said}"), 600).field("ETag", "\"a\"")
    });
    origin
}

/// A setup with these rules, in which `USERS` stands for the path of a file.
fn setup(origin: &Origin, rules: &str) -> Setup {
    let setup = Setup::to(origin);
    let path = setup.file("users", USERS).to_string_lossy().into_owned();
    let rules: toml::Table = rules.replace("USERS", &path).parse().expect("rules in TOML");
    setup.set("rule", rules["rule"].clone())
}

fn guarded(origin: &Origin) -> Shoal {
    let rule = "[[rule]]\nhosts = ['site.test']\npaths = ['/private/*']\nusers_file = 'USERS'\nrealm = 'the \"club\"'\n";
    setup(origin, rule).start()
}

#[test]
fn users_are_asked_for_and_share_answers() {
    let origin = origin();
    let shoal = guarded(&origin);
    let challenge = shoal.get("/private/a");
    challenge.expect_status(401);
    let expected = "Basic realm=\"the \\\"club\\\"\", charset=\"UTF-8\"";
    assert_eq!(challenge.field("WWW-Authenticate"), Some(expected));
    assert_eq!(challenge.cache().word("detail").as_deref(), Some("user"));
    for wrong in ["ann:word", "eve:secret", "ann:", ""] {
        shoal.ask(&as_user("/private/a", wrong)).expect_status(401);
    }
    assert_eq!(origin.total(), 0);
    shoal.ask(&as_user("/private/a", "ann:secret")).expect_body("body");
    shoal.ask(&as_user("/private/a", "bob:word")).expect_body("body").expect_hit();
    assert_eq!(origin.last("/private/a").fields.first("authorization"), None);
    shoal.ask(&as_user("/open", "ann:anything")).expect_body(format!("body{}", basic("ann:anything")));
    let log = shoal.access_log(8);
    assert!(log.iter().any(|line| line.contains("\"user\":\"ann\"")), "{log:?}");
    shoal.expect_metric("shoal_credentials_refused_total", "", 5);
}

/// The answer is in RAM, and no way to it goes past the question.
#[test]
fn no_way_to_a_hit_goes_past_the_users() {
    let origin = origin();
    let shoal = guarded(&origin);
    shoal.ask(&as_user("/private/a", "ann:secret")).expect_body("body");
    shoal.ask(&as_user("/private/a", "ann:secret")).expect_hit();
    let fetched = origin.total();
    for target in ["/private/a", "/%70rivate/a", "//private/a", "/x/../private/a", "/private/./a?q"] {
        for host in ["site.test", "SITE.test", "site.test:80", "site.test:8080", "site.test."] {
            shoal.connect().ask(&Request::get(target), host).expect_status(401);
        }
    }
    for request in [
        Request::get("http://site.test/private/a"),
        Request::new("POST", "/private/a").body(b"x"),
        Request::get("/private/a").field("Range", "bytes=0-1"),
        Request::get("/private/a").field("If-None-Match", "\"a\""),
        Request::get("/private/a").field("If-Match", "\"a\""),
        Request::get("/private/a").field("Cache-Control", "only-if-cached"),
        Request::get("/private/a").field("Connection", "Upgrade").field("Upgrade", "websocket"),
        Request::get("/private/a").field("Proxy-Authorization", &basic("ann:secret")),
        as_user("/private/a", "eve:x").field("Authorization", &basic("ann:secret")),
        as_user("/private/a", "ann:secret").field("Authorization", &basic("ann:secret")),
    ] {
        assert_eq!(shoal.ask(&request).status, 401, "{request:?}");
    }
    let mut head = shoal.connect();
    head.ask(&Request::new("HEAD", "/private/a"), "site.test").expect_status(401);
    let mut pipelined = shoal.connect();
    let (with, without) = (as_user("/private/a", "ann:secret"), Request::get("/private/a"));
    pipelined.send([with.to_bytes("site.test"), without.to_bytes("site.test")].concat());
    pipelined.response("GET").expect_body("body");
    pipelined.response("GET").expect_status(401);
    let mut h2 = H2Connection::open(shoal.address("reverse"));
    h2.ask(&with, "site.test").expect_body("body").expect_hit();
    h2.ask(&without, "site.test").expect_status(401);
    h2.ask(&Request::get("/%70rivate/a"), "site.test").expect_status(401);
    assert_eq!(origin.total(), fetched);
}

#[test]
fn forwarded_credentials_are_not_shared() {
    let origin = origin();
    let shoal = setup(&origin, "[[rule]]\nusers_file = 'USERS'\nforward_authorization = true\n").start();
    for user in ["ann:secret", "bob:word"] {
        shoal.ask(&as_user("/a", user)).expect_body(format!("body{}", basic(user)));
    }
    shoal.get("/a").expect_status(401);
}

#[test]
fn networks_and_users_combine() {
    let origin = origin();
    let rules = |networks: &str, satisfy: &str| {
        let rule = format!("[[rule]]\nusers_file = 'USERS'\nallow_clients = ['{networks}']\n{satisfy}\n");
        setup(&origin, &rule).start()
    };
    let (near, far) = ("127.0.0.0/8", "192.0.2.0/24");
    for (networks, satisfy, without, with) in [
        (near, "", 401, 200),
        (far, "", 403, 403),
        (near, "satisfy = 'any'", 200, 200),
        (far, "satisfy = 'any'", 401, 200),
    ] {
        let shoal = rules(networks, satisfy);
        let statuses = (shoal.get("/a").status, shoal.ask(&as_user("/a", "ann:secret")).status);
        assert_eq!(statuses, (without, with), "{networks} {satisfy}");
        assert_eq!(shoal.get("/a").status, without, "with the answer in RAM");
    }
}

#[test]
fn listeners_have_users_of_their_own() {
    let origin = origin();
    let setup = Setup::to(&origin);
    let path = setup.file("users", USERS).to_string_lossy().into_owned();
    let shoal = setup
        .listen("asking", &format!("mode = 'reverse'\nusers_file = '{path}'\nrealm = 'staff'"))
        .listen("proxy", &format!("mode = 'forward'\nusers_file = '{path}'"))
        .start();
    shoal.get("/a").expect_body("body");
    shoal.get("/a").expect_hit();
    let host = origin.address().to_string();
    let ask = |name: &str, request: &Request| -> Response {
        let host = if name == "proxy" { host.as_str() } else { "site.test" };
        Connection::open(shoal.address(name)).ask(request, host)
    };
    let refused = ask("asking", &Request::get("/a"));
    refused.expect_status(401);
    assert!(refused.field("WWW-Authenticate").is_some_and(|value| value.contains("staff")));
    ask("asking", &as_user("/a", "ann:secret")).expect_body("body").expect_hit();
    ask("asking", &as_user("/b", "bob:word")).expect_body("body");
    let url = format!("{}/c", origin.url());
    let refused = ask("proxy", &Request::get(&url));
    refused.expect_status(407);
    let proven = Request::get(&url).field("Proxy-Authorization", &basic("ann:secret"));
    ask("proxy", &proven).expect_body("body");
    assert_eq!(origin.last("/c").fields.first("proxy-authorization"), None);
    ask("proxy", &Request::get(&url)).expect_status(407);
}

#[test]
fn guesses_are_limited() {
    let origin = origin();
    let shoal = guarded(&origin);
    let guess = |number: u32| shoal.ask(&as_user("/private/a", &format!("ann:{number}"))).status;
    let refused = (0..30).map(guess).filter(|status| *status == 429).count();
    assert!(refused >= 10, "{refused} of 30 guesses");
    let limited = shoal.ask(&as_user("/private/a", "ann:wrong"));
    if limited.status == 429 {
        assert!(limited.number("Retry-After").is_some());
    }
    shoal.get("/private/a").expect_status(401);
    shoal.get("/open").expect_body("body");
    std::thread::sleep(std::time::Duration::from_millis(2200));
    shoal.ask(&as_user("/private/a", "ann:secret")).expect_body("body");
}

#[test]
fn users_are_read_again_on_reload() {
    let origin = origin();
    let shoal = guarded(&origin);
    shoal.ask(&as_user("/private/a", "ann:secret")).expect_body("body");
    std::fs::write(shoal.folder().join("users"), "bob:word\n").expect("writable");
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    shoal.ask(&as_user("/private/a", "ann:secret")).expect_status(401);
    std::fs::write(shoal.folder().join("users"), "no user\n").expect("writable");
    assert_eq!(shoal.ask_admin(&Request::new("POST", "/reload")).status, 422);
    shoal.ask(&as_user("/private/a", "bob:word")).expect_body("body").expect_hit();
}

/// A setup with a listener `tls` that asks for certificates of `authority`.
fn mutual(origin: &Origin, authority: &Authority, listen: &str, rules: &str) -> Setup {
    let setup = if rules.is_empty() { Setup::to(origin) } else { setup(origin, rules) };
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    setup.file("ca.pem", &authority.pem());
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let tls = format!("tls = [{{ certificate = '{}', key = '{}' }}]", file("a.test.pem"), file("a.test.key"));
    let listen = format!("mode = 'reverse'\n{tls}\nclient_ca = '{}'\n{listen}", file("ca.pem"));
    setup.listen("tls", &listen)
}

/// The status of a request on a new connection; none if the handshake or the connection fails.
fn status(address: SocketAddr, config: Arc<ClientConfig>, request: &Request) -> Option<u16> {
    let mut connection = Connection::open_tls(address, "a.test", config);
    connection.send(request.to_bytes("a.test"));
    connection.try_response(&request.method).ok().map(|response| response.status)
}

#[test]
fn no_connection_without_a_required_certificate() {
    let origin = origin();
    let (authority, foreign) = (Authority::new(), Authority::new());
    let shoal = mutual(&origin, &authority, "", "").start();
    let address = shoal.address("tls");
    let ask = |config| status(address, config, &Request::get("/a"));
    let own = authority.issue_client("ann", &[]);
    assert_eq!(ask(authority.client_with(&[], &own)), Some(200));
    assert_eq!(ask(authority.client(&[])), None);
    let stranger = foreign.issue_client("ann", &[]);
    assert_eq!(ask(authority.client_with(&[], &stranger)), None);
    let of_server = authority.issue(&["a.test"]);
    assert_eq!(ask(authority.client_with(&[], &of_server)), Some(200), "it names no purpose");
    assert_eq!(origin.count("/a"), 1);
    shoal.expect_metric("shoal_tls_failures_total", "", 2);
    let mut h2 = H2Connection::open_tls(address, "a.test", authority.client_with(&["h2"], &own));
    h2.ask(&Request::get("/a"), "a.test").expect_hit();
}

#[test]
fn rules_choose_among_certificates() {
    let origin = Origin::start();
    origin.on_request("/*", |request| Answer::ok(request.fields.joined("X-Client")));
    let authority = Authority::new();
    let rules = "[[rule]]\npaths = ['/builds/*']\nallow_certificates = ['CN=build-*', '*.clients.test']\n\
                 [[rule]]\nrequest_set = ['X-Client: $client_certificate']\n\
                 [[rule]]\npaths = ['/builds/*']\nlifetime = '10m'\n";
    let shoal = mutual(&origin, &authority, "client_certificate = 'optional'", rules).start();
    let address = shoal.address("tls");
    let build = authority.issue_client("build-7", &[]);
    let named = authority.issue_client("x", &["n1.clients.test"]);
    let other = authority.issue_client("ann", &["clients.test"]);
    let spoofed = Request::get("/builds/a").field("X-Client", "CN=admin");
    for (config, expected) in [
        (authority.client(&[]), 403),
        (authority.client_with(&[], &other), 403),
        (authority.client_with(&[], &named), 200),
        (authority.client_with(&[], &build), 200),
        (authority.client(&[]), 403),
    ] {
        assert_eq!(status(address, config, &spoofed), Some(expected));
    }
    shoal.connect().ask(&spoofed, "a.test").expect_status(403);
    for target in ["/%62uilds/a", "//builds/a", "/x/../builds/a"] {
        assert_eq!(status(address, authority.client(&[]), &Request::get(target)), Some(403), "{target}");
    }
    let subject = |config| {
        let request = Request::get("/who").field("X-Client", "CN=admin");
        Connection::open_tls(address, "a.test", config).ask(&request, "a.test").text()
    };
    assert_eq!(subject(authority.client_with(&[], &build)), "CN=build-7,O=Example\\, Inc");
    assert_eq!(subject(authority.client(&[])), "");
    let mut h2 = H2Connection::open_tls(address, "a.test", authority.client(&["h2"]));
    h2.ask(&Request::get("/builds/a"), "a.test").expect_status(403);
    let refused = shoal.connect().ask(&spoofed, "a.test");
    assert_eq!(refused.cache().word("detail").as_deref(), Some("certificate"));
}

/// Connects and asks once; says whether the session was resumed, and the answer's status.
fn resumed(address: SocketAddr, config: &Arc<ClientConfig>, path: &str) -> Option<(bool, u16)> {
    let name = ServerName::try_from("a.test").expect("a name");
    let session = ClientConnection::new(Arc::clone(config), name).expect("a sound configuration");
    let socket = TcpStream::connect(address).expect("the server accepts");
    let mut stream = StreamOwned::new(session, socket);
    stream.conn.complete_io(&mut stream.sock).ok()?;
    let is_resumed = stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
    let mut connection = Connection::over(Box::new(stream));
    connection.send(Request::get(path).to_bytes("a.test"));
    connection.try_response("GET").ok().map(|response| (is_resumed, response.status))
}

#[test]
fn resumed_sessions_keep_their_client() {
    let origin = origin();
    let authority = Authority::new();
    let rules = "[[rule]]\nallow_certificates = ['CN=ann']\n";
    let shoal = mutual(&origin, &authority, "client_certificate = 'optional'", rules).start();
    let address = shoal.address("tls");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let nobody = only(version, &authority, &authority.client(&[]));
        let ann = authority.client_with(&[], &authority.issue_client("ann", &[]));
        let ann = only(version, &authority, &ann);
        for (is_resumed, round) in [(false, 1), (true, 2), (true, 3)] {
            assert_eq!(resumed(address, &ann, "/a"), Some((is_resumed, 200)), "{version:?} {round}");
            assert_eq!(resumed(address, &nobody, "/a"), Some((is_resumed, 403)), "{version:?} {round}");
        }
    }
}

#[test]
fn old_authorities_end_with_a_reload() {
    let origin = origin();
    let (old, new) = (Authority::new(), Authority::new());
    let shoal = mutual(&origin, &old, "", "").start();
    let address = shoal.address("tls");
    let ann = old.client_with(&[], &old.issue_client("ann", &[]));
    let bob = old.client_with(&[], &new.issue_client("bob", &[]));
    assert_eq!(resumed(address, &ann, "/a"), Some((false, 200)));
    assert_eq!(resumed(address, &ann, "/a"), Some((true, 200)));
    assert_eq!(resumed(address, &bob, "/a"), None);
    std::fs::write(shoal.folder().join("ca.pem"), new.pem()).expect("writable");
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    assert_eq!(resumed(address, &ann, "/a"), None, "neither resumed nor anew");
    assert_eq!(resumed(address, &bob, "/a"), Some((false, 200)));
    std::fs::write(shoal.folder().join("ca.pem"), "nothing").expect("writable");
    assert_eq!(shoal.ask_admin(&Request::new("POST", "/reload")).status, 422);
    assert_eq!(resumed(address, &bob, "/a").map(|(_, status)| status), Some(200));
}

/// A client like `config` that speaks one version of TLS and keeps sessions of its own.
fn only(
    version: &'static rustls::SupportedProtocolVersion,
    authority: &Authority,
    config: &Arc<ClientConfig>,
) -> Arc<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("a certificate");
    roots.add(authority).expect("an authority is a root");
    let builder = ClientConfig::builder_with_provider(Arc::clone(config.crypto_provider()));
    let builder = builder.with_protocol_versions(&[version]).expect("ring speaks it");
    let mut own = builder.with_root_certificates(roots).with_no_client_auth();
    own.client_auth_cert_resolver = Arc::clone(&config.client_auth_cert_resolver);
    Arc::new(own)
}

#[test]
fn tunnels_want_users_and_keep_rates() {
    let origin = Origin::start();
    let address = origin.address();
    let host = address.ip();
    let rules = format!(
        "[[rule]]\nhosts = ['{host}']\nusers_file = 'USERS'\n\
         [[rule]]\nmethods = ['CONNECT']\nclient_rate = 0.01\nclient_burst = 2\n"
    );
    let ports = vec![i64::from(address.port())];
    let shoal = setup(&origin, &rules).set("forward.connect_ports", ports).start();
    let connect = Request::new("CONNECT", &address.to_string());
    let refused = shoal.ask_forward(&connect);
    refused.expect_status(407);
    assert!(refused.field("Proxy-Authenticate").is_some());
    let connect = connect.field("Proxy-Authorization", &basic("ann:secret"));
    let ask = || shoal.connect_forward().ask(&connect, &address.to_string());
    ask().expect_status(200);
    let limited = ask();
    limited.expect_status(429);
    assert!(limited.field("Retry-After").is_some());
}
