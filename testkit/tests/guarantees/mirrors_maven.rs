//! Mirrors of Maven's repositories: an artifact is what its sidecar and its own fields promise.

use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};

fn start(origin: &Origin) -> Shoal {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'maven'\nupstream = '{}'", origin.url()))
        .start()
}

/// Returns `true` if no whole answer comes. Nothing of a small body is sent before its check.
fn is_cut(shoal: &Shoal, path: &str) -> bool {
    let mut client = shoal.connect();
    client.send(Request::get(path).to_bytes("cache.test"));
    !client.try_response("GET").is_ok_and(|answer| answer.complete())
}

const JAR: &str = "/org/a/b/1.0/b-1.0.jar";
/// SHA-1 of `abc`, and of nothing.
const SHA1: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";
const EMPTY_SHA1: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

/// A repository without sidecars promises by the response's own fields.
#[test]
fn fields_are_a_promise_for_their_body() {
    let origin = Origin::start();
    let shoal = start(&origin);
    let path = format!("/maven{JAR}");
    for (field, value) in [("x-checksum-sha1", EMPTY_SHA1), ("X-Checksum-Md5", &MD5.replace('9', "8"))] {
        origin.on(JAR, Answer::ok("abc").field(field, value));
        assert!(is_cut(&shoal, &path), "{field}: a cut connection");
    }
    shoal.expect_metric("shoal_mirror_refused_total", "reason=\"digest\"", 2);
    assert_eq!(origin.count(JAR), 2, "nothing was kept");
    origin.on(JAR, Answer::ok("abc").field("X-Checksum-Md5", MD5));
    let answer = shoal.get(&path);
    assert_eq!(answer.expect_status(200).expect_body("abc").field("x-checksum-md5"), Some(MD5));
    shoal.get(&path).expect_hit();
}

/// The sidecar's promise goes to clients in a field, so that they need not ask for the sidecar.
#[test]
fn sidecar_becomes_a_field() {
    let origin = Origin::start();
    let shoal = start(&origin);
    let sidecar = format!("{JAR}.sha1");
    origin.on(&sidecar, Answer::ok(SHA1));
    origin.on(JAR, Answer::ok("abc"));
    for _ in 0..2 {
        let answer = shoal.get(&format!("/maven{JAR}"));
        assert_eq!(answer.expect_status(200).expect_body("abc").field("x-checksum-sha1"), Some(SHA1));
    }
    assert_eq!((origin.count(JAR), origin.count(&sidecar)), (1, 1));
}

/// Both promises must hold: a field cannot vouch for a body that the sidecar disowns.
#[test]
fn both_promises_must_hold() {
    let origin = Origin::start();
    let wrong = body("wrong", 50_000);
    let shoal = start(&origin);
    origin.on(&format!("{JAR}.sha1"), Answer::ok(EMPTY_SHA1));
    origin.on(JAR, Answer::ok("abc").field("X-Checksum-Sha1", SHA1));
    assert!(is_cut(&shoal, &format!("/maven{JAR}")));
    origin.on(&format!("{JAR}.sha1"), Answer::ok(SHA1));
    origin.on(JAR, Answer::ok(wrong).field("X-Checksum-Sha1", SHA1));
    assert!(is_cut(&shoal, &format!("/maven{JAR}")));
}
