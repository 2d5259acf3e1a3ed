//! Warming: what a lockfile names is fetched once, checked, and then served without the registry.

use serde_json::{Value, json};
use shoal_testkit::registry::{NpmVersion, go_mod_sum, npm_document, sha256, sri};
use shoal_testkit::seeded::body;
use shoal_testkit::shoal::binary;
use shoal_testkit::{Answer, Gate, Origin, Request, Resource, Setup, Shoal};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A reverse proxy with mirrors of these kinds at one origin, each below its own path there.
fn mirrors(origin: &Origin, kinds: &[&str]) -> Setup {
    let setup = Setup::bare().listen("reverse", "mode = 'reverse'");
    kinds.iter().fold(setup, |setup, kind| {
        let upstream = if *kind == "pypi" { "pypi/simple" } else { kind };
        let upstream = if *kind == "oci" { String::new() } else { format!("/{upstream}") };
        setup.mirror(&format!("kind = '{kind}'\nupstream = '{}{upstream}'", origin.url()))
    })
}

/// Starts a job and waits for its end.
fn warm(shoal: &Shoal, query: &str, list: &str) -> Value {
    let started = shoal.ask_admin(&Request::new("POST", &format!("/warm?{query}")).body(list.as_bytes()));
    let report: Value = serde_json::from_slice(&started.expect_status(202).body).expect("JSON");
    finished(shoal, report["job"].as_u64().expect("a number"))
}

