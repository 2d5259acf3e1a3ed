//! `shoal mirror ls`, `why` and `verify`: what a node tells about its mirrors agrees with what it
//! did, and nothing is fetched for it.

use crate::mirrors::npm_mirror;
use serde_json::Value;
use shoal_testkit::registry::{NPM_SHORT, NpmVersion, npm_document, rfc3339, sri};
use shoal_testkit::seeded::body;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Origin, Request, Resource, Setup, Shoal};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

/// Runs `shoal mirror` against a node.
fn mirror(shoal: &Shoal, arguments: &[&str]) -> Output {
    let admin = shoal.admin().to_string();
    let mut command = Command::new(binary());
    command.arg("mirror").args(arguments).args(["--admin", &admin]);
    command.output().expect("it runs")
}

/// Runs `shoal mirror` with `--json`, whatever its exit code.
fn told(shoal: &Shoal, arguments: &[&str]) -> Value {
    let output = mirror(shoal, &[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
    })
}

/// Serves a package `a` with one version, whose tarball is as promised.
fn package(origin: &Origin, promised: &[u8], sent: &[u8]) {
    let versions = [NpmVersion::of(&origin.url(), "a", "1.0.0", promised)];
    let document = npm_document("a", &versions, false);
    origin.serve("/a", Resource::new(document).field("Content-Type", "application/json").etag("\"d\""));
    origin.on(TARBALL, Answer::ok(sent));
}

const TARBALL: &str = "/a/-/a-1.0.0.tgz";

fn ask_for_document(shoal: &Shoal) {
    shoal.ask(&Request::get("/npm/a").field("Accept", NPM_SHORT)).expect_status(200);
}

#[test]
fn counts_by_mirror_agree_everywhere() {
    let (origin, other) = (Origin::start(), Origin::start());
    let tarball = body("tarball", 100_000);
    package(&origin, &tarball, &tarball);
    origin.on(TARBALL, Answer::ok(tarball.clone()).delay(Duration::from_millis(40)));
    let shoal = npm_mirror(&origin, "").mirror(&format!("kind = 'go'\nupstream = '{}'", other.url())).start();
    let path = format!("/npm{TARBALL}");
    for _ in 0..5 {
        shoal.get(&path).expect_body(&tarball);
    }
    let rows = told(&shoal, &["ls"]);
    let row = &rows[0];
    assert_eq!(
        (rows.as_array().map(Vec::len), &row["name"], &rows[1]["name"]),
        (Some(2), &"npm".into(), &"go".into())
    );
    let count = |name: &str| row[name].as_u64().expect(name);
    assert_eq!((count("requests"), count("hits"), count("upstream_requests")), (5, 4, 2));
    assert_eq!((count("body_bytes"), count("hit_body_bytes")), (500_000, 400_000));
    // Four hits, each of a mean of 20 ms until the head.
    assert!(count("saved_us") >= 70_000, "{row}");
    assert_eq!(rows[1]["requests"], 0);
    assert_eq!(shoal.status()["mirrors"], rows);
    for (name, value) in [
        ("shoal_mirror_requests_total", 5),
        ("shoal_mirror_hits_total", 4),
        ("shoal_mirror_hit_body_bytes_total", 400_000),
        ("shoal_mirror_upstream_requests_total", 2),
    ] {
        shoal.expect_metric(name, "mirror=\"npm\"", value);
        shoal.expect_metric(name, "mirror=\"go\"", 0);
    }
    let page = shoal.ask_admin(&Request::get("/metrics")).text();
    assert_eq!(page.matches("\nshoal_mirror_saved_seconds{").count(), 2, "one row for each mirror");
    shoal.wait_until_written();
    let held = told(&shoal, &["ls", "--held"]);
    let held_of = |number: usize| {
        let held = &held[number]["held"];
        (held["documents"].as_u64(), held["files"].as_u64())
    };
    assert_eq!((held_of(0), held_of(1)), ((Some(1), Some(1)), (Some(0), Some(0))));
    let table = String::from_utf8(mirror(&shoal, &["ls"]).stdout).expect("text");
    assert!(table.contains("npm") && table.contains("80.0%"), "{table}");
}

