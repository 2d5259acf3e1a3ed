//! npm, pnpm, Yarn 1 and Yarn 4 through a mirror of npm's kind.

use super::{Client, Lock, Place, Registry, Row};
use crate::mirrored_npm::{NAMES, expect_installed, manifest, needs};
use crate::npm::pack;
use crate::rounds::Says;
use crate::workshop::{Workshop, client_file, installed, run};
use serde_json::Value;
use shoal_testkit::Resource;
use shoal_testkit::origin::Received;
use shoal_testkit::registry::{NpmVersion, npm_document};
use std::process::Command;

/// A client of npm's registries.
struct Node {
    /// Name of its lock.
    lock: &'static str,
    /// Arguments of an install that must follow the lock.
    frozen: &'static [&'static str],
    /// Makes its command.
    command: fn(&Place<'_>) -> Command,
    /// Gives file and lines of its settings, for a registry.
    settings: fn(&str) -> (&'static str, String),
}

impl Client for Node {
    /// The registry redirects to the tarballs.
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        for name in NAMES {
            let folder = name.trim_start_matches('@').replace('/', "-");
            let (tarball, _) = pack(shop, &folder, &needs(name));
            let bytes = std::fs::read(shop.path(&format!("registry/{folder}/-/{tarball}"))).expect("packed");
            let version = NpmVersion::of(&registry.url(), name, "1.0.0", &bytes);
            let place = version.url.trim_start_matches(&registry.url()).to_owned();
            let forms = [true, false].map(|is_full| {
                let document = npm_document(name, std::slice::from_ref(&version), is_full);
                let mut document: Value = serde_json::from_str(&document).expect("a document");
                document["versions"]["1.0.0"]["dependencies"] = needs(name);
                form(&document, is_full, registry.says)
            });
            let answer = move |request: &Received| {
                let is_short = request.fields.first("accept").is_some_and(|accept| accept.contains(SHORT));
                forms[usize::from(is_short)].answer(request)
            };
            // Clients have three spellings of a name with a scope.
            for slash in ["%2f", "%2F", "/"] {
                registry.origin.on_request(&format!("/{}", name.replace('/', slash)), answer.clone());
            }
            std::fs::write(shop.folder("tarballs").join(&tarball), bytes).expect("writable");
            let url = format!("{}/signed/{tarball}?signature=1", registry.files_url());
            registry.origin.on(&place, registry.redirect(&url));
        }
        registry.archive("/signed/", shop.path("tarballs"));
    }

    fn work(&self, place: &Place<'_>, app: &str, lock: Option<&str>) -> String {
        let shop = place.shop;
        let folder = shop.folder(app);
        std::fs::write(folder.join("package.json"), manifest()).expect("writable");
        let (file, lines) = (self.settings)(&place.url);
        std::fs::write(folder.join(file), lines).expect("writable");
        if let Some(lock) = lock {
            std::fs::write(folder.join(self.lock), lock).expect("writable");
        }
        let mut command = (self.command)(place);
        command.current_dir(&folder).env("HOME", shop.folder(&format!("{app}-home")));
        command.args(lock.map_or(&["install"] as &[_], |_| self.frozen));
        command.env("XDG_CACHE_HOME", shop.folder(&format!("{app}-cache"))).env("CI", "true");
        run(command.env("XDG_DATA_HOME", shop.folder(&format!("{app}-data"))));
        expect_installed(&folder);
        std::fs::read_to_string(folder.join(self.lock)).expect("a lock")
    }
}

/// A document with the fields of public registries, or with none about caching.
fn form(document: &Value, is_full: bool, says: Says) -> Resource {
    let media = if is_full { "application/json" } else { SHORT };
    let text = document.to_string();
    let resource = Resource::new(text.clone()).field("Content-Type", media);
    match says {
        Says::Nothing => resource,
        Says::Lifetimes => resource
            .cache_control("public, max-age=300")
            .field("Vary", "accept-encoding, accept")
            .field("Set-Cookie", "session=1; HttpOnly")
            .etag(&format!("\"{:x}\"", text.len()))
            .last_modified("Wed, 01 Jan 2020 00:00:00 GMT"),
    }
}