fn finished(shoal: &Shoal, job: u64) -> Value {
    let begin = Instant::now();
    loop {
        let report = shoal.ask_admin(&Request::get(&format!("/warm?job={job}")));
        let report: Value = serde_json::from_slice(&report.expect_status(200).body).expect("JSON");
        if ["done", "planned", "stopped"].contains(&report["state"].as_str().expect("a state")) {
            return report;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{report}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Held, missing, fetched, failed and refused.
fn counts(report: &Value) -> [u64; 5] {
    let files = &report["files"];
    let fields = [
        &files["held"],
        &files["missing"],
        &files["fetched"],
        &report["failures"]["count"],
        &report["refused"]["count"],
    ];
    fields.map(|field| field.as_u64().expect("a number"))
}

/// Packages of npm with one version each, and their lock.
fn npm(origin: &Origin, names: &[&str]) -> String {
    let base = format!("{}/npm", origin.url());
    let mut packages = serde_json::Map::new();
    for name in names {
        let tarball = body(name, 50_000);
        let versions = [NpmVersion::of(&base, name, "1.0.0", &tarball)];
        let document = Resource::new(npm_document(name, &versions, false)).etag("\"d\"");
        origin.serve(&format!("/npm/{name}"), document.field("Content-Type", "application/json"));
        origin.on(&format!("/npm/{name}/-/{name}-1.0.0.tgz"), Answer::ok(tarball.clone()));
        let member = json!({ "version": "1.0.0", "resolved": versions[0].url, "integrity": sri(&tarball) });
        packages.insert(format!("node_modules/{name}"), member);
    }
    json!({ "lockfileVersion": 3, "packages": packages }).to_string()
}

fn tarball(name: &str) -> String {
    format!("/npm/{name}/-/{name}-1.0.0.tgz")
}

#[test]
fn npm_lock_is_warmed_once() {
    let origin = Origin::start();
    let lock = npm(&origin, &["a", "b"]);
    let mut shoal = mirrors(&origin, &["npm"]).set("cache.reload_interval", "0s").start();
    let first = warm(&shoal, "file=package-lock.json", &lock);
    assert_eq!(counts(&first), [0, 2, 2, 0, 0], "{first}");
    assert_eq!(first["fetched_bytes"], 100_000);
    // Held files are skipped; each index page is validated once more.
    let second = warm(&shoal, "file=package-lock.json", &lock);
    assert_eq!(counts(&second), [2, 0, 0, 0, 0], "{second}");
    assert_eq!(shoal.status()["responses"]["all"], 0, "warming is no client's request");
    for name in ["a", "b"] {
        shoal.get(&tarball(name)).expect_hit().expect_body(body(name, 50_000));
        assert_eq!((origin.count(&tarball(name)), origin.count(&format!("/npm/{name}"))), (1, 2));
    }
    shoal.expect_metric("shoal_warm_files_total", "result=\"fetched\"", 2);
    shoal.expect_metric("shoal_warm_bytes_total", "", 100_000);
    // A restart forgets the job, not the files.
    shoal.wait_until_written();
    shoal.restart();
    let third = warm(&shoal, "file=package-lock.json", &lock);
    assert_eq!((counts(&third), &third["job"]), ([2, 0, 0, 0, 0], &json!(1)), "{third}");
    assert_eq!(origin.count(&tarball("a")), 1);
}

#[test]
fn files_ahead_of_clients_wait_for_no_page() {
    let origin = Origin::start();
    let lock = npm(&origin, &["a", "b"]);
    let shoal = mirrors(&origin, &["npm"]).start();
    let report = warm(&shoal, "file=package-lock.json&ahead", &lock);
    assert_eq!((&report["hinted"], &report["files"]["total"]), (&json!(2), &json!(2)), "{report}");
    assert_eq!(report["pages"]["total"], 0, "the lock names their paths: {report}");
    for name in ["a", "b"] {
        origin.wait_for(&tarball(name), 1);
        shoal.get(&tarball(name)).expect_body(body(name, 50_000));
        assert_eq!(origin.count(&tarball(name)), 1);
    }
}

#[test]
fn python_files_are_found_by_digest() {
    let origin = Origin::start();
    let files: Vec<(String, Vec<u8>)> =
        ["a-1.0-py3-none-any.whl", "a-1.0-cp312-cp312-win32.whl", "a-1.0.tar.gz"]
            .map(|name| (name.to_owned(), body(name, 20_000)))
            .into();
    let listed: Vec<Value> = files
        .iter()
        .map(|(name, bytes)| {
            origin.on(&format!("/files/{name}"), Answer::ok(bytes.clone()));
            let has_metadata = name.ends_with("-none-any.whl");
            json!({ "filename": name, "url": format!("{}/files/{name}", origin.url()), "size": bytes.len(),
                "hashes": { "sha256": sha256(bytes) }, "core-metadata": has_metadata })
        })
        .collect();
    let page = json!({ "meta": { "api-version": "1.1" }, "name": "a", "versions": ["1.0"], "files": listed });
    origin.serve(
        "/pypi/simple/a/",
        Resource::new(page.to_string())
            .etag("\"p\"")
            .field("Content-Type", "application/vnd.pypi.simple.v1+json"),
    );
    let metadata = format!("/files/{}.metadata", files[0].0);
    origin.on(&metadata, Answer::ok("Name: a\n"));
    let shoal = mirrors(&origin, &["pypi"]).start();
    let requirements =
        format!("A==1.0 --hash=sha256:{} --hash=sha256:{}\n", sha256(&files[0].1), sha256(&files[2].1));
    let plan = warm(&shoal, "file=requirements.txt&plan", &requirements);
    assert_eq!(counts(&plan), [0, 3, 0, 0, 0], "{plan}");
    assert_eq!((&plan["state"], &plan["missing_bytes"]), (&json!("planned"), &json!(40_000)));
    assert_eq!(plan["missing_unsized"], 1, "the metadata of the wheel");
    assert_eq!(origin.count(&format!("/files/{}", files[0].0)), 0, "a plan fetches no file");
    let chosen = warm(&shoal, "file=requirements.txt&wheels=*-cp312-*linux*", &requirements);
    assert_eq!(counts(&chosen), [0, 2, 2, 0, 0], "{chosen}");
    assert_eq!(origin.count(&metadata), 1);
    let uv = format!(
        "[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = {{ registry = \"{}/pypi/simple\" }}\nwheels = [\n    {{ url = \"{1}/files/{2}\", hash = \"sha256:{3}\", size = 20000 }},\n    {{ url = \"{1}/files/{4}\", hash = \"sha256:{5}\", size = 20000 }},\n]\n",
        origin.url(),
        origin.url(),
        files[0].0,
        sha256(&files[0].1),
        files[1].0,
        sha256(&files[1].1)
    );
    let locked = warm(&shoal, "file=uv.lock", &uv);
    assert_eq!(counts(&locked), [1, 1, 1, 0, 0], "{locked}");
    let host = origin.url().replace("http://", "");
    for (name, bytes) in &files[..2] {
        shoal.get(&format!("/pypi/files/{host}/files/{name}")).expect_hit().expect_body(bytes);
    }
}

#[test]
fn cargo_and_go_locks_are_warmed() {
    let origin = Origin::start();
    let (package, module) = (body("crate", 30_000), body("zip", 40_000));
    let sum = sha256(&package);
    origin.on("/cargo/config.json", Answer::ok(json!({ "dl": format!("{}/dl", origin.url()) }).to_string()));
    origin.on("/cargo/ab/cd/abcd", Answer::ok(json!({ "vers": "1.0.0", "cksum": sum }).to_string() + "\n"));
    origin.on("/dl/abcd/1.0.0/download", Answer::ok(package.clone()));
    let shoal = mirrors(&origin, &["cargo", "go"]).start();
    let lock = format!(
        "version = 4\n[[package]]\nname = \"abcd\"\nversion = \"1.0.0\"\nsource = \"registry+https://git.example/index\"\nchecksum = \"{sum}\"\n"
    );
    let report = warm(&shoal, "file=Cargo.lock", &lock);
    assert_eq!(counts(&report), [0, 1, 1, 0, 0], "{report}");
    shoal.get(&format!("/cargo/crates/abcd/1.0.0/{sum}/download")).expect_hit().expect_body(&package);
    shoal.get("/cargo/ab/cd/abcd").expect_hit();
    // A package URL has no digest: the index tells it.
    let report = warm(&shoal, "file=sbom.json", "{\"purl\": \"pkg:cargo/abcd@1.0.0\"}");
    assert_eq!(counts(&report), [1, 0, 0, 0, 0], "{report}");

    let text = "module example.test/A\n";
    for (end, bytes) in
        [("info", b"{\"Version\":\"v1.0.0\"}".to_vec()), ("mod", text.into()), ("zip", module.clone())]
    {
        origin.on(&format!("/go/example.test/!a/@v/v1.0.0.{end}"), Answer::ok(bytes));
    }
    let sums =
        format!("example.test/A v1.0.0 {0}\nexample.test/A v1.0.0/go.mod {0}\n", go_mod_sum(text.as_bytes()));
    let report = warm(&shoal, "file=go.sum", &sums);
    assert_eq!(counts(&report), [0, 3, 3, 0, 0], "{report}");
    shoal.get("/go/example.test/!a/@v/v1.0.0.zip").expect_hit().expect_body(&module);
    // The hash of the .mod is checked.
    let wrong = format!("example.test/A v1.0.0/go.mod {}\n", go_mod_sum(b"other"));
    let report = warm(&shoal, "file=go.sum&verify", &wrong);
    assert_eq!(counts(&report), [1, 0, 0, 1, 0], "{report}");
}

#[test]
fn gems_artifacts_and_images_are_warmed() {
    let origin = Origin::start();
    let (gem, jar, layer) = (body("gem", 10_000), body("jar", 10_000), body("layer", 10_000));
    origin.on("/rubygems/versions", Answer::ok("created_at: x\n---\n"));
    origin.on("/rubygems/info/a", Answer::ok(format!("---\n1.0 |checksum:{}\n", sha256(&gem))));
    origin.on("/rubygems/gems/a-1.0.gem", Answer::ok(gem.clone()));
    origin.on("/maven/org/example/b/1.0/b-1.0.jar", Answer::ok(jar.clone()));
    origin.on("/maven/org/example/b/1.0/b-1.0.pom", Answer::ok("<project/>"));
    let digest = |bytes: &[u8]| format!("sha256:{}", sha256(bytes));
    let manifest = json!({ "schemaVersion": 2, "config": { "digest": digest(b"{}"), "size": 2 },
        "layers": [{ "digest": digest(&layer), "size": layer.len() }] })
    .to_string();
    let index = json!({ "schemaVersion": 2, "manifests": [
        { "digest": digest(manifest.as_bytes()), "size": manifest.len(), "platform": { "os": "linux", "architecture": "amd64" } },
        { "digest": digest(b"other"), "size": 5, "platform": { "os": "linux", "architecture": "arm64" } } ] })
    .to_string();
    let manifest_path = format!("/v2/x/c/manifests/{}", digest(manifest.as_bytes()));
    origin.on("/v2/x/c/manifests/1.0", Answer::ok(index));
    origin.on(&manifest_path, Answer::ok(manifest));
    origin.on(&format!("/v2/x/c/blobs/{}", digest(b"{}")), Answer::ok("{}"));
    origin.on(&format!("/v2/x/c/blobs/{}", digest(&layer)), Answer::ok(layer.clone()));
    let shoal = mirrors(&origin, &["rubygems", "maven", "oci"]).start();
    let lock = format!(
        "GEM\n  remote: {}/rubygems/\n  specs:\n    a (1.0)\n\nCHECKSUMS\n  a (1.0) sha256={}\n",
        origin.url(),
        sha256(&gem)
    );
    let report = warm(&shoal, "file=Gemfile.lock", &lock);
    assert_eq!(counts(&report), [0, 1, 1, 0, 0], "{report}");
    let report = warm(&shoal, "file=gradle.lockfile", "org.example:b:1.0=x\n");
    assert_eq!((counts(&report), &report["files"]["absent"]), ([0, 3, 2, 0, 0], &json!(1)), "{report}");
    let report = warm(&shoal, "format=images&platforms=linux/amd64", "x/c:1.0\n");
    assert_eq!(counts(&report), [0, 2, 2, 0, 0], "{report}");
    shoal.get("/rubygems/gems/a-1.0.gem").expect_hit().expect_body(&gem);
    shoal.get("/maven/org/example/b/1.0/b-1.0.jar").expect_hit().expect_body(&jar);
    shoal.get(&format!("/v2/x/c/blobs/{}", digest(&layer))).expect_hit().expect_body(&layer);
    shoal.get(&manifest_path).expect_hit();
}

#[test]
fn hosts_of_others_are_refused_and_named() {
    let (origin, stranger) = (Origin::start(), Origin::start());
    stranger.on("/*", Answer::ok("x"));
    let lock = npm(&origin, &["a"]);
    let shoal = mirrors(&origin, &["npm"]).start();
    let other = format!("{}/a/-/a-1.0.0.tgz", stranger.url());
    let elsewhere = lock.replace(&format!("{}/npm/a/-/a-1.0.0.tgz", origin.url()), &other);
    for (query, list) in [("file=package-lock.json", &elsewhere), ("format=urls", &other)] {
        let report = warm(&shoal, query, list);
        assert_eq!(counts(&report), [0, 0, 0, 0, 1], "{report}");
        let why = report["refused"]["first"][0]["why"].as_str().expect("a reason");
        assert!(why.contains(&stranger.url().replace("http://", "")), "{why}");
    }
    // The digest of the lock holds whatever registry the tarball comes from.
    let report = warm(&shoal, "file=package-lock.json&any-host", &elsewhere);
    assert_eq!(counts(&report), [0, 1, 1, 0, 0], "{report}");
    assert_eq!(stranger.total(), 0, "nothing was asked of another host");
    // A lock made through the mirror names this node.
    let own = format!("http://{}/npm/a/-/a-1.0.0.tgz\nhttp://cache.test/npm/a\n", shoal.address("reverse"));
    let report = warm(&shoal, "format=urls&at=http://cache.test", &own);
    assert_eq!(counts(&report), [1, 0, 0, 0, 0], "{report}");
}

#[test]
fn faults_are_named_and_do_not_stop_others() {
    let origin = Origin::start();
    let lock = npm(&origin, &["a", "b", "c", "d"]);
    // b is absent, c has another body than its index says, d another than the lock says.
    origin.on(&tarball("b"), Answer::new(404));
    origin.on(&tarball("c"), Answer::ok(body("other", 50_000)));
    let lock = lock.replace(&sri(&body("d", 50_000)), &sri(b"other"));
    let shoal = mirrors(&origin, &["npm"]).start();
    let report = warm(&shoal, "file=package-lock.json", &lock);
    assert_eq!(counts(&report), [0, 4, 1, 3, 0], "{report}");
    let failures = report["failures"].to_string();
    for part in ["b@1.0.0", "404", "c@1.0.0", "broke off", "d@1.0.0", "not that of the list"] {
        assert!(failures.contains(part), "{part}: {failures}");
    }
    shoal.get(&tarball("a")).expect_hit();
    assert!(!shoal.get(&tarball("c")).complete(), "what no index promises is not kept");
}

#[test]
fn connections_are_few_and_a_job_can_be_stopped() {
    let origin = Origin::start();
    let names = ["a", "b", "c", "d", "e"];
    let lock = npm(&origin, &names);
    let gate = Gate::new();
    for name in names {
        origin.on(&tarball(name), Answer::ok(body(name, 50_000)).held_by(&gate));
    }
    let shoal = mirrors(&origin, &["npm"]).set("warm.connections", 2).start();
    let started =
        shoal.ask_admin(&Request::new("POST", "/warm?file=package-lock.json").body(lock.as_bytes()));
    started.expect_status(202);
    let asked = || names.iter().map(|name| origin.count(&tarball(name))).sum::<usize>();
    let begin = Instant::now();
    while asked() < 2 && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(asked(), 2, "two connections");
    // Another job waits for its turn.
    let second = shoal.ask_admin(&Request::new("POST", "/warm?file=package-lock.json").body(lock.as_bytes()));
    assert!(String::from_utf8_lossy(&second.expect_status(202).body).contains("waiting"));
    shoal.ask_admin(&Request::new("POST", "/warm/stop?job=1")).expect_status(200);
    assert_eq!(finished(&shoal, 1)["state"], "stopped");
    gate.open();
    let report = finished(&shoal, 2);
    assert_eq!((&report["state"], counts(&report)[3]), (&json!("done"), 0), "{report}");
    for name in names {
        shoal.get(&tarball(name)).expect_hit();
    }
    shoal.ask_admin(&Request::new("POST", "/warm/stop?job=9")).expect_status(404);
}

#[test]
fn pause_of_a_registry_is_heeded() {
    let origin = Origin::start();
    let lock = npm(&origin, &["a"]);
    let good = Answer::ok(body("a", 50_000));
    origin.on_each(&tarball("a"), [Answer::new(429).field("Retry-After", "1"), good]);
    let shoal = mirrors(&origin, &["npm"]).start();
    let begin = Instant::now();
    let report = warm(&shoal, "file=package-lock.json", &lock);
    assert_eq!(counts(&report), [0, 1, 1, 0, 0], "{report}");
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn files_of_sites_are_warmed_by_url() {
    let origin = Origin::start();
    origin.on("/kept", Answer::fresh("kept", 600));
    origin.on("/never", Answer::ok("never").field("Cache-Control", "no-store"));
    let shoal = Setup::to(&origin).start();
    let urls = "http://site.test/kept\nhttp://site.test/never\n";
    let report = warm(&shoal, "format=urls", urls);
    assert_eq!(counts(&report), [0, 2, 1, 1, 0], "{report}");
    assert!(report["failures"].to_string().contains("does not keep it"), "{report}");
    shoal.ask(&Request::get("/kept").field("Host", "site.test")).expect_hit().expect_body("kept");
}

#[test]
fn hosts_of_a_forward_proxy_are_warmed_on_demand() {
    let origin = Origin::start();
    origin.on("/kept", Answer::fresh("kept", 600));
    let shoal = Setup::bare().start();
    let url = format!("{}/kept", origin.url());
    let report = warm(&shoal, "format=urls", &url);
    assert_eq!((counts(&report)[4], origin.total()), (1, 0), "{report}");
    let report = warm(&shoal, "format=urls&any-host", &url);
    assert_eq!(counts(&report), [0, 1, 1, 0, 0], "{report}");
    shoal.ask_forward(&Request::get(&url)).expect_hit().expect_body("kept");
}

#[test]
fn hostile_requests_are_refused() {
    let origin = Origin::start();
    let shoal = mirrors(&origin, &["npm", "maven"]).start();
    for (query, list, status) in [
        ("file=package-lock.json", "{", 400),
        ("file=x", "what is this", 400),
        ("format=tar", "x", 400),
        ("format=urls", "", 400),
        ("what=1", "x", 400),
    ] {
        let request = Request::new("POST", &format!("/warm?{query}")).body(list.as_bytes());
        shoal.ask_admin(&request).expect_status(status);
    }
    let huge = vec![b'x'; (32 << 20) + 1];
    shoal.ask_admin(&Request::new("POST", "/warm?format=urls").body(&huge)).expect_status(413);
    shoal.ask_admin(&Request::new("DELETE", "/warm")).expect_status(405);
    shoal.ask_admin(&Request::get("/warm?job=7")).expect_status(404);
    // Names lead nowhere but below their registry.
    let lists = [
        (
            "file=package-lock.json",
            r#"{"packages":{"node_modules/../x":{"version":"1"},"node_modules/a":{"version":"1?\r\nX: y"}}}"#,
        ),
        ("format=maven", "a:../../x:1\n"),
    ];
    for (query, list) in lists {
        let report = warm(&shoal, query, list);
        assert_eq!((counts(&report)[1], counts(&report)[2]), (0, 0), "{report}");
    }
    assert_eq!(origin.total(), 0);
}

fn shoal_warm(shoal: &Shoal, arguments: &[&str]) -> Output {
    let admin = shoal.admin().to_string();
    let command = [&["warm", "--admin", &admin], arguments].concat();
    Command::new(binary()).args(command).output().expect("the binary runs")
}

#[test]
fn command_plans_fetches_and_fails_by_name() {
    let origin = Origin::start();
    let lock = npm(&origin, &["a", "b"]);
    origin.on(&tarball("b"), Answer::new(404));
    let setup = mirrors(&origin, &["npm"]);
    let file = setup.file("package-lock.json", &lock);
    let log = setup.file("access.log", &format!(
        "1700000000.000 5 10.0.0.1 TCP_MISS/200 500 GET {}/npm/a/-/a-1.0.0.tgz - HIER_DIRECT/10.0.0.2 text/plain\n1700000001.000 5 10.0.0.1 TCP_MISS/404 500 GET {0}/npm/x - HIER_DIRECT/10.0.0.2 text/plain\n",
        origin.url()
    ));
    let (file, log) = (file.to_string_lossy().into_owned(), log.to_string_lossy().into_owned());
    let shoal = setup.start();
    let plan = shoal_warm(&shoal, &["--plan", &file]);
    assert!(plan.status.success());
    assert_eq!(
        String::from_utf8_lossy(&plan.stdout),
        "package-lock.json: 0 files held, 2 missing (of unknown length)\n"
    );
    assert_eq!(origin.count(&tarball("a")), 0);
    let done = shoal_warm(&shoal, &["--log", &log]);
    assert!(done.status.success(), "{done:?}");
    shoal.get(&tarball("a")).expect_hit();
    let failed = shoal_warm(&shoal, &[&file]);
    assert_eq!(failed.status.code(), Some(1));
    let output = String::from_utf8_lossy(&failed.stdout).into_owned();
    assert!(output.contains("1 held, 1 failed") && output.contains("failed: b@1.0.0"), "{output}");
    assert!(String::from_utf8_lossy(&failed.stderr).contains("1 file held, 1 missing"), "{failed:?}");
    assert_eq!(shoal_warm(&shoal, &["--format", "npm", "/no/such"]).status.code(), Some(1));
}
