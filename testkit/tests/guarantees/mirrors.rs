//! Mirrors of package registries: promises checked, absence and errors kept apart, redirects
//! followed inside, derived documents with validators of their own.

use shoal_testkit::origin::Framing;
use shoal_testkit::registry::{NPM_SHORT, NpmVersion, npm_document};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Gate, Origin, Request, Resource, Response, Setup, Shoal};

/// A reverse proxy with one npm mirror of this origin, without a site.
pub(crate) fn npm_mirror(origin: &Origin, more: &str) -> Setup {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'npm'\nupstream = '{}'\n{more}", origin.url()))
}

/// Serves a package `a` with one version, whose tarball has these bytes at the origin.
fn package(origin: &Origin, promised: &[u8], sent: Answer) {
    let versions = [NpmVersion::of(&origin.url(), "a", "1.0.0", promised)];
    let document = npm_document("a", &versions, false);
    origin.serve("/a", Resource::new(document).field("Content-Type", "application/json").etag("\"d\""));
    origin.on(TARBALL, sent);
}

const TARBALL: &str = "/a/-/a-1.0.0.tgz";

fn document(shoal: &Shoal, fields: &[(&str, &str)]) -> Response {
    let request =
        fields.iter().fold(Request::get("/npm/a").field("Accept", NPM_SHORT), |request, (name, value)| {
            request.field(name, value)
        });
    shoal.ask(&request)
}

#[test]
fn file_is_fetched_once_and_checked() {
    let origin = Origin::start();
    let tarball = body("tarball", 300_000);
    package(&origin, &tarball, Answer::ok(tarball.clone()).field("Cache-Control", "no-store"));
    let shoal = npm_mirror(&origin, "").start();
    let path = format!("/npm{TARBALL}");
    shoal.get(&path).expect_status(200).expect_body(&tarball);
    let second = shoal.get(&path);
    second.expect_hit().expect_body(&tarball);
    assert_eq!(second.field("cache-control"), Some("max-age=31536000, immutable"));
    assert_eq!((origin.count(TARBALL), origin.count("/a")), (1, 1));
}

#[test]
fn wrong_last_byte_reaches_no_client() {
    let origin = Origin::start();
    let right = body("tarball", 300_000);
    let mut wrong = right.clone();
    *wrong.last_mut().expect("bytes") ^= 1;
    package(&origin, &right, Answer::ok(wrong));
    let shoal = npm_mirror(&origin, "").start();
    let path = format!("/npm{TARBALL}");
    for _ in 0..2 {
        assert!(!shoal.get(&path).complete(), "a cut connection");
    }
    shoal.expect_metric("shoal_mirror_refused_total", "reason=\"digest\"", 2);
    assert_eq!(origin.count(TARBALL), 2, "nothing was kept");
    origin.on(TARBALL, Answer::ok(right.clone()));
    shoal.get(&path).expect_status(200).expect_body(&right);
    shoal.get(&path).expect_hit();
}

#[test]
fn chunked_file_is_held_back_too() {
    let origin = Origin::start();
    let right = body("tarball", 100_000);
    let mut wrong = right.clone();
    *wrong.last_mut().expect("bytes") ^= 1;
    package(&origin, &right, Answer::ok(wrong).framed(Framing::Chunked));
    let shoal = npm_mirror(&origin, "").start();
    assert!(!shoal.get(&format!("/npm{TARBALL}")).complete(), "a cut connection");
    origin.on(TARBALL, Answer::ok(Vec::new()).framed(Framing::Length));
    shoal.get(&format!("/npm{TARBALL}")).expect_status(502);
}

#[test]
fn ranges_of_a_cold_file_make_one_fetch() {
    let origin = Origin::start();
    let tarball = body("tarball", 300_000);
    package(&origin, &tarball, Answer::ok(tarball.clone()));
    let shoal = npm_mirror(&origin, "").start();
    let path = format!("/npm{TARBALL}");
    let part = shoal.ask(&Request::get(&path).field("Range", "bytes=1000-1999"));
    assert!(part.expect_status(206).body == tarball[1000..2000]);
    shoal.get(&path).expect_body(&tarball);
    assert_eq!(origin.count(TARBALL), 1);
}

