//! Rights of clients at a mirror, and one body for one digest.

use crate::mirrors::npm_mirror;
use shoal_testkit::registry::{NpmVersion, npm_document, sha256};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Response, Setup, Shoal};

/// Answers clients with one of the two tokens, refuses a third, and challenges others.
pub fn guarded(origin: &Origin, path: &str, answer: Answer) {
    origin.on_request(path, move |request| match request.fields.first("authorization") {
        Some("Bearer alice" | "Bearer bob") => answer.clone(),
        Some(_) => Answer::new(403),
        None => Answer::new(401).field("WWW-Authenticate", "Bearer realm=\"https://tokens.test/\""),
    });
}

fn ask(shoal: &Shoal, path: &str, token: &str) -> Response {
    let request = Request::get(path);
    shoal.ask(&match token {
        "" => request,
        token => request.field("Authorization", &format!("Bearer {token}")),
    })
}

fn gets(origin: &Origin) -> usize {
    origin.received().iter().filter(|request| request.method == "GET").count()
}

#[test]
fn stored_package_is_for_clients_with_rights() {
    let origin = Origin::start();
    let tarball = body("tarball", 50_000);
    let document = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", &tarball)], false);
    guarded(&origin, "/a", Answer::ok(document).field("Content-Type", "application/json"));
    guarded(&origin, "/a/-/a-1.0.0.tgz", Answer::ok(tarball.clone()));
    let shoal = npm_mirror(&origin, "rights = 'client'").start();
    let file = "/npm/a/-/a-1.0.0.tgz";
    ask(&shoal, "/npm/a", "alice").expect_status(200);
    ask(&shoal, file, "alice").expect_status(200).expect_body(&tarball);
    assert_eq!(gets(&origin), 2);
    for _ in 0..2 {
        ask(&shoal, file, "bob").expect_status(200).expect_body(&tarball);
        ask(&shoal, "/npm/a", "bob").expect_status(200);
        ask(&shoal, file, "mallory").expect_status(403);
        let challenged = ask(&shoal, file, "");
        assert_eq!(challenged.status, 401);
        assert!(challenged.field("www-authenticate").is_some_and(|field| field.contains("tokens.test")));
    }
    assert_eq!(gets(&origin), 2, "the bodies are stored once");
    let received = origin.received();
    let heads = received.iter().filter(|request| {
        request.method == "HEAD" && request.fields.first("authorization") == Some("Bearer bob")
    });
    assert_eq!(heads.count(), 1, "the registry was asked once about bob and the package");
    // Those who were let in stay so while the registry fails.
    origin.on("/a", Answer::new(503));
    ask(&shoal, file, "bob").expect_status(200).expect_body(&tarball);
    ask(&shoal, file, "carol").expect_status(503);
}

#[test]
fn rights_end_with_their_lifetime() {
    let origin = Origin::start();
    let tarball = body("tarball", 50_000);
    let document = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", &tarball)], false);
    guarded(&origin, "/a", Answer::ok(document).field("Content-Type", "application/json"));
    guarded(&origin, "/a/-/a-1.0.0.tgz", Answer::ok(tarball.clone()));
    let shoal =
        npm_mirror(&origin, "rights = 'client'\nrights_lifetime = '0 s'\nrefusal_lifetime = '0 s'").start();
    let file = "/npm/a/-/a-1.0.0.tgz";
    ask(&shoal, file, "alice").expect_status(200).expect_body(&tarball);
    origin.on("/a", Answer::new(503));
    ask(&shoal, file, "alice").expect_status(200).expect_body(&tarball);
    origin.on("/a", Answer::new(403));
    ask(&shoal, file, "alice").expect_status(403);
    origin.on("/a", Answer::new(503));
    ask(&shoal, file, "alice").expect_status(503);
}

/// A build asks for many files at once: the registry is asked once about each client.
#[test]
fn questions_about_one_client_are_joined() {
    let origin = Origin::start();
    let tarball = body("tarball", 5_000);
    let document = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", &tarball)], false);
    let document = Answer::ok(document).field("Content-Type", "application/json");
    guarded(&origin, "/a", document.delay(std::time::Duration::from_millis(500)));
    guarded(&origin, "/a/-/a-1.0.0.tgz", Answer::ok(tarball.clone()));
    let shoal = npm_mirror(&origin, "rights = 'client'\nrefusal_lifetime = '2 s'").start();
    let file = "/npm/a/-/a-1.0.0.tgz";
    ask(&shoal, file, "alice").expect_status(200);
    let heads = |token: &str| {
        let token = format!("Bearer {token}");
        let of_client = |request: &&shoal_testkit::origin::Received| {
            request.method == "HEAD" && request.fields.first("authorization") == Some(&token)
        };
        origin.received().iter().filter(of_client).count()
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(ask(&shoal, file, "bob").body, tarball));
        }
    });
    assert_eq!(heads("bob"), 1, "eight requests shared the question");
    for _ in 0..3 {
        ask(&shoal, file, "mallory").expect_status(403);
    }
    assert_eq!(heads("mallory"), 1, "the refusal is remembered");
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    ask(&shoal, file, "mallory").expect_status(403);
    assert_eq!(heads("mallory"), 2, "and for a short time only");
}

