//! Hits at mirrors are answered on the short way, too: files as they are stored, and documents in
//! the form that was derived once. Their answers are those of the ordinary way.

use crate::mirrors::npm_mirror;
use shoal_testkit::registry::{NPM_SHORT, NpmVersion, npm_document};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Resource, Response, Shoal};
use std::time::Duration;

/// A token that changes nothing, but makes the request one that is not plain.
const ORDINARY: (&str, &str) = ("Connection", "keep-alive, x-nothing");
const FILE: &str = "/a/-/a-1.0.0.tgz";

/// Serves package `a` with these versions, each with the tarball of its number.
fn serve(origin: &Origin, versions: &[&str], tag: &str) {
    let url = origin.url();
    let tarball = |version: &&str| body(version, 3_000);
    let bodies: Vec<Vec<u8>> = versions.iter().map(tarball).collect();
    let pairs = versions.iter().zip(&bodies);
    let listed: Vec<_> = pairs.map(|(version, body)| NpmVersion::of(&url, "a", version, body)).collect();
    let document = npm_document("a", &listed, true);
    origin.serve("/a", Resource::new(document).field("Content-Type", "application/json").etag(tag));
    for (version, body) in versions.iter().zip(bodies) {
        origin.on(&format!("/a/-/a-{version}.tgz"), Answer::ok(body));
    }
}

fn ask(shoal: &Shoal, request: &Request) -> Response {
    shoal.connect().ask(request, "c.test")
}

fn document() -> Request {
    Request::get("/npm/a").field("Accept", NPM_SHORT)
}

#[test]
fn answers_at_mirrors_are_alike_on_both_ways() {
    let origin = Origin::start();
    serve(&origin, &["1.0.0"], "\"d\"");
    let shoal = npm_mirror(&origin, "").start();
    let tag = ask(&shoal, &document()).field("etag").expect("a validator").to_owned();
    let file = Request::get(&format!("/npm{FILE}"));
    for request in [
        document(),
        document().field("If-None-Match", &tag),
        document().field("If-None-Match", "\"d\""),
        Request::get("/npm/a"),
        file.clone(),
        file.clone().field("Range", "bytes=10-19"),
        file.clone().field("Accept", "*/*"),
        Request::new("HEAD", &format!("/npm{FILE}")),
    ] {
        let ordinary = request.clone().field(ORDINARY.0, ORDINARY.1);
        for _ in 0..3 {
            ask(&shoal, &ordinary);
        }
        let exactly = |request: &Request| shoal.connect().ask_exactly(request, "c.test");
        let (first, second) = (exactly(&ordinary), exactly(&request));
        assert!(second.head.contains(";hit;"), "{request:?}: {}", second.head);
        second.expect_like(first, &format!("{request:?}"));
    }
    let count = (origin.count("/a"), origin.count(FILE));
    assert_eq!(count, (2, 1), "two forms of the document, one file");
    let derived = ask(&shoal, &document());
    assert!(derived.text().contains("\"http://c.test/npm/a/-/a-1.0.0.tgz\""), "{}", derived.text());
}

#[test]
fn each_host_gets_its_own_form() {
    let origin = Origin::start();
    serve(&origin, &["1.0.0"], "\"d\"");
    let shoal = npm_mirror(&origin, "").start();
    for _ in 0..4 {
        for host in ["c.test", "d.test:8080"] {
            let answer = shoal.connect().ask(&document(), host);
            assert!(answer.text().contains(&format!("\"http://{host}/npm/a/-/")), "{}", answer.text());
        }
    }
}

#[test]
fn changed_document_ends_its_form() {
    let origin = Origin::start();
    serve(&origin, &["1.0.0"], "\"d\"");
    let shoal = npm_mirror(&origin, "index_lifetime = '1 s'").start();
    (0..4).for_each(|_| drop(ask(&shoal, &document())));
    serve(&origin, &["1.0.0", "2.0.0"], "\"e\"");
    std::thread::sleep(Duration::from_millis(1_100));
    for _ in 0..4 {
        let answer = ask(&shoal, &document());
        assert!(answer.text().contains("a-2.0.0.tgz"), "{}", answer.text());
    }
    // A document that is the same keeps its form, and its new age.
    std::thread::sleep(Duration::from_millis(1_100));
    (0..3).for_each(|_| drop(ask(&shoal, &document())));
    assert_eq!(ask(&shoal, &document()).field("age"), Some("0"));
    assert_eq!(origin.count("/a"), 3);
}

#[test]
fn purge_and_settings_end_the_short_way() {
    let origin = Origin::start();
    serve(&origin, &["1.0.0"], "\"d\"");
    let mut shoal = npm_mirror(&origin, "").start();
    let file = Request::get(&format!("/npm{FILE}"));
    (0..4).for_each(|_| drop((ask(&shoal, &document()), ask(&shoal, &file))));
    let url = format!("{}/a", origin.url());
    shoal.ask_admin(&Request::new("POST", &format!("/purge?url={url}"))).expect_status(200);
    ask(&shoal, &document()).expect_status(200);
    assert_eq!(origin.count("/a"), 2, "the purged document was fetched again");
    shoal.change(|text| text.replace("kind = \"npm\"", "kind = \"npm\"\nrefuse = [\"a\"]"));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    ask(&shoal, &document()).expect_status(403);
    ask(&shoal, &file).expect_status(403);
}

/// A registry gives another file the name of an earlier one.
#[test]
fn replaced_file_is_fetched_again() {
    let origin = Origin::start();
    serve(&origin, &["1.0.0"], "\"d\"");
    let shoal = npm_mirror(&origin, "index_lifetime = '1 s'").start();
    let file = Request::get(&format!("/npm{FILE}"));
    let first = body("1.0.0", 3_000);
    for _ in 0..4 {
        ask(&shoal, &document());
        ask(&shoal, &file).expect_status(200).expect_body(&first);
    }
    let second = body("replaced", 3_000);
    let listed = [NpmVersion::of(&origin.url(), "a", "1.0.0", &second)];
    origin.serve("/a", Resource::new(npm_document("a", &listed, true)).etag("\"e\""));
    origin.on(FILE, Answer::ok(second.clone()));
    // While the index is as it was, so is the file.
    ask(&shoal, &file).expect_body(&first);
    std::thread::sleep(Duration::from_millis(1_100));
    ask(&shoal, &file).expect_body(&first);
    ask(&shoal, &document());
    for _ in 0..3 {
        ask(&shoal, &file).expect_status(200).expect_body(&second);
    }
    shoal.expect_metric("shoal_mirror_replaced_total", "", 1);
    assert_eq!(origin.count(FILE), 2);
    let digest = ask(&shoal, &file).field("repr-digest").expect("the checked digest").to_owned();
    assert!(digest.starts_with("sha-512=:"), "{digest}");
}
