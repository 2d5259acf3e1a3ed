//! A client tries to get what another mirror's credentials open, or what the registry gave this
//! node; a registry tries to make this node ask where it must not.

use shoal_testkit::registry::{NpmVersion, npm_document, sha256};
use shoal_testkit::{Answer, Origin, Request, Resource, Setup, Shoal};

fn pypi_page(file: &str, url: &str, body: &[u8]) -> Resource {
    let digest = sha256(body);
    let page = format!(
        r#"{{"name":"a","files":[{{"filename":"{file}","url":"{url}","hashes":{{"sha256":"{digest}"}}}}]}}"#
    );
    Resource::new(page).field("Content-Type", "application/vnd.pypi.simple.v1+json")
}

/// Two teams have tokens of their own for one registry.
#[test]
fn credentials_of_one_mirror_open_nothing_for_another() {
    let origin = Origin::start();
    origin.on_request("/*", |request| match request.fields.first("authorization") {
        Some(_) => Answer::fresh("private", 600).field("Cache-Control", "public"),
        None => Answer::new(401),
    });
    let setup = Setup::bare();
    let secret = setup.file("secret", "user:password\n").display().to_string();
    let url = origin.url();
    let shoal = setup
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'generic'\nname = 'own'\nupstream = '{url}'\ncredentials = '{secret}'"))
        .mirror(&format!("kind = 'generic'\nname = 'open'\nupstream = '{url}'"))
        .start();
    for _ in 0..2 {
        shoal.get("/own/file").expect_status(200).expect_body("private");
    }
    shoal.get("/open/file").expect_status(401);
    shoal.get("/own/file").expect_hit();
}

/// A session that the registry opened for this node's credentials is not the client's.
#[test]
fn sessions_of_this_node_reach_no_client() {
    let origin = Origin::start();
    origin.on(
        "/*",
        Answer::ok("{}").field("Set-Cookie", "session=node").field("Content-Type", "application/json"),
    );
    let shoal = npm(&origin, "");
    for request in [
        Request::get("/npm/-/v1/search?text=a"),
        Request::get("/npm/-/whoami"),
        Request::new("POST", "/npm/-/npm/v1/security/audits/quick").body(b"{}"),
        Request::new("HEAD", "/npm/-/v1/search"),
    ] {
        let answer = shoal.ask(&request);
        assert_eq!((answer.status, answer.field("set-cookie")), (200, None), "{request:?}");
    }
}

/// Audits pass with the fields that they need: none about the client.
#[test]
fn passing_requests_leave_the_client_unnamed() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("{}"));
    let shoal = npm(&origin, "");
    let told = [
        ("Authorization", "Bearer secret"),
        ("Cookie", "a=secret"),
        ("X-Forwarded-For", "192.0.2.77"),
        ("Forwarded", "for=192.0.2.77"),
        ("X-Real-IP", "192.0.2.77"),
        ("Private-Token", "secret"),
        ("X-JFrog-Art-Api", "secret"),
        ("npm-otp", "secret"),
        ("Referer", "http://intranet.example/secret"),
        ("Upgrade", "websocket"),
    ];
    let ask = Request::new("POST", "/npm/-/npm/v1/security/advisories/bulk").body(b"{}");
    let ask = told.iter().fold(ask, |ask, (name, value)| ask.field(name, value));
    let ask = ask.field("Content-Type", "application/json").field("Connection", "upgrade");
    shoal.ask(&ask).expect_status(200);
    let seen = origin.last("/-/npm/v1/security/advisories/bulk");
    assert_eq!(seen.fields.first("content-type"), Some("application/json"));
    let text = format!("{:?}", seen.fields);
    for secret in ["secret", "192.0.2.77", "websocket"] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// A document names a port that requests may not reach.
#[test]
fn documents_lead_to_no_refused_port() {
    let (origin, other) = (Origin::start(), Origin::start());
    other.on("/*", Answer::ok("x"));
    let url = format!("{}/p/a-1.0.zip", other.url());
    origin.serve("/simple/a/", pypi_page("a-1.0.zip", &url, b"x"));
    let (own, port) = (i64::from(origin.address().port()), other.address().port());
    let shoal = Setup::bare()
        .set("forward.request_ports", vec![own])
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'pypi'\nupstream = '{}/simple'", origin.url()))
        .start();
    let host = other.url().replace("http://", "");
    shoal.get(&format!("/pypi/files/{host}/p/a-1.0.zip")).expect_status(403);
    assert_eq!(other.total(), 0, "{port}");
}

