//! The edge towards clients: redirects to https, and the versions and suites of TLS.

use shoal_testkit::certificates::Authority;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup};

const CHALLENGE: &str = "/.well-known/acme-challenge/token-1_A";

#[test]
fn clients_of_http_are_sent_to_https() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    origin.on("/a?b=c", Answer::fresh("body", 600));
    origin.on(CHALLENGE, Answer::ok("token.thumbprint"));
    let site = format!("hosts = ['a.test']\nupstreams = [{{ url = 'http://{}' }}]", origin.address());
    let setup = Setup::bare().site(&site);
    let shoal = setup
        .listen("redirecting", "mode = 'reverse'\nredirect_https = 8443\ntrusted_proxies = ['127.0.0.0/8']")
        .start();
    let ask =
        |request: &Request, host: &str| Connection::open(shoal.address("redirecting")).ask(request, host);
    for (host, path, to) in [
        ("a.test", "/a?b=c", "https://a.test:8443/a?b=c"),
        ("A.test:8080", "/a", "https://a.test:8443/a"),
        ("a.test", "/a//b/%2e%2e/c", "https://a.test:8443/a//b/%2e%2e/c"),
        ("a.test", "/.well-known/acme-challenge/../a", "https://a.test:8443/.well-known/acme-challenge/../a"),
        ("a.test", "//other.test/", "https://a.test:8443//other.test/"),
    ] {
        for method in ["GET", "HEAD", "POST"] {
            let answer = ask(&Request::new(method, path), host);
            assert_eq!((answer.status, answer.field("location")), (308, Some(to)), "{method}");
            assert_eq!(answer.field("cache-control"), Some("no-store"));
        }
    }
    // No site has the host: nobody is sent there.
    for host in ["other.test", "a.test.other.test", "other.test:443"] {
        let answer = ask(&Request::get("/a"), host);
        assert!(answer.status >= 400 && answer.field("location").is_none(), "{host} {}", answer.status);
    }
    let forged =
        Request::get("/a").field("X-Forwarded-Host", "other.test").field("Forwarded", "host=other.test");
    assert_eq!(ask(&forged, "a.test").field("location"), Some("https://a.test:8443/a"));
    ask(&Request::get(CHALLENGE), "a.test").expect_body("token.thumbprint");
    assert_eq!(origin.count("/a"), 0, "nothing but the challenge got to the origin");
    // A proxy in front speaks https with the client, also once the answer is stored.
    let told = Request::get("/a").field("X-Forwarded-Proto", "https");
    for _ in 0..2 {
        ask(&told, "a.test").expect_body("body");
    }
    assert_eq!(ask(&Request::get("/a"), "a.test").status, 308);
}

#[test]
fn listeners_take_the_versions_that_are_set() {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    let authority = Authority::new();
    let setup = Setup::to(&origin);
    authority.issue(&["a.test"]).write(setup.folder(), "a.test");
    let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
    let (pem, key) = (file("a.test.pem"), file("a.test.key"));
    let listen =
        |more: &str| format!("mode = 'reverse'\ntls = [{{ certificate = '{pem}', key = '{key}' }}]\n{more}");
    let shoal = setup
        .listen("default", &listen(""))
        .listen("new", &listen("tls_min_version = '1.3'"))
        .listen("old", &listen("tls_ciphers = ['TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256']"))
        .listen("curve", &listen("tls_groups = ['secp384r1']"))
        .start();
    let version_12 = |name: &str| {
        let config = authority.client(&[]);
        let provider = std::sync::Arc::clone(config.crypto_provider());
        let only = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS12])
            .expect("a version")
            .with_root_certificates(authority.roots())
            .with_no_client_auth();
        served(shoal.address(name), only.into())
    };
    let any = |name: &str| served(shoal.address(name), authority.client(&[]));
    assert!(any("default") && any("new") && any("old") && any("curve"));
    assert!(version_12("default") && version_12("old"));
    assert!(!version_12("new"), "TLS 1.2 is refused");
}

/// Returns `true` if a client with this setup gets an answer.
fn served(address: std::net::SocketAddr, config: std::sync::Arc<rustls::ClientConfig>) -> bool {
    let mut client = Connection::open_tls(address, "a.test", config);
    client.send(Request::get("/a").to_bytes("a.test"));
    client.try_response("GET").is_ok_and(|answer| answer.status == 200)
}
