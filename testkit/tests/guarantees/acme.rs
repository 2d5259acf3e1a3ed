//! Certificates that the node orders itself: the first, a renewal, a restart, and their traces in status.

use rustls::ClientConfig;
use shoal_testkit::acme::{AcmeAuthority, Fault};
use shoal_testkit::certificates::Authority;
use shoal_testkit::{Answer, Connection, Origin, Request, Setup, Shoal, wait};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings with an order for `names` at the listener `secured`, from this authority.
pub(crate) fn ordering(authority: &AcmeAuthority, origin: &Origin, names: &[&str]) -> Setup {
    let setup = Setup::bare()
        .site(&format!("hosts = ['*']\nupstreams = [{{ url = '{}' }}]", origin.url()))
        .listen("plain", "mode = 'reverse'")
        .listen("secured", &format!("mode = 'reverse'\nacme = [{{ names = {names:?} }}]"));
    let roots = setup.file("ca.pem", &authority.signer().pem()).to_string_lossy().into_owned();
    let folder = setup.folder().join("acme").to_string_lossy().into_owned();
    authority.looks_at(setup.address("plain"), setup.address("secured"));
    setup
        .set("acme.directory", authority.directory())
        .set("acme.terms_agreed", true)
        .set("acme.ca_file", roots)
        .set("acme.folder", folder)
        .set("acme.retry", "1s")
}

pub(crate) fn origin() -> Origin {
    let origin = Origin::start();
    origin.on("/a", Answer::fresh("body", 600));
    origin
}

/// Returns `true` if a client that trusts the authority gets an answer.
pub(crate) fn is_served(shoal: &Shoal, authority: &AcmeAuthority, name: &str) -> bool {
    certificate(shoal.address("secured"), authority.signer().client(&[]), name).is_some()
}

/// Asks over TLS. Gives the certificate shown, if the client accepts it and gets an answer.
fn certificate(address: SocketAddr, config: Arc<ClientConfig>, name: &str) -> Option<Vec<u8>> {
    let server = rustls::pki_types::ServerName::try_from(name.to_owned()).ok()?;
    let session = rustls::ClientConnection::new(config, server).ok()?;
    let stream = std::net::TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(wait::LIMIT)).ok()?;
    let mut stream = rustls::StreamOwned::new(session, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).ok()?;
    }
    let shown = stream.conn.peer_certificates()?.first()?.to_vec();
    let mut client = Connection::over(Box::new(stream));
    client.send(Request::get("/a").to_bytes(name));
    client.try_response("GET").is_ok_and(|answer| answer.status == 200).then_some(shown)
}

/// Files of the orders, with their modes.
fn files(shoal: &Shoal) -> Vec<(PathBuf, u32)> {
    let entries = std::fs::read_dir(shoal.folder().join("acme")).expect("the node made it");
    let of = |entry: std::fs::DirEntry| {
        (entry.path(), entry.metadata().expect("it is there").permissions().mode() & 0o777)
    };
    entries.map(|entry| of(entry.expect("a readable folder"))).collect()
}

/// The end of the ordered certificate, as metrics tell it.
pub(crate) fn end(shoal: &Shoal) -> u64 {
    let page = shoal.ask_admin(&Request::get("/metrics")).text();
    let line = page.lines().find(|line| line.starts_with("shoal_certificate_not_after_seconds{"));
    let value = line.and_then(|line| line.rsplit(' ').next()).expect("a row");
    value.parse().expect("a number")
}