#[test]
fn redirects_are_followed_inside() {
    let (origin, files) = (Origin::start(), Origin::start());
    let tarball = body("tarball", 100_000);
    let to = format!("{}/signed?token=1", files.url());
    package(&origin, &tarball, Answer::new(302).field("Location", &to));
    files.on("/signed", Answer::ok(tarball.clone()));
    let setup = npm_mirror(&origin, "");
    let secret = setup.file("secret", "user:password\n");
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'npm'\nupstream = '{}'\ncredentials = '{}'", origin.url(), secret.display()))
        .start();
    let path = format!("/npm{TARBALL}");
    shoal.get(&path).expect_status(200).expect_body(&tarball);
    shoal.get(&path).expect_hit();
    assert!(origin.last(TARBALL).fields.has("authorization"));
    assert!(!files.last("/signed").fields.has("authorization"), "credentials stay at their host");
    assert!(!files.last("/signed").fields.has("x-forwarded-for"), "clients stay unnamed");
}

#[test]
fn redirects_in_circles_and_to_private_hosts_end() {
    let origin = Origin::start();
    package(&origin, b"x", Answer::new(302).field("Location", TARBALL));
    let shoal = npm_mirror(&origin, "").start();
    shoal.get(&format!("/npm{TARBALL}")).expect_status(504);
    assert_eq!(origin.count(TARBALL), 6);
    let private = npm_mirror(&origin, "").set_list("forward.allow_private_destinations", &[]).start();
    origin.on(TARBALL, Answer::new(302).field("Location", "http://127.0.0.1:1/x"));
    private.get(&format!("/npm{TARBALL}")).expect_status(403);
}

#[test]
fn absence_is_remembered_and_errors_are_not() {
    let origin = Origin::start();
    let shoal = npm_mirror(&origin, "").start();
    for (path, status, requests) in [
        ("/gone", 404, 1),
        ("/gone2", 410, 1),
        ("/denied", 401, 2),
        ("/forbidden", 403, 2),
        ("/many", 429, 2),
        ("/broken", 500, 2),
    ] {
        origin.on(path, Answer::new(status).field("Cache-Control", "max-age=600"));
        shoal.get(&format!("/npm{path}")).expect_status(status);
        shoal.get(&format!("/npm{path}")).expect_status(status);
        assert_eq!(origin.count(path), requests, "{path}");
    }
}

#[test]
fn html_in_place_of_a_package_is_an_error() {
    let origin = Origin::start();
    package(&origin, b"right", Answer::ok("<html>").field("Content-Type", "text/html"));
    let shoal = npm_mirror(&origin, "index_lifetime = '1s'").start();
    shoal.get(&format!("/npm{TARBALL}")).expect_status(502);
    let good = document(&shoal, &[]);
    good.expect_status(200);
    origin.on("/a", Answer::ok("<html>").field("Content-Type", "text/html; charset=utf-8"));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    // The document that was held stands in.
    let stale = document(&shoal, &[]);
    stale.expect_status(200).expect_body(&good.body);
    shoal.expect_metric("shoal_mirror_refused_total", "reason=\"html\"", 2);
}

#[test]
fn stale_document_stands_in_for_429() {
    let origin = Origin::start();
    package(&origin, b"x", Answer::ok("x"));
    let shoal = npm_mirror(&origin, "index_lifetime = '1s'").start();
    let first = document(&shoal, &[]);
    origin.on("/a", Answer::new(429).field("Retry-After", "60"));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for mark in ["fwd=stale;fwd-status=429", "detail=retry-after"] {
        let stale = document(&shoal, &[]);
        stale.expect_status(200).expect_body(&first.body);
        let status = stale.field("cache-status").expect("a status");
        assert!(status.contains(mark), "{status}");
    }
    assert_eq!(origin.count("/a"), 2, "the pause is heeded");
}

