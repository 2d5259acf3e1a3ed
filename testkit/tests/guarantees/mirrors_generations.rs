//! Generations of an archive: its edges are of different ages, and no client sees a release with
//! lists that do not fit it, or a step back.

use shoal_testkit::registry::sha256;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const RELEASE: &str = "/dists/x/InRelease";
const LIST: &str = "/dists/x/main/binary-amd64/Packages";

/// An archive without lists by digest. Edges answer with generations of different ages.
struct Archive {
    newest: Arc<AtomicU32>,
    /// Most generations by which an edge is behind.
    behind: Arc<AtomicU32>,
}

fn list(generation: u32) -> Vec<u8> {
    format!("Package: a\nVersion: {generation}\n\n").repeat(500).into_bytes()
}

fn release(generation: u32) -> String {
    let list = list(generation);
    let name = LIST.strip_prefix("/dists/x/").expect("below the release");
    format!(
        "Suite: x\nDate: Sat, 09 Aug 2025 09:13:{:02} UTC\nSHA256:\n {} {} {name}\n",
        generation,
        sha256(&list),
        list.len()
    )
}

/// Returns the generation that a release is of.
fn generation_of(text: &str) -> u32 {
    let date = text.lines().find_map(|line| line.strip_prefix("Date: ")).expect("a date");
    date[23..25].parse().expect("two digits")
}

impl Archive {
    fn start(origin: &Origin) -> Self {
        let (newest, behind) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(0)));
        let count = Arc::new(AtomicUsize::new(0));
        for path in [RELEASE, LIST] {
            let (newest, behind, count) = (Arc::clone(&newest), Arc::clone(&behind), Arc::clone(&count));
            origin.on_request(path, move |request| {
                // Edges take turns in an order without a pattern that the node could fall in with.
                let turn = count.fetch_add(1, SeqCst).wrapping_mul(2_654_435_761) >> 7;
                let age = turn as u32 % (behind.load(SeqCst) + 1);
                let generation = newest.load(SeqCst).saturating_sub(age).max(1);
                let body = if path == RELEASE { release(generation).into_bytes() } else { list(generation) };
                let tag = format!("\"{generation}\"");
                match request.fields.first("if-none-match") == Some(&tag) {
                    true => Answer::new(304).field("ETag", &tag),
                    false => Answer::ok(body).field("ETag", &tag),
                }
            });
        }
        Self { newest, behind }
    }
}

fn mirror(origin: &Origin) -> Shoal {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'deb'\nupstream = '{}'\nindex_lifetime = '1 s'", origin.url()))
        .start()
}

/// Reads a release and its list, and returns the generation. The two must fit.
fn update(shoal: &Shoal) -> u32 {
    let read = shoal.get(&format!("/deb{RELEASE}"));
    read.expect_status(200);
    let text = read.text();
    let packages = shoal.get(&format!("/deb{LIST}"));
    packages.expect_status(200);
    assert!(text.contains(&sha256(&packages.body)), "a list that does not fit:\n{text}");
    generation_of(&text)
}

