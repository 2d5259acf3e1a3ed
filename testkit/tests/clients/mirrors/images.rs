//! skopeo, buildah, podman and containerd through a mirror of an image registry that wants tokens
//! and keeps its blobs at another host. A second image shares a layer with the first.

use super::{Client, Lock, Place, Registry, Row};
use crate::rounds::Says;
use crate::workshop::{Workshop, installed, run};
use flate2::Compression;
use flate2::write::GzEncoder;
use shoal_testkit::registry::sha256;
use shoal_testkit::seeded::body;
use shoal_testkit::{Answer, Resource, wait};
use std::cell::OnceCell;
use std::io::Write;
use std::process::{Child, Stdio};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const IMAGES: [(&str, [&str; 2]); 2] = [("lib/one", ["base", "one"]), ("lib/two", ["base", "two"])];

/// A client of image registries.
struct Images {
    /// Host and port of the registry, by which engines call it.
    host: OnceCell<String>,
    /// Takes one image into an empty store.
    take: fn(&Place<'_>, Pull<'_>),
}

/// An image to take.
struct Pull<'a> {
    /// Folder of the client for this image.
    folder: &'a str,
    /// Host and port of the registry.
    registry: &'a str,
    /// Repository of the image.
    repository: &'a str,
}

impl Images {
    fn boxed(take: fn(&Place<'_>, Pull<'_>)) -> Box<dyn Client> {
        Box::new(Self { host: OnceCell::new(), take })
    }
}

/// Answers with a challenge until the request has a token.
fn guarded(registry: &Registry, repository: &str, path: &str, answer: impl Fn(Says) -> Guarded) {
    let scope = format!("repository:{repository}:pull");
    let realm = format!("Bearer realm=\"{}/token\",service=\"images\",scope=\"{scope}\"", registry.url());
    let answer = answer(registry.says);
    registry.origin.on_request(path, move |request| match (request.fields.first("authorization"), &answer) {
        (Some("Bearer t"), Guarded::Redirect(answer)) => answer.clone(),
        (Some("Bearer t"), Guarded::Document(resource)) => resource.answer(request),
        _ => Answer::new(401).field("WWW-Authenticate", &realm),
    });
}

/// An answer for requests with a token.
enum Guarded {
    Redirect(Answer),
    Document(Resource),
}

/// A layer with one file: the compressed archive, and the digest of the plain one.
fn layer(shop: &Workshop, name: &str) -> (Vec<u8>, String) {
    std::fs::write(shop.folder(&format!("layers/{name}")).join(name), body(name, 200_000)).expect("writable");
    let mut tar = shop.command("tar", None);
    tar.arg("-C").arg(shop.path(&format!("layers/{name}"))).args(["--mtime=2020-01-01", "-cf", "-", name]);
    let plain = run(&mut tar);
    let mut coder = GzEncoder::new(Vec::new(), Compression::fast());
    coder.write_all(&plain).expect("memory takes bytes");
    (coder.finish().expect("memory takes bytes"), sha256(&plain))
}

/// Publishes an image with these layers under the tag `1`.
fn publish(shop: &Workshop, registry: &Registry, (repository, layers): (&str, [&str; 2])) {
    let blob = |media: &str, bytes: Vec<u8>| {
        let (digest, size) = (sha256(&bytes), bytes.len());
        let file = match registry.says {
            Says::Nothing => Resource::new(bytes),
            Says::Lifetimes => {
                Resource::new(bytes).cache_control("max-age=14400").etag(&format!("\"{digest}\""))
            }
        };
        registry.files.serve(&format!("/signed/{digest}"), file);
        let to = registry.redirect(&format!("{}/signed/{digest}?signature=1", registry.files_url()));
        let path = format!("/v2/{repository}/blobs/sha256:{digest}");
        guarded(registry, repository, &path, |_| Guarded::Redirect(to.clone()));
        format!("{{\"mediaType\":\"{media}\",\"digest\":\"sha256:{digest}\",\"size\":{size}}}")
    };
    let layers = layers.map(|name| layer(shop, name));
    let plain = layers.each_ref().map(|(_, digest)| format!("\"sha256:{digest}\"")).join(",");
    let layers = layers.map(|(bytes, _)| blob(LAYER, bytes)).join(",");
    let config = format!(
        "{{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{{\"Cmd\":[\"{repository}\"]}},\
         \"rootfs\":{{\"type\":\"layers\",\"diff_ids\":[{plain}]}}}}"
    );
    let config = blob(CONFIG, config.into_bytes());
    let manifest = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\"config\":{config},\"layers\":[{layers}]}}"
    );
    let digest = format!("sha256:{}", sha256(manifest.as_bytes()));
    for tag in ["1", &digest] {
        guarded(registry, repository, &format!("/v2/{repository}/manifests/{tag}"), |says| {
            let document = Resource::new(manifest.clone()).field("Content-Type", MANIFEST);
            let document = document.field("Docker-Content-Digest", &digest).without_ranges();
            Guarded::Document(match says {
                Says::Nothing => document,
                Says::Lifetimes => document.etag(&format!("\"{digest}\"")),
            })
        });
    }
}

impl Client for Images {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        self.host.get_or_init(|| registry.url().replace("https://", ""));
        registry.origin.on("/token", Answer::ok("{\"token\":\"t\",\"expires_in\":300}"));
        IMAGES.iter().for_each(|image| publish(shop, registry, *image));
    }

    fn work(&self, place: &Place<'_>, app: &str, _: Option<&str>) -> String {
        for (repository, _) in IMAGES {
            let folder = format!("{app}/{}", repository.replace('/', "-"));
            place.shop.folder(&folder);
            let registry = self.host.get().expect("it is published");
            (self.take)(place, Pull { folder: &folder, registry, repository });
        }
        String::new()
    }

    fn list(&self, _: &Workshop, _: &Registry) -> Option<String> {
        let host = self.host.get().expect("it is published");
        Some(IMAGES.iter().map(|(repository, _)| format!("{host}/{repository}:1\n")).collect())
    }
}

