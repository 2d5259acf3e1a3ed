//! Mirrors of image registries: one fetch of a blob, tokens fetched inside, redirects to another
//! host without them, and wrong bytes refused.

use shoal_testkit::origin::Framing;
use shoal_testkit::registry::sha256;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Gate, Origin, Request, Setup, Shoal};
use std::time::Duration;

fn start(origin: &Origin, more: &str) -> Shoal {
    Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&format!("kind = 'oci'\nupstream = '{}'\n{more}", origin.url()))
        .start()
}

/// Answers with 401 until the request has the token.
fn guarded(origin: &Origin, path: &str, answer: Answer) {
    let realm =
        format!("Bearer realm=\"{0}/token\",service=\"images\",scope=\"repository:a/b:pull\"", origin.url());
    origin.on_request(path, move |request| match request.fields.first("authorization") {
        Some("Bearer secret-token") => answer.clone(),
        _ => Answer::new(401).field("WWW-Authenticate", &realm),
    });
}

#[test]
fn tokens_are_fetched_once_and_stay_inside() {
    let (origin, files) = (Origin::start(), Origin::start());
    let (blob, manifest) = (body("blob", 200_000), b"{\"schemaVersion\":2}".to_vec());
    let blob_path = format!("/v2/a/b/blobs/sha256:{}", sha256(&blob));
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let by_digest = format!("/v2/a/b/manifests/sha256:{}", sha256(&manifest));
    guarded(&origin, "/v2/a/b/manifests/1.0", Answer::ok(manifest.clone()).field("Content-Type", kind));
    guarded(&origin, &by_digest, Answer::ok(manifest.clone()).field("Content-Type", kind));
    let to = format!("{}/signed/blob?x=1", files.url());
    guarded(&origin, &blob_path, Answer::new(307).field("Location", &to));
    files.on("/signed/blob", Answer::ok(blob.clone()));
    origin.on("/token", Answer::ok("{\"token\":\"secret-token\",\"expires_in\":300}"));
    let shoal = start(&origin, "");
    shoal.get("/v2/").expect_status(200);
    for _ in 0..2 {
        let tag = shoal.get("/v2/a/b/manifests/1.0");
        assert_eq!(tag.expect_status(200).field("content-type"), Some(kind));
        shoal.get(&by_digest).expect_status(200).expect_body(&manifest);
        shoal.get(&blob_path).expect_status(200).expect_body(&blob);
    }
    shoal.get(&blob_path).expect_hit();
    assert_eq!(origin.count("/token"), 1, "one token for the repository");
    assert!(origin.last("/token").target.contains("service=images&scope=repository:a/b:pull"));
    assert_eq!(origin.count(&blob_path), 1);
    assert_eq!(files.count("/signed/blob"), 1);
    assert!(!files.last("/signed/blob").fields.has("authorization"), "the token stays at its registry");
}

#[test]
fn credentials_buy_a_token_at_the_registry_alone() {
    let origin = Origin::start();
    let blob = body("blob", 10_000);
    let path = format!("/v2/a/b/blobs/sha256:{}", sha256(&blob));
    guarded(&origin, &path, Answer::ok(blob.clone()));
    origin.on("/token", Answer::ok("{\"access_token\":\"secret-token\"}"));
    let setup = Setup::bare();
    let secret = setup.file("secret", "user:password\n");
    let more = format!("credentials = '{}'", secret.display());
    let shoal = start(&origin, &more);
    let client = Request::get(&path).field("Authorization", "Basic Y2xpZW50OnNlY3JldA==");
    shoal.ask(&client).expect_status(200).expect_body(&blob);
    let basic = "Basic dXNlcjpwYXNzd29yZA==";
    assert_eq!(origin.last("/token").fields.first("authorization"), Some(basic));
    assert_eq!(origin.last(&path).fields.first("authorization"), Some("Bearer secret-token"));
}