#[test]
fn releases_and_lists_fit_behind_edges_of_random_age() {
    let origin = Origin::start();
    let archive = Archive::start(&origin);
    let shoal = mirror(&origin);
    assert_eq!(update(&shoal), 1);
    let mut before = 1;
    for round in 0..12 {
        if round % 3 == 0 {
            archive.newest.fetch_add(1, SeqCst);
            archive.behind.store(1 + round as u32 % 2, SeqCst);
        }
        std::thread::sleep(Duration::from_millis(1_050));
        let generation = update(&shoal);
        assert!(generation >= before, "a step back from {before} to {generation}");
        before = generation;
    }
    archive.behind.store(0, SeqCst);
    let newest = archive.newest.load(SeqCst);
    let begun = std::time::Instant::now();
    while update(&shoal) != newest {
        assert!(begun.elapsed() < Duration::from_secs(30), "the newest release is published in the end");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[test]
fn release_of_before_a_restart_is_not_undone() {
    let origin = Origin::start();
    let archive = Archive::start(&origin);
    archive.newest.store(5, SeqCst);
    let mut shoal = mirror(&origin);
    assert_eq!(update(&shoal), 5);
    std::thread::sleep(Duration::from_millis(1_500));
    shoal.wait_until_written();
    archive.newest.store(3, SeqCst);
    shoal.kill();
    shoal.restart_and_find_all();
    assert_eq!(update(&shoal), 5);
    shoal.expect_metric("shoal_mirror_older_releases_total", "", 1);
}

#[test]
fn list_that_no_edge_has_is_an_error() {
    let origin = Origin::start();
    let _archive = Archive::start(&origin);
    let shoal = mirror(&origin);
    origin.on(LIST, Answer::ok("another list"));
    shoal.get(&format!("/deb{RELEASE}")).expect_status(200);
    shoal.get(&format!("/deb{LIST}")).expect_status(502);
    let asked = origin.count(LIST);
    shoal.get(&format!("/deb{LIST}")).expect_status(502);
    assert_eq!(origin.count(LIST), asked, "a client that asks again costs the archive nothing");
}

/// Some archives promise lists by digest, and have them by name alone.
#[test]
fn list_without_its_digest_comes_by_name() {
    let origin = Origin::start();
    let whole = list(1);
    let text = release(1).replace("SHA256:", "Acquire-By-Hash: yes\nSHA256:");
    origin.on(RELEASE, Answer::ok(text));
    origin.on(LIST, Answer::ok(whole.clone()));
    let shoal = mirror(&origin);
    shoal.get(&format!("/deb{RELEASE}")).expect_status(200);
    for _ in 0..2 {
        shoal.get(&format!("/deb{LIST}")).expect_status(200).expect_body(&whole);
    }
    assert_eq!(origin.count(LIST), 1, "it is stored under its digest");
}

#[test]
fn checksum_is_that_of_the_metadata_that_clients_get() {
    let origin = Origin::start();
    let path = "/a/b/maven-metadata.xml";
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'maven'\nupstream = '{}'", origin.url()))
        .start();
    let metadata = |version: u32| format!("<metadata><version>{version}</version></metadata>");
    origin.on(path, Answer::ok(metadata(1)));
    shoal.get(&format!("/maven{path}")).expect_status(200).expect_body(metadata(1));
    // The repository has gone on since.
    origin.on(path, Answer::ok(metadata(2)));
    origin.on(&format!("{path}.sha256"), Answer::ok(sha256(metadata(2).as_bytes())));
    let sum = shoal.get(&format!("/maven{path}.sha256"));
    assert_eq!(sum.expect_status(200).text(), sha256(metadata(1).as_bytes()));
    assert_eq!(origin.total(), 1);
    shoal.get("/maven/x/y/maven-metadata.xml.sha1").expect_status(404);
}

#[test]
fn gem_is_no_older_than_the_index_that_names_it() {
    let origin = Origin::start();
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'rubygems'\nupstream = '{}'\nindex_lifetime = '2 s'", origin.url()))
        .start();
    let publish = |generation: u32| {
        let tag = format!("\"{generation}\"");
        origin.on("/versions", Answer::ok(format!("---\na {generation}.0 x\n")).field("ETag", &tag));
        origin.on("/info/a", Answer::ok(format!("---\n{generation}.0 |checksum:x\n")).field("ETag", &tag));
    };
    publish(1);
    shoal.get("/rubygems/versions").expect_status(200);
    std::thread::sleep(Duration::from_millis(1_200));
    shoal.get("/rubygems/info/a").expect_status(200).expect_body("---\n1.0 |checksum:x\n");
    publish(2);
    std::thread::sleep(Duration::from_millis(1_000));
    // The index is too old by now; what it names is not, and would be served for another second.
    shoal.get("/rubygems/versions").expect_status(200).expect_body("---\na 2.0 x\n");
    shoal.get("/rubygems/info/a").expect_status(200).expect_body("---\n2.0 |checksum:x\n");
    std::thread::sleep(Duration::from_millis(1_100));
    let count = origin.count("/info/a");
    shoal.get("/rubygems/info/a").expect_status(200).expect_hit();
    assert_eq!(origin.count("/info/a"), count);
}

/// bundler asks for the end of an index that it has, and compares the digest of the whole.
#[test]
fn end_of_a_gem_index_comes_with_the_digest_of_the_whole() {
    let origin = Origin::start();
    let index = format!("---\n{}", "a 1.0 x\n".repeat(2_000));
    let digest = "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:";
    origin.on("/versions", Answer::ok(index.clone()).field("ETag", "\"2\"").field("Repr-Digest", digest));
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'rubygems'\nupstream = '{}'", origin.url()))
        .start();
    let end =
        Request::get("/rubygems/versions").field("If-None-Match", "\"1\"").field("Range", "bytes=9000-");
    for _ in 0..2 {
        let answer = shoal.ask(&end);
        assert_eq!(answer.expect_status(206).text(), index[9_000..]);
        assert_eq!((answer.field("repr-digest"), answer.field("etag")), (Some(digest), Some("\"2\"")));
    }
    assert_eq!(origin.total(), 1, "the whole is fetched once");
    shoal.ask(&Request::get("/rubygems/versions").field("If-None-Match", "\"2\"")).expect_status(304);
}