#[test]
fn first_certificate_comes_by_either_proof() {
    for challenge in ["http-01", "tls-alpn-01"] {
        let (authority, origin) = (AcmeAuthority::start(), origin());
        let shoal = ordering(&authority, &origin, &["a.test", "www.a.test"])
            .set("acme.challenge", challenge)
            .set("acme.contact", vec![toml::Value::from("mailto:web@a.test")])
            .start();
        wait::until("a certificate", || is_served(&shoal, &authority, "www.a.test"));
        assert!(is_served(&shoal, &authority, "a.test"));
        assert_eq!((authority.orders(), authority.accounts()), (1, 1), "{:?}", authority.problems());
        assert!(authority.problems().is_empty(), "{:?}", authority.problems());
        assert_eq!(origin.count("/.well-known/acme-challenge/*"), 0);
        shoal.expect_metric("shoal_acme_orders_total", "result=\"made\"", 1);
        assert!(end(&shoal) > 1_700_000_000);
        let files = files(&shoal);
        assert_eq!(files.len(), 4, "lock, account, certificate, attempts: {files:?}");
        assert!(files.iter().all(|(_, mode)| *mode == 0o600), "{files:?}");
        let told = shoal.status()["certificates"][0].clone();
        assert_eq!(
            (told["names"][0].as_str(), told["order"]["failures"].as_u64()),
            (Some("a.test"), Some(0))
        );
    }
}

/// A listener that wants certificates of its clients wants none of the authority.
#[test]
fn proof_needs_no_client_certificate() {
    let (authority, origin, own) = (AcmeAuthority::start(), origin(), Authority::new());
    let setup = ordering(&authority, &origin, &["a.test"]);
    let roots = setup.file("clients.pem", &own.pem()).to_string_lossy().into_owned();
    let body = format!("mode = 'reverse'\nacme = [{{ names = ['a.test'] }}]\nclient_ca = '{roots}'");
    let setup = setup.listen("guarded", &body).set("acme.challenge", "tls-alpn-01");
    authority.looks_at(setup.address("plain"), setup.address("guarded"));
    let shoal = setup.start();
    let ann = authority.signer().client_with(&[], &own.issue_client("ann", &[]));
    let ask = |config| certificate(shoal.address("guarded"), config, "a.test");
    wait::until("a certificate", || ask(ann.clone()).is_some());
    assert!(authority.problems().is_empty(), "{:?}", authority.problems());
    assert_eq!(ask(authority.signer().client(&[])), None, "other clients need theirs");
    assert_eq!(ask(authority.signer().client(&["acme-tls/1"])), None, "no proof is open");
}

#[test]
fn tokens_are_answered_before_redirects_and_lists() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let setup = ordering(&authority, &origin, &["a.test"]);
    let setup =
        setup.listen("closed", "mode = 'reverse'\nredirect_https = 443\nallow_clients = ['192.0.2.1/32']");
    authority.looks_at(setup.address("closed"), setup.address("secured"));
    let shoal = setup.start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    // Nothing is open any more: the path is one of the site's, and of its rules.
    let path = "/.well-known/acme-challenge/dG9rZW4tMC0wLW9mLXRoZS10ZXN0LWF1dGhvcml0eQ";
    let mut client = Connection::open(shoal.address("closed"));
    assert_eq!(client.ask(&Request::get(path), "a.test").status, 403);
    let mut client = Connection::open(shoal.address("plain"));
    assert_eq!(client.ask(&Request::get(path), "a.test").status, 404);
    assert_eq!(origin.count(path), 1, "it went on to the site");
}

#[test]
fn handshakes_fail_until_the_certificate_is_there() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.fault(Some(Fault::ServerError));
    let own = Authority::new();
    let setup = ordering(&authority, &origin, &["a.test"]);
    own.issue(&["b.test"]).write(setup.folder(), "b.test");
    let path = |end: &str| setup.folder().join(format!("b.test.{end}")).to_string_lossy().into_owned();
    let body = format!(
        "mode = 'reverse'\nacme = [{{ names = ['a.test'] }}]\ntls = [{{ certificate = '{}', key = '{}' }}]",
        path("pem"),
        path("key")
    );
    let shoal = setup.listen("both", &body).start();
    wait::until("a failure", || shoal.metric("shoal_acme_orders_total", "result=\"failed\"") > 0);
    assert!(!is_served(&shoal, &authority, "a.test"));
    assert_eq!(end(&shoal), 0, "no certificate has an end");
    // A listener with a certificate of the operator serves its names meanwhile.
    assert!(certificate(shoal.address("both"), own.client(&[]), "b.test").is_some());
    let mut plain = Connection::open(shoal.address("plain"));
    plain.ask(&Request::get("/a"), "a.test").expect_body("body");
    let order = shoal.status()["certificates"][0]["order"].clone();
    assert!(order["why"].as_str().expect("a reason").contains("told to fail"), "{order}");
    authority.fault(None);
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    wait::until("it is told", || end(&shoal) > 0);
    assert!(certificate(shoal.address("both"), authority.signer().client(&[]), "a.test").is_some());
    assert!(certificate(shoal.address("both"), own.client(&[]), "b.test").is_some());
}