#[test]
fn wrong_blob_reaches_no_client() {
    let origin = Origin::start();
    let right = body("blob", 100_000);
    let mut wrong = right.clone();
    wrong[0] ^= 1;
    let path = format!("/v2/a/blobs/sha256:{}", sha256(&right));
    origin.on(&path, Answer::ok(wrong));
    let shoal = start(&origin, "");
    assert!(!shoal.get(&path).complete(), "a cut connection");
    origin.on(&path, Answer::ok(right.clone()));
    shoal.get(&path).expect_status(200).expect_body(&right);
    assert!(shoal.ask(&Request::new("POST", "/v2/a/blobs/uploads/")).status == 405);
}

/// Answers a tag's manifest: GET with `status`, HEAD with its digest.
fn tag(origin: &Origin, path: &str, manifest: &[u8], status: u16) {
    let digest = format!("sha256:{}", sha256(manifest));
    let manifest = manifest.to_vec();
    origin.on_request(path, move |request| match request.method.as_str() {
        "GET" if status != 200 => Answer::new(status),
        _ => Answer::ok(manifest.clone()).field("Docker-Content-Digest", &digest),
    });
}

/// Time after which a document with the shortest lifetime is validated.
const TOO_OLD: Duration = Duration::from_millis(1_100);

#[test]
fn tags_are_validated_by_head() {
    let origin = Origin::start();
    let path = "/v2/a/b/manifests/latest";
    let (first, second) = (b"{\"schemaVersion\":2}".to_vec(), b"{\"schemaVersion\":2,\"x\":1}".to_vec());
    tag(&origin, path, &first, 200);
    let shoal = start(&origin, "index_lifetime = '1 s'");
    shoal.get(path).expect_status(200).expect_body(&first);
    let gets = || origin.received().iter().filter(|request| request.method == "GET").count();
    let begun = gets();
    tag(&origin, path, &first, 429);
    for _ in 0..3 {
        std::thread::sleep(TOO_OLD);
        let answer = shoal.get(path);
        answer.expect_status(200).expect_body(&first);
        assert_eq!(answer.field("docker-content-digest"), Some(&*format!("sha256:{}", sha256(&first))));
    }
    assert_eq!(gets(), begun, "no GET while the digest is the same");
    tag(&origin, path, &second, 200);
    std::thread::sleep(TOO_OLD);
    shoal.get(path).expect_status(200).expect_body(&second);
    assert_eq!(gets(), begun + 1, "one GET after the tag moved");
}

#[test]
fn tag_is_served_stale_while_the_registry_refuses() {
    let origin = Origin::start();
    let path = "/v2/a/b/manifests/latest";
    let manifest = b"{\"schemaVersion\":2}".to_vec();
    tag(&origin, path, &manifest, 200);
    let shoal = start(&origin, "index_lifetime = '1 s'");
    shoal.get(path).expect_status(200);
    origin.on(path, Answer::new(429));
    std::thread::sleep(TOO_OLD);
    let answer = shoal.get(path);
    answer.expect_status(200).expect_body(&manifest);
    let status = answer.field("cache-status").unwrap_or_default();
    assert!(status.contains("fwd-status=429") || status.contains("stale"), "{status}");
}

#[test]
fn registry_without_head_is_asked_by_get() {
    let origin = Origin::start();
    let path = "/v2/a/b/manifests/latest";
    tag(&origin, path, b"{\"schemaVersion\":2}", 200);
    let shoal = start(&origin, "index_lifetime = '1 s'");
    shoal.get(path).expect_status(200);
    origin.on_request(path, move |request| match request.method.as_str() {
        "HEAD" => Answer::new(405),
        _ => Answer::ok(b"{}".to_vec()),
    });
    std::thread::sleep(TOO_OLD);
    shoal.get(path).expect_status(200).expect_body(b"{}");
}

#[test]
fn clients_name_the_registry_that_they_mean() {
    let (first, second) = (Origin::start(), Origin::start());
    let path = "/v2/a/manifests/1";
    first.on(path, Answer::ok("{\"x\":1}"));
    second.on(path, Answer::ok("{\"x\":2}"));
    let mirror = |name: &str, origin: &Origin, names: &str| {
        format!("kind = 'oci'\nname = '{name}'\nupstream = '{}'\nnamespaces = [{names}]", origin.url())
    };
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .mirror(&mirror("first", &first, "'images.test', 'alias.test'"))
        .mirror(&mirror("second", &second, "'other.test'"))
        .start();
    let named = |name: &str| shoal.get(&format!("{path}?ns={name}"));
    named("images.test").expect_status(200).expect_body("{\"x\":1}");
    named("ALIAS.test").expect_status(200).expect_body("{\"x\":1}");
    named("other.test").expect_status(200).expect_body("{\"x\":2}");
    named("stranger.test").expect_status(404);
    // A path with the mirror's name needs no other.
    shoal.get("/v2/second/a/manifests/1").expect_status(200).expect_body("{\"x\":2}");
    assert_eq!((first.total(), second.total()), (1, 1));
}