const SHORT: &str = "application/vnd.npm.install-v1+json";

const BASE: Row = Row {
    client: "npm",
    task: "`install` of 3 packages, `ci`",
    kind: "npm",
    path: "",
    lock: Lock::Same,
    list: ("package-lock.json", "file=package-lock.json"),
    unlisted: &[],
    absent: "/npm/absent",
    prepare: || {
        let found = installed("npm") && installed("node");
        found.then(|| -> Box<dyn Client> {
            Box::new(Node {
                lock: "package-lock.json",
                frozen: &["ci"],
                command: |place| {
                    let mut npm = place.command("npm");
                    npm.args(["--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=0"]);
                    let settings = place.shop.write("global.npmrc", "");
                    npm.arg(format!("--globalconfig={}", settings.display()));
                    npm
                },
                settings: |registry| {
                    let lines = "replace-registry-host=always\nomit-lockfile-registry-resolved=true\n";
                    (".npmrc", format!("registry={registry}/\n{lines}"))
                },
            })
        })
    },
};

pub const NPM: Row = BASE;

pub const PNPM: Row = Row {
    client: "pnpm",
    task: "`install` of 3 packages, `--frozen-lockfile`",
    list: ("pnpm-lock.yaml", "file=pnpm-lock.yaml"),
    prepare: || {
        installed("pnpm").then(|| -> Box<dyn Client> {
            Box::new(Node {
                lock: "pnpm-lock.yaml",
                frozen: &["install", "--frozen-lockfile"],
                command: |place| {
                    let mut pnpm = place.command("pnpm");
                    pnpm.args([
                        "--config.node-linker=hoisted",
                        "--config.fetch-retries=0",
                        "--config.minimum-release-age=0",
                    ]);
                    pnpm
                },
                settings: |registry| (".npmrc", format!("registry={registry}/\n")),
            })
        })
    },
    ..BASE
};

pub const YARN_1: Row = Row {
    client: "Yarn 1",
    task: "`install` of 3 packages, `--frozen-lockfile`",
    lock: Lock::Rewritten,
    list: ("yarn.lock", "file=yarn.lock"),
    prepare: || {
        let file = client_file("node_modules/yarn/bin/yarn.js");
        file.map(|_| -> Box<dyn Client> {
            Box::new(Node {
                lock: "yarn.lock",
                frozen: &["install", "--frozen-lockfile"],
                command: |place| {
                    let mut node = place.command("node");
                    node.args(client_file("node_modules/yarn/bin/yarn.js")).arg("--no-progress");
                    node
                },
                settings: |registry| (".yarnrc", format!("registry \"{registry}/\"\n")),
            })
        })
    },
    ..BASE
};

pub const YARN_4: Row = Row {
    client: "Yarn 4",
    task: "`install` of 3 packages, `--immutable`",
    list: ("yarn.lock", "file=yarn.lock"),
    prepare: || {
        let file = client_file("node_modules/@yarnpkg/cli-dist/bin/yarn.js");
        file.map(|_| -> Box<dyn Client> {
            Box::new(Node {
                lock: "yarn.lock",
                frozen: &["install", "--immutable"],
                command: |place| {
                    let mut node = place.command("node");
                    node.args(client_file("node_modules/@yarnpkg/cli-dist/bin/yarn.js"));
                    node
                },
                settings: |registry| {
                    let lines = "nodeLinker: node-modules\nenableTelemetry: false\nenableGlobalCache: false\n\
                                 enableImmutableInstalls: false\nunsafeHttpWhitelist: [\"127.0.0.1\", \"127.*\"]\n";
                    (".yarnrc.yml", format!("{lines}npmRegistryServer: \"{registry}\"\n"))
                },
            })
        })
    },
    ..BASE
};
