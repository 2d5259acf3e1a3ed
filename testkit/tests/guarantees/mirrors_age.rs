//! A minimum age of releases: young versions, and those of unknown time, are neither listed nor
//! served, whatever the kind of registry.

use shoal_testkit::registry::{NpmVersion, npm_document, rfc3339, sha256};
use shoal_testkit::{Answer, Origin, Request, Resource, Response, Setup, Shoal};
use std::time::{Duration, SystemTime};

fn start(origin: &Origin, kind: &str, upstream: &str) -> Shoal {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = '{kind}'\nupstream = '{}{upstream}'\nminimum_age = '1d'", origin.url()))
        .start()
}

fn hour_ago() -> String {
    rfc3339(SystemTime::now() - Duration::from_secs(3600))
}

fn get(shoal: &Shoal, path: &str, accept: &str) -> Response {
    shoal.ask(&Request::get(path).field("Accept", accept))
}

/// Asks for files: the first is served, the others are refused and never fetched.
fn only_the_first_is_served(shoal: &Shoal, origin: &Origin, files: &[(&str, &str)]) {
    for (number, (path, at_origin)) in files.iter().enumerate() {
        let status = if number == 0 { 200 } else { 403 };
        shoal.ask(&Request::new("HEAD", path)).expect_status(status);
        shoal.get(path).expect_status(status);
        let fetched = origin.count_of("GET", at_origin);
        assert_eq!(fetched > 0, number == 0, "{path} was fetched {fetched} times");
    }
}

const OLD: &str = "2015-01-01T00:00:00.000Z";
const JSON: &str = "application/vnd.pypi.simple.v1+json";

/// A document of three files: of 2015, of an hour ago, and without a time.
fn pypi_document() -> String {
    let file = |version: &str, time: &str| {
        let name = format!("a-{version}-py3-none-any.whl");
        let digest = sha256(name.as_bytes());
        format!(
            "{{\"filename\":\"{name}\",\"url\":\"/p/{name}\",\"hashes\":{{\"sha256\":\"{digest}\"}}{time}}}"
        )
    };
    let dated = |version: &str, time: &str| file(version, &format!(",\"upload-time\":\"{time}\""));
    let files = [dated("1.0", OLD), dated("2.0", &hour_ago()), file("3.0", "")].join(",");
    format!(
        "{{\"meta\":{{\"api-version\":\"1.1\"}},\"name\":\"a\",\"versions\":[\"1.0\",\"2.0\",\"3.0\"],\"files\":[{files}]}}"
    )
}

#[test]
fn young_files_of_python_projects_are_hidden_and_refused() {
    let origin = Origin::start();
    origin.serve("/simple/a/", Resource::new(pypi_document()).field("Content-Type", JSON).etag("\"d\""));
    let files = ["1.0", "2.0", "3.0"].map(|version| format!("a-{version}-py3-none-any.whl"));
    for file in &files {
        origin.on(&format!("/p/{file}"), Answer::ok(file.as_bytes()));
    }
    let shoal = start(&origin, "pypi", "/simple");
    for accept in [JSON, "text/html"] {
        let page = get(&shoal, "/pypi/simple/a/", accept);
        let text = page.expect_status(200).text();
        assert!(page.field("content-type").is_some_and(|media| media.ends_with(&accept[accept.len() - 4..])));
        let listed: Vec<bool> = files.iter().map(|file| text.contains(file.as_str())).collect();
        assert_eq!(listed, [true, false, false], "{text}");
        assert!(!text.contains("\"3.0\""), "{text}");
        let tag = page.field("etag").expect("a validator").to_owned();
        let again = Request::get("/pypi/simple/a/").field("Accept", accept).field("If-None-Match", &tag);
        shoal.ask(&again).expect_status(304);
    }
    assert_eq!(origin.count("/simple/a/"), 1);
    let host = origin.url().replace("http://", "");
    let paths = files.each_ref().map(|file| (format!("/pypi/files/{host}/p/{file}"), format!("/p/{file}")));
    let paths: Vec<_> = paths.iter().map(|(path, at_origin)| (path.as_str(), at_origin.as_str())).collect();
    only_the_first_is_served(&shoal, &origin, &paths);
}

