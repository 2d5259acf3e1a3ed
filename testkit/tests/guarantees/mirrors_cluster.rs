//! Mirrors in a cluster: documents and files come from their home, so that the registry sends each
//! once, whichever node a client asks.

use crate::mirrors_rights::guarded;
use shoal_testkit::address::free_port;
use shoal_testkit::cluster::{joined, peers, setup};
use shoal_testkit::registry::{NPM_SHORT, NpmVersion, npm_document, sha256};
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Connection, Origin, Request, Resource, Response, Shoal};

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

/// Lists of an archive come from their home under their digests.
#[test]
fn list_by_digest_is_fetched_once_by_three_nodes() {
    let origin = Origin::start();
    let lists: Vec<Vec<u8>> = (0..6).map(|number| body(&format!("list-{number}"), 40_000)).collect();
    let name = |number: usize| format!("main/binary-{number}/Packages");
    let by_hash =
        |number: usize| format!("/dists/x/main/binary-{number}/by-hash/SHA256/{}", sha256(&lists[number]));
    let mut release =
        "Suite: x\nDate: Sat, 09 Aug 2025 09:13:01 UTC\nAcquire-By-Hash: yes\nSHA256:\n".to_owned();
    for (number, list) in lists.iter().enumerate() {
        release += &format!(" {} {} {}\n", sha256(list), list.len(), name(number));
        origin.on(&by_hash(number), Answer::ok(list.clone()));
    }
    origin.on("/dists/x/InRelease", Answer::ok(release));
    let nodes = nodes(&origin, &["deb"], "");
    for node in &nodes {
        node.get("/deb/dists/x/InRelease").expect_status(200);
        for (number, list) in lists.iter().enumerate() {
            node.get(&format!("/deb{}", by_hash(number))).expect_status(200).expect_body(list);
            node.get(&format!("/deb/dists/x/{}", name(number))).expect_status(200).expect_body(list);
        }
    }
    for number in 0..lists.len() {
        assert_eq!(origin.count(&by_hash(number)), 1, "list {number}");
        assert_eq!(origin.count(&format!("/dists/x/{}", name(number))), 0);
    }
    assert_eq!(origin.count("/dists/x/InRelease"), 1);
}

fn ask(node: &Shoal, path: &str, token: &str) -> Response {
    node.ask(&Request::get(path).field("Authorization", &format!("Bearer {token}")))
}

/// Bodies of a private registry are fetched once for all nodes. Each node asks the
/// registry about a client, and the home does so again: no node takes another one's word.
#[test]
fn private_package_is_fetched_once_by_three_nodes() {
    let origin = Origin::start();
    let tarballs: Vec<Vec<u8>> = (0..6).map(|number| body(&format!("t{number}"), 30_000)).collect();
    let file = |number: usize| format!("/a/-/a-{number}.0.0.tgz");
    let (url, names) = (origin.url(), (0..6).map(|number| format!("{number}.0.0")).collect::<Vec<_>>());
    let versions = names.iter().zip(&tarballs);
    let versions: Vec<_> = versions.map(|(name, bytes)| NpmVersion::of(&url, "a", name, bytes)).collect();
    let document = Answer::ok(npm_document("a", &versions, false)).field("Content-Type", "application/json");
    guarded(&origin, "/a", document);
    for (number, bytes) in tarballs.iter().enumerate() {
        guarded(&origin, &file(number), Answer::ok(bytes.clone()));
    }
    let nodes = nodes(&origin, &["npm"], "rights = 'client'");
    for (node, token) in nodes.iter().zip(["alice", "bob", "alice"]) {
        ask(node, "/npm/a", token).expect_status(200);
        for (number, bytes) in tarballs.iter().enumerate() {
            ask(node, &format!("/npm{}", file(number)), token).expect_status(200).expect_body(bytes);
        }
    }
    assert!(served(&nodes) >= 6, "most have their home elsewhere: {}", served(&nodes));
    let received = origin.received();
    let gets = |path: &str| {
        received.iter().filter(|request| request.method == "GET" && request.target == path).count()
    };
    assert_eq!(gets("/a"), 1, "the document");
    for number in 0..tarballs.len() {
        assert_eq!(gets(&file(number)), 1, "file {number}");
    }
    for node in &nodes {
        for number in 0..tarballs.len() {
            let path = format!("/npm{}", file(number));
            ask(node, &path, "mallory").expect_status(403);
            node.get(&path).expect_status(401);
        }
    }
}

/// A program at a member's address asks the home for a private file, and gets none without a right.
#[test]
fn home_takes_no_nodes_word_about_rights() {
    let origin = Origin::start();
    let secret = body("secret", 20_000);
    let versions = [NpmVersion::of(&origin.url(), "a", "1.0.0", &secret)];
    let document = Answer::ok(npm_document("a", &versions, false)).field("Content-Type", "application/json");
    guarded(&origin, "/a", document);
    guarded(&origin, "/a/-/a-1.0.0.tgz", Answer::ok(secret.clone()));
    // A node that is a cluster alone, at the address of this test.
    let own = free_port(std::net::Ipv4Addr::LOCALHOST.into());
    let mirror = format!("kind = 'npm'\nupstream = '{}'\nrights = 'client'", origin.url());
    let node = setup(&origin, own, &[own]).mirror(&mirror).start();
    ask(&node, "/npm/a/-/a-1.0.0.tgz", "alice").expect_status(200).expect_body(&secret);
    let zero = "0000000000000000";
    let field = format!("1 home {zero} 127.0.0.9:4711 1 {zero} {zero} 2000 mirror npm npm-client");
    let url = format!("{}/a/-/a-1.0.0.tgz", origin.url());
    let of_node = Request::get(&url).field("Shoal-Peer", &field).field("TE", "trailers");
    let host = origin.url().replace("http://", "");
    let mut peer = Connection::open(own);
    let allowed = of_node.clone().field("Authorization", "Bearer bob");
    peer.ask(&allowed, &host).expect_status(200).expect_body(&secret);
    for refused in [of_node.clone(), of_node.field("Authorization", "Bearer mallory")] {
        let answer = peer.ask(&refused, &host);
        assert_eq!(answer.expect_status(503).body, b"", "a home that knows nothing of it");
    }
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
