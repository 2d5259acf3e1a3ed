//! skopeo through a mirror of an image registry that wants tokens and keeps its blobs at another
//! host: cold, warm and offline. A second image shares a layer with the first.

use crate::mirrored::Mirrored;
use crate::workshop::{Workshop, installed, run};
use shoal_testkit::registry::sha256;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Origin};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Answers with a challenge until the request has the token of the repository.
fn guarded(origin: &Origin, repository: &str, path: &str, answer: Answer) {
    let scope = format!("repository:{repository}:pull");
    let realm = format!("Bearer realm=\"{}/token\",service=\"images\",scope=\"{scope}\"", origin.url());
    origin.on_request(path, move |request| match request.fields.first("authorization") {
        Some("Bearer t") => answer.clone(),
        _ => Answer::new(401).field("WWW-Authenticate", &realm),
    });
}

/// Publishes an image with these layers under the tag `1`.
fn publish((origin, files): (&Origin, &Origin), repository: &str, layers: &[&str]) {
    let blob = |media: &str, bytes: Vec<u8>| {
        let (digest, size) = (sha256(&bytes), bytes.len());
        files.on(&format!("/signed/{digest}"), Answer::ok(bytes));
        let to = Answer::new(307).field("Location", &format!("{}/signed/{digest}", files.url()));
        guarded(origin, repository, &format!("/v2/{repository}/blobs/sha256:{digest}"), to);
        format!("{{\"mediaType\":\"{media}\",\"digest\":\"sha256:{digest}\",\"size\":{size}}}")
    };
    let layers: Vec<String> = layers.iter().map(|layer| blob(LAYER, body(layer, 200_000))).collect();
    let config = blob(CONFIG, format!("{{\"architecture\":\"{repository}\"}}").into_bytes());
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\"config\":{config},\"layers\":[{}]}}",
        layers.join(",")
    );
    let digest = format!("sha256:{}", sha256(manifest.as_bytes()));
    let answer = Answer::ok(manifest).field("Content-Type", MANIFEST).field("Docker-Content-Digest", &digest);
    guarded(origin, repository, &format!("/v2/{repository}/manifests/1"), answer);
}

#[test]
fn skopeo_copies_images_through_a_mirror() {
    if !installed("skopeo") {
        return;
    }
    let (shop, origin, files) = (Workshop::new(), Origin::start(), Origin::start());
    origin.on("/token", Answer::ok("{\"token\":\"t\",\"expires_in\":300}"));
    publish((&origin, &files), "lib/one", &["base", "one"]);
    publish((&origin, &files), "lib/two", &["base", "two"]);
    let task = ("skopeo", "copy of 2 images that share a layer");
    let mirrored = Mirrored { kind: "oci", origin: &origin, upstream_path: "", task };
    let cold = mirrored.thrice(&|external, round| {
        let place = external.strip_prefix("http://").expect("an http mirror");
        for image in ["lib/one", "lib/two"] {
            let target =
                format!("dir:{}", shop.path(&format!("{image}-{round}").replace('/', "-")).display());
            let mut skopeo = shop.command("skopeo", None);
            skopeo.args(["copy", "--insecure-policy", "--src-tls-verify=false"]);
            run(skopeo.arg(format!("docker://{place}/{image}:1")).arg(target));
        }
    });
    // A token, a manifest, a configuration and two layers each; the challenge comes before.
    assert!(cold <= 2 * 7, "{cold}");
    assert_eq!(files.total(), 5, "the layer of both images is fetched once");
    let copied = std::fs::read(shop.path("lib-two-2").join(sha256(&body("base", 200_000))));
    assert_eq!(copied.expect("a layer"), body("base", 200_000));
}
