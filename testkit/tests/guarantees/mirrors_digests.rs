//! Digests that stand in no index page: hashes of Go zips in a checksum database, and those of an
//! archive's packages in its lists.

use shoal_testkit::registry::{go_mod_sum, go_zip, sha256};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Setup, Shoal};
use std::time::Duration;

const ZIP: &str = "/a.test/b/@v/v1.0.0.zip";
const MOD: &str = "/a.test/b/@v/v1.0.0.mod";
const RECORD: &str = "/sumdb/sum.test/lookup/a.test/b@v1.0.0";

fn mirror(kind: &str, origin: &Origin, more: &str) -> Shoal {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = '{kind}'\nupstream = '{}'\n{more}", origin.url()))
        .start()
}

/// Returns `true` if the answer is cut, perhaps before its head.
fn is_cut(shoal: &Shoal, request: &Request) -> bool {
    let mut client = shoal.connect();
    client.send(request.to_bytes("c.test"));
    client.try_response("GET").map_or(true, |response| !response.complete())
}

/// Serves a module with a record that promises `promised`, and a zip with the other bytes.
fn module(origin: &Origin, promised: &str, zip: &[u8]) {
    let module = b"module a.test/b\n";
    let record =
        format!("7\na.test/b v1.0.0 {promised}\na.test/b v1.0.0/go.mod {}\n\ntree\n", go_mod_sum(module));
    origin.on(RECORD, Answer::ok(record));
    origin.on("/sumdb/sum.test/supported", Answer::ok(""));
    origin.on(MOD, Answer::ok(&module[..]));
    origin.on(ZIP, Answer::ok(zip));
}

fn members(text: &[u8]) -> [(&str, &[u8]); 2] {
    [("a.test/b@v1.0.0/go.mod", b"module a.test/b\n"), ("a.test/b@v1.0.0/b.go", text)]
}

/// go asks for the record before it fetches a zip.
#[test]
fn go_zip_is_checked_by_the_record_that_clients_asked_for() {
    let origin = Origin::start();
    let (text, other) = (body("go", 40_000), body("other", 40_000));
    let ((zip, sum), (wrong, _)) = (go_zip(&members(&text)), go_zip(&members(&other)));
    module(&origin, &sum, &wrong);
    let shoal = mirror("go", &origin, "");
    shoal.get(&format!("/go{RECORD}")).expect_status(200);
    for _ in 0..2 {
        assert!(is_cut(&shoal, &Request::get(&format!("/go{ZIP}"))), "the last block was held back");
    }
    shoal.expect_metric("shoal_mirror_refused_total", "reason=\"digest\"", 2);
    let part = Request::get(&format!("/go{ZIP}")).field("Range", "bytes=0-99");
    assert!(is_cut(&shoal, &part), "a part waits for the whole");
    origin.on(ZIP, Answer::ok(zip.clone()));
    shoal.get(&format!("/go{ZIP}")).expect_status(200).expect_body(&zip);
    shoal.get(&format!("/go{ZIP}")).expect_hit();
    shoal.get(&format!("/go{MOD}")).expect_status(200);
    assert_eq!(origin.count(RECORD), 1);
}

#[test]
fn node_asks_the_database_that_the_settings_name() {
    let origin = Origin::start();
    let ((zip, sum), (wrong, _)) = (go_zip(&members(b"a")), go_zip(&members(b"b")));
    module(&origin, &sum, &wrong);
    let shoal = mirror("go", &origin, "checksum_database = 'sum.test'");
    assert!(is_cut(&shoal, &Request::get(&format!("/go{ZIP}"))));
    origin.on(ZIP, Answer::ok(zip.clone()));
    shoal.get(&format!("/go{ZIP}")).expect_status(200).expect_body(&zip);
    origin.on(MOD, Answer::ok("module c.test/d"));
    assert!(is_cut(&shoal, &Request::get(&format!("/go{MOD}"))));
    assert_eq!(origin.count(RECORD), 1);
    // A module that the database does not know is private, and is not checked.
    origin.on("/sumdb/*", Answer::new(404));
    origin.on("/p.test/q/@v/v1.0.0.zip", Answer::ok("private"));
    shoal.get("/go/p.test/q/@v/v1.0.0.zip").expect_status(200).expect_body("private");
}

