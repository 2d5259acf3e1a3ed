//! npm through a mirror beyond the [matrix](crate::mirrors): tarballs that the index names at
//! another host, and locks with URLs that were made without the mirror.

use crate::npm::pack;
use crate::workshop::{Workshop, installed, run};
use serde_json::{Value, json};
use shoal_testkit::registry::{NpmVersion, npm_document};
use shoal_testkit::seeded::body;
use shoal_testkit::{Origin, Resource, Setup, Shoal};
use std::path::PathBuf;
use std::process::Command;

/// Packages of the registry, one with a scope. The first depends on the others.
pub const NAMES: [&str; 3] = ["shoal-a", "shoal-b", "@shoal/c"];

/// Dependencies of a package. Yarn 1 reads them from its tarball.
pub fn needs(name: &str) -> Value {
    match name {
        "shoal-a" => json!({ "shoal-b": "^1.0.0", "@shoal/c": "1.0.0" }),
        _ => json!({}),
    }
}

/// A registry with these packages, on one origin, or with the tarballs on another.
fn registry(shop: &Workshop, origin: &Origin, files: &Origin, fields: &[(&str, &str)]) {
    for name in NAMES {
        let folder = name.trim_start_matches('@').replace('/', "-");
        let (tarball, _) = pack(shop, &folder, &needs(name));
        let bytes = std::fs::read(shop.path(&format!("registry/{folder}/-/{tarball}"))).expect("packed");
        let mut version = NpmVersion::of(&files.url(), name, "1.0.0", &bytes);
        if files.url() != origin.url() {
            version.url = format!("{}/blobs/{folder}.tgz?signature=1", files.url());
        }
        let place =
            version.url.trim_start_matches(&files.url()).split('?').next().expect("a path").to_owned();
        let mut document: Value =
            serde_json::from_str(&npm_document(name, &[version], true)).expect("a document");
        document["versions"]["1.0.0"]["dependencies"] = needs(name);
        let with_fields = |resource: Resource| {
            fields.iter().fold(resource, |resource, (name, value)| resource.field(name, value))
        };
        let document = Resource::new(document.to_string()).field("Content-Type", "application/json");
        origin.serve(&format!("/{}", name.replace('/', "%2f")), with_fields(document));
        files.serve(&place, with_fields(Resource::new(bytes)));
    }
}

/// Returns the manifest of an application that needs all packages.
pub fn manifest() -> String {
    json!({ "name": "app", "version": "1.0.0", "dependencies": { "shoal-a": "^1.0.0" } }).to_string()
}

/// npm in a folder of its own, with caches of its own.
fn npm(shop: &Workshop, app: &str, registry: &str, arguments: &[&str]) -> (Command, PathBuf) {
    let folder = shop.folder(app);
    std::fs::write(folder.join("package.json"), manifest()).expect("writable");
    let lines =
        format!("registry={registry}/\nreplace-registry-host=always\nomit-lockfile-registry-resolved=true\n");
    let settings = shop.write(&format!("{app}.npmrc"), &lines);
    let mut npm = shop.command("npm", None);
    npm.current_dir(&folder).args(arguments);
    npm.args(["--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=0"]);
    npm.arg(format!("--userconfig={}", settings.display()));
    npm.arg(format!("--globalconfig={}", shop.write("global.npmrc", "").display()));
    npm.arg("--cache").arg(shop.path(&format!("{app}-cache")));
    (npm, folder)
}

fn mirror(shoal: &Shoal) -> String {
    format!("http://{}/npm", shoal.address("reverse"))
}

fn start(origin: &Origin) -> Shoal {
    let mirror = format!("kind = 'npm'\nupstream = '{}'\nindex_lifetime = '1h'", origin.url());
    Setup::bare().listen("reverse", "mode = 'reverse'").mirror(&mirror).start()
}

/// Expects the files of all packages in a folder.
pub fn expect_installed(folder: &std::path::Path) {
    for (name, seed) in NAMES.iter().zip(["shoal-a", "shoal-b", "shoal-c"]) {
        let file = folder.join(format!("node_modules/{name}/data.bin"));
        let installed = std::fs::read(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        assert!(installed == body(seed, 20_000), "{name}");
    }
}

/// The index names tarballs of another host, and nothing may be stored by the fields of either.
#[test]
fn npm_installs_from_another_host_by_mirror() {
    if !installed("npm") || !installed("node") {
        return;
    }
    let (shop, origin, files) = (Workshop::new(), Origin::start(), Origin::start());
    registry(&shop, &origin, &files, &[("Cache-Control", "no-store"), ("Set-Cookie", "a=b")]);
    let shoal = start(&origin);
    for round in ["cold", "warm"] {
        let (mut install, folder) = npm(&shop, round, &mirror(&shoal), &["install"]);
        run(&mut install);
        expect_installed(&folder);
        let asked = (origin.total(), files.total());
        assert_eq!(asked, (NAMES.len(), NAMES.len()), "{round}: each document and tarball once");
    }
}

/// A lock with the registry's own URLs sends npm to the mirror, and no package goes round it.
#[test]
fn direct_lock_installs_through_a_mirror() {
    if !installed("npm") || !installed("node") {
        return;
    }
    let (shop, origin) = (Workshop::new(), Origin::start());
    registry(&shop, &origin, &origin, &[]);
    let shoal = start(&origin);
    let (mut direct, folder) = npm(&shop, "direct", &origin.url(), &["install"]);
    run(direct.arg("--no-omit-lockfile-registry-resolved"));
    let lock = std::fs::read_to_string(folder.join("package-lock.json")).expect("a lock");
    assert!(lock.contains(&origin.url()), "{lock}");
    let before = origin.count("/shoal-a/-/shoal-a-1.0.0.tgz");
    for (round, requests) in [("first", 1), ("second", 1)] {
        let (mut ci, folder) = npm(&shop, round, &mirror(&shoal), &["ci"]);
        std::fs::write(folder.join("package-lock.json"), &lock).expect("writable");
        run(&mut ci);
        expect_installed(&folder);
        assert_eq!(origin.count("/shoal-a/-/shoal-a-1.0.0.tgz") - before, requests, "{round}");
    }
}