#[test]
fn why_tells_promise_and_verification() {
    let origin = Origin::start();
    let tarball = body("tarball", 50_000);
    package(&origin, &tarball, &tarball);
    let shoal = npm_mirror(&origin, "index_lifetime = '1s'").start();
    let path = format!("/npm{TARBALL}");
    let why = |name: &str| told(&shoal, &["why", name])[0].clone();
    let unknown = why(&path);
    assert_eq!(
        (&unknown["mirror"]["promise"], &unknown["stored"]["kind"]),
        (&Value::Null, &"nothing".into())
    );
    ask_for_document(&shoal);
    let promised = why(&path);
    let digest = promised["mirror"]["promise"]["digest"].as_str().expect("a digest").to_owned();
    assert!(digest.starts_with("sha512:") && promised["mirror"]["verified"].is_null(), "{promised}");
    assert_eq!(promised["mirror"]["promise"]["source"], format!("{}/a", origin.url()));
    shoal.get(&path).expect_status(200);
    let before = origin.total();
    let at_registry = format!("{}{TARBALL}", origin.url());
    for name in [&path, &at_registry] {
        let held = why(name);
        assert_eq!(
            (&held["mirror"]["verified"], &held["reuse"]["hit"]),
            (&true.into(), &true.into()),
            "{held}"
        );
        assert_eq!(held["mirror"]["place"], at_registry.as_str());
        assert!(held["target"]["key"].as_str().is_some_and(|key| key.starts_with(&at_registry)), "{held}");
    }
    let package = why("a");
    assert_eq!(
        (&package["mirror"]["class"], &package["stored"]["kind"]),
        (&"document".into(), &"nothing".into())
    );
    assert_eq!(origin.total(), before, "nothing is fetched");
    // The registry promises another body under the same name.
    let other = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", b"other")], false);
    origin.serve("/a", Resource::new(other).field("Content-Type", "application/json").etag("\"e\""));
    std::thread::sleep(Duration::from_millis(1100));
    ask_for_document(&shoal);
    assert_eq!(why(&path)["mirror"]["verified"], false);
    let text = String::from_utf8(mirror(&shoal, &["why", &path]).stdout).expect("text");
    assert!(text.contains("promised by  ") && text.contains("is not the promised"), "{text}");
    assert!(!mirror(&shoal, &["why", "/elsewhere/x"]).status.success());
}

#[test]
fn why_tells_rules_by_name_and_age() {
    let (origin, other) = (Origin::start(), Origin::start());
    let hour_ago = rfc3339(SystemTime::now() - Duration::from_secs(3600));
    let url = origin.url();
    let version = NpmVersion { time: &hour_ago, ..NpmVersion::of(&url, "@corp/a", "1.0.0", b"x") };
    origin.on("/@corp%2fa", Answer::ok(npm_document("@corp/a", &[version], true)));
    let shoal = npm_mirror(&origin, "refuse = ['bad']\nowned = ['@corp/*']\nminimum_age = '1d'")
        .mirror(&format!("kind = 'npm'\nname = 'other'\nupstream = '{}'", other.url()))
        .start();
    let of = |name: &str, mirror: &str| told(&shoal, &["why", name, "--mirror", mirror])[0].clone();
    let refused = of("bad", "npm");
    let reason = refused["refusal"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("mirror.refuse") && refused["refusal"]["status"] == 403, "{refused}");
    let owned = of("@corp/a", "npm");
    assert_eq!((&owned["mirror"]["owned"], &owned["refusal"]), (&true.into(), &Value::Null));
    let elsewhere = of("@corp/a", "other");
    assert!(elsewhere["refusal"]["reason"].as_str().is_some_and(|why| why.contains("mirror.owned")));
    shoal.get("/npm/@corp%2fa").expect_status(200);
    let young = of("/npm/@corp/a/-/a-1.0.0.tgz", "npm");
    assert_eq!((&young["mirror"]["too_young"], &young["refusal"]["status"]), (&true.into(), &403.into()));
    assert_eq!(young["refusal"]["setting"], "mirror[0].minimum_age");
    assert!(young["mirror"]["published"].as_i64().is_some_and(|time| time > 1_700_000_000), "{young}");
    shoal.get("/npm/@corp/a/-/a-1.0.0.tgz").expect_status(403);
}