/// An index in HTML has no times, so that nothing of it is old enough.
#[test]
fn index_without_times_is_refused() {
    let origin = Origin::start();
    let page = "<!DOCTYPE html><a href=\"/p/a-1.0.zip\">a-1.0.zip</a>";
    origin.serve("/simple/a/", Resource::new(page).field("Content-Type", "text/html"));
    origin.on("/simple/", Answer::ok("<a href=\"a/\">a</a>").field("Content-Type", "text/html"));
    origin.on("/p/a-1.0.zip", Answer::ok("zip"));
    let shoal = start(&origin, "pypi", "/simple");
    get(&shoal, "/pypi/simple/a/", "text/html").expect_status(403);
    let host = origin.url().replace("http://", "");
    shoal.get(&format!("/pypi/files/{host}/p/a-1.0.zip")).expect_status(403);
    assert_eq!(origin.count("/p/a-1.0.zip"), 0);
    // The list of projects names no release.
    get(&shoal, "/pypi/simple/", "text/html").expect_status(200);
}

#[test]
fn young_crates_are_hidden_and_refused() {
    let origin = Origin::start();
    let line = |version: &str, time: &str| {
        let digest = sha256(version.as_bytes());
        format!("{{\"name\":\"a\",\"vers\":\"{version}\",\"deps\":[],\"cksum\":\"{digest}\"{time}}}\n")
    };
    let dated = |version: &str, time: &str| line(version, &format!(",\"pubtime\":\"{time}\""));
    let old = dated("1.0.0", "2015-01-01T00:00:00Z");
    let index = format!("{old}{}{}", dated("2.0.0", &hour_ago()), line("3.0.0", ""));
    origin.serve("/1/a", Resource::new(index).field("Content-Type", "text/plain").etag("\"d\""));
    origin.serve("/config.json", Resource::new(format!("{{\"dl\":\"{}/crates\"}}", origin.url())));
    let shoal = start(&origin, "cargo", "");
    let listed = shoal.get("/cargo/1/a");
    listed.expect_status(200).expect_body(&old);
    let tag = listed.field("etag").expect("a validator");
    assert_ne!(tag, "\"d\"", "the origin's tag stands on the origin's bytes alone");
    shoal.ask(&Request::get("/cargo/1/a").field("If-None-Match", tag)).expect_status(304);
    let paths = ["1.0.0", "2.0.0", "3.0.0"].map(|version| {
        let at_origin = format!("/crates/a/{version}/download");
        origin.on(&at_origin, Answer::ok(version));
        (format!("/cargo/crates/a/{version}/{}/download", sha256(version.as_bytes())), at_origin)
    });
    let paths: Vec<_> = paths.iter().map(|(path, at_origin)| (path.as_str(), at_origin.as_str())).collect();
    only_the_first_is_served(&shoal, &origin, &paths);
    assert_eq!(origin.count("/config.json"), 1);
}

/// Times of Go's versions stand in their `.info` files, which the node asks for.
#[test]
fn young_modules_are_hidden_and_refused() {
    let origin = Origin::start();
    let (module, at_mirror) = ("/m.test/a", "/go/m.test/a");
    origin.on("/m.test/a/@v/*", Answer::ok("bytes"));
    origin.on("/m.test/a/@v/list", Answer::ok("v1.0.0\nv2.0.0\nv3.0.0\n"));
    for (version, time) in [("v1.0.0", OLD), ("v2.0.0", &hour_ago())] {
        let info = format!("{{\"Version\":\"{version}\",\"Time\":\"{time}\"}}");
        origin.on(&format!("{module}/@v/{version}.info"), Answer::ok(info.clone()));
        if version == "v2.0.0" {
            origin.on("/m.test/a/@latest", Answer::ok(info.clone()));
            origin.on("/m.test/a/@v/main.info", Answer::ok(info));
        }
    }
    origin.on("/sumdb/sum.test/lookup/m.test/a@v1.0.0", Answer::ok("record"));
    // The last version has no time.
    origin.on("/m.test/a/@v/v3.0.0.info", Answer::new(404));
    let shoal = start(&origin, "go", "");
    shoal.get(&format!("{at_mirror}/@v/list")).expect_status(200).expect_body("v1.0.0\n");
    shoal.get(&format!("{at_mirror}/@latest")).expect_status(403);
    shoal.get(&format!("{at_mirror}/@v/main.info")).expect_status(403);
    for end in ["mod", "zip"] {
        let paths = ["v1.0.0", "v2.0.0", "v3.0.0"].map(|version| {
            (format!("{at_mirror}/@v/{version}.{end}"), format!("{module}/@v/{version}.{end}"))
        });
        let paths: Vec<_> =
            paths.iter().map(|(path, at_origin)| (path.as_str(), at_origin.as_str())).collect();
        only_the_first_is_served(&shoal, &origin, &paths);
    }
    shoal.get(&format!("{at_mirror}/@v/v1.0.0.info")).expect_status(200);
    shoal.get(&format!("{at_mirror}/@v/v2.0.0.info")).expect_status(403);
    assert_eq!(origin.count("/m.test/a/@v/v1.0.0.info"), 1);
    shoal.get("/go/sumdb/sum.test/lookup/m.test/a@v1.0.0").expect_status(200).expect_body("record");
}