/// A registry's own word about stale answers makes no request of a mirror that is offline.
#[test]
fn offline_mirror_asks_nobody() {
    let origin = Origin::start();
    origin.on("/file", Answer::ok("a").field("Cache-Control", "max-age=1, stale-while-revalidate=1000"));
    let mut shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'generic'\nupstream = '{}'\nindex_lifetime = '1s'", origin.url()))
        .start();
    shoal.get("/generic/file").expect_status(200);
    shoal.change(|text| text.replace("index_lifetime = \"1s\"", "index_lifetime = \"1s\"\noffline = true"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    std::thread::sleep(std::time::Duration::from_millis(1600));
    for _ in 0..3 {
        shoal.get("/generic/file").expect_status(200);
        shoal.ask(&Request::get("/generic/file").field("Cache-Control", "no-cache"));
        shoal.ask(&Request::new("HEAD", "/generic/other"));
        shoal.ask(&Request::get("/generic/other").field("Range", "bytes=0-1"));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(origin.total(), 1);
}

/// Entries of a build cache are removed one by one.
#[test]
fn delete_removes_one_entry_of_a_build_cache() {
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror("kind = 'buildcache'\nupstream = 'http://buildcache.invalid'")
        .start();
    shoal.ask(&Request::new("PUT", "/buildcache/a/b").body(b"x")).expect_status(200);
    for path in ["/buildcache/*", "/buildcache/a/*", "/buildcache/a/", "/buildcache/", "/buildcache/a/b?x"] {
        shoal.ask(&Request::new("DELETE", path));
        if !path.contains('?') {
            shoal.get("/buildcache/a/b").expect_status(200).expect_body("x");
        }
    }
}

fn npm(origin: &Origin, more: &str) -> Shoal {
    let document = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", b"x")], true);
    origin.serve("/a", Resource::new(document).field("Content-Type", "application/json"));
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'npm'\nupstream = '{}'\n{more}", origin.url()))
        .start()
}

/// Other paths of the registry's host belong to others: its documents lead no credentials there.
#[test]
fn credentials_stay_below_the_mirrors_own_path() {
    let origin = Origin::start();
    let (here, digest) = (origin.url(), shoal_testkit::registry::sha256(b"x"));
    let files = [
        ("1.0.0", "/repository/npm/a/-/a-1.0.0.tgz"),
        ("2.0.0", "/admin/export/a-2.0.0.tgz"),
        ("3.0.0", "/repository/npm-other/a-3.0.0.tgz"),
        ("4.0.0", "/files/a-4.0.0.tgz"),
    ];
    let listed = files.map(|(version, path)| NpmVersion {
        url: format!("{here}{path}"),
        ..NpmVersion::of(&here, "a", version, version.as_bytes())
    });
    let document = Answer::ok(npm_document("a", &listed, false)).field("Content-Type", "application/json");
    origin.on("/repository/npm/a", document);
    for (version, path) in files {
        origin.on(path, Answer::ok(version));
    }
    origin.on(files[0].1, Answer::new(302).field("Location", "/admin/moved"));
    origin.on("/admin/moved", Answer::ok("1.0.0"));
    let page = format!("<a href=\"{here}/repository/pypi/packages/a-1.0.zip#sha256={digest}\">a</a>");
    origin.on("/repository/pypi/simple/a/", Answer::ok(page).field("Content-Type", "text/html"));
    origin.on("/repository/pypi/packages/a-1.0.zip", Answer::ok("x"));
    let setup = Setup::bare();
    let secret = setup.file("secret", "user:password\n").display().to_string();
    let credentials = format!("credentials = '{secret}'\ncredentials_below = ['/files']");
    let shoal = setup
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'npm'\nupstream = '{here}/repository/npm'\n{credentials}"))
        .mirror(&format!(
            "kind = 'pypi'\nupstream = '{here}/repository/pypi/simple'\ncredentials = '{secret}'"
        ))
        .start();
    for (version, _) in files {
        shoal.get(&format!("/npm/a/-/a-{version}.tgz")).expect_status(200).expect_body(version);
    }
    let host = here.replace("http://", "");
    shoal.get(&format!("/pypi/files/{host}/repository/pypi/packages/a-1.0.zip")).expect_status(200);
    for (path, is_sent) in [
        ("/repository/npm/a", true),
        ("/repository/npm/a/-/a-1.0.0.tgz", true),
        ("/files/a-4.0.0.tgz", true),
        ("/repository/pypi/simple/a/", true),
        ("/repository/pypi/packages/a-1.0.zip", true),
        ("/admin/moved", false),
        ("/admin/export/a-2.0.0.tgz", false),
        ("/repository/npm-other/a-3.0.0.tgz", false),
    ] {
        assert_eq!(origin.last(path).fields.has("authorization"), is_sent, "{path}");
    }
}
