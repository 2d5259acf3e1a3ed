//! A registry, or a client by an odd request, tries to pass a body under a name whose digest it
//! has not.

use shoal_testkit::origin::Framing;
use shoal_testkit::registry::{NpmVersion, npm_document, sha256};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Gate, Origin, Request, Resource, Setup, Shoal};

const TARBALL: &str = "/a/-/a-1.0.0.tgz";
const JSON: &str = "application/vnd.pypi.simple.v1+json";

/// An npm registry with a package `a` whose tarball has this digest.
fn registry(promised: &[u8]) -> Origin {
    let origin = Origin::start();
    let document = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", promised)], true);
    origin.serve("/a", Resource::new(document).field("Content-Type", "application/json").etag("\"d\""));
    origin
}

fn mirror(kind: &str, origin: &Origin, path: &str, more: &str) -> Shoal {
    let upstream = origin.url();
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = '{kind}'\nupstream = '{upstream}{path}'\n{more}"))
        .start()
}

/// Expects an error, or a cut connection.
fn expect_no_file(shoal: &Shoal, ask: &Request) {
    let mut client = shoal.connect();
    client.send(ask.to_bytes("c.test"));
    if let Ok(answer) = client.try_response("GET") {
        assert!(answer.status >= 400 || !answer.complete(), "{ask:?}: {answer:?}");
    }
}

/// A body is checked with 200 alone, so that no other status may carry one.
#[test]
fn other_successes_carry_no_unchecked_file() {
    let origin = registry(&body("right", 5_000));
    let shoal = mirror("npm", &origin, "", "");
    let wrong = body("wrong", 5_000);
    for status in [201, 203, 206, 226, 299, 300] {
        let range = format!("bytes 0-4999/{}", wrong.len());
        let sent = Answer::new(status).piece(wrong.clone()).field("Content-Range", &range);
        origin.on(TARBALL, sent.framed(Framing::Length));
        let ask = Request::get(&format!("/npm{TARBALL}"));
        for ask in [&ask, &ask, &ask.clone().field("Range", "bytes=0-99")] {
            expect_no_file(&shoal, ask);
        }
    }
}

/// A part of a wrong file, before its end, is a wrong body too.
#[test]
fn ranges_wait_for_the_digest() {
    let right = body("right", 400_000);
    let origin = registry(&right);
    let mut wrong = right.clone();
    wrong[5] ^= 1;
    let gate = Gate::new();
    let (first, rest) = wrong.split_at(300_000);
    let sent = Answer::new(200)
        .piece(first)
        .wait_for(&gate)
        .piece(rest)
        .framed(Framing::Claimed(wrong.len() as u64));
    origin.on(TARBALL, sent);
    let shoal = mirror("npm", &origin, "", "");
    let path = format!("/npm{TARBALL}");
    let mut clients: Vec<_> = (0..2).map(|_| shoal.connect()).collect();
    for client in &mut clients {
        client.send(Request::get(&path).field("Range", "bytes=0-99").to_bytes("c.test"));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    gate.open();
    for client in &mut clients {
        let part = client.try_response("GET");
        let is_served = part.is_ok_and(|part| part.status < 400 && part.complete());
        assert!(!is_served, "a part of a file that is not the promised one");
    }
}

/// One URL of a file in two spellings is one key, and has one promise.
#[test]
fn host_in_another_spelling_has_the_same_promise() {
    let origin = Origin::start();
    let (right, wrong) = (body("right", 5_000), body("wrong", 5_000));
    let port = origin.address().port();
    let page = format!(
        r#"{{"name":"a","files":[{{"filename":"a-1.0.zip","url":"http://files.test:{port}/p/a-1.0.zip","hashes":{{"sha256":"{}"}}}}]}}"#,
        sha256(&right)
    );
    origin.serve(
        "/simple/a/",
        Resource::new(page.replace("files.test", "localhost")).field("Content-Type", JSON),
    );
    origin.on("/p/a-1.0.zip", Answer::ok(wrong.clone()));
    let shoal = mirror("pypi", &origin, "/simple", "file_hosts = ['localhost']");
    for host in ["LocalHost", "localhost"] {
        expect_no_file(&shoal, &Request::get(&format!("/pypi/files/{host}:{port}/p/a-1.0.zip")));
    }
}

/// A file that no index names yet must not be taken for the one that the index names later.
#[test]
fn unpromised_file_is_not_kept_for_later_promises() {
    let (right, wrong) = (body("right", 5_000), body("wrong", 5_000));
    let origin = Origin::start();
    let document = |versions: &[NpmVersion<'_>]| {
        Answer::ok(npm_document("a", versions, true)).field("Content-Type", "application/json")
    };
    origin.on("/a", document(&[]));
    origin.on(TARBALL, Answer::ok(wrong.clone()).field("ETag", "\"x\""));
    let shoal = mirror("npm", &origin, "", "index_lifetime = '1s'");
    let path = format!("/npm{TARBALL}");
    shoal.get(&path);
    origin.on("/a", document(&[NpmVersion::of(&origin.url(), "a", "1.0.0", &right)]));
    origin.on(TARBALL, Answer::ok(right.clone()).field("ETag", "\"y\""));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    shoal.get(&path).expect_status(200).expect_body(&right);
}

/// Kinds check different things: one kind's unchecked body is not another's file.
#[test]
fn kinds_of_one_registry_share_no_body() {
    let right = body("right", 5_000);
    let origin = registry(&right);
    let url = origin.url();
    origin.on(TARBALL, Answer::fresh(body("wrong", 5_000), 600));
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'npm'\nupstream = '{url}'"))
        .mirror(&format!("kind = 'generic'\nupstream = '{url}'"))
        .start();
    shoal.get(&format!("/generic{TARBALL}")).expect_status(200);
    expect_no_file(&shoal, &Request::get(&format!("/npm{TARBALL}")));
}