#[test]
fn verify_finds_and_purges_what_differs() {
    let (origin, repository) = (Origin::start(), Origin::start());
    let tarball = body("tarball", 50_000);
    package(&origin, &tarball, &tarball);
    repository.on("/g/b/1/b-1.jar", Answer::ok("jar"));
    let shoal = npm_mirror(&origin, "index_lifetime = '1s'")
        .mirror(&format!("kind = 'maven'\nupstream = '{}'", repository.url()))
        .start();
    let path = format!("/npm{TARBALL}");
    shoal.get(&path).expect_status(200);
    shoal.get("/maven/g/b/1/b-1.jar").expect_status(200);
    shoal.wait_until_written();
    let sound = told(&shoal, &["verify"]);
    let row = |told: &Value, number: usize| {
        ["sound", "unpromised", "differing", "damaged"]
            .map(|name| told["mirrors"][number][name].as_u64().expect(name))
    };
    // The document and the file; a file without a sidecar is unpromised.
    assert_eq!((row(&sound, 0), row(&sound, 1)), ([2, 0, 0, 0], [0, 1, 0, 0]));
    assert!(mirror(&shoal, &["verify"]).status.success());
    let other = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", b"other")], false);
    assert!(other.contains(&sri(b"other")));
    origin.serve("/a", Resource::new(other).field("Content-Type", "application/json").etag("\"e\""));
    std::thread::sleep(Duration::from_millis(1100));
    ask_for_document(&shoal);
    shoal.wait_until_written();
    let before = origin.total();
    let output = mirror(&shoal, &["verify", "npm"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("{}{TARBALL}: ", origin.url())), "{text}");
    let purged = told(&shoal, &["verify", "npm", "--purge"]);
    assert_eq!((row(&purged, 0)[2], &purged["faults"][0]["purged"]), (1, &true.into()));
    assert_eq!(origin.total(), before, "nothing is fetched");
    origin.on(TARBALL, Answer::ok("other"));
    assert!(!shoal.get(&path).expect_status(200).expect_body("other").hit());
    assert_eq!(mirror(&shoal, &["verify", "nobody"]).status.code(), Some(2));
}

/// Files of an index lie at other hosts, and stored pages may be coded.
#[test]
fn verify_knows_files_of_other_hosts() {
    let (origin, files) = (Origin::start(), Origin::start());
    let digest = shoal_testkit::registry::sha256(b"zip");
    let page = |digest: &str| {
        format!(
            "{{\"name\":\"a\",\"files\":[{{\"filename\":\"a-1.0.zip\",\"url\":\"{}/p/a-1.0.zip\",\"hashes\":{{\"sha256\":\"{digest}\"}}}}]}}",
            files.url()
        )
    };
    let media = "application/vnd.pypi.simple.v1+json";
    origin.serve("/simple/a/", Resource::new(page(&digest)).field("Content-Type", media).etag("\"d\""));
    files.on("/p/a-1.0.zip", Answer::ok("zip"));
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'pypi'\nupstream = '{}/simple'\nindex_lifetime = '1s'", origin.url()))
        .start();
    let at = format!("/pypi/files/{}/p/a-1.0.zip", files.url().replace("http://", ""));
    shoal.get(&at).expect_status(200).expect_body("zip");
    shoal.wait_until_written();
    let counts =
        |told: &Value| (told["mirrors"][0]["sound"].as_u64(), told["mirrors"][0]["differing"].as_u64());
    assert_eq!(counts(&told(&shoal, &["verify"])), (Some(2), Some(0)));
    assert_eq!(told(&shoal, &["ls", "--held"])[0]["held"]["files"], 1);
    let wrong = page(&digest.replace(&digest[..4], "0000"));
    origin.serve("/simple/a/", Resource::new(wrong).field("Content-Type", media).etag("\"e\""));
    std::thread::sleep(Duration::from_millis(1100));
    shoal.ask(&Request::get("/pypi/simple/a/").field("Accept", media)).expect_status(200);
    shoal.wait_until_written();
    assert_eq!(counts(&told(&shoal, &["verify"])), (Some(1), Some(1)));
}
