//! Interception: an authority for too much, clients that mix up hosts, and origins whose
//! certificate nobody vouches for.

use rustls::client::Resumption;
use shoal_testkit::certificates::Authority;
use shoal_testkit::h2::H2Connection;
use shoal_testkit::interception::{connect, inside, over, root, shoal as run, trusting};
use shoal_testkit::registry::{NpmVersion, npm_document};
use shoal_testkit::{Answer, Origin, Request, Resource, Setup, Shoal};
use std::sync::Arc;

/// An empty name among the constraints of a certificate permits every name.
#[test]
fn authority_binds_each_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for hosts in ["", "a.test,", ",a.test", "*.", "a.test, ,b.test"] {
        let made = run(folder.path(), &["ca", "init", "--folder", "ca", "--hosts", hosts]);
        assert_eq!(made.status.code(), Some(2), "{hosts:?}: {}", String::from_utf8_lossy(&made.stdout));
        assert!(!folder.path().join("ca").exists(), "{hosts:?}");
    }
}

/// Two https hosts, `localhost` and `b.localhost`, both intercepted.
fn two_hosts() -> (Origin, Shoal, Arc<rustls::ClientConfig>) {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["localhost", "b.localhost"]));
    origin.on("/a", Answer::fresh("body", 60));
    let setup = Setup::bare();
    let trusted = setup.file("origins.pem", &authority.pem()).to_string_lossy().into_owned();
    let hosts = ["localhost", "b.localhost"];
    let shoal = setup
        .intercepting(&hosts, &[origin.address().port()], &hosts)
        .set("upstream.ca_file", trusted)
        .start();
    let config = trusting(&root(shoal.folder()), &[]);
    (origin, shoal, config)
}

/// A session of one host opens no connection to another.
#[test]
fn sessions_stay_with_their_host() {
    let (origin, shoal, config) = two_hosts();
    let mut config = (*config).clone();
    config.resumption = Resumption::in_memory_sessions(8);
    let config = Arc::new(config);
    let (port, proxy) = (origin.address().port(), shoal.address("forward"));
    let host = |name: &str| format!("{name}:{port}");
    for _ in 0..2 {
        let mut client = inside(proxy, &host("localhost"), "localhost", Arc::clone(&config));
        client.ask(&Request::get("/a"), &host("localhost")).expect_status(200);
    }
    // The ticket is for the name that the client asks for, and the CONNECT for another one.
    let mut client = inside(proxy, &host("b.localhost"), "localhost", config);
    client.send(Request::get("/a").to_bytes(&host("b.localhost")));
    assert!(client.try_response("GET").is_err());
    shoal.expect_metric("shoal_intercept_refused_total", "reason=\"server_name\"", 1);
}

/// A browser may send requests for two hosts over one connection if a certificate has both names.
#[test]
fn connections_are_not_shared_by_hosts() {
    let (origin, shoal, _) = two_hosts();
    let config = trusting(&root(shoal.folder()), &["h2"]);
    let host = format!("localhost:{}", origin.address().port());
    let (stream, _) = connect(shoal.address("forward"), &host, "");
    let mut client = H2Connection::over_tls(stream, "localhost", config);
    let other = host.replace("localhost", "b.localhost");
    for (authority, status) in [(&*host, 200), (&*other, 421), ("localhost", 421), (&*host, 200)] {
        client.ask(&Request::get("/a"), authority).expect_status(status);
    }
}

/// Other spellings of a listed host are the host.
#[test]
fn spellings_of_a_listed_host_are_intercepted() {
    let (origin, shoal, config) = two_hosts();
    let port = origin.address().port();
    for spelling in ["LOCALHOST", "localhost."] {
        let (stream, head) = connect(shoal.address("forward"), &format!("{spelling}:{port}"), "");
        assert_eq!(head.status, 200, "{spelling}");
        let mut client = over(stream, "localhost", Arc::clone(&config));
        client.send(Request::get("/a").to_bytes(&format!("localhost:{port}")));
        let answer = client.try_response("GET").unwrap_or_else(|why| panic!("{spelling}: {why}"));
        answer.expect_status(200).expect_body("body");
    }
    assert_eq!(shoal.responses("tunnel"), 0);
}

/// The authority that one registry's operator runs says nothing about other hosts.
#[test]
fn authority_of_a_mirror_vouches_for_its_hosts_alone() {
    let own = Authority::new();
    let registry = Origin::start_tls(&own.issue(&["127.0.0.1"]));
    let other = Origin::start_tls(&own.issue(&["localhost"]));
    let url = registry.url();
    let document = npm_document("a", &[NpmVersion::of(&url, "a", "1.0.0", b"x")], true);
    registry.serve("/a", Resource::new(document.clone()).field("Content-Type", "application/json"));
    other.serve("/a", Resource::new(document).field("Content-Type", "application/json"));
    other.on("/file", Answer::ok("body"));
    let setup = Setup::bare();
    let trusted = setup.file("registry.pem", &own.pem()).display().to_string();
    let host = format!("https://localhost:{}", other.address().port());
    let shoal = setup
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'npm'\nupstream = '{url}'\nca_file = '{trusted}'"))
        .mirror(&format!("kind = 'npm'\nname = 'other'\nupstream = '{host}'"))
        .mirror(&format!("kind = 'generic'\nupstream = '{host}'"))
        .start();
    shoal.get("/npm/a").expect_status(200);
    shoal.get("/other/a").expect_status(504);
    shoal.get("/generic/file").expect_status(504);
    assert_eq!(other.total(), 0);
}

/// Another spelling of a path is no way round the rules of a mirror.
#[test]
fn spelt_paths_inside_keep_the_rules_of_the_mirror() {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["localhost"]));
    origin.on("/*", Answer::ok("secret"));
    let port = origin.address().port();
    let host = format!("localhost:{port}");
    let setup = Setup::bare();
    let trusted = setup.file("origins.pem", &authority.pem()).display().to_string();
    let shoal = setup
        .intercepting(&["mirrors"], &[443], &["localhost"])
        .set("forward.connect_ports", vec![i64::from(port)])
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!(
            "kind = 'pypi'\nupstream = 'https://{host}/simple'\nca_file = '{trusted}'\nrefuse = ['bad']"
        ))
        .start();
    let config = trusting(&root(shoal.folder()), &[]);
    for path in [
        "/simple/bad/",
        "/simple/b%61d/",
        "/%73imple/bad/",
        "//simple/bad/",
        "/x/../simple/bad/",
        "/simple//bad/",
    ] {
        let mut client = inside(shoal.address("forward"), &host, "localhost", Arc::clone(&config));
        let answer = client.ask(&Request::get(path), &host);
        assert!(answer.status >= 400, "{path}: {answer:?}");
    }
    assert_eq!(origin.total(), 0);
}