fn skopeo(place: &Place<'_>, pull: Pull<'_>) {
    let at = place.url.strip_prefix("http://").expect("an http mirror");
    let target = place.shop.path(pull.folder);
    let mut skopeo = place.command("skopeo");
    skopeo.args(["copy", "--insecure-policy", "--src-tls-verify=false"]);
    run(skopeo.arg(format!("docker://{at}/{}:1", pull.repository)).arg(format!("dir:{}", target.display())));
    let (base, _) = layer(place.shop, "base");
    assert!(std::fs::read(target.join(sha256(&base))).expect("a layer") == base);
}

/// buildah and podman find the mirror in `registries.conf`, by the registry's own name.
fn engine(program: &str, place: &Place<'_>, pull: Pull<'_>) {
    let shop = place.shop;
    let at = place.url.strip_prefix("http://").expect("an http mirror");
    let (registry, name) = (pull.registry, format!("{}/{}:1", pull.registry, pull.repository));
    let conf = format!(
        "[[registry]]\nprefix = '{registry}'\nlocation = '{registry}'\n\
         [[registry.mirror]]\nlocation = '{at}'\ninsecure = true\n"
    );
    let conf = shop.write(&format!("{}/registries.conf", pull.folder), &conf);
    let policy = shop.write("policy.json", "{\"default\":[{\"type\":\"insecureAcceptAnything\"}]}");
    let run_in = |arguments: &[&str]| {
        let mut engine = place.command(program);
        engine.env("CONTAINERS_REGISTRIES_CONF", &conf).env("XDG_RUNTIME_DIR", shop.folder("runtime"));
        for (option, name) in [("--root", "root"), ("--runroot", "run")] {
            engine.arg(option).arg(shop.folder(&format!("{}/{name}", pull.folder)));
        }
        run(engine.args(["--storage-driver", "vfs"]).args(arguments))
    };
    run_in(&["pull", "--signature-policy", &policy.to_string_lossy(), &name]);
    let found = run(shop
        .command("find", None)
        .arg(shop.path(pull.folder))
        .args(["-name", "base", "-size", "200000c"]));
    assert!(!found.is_empty(), "the layer is unpacked");
}

/// A daemon that ends with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// containerd finds the mirror in `hosts.toml`, by the registry's own name.
fn containerd(place: &Place<'_>, pull: Pull<'_>) {
    let shop = place.shop;
    let inside = |name: &str| shop.path(&format!("{}/{name}", pull.folder)).to_string_lossy().into_owned();
    let (socket, at) = (inside("socket"), place.url.trim_end_matches("/oci"));
    let config = format!(
        "version = 2\nroot = '{}'\nstate = '{}'\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n\
         [grpc]\naddress = '{socket}'\n[ttrpc]\naddress = '{socket}.ttrpc'\n",
        inside("root"),
        inside("state")
    );
    let config = shop.write(&format!("{}/config.toml", pull.folder), &config);
    let hosts = format!("[host.\"{at}\"]\ncapabilities = ['pull', 'resolve']\n");
    let named = pull.registry.replace(':', "_") + "_";
    for name in [pull.registry, &named] {
        shop.write(&format!("{}/hosts/{name}/hosts.toml", pull.folder), &hosts);
    }
    let mut daemon = place.command("containerd");
    let log = std::fs::File::create(inside("log")).expect("a file");
    let daemon = daemon.arg("--config").arg(config).stdout(Stdio::null()).stderr(log).spawn();
    let _daemon = Daemon(daemon.expect("containerd starts"));
    wait::until("containerd listens", || std::path::Path::new(&socket).exists());
    let mut fetch = place.command("ctr");
    fetch.args(["--address", &socket, "content", "fetch", "--hosts-dir", &inside("hosts")]);
    run(fetch.arg(format!("{}/{}:1", pull.registry, pull.repository)));
    let (base, _) = layer(shop, "base");
    let blob = format!("root/io.containerd.content.v1.content/blobs/sha256/{}", sha256(&base));
    assert!(std::fs::read(inside(&blob)).expect("a layer") == base);
}

pub const SKOPEO: Row = Row {
    client: "skopeo",
    task: "`copy` of 2 images that share a layer",
    kind: "oci",
    path: "",
    lock: Lock::None,
    list: ("references", "format=images"),
    unlisted: &[],
    absent: "/v2/lib/absent/manifests/1",
    prepare: || installed("skopeo").then(|| Images::boxed(skopeo)),
};

pub const BUILDAH: Row = Row {
    client: "buildah",
    task: "`pull` of 2 images that share a layer",
    prepare: || installed("buildah").then(|| Images::boxed(|place, pull| engine("buildah", place, pull))),
    ..SKOPEO
};

pub const PODMAN: Row = Row {
    client: "podman",
    task: "`pull` of 2 images that share a layer",
    prepare: || installed("podman").then(|| Images::boxed(|place, pull| engine("podman", place, pull))),
    ..SKOPEO
};

pub const CONTAINERD: Row = Row {
    client: "containerd",
    task: "`content fetch` of 2 images that share a layer",
    prepare: || {
        let found = installed("ctr") && installed("containerd");
        found.then(|| Images::boxed(containerd))
    },
    ..SKOPEO
};
