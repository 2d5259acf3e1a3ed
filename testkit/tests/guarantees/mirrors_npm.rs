//! npm's documents through a mirror: two forms, scopes, validators, rewritten URLs.

use crate::mirrors::npm_mirror;
use flate2::Compression;
use flate2::write::GzEncoder;
use shoal_testkit::certificates::Authority;
use shoal_testkit::registry::{NPM_SHORT, NpmVersion, npm_document, rfc3339};
use shoal_testkit::{Answer, Connection, Origin, Request, Resource, Response, Setup, Shoal};
use std::io::Write;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

fn ask(shoal: &Shoal, path: &str, fields: &[(&str, &str)], host: &str) -> Response {
    let add = |request: Request, (name, value): &(&str, &str)| request.field(name, value);
    shoal.connect().ask(&fields.iter().fold(Request::get(path), add), host)
}

/// Serves `a` in both forms, by Accept, each with its entity tag.
fn two_forms(origin: &Origin, name: &str, path: &str) {
    let url = origin.url();
    let of = |is_full| npm_document(name, &[NpmVersion::of(&url, name, "1.0.0", b"x")], is_full);
    let (short, full) = (of(false), of(true));
    origin.on_request(path, move |request| {
        let is_short = request.fields.joined("accept").contains("install-v1");
        let (document, tag, media) = match is_short {
            true => (&short, "\"s\"", "application/vnd.npm.install-v1+json"),
            false => (&full, "\"f\"", "application/json"),
        };
        Resource::new(document.clone()).field("Content-Type", media).etag(tag).answer(request)
    });
}

#[test]
fn each_form_has_its_key_and_its_type() {
    let origin = Origin::start();
    two_forms(&origin, "a", "/a");
    let shoal = npm_mirror(&origin, "").start();
    for _ in 0..2 {
        let short = ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT)], "c.test");
        assert_eq!(short.field("content-type"), Some("application/vnd.npm.install-v1+json"));
        assert_eq!(short.field("vary"), Some("Accept"));
        assert_eq!(short.field("cache-control"), Some("max-age=300"));
        assert!(!short.text().contains("\"time\""));
        for accept in ["application/json", "*/*"] {
            let full = ask(&shoal, "/npm/a", &[("Accept", accept)], "c.test");
            assert_eq!(full.field("content-type"), Some("application/json"));
            assert!(full.text().contains("\"time\""));
        }
    }
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn tarball_urls_are_those_by_which_the_client_asked() {
    let origin = Origin::start();
    two_forms(&origin, "@s/b", "/@s%2fb");
    let shoal = npm_mirror(&origin, "").start();
    for (path, host) in
        [("/npm/@s%2fb", "c.test:8080"), ("/npm/@s%2Fb", "d.test"), ("/npm/@s/b", "c.test:8080")]
    {
        let document = ask(&shoal, path, &[("Accept", NPM_SHORT)], host);
        let wanted = format!("\"http://{host}/npm/@s/b/-/b-1.0.0.tgz\"");
        assert!(document.text().contains(&wanted), "{}", document.text());
        assert!(!document.text().contains(&origin.url()));
    }
    assert_eq!(origin.count("/@s%2fb"), 1, "all spellings are one key");
}