/// containerd asks for a tag by HEAD, then for the manifest by its digest.
#[test]
fn tag_that_is_asked_by_head_is_stored() {
    let origin = Origin::start();
    let manifest = b"{\"schemaVersion\":2,\"n\":7}";
    tag(&origin, "/v2/a/manifests/1", manifest, 200);
    let shoal = start(&origin, "index_lifetime = '1h'");
    let head = || shoal.connect().ask(&Request::new("HEAD", "/v2/a/manifests/1"), "c.test");
    let digest = format!("sha256:{}", sha256(manifest));
    for _ in 0..3 {
        assert_eq!(head().expect_status(200).field("docker-content-digest"), Some(&*digest));
    }
    assert_eq!(origin.total(), 1, "{:?}", origin.received());
    tag(&origin, "/v2/a/manifests/1", manifest, 503);
    assert_eq!(head().expect_status(200).field("docker-content-digest"), Some(&*digest));
}

/// A large layer for many cold clients, some by parallel ranges: one fetch, first bytes before its
/// end. The layer's size does not move the memory. `bench/blob.py` does it with a gigabyte.
#[test]
fn large_cold_blob_is_fetched_once_for_many_clients() {
    let origin = Origin::start();
    let blob = body("layer", 48 << 20);
    let path = format!("/v2/a/b/blobs/sha256:{}", sha256(&blob));
    let gate = Gate::new();
    let (first, rest) = blob.split_at(1 << 20);
    let sent = Answer::new(200).piece(first).wait_for(&gate).piece(rest);
    origin.on(&path, sent.framed(Framing::Claimed(blob.len() as u64)));
    let shoal = Setup::bare()
        .listen("reverse", "mode = 'reverse'")
        .set("store.disk", "512 MB")
        .mirror(&format!("kind = 'oci'\nupstream = '{}'", origin.url()))
        .start();
    let mut clients: Vec<_> = (0..20).map(|_| shoal.connect()).collect();
    clients.iter_mut().for_each(|client| client.send(Request::get(&path).to_bytes("c.test")));
    for client in &mut clients {
        assert_eq!(client.head().expect("a head before the end").status, 200);
        let _ = client.exactly(1000).expect("bytes before the end");
    }
    // The client that led the fetch leaves.
    drop(clients.remove(0));
    let before = shoal.resident_bytes();
    gate.open();
    let most = std::sync::atomic::AtomicU64::new(before);
    std::thread::scope(|scope| {
        let readers: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                let blob = &blob;
                scope.spawn(move || {
                    let mut at = 1000;
                    while at < blob.len() {
                        let length = (1 << 20).min(blob.len() - at);
                        assert!(client.exactly(length).expect("the rest") == blob[at..at + length]);
                        at += length;
                    }
                })
            })
            .collect();
        let parts: Vec<_> = (0..8)
            .map(|part| {
                let (blob, path, shoal) = (&blob, &path, &shoal);
                scope.spawn(move || {
                    let (start, end) = (part * blob.len() / 8, (part + 1) * blob.len() / 8 - 1);
                    let range = Request::get(path).field("Range", &format!("bytes={start}-{end}"));
                    assert!(shoal.ask(&range).expect_status(206).body == blob[start..=end]);
                })
            })
            .collect();
        while readers.iter().any(|reader| !reader.is_finished())
            || parts.iter().any(|part| !part.is_finished())
        {
            most.fetch_max(shoal.resident_bytes(), std::sync::atomic::Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(origin.count(&path), 1);
    let grown = most.into_inner().saturating_sub(before) >> 20;
    assert!(grown < 32, "{grown} MiB for a blob of 48 MiB");
}
