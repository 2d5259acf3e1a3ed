//! A build cache that clients write: contents are checked, misses are 404, a restart loses nothing.

use shoal_testkit::seeded::body;
use shoal_testkit::{Request, Setup, Shoal};

fn start() -> Shoal {
    Setup::bare().listen("reverse", "mode = 'reverse'").mirror("kind = 'buildcache'\nname = 'build'").start()
}

fn put(shoal: &Shoal, path: &str, bytes: &[u8]) -> u16 {
    let put = Request::new("PUT", path).field("Content-Type", "application/octet-stream").body(bytes);
    shoal.ask(&put).status
}

/// The SHA-256 of `abc`.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn entries_are_written_read_and_removed() {
    let mut shoal = start();
    let large = body("artifact", 500_000);
    shoal.get("/build/key").expect_status(404);
    assert_eq!(put(&shoal, "/build/key", &large), 200);
    shoal.get("/build/key").expect_status(200).expect_body(&large);
    assert_eq!(
        shoal.ask(&Request::new("HEAD", "/build/key")).expect_status(200).number("content-length"),
        Some(500_000)
    );
    assert_eq!(put(&shoal, "/build/key", b"newer"), 200);
    shoal.get("/build/key").expect_body("newer");
    assert_eq!(put(&shoal, "/build/empty", b""), 200);
    shoal.get("/build/empty").expect_status(200).expect_body("");
    shoal.wait_until_written();
    shoal.restart();
    shoal.get("/build/key").expect_body("newer");
    shoal.ask(&Request::new("DELETE", "/build/key")).expect_status(200);
    shoal.get("/build/key").expect_status(404);
}

#[test]
fn contents_are_what_their_path_says() {
    let shoal = start();
    let path = format!("/build/cas/{ABC}");
    assert_eq!(put(&shoal, &path, b"abd"), 400);
    shoal.get(&path).expect_status(404);
    assert_eq!(put(&shoal, &path, b"abc"), 200);
    shoal.get(&path).expect_body("abc");
    shoal.get(&format!("/build/cas/{EMPTY}")).expect_status(200).expect_body("");
    shoal.expect_metric("shoal_mirror_refused_total", "reason=\"digest\"", 1);
}

#[test]
fn artifacts_keep_their_tag() {
    let shoal = start();
    let put =
        Request::new("PUT", "/build/v8/artifacts/abc?teamId=a").field("x-artifact-tag", "signed").body(b"x");
    shoal.ask(&put).expect_status(202);
    let artifact = shoal.get("/build/v8/artifacts/abc?teamId=b");
    assert_eq!(artifact.expect_status(200).field("x-artifact-tag"), Some("signed"));
    shoal.ask(&Request::new("POST", "/build/v8/artifacts/events").body(b"[]")).expect_status(200);
}

/// sccache looks for folders and makes them before it writes (WebDAV).
#[test]
fn folders_of_webdav_are_there() {
    let shoal = start();
    let ask = |method: &str, path: &str| shoal.ask(&Request::new(method, path));
    let folder = ask("PROPFIND", "/build/sc/a/b/");
    assert!(folder.expect_status(207).text().contains("<D:href>/sc/a/b/</D:href>"), "{}", folder.text());
    ask("MKCOL", "/build/sc/a/b/").expect_status(201);
    assert_eq!(put(&shoal, "/build/sc/a/b/key", b"object"), 200);
    shoal.get("/build/sc/a/b/key").expect_status(200).expect_body("object");
    ask("PROPFIND", "/build/sc/a/b/key").expect_status(405);
}