#[test]
fn conditional_matrix() {
    let origin = Origin::start();
    two_forms(&origin, "a", "/a");
    let shoal = npm_mirror(&origin, "").start();
    let tag = |path: &str, accept: &str, host: &str| {
        let answer = ask(&shoal, path, &[("Accept", accept)], host);
        answer.field("etag").expect("a validator").to_owned()
    };
    let own = tag("/npm/a", NPM_SHORT, "c.test");
    assert!(!own.contains("\"s\""), "the origin's tag stands on the origin's bytes alone");
    assert_ne!(own, tag("/npm/a", NPM_SHORT, "d.test"));
    assert_ne!(own, tag("/npm/a", "*/*", "c.test"));
    let same = ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT), ("If-None-Match", &own)], "c.test");
    assert_eq!((same.expect_status(304).body.len(), same.field("content-type")), (0, None));
    assert_eq!(same.field("etag"), Some(&*own));
    for other in ["\"s\"", "\"x\""] {
        ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT), ("If-None-Match", other)], "c.test")
            .expect_status(200);
    }
    let head = shoal.connect().ask(&Request::new("HEAD", "/npm/a").field("Accept", NPM_SHORT), "c.test");
    assert_eq!((head.expect_status(200).field("etag"), head.body.len()), (Some(&*own), 0));
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn tag_lasts_as_long_as_the_document() {
    let origin = Origin::start();
    two_forms(&origin, "a", "/a");
    let shoal = npm_mirror(&origin, "index_lifetime = '1s'").start();
    let first = ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT)], "c.test");
    let tag = first.field("etag").expect("a validator").to_owned();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    // The origin answers 304, and so does the mirror.
    ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT), ("If-None-Match", &tag)], "c.test").expect_status(304);
    assert_eq!(origin.last("/a").fields.first("if-none-match"), Some("\"s\""));
    // A changed document has another tag.
    let changed = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "2.0.0", b"y")], false);
    origin.serve("/a", Resource::new(changed).etag("\"t\""));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let second = ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT), ("If-None-Match", &tag)], "c.test");
    second.expect_status(200);
    assert!(second.text().contains("2.0.0"));
}

#[test]
fn silent_document_has_a_tag_for_each_fetch() {
    let origin = Origin::start();
    let url = origin.url();
    origin.on_request("/a", move |_| {
        Answer::ok(npm_document("a", &[NpmVersion::of(&url, "a", "1.0.0", b"x")], false)).undated()
    });
    let shoal = npm_mirror(&origin, "index_lifetime = '1s'").start();
    let tag = || {
        let answer = ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT)], "c.test");
        assert_eq!(answer.field("shoal-fetched"), None, "a field of ours");
        answer.field("etag").expect("a validator").to_owned()
    };
    let first = tag();
    assert_eq!(first, tag());
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_ne!(first, tag());
    assert_eq!(origin.count("/a"), 2);
}

#[test]
fn coded_document_is_decoded_and_rewritten() {
    let origin = Origin::start();
    let document = npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", b"right")], false);
    let coded = gzip(&document);
    origin.on(
        "/a",
        Answer::ok(coded).field("Content-Encoding", "gzip").field("Content-Type", "application/json"),
    );
    origin.on("/a/-/a-1.0.0.tgz", Answer::ok("right").field("Content-Encoding", "gzip"));
    let shoal = npm_mirror(&origin, "").start();
    let answer = ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT)], "c.test");
    assert_eq!(answer.field("content-encoding"), None);
    let wanted = document.replace(&origin.url(), "http://c.test/npm");
    answer.expect_status(200).expect_body(&wanted);
    // A tarball is no coded document, whatever its origin says.
    let tarball = shoal.get("/npm/a/-/a-1.0.0.tgz");
    assert_eq!(tarball.expect_body("right").field("content-encoding"), None);
    assert_eq!(origin.last("/a").fields.first("accept-encoding"), Some("gzip"));
    assert!(!origin.last("/a/-/a-1.0.0.tgz").fields.has("accept-encoding"));
}