#[test]
fn login_pages_let_nobody_in() {
    let origin = Origin::start();
    let tarball = body("tarball", 50_000);
    let document = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", &tarball)], false);
    guarded(&origin, "/a", Answer::ok(document).field("Content-Type", "application/json"));
    guarded(&origin, "/a/-/a-1.0.0.tgz", Answer::ok(tarball.clone()));
    let shoal = npm_mirror(&origin, "rights = 'client'").start();
    let file = "/npm/a/-/a-1.0.0.tgz";
    ask(&shoal, file, "alice").expect_status(200).expect_body(&tarball);
    origin.on("/a", Answer::new(302).field("Location", "/login"));
    ask(&shoal, file, "mallory").expect_status(403);
    origin.on("/a", Answer::ok("<html>log in</html>").field("Content-Type", "text/html; charset=utf-8"));
    ask(&shoal, file, "mallory").expect_status(403);
}

#[test]
fn right_to_a_gem_is_none_to_one_with_a_longer_name() {
    let origin = Origin::start();
    let gem = body("gem", 20_000);
    origin.on("/info/http", Answer::ok("---\n1.0 |checksum:x\n"));
    let info = format!("---\n1.0 |checksum:{}\n", sha256(&gem));
    guarded(&origin, "/info/http-2", Answer::ok(info));
    guarded(&origin, "/gems/http-2-1.0.gem", Answer::ok(gem.clone()));
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'rubygems'\nupstream = '{}'\nrights = 'client'", origin.url()))
        .start();
    ask(&shoal, "/rubygems/gems/http-2-1.0.gem", "alice").expect_status(200).expect_body(&gem);
    ask(&shoal, "/rubygems/info/http", "mallory").expect_status(200);
    ask(&shoal, "/rubygems/gems/http-2-1.0.gem", "mallory").expect_status(403);
}

fn images(origin: &Origin, more: &str) -> Shoal {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'oci'\nupstream = '{}'\n{more}", origin.url()))
        .start()
}

#[test]
fn layer_of_two_images_is_stored_once() {
    let origin = Origin::start();
    let layer = body("layer", 300_000);
    let place = |repository: &str| format!("/v2/{repository}/blobs/sha256:{}", sha256(&layer));
    for repository in ["a/b", "c"] {
        origin.on(&place(repository), Answer::ok(layer.clone()));
    }
    let shoal = images(&origin, "");
    shoal.get(&place("a/b")).expect_status(200).expect_body(&layer);
    shoal.get(&place("c")).expect_hit().expect_body(&layer);
    let part = Request::get(&place("c")).field("Range", "bytes=10-19");
    assert_eq!(shoal.ask(&part).expect_status(206).body, layer[10..20]);
    assert_eq!(origin.total(), 1);
    // Absence in one repository says nothing about another.
    let missing = format!("/v2/x/blobs/sha256:{}", sha256(b"other"));
    shoal.get(&missing).expect_status(404);
    let other = format!("/v2/y/blobs/sha256:{}", sha256(b"other"));
    origin.on(&other, Answer::ok("other"));
    shoal.get(&other).expect_status(200).expect_body("other");
}

#[test]
fn private_layer_is_for_repositories_with_rights() {
    let (origin, files) = (Origin::start(), Origin::start());
    let layer = body("layer", 100_000);
    let place = |repository: &str| format!("/v2/{repository}/blobs/sha256:{}", sha256(&layer));
    files.on("/signed", Answer::ok(layer.clone()));
    let to_files = Answer::new(307).field("Location", &format!("{}/signed", files.url()));
    guarded(&origin, &place("private"), to_files);
    guarded(&origin, "/v2/", Answer::ok("{}"));
    origin.on(&place("public"), Answer::new(404));
    let shoal = images(&origin, "rights = 'client'");
    let challenged = ask(&shoal, "/v2/", "");
    assert_eq!(challenged.status, 401);
    assert!(challenged.field("www-authenticate").is_some_and(|field| field.contains("tokens.test")));
    ask(&shoal, "/v2/", "alice").expect_status(200);
    // A registry gives a manifest to those who accept its type.
    let manifest = "/v2/private/manifests/1";
    origin.on_request(manifest, move |request| {
        let is_accepted = request.fields.joined("accept").contains("oci.image.manifest");
        match request.fields.first("authorization") == Some("Bearer alice") && is_accepted {
            true => Answer::ok("{}").field("Content-Type", "application/vnd.oci.image.manifest.v1+json"),
            false => Answer::new(404),
        }
    });
    ask(&shoal, manifest, "alice").expect_status(200);
    ask(&shoal, &place("private"), "alice").expect_status(200).expect_body(&layer);
    ask(&shoal, &place("private"), "bob").expect_hit().expect_body(&layer);
    ask(&shoal, &place("private"), "mallory").expect_status(403);
    // The name of another repository opens nothing.
    ask(&shoal, &place("public"), "mallory").expect_status(404);
    assert_eq!(files.count("/signed"), 1, "one body");
    assert!(!files.last("/signed").fields.has("authorization"), "no credential leaves the registry");
    // Without the registry, its challenge stands, and those whom it let in are served.
    origin.on("/v2/", Answer::new(503));
    assert_eq!(ask(&shoal, "/v2/", "").field("www-authenticate"), challenged.field("www-authenticate"));
    ask(&shoal, "/v2/", "alice").expect_status(200);
    origin.on(&place("private"), Answer::new(503));
    ask(&shoal, &place("private"), "bob").expect_hit();
    ask(&shoal, &place("private"), "carol").expect_status(503);
}