#[test]
fn renewal_cuts_no_connection() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.lifetime(Duration::from_secs(12));
    let shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    let client = || authority.signer().client(&[]);
    let first = certificate(shoal.address("secured"), client(), "a.test").expect("served above");
    let mut kept = Connection::open_tls(shoal.address("secured"), "a.test", client());
    kept.ask(&Request::get("/a"), "a.test").expect_body("body");
    let mut served = 0;
    wait::until("a renewed certificate", || {
        kept.ask(&Request::get("/a"), "a.test").expect_body("body");
        let shown = certificate(shoal.address("secured"), client(), "a.test");
        served += 1;
        shown.expect("each client is served, before and after") != first
    });
    kept.ask(&Request::get("/a"), "a.test").expect_body("body");
    assert!(served > 10, "{served} clients came meanwhile");
    shoal.expect_metric("shoal_tls_failures_total", "", shoal.metric("shoal_tls_failures_total", ""));
    assert_eq!(shoal.metric("shoal_acme_orders_total", "result=\"failed\""), 0);
}

#[test]
fn restart_uses_the_kept_certificate() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let mut shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    authority.fault(Some(Fault::ServerError));
    shoal.restart();
    assert!(is_served(&shoal, &authority, "a.test"), "at once");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!((authority.orders(), authority.accounts()), (1, 1), "nothing was ordered again");
}

#[test]
fn silent_authority_leaves_the_old_certificate() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.lifetime(Duration::from_secs(30));
    let shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    let before = end(&shoal);
    authority.fault(Some(Fault::ServerError));
    wait::until("failures", || shoal.metric("shoal_acme_orders_total", "result=\"failed\"") > 1);
    assert!(is_served(&shoal, &authority, "a.test"));
    assert_eq!(end(&shoal), before);
    assert!(shoal.log().contains("no certificate has come; the old one stays"));
}

#[test]
fn lost_account_is_made_anew() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.lifetime(Duration::from_secs(9));
    let shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    authority.forget_accounts();
    wait::until("another account", || authority.accounts() > 1);
    wait::until("another certificate", || authority.issued() > 1);
    assert!(shoal.metric("shoal_acme_orders_total", "result=\"failed\"") >= 1);
}

#[test]
fn accounts_are_bound_to_a_key() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.bound_to("kid-1", b"a secret of the authority");
    let setup = ordering(&authority, &origin, &["a.test"]);
    let key = setup.file("eab", "YSBzZWNyZXQgb2YgdGhlIGF1dGhvcml0eQ==\n").to_string_lossy().into_owned();
    let shoal = setup.set("acme.binding_id", "kid-1").set("acme.binding_key_file", key).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    assert!(authority.problems().is_empty(), "{:?}", authority.problems());
}

#[test]
fn names_come_by_a_reload() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    let mut shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    shoal.change(|text| text.replace("names = [\"a.test\"]", "names = [\"a.test\", \"c.test\"]"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    wait::until("a certificate with the name", || is_served(&shoal, &authority, "c.test"));
    assert!(is_served(&shoal, &authority, "a.test"));
    assert_eq!(authority.orders(), 2);
}

#[test]
fn window_of_the_authority_moves_a_renewal() {
    let (authority, origin) = (AcmeAuthority::start(), origin());
    authority.lifetime(Duration::from_secs(3600));
    // Long past: renew at once, and not again and again.
    authority.suggests((1_600_000_000, 1_600_000_100));
    let shoal = ordering(&authority, &origin, &["a.test"]).start();
    wait::until("a certificate", || is_served(&shoal, &authority, "a.test"));
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(authority.issued(), 1, "a tenth of the lifetime passes first");
    assert!(authority.origin().received().iter().any(|it| it.target.starts_with("/renewal/")));
}
