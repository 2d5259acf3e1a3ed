//! pnpm, Yarn 1 and Yarn 4 through a mirror of npm's kind: cold, warm and offline, and with locks
//! made without the mirror. They are installed by hand ([testing](../../../docs/TESTING.md)).

use crate::mirrored::{Mirrored, rewritten};
use crate::mirrored_npm::{expect_installed, manifest, registry};
use crate::workshop::{Workshop, client_file, installed, run};
use shoal_testkit::Origin;
use std::path::PathBuf;
use std::process::Command;

/// A client of npm's registries.
struct NodeClient {
    /// Name in the table.
    name: &'static str,
    /// Name of its lock.
    lock: &'static str,
    /// Option for an install that must follow the lock.
    frozen: &'static str,
    /// Makes its command.
    command: fn(&Workshop) -> Command,
    /// Gives file and lines of its settings, for a registry.
    settings: fn(&str) -> (&'static str, String),
}

impl NodeClient {
    /// Installs in a folder of its own with empty caches, from a lock if there is one. Gives the
    /// lock.
    fn install(&self, shop: &Workshop, (app, registry): (&str, &str), lock: Option<&str>) -> String {
        let folder: PathBuf = shop.folder(app);
        std::fs::write(folder.join("package.json"), manifest()).expect("writable");
        let (file, lines) = (self.settings)(registry);
        std::fs::write(folder.join(file), lines).expect("writable");
        if let Some(lock) = lock {
            std::fs::write(folder.join(self.lock), lock).expect("writable");
        }
        let mut command = (self.command)(shop);
        command.current_dir(&folder).env("HOME", shop.folder(&format!("{app}-home"))).arg("install");
        command.args(lock.map(|_| self.frozen)).env("XDG_CACHE_HOME", shop.folder(&format!("{app}-cache")));
        command.env("CI", "true").env("XDG_DATA_HOME", shop.folder(&format!("{app}-data")));
        run(&mut command);
        expect_installed(&folder);
        std::fs::read_to_string(folder.join(self.lock)).expect("a lock")
    }

    /// Installs without a mirror and through one. `is_clean` tells that the locks are the same;
    /// otherwise `shoal lock` makes them the same.
    fn check(&self, is_clean: bool) {
        let (shop, origin) = (Workshop::new(), Origin::start());
        registry(&shop, &origin, &origin, &[]);
        let direct = self.install(&shop, ("direct", &origin.url()), None);
        let task = (self.name, "install of 3 packages, then with the lock");
        let mirrored = Mirrored { kind: "npm", origin: &origin, upstream_path: "", task };
        let mirror = format!("npm={}", origin.url());
        mirrored.thrice(&|external, round| {
            let app = |what: &str| format!("{what}-{round}");
            let own = self.install(&shop, (&app("app"), external), None);
            if is_clean {
                assert_eq!(own, direct, "the lock is clean");
            } else {
                assert_eq!(rewritten(&shop, ("--to-origin", &own), (&mirror, external)), direct);
            }
            let frozen = match is_clean {
                true => direct.clone(),
                false => rewritten(&shop, ("--to-mirror", &direct), (&mirror, external)),
            };
            assert_eq!(self.install(&shop, (&app("frozen"), external), Some(&frozen)), frozen);
        });
        mirrored.warmed((self.lock, &direct), &|external, _| {
            let frozen = match is_clean {
                true => direct.clone(),
                false => rewritten(&shop, ("--to-mirror", &direct), (&mirror, external)),
            };
            self.install(&shop, ("warmed", external), Some(&frozen));
        });
    }
}

#[test]
#[ignore = "needs a client that is installed by hand"]
fn pnpm_installs_through_a_mirror() {
    if !installed("pnpm") {
        return;
    }
    let client = NodeClient {
        name: "pnpm",
        lock: "pnpm-lock.yaml",
        frozen: "--frozen-lockfile",
        command: |shop| {
            let mut pnpm = shop.command("pnpm", None);
            pnpm.args([
                "--config.node-linker=hoisted",
                "--config.fetch-retries=0",
                "--config.minimum-release-age=0",
            ]);
            pnpm
        },
        settings: |registry| (".npmrc", format!("registry={registry}/\n")),
    };
    client.check(true);
}

#[test]
#[ignore = "needs a client that is installed by hand"]
fn yarn_1_installs_through_a_mirror() {
    if client_file("node_modules/yarn/bin/yarn.js").is_none() {
        return;
    }
    let client = NodeClient {
        name: "Yarn 1",
        lock: "yarn.lock",
        frozen: "--frozen-lockfile",
        command: |shop| {
            let mut node = shop.command("node", None);
            node.args(client_file("node_modules/yarn/bin/yarn.js")).arg("--no-progress");
            node
        },
        settings: |registry| (".yarnrc", format!("registry \"{registry}/\"\n")),
    };
    client.check(false);
}

#[test]
#[ignore = "needs a client that is installed by hand"]
fn yarn_4_installs_through_a_mirror() {
    if client_file("node_modules/@yarnpkg/cli-dist/bin/yarn.js").is_none() {
        return;
    }
    let client = NodeClient {
        name: "Yarn 4",
        lock: "yarn.lock",
        frozen: "--immutable",
        command: |shop| {
            let mut node = shop.command("node", None);
            node.args(client_file("node_modules/@yarnpkg/cli-dist/bin/yarn.js"));
            node
        },
        settings: |registry| {
            let lines = "nodeLinker: node-modules\nenableTelemetry: false\nenableGlobalCache: false\n\
                         enableImmutableInstalls: false\nunsafeHttpWhitelist: [\"127.0.0.1\", \"127.*\"]\n";
            (".yarnrc.yml", format!("{lines}npmRegistryServer: \"{registry}\"\n"))
        },
    };
    client.check(true);
}