#[test]
fn young_gems_are_hidden_and_refused() {
    let origin = Origin::start();
    let line = |version: &str, time: &str| {
        format!("{version} b:>= 1|checksum:{}{time}\n", sha256(version.as_bytes()))
    };
    let dated = |version: &str, time: &str| line(version, &format!(",ruby:>= 3,created_at:{time}"));
    let old = dated("1.0.0", "2015-01-01T00:00:00Z");
    let info = format!("---\n{old}{}{}", dated("2.0.0", &hour_ago()), line("3.0.0", ""));
    origin.serve("/info/a", Resource::new(info).field("Content-Type", "text/plain").etag("\"d\""));
    let shoal = start(&origin, "rubygems", "");
    shoal.get("/rubygems/info/a").expect_status(200).expect_body(format!("---\n{old}"));
    let gems = ["1.0.0", "2.0.0", "3.0.0"].map(|version| {
        let paths = [format!("/gems/a-{version}.gem"), format!("/quick/Marshal.4.8/a-{version}.gemspec.rz")];
        for path in &paths {
            origin.on(path, Answer::ok(version));
        }
        paths.map(|path| (format!("/rubygems{path}"), path))
    });
    for kind in 0..2 {
        let paths: Vec<_> =
            gems.iter().map(|paths| (paths[kind].0.as_str(), paths[kind].1.as_str())).collect();
        only_the_first_is_served(&shoal, &origin, &paths);
    }
}

/// A version that comes later is dated by the index that names it.
#[test]
fn stored_index_is_asked_again_for_a_new_crate() {
    let origin = Origin::start();
    let line = |version: &str| {
        let digest = sha256(version.as_bytes());
        format!(
            "{{\"name\":\"a\",\"vers\":\"{version}\",\"cksum\":\"{digest}\",\"pubtime\":\"2015-01-01T00:00:00Z\"}}\n"
        )
    };
    origin.serve("/1/a", Resource::new(line("1.0.0")));
    origin.serve("/config.json", Resource::new(format!("{{\"dl\":\"{}/crates\"}}", origin.url())));
    origin.on("/crates/*", Answer::ok("2.0.0"));
    let shoal = start(&origin, "cargo", "");
    shoal.get("/cargo/1/a").expect_status(200);
    origin.serve("/1/a", Resource::new(format!("{}{}", line("1.0.0"), line("2.0.0"))));
    let path = format!("/cargo/crates/a/2.0.0/{}/download", sha256(b"2.0.0"));
    shoal.get(&path).expect_status(200).expect_body("2.0.0");
}

/// Documents of one version, of tags, and lists of tags show and choose old releases alone.
#[test]
fn young_versions_are_not_chosen_by_name_or_tag() {
    let origin = Origin::start();
    let (url, young) = (origin.url(), hour_ago());
    let mut versions = ["1.0.0", "2.0.0"].map(|version| NpmVersion::of(&url, "a", version, b"x"));
    versions[1].time = &young;
    let json = |text: String| Answer::ok(text).field("Content-Type", "application/json");
    origin.on("/a", json(npm_document("a", &versions, true)));
    for version in ["1.0.0", "2.0.0"] {
        origin.on(&format!("/a/{version}"), json(format!("{{\"name\":\"a\",\"version\":\"{version}\"}}")));
    }
    origin.on("/a/latest", json("{\"name\":\"a\",\"version\":\"2.0.0\"}".into()));
    origin.on("/-/package/a/dist-tags", json("{\"latest\":\"2.0.0\"}".into()));
    let shoal = start(&origin, "npm", "");
    for _ in 0..3 {
        for (path, version) in [("/npm/a/1.0.0", Some("1.0.0")), ("/npm/a/latest", Some("1.0.0"))] {
            let answer = get(&shoal, path, "application/json");
            let read: serde_json::Value = serde_json::from_str(&answer.text()).expect("JSON");
            assert_eq!(read["version"].as_str(), version, "{path}");
        }
        for path in ["/npm/a/2.0.0", "/npm/a/next", "/npm/a/%32.0.0"] {
            get(&shoal, path, "application/json").expect_status(403);
        }
        get(&shoal, "/npm/-/package/a/dist-tags", "")
            .expect_status(200)
            .expect_body("{\"latest\":\"1.0.0\"}");
    }
    assert_eq!(origin.count("/a/2.0.0") + origin.count("/a/latest"), 0);
}