#[test]
fn malformed_document_is_not_kept() {
    let origin = Origin::start();
    for broken in ["{\"name\": \"a\"", "[1}", "{\"versions\": "] {
        origin.on("/a", Answer::ok(broken).field("Content-Type", "application/json"));
        let shoal = npm_mirror(&origin, "").start();
        let before = origin.count("/a");
        for _ in 0..2 {
            let mut client = shoal.connect();
            client.send(Request::get("/npm/a").to_bytes("cache.test"));
            let answer = client.try_response("GET");
            let is_whole = answer.is_ok_and(|answer| answer.complete() && answer.status == 200);
            assert!(!is_whole, "{broken}");
        }
        assert_eq!(origin.count("/a") - before, 2, "{broken}");
    }
}

#[test]
fn offline_miss_is_504_and_old_documents_serve() {
    let origin = Origin::start();
    let tarball = body("tarball", 10_000);
    package(&origin, &tarball, Answer::ok(tarball.clone()));
    let mut shoal = npm_mirror(&origin, "index_lifetime = '1s'").start();
    let first = document(&shoal, &[]);
    shoal.get(&format!("/npm{TARBALL}")).expect_body(&tarball);
    shoal.change(|text| text.replace("index_lifetime = \"1s\"", "index_lifetime = \"1s\"\noffline = true"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let before = origin.total();
    document(&shoal, &[]).expect_status(200).expect_body(&first.body);
    shoal.get(&format!("/npm{TARBALL}")).expect_body(&tarball);
    shoal.get("/npm/other").expect_status(504);
    shoal.get("/npm/a/-/a-2.0.0.tgz").expect_status(504);
    shoal.ask(&Request::new("POST", "/npm/-/npm/v1/security/advisories/bulk").body(b"{}")).expect_status(504);
    assert_eq!(origin.total(), before);
}

#[test]
fn unreachable_registry_is_504() {
    let origin = Origin::start();
    let shoal = npm_mirror(&origin, "").start();
    drop(origin);
    shoal.get("/npm/a").expect_status(504);
    // Nor can its document be had, which is as little the file's absence.
    shoal.get(&format!("/npm{TARBALL}")).expect_status(504);
}

/// Clients that come while the body is under way share it, and each gets its first bytes before the
/// fetch ends.
#[test]
fn cold_clients_make_one_fetch() {
    let origin = Origin::start();
    let tarball = body("tarball", 400_000);
    let gate = Gate::new();
    let (first, rest) = tarball.split_at(100_000);
    let sent = Answer::new(200)
        .piece(first)
        .wait_for(&gate)
        .piece(rest)
        .framed(Framing::Claimed(tarball.len() as u64));
    package(&origin, &tarball, sent);
    let shoal = npm_mirror(&origin, "").start();
    let path = format!("/npm{TARBALL}");
    let mut clients: Vec<_> = (0..50).map(|_| shoal.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(Request::get(&path).to_bytes("c.test")));
    for client in &mut clients {
        let head = client.head().expect("a head before the end");
        assert_eq!(head.status, 200);
        let _ = client.exactly(1000).expect("bytes before the end");
    }
    gate.open();
    for client in &mut clients {
        let rest = client.exactly(tarball.len() - 1000).expect("the rest");
        assert!(rest == tarball[1000..]);
    }
    assert_eq!((origin.count(TARBALL), origin.count("/a")), (1, 1));
}

#[test]
fn generic_files_keep_their_origins_freshness() {
    let origin = Origin::start();
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'generic'\nname = 'dist'\nupstream = '{}/base'", origin.url()))
        .start();
    origin.on("/base/said", Answer::ok("a").field("Cache-Control", "max-age=7"));
    origin.on("/base/unsaid", Answer::ok("<html>").field("Content-Type", "text/html"));
    origin.on("/base/never", Answer::ok("c").field("Cache-Control", "no-store"));
    for (path, freshness, requests) in
        [("said", "max-age=7", 1), ("unsaid", "max-age=300", 1), ("never", "no-store", 2)]
    {
        for _ in 0..2 {
            let answer = shoal.get(&format!("/dist/{path}?x=1"));
            assert_eq!(answer.expect_status(200).field("cache-control"), Some(freshness), "{path}");
        }
        assert_eq!(origin.count(&format!("/base/{path}")), requests, "{path}");
    }
    shoal.ask(&Request::new("PUT", "/dist/said").body(b"x")).expect_status(405);
    // Neither spelling leaves the registry's path.
    for path in ["/dist/../x", "/dist/%2e%2e/x"] {
        assert_ne!(shoal.get(path).status, 200);
    }
    assert_eq!(origin.count("/x"), 0);
}

#[test]
fn purge_by_the_registrys_url_removes_the_answer() {
    let origin = Origin::start();
    package(&origin, b"x", Answer::ok("x"));
    let shoal = npm_mirror(&origin, "").start();
    document(&shoal, &[]).expect_status(200);
    document(&shoal, &[]).expect_hit();
    let purge = format!("{}/a", origin.url());
    let answer = shoal.ask_admin(&Request::new("POST", &format!("/purge?url={purge}")));
    answer.expect_status(200);
    assert!(!document(&shoal, &[]).hit());
}

/// Credentials of this node open the registry's own path, and the files that its documents name.
#[test]
fn requests_stay_below_the_upstream() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("secret"));
    origin.on("/base/file", Answer::ok("file"));
    let setup = Setup::bare();
    let secret = setup.file("secret", "user:password\n");
    let mirror = |kind: &str, path: &str| {
        let (url, secret) = (origin.url(), secret.display());
        format!("kind = '{kind}'\nupstream = '{url}{path}'\ncredentials = '{secret}'")
    };
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&mirror("generic", "/base"))
        .mirror(&mirror("pypi", "/simple"))
        .start();
    shoal.get("/generic/file").expect_status(200).expect_body("file");
    let host = origin.url().replace("http://", "");
    for path in [
        "/generic/../admin".to_owned(),
        "/generic/%2e%2e/admin".to_owned(),
        "/generic/a/..%2f..%2f..%2fadmin".to_owned(),
        "/generic/..\\admin".to_owned(),
        format!("/pypi/files/{host}/admin/a-1.0.zip"),
        format!("/pypi/files/{host}/admin"),
    ] {
        let answer = shoal.get(&path);
        assert!(answer.text() != "secret", "{path}: {answer:?}");
    }
    for received in origin.received() {
        assert!(!received.target.contains("admin"), "{}", received.target);
    }
}

/// A private index names files beside itself: the operator named the host.
#[test]
fn files_of_the_upstream_host_need_no_setting() {
    let origin = Origin::start();
    let wheel = body("wheel", 10_000);
    let digest = shoal_testkit::registry::sha256(&wheel);
    let page = format!("<a href=\"/packages/a-1.0-py3-none-any.whl#sha256={digest}\">a</a>");
    origin.on("/simple/a/", Answer::ok(page).field("Content-Type", "text/html"));
    origin.on("/packages/a-1.0-py3-none-any.whl", Answer::ok(wheel.clone()));
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .set_list("forward.allow_private_destinations", &[])
        .mirror(&format!("kind = 'pypi'\nupstream = '{}/simple'", origin.url()))
        .start();
    let host = origin.url().replace("http://", "");
    shoal.get("/pypi/simple/a/").expect_status(200);
    let path = format!("/pypi/files/{host}/packages/a-1.0-py3-none-any.whl");
    shoal.get(&path).expect_status(200).expect_body(&wheel);
}
