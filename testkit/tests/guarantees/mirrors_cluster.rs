//! Mirrors in a cluster: documents and files come from their home, so that the registry sends each
//! once, whichever node a client asks.

use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::registry::{NPM_SHORT, NpmVersion, npm_document, sha256};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin, Request, Resource, Shoal};

/// Three nodes with mirrors of each of these kinds at this origin.
fn nodes(origin: &Origin, kinds: &[&str], more: &str) -> Vec<Shoal> {
    let peers = peers(3);
    let node = |own| {
        let bare = setup(origin, own, &peers);
        let mirrors =
            kinds.iter().map(|kind| format!("kind = '{kind}'\nupstream = '{}'\n{more}", origin.url()));
        mirrors.fold(bare, |setup, mirror| setup.mirror(&mirror)).start()
    };
    joined(peers.iter().map(|own| node(*own)).collect())
}

fn served(nodes: &[Shoal]) -> u64 {
    nodes.iter().map(|node| node.metric("shoal_cluster_asks_total", "served")).sum()
}

#[test]
fn package_is_fetched_once_by_three_nodes() {
    let origin = Origin::start();
    let names: Vec<String> = (0..8).map(|number| format!("p{number}")).collect();
    let tarball = |name: &str| body(name, 30_000);
    for name in &names {
        let bytes = tarball(name);
        let versions = [NpmVersion::of(&origin.url(), name, "1.0.0", &bytes)];
        let document = npm_document(name, &versions, false);
        let json = "application/json";
        origin.serve(&format!("/{name}"), Resource::new(document).field("Content-Type", json).etag("\"d\""));
        origin.on(&format!("/{name}/-/{name}-1.0.0.tgz"), Answer::ok(bytes));
    }
    let nodes = nodes(&origin, &["npm"], "");
    std::thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(|| {
                for name in &names {
                    let document = Request::get(&format!("/npm/{name}")).field("Accept", NPM_SHORT);
                    let answer = node.connect().ask(&document, "c.test");
                    let wanted = format!("\"http://c.test/npm/{name}/-/{name}-1.0.0.tgz\"");
                    assert!(answer.text().contains(&wanted), "{}", answer.text());
                    let file = node.get(&format!("/npm/{name}/-/{name}-1.0.0.tgz"));
                    file.expect_status(200).expect_body(tarball(name));
                }
            });
        }
    });
    for name in &names {
        assert_eq!(origin.count(&format!("/{name}")), 1, "the document of {name}");
        assert_eq!(origin.count(&format!("/{name}/-/{name}-1.0.0.tgz")), 1, "the file of {name}");
    }
    assert!(served(&nodes) >= 8, "most have their home elsewhere: {}", served(&nodes));
}

/// Files of other hosts, blobs under their digest, and files that their URL promises.
#[test]
fn other_kinds_are_fetched_once_by_three_nodes() {
    let origin = Origin::start();
    let (here, wheel, blob) = (origin.url(), body("wheel", 20_000), body("blob", 40_000));
    let page = format!("<a href=\"{here}/files/a-1.0.whl#sha256={}\">a</a>", sha256(&wheel));
    origin.on("/a/", Answer::ok(page).field("Content-Type", "text/html"));
    origin.on("/files/a-1.0.whl", Answer::ok(wheel.clone()));
    let blob_path = format!("/v2/x/y/blobs/sha256:{}", sha256(&blob));
    origin.on(&blob_path, Answer::ok(blob.clone()));
    origin.on("/b.test/m/@v/v1.0.0.mod", Answer::ok("module b.test/m\n"));
    origin.on("/g/a/1/a-1.jar", Answer::ok("jar"));
    origin.on("/config.json", Answer::ok(format!("{{\"dl\":\"{here}/dl\"}}")));
    let krate = body("crate", 9_000);
    let line =
        format!("{{\"name\":\"c\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{}\"}}\n", sha256(&krate));
    origin.on("/1/c", Answer::ok(line));
    origin.on("/dl/c/1.0.0/download", Answer::ok(krate.clone()));
    let nodes = nodes(&origin, &["pypi", "oci", "go", "maven", "cargo"], "");
    let host = here.replace("http://", "");
    for node in &nodes {
        node.get(&format!("/pypi/files/{host}/files/a-1.0.whl")).expect_status(200).expect_body(&wheel);
        node.get(&format!("/oci{blob_path}")).expect_status(200).expect_body(&blob);
        node.get("/go/b.test/m/@v/v1.0.0.mod").expect_status(200);
        node.get("/maven/g/a/1/a-1.jar").expect_status(200).expect_body("jar");
        node.get("/cargo/1/c").expect_status(200);
        let download = format!("/cargo/crates/c/1.0.0/{}/download", sha256(&krate));
        node.get(&download).expect_status(200).expect_body(&krate);
    }
    for path in ["/a/", "/files/a-1.0.whl", &blob_path, "/b.test/m/@v/v1.0.0.mod", "/g/a/1/a-1.jar", "/1/c"] {
        assert_eq!(origin.count(path), 1, "{path}");
    }
    assert_eq!(origin.count("/dl/c/1.0.0/download"), 1);
    assert_eq!(nodes.iter().map(|node| node.metric("shoal_cluster_asks_total", "wrong")).sum::<u64>(), 0);
}

/// A node that is gone takes nothing along: the others ask the registry.
#[test]
fn package_survives_its_home() {
    let origin = Origin::start();
    origin.on("/*", Answer::ok("file"));
    let mut nodes = nodes(&origin, &["generic"], "");
    for node in &nodes {
        for number in 0..6 {
            node.get(&format!("/generic/f{number}")).expect_status(200).expect_body("file");
        }
    }
    let total = origin.total();
    assert_eq!(total, 6);
    nodes.remove(0).kill();
    for node in &nodes {
        for number in 0..6 {
            node.get(&format!("/generic/f{number}")).expect_status(200).expect_body("file");
        }
    }
    assert!(origin.total() <= total + 12, "{}", origin.total());
}