#[test]
fn large_document_streams_in_a_small_window() {
    let origin = Origin::start();
    let url = origin.url();
    let name: Vec<String> = (0..50_000).map(|number| format!("1.0.{number}")).collect();
    let versions: Vec<_> = name.iter().map(|version| NpmVersion::of(&url, "a", version, b"x")).collect();
    let document = npm_document("a", &versions, false);
    assert!(document.len() > 10 << 20, "{}", document.len());
    origin.serve("/a", Resource::new(document.clone()).etag("\"d\""));
    let shoal = npm_mirror(&origin, "").start();
    let wanted = document.replace(&url, "http://c.test/npm");
    ask(&shoal, "/npm/a", &[], "c.test").expect_body(&wanted);
    let before = shoal.resident_bytes();
    for _ in 0..3 {
        ask(&shoal, "/npm/a", &[], "c.test").expect_body(&wanted);
    }
    let grown = shoal.resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes for a stored document of {}", document.len());
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn tarballs_elsewhere_are_found_by_their_document() {
    let (origin, files) = (Origin::start(), Origin::start());
    let mut version = NpmVersion::of("", "a", "1.0.0", b"right");
    version.url = format!("{}/blobs/123", files.url());
    origin.on("/a", Answer::ok(npm_document("a", &[version], false)));
    files.on("/blobs/123", Answer::ok("right"));
    let shoal = npm_mirror(&origin, "").start();
    let document = ask(&shoal, "/npm/a", &[("Accept", NPM_SHORT)], "c.test");
    assert!(document.text().contains("\"http://c.test/npm/a/-/a-1.0.0.tgz\""), "{}", document.text());
    for _ in 0..2 {
        shoal.get("/npm/a/-/a-1.0.0.tgz").expect_status(200).expect_body("right");
    }
    assert_eq!((files.count("/blobs/123"), origin.total()), (1, 1));
}

#[test]
fn root_serves_attestations_and_tarballs_of_locks() {
    let origin = Origin::start();
    origin
        .on("/a", Answer::ok(npm_document("a", &[NpmVersion::of(&origin.url(), "a", "1.0.0", b"x")], false)));
    origin.on("/a/-/a-1.0.0.tgz", Answer::ok("x"));
    origin.on("/-/npm/v1/attestations/a@1.0.0", Answer::ok("{}"));
    let shoal = npm_mirror(&origin, "").start();
    shoal.get("/a/-/a-1.0.0.tgz").expect_status(200).expect_body("x");
    shoal.get("/npm/a/-/a-1.0.0.tgz").expect_hit();
    shoal.get("/-/npm/v1/attestations/a@1.0.0").expect_status(200).expect_body("{}");
    shoal.get("/npm/-/npm/v1/attestations/a@1.0.0").expect_hit();
    shoal.get("/a").expect_status(404);
}

#[test]
fn audits_pass_and_publishing_is_refused() {
    let origin = Origin::start();
    origin.on_request("/-/npm/v1/security/advisories/bulk", |request| Answer::ok(request.body.clone()));
    let shoal = npm_mirror(&origin, "").start();
    for _ in 0..2 {
        let audit = Request::new("POST", "/npm/-/npm/v1/security/advisories/bulk")
            .field("Authorization", "Bearer secret")
            .body(b"{\"a\":[\"1\"]}");
        shoal.ask(&audit).expect_status(200).expect_body("{\"a\":[\"1\"]}");
    }
    assert_eq!(origin.count("/-/npm/v1/security/advisories/bulk"), 2);
    assert!(!origin.last("/-/npm/v1/security/advisories/bulk").fields.has("authorization"));
    shoal.ask(&Request::new("PUT", "/npm/a").body(b"{}")).expect_status(405);
    assert_eq!(origin.total(), 2);
}

#[test]
fn names_are_refused_and_owned() {
    let (public, private) = (Origin::start(), Origin::start());
    let shoal = npm_mirror(&public, "refuse = ['bad*']")
        .mirror(&format!("kind = 'npm'\nname = 'own'\nupstream = '{}'\nowned = ['@corp/*']", private.url()))
        .start();
    for path in ["/npm/badger", "/npm/badger/-/badger-1.tgz", "/npm/@corp%2fx", "/npm/@corp/x/-/x-1.tgz"] {
        shoal.get(path).expect_status(403);
    }
    shoal.get("/own/@corp%2fx").expect_status(404);
    assert_eq!((public.total(), private.total()), (0, 1));
}

/// A package of ten years passes at first sight; a release of an hour ago is neither listed nor
/// served, and an undated one neither.
#[test]
fn young_releases_are_hidden_and_refused() {
    let origin = Origin::start();
    let url = origin.url();
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let hour_ago = rfc3339(hour_ago);
    let mut versions = ["1.0.0", "2.0.0", "3.0.0"].map(|version| NpmVersion::of(&url, "a", version, b"x"));
    versions[1].time = "unknown";
    versions[2].time = &hour_ago;
    let document = npm_document("a", &versions, true);
    origin
        .serve("/a", Resource::new(document.clone()).etag("\"d\"").field("Content-Type", "application/json"));
    origin.on("/a/-/*", Answer::ok("x"));
    let setup = |more: &str| npm_mirror(&origin, &format!("minimum_age = '1d'\n{more}")).start();
    let shoal = setup("");
    for accept in [NPM_SHORT, "application/json"] {
        let answer = ask(&shoal, "/npm/a", &[("Accept", accept)], "c.test");
        let read: serde_json::Value = serde_json::from_str(&answer.text()).expect("JSON");
        let listed: Vec<_> = read["versions"].as_object().expect("versions").keys().cloned().collect();
        assert_eq!((listed, &read["dist-tags"]["latest"]), (vec!["1.0.0".to_owned()], &"1.0.0".into()));
        assert_eq!(
            answer.field("content-type").map(|media| media.contains("install-v1")),
            Some(accept == NPM_SHORT)
        );
        let tag = answer.field("etag").expect("a validator").to_owned();
        ask(&shoal, "/npm/a", &[("Accept", accept), ("If-None-Match", &tag)], "c.test").expect_status(304);
    }
    assert_eq!(origin.count("/a"), 1, "both forms come from one document");
    shoal.get("/npm/a/-/a-1.0.0.tgz").expect_status(200).expect_body("x");
    for young in ["/npm/a/-/a-2.0.0.tgz", "/npm/a/-/a-3.0.0.tgz"] {
        shoal.get(young).expect_status(403);
        shoal.ask(&Request::new("HEAD", young)).expect_status(403);
    }
    assert_eq!(origin.count("/a/-/a-3.0.0.tgz") + origin.count("/a/-/a-2.0.0.tgz"), 0);
    let excepting = setup("minimum_age_except = ['a']");
    excepting.get("/npm/a/-/a-3.0.0.tgz").expect_status(200);
    assert!(ask(&excepting, "/npm/a", &[("Accept", "*/*")], "c.test").text().contains("3.0.0"));
}

/// The rule holds for files that were fetched before it was made.
#[test]
fn minimum_age_holds_for_stored_files() {
    let origin = Origin::start();
    let hour_ago = rfc3339(std::time::SystemTime::now() - std::time::Duration::from_secs(3600));
    let url = origin.url();
    let version = NpmVersion { time: &hour_ago, ..NpmVersion::of(&url, "a", "1.0.0", b"x") };
    origin.on("/a", Answer::ok(npm_document("a", &[version], true)));
    origin.on("/a/-/a-1.0.0.tgz", Answer::ok("x"));
    let mut shoal = npm_mirror(&origin, "minimum_age = '1s'").start();
    shoal.get("/npm/a/-/a-1.0.0.tgz").expect_status(200);
    shoal.change(|text| text.replace("\"1s\"", "\"1d\""));
    shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
    shoal.get("/npm/a/-/a-1.0.0.tgz").expect_status(403);
}

/// One port serves a mirror by path and one by name, over TLS, from a registry with an authority of
/// its own.
#[test]
fn mirrors_share_a_port_by_path_and_by_name() {
    let authority = Authority::new();
    let (first, second) = (Origin::start_tls(&authority.issue(&["127.0.0.1"])), Origin::start());
    let setup = Setup::bare();
    authority.issue(&["c.test", "npm.test"]).write(setup.folder(), "cache");
    let ca = setup.file("ca.pem", &authority.pem());
    let folder = setup.folder().to_string_lossy().into_owned();
    let upstream = first.url();
    two_forms(&first, "a", "/a");
    two_forms(&second, "a", "/a");
    let pair = format!("{{ certificate = '{folder}/cache.pem', key = '{folder}/cache.key' }}");
    let shoal = setup
        .listen("tls", &format!("mode = 'reverse'\ntls = [{pair}]"))
        .mirror(&format!("kind = 'npm'\nupstream = '{upstream}'\nca_file = '{}'", ca.display()))
        .mirror(&format!(
            "kind = 'npm'\nname = 'own'\nhosts = ['npm.test']\npath = '/'\nupstream = '{}'",
            second.url()
        ))
        .start();
    let get = |name: &str, path: &str| {
        let mut client = Connection::open_tls(shoal.address("tls"), name, authority.client(&["http/1.1"]));
        client.ask(&Request::get(path).field("Accept", NPM_SHORT), name)
    };
    let by_path = get("c.test", "/npm/a");
    assert_eq!(by_path.expect_status(200).field("content-type"), Some("application/vnd.npm.install-v1+json"));
    let by_name = get("npm.test", "/a");
    assert!(by_name.expect_status(200).text().contains("\"https://npm.test/a/-/a-1.0.0.tgz\""));
    assert_eq!((first.count("/a"), second.count("/a")), (1, 1));
}
