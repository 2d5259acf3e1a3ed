//! Interception of a mirror's registry: the mirror's kind, keys, digests and rights hold, and
//! clients get the registry's own URLs.

use shoal_testkit::certificates::Authority;
use shoal_testkit::interception::{inside, root, shoal as run, trusting};
use shoal_testkit::registry::{NPM_SHORT, NpmVersion, npm_document, sha256};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Origin, Request, Resource, Setup, Shoal};

const TARBALL: &str = "/a/-/a-1.0.0.tgz";

/// An https registry called `localhost` with a package `a`, and its URL.
fn registry(promised: &[u8], sent: Answer) -> (Authority, Origin, String) {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["localhost"]));
    let url = format!("https://localhost:{}", origin.address().port());
    let document = npm_document("a", &[NpmVersion::of(&url, "a", "1.0.0", promised)], false);
    origin.serve("/a", Resource::new(document).field("Content-Type", "application/json").etag("\"d\""));
    origin.on(TARBALL, sent);
    (authority, origin, url)
}

/// A mirror of the registry, whose host is intercepted as `mirrors` says.
fn mirrored((authority, origin, url): (&Authority, &Origin, &str), more: &str) -> Shoal {
    let setup = Setup::bare();
    let trusted = setup.file("origins.pem", &authority.pem()).to_string_lossy().into_owned();
    let port = i64::from(origin.address().port());
    setup
        .intercepting(&["mirrors"], &[443], &["localhost"])
        .set("forward.connect_ports", vec![port])
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'npm'\nupstream = '{url}'\nca_file = '{trusted}'\n{more}"))
        .start()
}

fn client(shoal: &Shoal, url: &str) -> (Connection, String) {
    let host = url.trim_start_matches("https://").to_owned();
    let trusted = trusting(&root(shoal.folder()), &[]);
    (inside(shoal.address("forward"), &host, "localhost", trusted), host)
}

#[test]
fn file_is_shared_with_the_mirror() {
    let tarball = body("tarball", 300_000);
    let (authority, origin, url) =
        registry(&tarball, Answer::ok(tarball.clone()).field("Cache-Control", "no-store"));
    let shoal = mirrored((&authority, &origin, &url), "");
    let (mut client, host) = client(&shoal, &url);
    client.ask(&Request::get(TARBALL), &host).expect_status(200).expect_body(&tarball);
    client.ask(&Request::get(TARBALL), &host).expect_hit();
    shoal.get(&format!("/npm{TARBALL}")).expect_hit().expect_body(&tarball);
    assert_eq!((origin.count(TARBALL), origin.count("/a")), (1, 1));
}

#[test]
fn document_inside_names_the_registry_itself() {
    let tarball = body("tarball", 1_000);
    let (authority, origin, url) = registry(&tarball, Answer::ok(tarball.clone()));
    let shoal = mirrored((&authority, &origin, &url), "");
    let ask = Request::get("/a").field("Accept", NPM_SHORT);
    let (mut client, host) = client(&shoal, &url);
    let inside = client.ask(&ask, &host);
    inside.expect_status(200);
    assert!(inside.text().contains(&format!("{url}{TARBALL}")), "{}", inside.text());
    let below = shoal.ask(&Request::get("/npm/a").field("Accept", NPM_SHORT));
    assert!(below.text().contains("/npm/a/-/a-1.0.0.tgz"), "{}", below.text());
    assert!(!below.text().contains(&host), "{}", below.text());
    assert_eq!(origin.count("/a"), 1, "one stored document");
}

#[test]
fn wrong_digest_reaches_no_client_inside() {
    let right = body("tarball", 100_000);
    let mut wrong = right.clone();
    *wrong.last_mut().expect("bytes") ^= 1;
    let (authority, origin, url) = registry(&right, Answer::ok(wrong));
    let shoal = mirrored((&authority, &origin, &url), "");
    let (mut client, host) = client(&shoal, &url);
    assert!(!client.ask(&Request::get(TARBALL), &host).complete(), "a cut connection");
    shoal.expect_metric("shoal_mirror_refused_total", "reason=\"digest\"", 1);
}

#[test]
fn refused_package_is_refused_inside() {
    let (authority, origin, url) = registry(b"x", Answer::ok("x"));
    let shoal = mirrored((&authority, &origin, &url), "refuse = ['a']");
    let (mut client, host) = client(&shoal, &url);
    client.ask(&Request::get("/a"), &host).expect_status(403);
    client.ask(&Request::get(TARBALL), &host).expect_status(403);
    assert_eq!(origin.total(), 0);
}

#[test]
fn credentials_of_clients_stay_out_of_the_registry() {
    let (authority, origin, url) = registry(b"x", Answer::ok("x"));
    let shoal = mirrored((&authority, &origin, &url), "");
    let (mut client, host) = client(&shoal, &url);
    client.ask(&Request::get("/a").field("Authorization", "Bearer t"), &host).expect_status(200);
    assert!(!origin.last("/a").fields.has("authorization"));
}

#[test]
fn mirrors_without_a_registry_are_a_mistake() {
    let setup = Setup::bare().intercepting(&["mirrors"], &[443], &["a.test"]);
    std::fs::write(setup.folder().join("f.toml"), setup.text()).expect("writable");
    let checked = run(setup.folder(), &["check", "f.toml"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.code() == Some(2) && said.contains("no mirror has a registry by https"), "{said}");
}

/// A lock of uv or pip names files by the registry's own URLs.
#[test]
fn python_files_by_their_own_urls_are_the_mirrors() {
    let authority = Authority::new();
    let origin = Origin::start_tls(&authority.issue(&["localhost"]));
    let host = format!("localhost:{}", origin.address().port());
    let (wheel, path) = (body("wheel", 50_000), "/p/a_b-1.0-py3-none-any.whl");
    let page = format!(
        r#"{{"meta":{{"api-version":"1.0"}},"name":"a-b","files":[{{"filename":"a_b-1.0-py3-none-any.whl","url":"https://{host}{path}","hashes":{{"sha256":"{}"}}}}]}}"#,
        sha256(&wheel)
    );
    let json = "application/vnd.pypi.simple.v1+json";
    origin.serve("/simple/a-b/", Resource::new(page.clone()).field("Content-Type", json).etag("\"p\""));
    origin.on(path, Answer::ok(wheel.clone()).field("Cache-Control", "no-store"));
    let setup = Setup::bare();
    let trusted = setup.file("origins.pem", &authority.pem()).to_string_lossy().into_owned();
    let shoal = setup
        .intercepting(&["mirrors"], &[443], &["localhost"])
        .set("forward.connect_ports", vec![i64::from(origin.address().port())])
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'pypi'\nupstream = 'https://{host}/simple'\nca_file = '{trusted}'"))
        .start();
    let (mut client, host) = client(&shoal, &format!("https://{host}"));
    client.ask(&Request::get(path), &host).expect_status(200).expect_body(&wheel);
    let own = client.ask(&Request::get("/simple/a-b/").field("Accept", json), &host);
    own.expect_status(200).expect_body(&page);
    let html = client.ask(&Request::get("/simple/a-b/").field("Accept", "text/html"), &host);
    assert!(html.text().contains(&format!("href=\"https://{host}{path}#sha256=")), "{}", html.text());
    shoal.get(&format!("/pypi/files/{host}{path}")).expect_hit().expect_body(&wheel);
    assert_eq!((origin.count(path), origin.count("/simple/a-b/")), (1, 1));
}