#[test]
fn hash_beside_a_zip_checks_it() {
    let origin = Origin::start();
    let ((zip, sum), (wrong, _)) = (go_zip(&members(b"a")), go_zip(&members(b"b")));
    origin.on("/a.test/b/@v/v1.0.0.ziphash", Answer::ok(sum));
    origin.on(ZIP, Answer::ok(wrong));
    let shoal = mirror("go", &origin, "checksum_database = 'ziphash'");
    assert!(is_cut(&shoal, &Request::get(&format!("/go{ZIP}"))));
    origin.on(ZIP, Answer::ok(zip.clone()));
    shoal.get(&format!("/go{ZIP}")).expect_status(200).expect_body(&zip);
}

const RELEASE: &str = "/dists/x/InRelease";
const LIST: &str = "/dists/x/main/binary-amd64/Packages";
const PACKAGE: &str = "/pool/main/a/a_1_amd64.deb";

/// Serves an archive with a list of one package, which has these bytes.
fn archive(origin: &Origin, second: u32, package: &[u8]) {
    let list = format!(
        "Package: a\nFilename: {}\nSize: {}\nSHA256: {}\n\n",
        &PACKAGE[1..],
        package.len(),
        sha256(package)
    );
    let release = format!(
        "Suite: x\nDate: Sat, 09 Aug 2025 09:13:{second:02} UTC\nSHA256:\n {} {} {}\n",
        sha256(list.as_bytes()),
        list.len(),
        &LIST["/dists/x/".len()..]
    );
    origin.on(RELEASE, Answer::ok(release).field("ETag", &format!("\"{second}\"")));
    origin.on(LIST, Answer::ok(list));
}

fn update(shoal: &Shoal) {
    shoal.get(&format!("/deb{RELEASE}")).expect_status(200);
    shoal.get(&format!("/deb{LIST}")).expect_status(200);
}

#[test]
fn package_is_checked_by_the_lists_of_its_release() {
    let origin = Origin::start();
    let (right, wrong) = (body("deb", 30_000), body("other", 30_000));
    archive(&origin, 1, &right);
    origin.on(PACKAGE, Answer::ok(wrong.clone()));
    let shoal = mirror("deb", &origin, "index_lifetime = '1 s'");
    update(&shoal);
    let path = format!("/deb{PACKAGE}");
    assert!(is_cut(&shoal, &Request::get(&path)), "the last block was held back");
    origin.on(PACKAGE, Answer::ok(right.clone()));
    shoal.get(&path).expect_status(200).expect_body(&right);
    for _ in 0..3 {
        shoal.get(&path).expect_hit();
    }
    // The archive gives another package the same name.
    archive(&origin, 2, &wrong);
    origin.on(PACKAGE, Answer::ok(wrong.clone()));
    std::thread::sleep(Duration::from_millis(1_100));
    update(&shoal);
    for _ in 0..3 {
        shoal.get(&path).expect_status(200).expect_body(&wrong);
    }
    shoal.expect_metric("shoal_mirror_replaced_total", "", 1);
    // No list names it, so that nothing is known about it.
    origin.on("/pool/main/b/b_1_arm64.deb", Answer::ok("arm"));
    shoal.get("/deb/pool/main/b/b_1_arm64.deb").expect_status(200).expect_body("arm");
}

/// A release that was read once is not read again, as long as the cache has the same response.
#[test]
fn release_is_read_once() {
    let origin = Origin::start();
    archive(&origin, 1, b"x");
    let shoal = mirror("deb", &origin, "");
    update(&shoal);
    let reads = |shoal: &Shoal| shoal.metric("shoal_mirror_releases_read_total", "");
    let before = reads(&shoal);
    for _ in 0..5 {
        shoal.get(&format!("/deb{RELEASE}")).expect_hit();
    }
    assert!(reads(&shoal) <= before + 1, "{} after {before}", reads(&shoal));
    assert_eq!(origin.count(RELEASE), 1);
}
