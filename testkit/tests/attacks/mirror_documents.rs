//! Index documents that are pages, never end, or cost more than they are; registries that lead
//! this node's credentials astray; requests with bodies that nobody reads.

use flate2::Compression;
use flate2::write::GzEncoder;
use shoal_testkit::origin::Framing;
use shoal_testkit::registry::sha256;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::io::Write;

fn mirror(kind: &str, origin: &Origin, more: &str) -> Shoal {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = '{kind}'\nupstream = '{}'\n{more}", origin.url()))
        .start()
}

/// A login page with 200 is no document of any kind.
#[test]
fn page_in_place_of_a_document_is_not_kept() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("<html>log in").field("Content-Type", "text/html; charset=utf-8"));
    for (kind, path) in [
        ("npm", "/npm/-/npm/v1/keys"),
        ("rubygems", "/rubygems/specs.4.8.gz"),
        ("rubygems", "/rubygems/versions"),
        ("oci", "/v2/a/tags/list"),
        ("go", "/go/sumdb/sum.test/latest"),
        ("go", "/go/example.test/a/@v/list"),
        ("cargo", "/cargo/config.json"),
        ("maven", "/maven/org/a/maven-metadata.xml"),
        ("deb", "/deb/dists/a/InRelease"),
    ] {
        let shoal = mirror(kind, &origin, "");
        for _ in 0..2 {
            shoal.get(path).expect_status(502);
        }
    }
}

/// 200,000 times of versions with long names: 2 MB from the registry, gigabytes if they were kept.
#[test]
fn long_names_in_a_document_cost_no_memory() {
    let mut document = GzEncoder::new(Vec::new(), Compression::best());
    document.write_all(b"{\"name\":\"a\",\"versions\":{},\"time\":{\"created\":\"x\"").expect("memory");
    let name = "9".repeat(60_000);
    for number in 0..10_000 {
        write!(document, ",\"{number}{name}\":\"2020-01-01T00:00:00Z\"").expect("memory");
    }
    document.write_all(b"}}").expect("memory");
    let document = document.finish().expect("memory");
    let origin = Origin::start();
    let coded =
        Answer::ok(document).field("Content-Type", "application/json").field("Content-Encoding", "gzip");
    origin.on("/a", coded);
    origin.on("/a/-/*", Answer::new(404));
    let shoal = mirror("npm", &origin, "");
    let before = shoal.resident_bytes();
    let (reading, most) = (std::sync::atomic::AtomicBool::new(true), std::sync::atomic::AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while reading.load(std::sync::atomic::Ordering::Relaxed) {
                most.fetch_max(shoal.resident_bytes(), std::sync::atomic::Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let mut client = shoal.connect();
        client.limit(std::time::Duration::from_secs(100));
        client.ask(&Request::get("/npm/a/-/a-1.0.0.tgz"), "c.test").expect_status(404);
        reading.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    let grown = most.into_inner().saturating_sub(before) >> 20;
    assert!(grown < 150, "{grown} MiB");
}

/// Credentials of this node stay at the registry, whatever its documents name.
#[test]
fn credentials_follow_no_document_to_another_host() {
    let (origin, other) = (Origin::start(), Origin::start());
    other.on("/*", Answer::ok("x"));
    let (here, there, digest) = (origin.url(), other.url(), sha256(b"x"));
    let npm = format!(
        r#"{{"name":"a","versions":{{"1.0.0":{{"name":"a","version":"1.0.0","dist":{{"tarball":"{there}/a-1.0.0.tgz","shasum":"11f6ad8ec52a2984abaafd7c3b516503785c2072"}}}}}}}}"#
    );
    origin.on("/a", Answer::ok(npm).field("Content-Type", "application/json"));
    origin.on("/config.json", Answer::ok(format!("{{\"dl\":\"{there}/dl\"}}")));
    let page = format!("<a href=\"{there}/p/a-1.0.zip#sha256={digest}\">a</a>");
    origin.on("/a/", Answer::ok(page).field("Content-Type", "text/html"));
    let realm = format!("Bearer realm=\"{there}/token\",service=\"s\",scope=\"repository:a:pull\"");
    origin.on("/v2/*", Answer::new(401).field("WWW-Authenticate", &realm));
    origin.on("/moved", Answer::new(302).field("Location", &format!("{there}/moved")));
    let setup = Setup::bare();
    let secret = setup.file("secret", "user:password\n").display().to_string();
    let kinds = ["npm", "cargo", "pypi", "oci", "generic"];
    let shoal = kinds
        .into_iter()
        .fold(setup.listen("reverse", "mode = 'reverse'"), |setup, kind| {
            setup.mirror(&format!("kind = '{kind}'\nupstream = '{here}'\ncredentials = '{secret}'"))
        })
        .start();
    let host = there.replace("http://", "");
    for path in [
        "/npm/a/-/a-1.0.0.tgz".to_owned(),
        format!("/cargo/crates/a/1.0.0/{digest}/download"),
        format!("/pypi/files/{host}/p/a-1.0.zip"),
        "/generic/moved".to_owned(),
    ] {
        shoal.get(&path).expect_status(200).expect_body("x");
    }
    shoal.get("/v2/a/manifests/latest").expect_status(401);
    assert!(other.total() >= 5, "all led there: {:?}", other.received());
    for received in other.received() {
        assert!(!received.fields.has("authorization"), "{received:?}");
    }
}

/// The body of a refused request is no request.
#[test]
fn unread_bodies_are_no_requests() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("{}").field("Content-Type", "application/json"));
    let shoal = mirror("npm", &origin, "refuse = ['bad']");
    let hidden = b"GET /npm/hidden HTTP/1.1\r\nHost: c.test\r\n\r\n";
    for ask in [
        Request::new("POST", "/npm/a").body(hidden),
        Request::new("PUT", "/npm/bad").body(hidden),
        Request::new("GET", "/npm/bad").body(hidden),
        Request::new("GET", "/npm/a").body(hidden),
        Request::new("GET", "/npm/-/ping").body(hidden),
        Request::new("POST", "/npm/%2e%2e/x").body(hidden),
        Request::new("POST", "/npm/a").chunked(hidden, &Default::default()),
    ] {
        let mut client = shoal.connect();
        client.send(ask.to_bytes("c.test"));
        client.send(Request::get("/npm/-/ping").to_bytes("c.test"));
        let _ = client.try_response("GET");
        if let Ok(second) = client.try_response("GET") {
            second.expect_status(200).expect_body("{}");
            assert!(client.stays_silent(std::time::Duration::from_millis(50)), "{ask:?}");
        }
    }
    assert_eq!(origin.count("/hidden"), 0);
}

/// A file of a document in a coding that nobody can read, or with lies about its length.
#[test]
fn odd_codings_pass_no_unchecked_file() {
    let origin = Origin::start();
    let right = b"right".to_vec();
    let path = format!("/v2/a/blobs/sha256:{}", sha256(&right));
    for (coding, framing) in
        [("br", Framing::Length), ("gzip, gzip", Framing::Chunked), ("x", Framing::Length)]
    {
        origin.on(&path, Answer::ok("wrong").field("Content-Encoding", coding).framed(framing));
        let shoal = mirror("oci", &origin, "");
        let mut client = shoal.connect();
        client.send(Request::get(&path).to_bytes("c.test"));
        if let Ok(answer) = client.try_response("GET") {
            assert!(answer.status >= 400 || !answer.complete(), "{coding}: {answer:?}");
        }
    }
}
