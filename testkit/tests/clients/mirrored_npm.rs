//! npm through a mirror: cold, warm with empty caches of its own, and with the registry gone. The
//! lock that it writes is the one that it writes without a mirror.

use crate::mirrored::Mirrored;
use crate::npm::pack;
use crate::rounds::note_mirrored;
use crate::workshop::{Workshop, installed, run};
use serde_json::{Value, json};
use shoal_testkit::registry::{NpmVersion, npm_document};
use shoal_testkit::seeded::body;
use shoal_testkit::{Origin, Request, Resource, Setup, Shoal};
use std::path::PathBuf;
use std::process::Command;

/// Packages of the registry, one with a scope. The first depends on the others.
const NAMES: [&str; 3] = ["shoal-a", "shoal-b", "@shoal/c"];

/// A registry with these packages, on one origin, or with the tarballs on another.
pub fn registry(shop: &Workshop, origin: &Origin, files: &Origin, fields: &[(&str, &str)]) {
    for name in NAMES {
        // Yarn 1 reads the needs of a package from its tarball.
        let needs = match name {
            "shoal-a" => json!({ "shoal-b": "^1.0.0", "@shoal/c": "1.0.0" }),
            _ => json!({}),
        };
        let (tarball, _) = pack(shop, name.trim_start_matches('@').replace('/', "-").as_str(), &needs);
        let folder = name.trim_start_matches('@').replace('/', "-");
        let bytes = std::fs::read(shop.path(&format!("registry/{folder}/-/{tarball}"))).expect("packed");
        let mut version = NpmVersion::of(&files.url(), name, "1.0.0", &bytes);
        if files.url() != origin.url() {
            version.url = format!("{}/blobs/{folder}.tgz?signature=1", files.url());
        }
        let place =
            version.url.trim_start_matches(&files.url()).split('?').next().expect("a path").to_owned();
        let mut document: Value =
            serde_json::from_str(&npm_document(name, &[version], true)).expect("a document");
        document["versions"]["1.0.0"]["dependencies"] = needs;
        let with_fields = |resource: Resource| {
            fields.iter().fold(resource, |resource, (name, value)| resource.field(name, value))
        };
        let document = Resource::new(document.to_string()).field("Content-Type", "application/json");
        // Clients have three spellings of a name with a scope.
        for slash in ["%2f", "%2F", "/"] {
            origin.serve(&format!("/{}", name.replace('/', slash)), with_fields(document.clone()));
        }
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

pub fn expect_installed(folder: &std::path::Path) {
    for (name, seed) in NAMES.iter().zip(["shoal-a", "shoal-b", "shoal-c"]) {
        let file = folder.join(format!("node_modules/{name}/data.bin"));
        let installed = std::fs::read(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        assert!(installed == body(seed, 20_000), "{name}");
    }
}

/// Cold, warm and offline; the origin sends each byte once.
fn thrice(says: &[(&str, &str)], is_elsewhere: bool) {
    if !installed("npm") || !installed("node") {
        return;
    }
    let (shop, origin, other) = (Workshop::new(), Origin::start(), Origin::start());
    let files = if is_elsewhere { &other } else { &origin };
    registry(&shop, &origin, files, says);
    let mut shoal = start(&origin);
    // The lock that npm writes without a mirror.
    let lock = (!is_elsewhere).then(|| {
        let (mut direct, folder) = npm(&shop, "direct", &origin.url(), &["install"]);
        run(&mut direct);
        std::fs::read_to_string(folder.join("package-lock.json")).expect("a lock")
    });
    let before = (origin.total(), other.total());
    let (mut cold, folder) = npm(&shop, "cold", &mirror(&shoal), &["install"]);
    run(&mut cold);
    expect_installed(&folder);
    let own = std::fs::read_to_string(folder.join("package-lock.json")).expect("a lock");
    assert_eq!(lock.unwrap_or(own.clone()), own, "the lock is clean");
    let asked = (origin.total() - before.0) + (other.total() - before.1);
    assert_eq!(asked, 2 * NAMES.len(), "a document and a tarball of each package, once");
    // npm installs from full documents without a lock, and from short ones with it.
    for (round, forms) in [("locked", NAMES.len()), ("warm", 0), ("offline", 0)] {
        let before = (origin.total() + forms, other.total());
        let (mut again, folder) = npm(&shop, round, &mirror(&shoal), &["ci"]);
        std::fs::write(folder.join("package-lock.json"), &own).expect("writable");
        run(&mut again);
        expect_installed(&folder);
        assert_eq!((origin.total(), other.total()), before, "{round}");
        if round == "warm" {
            let offline = "index_lifetime = \"1h\"\noffline = true";
            shoal.change(|text| text.replace("index_lifetime = \"1h\"", offline));
            shoal.ask_admin(&Request::new("POST", "/reload")).expect_status(200);
        }
    }
    if is_elsewhere {
        return;
    }
    let mirrored = Mirrored { kind: "npm", origin: &origin, upstream_path: "", task: ("npm", "ci") };
    mirrored.warmed(("package-lock.json", &own), &|external, _| {
        let (mut ci, folder) = npm(&shop, "warmed", external, &["ci"]);
        std::fs::write(folder.join("package-lock.json"), &own).expect("writable");
        run(&mut ci);
        expect_installed(&folder);
    });
    let task = match says.is_empty() {
        true => "install of 3 packages, then ci",
        false => "install of 3 packages, then ci, from a registry with lifetimes",
    };
    note_mirrored(("npm", task), [asked, 0, 0]);
}

#[test]
fn npm_installs_through_a_mirror() {
    thrice(&[("Cache-Control", "public, max-age=300"), ("Vary", "Accept-Encoding, Accept")], false);
}

#[test]
fn npm_installs_from_a_silent_registry_by_mirror() {
    thrice(&[], false);
}

#[test]
fn npm_installs_from_another_host_by_mirror() {
    thrice(&[("Cache-Control", "no-store"), ("Set-Cookie", "a=b")], true);
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
